/* How long one read from memory takes: flush lines from every cache, then follow them once, each read
 * waiting for the one before.
 *
 * Each line lies on a page of its own, at another place in it, and the order is random, so that no prefetcher
 * knows the next one. Flushing a line looks its page up, so the reads find their translations. One round
 * flushes and follows all lines; the time of a round is that of LINES reads.
 *
 * Sources: Intel 64 SDM, CLFLUSH and MFENCE; Arm ARM, DC CIVAC (Linux lets user space use it) and DSB.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { LINES = 256, LINE_BYTES = 64, LINES_PER_PAGE = 4096 / LINE_BYTES };

#if defined(__x86_64__)
static inline void flush(const void *line) { __asm__ volatile("clflush (%0)" : : "r"(line) : "memory"); }
static inline void fence(void) { __asm__ volatile("mfence" : : : "memory"); }
#elif defined(__aarch64__)
static inline void flush(const void *line) { __asm__ volatile("dc civac, %0" : : "r"(line) : "memory"); }
static inline void fence(void) { __asm__ volatile("dsb ish\n\tisb" : : : "memory"); }
#else
#error "this processor has no instruction here that flushes a line"
#endif

static uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

/* A fixed sequence that looks random (xorshift): every probe follows the same order. */
static uint32_t next_random(uint32_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 17;
	*state ^= *state << 5;
	return *state;
}

/* Link the lines into one ring in random order; return the first of it. */
static void **link_lines(char *pages, size_t page)
{
	void **lines[LINES];
	uint32_t state = 2463534242u;

	for (unsigned i = 0; i < LINES; i++)
		lines[i] = (void **)(pages + i * page + (i * 7 % LINES_PER_PAGE) * LINE_BYTES);
	for (unsigned i = LINES - 1; i > 0; i--) {
		unsigned other = next_random(&state) % (i + 1);
		void **line = lines[i];

		lines[i] = lines[other];
		lines[other] = line;
	}
	for (unsigned i = 0; i < LINES; i++)
		*lines[i] = lines[(i + 1) % LINES];
	return lines[0];
}

/* The order of flushing is that of the pages: nothing is learned from it about the order of the reads. */
static void flush_lines(const char *pages, size_t page)
{
	for (unsigned i = 0; i < LINES; i++)
		flush(pages + i * page + (i * 7 % LINES_PER_PAGE) * LINE_BYTES);
	fence();
}

static uint64_t follow(void **first)
{
	void **volatile last;
	void **line = first;
	uint64_t began = now();

	for (unsigned i = 0; i < LINES; i++)
		line = *(void **volatile *)line;
	last = line;
	(void)last;
	fence();
	return now() - began;
}

/* Put the nanoseconds of LINES reads into each of `rounds` places; return 0 or an errno.
 * The pages belong to the NUMA node of the CPU that this runs on: it is the first to touch them. */
int corewise_chase(uint32_t rounds, uint64_t *nanoseconds)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *pages = mmap(NULL, LINES * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	void **first;

	if (pages == MAP_FAILED)
		return errno;
	/* A huge page would lie behind one translation, as no program's scattered data does. */
	(void)madvise(pages, LINES * page, MADV_NOHUGEPAGE);
	first = link_lines(pages, page);
	for (uint32_t round = 0; round < rounds; round++) {
		flush_lines(pages, page);
		nanoseconds[round] = follow(first);
	}
	munmap(pages, LINES * page);
	return 0;
}

uint32_t corewise_chase_lines(void) { return LINES; }
