/*
 * test_runtime.c - the runtime over the driver: translation, errors of a thread, launches in the forms that compilers
 * generate.
 */
#include "kernels.h"

#include "softgpu/block.h"
#include "softgpu/stub.h"

#include "tests/lib/test.h"

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
    OK(cudaLibraryLoadData(&library, image, NULL, NULL, 0, NULL, NULL, 0));
    OK(cudaLibraryGetKernel(&kernel, library, image->name));
    return kernel;
}

TEST_GROUP(all, .timeout_s = 100);

TEST(kernels_launch_by_handle_and_by_stub)
{
    atomic_int calls = 0, *pointer = &calls;
    void *args[] = {&pointer};
    cudaKernel_t kernel = load_kernel(&whole_image), handle;
    OK(cudaLaunchKernel((const void *)kernel, one, one, args, 0, 0));
    OK(cudaLaunchKernel_ptsz((const void *)kernel, one, one, args, 0, 0));
    OK(__cudaLaunchKernel(kernel, one, one, args, 0, 0));
    OK(__cudaLaunchKernel_ptsz(kernel, one, one, args, 0, 0));
    OK(cudaLaunchCooperativeKernel((const void *)kernel, one, one, args, 0, 0));
    cudaLaunchConfig_t config = {.gridDim = one, .blockDim = one};
    OK(cudaLaunchKernelExC(&config, (const void *)kernel, args));
    for (int i = 0; i < 2; ++i) /* the second time it is known */
        OK(cudaLaunchKernel((const void *)whole_stub, one, one, args, 0, 0));
    OK(__cudaGetKernel(&handle, (const void *)whole_stub));
    OK(__cudaLaunchKernel(handle, one, one, args, 0, 0));
    OK(cudaGetKernel(&handle, (const void *)whole_stub));
    ck_assert_int_eq(cudaLaunchKernel((const void *)handle, one, one, args, 0, 0), cudaErrorInvalidDeviceFunction);
    cudaFunction_t function;
    OK(cudaGetFuncBySymbol(&function, (const void *)whole_stub));
    OK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, args, NULL));
    OK(cudaDeviceSynchronize());
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
    OK(cudaFuncGetAttributes(&attributes, (const void *)bounded));
    ck_assert_int_eq(attributes.maxThreadsPerBlock, 128);
    ck_assert_uint_eq(attributes.sharedSizeBytes, 1000);
    OK(cudaFuncSetAttribute((const void *)bounded, cudaFuncAttributeMaxDynamicSharedMemorySize, 200 << 10));
    OK(cudaFuncGetAttributes(&attributes, (const void *)bounded));
    ck_assert_int_eq(attributes.maxDynamicSharedSizeBytes, 200 << 10);
    OK(cudaFuncGetAttributes(&attributes, (const void *)whole_stub));
    ck_assert_int_eq(attributes.maxThreadsPerBlock, 1024);
    int blocks;
    OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, (const void *)whole_stub, 256, 0));
    ck_assert_int_eq(blocks, 8);
    const char *name;
    OK(cudaFuncGetName(&name, (const void *)whole_stub));
    ck_assert_str_eq(name, "whole");
}

