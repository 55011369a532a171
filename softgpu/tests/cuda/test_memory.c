/*
 * test_memory.c - allocations, copies, memset and what the driver says of pointers.
 *
 * Properties: copies move exactly the bytes they should, in every direction and shape (random boxes against plain
 * loops); a copy or memset outside of its allocation is refused and moves nothing; the host waits when CUDA documents
 * it and not longer; an asynchronous copy from pageable memory has read its source when it returns, one from
 * page-locked memory has not.
 */
#include "kernels.h"

#include "tests/lib/test.h"

enum { BYTES = 4096 };

static void
fill_random(unsigned char *bytes, size_t count, unsigned *seed)
{
    for (size_t i = 0; i < count; ++i)
        bytes[i] = (unsigned char)rand_r(seed);
}

/* ---- random copies of one row, through every function that fits ---- */

TEST_GROUP(all, .timeout_s = 100, .setup = use_device);

LOOP_TEST(rows_arrive_and_nothing_else_changes, 0, 50)
{
    unsigned seed = (unsigned)_i;
    unsigned char *pinned = pinned_memory(BYTES), source[BYTES], expected[BYTES], seen[BYTES];
    CUdeviceptr first = device_memory(BYTES), second = device_memory(BYTES), managed = managed_memory(BYTES);
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    fill_random(source, BYTES, &seed);
    fill_random(expected, BYTES, &seed);
    OK(cuMemcpyHtoD(first, expected, BYTES));
    OK(cuCtxSynchronize()); /* a non-blocking stream would not wait for it */
    size_t at = (size_t)rand_r(&seed) % BYTES, from = (size_t)rand_r(&seed) % BYTES;
    size_t count = (size_t)rand_r(&seed) % (BYTES - (at > from ? at : from) + 1);
    /* From pageable to page-locked to device to device to managed to page-locked, all in one stream. */
    OK(cuMemcpyAsync((CUdeviceptr)pinned, (CUdeviceptr)source, BYTES, stream));
    OK(cuMemcpyHtoDAsync(first + at, pinned + from, count, stream));
    OK(cuMemcpyDtoDAsync(second, first, BYTES, stream));
    OK(cuMemcpyAsync(managed, second, BYTES, stream));
    OK(cuMemcpyDtoHAsync(pinned, managed, BYTES, stream));
    OK(cuStreamSynchronize(stream));
    memcpy(expected + at, source + from, count);
    ck_assert_mem_eq(pinned, expected, BYTES);
    ck_assert_mem_eq((void *)managed, expected, BYTES);
    OK(cuMemcpyDtoH(seen, second, BYTES));
    ck_assert_mem_eq(seen, expected, BYTES);
    OK(cuMemcpyDtoD(first, second, BYTES));
    OK(cuMemcpy((CUdeviceptr)seen, first, BYTES));
    ck_assert_mem_eq(seen, expected, BYTES);
}

/* ---- random boxes ---- */

enum { PITCH = 32, ROWS = 8, PLANES = 4, BOX_BYTES = PITCH * ROWS * PLANES };

