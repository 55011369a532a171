/*
 * context.c - the context that the annotated memory belongs to, made current for as long as a call of the engine lasts.
 *
 * Trainers annotate, step and end in whichever thread they like, and CUDA remembers the current context for each
 * thread: the engine's streams and events belong to one. Nothing happens where it is current already, which is nearly
 * always.
 */
#include "interpose/engine/core/core.h"

CUcontext
context_enter(void)
{
    CUcontext before = NULL;
    if (!atomic_load(&engine_state.driver_ready) || engine_state.context == NULL)
        return NULL;
    CUDA("cuCtxGetCurrent", cuCtxGetCurrent, &before);
    if (before != engine_state.context)
        CUDA("cuCtxSetCurrent", cuCtxSetCurrent, engine_state.context);
    return before;
}

bool
context_driver_is_gone(void)
{
    CUcontext current;
    return engine_state.driver.cuCtxGetCurrent_p(&current) == CUDA_ERROR_DEINITIALIZED;
}

bool
context_is_primary(CUcontext context, int device)
{
    CUcontext primary = NULL;
    unsigned flags;
    int active = 0;
    CUDA("cuDevicePrimaryCtxGetState", cuDevicePrimaryCtxGetState, device, &flags, &active);
    if (!active) /* asking for it would make it */
        return false;
    CUDA("cuDevicePrimaryCtxRetain", cuDevicePrimaryCtxRetain, &primary, device);
    CUDA("cuDevicePrimaryCtxRelease", cuDevicePrimaryCtxRelease, device);
    return context == primary;
}

void
context_require(CUstream stream, CUcontext current, const char *what, const struct ddp_site *site)
{
    bool is_default = stream == NULL || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
    if (!is_default || current == NULL || engine_state.context == NULL || current == engine_state.context)
        return;
    char place[256] = "";
    if (site != NULL)
        snprintf(place, sizeof(place), " (%s:%d)", site->file, site->line);
    stop_job("%s%s uses the default stream of " CONTEXT_FOREIGN, what, place);
}

CUstreamCaptureMode
context_exchange_capture_mode(CUstreamCaptureMode mode)
{
    if (atomic_load(&engine_state.driver_ready))
        CUDA("cuThreadExchangeStreamCaptureMode", cuThreadExchangeStreamCaptureMode, &mode);
    return mode;
}

void
context_synchronize(const char *when)
{
    if (atomic_load(&engine_state.captures_open) > 0)
        stop_job("%s, ddprun must wait for the whole device, and a stream is being captured, which would fail: end the "
                 "capture before (cuStreamEndCapture)",
                 when);
    engine_state.before_wait();
    require_cuda(engine_state.driver.cuCtxSynchronize_p(), when);
}

void
context_leave(CUcontext before)
{
    if (!atomic_load(&engine_state.driver_ready) || engine_state.context == NULL || before == engine_state.context)
        return;
    CUDA("cuCtxSetCurrent", cuCtxSetCurrent, before);
}
