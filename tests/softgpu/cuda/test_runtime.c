/*
 * test_runtime.c - the runtime over the driver: translation, errors of a thread, launches in the forms that compilers
 * generate.
 */
#include "kernels.h"

#include "softgpu/block.h"
#include "softgpu/stub.h"

#include "tests/test.h"

#include <cuda_runtime_api.h>

/* Declared by NVIDIA's headers for C++ only. */
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes, void *stream);
cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared_bytes, void *stream);
cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *stub);
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **args, size_t shared_bytes,
                               cudaStream_t stream);
cudaError_t __cudaLaunchKernel_ptsz(cudaKernel_t kernel, dim3 grid, dim3 block, void **args, size_t shared_bytes,
                                    cudaStream_t stream);
cudaError_t cudaLaunchKernel_ptsz(const void *kernel, dim3 grid, dim3 block, void **args, size_t shared_bytes,
                                  cudaStream_t stream);

static const dim3 one = {1, 1, 1};

/* Answers softgpu_stub_image() as softgpu-cc's stubs do. */
static void
whole_stub(atomic_int *calls)
{
    (void)calls;
    if (softgpu_thread.probe != NULL)
        *softgpu_thread.probe = &whole_image;
}

static cudaKernel_t
load_kernel(const struct softgpu_image *image)
{
    cudaLibrary_t library;
    cudaKernel_t kernel;
    ck_assert_int_eq(cudaLibraryLoadData(&library, image, NULL, NULL, 0, NULL, NULL, 0), cudaSuccess);
    ck_assert_int_eq(cudaLibraryGetKernel(&kernel, library, image->name), cudaSuccess);
    return kernel;
}

TEST_GROUP(all, .timeout_s = 100);

TEST(kernels_launch_by_handle_and_by_stub)
{
    atomic_int calls = 0, *pointer = &calls;
    void *args[] = {&pointer};
    cudaKernel_t kernel = load_kernel(&whole_image), handle;
    ck_assert_int_eq(cudaLaunchKernel((const void *)kernel, one, one, args, 0, 0), cudaSuccess);
    ck_assert_int_eq(cudaLaunchKernel_ptsz((const void *)kernel, one, one, args, 0, 0), cudaSuccess);
    ck_assert_int_eq(__cudaLaunchKernel(kernel, one, one, args, 0, 0), cudaSuccess);
    ck_assert_int_eq(__cudaLaunchKernel_ptsz(kernel, one, one, args, 0, 0), cudaSuccess);
    ck_assert_int_eq(cudaLaunchCooperativeKernel((const void *)kernel, one, one, args, 0, 0), cudaSuccess);
    cudaLaunchConfig_t config = {.gridDim = one, .blockDim = one};
    ck_assert_int_eq(cudaLaunchKernelExC(&config, (const void *)kernel, args), cudaSuccess);
    for (int i = 0; i < 2; ++i) /* the second time it is known */
        ck_assert_int_eq(cudaLaunchKernel((const void *)whole_stub, one, one, args, 0, 0), cudaSuccess);
    ck_assert_int_eq(__cudaGetKernel(&handle, (const void *)whole_stub), cudaSuccess);
    ck_assert_int_eq(__cudaLaunchKernel(handle, one, one, args, 0, 0), cudaSuccess);
    ck_assert_int_eq(cudaGetKernel(&handle, (const void *)whole_stub), cudaSuccess);
    ck_assert_int_eq(cudaLaunchKernel((const void *)handle, one, one, args, 0, 0), cudaErrorInvalidDeviceFunction);
    cudaFunction_t function;
    ck_assert_int_eq(cudaGetFuncBySymbol(&function, (const void *)whole_stub), cudaSuccess);
    ck_assert_int_eq(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, args, NULL), CUDA_SUCCESS);
    ck_assert_int_eq(cudaDeviceSynchronize(), cudaSuccess);
    ck_assert_int_eq(atomic_load(&calls), 10);
    (void)cudaGetLastError();
}

