/*
 * setting.c - what a context can be set to: limits, caches, flags. Nothing here changes how kernels run; it reads back
 * as it was set.
 */
#include "driver.h"

CUresult
cuCtxGetFlags(unsigned int *flags)
{
    struct context *context;
    CUresult result = context_enter(&context);
    return ANSWER(result, flags, atomic_load(&context->flags));
}

CUresult
cuCtxSetFlags(unsigned int flags)
{
    struct context *context;
    TRY(context_enter(&context));
    atomic_store(&context->flags, flags);
    return CUDA_SUCCESS;
}

CUresult
cuCtxGetId(CUcontext handle, unsigned long long *id)
{
    struct context *context;
    CUresult result = context_enter_handle(handle, &context);
    return ANSWER(result, id, context->id);
}

CUresult
cuCtxGetApiVersion(CUcontext handle, unsigned int *version)
{
    struct context *context;
    CUresult result = context_enter_handle(handle, &context);
    return ANSWER(result, version, 3020);
}

CUresult
cuCtxGetLimit(size_t *value, CUlimit limit)
{
    struct context *context;
    TRY(context_enter(&context));
    REQUIRE(value != NULL);
    REQUIRE_ELSE((unsigned)limit < CU_LIMIT_MAX, CUDA_ERROR_UNSUPPORTED_LIMIT);
    *value = atomic_load(&context->dynamic_limits[limit]);
    return CUDA_SUCCESS;
}

CUresult
cuCtxSetLimit(CUlimit limit, size_t value)
{
    struct context *context;
    TRY(context_enter(&context));
    REQUIRE_ELSE((unsigned)limit < CU_LIMIT_SHMEM_SIZE, CUDA_ERROR_UNSUPPORTED_LIMIT);
    atomic_store(&context->dynamic_limits[limit], value);
    return CUDA_SUCCESS;
}

CUresult
cuCtxGetCacheConfig(CUfunc_cache *config)
{
    struct context *context;
    CUresult result = context_enter(&context);
    return ANSWER(result, config, CU_FUNC_CACHE_PREFER_NONE);
}

CUresult
cuCtxSetCacheConfig(CUfunc_cache config)
{
    struct context *context;
    (void)config; /* a hint */
    return context_enter(&context);
}

CUresult
cuCtxGetSharedMemConfig(CUsharedconfig *config)
{
    struct context *context;
    CUresult result = context_enter(&context);
    return ANSWER(result, config, CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE);
}

CUresult
cuCtxSetSharedMemConfig(CUsharedconfig config)
{
    struct context *context;
    (void)config; /* a hint */
    return context_enter(&context);
}

CUresult
cuCtxResetPersistingL2Cache(void)
{
    struct context *context;
    return context_enter(&context);
}

CUresult
cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    struct context *context;
    TRY(context_enter(&context));
    if (least != NULL) {
        *least = 0;
    }
    if (greatest != NULL) {
        *greatest = STREAM_PRIORITY_GREATEST;
    }
    return CUDA_SUCCESS;
}
