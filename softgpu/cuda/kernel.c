/*
 * kernel.c - kernels (CUkernel, of a library) and functions (CUfunction, of a module or a context): two kinds of handle
 * for the same thing, and its attributes.
 *
 * Launches, graph nodes and questions about occupancy take both kinds, as CUDA documents. All else takes its own kind,
 * and answers CUDA_ERROR_INVALID_HANDLE to the other. Made by library.c, launched by launch.c.
 */
#include "driver.h"

/* ---- handles ---- */

/* The first word behind a handle of either kind; 0: there is no handle. */
static uint32_t
magic_of(const void *handle)
{
    return handle != NULL ? *(const uint32_t *)handle : 0;
}

CUresult
kernel_from_function(CUfunction handle, struct kernel **kernel_p)
{
    switch (magic_of(handle)) {
    case MAGIC_KERNEL:
        *kernel_p = (struct kernel *)handle;
        return CUDA_SUCCESS;
    case MAGIC_FUNCTION:
        *kernel_p = (struct kernel *)((char *)handle - offsetof(struct kernel, function));
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_HANDLE;
    }
}

/* For calls that take one kind only: `magic` says which. */
static CUresult
enter(const void *handle, uint32_t magic, struct kernel **kernel_p)
{
    TRY(driver_enter());
    REQUIRE_ELSE(magic_of(handle) == magic, CUDA_ERROR_INVALID_HANDLE);
    return kernel_from_function((CUfunction)handle, kernel_p);
}

static CUresult
enter_kernel(CUkernel handle, struct kernel **kernel_p)
{
    return enter(handle, MAGIC_KERNEL, kernel_p);
}

static CUresult
enter_function(CUfunction handle, struct kernel **kernel_p)
{
    return enter(handle, MAGIC_FUNCTION, kernel_p);
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
    return ANSWER(result, function, (CUfunction)&kernel->function);
}

CUresult
cuKernelGetLibrary(CUlibrary *library, CUkernel handle)
{
    struct kernel *kernel;
    CUresult result = enter_kernel(handle, &kernel);
    return ANSWER(result, library, (CUlibrary)kernel->library);
}

CUresult
cuFuncGetModule(CUmodule *module, CUfunction handle)
{
    struct kernel *kernel;
    CUresult result = enter_function(handle, &kernel);
    return ANSWER(result, module, (CUmodule)kernel->library);
}

/* ---- names and parameters: `entered` is what entering with the handle has found ---- */

static CUresult
get_name(CUresult entered, const struct kernel *kernel, const char **name)
{
    return ANSWER(entered, name, kernel->image->linked_name != NULL ? kernel->image->linked_name : kernel->image->name);
}

CUresult
cuFuncGetName(const char **name, CUfunction handle)
{
    struct kernel *kernel = NULL;
    CUresult entered = enter_function(handle, &kernel);
    return get_name(entered, kernel, name);
}

CUresult
cuKernelGetName(const char **name, CUkernel handle)
{
    struct kernel *kernel = NULL;
    CUresult entered = enter_kernel(handle, &kernel);
    return get_name(entered, kernel, name);
}

static CUresult
get_param_info(CUresult entered, const struct kernel *kernel, size_t index, size_t *offset, size_t *bytes)
{
    if (entered != CUDA_SUCCESS) {
        return entered;
    }
    REQUIRE(offset != NULL && index < kernel->image->param_count);
    *offset = kernel->image->params[index].offset;
    if (bytes != NULL) {
        *bytes = kernel->image->params[index].bytes;
    }
    return CUDA_SUCCESS;
}

CUresult
cuFuncGetParamInfo(CUfunction handle, size_t index, size_t *offset, size_t *bytes)
{
    struct kernel *kernel = NULL;
    CUresult entered = enter_function(handle, &kernel);
    return get_param_info(entered, kernel, index, offset, bytes);
}

CUresult
cuKernelGetParamInfo(CUkernel handle, size_t index, size_t *offset, size_t *bytes)
{
    struct kernel *kernel = NULL;
    CUresult entered = enter_kernel(handle, &kernel);
    return get_param_info(entered, kernel, index, offset, bytes);
}

/* ---- loading: at once, or with SOFTGPU_UNRULY lazily ---- */