TEST(what_is_no_kernel_is_refused)
{
    static int data;
    ck_assert_int_eq(cudaLaunchKernel(&data, one, one, NULL, 0, 0), cudaErrorInvalidDeviceFunction);
    ck_assert_int_eq(cudaLaunchKernel(NULL, one, one, NULL, 0, 0), cudaErrorInvalidDeviceFunction);
    cudaKernel_t bounded = load_kernel(&bounded_image);
    dim3 too_many = {1025, 1, 1};
    ck_assert_int_eq(cudaLaunchKernel((const void *)bounded, one, too_many, NULL, 0, 0), cudaErrorInvalidConfiguration);
    dim3 none = {0, 1, 1};
    ck_assert_int_eq(cudaLaunchKernel((const void *)bounded, none, one, NULL, 0, 0), cudaErrorInvalidConfiguration);
    ck_assert_int_eq(cudaGetLastError(), cudaErrorInvalidConfiguration);
    ck_assert_int_eq(cudaLaunchKernel((const void *)bounded, one, one, NULL, 100 << 10, 0), cudaErrorInvalidValue);
    (void)cudaGetLastError();
}

TEST(kernels_can_be_asked_about)
{
    cudaKernel_t bounded = load_kernel(&bounded_image);
    struct cudaFuncAttributes attributes;
    ck_assert_int_eq(cudaFuncGetAttributes(&attributes, (const void *)bounded), cudaSuccess);
    ck_assert_int_eq(attributes.maxThreadsPerBlock, 128);
    ck_assert_uint_eq(attributes.sharedSizeBytes, 1000);
    ck_assert_int_eq(
        cudaFuncSetAttribute((const void *)bounded, cudaFuncAttributeMaxDynamicSharedMemorySize, 200 << 10),
        cudaSuccess);
    ck_assert_int_eq(cudaFuncGetAttributes(&attributes, (const void *)bounded), cudaSuccess);
    ck_assert_int_eq(attributes.maxDynamicSharedSizeBytes, 200 << 10);
    ck_assert_int_eq(cudaFuncGetAttributes(&attributes, (const void *)whole_stub), cudaSuccess);
    ck_assert_int_eq(attributes.maxThreadsPerBlock, 1024);
    int blocks;
    ck_assert_int_eq(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, (const void *)whole_stub, 256, 0),
                     cudaSuccess);
    ck_assert_int_eq(blocks, 8);
    const char *name;
    ck_assert_int_eq(cudaFuncGetName(&name, (const void *)whole_stub), cudaSuccess);
    ck_assert_str_eq(name, "whole");
}

TEST(configurations_are_a_stack)
{
    dim3 grid = {1, 2, 3}, block = {4, 5, 6}, got_grid, got_block;
    size_t shared_bytes;
    cudaStream_t stream;
    ck_assert_uint_eq(__cudaPushCallConfiguration(grid, block, 7, (void *)8), 0);
    ck_assert_uint_eq(__cudaPushCallConfiguration(one, one, 0, NULL), 0);
    ck_assert_int_eq(__cudaPopCallConfiguration(&got_grid, &got_block, &shared_bytes, &stream), cudaSuccess);
    ck_assert_mem_eq(&got_grid, &one, sizeof one);
    ck_assert_int_eq(__cudaPopCallConfiguration(&got_grid, &got_block, &shared_bytes, &stream), cudaSuccess);
    ck_assert_mem_eq(&got_grid, &grid, sizeof grid);
    ck_assert_mem_eq(&got_block, &block, sizeof block);
    ck_assert_uint_eq(shared_bytes, 7);
    ck_assert_ptr_eq(stream, (void *)8);
    ck_assert_int_eq(__cudaPopCallConfiguration(&got_grid, &got_block, &shared_bytes, &stream),
                     cudaErrorMissingConfiguration);
    (void)cudaGetLastError();
}

static void *
check_own_error(void *unused)
{
    (void)unused;
    return (void *)(intptr_t)(cudaPeekAtLastError() == cudaSuccess);
}

