/*
 * test_interposed.c - an interposer between the driver and the runtime and libraries sees every call.
 *
 * This program has a dlsym of its own, as an interposer has. Properties: the runtime asks dlsym for nothing of the
 * driver but cuGetProcAddress_v2, once; a function that is put in the place of one of its answers is called, for each
 * launch form of both default-stream flavours and for copies; each operation of cuBLAS and NCCL passes it, with its
 * operands as pointer parameters that cuFuncGetParamInfo describes.
 */
#include "../cublas/device.h"
#include "kernels.h"

#include "tests/lib/test.h"
#include "tests/real_dlsym.h"

#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <execinfo.h>
#include <nccl.h>

enum flavour { LEGACY, PER_THREAD };

static int dlsym_calls, lookups, launches[2], copies, copy_frames;

/* The last launch. */
static struct {
    CUstream stream;
    char name[64];
    size_t pointer_count;
    const void *pointers[16];
    int frames; /* of the stack */
} seen;

static int
frames_here(void)
{
    void *stack[64];
    return backtrace(stack, 64);
}

static __typeof__(&cuGetProcAddress_v2) real_get;
static __typeof__(&cuLaunchKernel) real_launch[2];
static __typeof__(&cuMemcpyHtoD) real_copy;

cudaError_t cudaLaunchKernel_ptsz(const void *kernel, dim3 grid, dim3 block, void **args, size_t shared_bytes,
                                  cudaStream_t stream);

static void
note_launch(enum flavour flavour, CUfunction function, CUstream stream, void **params)
{
    const char *name = "";
    size_t offset, bytes;
    cuFuncGetName(&name, function);
    ++launches[flavour];
    seen.stream = stream;
    strncpy(seen.name, name, sizeof(seen.name) - 1);
    seen.pointer_count = 0;
    for (size_t i = 0; cuFuncGetParamInfo(function, i, &offset, &bytes) == CUDA_SUCCESS; ++i) {
        if (bytes == sizeof(void *) && seen.pointer_count < 16)
            seen.pointers[seen.pointer_count++] = *(const void **)params[i];
    }
}

#define WATCH(name, flavour)                                                                                   \
    static CUresult name(CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, \
                         unsigned bz, unsigned shared, CUstream stream, void **args, void **extra)             \
    {                                                                                                          \
        seen.frames = frames_here();                                                                           \
        note_launch(flavour, function, stream, args);                                                          \
        return real_launch[flavour](function, gx, gy, gz, bx, by, bz, shared, stream, args, extra);            \
    }
WATCH(watch_launch, LEGACY)
WATCH(watch_launch_ptsz, PER_THREAD)

static CUresult
count_copy(CUdeviceptr to, const void *from, size_t bytes)
{
    ++copies;
    copy_frames = frames_here();
    return real_copy(to, from, bytes);
}

/* Puts `mine` in the place of what was found. */
static void
replace(void **found, void *real, const void *mine)
{
    memcpy(real, found, sizeof *found);
    memcpy(found, mine, sizeof *found);
}

static CUresult
get_proc_address(const char *name, void **found, int version, cuuint64_t flags, CUdriverProcAddressQueryResult *status)
{
    static const __typeof__(&cuLaunchKernel) launch[] = {watch_launch, watch_launch_ptsz};
    static const __typeof__(&cuMemcpyHtoD) copy = count_copy;
    ++lookups;
    CUresult result = real_get(name, found, version, flags, status);
    enum flavour flavour = flags == CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM ? PER_THREAD : LEGACY;
    if (result == CUDA_SUCCESS && strcmp(name, "cuLaunchKernel") == 0)
        replace(found, &real_launch[flavour], &launch[flavour]);
    else if (strcmp(name, "cuMemcpyHtoD") == 0 && flags == 0)
        replace(found, &real_copy, &copy);
    return result;
}

__attribute__((visibility("default"))) void *dlsym(void *restrict library, const char *restrict name);

void *
dlsym(void *restrict library, const char *restrict name)
{
    void *found = real_dlsym(library, name);
    dlsym_calls += name[0] == 'c' && name[1] == 'u';
    if (strcmp(name, "cuGetProcAddress_v2") == 0) {
        static const __typeof__(&cuGetProcAddress_v2) mine = get_proc_address;
        replace(&found, &real_get, &mine);
    }
    return found;
}

