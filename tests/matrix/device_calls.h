/*
 * device_calls.h - the calls of device.h: the runtime's or, with MATRIX_DRIVER, the driver's. Included by device.h,
 * into a trainer of one shape, and by device.cu, for those that are linked in all shapes.
 */
#ifndef TESTS_MATRIX_DEVICE_CALLS_H
#define TESTS_MATRIX_DEVICE_CALLS_H

/* The call that the trainer's shape makes; the other one is not compiled. */
#ifdef MATRIX_DRIVER
#define EITHER(driver, runtime) CHECK(driver)
#else
#define EITHER(driver, runtime) CHECK(runtime)
#endif

static inline CUdeviceptr
device_address(const void *memory)
{
    return (CUdeviceptr)(uintptr_t)memory;
}

DEVICE_CALL void
device_open(void)
{
#ifdef MATRIX_DRIVER
    CUdevice device;
    CUcontext context;
    loaded_open();
    CHECK(cuInit(0));
    CHECK(cuDeviceGet(&device, 0));
    CHECK(cuDevicePrimaryCtxRetain(&context, device));
    CHECK(cuCtxSetCurrent(context));
#else
    CHECK(cudaSetDevice(0));
#endif
}

/* In a thread that device_open() did not run in. */
DEVICE_CALL void
device_enter(void)
{
    device_open();
}

/* Zeros; they are there when it returns: no stream has to follow the default stream. */
DEVICE_CALL void *
device_allocate(size_t bytes)
{
    void *memory;
    EITHER(cuMemAlloc((CUdeviceptr *)&memory, bytes), cudaMalloc(&memory, bytes));
    EITHER(cuMemsetD8(device_address(memory), 0, bytes), cudaMemset(memory, 0, bytes));
    EITHER(cuStreamSynchronize(NULL), cudaStreamSynchronize(0));
    return memory;
}

DEVICE_CALL void *
pinned_allocate(size_t bytes)
{
    void *memory;
    EITHER(cuMemAllocHost(&memory, bytes), cudaMallocHost(&memory, bytes));
    return memory;
}

DEVICE_CALL void *
managed_allocate(size_t bytes)
{
    void *memory;
    EITHER(cuMemAllocManaged((CUdeviceptr *)&memory, bytes, CU_MEM_ATTACH_GLOBAL), cudaMallocManaged(&memory, bytes));
    return memory;
}

DEVICE_CALL void
device_free(void *memory)
{
    EITHER(cuMemFree(device_address(memory)), cudaFree(memory));
}

DEVICE_CALL void
device_zero(float *memory, size_t count, cudaStream_t stream)
{
    EITHER(cuMemsetD32Async(device_address(memory), 0, count, stream),
           cudaMemsetAsync(memory, 0, count * sizeof(float), stream));
}

DEVICE_CALL void
device_upload(void *memory, const void *host, size_t bytes, cudaStream_t stream)
{
    EITHER(cuMemcpyHtoDAsync(device_address(memory), host, bytes, stream),
           cudaMemcpyAsync(memory, host, bytes, cudaMemcpyHostToDevice, stream));
}

DEVICE_CALL void
device_copy(void *to, const void *from, size_t bytes, cudaStream_t stream)
{
    EITHER(cuMemcpyDtoDAsync(device_address(to), device_address(from), bytes, stream),
           cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream));
}

DEVICE_CALL void
device_download(void *host, const void *memory, size_t bytes)
{
    EITHER(cuMemcpyDtoH(host, device_address(memory), bytes), cudaMemcpy(host, memory, bytes, cudaMemcpyDeviceToHost));
}

/* In the order of `stream`; to pinned memory without a wait. */
DEVICE_CALL void
device_download_later(void *host, const void *memory, size_t bytes, cudaStream_t stream)
{
    EITHER(cuMemcpyDtoHAsync(host, device_address(memory), bytes, stream),
           cudaMemcpyAsync(host, memory, bytes, cudaMemcpyDeviceToHost, stream));
}

DEVICE_CALL void
device_wait(void)
{
    EITHER(cuCtxSynchronize(), cudaDeviceSynchronize());
}

DEVICE_CALL void
stream_wait(cudaStream_t stream)
{
    EITHER(cuStreamSynchronize(stream), cudaStreamSynchronize(stream));
}

/* The host calls function(data) in the order of `stream`. */
DEVICE_CALL void
stream_call(cudaStream_t stream, void (*function)(void *data), void *data)
{
    EITHER(cuLaunchHostFunc(stream, function, data), cudaLaunchHostFunc(stream, function, data));
}

DEVICE_CALL cudaStream_t
stream_create(void)
{
    cudaStream_t stream;
    EITHER(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    return stream;
}

DEVICE_CALL void
stream_destroy(cudaStream_t stream)
{
    EITHER(cuStreamDestroy(stream), cudaStreamDestroy(stream));
}

DEVICE_CALL cudaEvent_t
event_create(void)
{
    cudaEvent_t event;
    EITHER(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    return event;
}

/* What `first` has got so far comes before what `second` gets from now on. */
DEVICE_CALL void
stream_follow(cudaStream_t first, cudaStream_t second, cudaEvent_t event)
{
    EITHER(cuEventRecord(event, first), cudaEventRecord(event, first));
    EITHER(cuStreamWaitEvent(second, event, 0), cudaStreamWaitEvent(second, event, 0));
}

/* ---- launches by the driver, in the three forms that they can have ---- */

#ifdef MATRIX_DRIVER

static inline CUfunction
function_of(const void *kernel)
{
#ifdef MATRIX_LOADED
    return loaded_kernel(kernel);
#else
    CUfunction function;
    CHECK(cudaGetFuncBySymbol((cudaFunction_t *)&function, kernel));
    return function;
#endif
}

/* May stand where a CUfunction is wanted. */
static inline CUfunction
handle_of(const void *kernel)
{
#ifdef MATRIX_LOADED
    return loaded_kernel(kernel);
#else
    CUkernel handle;
    CHECK(cudaGetKernel((cudaKernel_t *)&handle, kernel));
    return (CUfunction)handle;
#endif
}

DEVICE_CALL void
device_launch(const void *kernel, unsigned blocks, cudaStream_t stream, unsigned form, void **params, void *packed,
              size_t packed_bytes)
{
    switch (form % 3) {
    case 0:
        CHECK(cuLaunchKernel(function_of(kernel), blocks, 1, 1, THREADS, 1, 1, 0, stream, params, NULL));
        break;
    case 1: {
        CUlaunchConfig config = {};
        config.gridDimX = blocks;
        config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
        config.blockDimX = THREADS;
        config.hStream = stream;
        CHECK(cuLaunchKernelEx(&config, handle_of(kernel), params, NULL));
        break;
    }
    default: {
        void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &packed_bytes,
                         CU_LAUNCH_PARAM_END};
        CHECK(cuLaunchKernel(function_of(kernel), blocks, 1, 1, THREADS, 1, 1, 0, stream, NULL, extra));
        break;
    }
    }
}

#endif

#endif