LOOP_TEST(boxes_arrive_and_nothing_else_changes, 0, 100)
{
    unsigned seed = (unsigned)_i;
    unsigned char source[BOX_BYTES], expected[BOX_BYTES], seen[BOX_BYTES];
    CUdeviceptr device = device_memory(BOX_BYTES);
    fill_random(source, BOX_BYTES, &seed);
    fill_random(expected, BOX_BYTES, &seed);
    OK(cuMemcpyHtoD(device, expected, BOX_BYTES));
    CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                          .srcHost = source,
                          .srcPitch = PITCH,
                          .srcHeight = ROWS,
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstDevice = device,
                          .dstPitch = PITCH,
                          .dstHeight = ROWS};
    copy.srcXInBytes = (size_t)rand_r(&seed) % PITCH;
    copy.dstXInBytes = (size_t)rand_r(&seed) % PITCH;
    copy.srcY = (size_t)rand_r(&seed) % ROWS;
    copy.dstY = (size_t)rand_r(&seed) % ROWS;
    copy.srcZ = (size_t)rand_r(&seed) % PLANES;
    copy.dstZ = (size_t)rand_r(&seed) % PLANES;
    size_t x = copy.srcXInBytes > copy.dstXInBytes ? copy.srcXInBytes : copy.dstXInBytes;
    size_t y = copy.srcY > copy.dstY ? copy.srcY : copy.dstY, z = copy.srcZ > copy.dstZ ? copy.srcZ : copy.dstZ;
    copy.WidthInBytes = (size_t)rand_r(&seed) % (PITCH - x + 1);
    copy.Height = (size_t)rand_r(&seed) % (ROWS - y + 1);
    copy.Depth = (size_t)rand_r(&seed) % (PLANES - z + 1);
    for (size_t k = 0; k < copy.Depth; ++k) {
        for (size_t j = 0; j < copy.Height; ++j)
            memcpy(expected + ((copy.dstZ + k) * ROWS + copy.dstY + j) * PITCH + copy.dstXInBytes,
                   source + ((copy.srcZ + k) * ROWS + copy.srcY + j) * PITCH + copy.srcXInBytes, copy.WidthInBytes);
    }
    if (_i % 2)
        OK(cuMemcpy3D(&copy));
    else
        OK(cuMemcpy3DAsync(&copy, CU_STREAM_LEGACY));
    memset(source, 0, sizeof source); /* pageable: read already */

    /* One of its planes again in two dimensions, to the host, packed. */
    unsigned char plane[PITCH * ROWS];
    CUDA_MEMCPY2D flat = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                          .srcDevice = device + copy.dstZ * ROWS * PITCH,
                          .srcXInBytes = 3,
                          .srcY = 1,
                          .srcPitch = PITCH,
                          .dstMemoryType = CU_MEMORYTYPE_HOST,
                          .dstHost = plane,
                          .dstPitch = 20,
                          .WidthInBytes = 20,
                          .Height = ROWS - 1};
    OK(_i % 2 ? cuMemcpy2DUnaligned(&flat) : cuMemcpy2D(&flat));
    for (int j = 0; j < ROWS - 1; ++j)
        ck_assert_mem_eq(plane + j * 20, expected + (copy.dstZ * ROWS + 1 + (size_t)j) * PITCH + 3, 20);
    OK(cuMemcpyDtoH(seen, device, BOX_BYTES));
    ck_assert_mem_eq(seen, expected, BOX_BYTES);
}

/* ---- memset ---- */

TEST(memset_fills_elements_and_rows)
{
    unsigned char seen[BYTES];
    CUdeviceptr device = device_memory(BYTES);
    OK(cuMemsetD8(device, 0x11, BYTES));
    OK(cuMemsetD16(device + 16, 0x2233, 8));
    OK(cuMemsetD32Async(device + 64, 0x44556677, 4, NULL));
    OK(cuMemsetD2D8(device + 1024, 64, 0x88, 3, 5));
    OK(cuMemsetD2D32Async(device + 2048, 128, 0x99aabbcc, 2, 3, NULL));
    OK(cuMemcpyDtoH(seen, device, BYTES));
    for (int i = 0; i < BYTES; ++i) {
        int row = (i - 1024) / 64, column = (i - 1024) % 64, wide_row = (i - 2048) / 128,
            wide_column = (i - 2048) % 128;
        static const unsigned char two[] = {0x33, 0x22}, four[] = {0x77, 0x66, 0x55, 0x44},
                                   wide[] = {0xcc, 0xbb, 0xaa, 0x99};
        unsigned char expected = 0x11;
        if (i >= 16 && i < 32)
            expected = two[i % 2];
        else if (i >= 64 && i < 80)
            expected = four[i % 4];
        else if (i >= 2048 && wide_row < 3 && wide_column < 8)
            expected = wide[i % 4];
        else if (i >= 1024 && i < 2048 && row < 5 && column < 3)
            expected = 0x88;
        ck_assert_msg(seen[i] == expected, "byte %d is %#x, not %#x", i, seen[i], expected);
    }
    ck_assert_int_eq(cuMemsetD32(device + 2, 0, 1), CUDA_ERROR_INVALID_VALUE); /* not aligned */
}

/* ---- out of bounds ---- */

