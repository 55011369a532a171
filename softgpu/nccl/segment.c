/*
 * segment.c - see segment.h: the memory, and waking those who sleep on its counters.
 */
#include "nccl/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Looks at a counter before sleeping: some 20 us, less than sleeping and being woken costs, where each rank can have a
 * core; about one where they must share. */
enum { SPINS_ALONE = 1024, SPINS_SHARED = 64 };

static void
futex_wake_all(_Atomic uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void
segment_init(struct segment *segment)
{
    memset(segment, 0, sizeof(*segment));
    for (int r = 0; r < SEGMENT_MAX_RANKS; ++r)
        segment->pidfds[r] = -1;
}

size_t
segment_bytes(int local_count)
{
    size_t n = (size_t)local_count;
    return n * sizeof(struct rank_slot) + n * n * sizeof(struct channel);
}

void
segment_place(struct segment *segment, int rank, int rank_count, const unsigned char *host_of)
{
    segment->rank = rank;
    segment->rank_count = rank_count;
    segment->local_count = 0;
    for (int r = 0; r < rank_count; ++r)
        segment->place[r] = !host_of || host_of[r] == host_of[rank] ? segment->local_count++ : -1;
    segment->spins = segment->local_count <= sysconf(_SC_NPROCESSORS_ONLN) ? SPINS_ALONE : SPINS_SHARED;
}

/* Anonymous memory: pages that are not used cost nothing. */
static bool
make_mirrors(struct segment *segment)
{
    for (int r = 0; r < segment->rank_count; ++r) {
        if (segment->place[r] >= 0)
            continue;
        void *memory = mmap(NULL, sizeof(struct mirror), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED)
            return false;
        segment->mirrors[r] = memory;
        segment->slots[r] = &segment->mirrors[r]->slot;
        atomic_store(&segment->slots[r]->state, RANK_JOINED);
    }
    return true;
}

static bool
is_sealed_memory(int memfd, size_t bytes)
{
    const int wanted_seals = F_SEAL_SHRINK | F_SEAL_GROW;
    struct stat status;
    if (fstat(memfd, &status) < 0)
        return false;
    int seals = fcntl(memfd, F_GET_SEALS);
    if (seals >= 0 && (seals & wanted_seals) == wanted_seals && (size_t)status.st_size == bytes)
        return true;
    errno = EBADF; /* memory that could shrink under us would be a SIGBUS later */
    return false;
}

bool
segment_map(struct segment *segment, int memfd)
{
    size_t bytes = segment_bytes(segment->local_count);
    if (!is_sealed_memory(memfd, bytes))
        return false;
    void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0);
    if (base == MAP_FAILED)
        return false;
    struct rank_slot *slots = base;
    segment->base = base;
    segment->bytes = bytes;
    segment->channels = (struct channel *)(slots + segment->local_count);
    for (int r = 0; r < segment->rank_count; ++r) {
        if (segment->place[r] >= 0)
            segment->slots[r] = &slots[segment->place[r]];
    }
    if (make_mirrors(segment))
        return true;
    int reason = errno;
    segment_unmap(segment);
    errno = reason;
    return false;
}

void
segment_unmap(struct segment *segment)
{
    if (segment->base)
        munmap(segment->base, segment->bytes);
    segment->base = NULL;
    for (int r = 0; r < SEGMENT_MAX_RANKS; ++r) {
        if (segment->mirrors[r])
            munmap(segment->mirrors[r], sizeof(struct mirror));
        segment->mirrors[r] = NULL;
        segment->slots[r] = NULL;
        if (segment->pidfds[r] >= 0)
            close(segment->pidfds[r]);
        segment->pidfds[r] = -1;
    }
}

/* ---- waking ---- */

void
segment_counter_set(struct counter *counter, uint32_t value)
{
    /* Sequentially consistent with the sleeper's announcement: either it sees the value or we see the sleeper. */
    atomic_store(&counter->value, value);
    if (atomic_load(&counter->waiters))
        futex_wake_all(&counter->value);
}

void
segment_ring(struct segment *segment, int peer)
{
    if (segment_is_remote(segment, peer))
        return;
    struct counter *bell = &segment->slots[peer]->progress[PROGRESS_BELL];
    atomic_fetch_add(&bell->value, 1);
    if (atomic_load(&bell->waiters))
        futex_wake_all(&bell->value);
}

void
segment_wake_sleepers(struct rank_slot *slot)
{
    for (int i = 0; i < PROGRESS_COUNT; ++i)
        futex_wake_all(&slot->progress[i].value);
}
