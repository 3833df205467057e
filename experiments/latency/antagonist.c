/* Offline work that never sleeps: antagonist KIND FILE INDEX [SLICE_NS]
 *
 * KIND: spin (computes), stream (copies 32 MiB, again and again), fork (starts processes that end at once), faults
 * (maps, touches and unmaps 4 MiB), threads (16 threads that compute). The INDEX-th word of FILE counts what is done.
 * SLICE_NS asks the kernel for such a time slice (sched_setattr; 0: none is asked for).
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { COPY = 32 << 20, TOUCHED = 4 << 20, PIECE = 1 << 16, THREADS = 16 };

static _Atomic uint64_t *done;

static void *spin(void *unused)
{
	uint64_t sum = 1;

	(void)unused;
	for (;;) {
		for (int i = 0; i < PIECE; i++)
			sum = sum * 6364136223846793005u + 1442695040888963407u;
		__asm__ volatile("" : "+r"(sum));
		atomic_fetch_add(done, 1);
	}
	return NULL;
}

static void stream(void)
{
	char *from = malloc(COPY), *to = malloc(COPY);

	for (;;)
		for (size_t at = 0; at < COPY; at += PIECE) {
			memcpy(to + at, from + at, PIECE);
			__asm__ volatile("" : : : "memory");
			atomic_fetch_add(done, 1);
		}
}

static void forks(void)
{
	for (;;) {
		pid_t child = fork();

		if (child == 0)
			_exit(0);
		waitpid(child, NULL, 0);
		atomic_fetch_add(done, 1);
	}
}

static void faults(void)
{
	for (;;) {
		char *pages = mmap(NULL, TOUCHED, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		for (size_t at = 0; at < TOUCHED; at += 4096)
			pages[at] = 1;
		munmap(pages, TOUCHED);
		atomic_fetch_add(done, 1);
	}
}

static void threads(void)
{
	pthread_t thread;

	for (int i = 1; i < THREADS; i++)
		pthread_create(&thread, NULL, spin, NULL);
	spin(NULL);
}

/* struct sched_attr as of Linux 3.14; the policy stays SCHED_OTHER, for which the runtime is the slice (6.12). */
static void ask_slice(uint64_t slice)
{
	struct {
		uint32_t size, policy;
		uint64_t flags;
		int32_t nice;
		uint32_t priority;
		uint64_t runtime, deadline, period;
	} attributes = { .size = 48, .runtime = slice };

	if (slice && syscall(SYS_sched_setattr, 0, &attributes, 0))
		perror("sched_setattr");
}

int main(int argc, char **argv)
{
	int file = argc < 4 ? -1 : open(argv[2], O_RDWR);
	struct stat found;

	if (file < 0 || fstat(file, &found)) {
		fprintf(stderr, "usage: antagonist KIND FILE INDEX [SLICE_NS]\n");
		return 2;
	}
	done = mmap(NULL, (size_t)found.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (done == MAP_FAILED) {
		perror("mmap");
		return 1;
	}
	done += atoi(argv[3]);
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* it never outlives the experiment, however that ends */
	ask_slice(argc > 4 ? strtoull(argv[4], NULL, 10) : 0);
	if (!strcmp(argv[1], "spin"))
		spin(NULL);
	if (!strcmp(argv[1], "stream"))
		stream();
	if (!strcmp(argv[1], "fork"))
		forks();
	if (!strcmp(argv[1], "faults"))
		faults();
	if (!strcmp(argv[1], "threads"))
		threads();
	fprintf(stderr, "antagonist: no kind named %s\n", argv[1]);
	return 2;
}