TEST(what_leaves_its_allocation_is_refused)
{
    unsigned char host[BYTES] = {1}, seen[BYTES];
    CUdeviceptr device = device_memory(BYTES - 8), other = device_memory(BYTES);
    OK(cuMemsetD8(device, 7, BYTES - 8));
    ck_assert_int_eq(cuMemcpyHtoD(device, host, BYTES), CUDA_ERROR_INVALID_VALUE);
    ck_assert_int_eq(cuMemcpyHtoD(device + BYTES - 8, host, 1), CUDA_ERROR_INVALID_VALUE);
    ck_assert_int_eq(cuMemcpyDtoH(host, device + 1, BYTES - 8), CUDA_ERROR_INVALID_VALUE);
    ck_assert_int_eq(cuMemcpyDtoDAsync(other, device, BYTES, NULL), CUDA_ERROR_INVALID_VALUE);
    ck_assert_int_eq(cuMemsetD8(device, 0, BYTES), CUDA_ERROR_INVALID_VALUE);
    ck_assert_int_eq(cuMemsetD2D8(device, 1024, 0, 512, 5), CUDA_ERROR_INVALID_VALUE);
    ck_assert_int_eq(cuMemcpyHtoD(device, host, SIZE_MAX), CUDA_ERROR_INVALID_VALUE);
    CUDA_MEMCPY2D flat = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                          .srcHost = host,
                          .srcPitch = 16,
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstDevice = device,
                          .dstPitch = 1024,
                          .WidthInBytes = 16,
                          .Height = 5};
    ck_assert_int_eq(cuMemcpy2D(&flat), CUDA_ERROR_INVALID_VALUE);
    flat.Height = 2;
    flat.srcPitch = 8; /* rows of the source would overlap */
    ck_assert_int_eq(cuMemcpy2D(&flat), CUDA_ERROR_INVALID_VALUE);
    /* Each side must be what the call says. */
    ck_assert_int_eq(cuMemcpyHtoD((CUdeviceptr)host, host + 1, 1), CUDA_ERROR_INVALID_VALUE);
    ck_assert_int_eq(cuMemcpyDtoH((void *)device, other, 1), CUDA_ERROR_INVALID_VALUE);
    ck_assert_int_eq(cuMemsetD8((CUdeviceptr)host, 0, 1), CUDA_ERROR_INVALID_VALUE);
    ck_assert_int_eq(cuMemcpyHtoD(0, host, 1), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemcpyHtoD(device, host, 0));
    OK(cuMemcpyDtoH(seen, device, BYTES - 8));
    for (int i = 0; i < BYTES - 8; ++i)
        ck_assert_uint_eq(seen[i], 7);
    ck_assert_int_eq(cuMemFree(device + 8), CUDA_ERROR_INVALID_VALUE); /* not its beginning */
    OK(cuMemFree(device));
    ck_assert_int_eq(cuMemFree(device), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFree(0));
    ck_assert_int_eq(cuMemcpyHtoD(device, host, 1), CUDA_ERROR_INVALID_VALUE);
}

/* ---- who waits ---- */

TEST(the_host_waits_when_cuda_documents_it)
{
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUfunction gate = load_function(&gate_image);
    static atomic_int open;
    static unsigned char pageable[BYTES], result[BYTES];
    unsigned char *pinned = pinned_memory(BYTES);
    CUdeviceptr device = device_memory(BYTES), other = device_memory(BYTES);
    memset(pageable, 1, BYTES);
    memset(pinned, 2, BYTES);

    launch_one(gate, stream, &open);
    OK(cuMemcpyHtoDAsync(device, pageable, BYTES, stream));
    memset(pageable, 9, BYTES); /* was read at the call */
    OK(cuMemcpyHtoDAsync(other, pinned, BYTES, stream));
    memset(pinned, 3, BYTES); /* is read when its turn comes */
    OK(cuMemcpyDtoDAsync(device + 8, device, 8, stream));
    OK(cuMemsetD8Async(device + 16, 5, 8, stream));
    ck_assert_int_eq(cuStreamQuery(stream), CUDA_ERROR_NOT_READY); /* none of these has waited */
    atomic_store(&open, 1);
    OK(cuMemcpyDtoHAsync(result, device, BYTES, stream)); /* to pageable memory: waits */
    ck_assert_uint_eq(result[0], 1);
    ck_assert_uint_eq(result[BYTES - 1], 1);
    ck_assert_uint_eq(result[16], 5);
    OK(cuMemcpyDtoH(result, other, BYTES));
    ck_assert_uint_eq(result[0], 3);
}

