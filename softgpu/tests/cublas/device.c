/* device.c - see device.h. */
#include "device.h"

void
device_start(void)
{
    CUcontext context;
    ck_assert_int_eq(cuInit(0), CUDA_SUCCESS);
    ck_assert_int_eq(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
    ck_assert_int_eq(cuCtxSetCurrent(context), CUDA_SUCCESS);
}

void *
device_copy_of(const void *source, size_t bytes)
{
    CUdeviceptr device;
    ck_assert_int_eq(cuMemAlloc(&device, bytes ? bytes : 1), CUDA_SUCCESS);
    if (source && bytes) {
        ck_assert_int_eq(cuMemcpyHtoD(device, source, bytes), CUDA_SUCCESS);
        ck_assert_int_eq(cuStreamSynchronize(NULL), CUDA_SUCCESS); /* only the source need have been read by now */
    }
    return (void *)device;
}

void
device_read(void *destination, const void *device, size_t bytes)
{
    ck_assert_int_eq(cuCtxSynchronize(), CUDA_SUCCESS);
    if (bytes)
        ck_assert_int_eq(cuMemcpyDtoH(destination, (CUdeviceptr)device, bytes), CUDA_SUCCESS);
}

void
device_free(void *device)
{
    ck_assert_int_eq(cuMemFree((CUdeviceptr)device), CUDA_SUCCESS);
}

int
device_part_begin(int count, int after)
{
    int part = 0, parts = 1;
    const char *text = getenv("TEST_PART");
    if (text != NULL && (sscanf(text, "%d/%d", &part, &parts) != 2 || part < 0 || part >= parts)) {
        fprintf(stderr, "TEST_PART=%s is not k/n\n", text);
        exit(EXIT_FAILURE);
    }
    int begin = part * count / parts, end = (part + 1) * count / parts;
    if (begin == end) /* fewer cases than parts */
        begin = part % count, end = begin + 1;
    return after ? end : begin;
}

static void CUDA_CB
wait_for_gate(void *gate)
{
    while (!atomic_load((_Atomic bool *)gate))
        usleep(1000);
}

void
device_hold(CUstream stream, _Atomic bool *gate)
{
    atomic_store(gate, false);
    ck_assert_int_eq(cuLaunchHostFunc(stream, wait_for_gate, gate), CUDA_SUCCESS);
}
