/*
 * host_accessible.c - memory that both the host and the device reach: managed and pinned allocations.
 *
 * The host can write a gradient's address there without any call. So where a kernel gets a pointer into such memory,
 * what lies behind the pointer is searched for addresses before the kernel is enqueued: at most LOOK_AT_MOST bytes, and
 * only in managed allocations that are no larger, for looking at them moves their pages to the host.
 *
 * Everything is read through the kernel (peek.c): memory that is going away at this moment must not end the trainer.
 * Called from the hooks in any thread.
 */
#include "interpose/engine/memory/escapes.h"

#include "base/message.h"

enum { LOOK_AT_MOST = 64 << 10, CHUNK_BYTES = 16 << 10 };

struct bounded_ranges host_accessible; /* id: enum memory_kind; guarded by the engine's lock */

static void
host_accessible_add(CUdeviceptr address, size_t bytes, enum memory_kind kind)
{
    struct range other;
    enum ranges_status status;
    engine_lock();
    /* What overlaps is gone, and its release was not reported. */
    while ((status = ranges_add(&host_accessible.ranges, address, bytes, (size_t)kind, &other)) == RANGES_OVERLAP)
        (void)ranges_remove(&host_accessible.ranges, other.begin);
    launch_filter_ranges_changed(&host_accessible);
    engine_unlock();
    require_allocated(status != RANGES_NO_MEMORY);
}

void
host_accessible_remove(CUdeviceptr address)
{
    if (!bounded_may_hold(&host_accessible, address, 1))
        return;
    engine_lock();
    (void)ranges_remove(&host_accessible.ranges, address);
    launch_filter_ranges_changed(&host_accessible);
    engine_unlock();
}

bool
host_accessible_look_through(uint64_t address, size_t bytes)
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

bool
host_accessible_has(uint64_t address, size_t bytes)
{
    size_t count;
    if (!bounded_may_hold(&host_accessible, address, 1))
        return false;
    engine_lock();
    const struct range *range = ranges_find(&host_accessible.ranges, address, bytes, &count);
    bool all = count == 1 && range->begin <= address && range->end >= address + bytes;
    engine_unlock();
    return all;
}

bool
host_accessible_is_pinned(uint64_t address)
{
    size_t count;
    if (!bounded_may_hold(&host_accessible, address, 1))
        return false;
    engine_lock();
    const struct range *range = ranges_find(&host_accessible.ranges, address, 1, &count);
    bool pinned = range != NULL && range->begin == address && range->id == MEMORY_PINNED;
    engine_unlock();
    return pinned;
}

/* The allocation is there, and may hold any address. */
static void
say_unreadable(const char *why)
{
    static _Atomic bool said;
    escape_of_all();
    if (engine_state.rendezvous.rank == 0 && !atomic_exchange(&said, true))
        message_warning("unreadable_memory",
                        "managed or pinned memory that kernels read cannot be searched for addresses here (%s): all "
                        "gradients are averaged at DDP_STEP, without overlap",
                        why);
}

/* Whether the host may read managed memory while kernels run: not in WSL2, where that is a fault. */
static bool
may_read_managed(void)
{
    enum { UNKNOWN, NO, YES };
    static _Atomic int answer = UNKNOWN;
    const struct driver *driver = &engine_state.driver;
    if (atomic_load(&answer) == UNKNOWN) {
        CUdevice device;
        int may = 0;
        bool is_known =
            driver->cuCtxGetDevice_p(&device) == CUDA_SUCCESS &&
            driver->cuDeviceGetAttribute_p(&may, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, device) == CUDA_SUCCESS;
        atomic_store(&answer, !is_known || may != 0 ? YES : NO);
    }
    return atomic_load(&answer) == YES;
}

void
host_accessible_look_behind(uint64_t address)
{
    size_t count;
    struct range found = {0};
    engine_lock();
    const struct range *range = ranges_find(&host_accessible.ranges, address, 1, &count);
    if (range != NULL)
        found = *range;
    engine_unlock();
    bool is_managed = found.id == MEMORY_MANAGED;
    if (found.end == 0 || (is_managed && found.end - found.begin > LOOK_AT_MOST))
        return;
    if (is_managed && !may_read_managed()) {
        say_unreadable("the host may not read managed memory while kernels run, concurrentManagedAccess is 0");
        return;
    }
    size_t bytes = found.end - address;
    if (!host_accessible_look_through(address, bytes < LOOK_AT_MOST ? bytes : LOOK_AT_MOST))
        say_unreadable("process_vm_writev and pipes fail");
}

/* ---- allocations, and what the driver knows of them ---- */

/* Of an address that the program has named, perhaps before any annotation. */
static struct memory_facts
ask_driver(CUdeviceptr address)
{
    static const struct ddp_site site = {"", "a copy", 0};
    device_ensure_driver(&site);
    return device_ask_about(address);
}

void
escape_allocated(const CUdeviceptr *address, size_t bytes, enum memory_kind kind)
{
    if (address == NULL || *address == 0)
        return;
    bool is_host = kind == MEMORY_HOST || kind == MEMORY_PINNED;
    if (kind == MEMORY_MANAGED || is_host)
        host_accessible_add(*address, bytes, kind);
    if (is_host)
        return;
    struct memory_facts facts = {.begin = *address, .bytes = bytes};
    if (bytes == 0)
        facts = ask_driver(*address);
    if (facts.begin + facts.bytes <= *address)
        return; /* annotated all the same, it counts as escaped */
    bool added = LOCKED(allocations_add(*address, facts.begin + facts.bytes - *address, kind));
    require_allocated(added);
}

void
escape_from_anywhere(CUdeviceptr source, size_t bytes)
{
    struct memory_facts facts = ask_driver(source);
    if (facts.type != 0 && facts.is_managed)
        host_accessible_look_behind(source);
    else if (facts.type == 0 || facts.type == CU_MEMORYTYPE_HOST) /* what the driver does not know is the host's */
        (void)host_accessible_look_through(source, bytes);        /* what is not there is not an address */
}