bool
kernel_load(struct kernel *kernel)
{
    return driver.unruly && !atomic_exchange(&kernel->loaded, true);
}

CUresult
cuFuncLoad(CUfunction handle)
{
    struct kernel *kernel;
    TRY(enter_function(handle, &kernel));
    (void)kernel_load(kernel);
    return CUDA_SUCCESS;
}

CUresult
cuFuncIsLoaded(CUfunctionLoadingState *state, CUfunction handle)
{
    struct kernel *kernel;
    CUresult result = enter_function(handle, &kernel);
    return ANSWER(result, state,
                  driver.unruly && !atomic_load(&kernel->loaded) ? CU_FUNCTION_LOADING_STATE_UNLOADED
                                                                 : CU_FUNCTION_LOADING_STATE_LOADED);
}

/* ---- attributes ---- */

int
kernel_shared_limit(const struct kernel *kernel)
{
    int set = atomic_load(&kernel->max_dynamic_shared_bytes);
    int fixed = (int)kernel->image->static_shared_bytes;
    return set >= 0 ? set : fixed < SHARED_BYTES_PER_BLOCK ? SHARED_BYTES_PER_BLOCK - fixed : 0;
}

static CUresult
get_attribute(CUresult entered, const struct kernel *kernel, int *value, CUfunction_attribute attribute)
{
    if (entered != CUDA_SUCCESS) {
        return entered;
    }
    REQUIRE(value != NULL);
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
        *value = kernel_shared_limit(kernel);
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        *value = atomic_load(&kernel->carveout);
        return CUDA_SUCCESS;
    default:
        REQUIRE((unsigned)attribute < CU_FUNC_ATTRIBUTE_MAX);
        *value = 0; /* constant and local memory, cache modes, clusters: none */
        return CUDA_SUCCESS;
    }
}

CUresult
cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction handle)
{
    struct kernel *kernel = NULL;
    CUresult entered = enter_function(handle, &kernel);
    return get_attribute(entered, kernel, value, attribute);
}

CUresult
cuKernelGetAttribute(int *value, CUfunction_attribute attribute, CUkernel handle, CUdevice device)
{
    struct kernel *kernel = NULL;
    CUresult entered = device_valid(device) ? enter_kernel(handle, &kernel) : CUDA_ERROR_INVALID_DEVICE;
    return get_attribute(entered, kernel, value, attribute);
}

static CUresult
set_attribute(CUresult entered, struct kernel *kernel, CUfunction_attribute attribute, int value)
{
    if (entered != CUDA_SUCCESS) {
        return entered;
    }
    switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        REQUIRE(value >= 0 &&
                (size_t)value + kernel->image->static_shared_bytes <= (size_t)driver.profile->shared_bytes_opt_in);
        atomic_store(&kernel->max_dynamic_shared_bytes, value);
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        REQUIRE(value >= -1 && value <= 100);
        atomic_store(&kernel->carveout, value);
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
        return CUDA_SUCCESS; /* hints for clusters */
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult
cuFuncSetAttribute(CUfunction handle, CUfunction_attribute attribute, int value)
{
    struct kernel *kernel = NULL;
    CUresult entered = enter_function(handle, &kernel);
    return set_attribute(entered, kernel, attribute, value);
}

CUresult
cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel handle, CUdevice device)
{
    struct kernel *kernel = NULL;
    CUresult entered = device_valid(device) ? enter_kernel(handle, &kernel) : CUDA_ERROR_INVALID_DEVICE;
    return set_attribute(entered, kernel, attribute, value);
}

CUresult
cuFuncSetCacheConfig(CUfunction handle, CUfunc_cache config)
{
    (void)config; /* a hint */
    struct kernel *kernel;
    return enter_function(handle, &kernel);
}

CUresult
cuKernelSetCacheConfig(CUkernel handle, CUfunc_cache config, CUdevice device)
{
    (void)config; /* a hint */
    struct kernel *kernel;
    return device_valid(device) ? enter_kernel(handle, &kernel) : CUDA_ERROR_INVALID_DEVICE;
}

CUresult
cuFuncSetSharedMemConfig(CUfunction handle, CUsharedconfig config)
{
    (void)config; /* a hint */
    struct kernel *kernel;
    return enter_function(handle, &kernel);
}