TEST(configurations_are_a_stack)
{
    dim3 grid = {1, 2, 3}, block = {4, 5, 6}, got_grid, got_block;
    size_t shared_bytes;
    cudaStream_t stream;
    ck_assert_uint_eq(__cudaPushCallConfiguration(grid, block, 7, (void *)8), 0);
    ck_assert_uint_eq(__cudaPushCallConfiguration(one, one, 0, NULL), 0);
    OK(__cudaPopCallConfiguration(&got_grid, &got_block, &shared_bytes, &stream));
    ck_assert_mem_eq(&got_grid, &one, sizeof one);
    OK(__cudaPopCallConfiguration(&got_grid, &got_block, &shared_bytes, &stream));
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
    OK(cudaGetLastError());
    ck_assert_int_eq(cudaSetDevice(99), cudaErrorInvalidDevice);
    pthread_create(&thread, NULL, check_own_error, NULL);
    pthread_join(thread, &fine);
    ck_assert_ptr_nonnull(fine);
    ck_assert_int_eq(cudaPeekAtLastError(), cudaErrorInvalidDevice);
    ck_assert_int_eq(cudaGetLastError(), cudaErrorInvalidDevice);
    OK(cudaGetLastError());
    ck_assert_str_eq(cudaGetErrorName(cudaErrorInvalidDevice), "cudaErrorInvalidDevice");
    ck_assert_str_eq(cudaGetErrorName(cudaErrorMemoryAllocation), "cudaErrorMemoryAllocation");
    ck_assert_str_eq(cudaGetErrorName((cudaError_t)54321), "unrecognized error code");
}

/* Programs and their tests compare these texts. */
static const struct {
    cudaError_t code;
    const char *text;
} cuda_texts[] = {
    {cudaSuccess, "no error"},
    {cudaErrorInvalidValue, "invalid argument"},
    {cudaErrorMemoryAllocation, "out of memory"},
    {cudaErrorInitializationError, "initialization error"},
    {cudaErrorCudartUnloading, "driver shutting down"},
    {cudaErrorInvalidConfiguration, "invalid configuration argument"},
    {cudaErrorInvalidSymbol, "invalid device symbol"},
    {cudaErrorInvalidMemcpyDirection, "invalid copy direction for memcpy"},
    {cudaErrorInsufficientDriver, "CUDA driver version is insufficient for CUDA runtime version"},
    {cudaErrorInvalidDeviceFunction, "invalid device function"},
    {cudaErrorNoDevice, "no CUDA-capable device is detected"},
    {cudaErrorInvalidDevice, "invalid device ordinal"},
    {cudaErrorDeviceUninitialized, "invalid device context"},
    {cudaErrorNoKernelImageForDevice, "no kernel image is available for execution on the device"},
    {cudaErrorInvalidResourceHandle, "invalid resource handle"},
    {cudaErrorSymbolNotFound, "named symbol not found"},
    {cudaErrorNotReady, "device not ready"},
    {cudaErrorIllegalAddress, "an illegal memory access was encountered"},
    {cudaErrorLaunchOutOfResources, "too many resources requested for launch"},
    {cudaErrorAssert, "device-side assert triggered"},
    {cudaErrorMisalignedAddress, "misaligned address"},
    {cudaErrorLaunchFailure, "unspecified launch failure"},
    {cudaErrorCooperativeLaunchTooLarge, "too many blocks in cooperative launch"},
    {cudaErrorNotSupported, "operation not supported"},
    {cudaErrorStreamCaptureUnsupported, "operation not permitted when stream is capturing"},
    {cudaErrorUnknown, "unknown error"},
};

TEST(errors_have_the_texts_of_cuda)
{
    for (size_t i = 0; i < sizeof cuda_texts / sizeof cuda_texts[0]; ++i)
        ck_assert_str_eq(cudaGetErrorString(cuda_texts[i].code), cuda_texts[i].text);
    ck_assert_str_eq(cudaGetErrorString((cudaError_t)54321), "unrecognized error code");
    const char *text;
    ck_assert_int_eq(cuGetErrorString(CUDA_ERROR_NOT_FOUND, &text), CUDA_SUCCESS);
    ck_assert_str_eq(text, "named symbol not found");
    ck_assert_int_eq(cuGetErrorString(CUDA_ERROR_ILLEGAL_ADDRESS, &text), CUDA_SUCCESS);
    ck_assert_str_eq(text, "an illegal memory access was encountered");
}

