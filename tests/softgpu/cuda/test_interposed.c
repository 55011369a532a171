/*
 * test_interposed.c - an interposer between the runtime and the driver sees every call.
 *
 * This program has a dlsym of its own, as an interposer has. Properties: the runtime asks dlsym for nothing of the
 * driver but cuGetProcAddress_v2, once; a function that is put in the place of one of its answers is called, for each
 * launch form of both default-stream flavours and for copies.
 */
#include "kernels.h"

#include "tests/softgpu/real_dlsym.h"
#include "tests/test.h"

#include <cuda_runtime_api.h>
#include <execinfo.h>

static int dlsym_calls, lookups, launches, per_thread_launches, copies;
static int launch_frames, copy_frames; /* of the stack, in the last of those calls */

static int
frames_here(void)
{
    void *stack[64];
    return backtrace(stack, 64);
}

static __typeof__(&cuGetProcAddress_v2) real_get;
static __typeof__(&cuLaunchKernel) real_launch, real_launch_ptsz;
static __typeof__(&cuMemcpyHtoD) real_copy;

cudaError_t cudaLaunchKernel_ptsz(const void *kernel, dim3 grid, dim3 block, void **args, size_t shared_bytes,
                                  cudaStream_t stream);

static CUresult
count_launch(CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
             unsigned shared, CUstream stream, void **args, void **extra)
{
    ++launches;
    launch_frames = frames_here();
    return real_launch(function, gx, gy, gz, bx, by, bz, shared, stream, args, extra);
}

static CUresult
count_launch_ptsz(CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                  unsigned shared, CUstream stream, void **args, void **extra)
{
    ++per_thread_launches;
    return real_launch_ptsz(function, gx, gy, gz, bx, by, bz, shared, stream, args, extra);
}

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
    static const __typeof__(&cuLaunchKernel) launch = count_launch, launch_ptsz = count_launch_ptsz;
    static const __typeof__(&cuMemcpyHtoD) copy = count_copy;
    ++lookups;
    CUresult result = real_get(name, found, version, flags, status);
    if (strcmp(name, "cuLaunchKernel") == 0 && flags == CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)
        replace(found, &real_launch_ptsz, &launch_ptsz);
    else if (strcmp(name, "cuLaunchKernel") == 0)
        replace(found, &real_launch, &launch);
    else if (strcmp(name, "cuMemcpyHtoD") == 0 && flags == 0)
        replace(found, &real_copy, &copy);
    return result;
}

__attribute__((visibility("default"))) void *dlsym(void *restrict library, const char *restrict name);

void *
dlsym(void *restrict library, const char *restrict name)
{
    void *found = real_dlsym(library, name);
    if (name[0] == 'c' && name[1] == 'u')
        ++dlsym_calls;
    if (strcmp(name, "cuGetProcAddress_v2") == 0) {
        static const __typeof__(&cuGetProcAddress_v2) mine = get_proc_address;
        replace(&found, &real_get, &mine);
    }
    return found;
}

TEST(every_call_passes_through_what_was_put_there)
{
    const dim3 one = {1, 1, 1};
    atomic_int calls = 0, *pointer = &calls;
    void *args[] = {&pointer};
    char *device, host[8] = {0};
    cudaLibrary_t library;
    cudaKernel_t kernel;
    ck_assert_int_eq(cudaLibraryLoadData(&library, &whole_image, NULL, NULL, 0, NULL, NULL, 0), cudaSuccess);
    ck_assert_int_eq(cudaLibraryGetKernel(&kernel, library, "whole"), cudaSuccess);
    ck_assert_int_eq(cudaLaunchKernel((const void *)kernel, one, one, args, 0, 0), cudaSuccess);
    ck_assert_int_eq(cudaLaunchKernel_ptsz((const void *)kernel, one, one, args, 0, 0), cudaSuccess);
    ck_assert_int_eq(cudaMalloc((void **)&device, 8), cudaSuccess);
    ck_assert_int_eq(cudaMemcpy(device, host, 8, cudaMemcpyHostToDevice), cudaSuccess);
    ck_assert_int_eq(cudaDeviceSynchronize(), cudaSuccess);
    ck_assert_int_eq(cudaFree(device), cudaSuccess);
    ck_assert_int_eq(atomic_load(&calls), 2);
    ck_assert_int_eq(dlsym_calls, 1);
    ck_assert_int_gt(lookups, 100);
    ck_assert_int_eq(launches, 1);
    ck_assert_int_eq(per_thread_launches, 1);
    ck_assert_int_eq(copies, 1);

    /* With SOFTGPU_UNRULY the runtime has frames of its own, as a static one has. */
    const char *unruly = getenv("SOFTGPU_UNRULY");
    const bool deep = unruly != NULL && *unruly != '\0';
    ck_assert_int_eq(launch_frames - frames_here() > 3, deep);
    ck_assert_int_eq(copy_frames - frames_here() > 3, deep);
}
