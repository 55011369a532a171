/*
 * conduct.c - see conduct.h.
 */
#include "nccl/conduct.h"

#include "nccl/comm.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum { CALL_BYTES = 1 << 16 };

static const int version_meeting_in_all = 22304; /* 2.23.4 */

/* ---- the environment ---- */

static bool
is_zero(const char *value)
{
    return value != NULL && strcmp(value, "0") == 0;
}

static bool
read_meets(enum conduct_meets *meets_p)
{
    static const char *const names[] = {[MEETS_NEVER] = "", [MEETS_REGISTERED] = "registered", [MEETS_ALL] = "all"};
    const char *value = getenv("SOFTGPU_NCCL_MEETS");
    for (int i = MEETS_NEVER; i <= MEETS_ALL; ++i) {
        if (strcmp(value != NULL ? value : "", names[i]) == 0) {
            *meets_p = (enum conduct_meets)i;
            return true;
        }
    }
    return false;
}

/* "1", or "0" as without it; else malformed. */
static bool
read_switch(const char *name, bool *is_on_p)
{
    const char *value = getenv(name);
    *is_on_p = value != NULL && strcmp(value, "1") == 0;
    return *is_on_p || value == NULL || *value == '\0' || strcmp(value, "0") == 0;
}

static bool
read_takes(size_t *bytes_p)
{
    const char *value = getenv("SOFTGPU_NCCL_TAKES");
    if (value == NULL || *value == '\0') {
        *bytes_p = 0;
        return true;
    }
    char *end;
    errno = 0;
    unsigned long long mib = strtoull(value, &end, 10);
    *bytes_p = (size_t)mib << 20;
    return errno == 0 && *end == '\0' && *value != '-' && mib <= 1 << 20;
}

ncclResult_t
conduct_read(struct conduct *conduct_p)
{
    struct conduct conduct = {.connects_at_start = is_zero(getenv("NCCL_RUNTIME_CONNECT"))};
    if (!read_switch("SOFTGPU_NCCL_CALLS", &conduct.calls))
        return nccl_error(ncclInvalidArgument, "SOFTGPU_NCCL_CALLS=%s is malformed: give 0 or 1",
                          getenv("SOFTGPU_NCCL_CALLS"));
    if (!read_switch("SOFTGPU_NCCL_CORRUPTS", &conduct.corrupts))
        return nccl_error(ncclInvalidArgument, "SOFTGPU_NCCL_CORRUPTS=%s is malformed: give 0 or 1",
                          getenv("SOFTGPU_NCCL_CORRUPTS"));
    if (!read_meets(&conduct.meets))
        return nccl_error(ncclInvalidArgument, "SOFTGPU_NCCL_MEETS=%s is malformed: give registered or all",
                          getenv("SOFTGPU_NCCL_MEETS"));
    if (!read_takes(&conduct.takes_bytes))
        return nccl_error(ncclInvalidArgument, "SOFTGPU_NCCL_TAKES=%s is malformed: give a number of MiB",
                          getenv("SOFTGPU_NCCL_TAKES"));
    if (is_zero(getenv("NCCL_NVLS_ENABLE")))
        conduct.meets = MEETS_NEVER;
    *conduct_p = conduct;
    return ncclSuccess;
}

int
conduct_version(void)
{
    enum conduct_meets meets;
    if (read_meets(&meets) && meets == MEETS_ALL)
        return version_meeting_in_all;
    return NCCL_VERSION_CODE;
}

bool
conduct_registers(void)
{
    return !is_zero(getenv("NCCL_LOCAL_REGISTER"));
}

/* ---- calls of the runtime ---- */

#define RUNTIME_CALLS(X)         \
    X(cudaStreamCreateWithFlags) \
    X(cudaMalloc)                \
    X(cudaMemsetAsync)           \
    X(cudaMemcpyAsync) X(cudaStreamSynchronize) X(cudaFree) X(cudaStreamDestroy) X(cudaThreadExchangeStreamCaptureMode)

struct runtime {
#define MEMBER(call) __typeof__(&(call)) call;
    RUNTIME_CALLS(MEMBER)
#undef MEMBER
};

/* The shared runtime: the program's own where it is linked with that. */
static bool
find_runtime(struct runtime *runtime)
{
    void *library = dlopen("libcudart.so.13", RTLD_NOW);
    if (library == NULL)
        return false;
#define FIND(call)                                    \
    *(void **)&runtime->call = dlsym(library, #call); \
    if (runtime->call == NULL)                        \
        return false;
    RUNTIME_CALLS(FIND)
#undef FIND
    return true;
}

ncclResult_t
conduct_call(void)
{
    static const unsigned char zeros[CALL_BYTES];
    struct runtime runtime;
    cudaStream_t stream = NULL;
    void *memory = NULL;
    if (!find_runtime(&runtime))
        return nccl_error(ncclSystemError, "SOFTGPU_NCCL_CALLS=1: there is no shared runtime: %s", dlerror());
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed; /* a stream of the program may be captured */
    cudaError_t error = runtime.cudaThreadExchangeStreamCaptureMode(&mode);
    if (error == cudaSuccess)
        error = runtime.cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    if (error == cudaSuccess)
        error = runtime.cudaMalloc(&memory, CALL_BYTES);
    if (error == cudaSuccess)
        error = runtime.cudaMemsetAsync(memory, 0, CALL_BYTES, stream);
    if (error == cudaSuccess)
        error = runtime.cudaMemcpyAsync(memory, zeros, CALL_BYTES, cudaMemcpyHostToDevice, stream);
    if (error == cudaSuccess)
        error = runtime.cudaStreamSynchronize(stream);
    if (memory != NULL)
        (void)runtime.cudaFree(memory);
    if (stream != NULL)
        (void)runtime.cudaStreamDestroy(stream);
    (void)runtime.cudaThreadExchangeStreamCaptureMode(&mode);
    if (error != cudaSuccess)
        return nccl_error(ncclUnhandledCudaError, "SOFTGPU_NCCL_CALLS=1: the runtime answers error %d", (int)error);
    return ncclSuccess;
}

struct own_thread {
    CUcontext context;
    ncclResult_t result;
};

static void *
call_with_context(void *argument)
{
    struct own_thread *own = argument;
    own->result = nccl_cuda(softgpu_driver()->ctx_set_current(own->context), "cuCtxSetCurrent");
    if (own->result == ncclSuccess)
        own->result = conduct_call();
    return NULL;
}

ncclResult_t
conduct_call_in_thread(void *context)
{
    struct own_thread own = {.context = context};
    pthread_t thread;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&thread, NULL, call_with_context, &own);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed != 0)
        return nccl_error(ncclSystemError, "cannot start a thread: %s", strerror(failed));
    pthread_join(thread, NULL);
    return own.result;
}