static bool
saw_pointer(const void *pointer)
{
    bool found = false;
    for (size_t i = 0; i < seen.pointer_count; ++i)
        found = found || seen.pointers[i] == pointer;
    return found;
}

/* With SOFTGPU_UNRULY runtime and libraries have frames of their own, as static ones have. */
static bool
are_deep(void)
{
    const char *unruly = getenv("SOFTGPU_UNRULY");
    return unruly != NULL && *unruly != '\0';
}

TEST(every_call_passes_through_what_was_put_there)
{
    const dim3 one = {1, 1, 1};
    atomic_int calls = 0, *pointer = &calls;
    void *args[] = {&pointer};
    char *device, host[8] = {0};
    cudaLibrary_t library;
    cudaKernel_t kernel;
    OK(cudaLibraryLoadData(&library, &whole_image, NULL, NULL, 0, NULL, NULL, 0));
    OK(cudaLibraryGetKernel(&kernel, library, "whole"));
    OK(cudaLaunchKernel((const void *)kernel, one, one, args, 0, 0));
    ck_assert_int_eq(seen.frames - frames_here() > 3, are_deep());
    OK(cudaLaunchKernel_ptsz((const void *)kernel, one, one, args, 0, 0));
    OK(cudaMalloc((void **)&device, 8));
    OK(cudaMemcpy(device, host, 8, cudaMemcpyHostToDevice));
    OK(cudaDeviceSynchronize());
    OK(cudaFree(device));
    ck_assert_int_eq(atomic_load(&calls), 2);
    ck_assert_int_eq(dlsym_calls, 1);
    ck_assert_int_gt(lookups, 100);
    ck_assert(launches[LEGACY] == 1 && launches[PER_THREAD] == 1 && copies == 1);
    ck_assert_int_eq(copy_frames - frames_here() > 3, are_deep());
}

TEST_GROUP(libraries, .start = device_start);

TEST(products_pass_with_their_operands)
{
    cublasHandle_t handle;
    float one = 1.0f, *a = device_copy_of(NULL, 64), *b = device_copy_of(NULL, 64), *c = device_copy_of(NULL, 64);
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    OK(cublasCreate(&handle));
    OK(cublasSetStream(handle, stream));
    int before = launches[LEGACY];
    ck_assert_int_eq(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, 4, 4, 4, &one, a, 4, b, 4, &one, c, 4), 0);
    ck_assert_int_eq(launches[LEGACY], before + 1);
    ck_assert_str_eq(seen.name, "cublas_gemm");
    ck_assert_int_eq(seen.frames - frames_here() > 12, are_deep());
    ck_assert_ptr_eq(seen.stream, stream);
    ck_assert(saw_pointer(a) && saw_pointer(b) && saw_pointer(c) && !saw_pointer(&one));
    ck_assert_int_eq(cublasSaxpy(handle, 4, &one, a, 1, b, 1), 0);
    ck_assert_int_eq(launches[LEGACY], before + 2);
    ck_assert(saw_pointer(a) && saw_pointer(b));
    ck_assert_int_eq(cublasSgemv(handle, CUBLAS_OP_N, 4, 4, &one, a, 4, b, 1, &one, c, 1), 0);
    ck_assert_int_eq(launches[LEGACY], before + 3);
    ck_assert(saw_pointer(a) && saw_pointer(b) && saw_pointer(c));
    OK(cublasDestroy(handle));
}

TEST(collectives_pass_with_their_buffers)
{
    ncclUniqueId id;
    ncclComm_t comm;
    float *a = device_copy_of(NULL, 64), *b = device_copy_of(NULL, 64);
    OK(ncclGetUniqueId(&id));
    OK(ncclCommInitRank(&comm, 1, id, 0));
    int before = launches[LEGACY];
    OK(ncclAllReduce(a, b, 16, ncclFloat, ncclSum, comm, NULL));
    ck_assert_int_eq(launches[LEGACY], before + 1);
    ck_assert_str_eq(seen.name, "ncclDevKernel_AllReduce");
    ck_assert(saw_pointer(a) && saw_pointer(b));
    OK(ncclCommDestroy(comm));
}
