/* An online service under an open-loop load, in two programs that share a file:
 *
 *   service generate FILE                  sends each request when it is due, whatever became of earlier ones
 *   service serve FILE WORK ROUNDS THREADS [CPU...]   serves them; with CPUs, thread i stays on the i-th
 *   service calibrate WORK SECONDS         prints the nanoseconds of CPU time that one round of work takes
 *
 * FILE holds a header and one record for each request, with its due time after the start drawn beforehand; the
 * start is written there once all are ready. FILE is in memory: pages of a disk would be waited for. Each
 * request is a fixed number of rounds of work: a CPU that is shared takes longer for it, and that shows. The
 * generator runs under SCHED_FIFO outside the service's cgroup, so that the kernel makes no request wait before
 * it is sent; how late it was is in the records. Requests wait in one queue, and sending one wakes one thread,
 * as an interrupt of the network would. Times are CLOCK_MONOTONIC in nanoseconds.
 *
 * WORK: compute (a chain of multiplications), cache (a random walk through 1 MiB, which fits a CPU's own cache
 * until others push it out), memory (reading 64 MiB one after the other, which no cache keeps).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
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
#include <time.h>
#include <unistd.h>

enum { LINE = 64, CACHE_BYTES = 1 << 20, MEMORY_BYTES = 64 << 20 };
enum { CHAIN = 64, STEPS = 8, LINES_READ = 16 }; /* of work in one round */

struct request {
	uint64_t due, sent, begun, done;
};

struct shared {
	uint32_t count;
	_Atomic uint32_t sent, taken, ready;
	_Atomic uint64_t start;
	struct request requests[];
};

struct worker {
	pthread_t thread;
	struct shared *shared;
	uint64_t rounds;
	int work, cpu;
};

static const char *const WORKS[] = { "compute", "cache", "memory" };

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec time;

	clock_gettime(clock, &time);
	return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static int work_of(const char *name)
{
	for (int work = 0; work < 3; work++)
		if (!strcmp(name, WORKS[work]))
			return work;
	fprintf(stderr, "service: no work named %s\n", name);
	exit(2);
}

/* A thread's own memory; for a walk each line holds the number of the next one, in one random ring. */
static uint32_t *make_memory(int work)
{
	size_t bytes = work == 2 ? MEMORY_BYTES : CACHE_BYTES, lines = bytes / LINE, words = LINE / sizeof(uint32_t);
	uint32_t *memory = aligned_alloc(4096, bytes), *order = malloc(lines * sizeof *order), state = 2463534242u;

	if (!memory || !order)
		fail("memory");
	memset(memory, 1, bytes);
	for (size_t i = 0; i < lines; i++)
		order[i] = (uint32_t)i;
	for (size_t i = lines - 1; i > 0; i--) {
		state ^= state << 13, state ^= state >> 17, state ^= state << 5;
		size_t other = state % (i + 1);
		uint32_t kept = order[i];

		order[i] = order[other], order[other] = kept;
	}
	for (size_t i = 0; i < lines; i++)
		memory[order[i] * words] = order[(i + 1) % lines];
	free(order);
	return memory;
}

static uint64_t work(int kind, uint32_t *memory, uint64_t rounds)
{
	static _Thread_local uint64_t sum = 88172645463325252u, at;
	size_t words = LINE / sizeof(uint32_t), lines = MEMORY_BYTES / LINE;

	for (uint64_t round = 0; round < rounds; round++) {
		if (kind == 0)
			for (int i = 0; i < CHAIN; i++)
				sum = sum * 6364136223846793005u + 1442695040888963407u;
		else if (kind == 1)
			for (int i = 0; i < STEPS; i++)
				at = memory[at * words];
		else
			for (int i = 0; i < LINES_READ; i++)
				sum += memory[(at++ % lines) * words];
		__asm__ volatile("" : "+r"(sum), "+r"(at));
	}
	return sum + at;
}

static long futex(_Atomic uint32_t *word, int operation, uint32_t value)
{
	return syscall(SYS_futex, word, operation, value, NULL, NULL, 0);
}

