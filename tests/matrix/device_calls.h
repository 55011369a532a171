/*
 * device_calls.h - the calls of device.h that are more than one row of its table. Included by device.h, into a trainer
 * of one shape, and by device.cu, for those that are linked in all shapes.
 */
#ifndef TESTS_MATRIX_DEVICE_CALLS_H
#define TESTS_MATRIX_DEVICE_CALLS_H

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
device_upload(void *memory, const void *host, size_t bytes, cudaStream_t stream)
{
    EITHER(cuMemcpyHtoDAsync(device_address(memory), host, bytes, stream),
           cudaMemcpyAsync(memory, host, bytes, cudaMemcpyHostToDevice, stream));
}

DEVICE_CALL cudaStream_t
stream_create(void)
{
    cudaStream_t stream;
    EITHER(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    return stream;
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
