/*
 * library.c - images of CPU code (softgpu/image.h) in the places where CUDA has fatbins: libraries and modules, which
 * are the same here.
 *
 * An image is a library with one kernel. Handles stay valid until the library is unloaded; what is still enqueued then
 * runs to its end, because a launch refers to the image, which belongs to the program, and not to the handle. Nothing
 * else is ever read: a fatbin is refused by its first bytes.
 */
#include "driver.h"

#include "softgpu/private_calls.h"
#include "softgpu/stub.h"

#include <string.h>

#pragma weak softgpu_variable_at

enum { PARAM_LIMIT_BYTES = 32764 };

struct library {
    uint32_t magic;
    struct kernel kernel;
};

/* ---- images ---- */

static CUresult
check_image(const struct softgpu_image *image)
{
    if (memcmp(image->magic, SOFTGPU_IMAGE_MAGIC, sizeof image->magic) != 0) {
        static _Atomic bool said;
        if (!atomic_exchange(&said, true)) {
            say("a kernel's code was built by nvcc for a GPU; build the program with softgpu-cc to run it here");
        }
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    }
    if (image->version != SOFTGPU_IMAGE_VERSION) {
        say("kernel %s: built for version %u of the stand-in's images, this is version %u: build the program again",
            image->name, image->version, SOFTGPU_IMAGE_VERSION);
        return CUDA_ERROR_INVALID_IMAGE;
    }
    if (image->name == NULL || image->run == NULL || (image->param_count > 0 && image->params == NULL)) {
        say("a kernel image without name, code or parameters");
        return CUDA_ERROR_INVALID_IMAGE;
    }
    for (uint32_t i = 0; i < image->param_count; ++i) {
        size_t offset = image->params[i].offset, bytes = image->params[i].bytes;
        if (offset > PARAM_LIMIT_BYTES || bytes > PARAM_LIMIT_BYTES - offset) {
            say("kernel %s: parameters take more than %d bytes", image->name, PARAM_LIMIT_BYTES);
            return CUDA_ERROR_INVALID_IMAGE;
        }
    }
    return CUDA_SUCCESS;
}

static CUresult
load(const void *data, struct library **library_p)
{
    TRY(driver_enter());
    REQUIRE(data != NULL);
    const struct softgpu_image *image = data;
    TRY(check_image(image));
    struct library *library = object_take(OBJECT_LIBRARY, sizeof *library);
    REQUIRE_ELSE(library != NULL, CUDA_ERROR_OUT_OF_MEMORY);
    struct kernel *kernel = &library->kernel;
    kernel->library = library;
    kernel->image = image;
    for (uint32_t i = 0; i < image->param_count; ++i) {
        size_t end = image->params[i].offset + image->params[i].bytes;
        kernel->param_bytes = end > kernel->param_bytes ? end : kernel->param_bytes;
    }
    atomic_store(&kernel->max_dynamic_shared_bytes,
                 -1); /* not set: what static shared memory leaves of the default limit */
    atomic_store(&kernel->carveout, -1);
    kernel->function.kernel = kernel;
    kernel->magic = MAGIC_KERNEL;
    kernel->function.magic = MAGIC_FUNCTION;
    library->magic = MAGIC_LIBRARY;
    *library_p = library;
    return CUDA_SUCCESS;
}

static CUresult
unload(struct library *library)
{
    library->magic = 0;
    library->kernel.magic = 0;
    library->kernel.function.magic = 0;
    object_give(OBJECT_LIBRARY, library);
    return CUDA_SUCCESS;
}

static CUresult
enter_library(void *handle, struct library **library_p)
{
    TRY(driver_enter());
    struct library *library = handle;
    REQUIRE_ELSE(library != NULL && library->magic == MAGIC_LIBRARY, CUDA_ERROR_INVALID_HANDLE);
    *library_p = library;
    return CUDA_SUCCESS;
}

static CUresult
kernel_named(struct library *library, const char *name, struct kernel **kernel_p)
{
    const struct softgpu_image *image = library->kernel.image;
    REQUIRE_ELSE(strcmp(name, image->name) == 0 ||
                     (image->linked_name != NULL && strcmp(name, image->linked_name) == 0),
                 CUDA_ERROR_NOT_FOUND);
    *kernel_p = &library->kernel;
    return CUDA_SUCCESS;
}

/* ---- libraries ---- */

CUresult
cuLibraryLoadData(CUlibrary *library_out, const void *code, CUjit_option *jit_options, void **jit_values,
                  unsigned int jit_count, CUlibraryOption *options, void **values, unsigned int count)
{
    (void)jit_options, (void)jit_values, (void)jit_count, (void)options, (void)values,
        (void)count; /* nothing is compiled */
    REQUIRE(library_out != NULL);
    struct library *library;
    TRY(load(code, &library));
    *library_out = (CUlibrary)library;
    return CUDA_SUCCESS;
}

