/* An online service under an open-loop load:
 *
 *   service serve FILE WORK ROUNDS THREADS PINNED ROOT CPU...   PINNED: whether thread i stays on the i-th CPU
 *   service calibrate WORK SECONDS         prints the nanoseconds of CPU time that one round of work takes
 *
 * FILE holds a header and one record for each request, with its due time after the start drawn beforehand; the
 * start is written there once all are ready. FILE is in memory: pages of a disk would be waited for. Each
 * request is a fixed number of rounds of work: a CPU that is shared takes longer for it, and that shows.
 *
 * A request arrives as one from the network does: an interrupt on one of the CPUs, drawn at random, wakes a
 * thread that waits in epoll. The interrupts are timers. A generator, a process of its own under SCHED_FIFO in the
 * cgroup whose file ROOT is, sets them some milliseconds ahead from a thread on each CPU, so it does not run when a
 * request arrives. A thread serves what is due, first come first served, until nothing is. Times are
 * CLOCK_MONOTONIC in nanoseconds.
 *
 * WORK: compute (a chain of multiplications), cache (a random walk through 1 MiB, which fits a CPU's own cache
 * until others push it out), memory (reading 64 MiB one after the other, which no cache keeps).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LINE = 64, CACHE_BYTES = 1 << 20, MEMORY_BYTES = 64 << 20 };
enum { CHAIN = 64, STEPS = 8, LINES_READ = 16 }; /* of work in one round */

enum { TIMERS = 240, AHEAD_NS = 20000000, WAKE_NS = 15000000 }; /* of each CPU's thread of the generator */

struct request {
	uint64_t due, begun, done;
};

struct shared {
	uint32_t count;
	_Atomic uint32_t taken, ready, generator;
	_Atomic uint64_t start;
	struct request requests[];
};

struct worker {
	pthread_t thread;
	struct shared *shared;
	uint64_t rounds;
	int work, cpu, events, over;
};

struct source {
	pthread_t thread;
	struct shared *shared;
	int cpu, index, sources, timers[TIMERS];
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

static void stay_on(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof set, &set))
		fail("sched_setaffinity");
}

static uint64_t started(struct shared *shared)
{
	struct timespec short_while = { 0, 1000000 };
	uint64_t start;

	atomic_fetch_add(&shared->ready, 1);
	while (!(start = atomic_load(&shared->start)))
		nanosleep(&short_while, NULL);
	return start;
}

static void *serve(void *argument)
{
	struct worker *self = argument;
	struct shared *shared = self->shared;
	uint32_t *memory = make_memory(self->work);
	uint64_t start;

	if (self->cpu >= 0)
		stay_on(self->cpu);
	work(self->work, memory, self->rounds);
	start = started(shared);
	for (;;) {
		uint32_t next = atomic_load(&shared->taken);
		struct request *request = &shared->requests[next];
		struct epoll_event event;

		if (next == shared->count) {
			eventfd_write(self->over, 1); /* wakes all that wait still */
			return NULL;
		}
		if (start + request->due > clock_ns(CLOCK_MONOTONIC))
			epoll_wait(self->events, &event, 1, -1);
		else if (atomic_compare_exchange_strong(&shared->taken, &next, next + 1)) {
			request->begun = clock_ns(CLOCK_MONOTONIC);
			work(self->work, memory, self->rounds);
			request->done = clock_ns(CLOCK_MONOTONIC);
		}
	}
}

/* Set the timers of the requests that arrive at one CPU, each some milliseconds before it is due. */
static void *arrive(void *argument)
{
	struct source *self = argument;
	struct shared *shared = self->shared;
	uint64_t start;
	uint32_t set = 0;

	stay_on(self->cpu);
	start = started(shared);
	for (uint32_t i = 0; i < shared->count; i++) {
		uint64_t at = start + shared->requests[i].due;
		struct itimerspec due = { .it_value = { (time_t)(at / 1000000000u), (long)(at % 1000000000u) } };

		if ((i * 2654435761u >> 16) % (uint32_t)self->sources != (uint32_t)self->index)
			continue;
		while (at > clock_ns(CLOCK_MONOTONIC) + AHEAD_NS) {
			struct timespec pause = { 0, WAKE_NS };

			nanosleep(&pause, NULL);
		}
		timerfd_settime(self->timers[set++ % TIMERS], TFD_TIMER_ABSTIME, &due, NULL);
	}
	pause(); /* its CPU time is read, as long as it is there */
	return NULL;
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

static void generate(struct shared *shared, struct source *sources, int count, const char *root)
{
	struct sched_param priority = { .sched_priority = 10 };
	int file = open(root, O_WRONLY);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (file < 0 || write(file, "0", 1) != 1)
		fail(root);
	if (mlockall(MCL_CURRENT) || sched_setscheduler(0, SCHED_FIFO, &priority))
		fail("the generator needs SCHED_FIFO");
	atomic_store(&shared->generator, (uint32_t)getpid());
	for (int i = 0; i < count; i++)
		if (pthread_create(&sources[i].thread, NULL, arrive, &sources[i]))
			fail("pthread_create");
	for (int i = 0; i < count; i++)
		pthread_join(sources[i].thread, NULL);
}

static int run_service(int argc, char **argv)
{
	struct shared *shared = open_shared(argv[2]);
	int threads = atoi(argv[5]), pinned = atoi(argv[6]), cpus = argc - 8;
	int events = epoll_create1(0), over = eventfd(0, 0);
	struct epoll_event whole = { .events = EPOLLIN };
	struct worker *workers = calloc((size_t)threads, sizeof *workers);
	struct source *sources = calloc((size_t)cpus, sizeof *sources);
	struct rlimit files;
	pid_t generator;

	if (getrlimit(RLIMIT_NOFILE, &files))
		fail("getrlimit");
	files.rlim_cur = files.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &files))
		fail("setrlimit");
	if (epoll_ctl(events, EPOLL_CTL_ADD, over, &whole))
		fail("epoll");
	for (int i = 0; i < cpus * TIMERS; i++) {
		struct epoll_event event = { .events = EPOLLIN | EPOLLET };
		int timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);

		if (timer < 0 || epoll_ctl(events, EPOLL_CTL_ADD, timer, &event))
			fail("timerfd");
		sources[i / TIMERS].timers[i % TIMERS] = timer;
	}
	for (int i = 0; i < cpus; i++) {
		sources[i].shared = shared, sources[i].cpu = atoi(argv[8 + i]);
		sources[i].index = i, sources[i].sources = cpus;
	}
	generator = fork();
	if (generator == 0)
		generate(shared, sources, cpus, argv[7]);
	for (int i = 0; i < threads; i++) {
		workers[i] = (struct worker){ .shared = shared, .rounds = strtoull(argv[4], NULL, 10), .events = events };
		workers[i].over = over;
		workers[i].work = work_of(argv[3]);
		workers[i].cpu = pinned ? sources[i % cpus].cpu : -1;
		if (pthread_create(&workers[i].thread, NULL, serve, &workers[i]))
			fail("pthread_create");
	}
	for (int i = 0; i < threads; i++)
		pthread_join(workers[i].thread, NULL);
	kill(generator, SIGKILL);
	waitpid(generator, NULL, 0);
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
	if (argc >= 9 && !strcmp(argv[1], "serve"))
		return run_service(argc, argv);
	if (argc == 4 && !strcmp(argv[1], "calibrate"))
		return calibrate(work_of(argv[2]), atof(argv[3]));
	fprintf(stderr, "usage: service serve | calibrate ...; service.c says how\n");
	return 2;
}
