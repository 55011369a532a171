/*
 * visible.c - memory that both the host and the device reach: managed and pinned allocations.
 *
 * The host can write a gradient's address there without any call. So where a kernel gets a pointer into such memory,
 * what lies behind the pointer is searched for addresses before the kernel is enqueued: at most LOOK_AT_MOST bytes, and
 * only in managed allocations that are no larger, for looking at them moves their pages to the host.
 *
 * Everything is read through the kernel (peek.c): memory that is going away at this moment must not end the trainer.
 * Called from the hooks in any thread.
 */
#include "interpose/engine/escapes.h"

#include "base/message.h"

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

/* Returns whether all of it could be read. */
static bool
look_through(uint64_t address, size_t bytes)
{
    union {
        uint64_t words[CHUNK_BYTES / sizeof(uint64_t)];
        char bytes[CHUNK_BYTES];
    } chunk;
    for (size_t at = 0; at + sizeof(uint64_t) <= bytes; at += CHUNK_BYTES - sizeof(uint32_t)) {
        size_t here = bytes - at < CHUNK_BYTES ? bytes - at : CHUNK_BYTES; /* an address may lie across two chunks */
        size_t got = peek(address + at, &chunk, here);
        if (got > 0)
            (void)escape_from_host(&chunk, got);
        if (got < here)
            return false;
    }
    return true;
}

void
visible_look_through(uint64_t address, size_t bytes)
{
    (void)look_through(address, bytes); /* what is not there is nobody's address */
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

/* The allocation is there, and may hold any address. */
static void
say_unreadable(void)
{
    static _Atomic bool said;
    escape_of_all();
    if (engine_state.rendezvous.rank == 0 && !atomic_exchange(&said, true))
        message_line("managed or pinned memory that kernels read cannot be looked into here (process_vm_writev "
                     "and pipes fail): all gradients are averaged at DDP_STEP, without overlap");
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
    if (!look_through(address, bytes < LOOK_AT_MOST ? bytes : LOOK_AT_MOST))
        say_unreadable();
}
