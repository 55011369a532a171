/*
 * driver.c - see driver.h.
 */
#include "library/driver.h"

#include "softgpu/draw.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The asked-for flavour of stream 0 is the legacy one: these libraries are, like NVIDIA's, compiled without per-thread
 * default streams. */
#define LOOKUP_FLAGS CU_GET_PROC_ADDRESS_LEGACY_STREAM

static struct softgpu_driver driver;
static bool driver_usable; /* written inside the once, read after it */

void
softgpu_line(const char *format, ...)
{
    char line[1024];
    int used = snprintf(line, sizeof(line), "softgpu: %s: ", softgpu_library_name);
    va_list args;
    va_start(args, format);
    int more = vsnprintf(line + used, sizeof(line) - (size_t)used - 1, format, args);
    va_end(args);
    size_t length = (size_t)used + (more > 0 ? (size_t)more : 0);
    if (length > sizeof(line) - 2)
        length = sizeof(line) - 2;
    line[length++] = '\n';
    if (write(STDERR_FILENO, line, length) < 0)
        return; /* stderr is closed: the line cannot be reported anywhere */
}

void
softgpu_line_unsupported(const char *name, _Atomic bool *said)
{
    if (!atomic_exchange(said, true))
        softgpu_line("%s is not supported by the stand-in", name);
}

/* Fills the table; returns the reason why it cannot, or NULL. */
static const char *
look_up_driver(char *reason, size_t size)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library) {
        snprintf(reason, size, "cannot open the driver: %s", dlerror());
        return reason;
    }
    __typeof__(cuGetProcAddress) *get_proc_address;
    void *symbol = dlsym(library, "cuGetProcAddress_v2");
    if (!symbol)
        return "libcuda.so.1 has no cuGetProcAddress_v2: it is older than CUDA 12";
    memcpy(&get_proc_address, &symbol, sizeof(symbol));

#define LOOK_UP(member, prototype, name, abi)                                                                  \
    symbol = NULL;                                                                                             \
    if (get_proc_address(name, &symbol, abi, LOOKUP_FLAGS, NULL) != CUDA_SUCCESS || !symbol) {                 \
        snprintf(reason, size, "the driver has no %s (ABI of CUDA %d.%d)", name, abi / 1000, abi % 1000 / 10); \
        return reason;                                                                                         \
    }                                                                                                          \
    memcpy(&driver.member, &symbol, sizeof(symbol));
    SOFTGPU_DRIVER_CALLS(LOOK_UP)
#undef LOOK_UP

    CUresult result = driver.init(0);
    if (result != CUDA_SUCCESS) {
        const char *name = "an unknown error";
        driver.get_error_name(result, &name);
        snprintf(reason, size, "cuInit failed with %s", name);
        return reason;
    }
    return NULL;
}

static void
open_driver(void)
{
    char text[256];
    const char *reason = look_up_driver(text, sizeof(text));
    if (reason)
        softgpu_line("%s", reason);
    driver_usable = !reason;
}

const struct softgpu_driver *
softgpu_driver(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, open_driver);
    return driver_usable ? &driver : NULL;
}

CUresult
softgpu_context_ensure(CUcontext *current)
{
    const struct softgpu_driver *d = softgpu_driver();
    if (!d)
        return CUDA_ERROR_NOT_INITIALIZED;
    CUcontext context = NULL;
    CUresult result = d->ctx_get_current(&context);
    if (result == CUDA_SUCCESS && !context) {
        result = d->primary_ctx_retain(&context, 0);
        if (result == CUDA_SUCCESS)
            result = d->ctx_set_current(context);
    }
    if (result == CUDA_SUCCESS)
        *current = context;
    return result;
}

int64_t
softgpu_cut(int64_t m, int64_t n, int64_t length)
{
    const struct softgpu_driver *d = softgpu_driver();
    if (!d || !d->unruly() || length < 2)
        return 0;
    uint64_t state = softgpu_mix(softgpu_mix((uint64_t)m, (uint64_t)n), (uint64_t)length);
    int64_t quarter = length / 4; /* in the middle half */
    return quarter + 1 + softgpu_draw(&state, (unsigned)(length - 2 * quarter - 1));
}

/* Two threads that launch a kernel for the first time may both load it; the second one's copy goes away again. */
static CUresult
load_kernel(struct softgpu_kernel *kernel, CUkernel *handle_p)
{
    CUlibrary library;
    CUresult result = driver.library_load_data(&library, &kernel->image, NULL, NULL, 0, NULL, NULL, 0);
    if (result != CUDA_SUCCESS)
        return result;
    CUkernel handle, expected = NULL;
    result = driver.library_get_kernel(&handle, library, kernel->image.name);
    if (result == CUDA_SUCCESS && atomic_compare_exchange_strong(&kernel->handle, &expected, handle)) {
        *handle_p = handle;
        return CUDA_SUCCESS;
    }
    driver.library_unload(library);
    if (result == CUDA_SUCCESS)
        *handle_p = expected;
    return result;
}

CUresult
softgpu_kernel_launch(struct softgpu_kernel *kernel, CUstream stream, void **args)
{
    const struct softgpu_driver *d = softgpu_driver();
    if (!d)
        return CUDA_ERROR_NOT_INITIALIZED;
    CUkernel handle = atomic_load_explicit(&kernel->handle, memory_order_acquire);
    if (!handle) {
        CUresult result = load_kernel(kernel, &handle);
        if (result != CUDA_SUCCESS)
            return result;
    }
    CUfunction function; /* of the current context, hence asked for at each launch */
    CUresult result = d->kernel_get_function(&function, handle);
    if (result != CUDA_SUCCESS)
        return result;
    return d->launch_kernel(function, 1, 1, 1, 1, 1, 1, 0, stream, args, NULL);
}
