/*
 * kernel.c - kernels and functions: two kinds of handle for the same thing, and its attributes.
 *
 * Made by library.c, launched by launch.c.
 */
#include "driver.h"

/* ---- handles ---- */

CUresult
kernel_from_function(CUfunction handle, struct kernel **kernel_p)
{
    if (handle == NULL) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    struct kernel *kernel = (struct kernel *)handle;
    if (kernel->magic == MAGIC_FUNCTION) { /* the first word of struct kernel.function */
        kernel = (struct kernel *)((char *)handle - offsetof(struct kernel, function));
    }
    if (kernel->magic != MAGIC_KERNEL) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    *kernel_p = kernel;
    return CUDA_SUCCESS;
}

static CUresult
enter_kernel(const void *handle, struct kernel **kernel_p)
{
    CUresult result = driver_enter();
    return result == CUDA_SUCCESS ? kernel_from_function((CUfunction)handle, kernel_p) : result;
}

unsigned
kernel_thread_limit(const struct kernel *kernel)
{
    unsigned limit = kernel->image->max_threads_per_block;
    return limit == 0 || limit > THREADS_PER_BLOCK ? THREADS_PER_BLOCK : limit;
}

CUresult
cuKernelGetFunction(CUfunction *function, CUkernel handle)
{
    struct kernel *kernel;
    CUresult result = enter_kernel(handle, &kernel);
    if (result == CUDA_SUCCESS && function == NULL) {
        result = CUDA_ERROR_INVALID_VALUE;
    }
    if (result == CUDA_SUCCESS) {
        *function = (CUfunction)&kernel->function;
    }
    return result;
}

CUresult
cuKernelGetLibrary(CUlibrary *library, CUkernel handle)
{
    struct kernel *kernel;
    CUresult result = enter_kernel(handle, &kernel);
    if (result == CUDA_SUCCESS && library == NULL) {
        result = CUDA_ERROR_INVALID_VALUE;
    }
    if (result == CUDA_SUCCESS) {
        *library = (CUlibrary)kernel->library;
    }
    return result;
}

CUresult
cuFuncGetModule(CUmodule *module, CUfunction handle)
{
    return cuKernelGetLibrary((CUlibrary *)module, (CUkernel)handle);
}

CUresult
cuFuncGetName(const char **name, CUfunction handle)
{
    struct kernel *kernel;
    CUresult result = enter_kernel(handle, &kernel);
    if (result == CUDA_SUCCESS && name == NULL) {
        result = CUDA_ERROR_INVALID_VALUE;
    }
    if (result == CUDA_SUCCESS) {
        *name = kernel->image->name;
    }
    return result;
}

CUresult
cuKernelGetName(const char **name, CUkernel kernel)
{
    return cuFuncGetName(name, (CUfunction)kernel);
}

CUresult
cuFuncGetParamInfo(CUfunction handle, size_t index, size_t *offset, size_t *bytes)
{
    struct kernel *kernel;
    CUresult result = enter_kernel(handle, &kernel);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    if (offset == NULL || index >= kernel->image->param_count) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *offset = kernel->image->params[index].offset;
    if (bytes != NULL) {
        *bytes = kernel->image->params[index].bytes;
    }
    return CUDA_SUCCESS;
}

CUresult
cuKernelGetParamInfo(CUkernel kernel, size_t index, size_t *offset, size_t *bytes)
{
    return cuFuncGetParamInfo((CUfunction)kernel, index, offset, bytes);
}

CUresult
cuFuncLoad(CUfunction handle)
{
    struct kernel *kernel;
    return enter_kernel(handle, &kernel);
}

CUresult
cuFuncIsLoaded(CUfunctionLoadingState *state, CUfunction handle)
{
    struct kernel *kernel;
    CUresult result = enter_kernel(handle, &kernel);
    if (result == CUDA_SUCCESS && state == NULL) {
        result = CUDA_ERROR_INVALID_VALUE;
    }
    if (result == CUDA_SUCCESS) {
        *state = CU_FUNCTION_LOADING_STATE_LOADED;
    }
    return result;
}

/* ---- attributes ---- */

static int
shared_limit(const struct kernel *kernel)
{
    int set = atomic_load(&kernel->max_dynamic_shared_bytes);
    int fixed = (int)kernel->image->static_shared_bytes;
    return set >= 0 ? set : fixed < SHARED_BYTES_PER_BLOCK ? SHARED_BYTES_PER_BLOCK - fixed : 0;
}

CUresult
cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction handle)
{
    struct kernel *kernel;
    CUresult result = enter_kernel(handle, &kernel);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    if (value == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
        *value = (int)kernel_thread_limit(kernel);
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
        *value = (int)kernel->image->static_shared_bytes;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
        *value = 32; /* a plausible figure: nothing here has registers of a GPU */
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
        *value = driver.profile->major * 10 + driver.profile->minor;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        *value = shared_limit(kernel);
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        *value = atomic_load(&kernel->carveout);
        return CUDA_SUCCESS;
    default:
        if ((unsigned)attribute >= CU_FUNC_ATTRIBUTE_MAX) {
            return CUDA_ERROR_INVALID_VALUE;
        }
        *value = 0; /* constant and local memory, cache modes, clusters: none */
        return CUDA_SUCCESS;
    }
}

CUresult
cuFuncSetAttribute(CUfunction handle, CUfunction_attribute attribute, int value)
{
    struct kernel *kernel;
    CUresult result = enter_kernel(handle, &kernel);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        if (value < 0 ||
            (size_t)value + kernel->image->static_shared_bytes > (size_t)driver.profile->shared_bytes_opt_in) {
            return CUDA_ERROR_INVALID_VALUE;
        }
        atomic_store(&kernel->max_dynamic_shared_bytes, value);
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        if (value < -1 || value > 100) {
            return CUDA_ERROR_INVALID_VALUE;
        }
        atomic_store(&kernel->carveout, value);
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
        return CUDA_SUCCESS; /* hints for clusters, which a launch refuses */
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult
cuKernelGetAttribute(int *value, CUfunction_attribute attribute, CUkernel kernel, CUdevice device)
{
    return device_valid(device) ? cuFuncGetAttribute(value, attribute, (CUfunction)kernel) : CUDA_ERROR_INVALID_DEVICE;
}

CUresult
cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel kernel, CUdevice device)
{
    return device_valid(device) ? cuFuncSetAttribute((CUfunction)kernel, attribute, value) : CUDA_ERROR_INVALID_DEVICE;
}

CUresult
cuFuncSetCacheConfig(CUfunction handle, CUfunc_cache config)
{
    (void)config; /* a hint */
    struct kernel *kernel;
    return enter_kernel(handle, &kernel);
}

CUresult
cuKernelSetCacheConfig(CUkernel handle, CUfunc_cache config, CUdevice device)
{
    return device_valid(device) ? cuFuncSetCacheConfig((CUfunction)handle, config) : CUDA_ERROR_INVALID_DEVICE;
}

CUresult
cuFuncSetSharedMemConfig(CUfunction handle, CUsharedconfig config)
{
    (void)config; /* a hint */
    struct kernel *kernel;
    return enter_kernel(handle, &kernel);
}
