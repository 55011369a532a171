/*
 * context.c - the context that the annotated memory belongs to, made current for as long as a call of ours lasts.
 *
 * Trainers annotate, step and end in whichever thread they like, and CUDA remembers the current context for each
 * thread: streams and events of ours belong to one. Nothing happens where it is current already, which is nearly
 * always.
 */
#include "interpose/engine/state.h"

CUcontext
context_enter(void)
{
    CUcontext before = NULL;
    if (!atomic_load(&engine_state.driver_ready) || engine_state.context == NULL)
        return NULL;
    require_cuda(engine_state.driver.cuCtxGetCurrent_p(&before), "cuCtxGetCurrent");
    if (before != engine_state.context)
        require_cuda(engine_state.driver.cuCtxSetCurrent_p(engine_state.context), "cuCtxSetCurrent");
    return before;
}

CUstreamCaptureMode
context_exchange_capture_mode(CUstreamCaptureMode mode)
{
    if (atomic_load(&engine_state.driver_ready))
        require_cuda(engine_state.driver.cuThreadExchangeStreamCaptureMode_p(&mode),
                     "cuThreadExchangeStreamCaptureMode");
    return mode;
}

void
context_synchronize(const char *when)
{
    if (atomic_load(&engine_state.captures_open) > 0)
        stop_job("%s, ddprun must wait for the whole device, and a stream is being captured, which would fail: end the "
                 "capture before (cuStreamEndCapture)",
                 when);
    require_cuda(engine_state.driver.cuCtxSynchronize_p(), when);
}

void
context_leave(CUcontext before)
{
    if (!atomic_load(&engine_state.driver_ready) || engine_state.context == NULL || before == engine_state.context)
        return;
    require_cuda(engine_state.driver.cuCtxSetCurrent_p(before), "cuCtxSetCurrent");
}
