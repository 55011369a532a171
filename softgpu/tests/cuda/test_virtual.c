/*
 * test_virtual.c - virtual memory maps: what is written through one map of a chunk is read through another; random
 * sequences of reserve, create, map, unmap and release against a model; access as it was set, and nothing before it
 * was; what does not fit is refused and changes nothing.
 */
#include "kernels.h"

#include "tests/lib/test.h"

enum { UNIT = 2 << 20, UNITS = 16, CHUNKS = 6, STEPS = 300 };

static const CUmemAllocationProp on_device = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                              .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};

static CUmemAccessDesc
access_with(CUmemAccess_flags flags)
{
    return (CUmemAccessDesc){.location = on_device.location, .flags = flags};
}

static CUdeviceptr
reserve(size_t units)
{
    CUdeviceptr pointer;
    OK(cuMemAddressReserve(&pointer, units * UNIT, 0, 0, 0));
    ck_assert_uint_eq(pointer % UNIT, 0);
    return pointer;
}

static CUmemGenericAllocationHandle
create(size_t units)
{
    CUmemGenericAllocationHandle handle;
    OK(cuMemCreate(&handle, units * UNIT, &on_device, 0));
    return handle;
}

static void
open_range(CUdeviceptr pointer, size_t units)
{
    CUmemAccessDesc access = access_with(CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    OK(cuMemSetAccess(pointer, units * UNIT, &access, 1));
}

static size_t
free_bytes(void)
{
    size_t left;
    OK(cuMemGetInfo(&left, NULL));
    return left;
}

TEST_GROUP(all, .timeout_s = 100, .setup = use_device);

TEST(two_maps_of_one_chunk_are_the_same_memory)
{
    size_t granularity, before = free_bytes();
    OK(cuMemGetAllocationGranularity(&granularity, &on_device, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    ck_assert_uint_eq(granularity, UNIT);
    CUdeviceptr range = reserve(4);
    CUmemGenericAllocationHandle chunk = create(1), other = create(1), retained;
    ck_assert_uint_eq(before - free_bytes(), 2 * UNIT);
    OK(cuMemMap(range, UNIT, 0, chunk, 0));
    OK(cuMemMap(range + UNIT, UNIT, 0, other, 0));
    OK(cuMemMap(range + 2 * UNIT, UNIT, 0, chunk, 0));
    open_range(range, 3);
    for (size_t i = 0; i < 3; ++i) { /* each chunk is an allocation of its own */
        CUdeviceptr base;
        size_t bytes;
        OK(cuMemGetAddressRange(&base, &bytes, range + i * UNIT + 5));
        ck_assert_uint_eq(base, range + i * UNIT);
        ck_assert_uint_eq(bytes, UNIT);
    }
    /* One memset and one copy over the border of two maps. */
    unsigned char seen[200];
    OK(cuMemsetD8(range, 1, 2 * UNIT));
    OK(cuMemsetD8(range + UNIT - 100, 7, 200));
    OK(cuMemcpyDtoH(seen, range + UNIT - 100, 200));
    for (int i = 0; i < 200; ++i)
        ck_assert_int_eq(seen[i], 7);
    OK(cuMemcpyDtoH(seen, range + 3 * UNIT - 200, 200));
    for (int i = 0; i < 200; ++i)
        ck_assert_int_eq(seen[i], i < 100 ? 1 : 7);
    ck_assert_int_eq(cuMemcpyDtoH(seen, range + 3 * UNIT - 100, 200), CUDA_ERROR_INVALID_VALUE); /* into the gap */

    OK(cuMemRetainAllocationHandle(&retained, (void *)(range + 5)));
    ck_assert_uint_eq(retained, chunk);
    OK(cuMemRelease(retained));
    OK(cuMemRelease(chunk));
    ck_assert_int_eq(cuMemRelease(chunk), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemRelease(other));
    ck_assert_uint_eq(before - free_bytes(), 2 * UNIT); /* still mapped */
    ck_assert_int_eq(cuMemAddressFree(range, 4 * UNIT), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemUnmap(range, 3 * UNIT));
    ck_assert_uint_eq(before, free_bytes());
    ck_assert_int_eq(cuMemAddressFree(range, 2 * UNIT), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemAddressFree(range, 4 * UNIT));
    ck_assert_int_eq(cuMemAddressFree(range, 4 * UNIT), CUDA_ERROR_INVALID_VALUE);
}

/* Each chunk holds its own number wherever it is mapped. */
LOOP_TEST(maps_follow_a_model, 0, 10)
{
    unsigned seed = (unsigned)_i;
    size_t before = free_bytes();
    CUdeviceptr range = reserve(UNITS);
    CUmemGenericAllocationHandle chunks[CHUNKS];
    int model[UNITS]; /* -1: nothing there */
    for (int i = 0; i < CHUNKS; ++i) {
        chunks[i] = create(1);
        OK(cuMemMap(range, UNIT, 0, chunks[i], 0));
        open_range(range, 1);
        OK(cuMemsetD8(range, (unsigned char)(i + 1), UNIT));
        OK(cuMemUnmap(range, UNIT));
    }
    for (int i = 0; i < UNITS; ++i)
        model[i] = -1;
    for (int step = 0; step < STEPS; ++step) {
        int unit = rand_r(&seed) % UNITS, chunk = rand_r(&seed) % CHUNKS;
        CUdeviceptr at = range + (CUdeviceptr)unit * UNIT;
        unsigned char seen = 0;
        switch (rand_r(&seed) % 3) {
        case 0:
            ck_assert_int_eq(cuMemMap(at, UNIT, 0, chunks[chunk], 0),
                             model[unit] < 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
            if (model[unit] < 0) {
                open_range(at, 1);
                model[unit] = chunk;
            }
            break;
        case 1:
            ck_assert_int_eq(cuMemUnmap(at, UNIT), model[unit] < 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS);
            model[unit] = -1;
            break;
        default:
            ck_assert_int_eq(cuMemcpyDtoH(&seen, at + (CUdeviceptr)(rand_r(&seed) % UNIT), 1),
                             model[unit] < 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS);
            ck_assert_int_eq(seen, model[unit] + 1);
        }
    }
    for (int i = 0; i < UNITS; ++i) {
        if (model[i] >= 0)
            OK(cuMemUnmap(range + (CUdeviceptr)i * UNIT, UNIT));
    }
    for (int i = 0; i < CHUNKS; ++i)
        OK(cuMemRelease(chunks[i]));
    OK(cuMemAddressFree(range, UNITS * (size_t)UNIT));
    ck_assert_uint_eq(before, free_bytes());
}

TEST(what_does_not_fit_is_refused)
{
    CUdeviceptr range = reserve(2), pointer;
    CUmemGenericAllocationHandle chunk = create(2), more;
    CUmemAllocationProp shared = on_device, nowhere = on_device;
    CUmemAccessDesc readable = access_with(CU_MEM_ACCESS_FLAGS_PROT_READ);
    unsigned long long flags;
    shared.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    nowhere.location.id = 9;
    ck_assert_int_eq(cuMemAddressReserve(&pointer, UNIT / 2, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemAddressReserve(&pointer, UNIT, 3, 0, 0)); /* less than what there is anyway */
    OK(cuMemAddressFree(pointer, UNIT));
    ck_assert_int_eq(cuMemAddressReserve(&pointer, UNIT, UNIT * 3, 0, 0), CUDA_ERROR_INVALID_VALUE);
    ck_assert_int_eq(cuMemCreate(&more, UNIT + 1, &on_device, 0), CUDA_ERROR_INVALID_VALUE);
    ck_assert_int_eq(cuMemCreate(&more, (size_t)1 << 50, &on_device, 0), CUDA_ERROR_OUT_OF_MEMORY);
    ck_assert_int_eq(cuMemCreate(&more, UNIT, &shared, 0), CUDA_ERROR_NOT_SUPPORTED);
    ck_assert_int_eq(cuMemCreate(&more, UNIT, &nowhere, 0), CUDA_ERROR_INVALID_DEVICE);
    ck_assert_int_eq(cuMemMap(range, 3 * UNIT, 0, chunk, 0), CUDA_ERROR_INVALID_VALUE);
    ck_assert_int_eq(cuMemMap(range + UNIT, 2 * UNIT, 0, chunk, 0), CUDA_ERROR_INVALID_VALUE);
    ck_assert_int_eq(cuMemMap(range, 2 * UNIT, UNIT, chunk, 0), CUDA_ERROR_INVALID_VALUE);
    ck_assert_int_eq(cuMemSetAccess(range, 2 * UNIT, &readable, 1), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemMap(range, 2 * UNIT, 0, chunk, 0));
    OK(cuMemGetAccess(&flags, &on_device.location, range));
    ck_assert_uint_eq(flags, CU_MEM_ACCESS_FLAGS_PROT_NONE);
    ck_assert_int_eq(cuMemUnmap(range, UNIT), CUDA_ERROR_INVALID_VALUE); /* half a map */
    OK(cuMemSetAccess(range, 2 * UNIT, &readable, 1));
    OK(cuMemGetAccess(&flags, &on_device.location, range));
    ck_assert_uint_eq(flags, CU_MEM_ACCESS_FLAGS_PROT_READ);
    ck_assert_int_eq(cuMemFree(range), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemUnmap(range, 2 * UNIT));
    OK(cuMemRelease(chunk));
    OK(cuMemAddressFree(range, 2 * UNIT));
}

/* ---- where memory lies with SOFTGPU_ADDRESSES=real ---- */

TEST(addresses_are_those_of_a_gpu)
{
    enum { COUNT = 300 };
    const char *addresses = getenv("SOFTGPU_ADDRESSES");
    CUdeviceptr plain[COUNT], pooled[COUNT], range, lowest = UINT64_MAX, highest = 0;
    if (addresses == NULL || strcmp(addresses, "real") != 0)
        return;
    range = reserve(3);
    ck_assert_uint_ge(range, 0x302000000);
    ck_assert_uint_lt(range, 0x400000000);
    for (int i = 0; i < COUNT; ++i) {
        plain[i] = device_memory(1000);
        OK(cuMemAllocAsync(&pooled[i], 1000, NULL));
        ck_assert_uint_ge(pooled[i], 0x302000000);
        ck_assert_uint_lt(pooled[i], 0x400000000);
        ck_assert_uint_eq(plain[i] % 256, 0);
        ck_assert_uint_eq(plain[i] >> 40, 0x7f);
        lowest = plain[i] < lowest ? plain[i] : lowest;
        highest = plain[i] > highest ? plain[i] : highest;
    }
    ck_assert_uint_ge(highest - lowest, UINT64_C(100) << 30);
    ck_assert_uint_le(highest - lowest, UINT64_C(139) << 30);
    for (int i = 0; i < COUNT; ++i) {
        OK(cuMemFree(plain[i]));
        OK(cuMemFree(pooled[i]));
    }
    OK(cuMemAddressFree(range, 3 * (size_t)UNIT));
}

/* ---- managed memory ---- */

TEST(hints_about_managed_memory_are_checked)
{
    CUdeviceptr managed = managed_memory(1000), device = device_memory(1000);
    CUmemLocation here = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}, nowhere = {here.type, 9},
                  host = {.type = CU_MEM_LOCATION_TYPE_HOST};
    memset((void *)managed, 5, 1000);
    OK(cuMemPrefetchAsync_v2(managed, 1000, here, 0, NULL));
    OK(cuMemPrefetchAsync_v2(managed, 1000, host, 0, NULL));
    ck_assert_int_eq(cuMemPrefetchAsync_v2(managed, 1001, here, 0, NULL), CUDA_ERROR_INVALID_VALUE);
    ck_assert_int_eq(cuMemPrefetchAsync_v2(device, 1000, here, 0, NULL), CUDA_ERROR_INVALID_VALUE);
    ck_assert_int_eq(cuMemPrefetchAsync_v2(managed, 1000, nowhere, 0, NULL), CUDA_ERROR_INVALID_DEVICE);
    OK(cuMemAdvise_v2(managed, 1000, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, here));
    ck_assert_int_eq(cuMemAdvise_v2(managed, 1000, CU_MEM_ADVISE_SET_ACCESSED_BY, nowhere), CUDA_ERROR_INVALID_DEVICE);
    OK(cuMemAdvise_v2(managed, 1000, CU_MEM_ADVISE_SET_READ_MOSTLY, nowhere));
    ck_assert_int_eq(cuMemAdvise_v2(managed, 1000, (CUmem_advise)77, here), CUDA_ERROR_INVALID_VALUE);
    ck_assert_int_eq(cuMemAdvise_v2(device, 1000, CU_MEM_ADVISE_SET_READ_MOSTLY, here), CUDA_ERROR_INVALID_VALUE);
    ck_assert_int_eq(((char *)managed)[999], 5);
}

/* ---- pools ---- */

static cuuint64_t
pool_value(CUmemoryPool pool, CUmemPool_attribute attribute)
{
    cuuint64_t value = 0;
    OK(cuMemPoolGetAttribute(pool, attribute, &value));
    return value;
}

TEST(pools_count_what_is_allocated_from_them)
{
    const CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = on_device.location};
    CUmemoryPool pool;
    CUdeviceptr first, second;
    cuuint64_t zero = 0, one = 1;
    OK(cuMemPoolCreate(&pool, &properties));
    OK(cuMemAllocFromPoolAsync(&first, 1000, pool, NULL));
    OK(cuMemAllocFromPoolAsync(&second, 300, pool, NULL));
    OK(cuMemFreeAsync(first, NULL));
    OK(cuCtxSynchronize());
    ck_assert_uint_eq(pool_value(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 300);
    ck_assert_uint_eq(pool_value(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH), 1300);
    ck_assert_int_eq(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &one), CUDA_ERROR_INVALID_VALUE);
    ck_assert_int_eq(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &zero), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &zero));
    ck_assert_uint_eq(pool_value(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH), 300);
    OK(cuMemPoolDestroy(pool)); /* before its last allocation, which stays usable */
    OK(cuMemsetD8(second, 1, 300));
    OK(cuMemFree(second));
}
