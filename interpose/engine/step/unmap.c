/*
 * unmap.c - what holds gradients goes: memory that is freed, modules with their variables, the primary context.
 * (Resets are in start.c.)
 *
 * Called by the hooks around the driver's call. Never lets memory go while a bucket of it is on its way.
 */
#include "interpose/engine/memory/escapes.h"
#include "interpose/engine/send/send.h"
#include "interpose/engine/step/step.h"
#include "interpose/engine/verify/verify.h"

/* While buckets are on their way NCCL's kernels wait for other ranks, and what waits for the device for them. */
void
unmap_may_wait(bool loads)
{
    speculation_await_verdict();
    bool amid = LOCKED(memory_state.expected_group != SEQUENCE_NONE &&
                       memory_state.groups[memory_state.expected_group].early_buckets > 0);
    if (amid)
        atomic_fetch_add(loads ? &engine_state.status->loads_amid : &engine_state.status->frees_amid, 1);
    if (amid)
        serve_before_wait();
}

/* ---- memory ---- */

void
unmap_before_free(CUdeviceptr address, size_t bytes)
{
    bool stays = host_accessible_is_pinned(address);
    host_accessible_remove(address);
    if (stays)
        return;
    engine_lock();
    uint64_t known_bytes = bytes > 0 ? bytes : allocations_bytes_at(address);
    bool removed = known_bytes == 0 || allocations_remove(address, known_bytes);
    engine_unlock();
    require_allocated(removed);
    if (!atomic_load(&engine_state.driver_ready) || atomic_load(&engine_state.context_ended) || address == 0)
        return;
    if (bytes == 0) {
        struct memory_facts facts = device_ask_about(address);
        bytes = facts.begin == address ? facts.bytes : 0;
    }
    size_t count = 0;
    bool holds_compared = false;
    engine_lock();
    const struct range *held = bytes > 0 ? ranges_find(&memory_state.ranges, address, bytes, &count) : NULL;
    for (size_t i = 0; i < count; ++i)
        holds_compared = holds_compared || tensor_is_compared(tensor_of_range(&held[i]));
    engine_unlock();
    if (count == 0 || context_driver_is_gone())
        return;

    CUcontext before = context_enter();
    launch_wait_unused();
    if (holds_compared) { /* it will be gone at the end */
        unaveraged_last_look(address, address + bytes);
        checks_final_hash();
    }
    context_leave(before);
    engine_lock();
    const struct range *range;
    while ((range = ranges_find(&memory_state.ranges, address, bytes, &count)) != NULL)
        tensor_unplace(tensor_of_range(range));
    engine_unlock();
}

/* ---- modules ---- */

/* Whether this thread holds the issuer's role while the driver unloads. */
static __thread bool unloading;

static bool
is_working(void)
{
    return atomic_load(&engine_state.collectives_ready) && !atomic_load(&engine_state.device_closed) &&
           !atomic_load(&engine_state.context_ended) && !context_driver_is_gone();
}

/* Any tensor may be a variable of the module: the driver does not tell. So nothing is on its way meanwhile. Not
 * analysed, as unmap_after_unload(): the role is taken here and given back there. */
void NOT_ANALYSED
unmap_before_unload(void)
{
    speculation_await_verdict();
    functions_before_unload();
    if (!is_working())
        return;
    ENTER_CONTEXT();
    checks_final_hash(); /* a parameter may be gone at the end */
    role_take();
    unloading = true;
    serve_before_wait();
    streams_wait_for_buckets();
}

/* Where a placed tensor is, from tensors[*at_p] on; false if there are no more. */
static bool
next_placed(size_t *at_p, CUdeviceptr *address_p)
{
    bool found = false;
    engine_lock();
    for (; *at_p < engine_state.tensor_count && !found; ++*at_p) {
        found = memory_state.tensors[*at_p].placed && memory_state.tensors[*at_p].kind != MEMORY_HOST;
        *address_p = memory_state.tensors[*at_p].address;
    }
    engine_unlock();
    return found;
}

/* Takes the memory of tensors away that the driver no longer knows. */
static void
drop_vanished(void)
{
    CUdeviceptr address = 0;
    size_t at = 0;
    while (next_placed(&at, &address)) {
        if (device_ask_about(address).type != 0)
            continue;
        engine_lock();
        struct tensor *tensor = tensor_at(address);
        if (tensor != NULL)
            tensor_unplace(tensor);
        engine_unlock();
    }
}

void NOT_ANALYSED
unmap_after_unload(void)
{
    functions_after_unload();
    if (!unloading)
        return;
    drop_vanished();
    unloading = false;
    role_give();
}

/* ---- the context ---- */

/*
 * The trainer's last release of the primary context would destroy it, with the gradients and our streams in it: an
 * internal hold keeps it until the process ends.
 */
void
unmap_before_primary_release(CUdevice device)
{
    static _Atomic bool held;
    CUcontext context;
    if (!is_working() || device != engine_state.device || atomic_exchange(&held, true))
        return;
    CUDA("cuDevicePrimaryCtxRetain", cuDevicePrimaryCtxRetain, &context, device);
}
