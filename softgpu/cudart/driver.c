/*
 * driver.c - finds the driver as NVIDIA's runtime does, and keeps the right context current.
 *
 * One dlopen of libcuda.so.1, ONE dlsym, then cuGetProcAddress for everything. Both go through the ordinary,
 * preemptible symbols, so that a preloaded library may put itself in between.
 */
#include "runtime.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { DEVICE_LIMIT = 64 };

struct driver_calls driver;

bool runtime_is_deep;
_Thread_local unsigned runtime_depth;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static cudaError_t start_error;

static _Thread_local int thread_device;

static pthread_mutex_t primary_lock = PTHREAD_MUTEX_INITIALIZER; /* guards primary */
static CUcontext primary[DEVICE_LIMIT];                          /* retained by us; NULL: not yet */

static const struct {
    const char *name;
    int version;
    cuuint64_t flags;
    size_t place; /* in struct driver_calls */
} calls[] = {
#define CALL(abi, name, version, flags) {name, version, flags, offsetof(struct driver_calls, abi)},
#include "driver_calls.def"
};

static cudaError_t
bind_driver(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    if (library == NULL) {
        say("the runtime cannot load the driver: %s", dlerror());
        return cudaErrorInsufficientDriver;
    }
    __typeof__(&cuGetProcAddress_v2) get;
    void *symbol = dlsym(library, "cuGetProcAddress_v2");
    if (symbol == NULL) {
        say("libcuda.so.1 has no cuGetProcAddress_v2: it is older than CUDA 12");
        return cudaErrorInsufficientDriver;
    }
    memcpy(&get, &symbol, sizeof get);
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; ++i) {
        void *function = NULL;
        CUresult result = get(calls[i].name, &function, calls[i].version, calls[i].flags, NULL);
        if (result != CUDA_SUCCESS || function == NULL) {
            say("libcuda.so.1 has no %s (CUDA version %d): is it the stand-in's?", calls[i].name, calls[i].version);
            return cudaErrorInsufficientDriver;
        }
        memcpy((char *)&driver + calls[i].place, &function, sizeof function);
    }
    return cudaSuccess;
}

static void
start(void)
{
    const char *unruly = getenv("SOFTGPU_UNRULY");
    runtime_is_deep = unruly != NULL && *unruly != '\0';
    start_error = bind_driver();
    if (start_error == cudaSuccess) {
        start_error = from_driver(driver.cuInit(0));
    }
}

cudaError_t
runtime_start(void)
{
    pthread_once(&once, start);
    return start_error;
}

cudaError_t
runtime_context(int device, CUcontext *context_p)
{
    REQUIRE_ELSE(device >= 0 && device < DEVICE_LIMIT, cudaErrorInvalidDevice);
    pthread_mutex_lock(&primary_lock);
    CUcontext context = primary[device];
    pthread_mutex_unlock(&primary_lock);
    if (context == NULL) {
        /* Retaining it twice, if two threads come here at once, is harmless: the runtime never releases it. */
        TRY_DRIVER(driver.cuDevicePrimaryCtxRetain(&context, device));
        pthread_mutex_lock(&primary_lock);
        primary[device] = context;
        pthread_mutex_unlock(&primary_lock);
    }
    *context_p = context;
    return cudaSuccess;
}

cudaError_t
runtime_enter(void)
{
    CUcontext context = NULL;
    TRY(runtime_start());
    TRY_DRIVER(driver.cuCtxGetCurrent(&context));
    if (context == NULL) {
        TRY(runtime_context(thread_device, &context));
        TRY_DRIVER(driver.cuCtxSetCurrent(context));
    }
    return cudaSuccess;
}

int
runtime_device(void)
{
    CUdevice device;
    return driver.cuCtxGetDevice(&device) == CUDA_SUCCESS ? device : thread_device;
}

cudaError_t
runtime_set_device(int device)
{
    CUcontext context;
    int count;
    TRY_DRIVER(driver.cuDeviceGetCount(&count));
    REQUIRE_ELSE(device >= 0 && device < count, cudaErrorInvalidDevice);
    TRY(runtime_context(device, &context));
    TRY_DRIVER(driver.cuCtxSetCurrent(context));
    thread_device = device;
    return cudaSuccess;
}