static void
open_soon(void *flag)
{
    atomic_store((atomic_int *)flag, 1);
}

/* Freeing waits for the work that may use the memory: else the kernel below would write to memory that is gone. */
TEST(free_waits_for_the_device)
{
    CUstream gated = new_stream(CU_STREAM_NON_BLOCKING), opener = new_stream(CU_STREAM_NON_BLOCKING);
    static atomic_int open;
    atomic_store(&open, 0);
    CUdeviceptr device = device_memory(BYTES);
    CUfunction add = load_function(&add_image);
    OK(cuFuncLoad(add)); /* a first launch may wait for the device, and the gate */
    launch_one(load_function(&gate_image), gated, &open);
    launch_add(add, gated, device, 1, BYTES / sizeof(float));
    OK(cuLaunchHostFunc(opener, open_soon, &open));
    OK(cuMemFree(device));
    OK(cuStreamQuery(gated));
    ck_assert_int_eq(atomic_load(&gate_gave_up), 0);
}

TEST(stream_ordered_memory_lives_until_its_free_is_reached)
{
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    static atomic_int open;
    atomic_store(&open, 0);
    CUdeviceptr device;
    size_t before, during, after, total;
    OK(cuMemGetInfo(&before, &total));
    launch_one(load_function(&gate_image), stream, &open);
    OK(cuMemAllocAsync(&device, 1 << 20, stream));
    OK(cuMemsetD8Async(device, 1, 1 << 20, stream));
    OK(cuMemFreeAsync(device, stream));
    ck_assert_int_eq(cuMemFreeAsync(device, stream), CUDA_ERROR_INVALID_VALUE); /* twice */
    ck_assert_int_eq(cuMemFree(device), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemGetInfo(&during, &total));
    ck_assert_uint_eq(during, before - (1 << 20));
    atomic_store(&open, 1);
    OK(cuStreamSynchronize(stream));
    OK(cuMemGetInfo(&after, &total));
    ck_assert_uint_eq(after, before);

    CUmemoryPool pool, other;
    cuuint64_t threshold = 12345, read = 0;
    OK(cuDeviceGetDefaultMemPool(&pool, 0));
    OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
    OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &read));
    ck_assert_uint_eq(read, threshold);
    const CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                       .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    OK(cuMemPoolCreate(&other, &properties));
    OK(cuMemAllocFromPoolAsync(&device, 100, other, stream));
    OK(cuMemPoolGetAttribute(other, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &read));
    ck_assert_uint_eq(read, 100);
    OK(cuMemFreeAsync(device, stream));
    OK(cuStreamSynchronize(stream));
    OK(cuMemPoolDestroy(other));
    ck_assert_int_eq(cuMemPoolDestroy(pool), CUDA_ERROR_INVALID_VALUE);
}

/* ---- what a pointer is ---- */

struct attributes {
    unsigned type, managed;
    int device;
    CUdeviceptr device_pointer;
    void *host_pointer, *base;
    size_t bytes;
    CUcontext context;
};

static struct attributes
attributes_of(CUdeviceptr pointer)
{
    struct attributes found;
    memset(&found, 0x55, sizeof found);
    CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,    CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                   CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
                                   CU_POINTER_ATTRIBUTE_HOST_POINTER,   CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                                   CU_POINTER_ATTRIBUTE_RANGE_SIZE,     CU_POINTER_ATTRIBUTE_CONTEXT};
    void *values[] = {&found.type,         &found.managed, &found.device, &found.device_pointer,
                      &found.host_pointer, &found.base,    &found.bytes,  &found.context};
    OK(cuPointerGetAttributes(8, which, values, pointer));
    return found;
}

