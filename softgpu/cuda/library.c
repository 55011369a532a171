/*
 * library.c - CPU code in the places where CUDA has fatbins, cubins and PTX: libraries and modules, which are the same
 * here.
 *
 * An image (softgpu/image.h) is a library with one kernel; a module of libnvrtc's (module.c) has those of its source.
 * Handles stay valid until the library is unloaded; what is still enqueued then runs to its end, because a launch
 * refers to the image, which belongs to the program or to the module, and not to the handle. Nothing else is ever read:
 * a fatbin is refused by its first bytes.
 */
#include "driver.h"

#include "softgpu/private_calls.h"
#include "softgpu/stub.h"

#include <stdlib.h>
#include <string.h>

#pragma weak softgpu_variable_at

enum { PARAM_LIMIT_BYTES = 32764 };

struct library {
    uint32_t magic;
    unsigned kernel_count;
    struct kernel *kernels;
    bool is_module;
    struct module module; /* if it is one */
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
add_kernel(struct library *library, const struct softgpu_image *image)
{
    TRY(check_image(image));
    struct kernel *kernel = object_take(OBJECT_KERNEL, sizeof *kernel);
    REQUIRE_ELSE(kernel != NULL, CUDA_ERROR_OUT_OF_MEMORY);
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
    kernel->next = library->kernels;
    library->kernels = kernel;
    ++library->kernel_count;
    return CUDA_SUCCESS;
}

static void
unload(struct library *library)
{
    struct kernel *next;
    for (struct kernel *kernel = library->kernels; kernel != NULL; kernel = next) {
        next = kernel->next;
        kernel->magic = 0;
        kernel->function.magic = 0;
        object_give(OBJECT_KERNEL, kernel);
    }
    library->magic = 0;
    object_give(OBJECT_LIBRARY, library);
}

static CUresult
add_module(struct library *library, const void *data)
{
    TRY(module_load(data, &library->module));
    library->is_module = true;
    for (const struct softgpu_module_kernel *k = library->module.kernels; k != NULL; k = k->next) {
        TRY(add_kernel(library, k->image()));
    }
    return CUDA_SUCCESS;
}

static CUresult
load(const void *data, struct library **library_p)
{
    TRY(driver_enter());
    REQUIRE(data != NULL);
    struct library *library = object_take(OBJECT_LIBRARY, sizeof *library);
    REQUIRE_ELSE(library != NULL, CUDA_ERROR_OUT_OF_MEMORY);
    CUresult result = module_is(data) ? add_module(library, data) : add_kernel(library, data);
    if (result != CUDA_SUCCESS) {
        unload(library);
        return result;
    }
    library->magic = MAGIC_LIBRARY;
    *library_p = library;
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

/* A kernel of a module has the one name that a GPU's would have: a program that asks for another is wrong. */
static bool
has_name(const struct library *library, const struct softgpu_image *image, const char *name)
{
    if (image->linked_name != NULL && strcmp(name, image->linked_name) == 0) {
        return true;
    }
    const bool has_readable = !library->is_module || image->linked_name == NULL;
    return has_readable && strcmp(name, image->name) == 0;
}

static CUresult
kernel_named(struct library *library, const char *name, struct kernel **kernel_p)
{
    for (struct kernel *kernel = library->kernels; kernel != NULL; kernel = kernel->next) {
        if (has_name(library, kernel->image, name)) {
            *kernel_p = kernel;
            return CUDA_SUCCESS;
        }
    }
    return CUDA_ERROR_NOT_FOUND;
}

/* ---- libraries ---- */

CUresult
cuLibraryLoadData(CUlibrary *library_out, const void *code, CUjit_option *jit_options, void **jit_values,
                  unsigned int jit_count, CUlibraryOption *options, void **values, unsigned int count)
{
    (void)options, (void)values, (void)count; /* what they say of code for GPUs has no meaning here */
    REQUIRE(library_out != NULL);
    module_clear_logs(jit_count, jit_options, jit_values);
    struct library *library;
    TRY(load(code, &library));
    *library_out = (CUlibrary)library;
    return CUDA_SUCCESS;
}

/* `load` keeps nothing of the file's bytes. */
static CUresult
load_file(const char *path, struct library **library_p)
{
    size_t bytes;
    char *code;
    TRY(module_read(path, &bytes, &code));
    CUresult result = load(code, library_p);
    free(code);
    return result;
}

CUresult
cuLibraryLoadFromFile(CUlibrary *library_out, const char *path, CUjit_option *jit_options, void **jit_values,
                      unsigned int jit_count, CUlibraryOption *options, void **values, unsigned int count)
{
    (void)options, (void)values, (void)count;
    TRY(driver_enter());
    REQUIRE(library_out != NULL && path != NULL);
    module_clear_logs(jit_count, jit_options, jit_values);
    struct library *library;
    TRY(load_file(path, &library));
    *library_out = (CUlibrary)library;
    return CUDA_SUCCESS;
}

CUresult
cuLibraryUnload(CUlibrary handle)
{
    struct library *library;
    TRY(enter_library(handle, &library));
    unload(library);
    return CUDA_SUCCESS;
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
    struct library *library = NULL;
    CUresult result = enter_library(handle, &library);
    return ANSWER(result, count, library->kernel_count);
}

CUresult
cuLibraryEnumerateKernels(CUkernel *kernels, unsigned int room, CUlibrary handle)
{
    struct library *library;
    TRY(enter_library(handle, &library));
    REQUIRE(kernels != NULL);
    unsigned i = 0;
    for (struct kernel *kernel = library->kernels; kernel != NULL && i < room; kernel = kernel->next) {
        kernels[i++] = (CUkernel)kernel;
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

static bool
is_of_library(const struct library *library, const struct softgpu_variable *variable)
{
    const uintptr_t address = (uintptr_t)variable->address;
    return !library->is_module || (address >= library->module.begin && address < library->module.end);
}

/* libsoftgpu.so lists the variables of modules, and those of the program if the program is linked with it. */
static CUresult
find_global(const struct library *library, const char *name, struct softgpu_variable *variable)
{
    __typeof__(softgpu_variable_at) *variable_at = &softgpu_variable_at;
    if (library->is_module) {
        variable_at = library->module.variable_at;
    }
    for (size_t at = 0; variable_at != NULL && variable_at(at, variable); ++at) {
        if (is_of_library(library, variable) && strcmp(variable->name, name) == 0) {
            return CUDA_SUCCESS;
        }
    }
    return CUDA_ERROR_NOT_FOUND;
}

static CUresult
global_named(void *handle, const char *name, CUdeviceptr *pointer, size_t *bytes)
{
    struct library *library;
    struct softgpu_variable variable;
    TRY(enter_library(handle, &library));
    REQUIRE(name != NULL);
    TRY(find_global(library, name, &variable));
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
cuModuleLoad(CUmodule *module, const char *path)
{
    struct context *context;
    TRY(context_enter(&context));
    REQUIRE_ELSE(!is_for_a_newer_driver(), CUDA_ERROR_NO_BINARY_FOR_GPU);
    return cuLibraryLoadFromFile((CUlibrary *)module, path, NULL, NULL, 0, NULL, NULL, 0);
}

CUresult
cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int count, CUjit_option *options, void **values)
{
    module_clear_logs(count, options, values);
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
