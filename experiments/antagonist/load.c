/* An online program under a load that varies: load THREADS PART PERIOD_MS SEED
 *
 * Each thread works for PART of a CPU on average: in every period, of PERIOD_MS on average, it takes so much CPU
 * time and sleeps until the next one. A period that is late is worked off at once, as requests that wait are. Every
 * 1 to 4 s the part is drawn anew, from a half to one and a half of PART.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

enum { PIECE = 4096, NANO = 1000000000 };

static double part, period;

static int64_t clock_ns(clockid_t clock)
{
	struct timespec time;

	clock_gettime(clock, &time);
	return (int64_t)time.tv_sec * NANO + time.tv_nsec;
}

static double drawn(uint64_t *state)
{
	*state ^= *state << 13, *state ^= *state >> 7, *state ^= *state << 17;
	return (double)(*state >> 11) / (double)(1ull << 53);
}

static void work(int64_t nanoseconds)
{
	int64_t until = clock_ns(CLOCK_THREAD_CPUTIME_ID) + nanoseconds;
	uint64_t sum = 1;

	while (clock_ns(CLOCK_THREAD_CPUTIME_ID) < until) {
		for (int i = 0; i < PIECE; i++)
			sum = sum * 6364136223846793005u + 1442695040888963407u;
		__asm__ volatile("" : "+r"(sum));
	}
}

static void *serve(void *seed)
{
	uint64_t state = (uint64_t)(uintptr_t)seed * 2654435761u + 88172645463325252u;
	int64_t due = clock_ns(CLOCK_MONOTONIC), changes = due;
	double now = part;

	for (;;) {
		double length = period * (0.5 + drawn(&state));
		struct timespec at;

		if (due >= changes) {
			now = part * (0.5 + drawn(&state));
			changes = due + (int64_t)((1 + 3 * drawn(&state)) * NANO);
		}
		work((int64_t)(length * now));
		due += (int64_t)length;
		if (clock_ns(CLOCK_MONOTONIC) - due > NANO) /* a second late: it refuses work, as services do */
			due = clock_ns(CLOCK_MONOTONIC);
		at.tv_sec = due / NANO, at.tv_nsec = due % NANO;
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t thread;

	if (argc != 5) {
		fprintf(stderr, "usage: load THREADS PART PERIOD_MS SEED\n");
		return 2;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* it never outlives the experiment, however that ends */
	part = atof(argv[2]), period = atof(argv[3]) * 1e6;
	for (int i = 1; i < atoi(argv[1]); i++)
		pthread_create(&thread, NULL, serve, (void *)(uintptr_t)(atoi(argv[4]) + i));
	serve((void *)(uintptr_t)atoi(argv[4]));
	return 0;
}
