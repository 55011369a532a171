/* device.c - see device.h. */
#include "device.h"

#include "tests/lib/test.h"

struct driver driver;
unsigned seed = 1;
static const char *kernels_path = KERNELS;

void
require(CUresult result)
{
    ck_assert_int_eq(result, CUDA_SUCCESS);
}

static void *
look_up(const char *name, int version)
{
    void *function = NULL;
    if (cuGetProcAddress(name, &function, version, CU_GET_PROC_ADDRESS_LEGACY_STREAM, NULL) != CUDA_SUCCESS)
        return NULL;
    return function;
}

CUdeviceptr
device_open(struct kernels *kernels, size_t bytes)
{
    CUdevice device;
    CUcontext context;
    CUdeviceptr memory = 0;
    struct comm_error error;
    require(cuInit(0));
    require(cuDeviceGet(&device, 0));
    require(cuDevicePrimaryCtxRetain(&context, device));
    require(cuCtxSetCurrent(context));
    ck_assert_msg(driver_fill(&driver, look_up, &error), "%s", error.text);
    ck_assert_msg(kernels_load(kernels, &driver, kernels_path, &error), "%s", error.text);
    require(driver.cuMemAlloc_p(&memory, bytes));
    return memory;
}

void
to_device(CUdeviceptr to, const void *from, size_t bytes)
{
    require(driver.cuMemcpyHtoDAsync_p(to, from, bytes, CU_STREAM_PER_THREAD));
}

void
from_device(void *to, CUdeviceptr from, size_t bytes)
{
    require(driver.cuMemcpyDtoHAsync_p(to, from, bytes, CU_STREAM_PER_THREAD));
    require(driver.cuStreamSynchronize_p(CU_STREAM_PER_THREAD));
}

size_t
below(size_t limit)
{
    return (size_t)rand_r(&seed) % limit;
}

void
fill_random(unsigned char *bytes, size_t count)
{
    uint64_t state = seed = (unsigned)rand_r(&seed) | 1;
    for (size_t i = 0; i < count; ++i) { /* Marsaglia, "Xorshift RNGs", 2003 */
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes[i] = (unsigned char)(state >> 24);
    }
}

int
main(int argc, char **argv)
{
    if (argc > 1)
        kernels_path = argv[1];
    return tests_run();
}