TEST(errors_belong_to_their_thread_and_have_names)
{
    void *fine;
    pthread_t thread;
    ck_assert_int_eq(cudaGetLastError(), cudaSuccess);
    ck_assert_int_eq(cudaSetDevice(99), cudaErrorInvalidDevice);
    pthread_create(&thread, NULL, check_own_error, NULL);
    pthread_join(thread, &fine);
    ck_assert_ptr_nonnull(fine);
    ck_assert_int_eq(cudaPeekAtLastError(), cudaErrorInvalidDevice);
    ck_assert_int_eq(cudaGetLastError(), cudaErrorInvalidDevice);
    ck_assert_int_eq(cudaGetLastError(), cudaSuccess);
    ck_assert_str_eq(cudaGetErrorName(cudaErrorInvalidDevice), "cudaErrorInvalidDevice");
    ck_assert_str_eq(cudaGetErrorName(cudaErrorMemoryAllocation), "cudaErrorMemoryAllocation");
    ck_assert_str_eq(cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory");
    ck_assert_str_eq(cudaGetErrorString(cudaSuccess), "no error");
    ck_assert_str_eq(cudaGetErrorName((cudaError_t)54321), "unrecognized error code");
}

TEST(copies_and_memset_go_by_their_kind)
{
    char *device, *other, *pinned, host[64], back[64];
    for (int i = 0; i < 64; ++i)
        host[i] = (char)i;
    ck_assert_int_eq(cudaMalloc((void **)&device, 64), cudaSuccess);
    ck_assert_int_eq(cudaMalloc((void **)&other, 64), cudaSuccess);
    ck_assert_int_eq(cudaMallocHost((void **)&pinned, 64), cudaSuccess);
    ck_assert_int_eq(cudaMemcpy(device, host, 64, cudaMemcpyHostToDevice), cudaSuccess);
    ck_assert_int_eq(cudaMemcpy(other, device, 64, cudaMemcpyDeviceToDevice), cudaSuccess);
    ck_assert_int_eq(cudaMemcpyAsync(pinned, other, 64, cudaMemcpyDeviceToHost, 0), cudaSuccess);
    ck_assert_int_eq(cudaMemcpy(back, pinned, 64, cudaMemcpyHostToHost), cudaSuccess);
    ck_assert_mem_eq(back, host, 64);
    ck_assert_int_eq(cudaMemset(device, 7, 64), cudaSuccess);
    ck_assert_int_eq(cudaMemcpy2D(device, 16, host, 8, 4, 3, cudaMemcpyDefault), cudaSuccess);
    ck_assert_int_eq(cudaMemset2D(device + 1, 16, 9, 2, 2), cudaSuccess);
    ck_assert_int_eq(cudaMemcpy(back, device, 64, cudaMemcpyDefault), cudaSuccess);
    const char expected[] = {0, 9, 9, 3, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 9, 9, 11, 7};
    ck_assert_mem_eq(back, expected, sizeof expected);
    ck_assert_int_eq(cudaMemcpy(device, host, 65, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
    ck_assert_int_eq(cudaMemcpy(device, host, 64, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
    ck_assert_int_eq(cudaMemcpy(device, host, 64, (enum cudaMemcpyKind)9), cudaErrorInvalidMemcpyDirection);
    ck_assert_int_eq(cudaMemcpy2D(device, 2, host, 8, 4, 3, cudaMemcpyDefault), cudaErrorInvalidPitchValue);
    (void)cudaGetLastError();

    struct cudaPointerAttributes attributes;
    ck_assert_int_eq(cudaPointerGetAttributes(&attributes, device + 3), cudaSuccess);
    ck_assert_int_eq(attributes.type, cudaMemoryTypeDevice);
    ck_assert_ptr_eq(attributes.devicePointer, device + 3);
    ck_assert_ptr_null(attributes.hostPointer);
    ck_assert_int_eq(cudaPointerGetAttributes(&attributes, pinned), cudaSuccess);
    ck_assert_int_eq(attributes.type, cudaMemoryTypeHost);
    ck_assert_int_eq(cudaPointerGetAttributes(&attributes, host), cudaSuccess);
    ck_assert_int_eq(attributes.type, cudaMemoryTypeUnregistered);
    ck_assert_int_eq(attributes.device, cudaInvalidDeviceId);
    ck_assert_ptr_eq(attributes.hostPointer, host);

    void *nothing = host;
    ck_assert_int_eq(cudaMalloc(&nothing, 0), cudaSuccess);
    ck_assert_ptr_null(nothing);
    ck_assert_int_eq(cudaFree(NULL), cudaSuccess);
    ck_assert_int_eq(cudaFree(host), cudaErrorInvalidValue);
    ck_assert_int_eq(cudaFreeHost(pinned), cudaSuccess);
    ck_assert_int_eq(cudaFree(device), cudaSuccess);
    ck_assert_int_eq(cudaFree(other), cudaSuccess);
    (void)cudaGetLastError();
}

static float scale[4]; /* plays a __device__ variable */

TEST(device_variables_are_device_memory)
{
    static struct softgpu_variable variable = {.name = "scale", .address = scale, .bytes = sizeof scale};
    static float host[4];
    float values[4] = {1, 2, 3, 4}, back[4] = {0};
    void *address;
    size_t bytes;
    ck_assert_int_eq(cudaMemcpyToSymbol(host, values, 4, 0, cudaMemcpyHostToDevice), cudaErrorInvalidSymbol);
    softgpu_variable_add(&variable);
    ck_assert_int_eq(cudaMemcpyToSymbol(scale, values, sizeof values, 0, cudaMemcpyHostToDevice), cudaSuccess);
    ck_assert_int_eq(cudaMemcpyToSymbol(scale, values, 4, 12, cudaMemcpyHostToDevice), cudaSuccess);
    ck_assert_int_eq(cudaMemcpyToSymbol(scale, values, 8, 12, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
    ck_assert_int_eq(cudaMemcpyFromSymbol(back, scale, sizeof back, 0, cudaMemcpyDeviceToHost), cudaSuccess);
    ck_assert_float_eq(back[1], 2);
    ck_assert_float_eq(back[3], 1);
    ck_assert_int_eq(cudaGetSymbolAddress(&address, scale), cudaSuccess);
    ck_assert_ptr_eq(address, scale);
    ck_assert_int_eq(cudaGetSymbolSize(&bytes, scale), cudaSuccess);
    ck_assert_uint_eq(bytes, sizeof scale);
    ck_assert_int_eq(cudaMemset(address, 0, sizeof scale), cudaSuccess);
    ck_assert_int_eq(cudaMemcpy(back, address, sizeof back, cudaMemcpyDeviceToHost), cudaSuccess);
    ck_assert_float_eq(back[1], 0);
    struct cudaPointerAttributes attributes;
    ck_assert_int_eq(cudaPointerGetAttributes(&attributes, scale), cudaSuccess);
    ck_assert_int_eq(attributes.type, cudaMemoryTypeDevice);
    softgpu_variable_remove(&variable);
    (void)cudaGetLastError();
}

TEST(devices_are_described)
{
    int count, device = -1, version, value;
    struct cudaDeviceProp properties;
    size_t free_bytes, total;
    ck_assert_int_eq(cudaGetDeviceCount(&count), cudaSuccess);
    ck_assert_int_eq(count, 1);
    ck_assert_int_eq(cudaSetDevice(0), cudaSuccess);
    ck_assert_int_eq(cudaGetDevice(&device), cudaSuccess);
    ck_assert_int_eq(device, 0);
    ck_assert_int_eq(cudaRuntimeGetVersion(&version), cudaSuccess);
    ck_assert_int_eq(version, CUDART_VERSION);
    ck_assert_int_eq(cudaDriverGetVersion(&version), cudaSuccess);
    ck_assert_int_eq(version, 13000);
    ck_assert_int_eq(cudaGetDeviceProperties(&properties, 0), cudaSuccess);
    ck_assert_int_eq(properties.major, 9);
    ck_assert_int_eq(properties.warpSize, 32);
    ck_assert_int_eq(cudaMemGetInfo(&free_bytes, &total), cudaSuccess);
    ck_assert_uint_eq(properties.totalGlobalMem, total);
    ck_assert_int_eq(cudaDeviceGetAttribute(&value, cudaDevAttrMultiProcessorCount, 0), cudaSuccess);
    ck_assert_int_eq(value, properties.multiProcessorCount);
    ck_assert_int_eq(cudaGetDeviceProperties(&properties, 1), cudaErrorInvalidDevice);
    (void)cudaGetLastError();
}

TEST(events_and_streams_pass_through)
{
    cudaStream_t stream;
    cudaEvent_t start, end;
    float milliseconds = -1;
    ck_assert_int_eq(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
    ck_assert_int_eq(cudaEventCreate(&start), cudaSuccess);
    ck_assert_int_eq(cudaEventCreateWithFlags(&end, cudaEventBlockingSync), cudaSuccess);
    ck_assert_int_eq(cudaEventRecord(start, stream), cudaSuccess);
    ck_assert_int_eq(cudaEventRecord(end, stream), cudaSuccess);
    ck_assert_int_eq(cudaStreamWaitEvent(0, end, 0), cudaSuccess);
    ck_assert_int_eq(cudaEventSynchronize(end), cudaSuccess);
    ck_assert_int_eq(cudaEventElapsedTime(&milliseconds, start, end), cudaSuccess);
    ck_assert_float_ge(milliseconds, 0);
    ck_assert_int_eq(cudaEventDestroy(start), cudaSuccess);
    ck_assert_int_eq(cudaEventDestroy(start), cudaErrorInvalidResourceHandle);
    ck_assert_int_eq(cudaStreamSynchronize(stream), cudaSuccess);
    ck_assert_int_eq(cudaStreamQuery(stream), cudaSuccess);
    ck_assert_int_eq(cudaStreamDestroy(stream), cudaSuccess);
    (void)cudaGetLastError();
}

/* Last: it takes away what the tests before it made. */
TEST(a_reset_device_is_empty_and_usable)
{
    void *memory, *again;
    cudaStream_t stream;
    struct cudaPointerAttributes attributes;
    size_t free_bytes, total;
    atomic_int calls = 0, *pointer = &calls;
    void *args[] = {&pointer};
    ck_assert_int_eq(cudaMalloc(&memory, 1000), cudaSuccess);
    ck_assert_int_eq(cudaStreamCreate(&stream), cudaSuccess);
    ck_assert_int_eq(cudaLaunchKernel((const void *)whole_stub, one, one, args, 0, stream), cudaSuccess);
    ck_assert_int_eq(cudaDeviceReset(), cudaSuccess);
    ck_assert_int_eq(atomic_load(&calls), 1);
    ck_assert_int_eq(cudaStreamQuery(stream), cudaErrorInvalidResourceHandle);
    ck_assert_int_eq(cudaPointerGetAttributes(&attributes, memory), cudaSuccess);
    ck_assert_int_eq(attributes.type, cudaMemoryTypeUnregistered);
    ck_assert_int_eq(cudaMemGetInfo(&free_bytes, &total), cudaSuccess);
    ck_assert_uint_eq(free_bytes, total);
    ck_assert_int_eq(cudaMalloc(&again, 1000), cudaSuccess);
    ck_assert_int_eq(cudaLaunchKernel((const void *)whole_stub, one, one, args, 0, 0), cudaSuccess);
    ck_assert_int_eq(cudaDeviceSynchronize(), cudaSuccess);
    ck_assert_int_eq(atomic_load(&calls), 2);
    ck_assert_int_eq(cudaFree(again), cudaSuccess);
    (void)cudaGetLastError();
}