/* The driver's code and the runtime's are one number, with few exceptions, and have one text. */
TEST(driver_and_runtime_say_the_same_of_an_error)
{
    int compared = 0;
    for (int code = 0; code < 1000; ++code) {
        const char *text;
        if (cuGetErrorString((CUresult)code, &text) != CUDA_SUCCESS)
            continue;
        const char *runtimes = cudaGetErrorString((cudaError_t)code);
        if (strcmp(runtimes, "unrecognized error code") == 0)
            continue;
        ++compared;
        if (code != cudaErrorUnsupportedDevSideSync) /* the words of two different names */
            ck_assert_msg(strcmp(text, runtimes) == 0, "%d: %s, %s", code, text, runtimes);
    }
    ck_assert_int_gt(compared, 80);
}

TEST(copies_and_memset_go_by_their_kind)
{
    char *device, *other, *pinned, host[64], back[64];
    for (int i = 0; i < 64; ++i)
        host[i] = (char)i;
    OK(cudaMalloc((void **)&device, 64));
    OK(cudaMalloc((void **)&other, 64));
    OK(cudaMallocHost((void **)&pinned, 64));
    OK(cudaMemcpy(device, host, 64, cudaMemcpyHostToDevice));
    OK(cudaMemcpy(other, device, 64, cudaMemcpyDeviceToDevice));
    OK(cudaMemcpyAsync(pinned, other, 64, cudaMemcpyDeviceToHost, 0));
    OK(cudaMemcpy(back, pinned, 64, cudaMemcpyHostToHost));
    ck_assert_mem_eq(back, host, 64);
    OK(cudaMemsetAsync(device, 7, 64, 0));
    OK(cudaMemcpy2D(device, 16, host, 8, 4, 3, cudaMemcpyDefault));
    OK(cudaMemset2D(device + 1, 16, 9, 2, 2));
    OK(cudaMemcpy(back, device, 64, cudaMemcpyDefault));
    const char expected[] = {0, 9, 9, 3, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 9, 9, 11, 7};
    ck_assert_mem_eq(back, expected, sizeof expected);
    ck_assert_int_eq(cudaMemcpy(device, host, 65, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
    ck_assert_int_eq(cudaMemcpy(device, host, 64, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
    ck_assert_int_eq(cudaMemcpy(device, host, 64, (enum cudaMemcpyKind)9), cudaErrorInvalidMemcpyDirection);
    ck_assert_int_eq(cudaMemcpy2D(device, 2, host, 8, 4, 3, cudaMemcpyDefault), cudaErrorInvalidPitchValue);
    (void)cudaGetLastError();

    struct cudaPointerAttributes attributes;
    OK(cudaPointerGetAttributes(&attributes, device + 3));
    ck_assert_int_eq(attributes.type, cudaMemoryTypeDevice);
    ck_assert_ptr_eq(attributes.devicePointer, device + 3);
    ck_assert_ptr_null(attributes.hostPointer);
    OK(cudaPointerGetAttributes(&attributes, pinned));
    ck_assert_int_eq(attributes.type, cudaMemoryTypeHost);
    OK(cudaPointerGetAttributes(&attributes, host));
    ck_assert_int_eq(attributes.type, cudaMemoryTypeUnregistered);
    ck_assert_int_eq(attributes.device, cudaInvalidDeviceId);
    ck_assert_ptr_eq(attributes.hostPointer, host);

    void *nothing = host;
    OK(cudaMalloc(&nothing, 0));
    ck_assert_ptr_null(nothing);
    OK(cudaFree(NULL));
    ck_assert_int_eq(cudaFree(host), cudaErrorInvalidValue);
    OK(cudaFreeHost(pinned));
    OK(cudaFree(device));
    OK(cudaFree(other));
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
    OK(cudaMemcpyToSymbol(scale, values, sizeof values, 0, cudaMemcpyHostToDevice));
    OK(cudaMemcpyToSymbol(scale, values, 4, 12, cudaMemcpyHostToDevice));
    ck_assert_int_eq(cudaMemcpyToSymbol(scale, values, 8, 12, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
    OK(cudaMemcpyFromSymbol(back, scale, sizeof back, 0, cudaMemcpyDeviceToHost));
    ck_assert_float_eq(back[1], 2);
    ck_assert_float_eq(back[3], 1);
    OK(cudaGetSymbolAddress(&address, scale));
    ck_assert_ptr_eq(address, scale);
    OK(cudaGetSymbolSize(&bytes, scale));
    ck_assert_uint_eq(bytes, sizeof scale);
    OK(cudaMemset(address, 0, sizeof scale));
    OK(cudaMemcpy(back, address, sizeof back, cudaMemcpyDeviceToHost));
    ck_assert_float_eq(back[1], 0);
    struct cudaPointerAttributes attributes;
    OK(cudaPointerGetAttributes(&attributes, scale));
    ck_assert_int_eq(attributes.type, cudaMemoryTypeDevice);
    softgpu_variable_remove(&variable);
    (void)cudaGetLastError();
}

TEST(devices_are_described)
{
    int count, device = -1, version, value;
    struct cudaDeviceProp properties;
    size_t free_bytes, total;
    OK(cudaGetDeviceCount(&count));
    ck_assert_int_eq(count, 1);
    OK(cudaSetDevice(0));
    OK(cudaGetDevice(&device));
    ck_assert_int_eq(device, 0);
    OK(cudaRuntimeGetVersion(&version));
    ck_assert_int_eq(version, CUDART_VERSION);
    OK(cudaDriverGetVersion(&version));
    ck_assert_int_eq(version, 13000);
    OK(cudaGetDeviceProperties(&properties, 0));
    ck_assert_int_eq(properties.major, 9);
    ck_assert_int_eq(properties.warpSize, 32);
    OK(cudaMemGetInfo(&free_bytes, &total));
    ck_assert_uint_eq(properties.totalGlobalMem, total);
    OK(cudaDeviceGetAttribute(&value, cudaDevAttrMultiProcessorCount, 0));
    ck_assert_int_eq(value, properties.multiProcessorCount);
    ck_assert_int_eq(cudaGetDeviceProperties(&properties, 1), cudaErrorInvalidDevice);
    (void)cudaGetLastError();
}

TEST(events_and_streams_pass_through)
{
    cudaStream_t stream;
    cudaEvent_t start, end;
    float milliseconds = -1;
    OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    OK(cudaEventCreate(&start));
    OK(cudaEventCreateWithFlags(&end, cudaEventBlockingSync));
    OK(cudaEventRecord(start, stream));
    OK(cudaEventRecord(end, stream));
    OK(cudaStreamWaitEvent(0, end, 0));
    OK(cudaEventSynchronize(end));
    OK(cudaEventElapsedTime(&milliseconds, start, end));
    ck_assert_float_ge(milliseconds, 0);
    OK(cudaEventDestroy(start));
    ck_assert_int_eq(cudaEventDestroy(start), cudaErrorInvalidResourceHandle);
    OK(cudaStreamSynchronize(stream));
    OK(cudaStreamQuery(stream));
    OK(cudaStreamDestroy(stream));
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
    OK(cudaMalloc(&memory, 1000));
    OK(cudaStreamCreate(&stream));
    OK(cudaLaunchKernel((const void *)whole_stub, one, one, args, 0, stream));
    OK(cudaDeviceReset());
    ck_assert_int_eq(atomic_load(&calls), 1);
    ck_assert_int_eq(cudaStreamQuery(stream), cudaErrorInvalidResourceHandle);
    OK(cudaPointerGetAttributes(&attributes, memory));
    ck_assert_int_eq(attributes.type, cudaMemoryTypeUnregistered);
    OK(cudaMemGetInfo(&free_bytes, &total));
    ck_assert_uint_eq(free_bytes, total);
    OK(cudaMalloc(&again, 1000));
    OK(cudaLaunchKernel((const void *)whole_stub, one, one, args, 0, 0));
    OK(cudaDeviceSynchronize());
    ck_assert_int_eq(atomic_load(&calls), 2);
    OK(cudaFree(again));
    (void)cudaGetLastError();
}