TEST(pointers_are_known_for_what_they_are)
{
    CUcontext context;
    OK(cuCtxGetCurrent(&context));
    CUdeviceptr device = device_memory(1000), managed = managed_memory(1000), base;
    void *pinned;
    static char pageable[4096], registered[4096];
    size_t bytes;
    OK(cuMemHostAlloc(&pinned, 1000, CU_MEMHOSTALLOC_PORTABLE));
    OK(cuMemHostRegister(registered, 4096, 0));
    ck_assert_int_eq(cuMemHostRegister(registered + 8, 8, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);

    struct attributes found = attributes_of(device + 10);
    ck_assert_uint_eq(found.type, CU_MEMORYTYPE_DEVICE);
    ck_assert_uint_eq(found.managed, 0);
    ck_assert_int_eq(found.device, 0);
    ck_assert_uint_eq(found.device_pointer, device + 10);
    ck_assert_ptr_null(found.host_pointer);
    ck_assert_ptr_eq(found.base, (void *)device);
    ck_assert_uint_eq(found.bytes, 1000);
    ck_assert_ptr_eq(found.context, context);
    found = attributes_of(managed);
    ck_assert_uint_eq(found.type, CU_MEMORYTYPE_DEVICE);
    ck_assert_uint_eq(found.managed, 1);
    ck_assert_ptr_eq(found.host_pointer, (void *)managed);
    found = attributes_of((CUdeviceptr)pinned + 999);
    ck_assert_uint_eq(found.type, CU_MEMORYTYPE_HOST);
    ck_assert_ptr_eq(found.host_pointer, (char *)pinned + 999);
    found = attributes_of((CUdeviceptr)registered + 5);
    ck_assert_uint_eq(found.type, CU_MEMORYTYPE_HOST);
    found = attributes_of((CUdeviceptr)pageable);
    ck_assert_uint_eq(found.type, 0);
    ck_assert_uint_eq(found.managed, 0);
    ck_assert_uint_eq(found.device_pointer, 0);
    ck_assert_uint_eq(found.bytes, 0);
    ck_assert_ptr_null(found.context);

    unsigned type;
    ck_assert_int_eq(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)pageable),
                     CUDA_ERROR_INVALID_VALUE);
    ck_assert_int_eq(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, device + 1000),
                     CUDA_ERROR_INVALID_VALUE);
    OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, device + 999));
    OK(cuMemGetAddressRange(&base, &bytes, device + 500));
    ck_assert_uint_eq(base, device);
    ck_assert_uint_eq(bytes, 1000);
    CUdeviceptr mapped;
    OK(cuMemHostGetDevicePointer(&mapped, registered + 4, 0));
    ck_assert_uint_eq(mapped, (CUdeviceptr)registered + 4);
    ck_assert_int_eq(cuMemHostGetDevicePointer(&mapped, pageable, 0), CUDA_ERROR_INVALID_VALUE);

    OK(cuMemHostUnregister(registered));
    ck_assert_int_eq(cuMemHostUnregister(registered), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    OK(cuMemFreeHost(pinned));
    OK(cuMemFree(managed));
    OK(cuMemFree(device));
}

TEST(fresh_memory_is_poisoned_on_request)
{
    CUdeviceptr device = device_memory(BYTES), other;
    unsigned char seen[BYTES];
    OK(cuMemAllocAsync(&other, BYTES, NULL));
    const char *poison = getenv("SOFTGPU_POISON");
    for (int i = 0; poison != NULL && strcmp(poison, "1") == 0 && i < 2; ++i) {
        OK(cuMemcpyDtoH(seen, i ? other : device, BYTES));
        for (int k = 0; k < BYTES; ++k)
            ck_assert_uint_eq(seen[k], 0xff); /* a NaN in every floating-point type */
    }
}

TEST(memory_runs_out)
{
    size_t free_bytes, total;
    CUdeviceptr pointer = 7;
    OK(cuMemGetInfo(&free_bytes, &total));
    ck_assert_int_eq(cuMemAlloc(&pointer, total + 1), CUDA_ERROR_OUT_OF_MEMORY);
    ck_assert_int_eq(cuMemAlloc(&pointer, SIZE_MAX), CUDA_ERROR_OUT_OF_MEMORY);
    ck_assert_int_eq(cuMemAlloc(&pointer, 0), CUDA_ERROR_INVALID_VALUE);
    ck_assert_uint_eq(pointer, 7);
    CUdeviceptr pitched;
    size_t pitch;
    OK(cuMemAllocPitch(&pitched, &pitch, 100, 10, 4));
    ck_assert_uint_ge(pitch, 100);
    ck_assert_uint_eq(pitch % 256, 0);
    OK(cuMemsetD2D8(pitched, pitch, 0, 100, 10));
    OK(cuMemFree(pitched));
    size_t again;
    OK(cuMemGetInfo(&again, &total));
    ck_assert_uint_eq(again, free_bytes);
}
