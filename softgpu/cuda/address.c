/*
 * address.c - which addresses device memory gets: the system's choice, or with SOFTGPU_ADDRESSES=real those of NVIDIA's
 * driver on a large GPU.
 *
 * There pools and virtual memory lie from 0x302000000 on, where 64-bit words of token ids, images or mostly-zero
 * numbers look like addresses; and cudaMalloc's memory is spread over as much as the GPU has, 139 GiB, below the end of
 * the address space. Where a program's own memory is in the way the next place is tried, in the end the system's.
 *
 * Called by: mapping.c and virtual.c. Takes no lock.
 */
#include "driver.h"

#include <sys/auxv.h>
#include <sys/mman.h>

#define GIB         ((uintptr_t)1 << 30)
#define POOL_BEGIN  ((uintptr_t)0x302000000)
#define PLAIN_BEGIN ((uintptr_t)0x7fdc00000000)

enum {
    UNIT_BYTES = 2 << 20,
    WINDOW_UNITS = (int)(139 * GIB / UNIT_BYTES),
    STRIDE_UNITS = 44017, /* prime to WINDOW_UNITS: 139 * 2^9 */
    TRIES = 256,
};

static void *
map(uintptr_t at, size_t bytes)
{
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (at != 0 ? MAP_FIXED_NOREPLACE : 0);
    void *region = mmap((void *)at, bytes, PROT_NONE, flags, -1, 0);
    if (region != MAP_FAILED && at != 0 &&
        (uintptr_t)region != at) { /* a kernel without the flag takes it for a wish */
        munmap(region, bytes);
        return MAP_FAILED;
    }
    return region;
}

/* The main thread's stack grows down to there. */
static bool
is_near_stack(uintptr_t at, size_t bytes)
{
    uintptr_t top = getauxval(AT_RANDOM);
    return at < top + GIB && at + bytes > top - GIB;
}

void *
address_reserve(enum address_place place, size_t bytes)
{
    static _Atomic uintptr_t pool_next = POOL_BEGIN; /* the next place to try, of each kind */
    static _Atomic unsigned plain_next;
    size_t units = (bytes + UNIT_BYTES - 1) / UNIT_BYTES;
    for (int i = 0; i < TRIES && driver.real_addresses && units <= WINDOW_UNITS && place != ADDRESS_ANY; ++i) {
        uintptr_t begin = place == ADDRESS_POOL ? POOL_BEGIN : PLAIN_BEGIN, end = begin + 139 * GIB;
        uintptr_t at =
            place == ADDRESS_POOL
                ? atomic_fetch_add(&pool_next, units * UNIT_BYTES)
                : begin + (uintptr_t)(atomic_fetch_add(&plain_next, 1) * (uint64_t)STRIDE_UNITS % WINDOW_UNITS) *
                              UNIT_BYTES;
        if (at >= end && place == ADDRESS_POOL) {
            atomic_store(&pool_next, begin);
        }
        void *region = at + bytes > end || is_near_stack(at, bytes) ? MAP_FAILED : map(at, bytes);
        if (region != MAP_FAILED) {
            return region;
        }
    }
    return map(0, bytes);
}
