/*
 * devices.cu - a training program that chooses its device in one of the ways that trainers have. Mode:
 *
 * localrank: cudaSetDevice(LOCAL_RANK), and requires that more devices are counted; modulo: LOCAL_RANK % count.
 * driver: the same by the driver's calls, with memory pools and virtual memory of that device.
 * loader: localrank, and threads that prepare batches without a call of cudaSetDevice.
 * visible: sets CUDA_VISIBLE_DEVICES to 0 before its first use of CUDA.
 * ask: cudaSetDevice of each device that it counts, only to print its memory.
 * all: allocates on each device that it counts; streams: the same, in a second loop; later: on device 0 after the
 * training.
 *
 * As exact.h. Built by softgpu-cc and by nvcc.
 */
enum { LAYERS = 2, COUNT = 256 };
#include "exact.h"

#include <cuda.h>
#include <pthread.h>
#include <string.h>

static int
local_rank(void)
{
    const char *text = getenv("LOCAL_RANK");
    return text != NULL ? atoi(text) : 0;
}

static int
counted(void)
{
    int count = 0;
    CHECK(cudaGetDeviceCount(&count));
    return count;
}

static void
set_local_device(void)
{
    int used = -1;
    REQUIRE(counted() > local_rank());
    CHECK(cudaSetDevice(local_rank()));
    CHECK(cudaGetDevice(&used));
    REQUIRE(used == local_rank());
}

static void
allocate_on(int device)
{
    void *memory;
    CHECK(cudaSetDevice(device));
    CHECK(cudaMalloc(&memory, 64));
    printf("allocated on device %d of %d\n", device, counted());
    fflush(stdout);
}

static void
use_all(bool streams_first)
{
    for (int device = 0; streams_first && device < counted(); ++device) {
        cudaStream_t unused;
        CHECK(cudaSetDevice(device));
        CHECK(cudaStreamCreate(&unused));
    }
    for (int device = 0; device < counted(); ++device)
        allocate_on(device);
}

static void
ask_all(void)
{
    for (int device = 0; device < counted(); ++device) {
        size_t left, all;
        cudaDeviceProp properties;
        CHECK(cudaSetDevice(device));
        CHECK(cudaMemGetInfo(&left, &all));
        CHECK(cudaGetDeviceProperties(&properties, device));
        printf("device %d: %s, %zu bytes\n", device, properties.name, all);
    }
}

/* The driver's view: the device's number is taken by each call, and no two of them are different devices. */
static void
use_driver(void)
{
    CUdevice device, current;
    CUuuid mine, first;
    CUcontext context;
    int can = 1;
    CHECK(cuInit(0));
    CHECK(cuDeviceGet(&device, local_rank()));
    REQUIRE(device == local_rank());
    CHECK(cuDeviceGetUuid(&mine, device));
    CHECK(cuDeviceGetUuid(&first, 0));
    REQUIRE(memcmp(&mine, &first, sizeof(mine)) == 0);
    REQUIRE(cuDeviceGet(&current, counted()) == CUDA_ERROR_INVALID_DEVICE);
    CHECK(cuDevicePrimaryCtxRetain(&context, device));
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuCtxGetDevice(&current));
    REQUIRE(current == device);
    if (device != 0) {
        CHECK(cuDeviceCanAccessPeer(&can, device, 0));
        REQUIRE(can == 0);
    }

    CUmemLocation place = {CU_MEM_LOCATION_TYPE_DEVICE, device};
    CUmemAllocationProp properties = {};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = place;
    size_t bytes = 0;
    CUdeviceptr address;
    CUmemGenericAllocationHandle handle;
    CUmemAccessDesc access = {place, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CHECK(cuMemGetAllocationGranularity(&bytes, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    CHECK(cuMemCreate(&handle, bytes, &properties, 0));
    CHECK(cuMemAddressReserve(&address, bytes, 0, 0, 0));
    CHECK(cuMemMap(address, bytes, 0, handle, 0));
    CHECK(cuMemSetAccess(address, bytes, &access, 1));
    CHECK(cuMemsetD8(address, 1, bytes));
    int of = -1;
    CHECK(cuPointerGetAttribute(&of, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address));
    REQUIRE(of == device);

    CUmemoryPool pool;
    CUmemPoolProps pool_properties = {};
    pool_properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    pool_properties.location = place;
    CHECK(cuDeviceGetDefaultMemPool(&pool, device));
    CHECK(cuMemPoolCreate(&pool, &pool_properties));
    CHECK(cudaSetDevice(device));
}

static void *
load(void *unused)
{
    void *page_locked;
    (void)unused;
    CHECK(cudaMallocHost(&page_locked, 64));
    CHECK(cudaFreeHost(page_locked));
    return NULL;
}

static void
train(void)
{
    layers_create();
    layers_annotate();
    for (int step = 0; step < steps; ++step) {
        if (is_mode("loader")) {
            pthread_t loader;
            CHECK(pthread_create(&loader, NULL, load, NULL));
            CHECK(pthread_join(loader, NULL));
        }
        layers_backward(0, stream);
        DDP_STEP(stream);
        layers_update();
        expect_steps(1);
    }
}

static void
choose_device(void)
{
    if (is_mode("visible"))
        REQUIRE(setenv("CUDA_VISIBLE_DEVICES", "0", 1) == 0);
    if (is_mode("localrank") || is_mode("loader") || is_mode("later"))
        set_local_device();
    if (is_mode("modulo"))
        CHECK(cudaSetDevice(local_rank() % counted()));
    if (is_mode("driver"))
        use_driver();
    if (is_mode("all") || is_mode("streams"))
        use_all(is_mode("streams"));
}

int
main(int argc, char **argv)
{
    take_mode(argc, argv, "localrank");
    if (is_mode("ask")) {
        ask_all();
        return 0;
    }
    choose_device();
    train();
    if (!weights_are_right(0))
        return 1;
    if (is_mode("later"))
        allocate_on(0);
    return 0;
}
