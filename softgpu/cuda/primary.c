/*
 * primary.c - the primary context of each device, which the runtime and every library over it share.
 *
 * It is made at the first cuDevicePrimaryCtxRetain and never destroyed: a reset empties it, and a later retain gives
 * the same handle.
 */
#include "driver.h"

static pthread_mutex_t primary_lock = PTHREAD_MUTEX_INITIALIZER; /* guards the table below */
static struct {
    struct context *context; /* made once, never destroyed: a later retain finds the same handle */
    unsigned retained;
    unsigned flags;
} primary[DEVICE_LIMIT];

/* With primary_lock held. */
static CUresult
make_primary(CUdevice device)
{
    if (primary[device].context != NULL) {
        return CUDA_SUCCESS;
    }
    return context_create(device, primary[device].flags, true, &primary[device].context);
}

CUresult
cuDevicePrimaryCtxRetain(CUcontext *context_out, CUdevice device)
{
    TRY(driver_enter());
    REQUIRE(context_out != NULL);
    REQUIRE_ELSE(device_valid(device), CUDA_ERROR_INVALID_DEVICE);
    pthread_mutex_lock(&primary_lock);
    CUresult result = make_primary(device);
    if (result == CUDA_SUCCESS) {
        ++primary[device].retained;
        *context_out = (CUcontext)primary[device].context;
    }
    pthread_mutex_unlock(&primary_lock);
    return result;
}

static CUresult
primary_reset(CUdevice device)
{
    pthread_mutex_lock(&primary_lock);
    struct context *context = primary[device].context;
    pthread_mutex_unlock(&primary_lock);
    if (context == NULL) {
        return CUDA_SUCCESS;
    }
    CUresult result = context_empty(context, false);
    atomic_store(&context->failure, CUDA_SUCCESS);
    return result;
}

CUresult
cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    CUresult result = device_enter(device);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    pthread_mutex_lock(&primary_lock);
    bool last = primary[device].retained == 1;
    if (primary[device].retained > 0) {
        --primary[device].retained;
    } else {
        result = CUDA_ERROR_INVALID_CONTEXT;
    }
    pthread_mutex_unlock(&primary_lock);
    return last ? primary_reset(device) : result;
}

CUresult
cuDevicePrimaryCtxReset_v2(CUdevice device)
{
    CUresult result = device_enter(device);
    return result == CUDA_SUCCESS ? primary_reset(device) : result;
}

/* The first versions differ only in what they do to contexts of other kinds of programs. */
CUresult
cuDevicePrimaryCtxRelease(CUdevice device)
{
    return cuDevicePrimaryCtxRelease_v2(device);
}

CUresult
cuDevicePrimaryCtxReset(CUdevice device)
{
    return cuDevicePrimaryCtxReset_v2(device);
}

CUresult
cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned int flags)
{
    TRY(device_enter(device));
    REQUIRE((flags & ~(unsigned)CU_CTX_FLAGS_MASK) == 0);
    pthread_mutex_lock(&primary_lock);
    primary[device].flags = flags;
    if (primary[device].context != NULL) {
        atomic_store(&primary[device].context->flags, flags);
    }
    pthread_mutex_unlock(&primary_lock);
    return CUDA_SUCCESS;
}

CUresult
cuDevicePrimaryCtxGetState(CUdevice device, unsigned int *flags, int *active)
{
    TRY(device_enter(device));
    REQUIRE(flags != NULL && active != NULL);
    pthread_mutex_lock(&primary_lock);
    *flags = primary[device].flags;
    *active = primary[device].retained > 0;
    pthread_mutex_unlock(&primary_lock);
    return CUDA_SUCCESS;
}
