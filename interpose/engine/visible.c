/*
 * visible.c - memory that both the host and the device reach: managed and pinned allocations.
 *
 * The host can write a gradient's address there without any call. So where a kernel gets a pointer into such memory,
 * what lies behind the pointer is searched for addresses before the kernel is enqueued: at most LOOK_AT_MOST bytes, and
 * only in managed allocations that are no larger, for looking at them moves their pages to the host.
 *
 * Everything is read through process_vm_readv: memory that is going away at this moment must not end the trainer.
 * Called from the hooks in any thread.
 */
#include "interpose/engine/state.h"

#include <sys/uio.h>
#include <unistd.h>

enum { LOOK_AT_MOST = 64 << 10, CHUNK_BYTES = 16 << 10 };

static struct ranges visible; /* id: enum memory_kind; guarded by the engine's lock */
static _Atomic uint64_t visible_lowest = UINT64_MAX, visible_highest;

static void
update_bounds(void)
{
    size_t count = visible.count;
    atomic_store(&visible_lowest, count > 0 ? visible.sorted[0].begin : UINT64_MAX);
    atomic_store(&visible_highest, count > 0 ? visible.sorted[count - 1].end : 0);
    miss_ranges_changed();
}

const struct ranges *
visible_ranges(void)
{
    return &visible;
}

void
visible_add(CUdeviceptr address, size_t bytes, enum memory_kind kind)
{
    struct range other;
    enum ranges_status status;
    pthread_mutex_lock(&engine_state.lock);
    /* What overlaps is gone, whoever has forgotten to say so. */
    while ((status = ranges_add(&visible, address, bytes, (size_t)kind, &other)) == RANGES_OVERLAP)
        (void)ranges_remove(&visible, other.begin);
    update_bounds();
    pthread_mutex_unlock(&engine_state.lock);
    if (status == RANGES_NO_MEMORY)
        stop_job("out of memory");
}

void
visible_remove(CUdeviceptr address)
{
    if (!visible_may_hold(address))
        return;
    pthread_mutex_lock(&engine_state.lock);
    (void)ranges_remove(&visible, address);
    update_bounds();
    pthread_mutex_unlock(&engine_state.lock);
}

bool
visible_may_hold(uint64_t address)
{
    return address >= atomic_load_explicit(&visible_lowest, memory_order_relaxed) &&
           address < atomic_load_explicit(&visible_highest, memory_order_relaxed);
}

void
visible_look_through(uint64_t address, size_t bytes)
{
    union {
        uint64_t words[CHUNK_BYTES / sizeof(uint64_t)];
        char bytes[CHUNK_BYTES];
    } chunk;
    pid_t self = getpid();
    for (size_t at = 0; at + sizeof(uint64_t) <= bytes; at += CHUNK_BYTES - sizeof(uint32_t)) {
        size_t here = bytes - at < CHUNK_BYTES ? bytes - at : CHUNK_BYTES; /* an address may lie across two chunks */
        struct iovec to = {&chunk, here}, from = {(void *)(uintptr_t)(address + at), here};
        ssize_t got = process_vm_readv(self, &to, 1, &from, 1, 0);
        if (got < (ssize_t)sizeof(uint64_t))
            return;
        (void)escape_from_host(&chunk, (size_t)got);
    }
}

bool
visible_has(uint64_t address, size_t bytes)
{
    size_t count;
    if (!visible_may_hold(address))
        return false;
    pthread_mutex_lock(&engine_state.lock);
    const struct range *range = ranges_find(&visible, address, bytes, &count);
    bool all = count == 1 && range->begin <= address && range->end >= address + bytes;
    pthread_mutex_unlock(&engine_state.lock);
    return all;
}

void
visible_look_behind(uint64_t address)
{
    size_t count;
    struct range found = {0};
    pthread_mutex_lock(&engine_state.lock);
    const struct range *range = ranges_find(&visible, address, 1, &count);
    if (range != NULL)
        found = *range;
    pthread_mutex_unlock(&engine_state.lock);
    if (found.end == 0 || (found.id == MEMORY_MANAGED && found.end - found.begin > LOOK_AT_MOST))
        return;
    size_t bytes = found.end - address;
    visible_look_through(address, bytes < LOOK_AT_MOST ? bytes : LOOK_AT_MOST);
}
