/*
 * context_api.c - contexts that programs create, and which context is current in a thread.
 */
#include "driver.h"

/* ---- created contexts ---- */

CUresult
cuCtxCreate_v2(CUcontext *context_out, unsigned int flags, CUdevice device)
{
    TRY(driver_enter());
    REQUIRE(context_out != NULL);
    REQUIRE_ELSE(device_valid(device), CUDA_ERROR_INVALID_DEVICE);
    struct context *context;
    TRY(context_create(device, flags, false, &context));
    TRY(context_push(context));
    *context_out = (CUcontext)context;
    return CUDA_SUCCESS;
}

CUresult
cuCtxCreate_v4(CUcontext *context_out, CUctxCreateParams *parameters, unsigned int flags, CUdevice device)
{
    if (parameters != NULL && (parameters->numExecAffinityParams != 0 || parameters->cigParams != NULL)) {
        say("cuCtxCreate: execution affinity and graphics contexts are not supported");
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    return cuCtxCreate_v2(context_out, flags, device);
}

CUresult
cuCtxDestroy_v2(CUcontext handle)
{
    TRY(driver_enter());
    struct context *context;
    TRY(context_from_handle(handle, &context));
    REQUIRE_ELSE(!context->primary, CUDA_ERROR_INVALID_CONTEXT);
    CUresult result = context_empty(context, true);
    /* The object stays: its streams' threads may still be on their way out, and contexts are few. */
    atomic_store(&context->magic, 0);
    if (context_current() == context) {
        (void)context_pop();
    }
    return result;
}

/* ---- which context is current ---- */

CUresult
cuCtxSetCurrent(CUcontext handle)
{
    struct context *context = NULL;
    TRY(driver_enter());
    if (handle != NULL) {
        TRY(context_from_handle(handle, &context));
    }
    (void)context_pop();
    return context != NULL ? context_push(context) : CUDA_SUCCESS;
}

CUresult
cuCtxGetCurrent(CUcontext *context_out)
{
    CUresult result = driver_enter();
    return ANSWER(result, context_out, (CUcontext)context_current());
}

CUresult
cuCtxPushCurrent_v2(CUcontext handle)
{
    TRY(driver_enter());
    struct context *context;
    CUresult result = context_from_handle(handle, &context);
    return result == CUDA_SUCCESS ? context_push(context) : result;
}

CUresult
cuCtxPopCurrent_v2(CUcontext *context_out)
{
    TRY(driver_enter());
    struct context *context = context_pop();
    REQUIRE_ELSE(context != NULL, CUDA_ERROR_INVALID_CONTEXT);
    if (context_out != NULL) {
        *context_out = (CUcontext)context;
    }
    return CUDA_SUCCESS;
}

CUresult
cuCtxGetDevice(CUdevice *device)
{
    return cuCtxGetDevice_v2(device, NULL);
}

CUresult
cuCtxGetDevice_v2(CUdevice *device, CUcontext handle)
{
    struct context *context;
    CUresult result = context_enter_handle(handle, &context);
    return ANSWER(result, device, context->device);
}

CUresult
cuCtxSynchronize(void)
{
    return cuCtxSynchronize_v2(NULL);
}

CUresult
cuCtxSynchronize_v2(CUcontext handle)
{
    struct context *context;
    TRY(context_enter_handle(handle, &context));
    TRY(capture_check_context(context));
    return context_drain(context);
}
