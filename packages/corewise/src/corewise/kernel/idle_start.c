/* Starts a program that gives way to all other work from its first instruction on:
 *
 *     idle_start CPU TRIAL TOLERATED PROGRAM [ARGUMENT...]
 *
 * 1. Takes the policy SCHED_IDLE, and stays on the CPU.
 * 2. Reads one byte from stdin: until then, whoever started this process may move it into a cgroup.
 * 3. Tries the CPU for TRIAL nanoseconds. If other work has it for more than TOLERATED of them, prints "busy"
 *    and ends: a loop in registers takes less from other work than the start of an interpreter.
 * 4. Becomes the program.
 *
 * An interpreter cannot do that for itself: it has run for tens of milliseconds when it gets to its first line.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { CPU = 1, TRIAL, TOLERATED, PROGRAM };

static int64_t now(clockid_t clock)
{
	struct timespec time;

	clock_gettime(clock, &time);
	return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static int become_idle_on(int cpu)
{
	const struct sched_param none = {0};
	size_t size = CPU_ALLOC_SIZE(cpu + 1);
	cpu_set_t *set = CPU_ALLOC(cpu + 1);

	if (set == NULL)
		return -1;
	CPU_ZERO_S(size, set);
	CPU_SET_S(cpu, size, set);
	return sched_setscheduler(0, SCHED_IDLE, &none) || sched_setaffinity(0, size, set) ? -1 : 0;
}

/* Whether other work has the CPU for longer than is tolerated. */
static int is_busy(int64_t trial, int64_t tolerated)
{
	int64_t began = now(CLOCK_MONOTONIC), ran = now(CLOCK_PROCESS_CPUTIME_ID), took = 0;

	while (took < trial) {
		took = now(CLOCK_MONOTONIC) - began;
		if (took - (now(CLOCK_PROCESS_CPUTIME_ID) - ran) > tolerated)
			return 1;
	}
	return 0;
}

int main(int count, char **given)
{
	static const char busy[] = "busy\n";
	char byte;

	if (count <= PROGRAM || become_idle_on(atoi(given[CPU])))
		return 1;
	if (read(STDIN_FILENO, &byte, 1) != 1)
		return 1;
	if (is_busy(atoll(given[TRIAL]), atoll(given[TOLERATED])))
		return write(STDOUT_FILENO, busy, sizeof(busy) - 1) < 0;
	execv(given[PROGRAM], given + PROGRAM);
	return 1;
}
