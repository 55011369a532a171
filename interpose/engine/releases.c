/*
 * releases.c - what holds gradients goes, other than by being freed: modules with their variables, and the primary
 * context. (Frees are in tensors.c, resets in start.c.)
 *
 * Called by the hooks around the driver's call. Never lets memory go while a bucket of it is on its way.
 */
#include "interpose/engine/state.h"

/* Whether this thread holds the issuer's role while the driver unloads. */
static __thread bool unloading;

static bool
is_working(void)
{
    return atomic_load(&engine_state.collectives_ready) && !atomic_load(&engine_state.device_closed) &&
           !atomic_load(&engine_state.context_ended);
}

/* Any tensor may be a variable of the module: the driver does not tell. So nothing is on its way meanwhile. */
void
releases_before_unload(void)
{
    functions_before_unload();
    if (!is_working())
        return;
    CUcontext before = context_enter();
    checks_final_hash(); /* a parameter may be gone at the end */
    issue_take_role();
    unloading = true;
    issue_wait_for_buckets();
    context_leave(before);
}

void
releases_after_unload(void)
{
    functions_after_unload();
    if (!unloading)
        return;
    tensor_drop_vanished();
    unloading = false;
    issue_give_role();
}

/*
 * The trainer's last release of the primary context would destroy it, with the gradients and our streams in it: a hold
 * of our own keeps it until the process ends.
 */
void
releases_before_primary_release(CUdevice device)
{
    static _Atomic bool held;
    CUcontext context;
    if (!is_working() || device != engine_state.device || engine_state.driver.cuDevicePrimaryCtxRetain_p == NULL ||
        atomic_exchange(&held, true))
        return;
    require_cuda(engine_state.driver.cuDevicePrimaryCtxRetain_p(&context, device), "cuDevicePrimaryCtxRetain");
}