static void *serve(void *argument)
{
	struct worker *self = argument;
	struct shared *shared = self->shared;
	uint32_t *memory = make_memory(self->work);
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(self->cpu < 0 ? 0 : self->cpu, &set);
	if (self->cpu >= 0 && sched_setaffinity(0, sizeof set, &set))
		fail("sched_setaffinity");
	work(self->work, memory, self->rounds);
	atomic_fetch_add(&shared->ready, 1);
	for (;;) {
		uint32_t next = atomic_load(&shared->taken), sent = atomic_load(&shared->sent); /* in this order: next <= sent */

		if (next == shared->count)
			return NULL;
		if (next == sent)
			futex(&shared->sent, FUTEX_WAIT, sent);
		else if (atomic_compare_exchange_strong(&shared->taken, &next, next + 1)) {
			struct request *request = &shared->requests[next];

			request->begun = clock_ns(CLOCK_MONOTONIC);
			work(self->work, memory, self->rounds);
			request->done = clock_ns(CLOCK_MONOTONIC);
			if (next + 1 == shared->count) /* others may sleep still, and nothing more is sent */
				futex(&shared->sent, FUTEX_WAKE, UINT32_MAX >> 1);
		}
	}
}

static struct shared *open_shared(const char *path)
{
	int file = open(path, O_RDWR);
	struct stat found;
	struct shared *shared;

	if (file < 0 || fstat(file, &found))
		fail(path);
	shared = mmap(NULL, (size_t)found.st_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file, 0);
	if (shared == MAP_FAILED)
		fail(path);
	return shared;
}

static int run_servers(int argc, char **argv)
{
	struct shared *shared = open_shared(argv[2]);
	int threads = atoi(argv[5]);
	struct worker *workers = calloc((size_t)threads, sizeof *workers);

	for (int i = 0; i < threads; i++) {
		workers[i] = (struct worker){ .shared = shared, .rounds = strtoull(argv[4], NULL, 10) };
		workers[i].work = work_of(argv[3]);
		workers[i].cpu = argc > 6 ? atoi(argv[6 + i % (argc - 6)]) : -1;
		if (pthread_create(&workers[i].thread, NULL, serve, &workers[i]))
			fail("pthread_create");
	}
	for (int i = 0; i < threads; i++)
		pthread_join(workers[i].thread, NULL);
	return 0;
}

static int generate(const char *path)
{
	struct shared *shared = open_shared(path);
	struct sched_param priority = { .sched_priority = 10 };
	struct timespec short_while = { 0, 1000000 };
	uint64_t start;

	if (mlockall(MCL_CURRENT) || sched_setscheduler(0, SCHED_FIFO, &priority))
		fail("service generate needs SCHED_FIFO");
	atomic_fetch_add(&shared->ready, 1);
	while (!(start = atomic_load(&shared->start)))
		nanosleep(&short_while, NULL);
	for (uint32_t i = 0; i < shared->count; i++) {
		uint64_t at = start + shared->requests[i].due;
		struct timespec due = { (time_t)(at / 1000000000u), (long)(at % 1000000000u) };

		while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL) == EINTR)
			;
		shared->requests[i].sent = clock_ns(CLOCK_MONOTONIC);
		atomic_store(&shared->sent, i + 1);
		futex(&shared->sent, FUTEX_WAKE, 1);
	}
	return 0;
}

/* The fastest of many short measurements: what disturbs one makes it slower, never faster. */
static int calibrate(int kind, double seconds)
{
	uint32_t *memory = make_memory(kind);
	uint64_t rounds = 20000, until, best = UINT64_MAX;

	work(kind, memory, rounds * 10);
	until = clock_ns(CLOCK_MONOTONIC) + (uint64_t)(seconds * 1e9);
	while (clock_ns(CLOCK_MONOTONIC) < until) {
		uint64_t before = clock_ns(CLOCK_THREAD_CPUTIME_ID), spent;

		work(kind, memory, rounds);
		spent = clock_ns(CLOCK_THREAD_CPUTIME_ID) - before;
		best = spent < best ? spent : best;
	}
	printf("%.3f\n", (double)best / (double)rounds);
	return 0;
}

int main(int argc, char **argv)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* it never outlives the experiment, however that ends */
	if (argc >= 6 && !strcmp(argv[1], "serve"))
		return run_servers(argc, argv);
	if (argc == 3 && !strcmp(argv[1], "generate"))
		return generate(argv[2]);
	if (argc == 4 && !strcmp(argv[1], "calibrate"))
		return calibrate(work_of(argv[2]), atof(argv[3]));
	fprintf(stderr, "usage: service serve | generate | calibrate ...; service.c says how\n");
	return 2;
}