CUresult
cuLibraryUnload(CUlibrary handle)
{
    struct library *library;
    TRY(enter_library(handle, &library));
    return unload(library);
}

CUresult
cuLibraryGetKernel(CUkernel *kernel_out, CUlibrary handle, const char *name)
{
    struct library *library;
    TRY(enter_library(handle, &library));
    REQUIRE(kernel_out != NULL && name != NULL);
    struct kernel *kernel;
    TRY(kernel_named(library, name, &kernel));
    *kernel_out = (CUkernel)kernel;
    return CUDA_SUCCESS;
}

CUresult
cuLibraryGetKernelCount(unsigned int *count, CUlibrary handle)
{
    struct library *library;
    CUresult result = enter_library(handle, &library);
    return ANSWER(result, count, 1);
}

CUresult
cuLibraryEnumerateKernels(CUkernel *kernels, unsigned int room, CUlibrary handle)
{
    struct library *library;
    TRY(enter_library(handle, &library));
    REQUIRE(kernels != NULL);
    if (room > 0) {
        kernels[0] = (CUkernel)&library->kernel;
    }
    return CUDA_SUCCESS;
}

/* Library and module are the same object. */
CUresult
cuLibraryGetModule(CUmodule *module, CUlibrary handle)
{
    struct library *library;
    CUresult result = enter_library(handle, &library);
    return ANSWER(result, module, (CUmodule)library);
}

/* Variables are the program's own here: libsoftgpu.so lists them, if the program is linked with it. */
static CUresult
global_named(void *handle, const char *name, CUdeviceptr *pointer, size_t *bytes)
{
    struct library *library;
    struct softgpu_variable variable;
    TRY(enter_library(handle, &library));
    REQUIRE(name != NULL);
    size_t at = 0;
    do {
        REQUIRE_ELSE(&softgpu_variable_at != NULL && softgpu_variable_at(at++, &variable), CUDA_ERROR_NOT_FOUND);
    } while (strcmp(variable.name, name) != 0);
    if (pointer != NULL) {
        *pointer = (CUdeviceptr)variable.address;
    }
    if (bytes != NULL) {
        *bytes = variable.bytes;
    }
    return (CUresult)softgpuGlobalRegister(variable.address, variable.bytes);
}

CUresult
cuLibraryGetGlobal(CUdeviceptr *pointer, size_t *bytes, CUlibrary library, const char *name)
{
    return global_named(library, name, pointer, bytes);
}

CUresult
cuLibraryGetManaged(CUdeviceptr *pointer, size_t *bytes, CUlibrary library, const char *name)
{
    return global_named(library, name, pointer, bytes);
}

/* ---- modules ---- */

/* Images that a program loads itself count as made by the toolkit of this stand-in, CUDA 13. Those of the runtime,
 * which come to cuLibraryLoadData, were made by the toolkit that the program was built with: one for the driver. */
static bool
is_for_a_newer_driver(void)
{
    return driver.version < DRIVER_VERSION;
}

CUresult
cuModuleLoadData(CUmodule *module, const void *image)
{
    struct context *context;
    TRY(context_enter(&context));
    REQUIRE_ELSE(!is_for_a_newer_driver(), CUDA_ERROR_NO_BINARY_FOR_GPU);
    return cuLibraryLoadData((CUlibrary *)module, image, NULL, NULL, 0, NULL, NULL, 0);
}

CUresult
cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int count, CUjit_option *options, void **values)
{
    (void)count, (void)options, (void)values;
    return cuModuleLoadData(module, image);
}

CUresult
cuModuleLoadFatBinary(CUmodule *module, const void *image)
{
    return cuModuleLoadData(module, image);
}

CUresult
cuModuleUnload(CUmodule module)
{
    return cuLibraryUnload((CUlibrary)module);
}

CUresult
cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
    struct library *library;
    TRY(enter_library(module, &library));
    REQUIRE(function != NULL && name != NULL);
    struct kernel *kernel;
    TRY(kernel_named(library, name, &kernel));
    *function = (CUfunction)&kernel->function;
    (void)kernel_load(kernel);
    return CUDA_SUCCESS;
}

CUresult
cuModuleGetFunctionCount(unsigned int *count, CUmodule module)
{
    return cuLibraryGetKernelCount(count, (CUlibrary)module);
}

CUresult
cuModuleGetGlobal_v2(CUdeviceptr *pointer, size_t *bytes, CUmodule module, const char *name)
{
    return global_named(module, name, pointer, bytes);
}

CUresult
cuModuleGetLoadingMode(CUmoduleLoadingMode *mode)
{
    return ANSWER(CUDA_SUCCESS, mode, driver.unruly ? CU_MODULE_LAZY_LOADING : CU_MODULE_EAGER_LOADING);
}
