/* device_hash.c - see device_hash.h. */
#include "comm/device_hash.h"

#include "base/assertion.h"

bool
device_hash_add(struct hash_launch *launch, struct hash_range range)
{
    uint64_t blocks = (range.bytes + HASH_BLOCK - 1) / HASH_BLOCK;
    ASSERT(range.bytes > 0);
    if (launch->count == HASH_RANGES_AT_MOST || (launch->count > 0 && launch->blocks + blocks > UINT32_MAX))
        return false;
    range.begin = launch->blocks;
    launch->ranges[launch->count++] = range;
    launch->blocks += (uint32_t)blocks;
    return true;
}

static unsigned
least(uint64_t a, uint64_t b)
{
    return (unsigned)(a < b ? a : b);
}

bool
device_hash_run(struct hash_launch *launch, const struct driver *driver, const struct kernels *kernels, CUstream stream,
                struct comm_error *error)
{
    if (launch->count == 0)
        return true;
    unsigned blocks = least((launch->blocks + HASH_BLOCKS_AT_ONCE - 1) / HASH_BLOCKS_AT_ONCE, HASH_GRID_AT_MOST);
    void *arguments[] = {launch};
    CUresult result =
        driver->cuLaunchKernel_p(kernels->hash, blocks, 1, 1, kernels->threads, 1, 1, 0, stream, arguments, NULL);
    launch->count = launch->blocks = 0;
    return result == CUDA_SUCCESS || driver_fail(driver, result, "hashing memory", error);
}

bool
device_hash_compare(CUdeviceptr words, size_t count, int ranks, CUdeviceptr differs, const struct driver *driver,
                    const struct kernels *kernels, CUstream stream, struct comm_error *error)
{
    unsigned tensors = (unsigned)count, world = (unsigned)ranks;
    unsigned blocks = least((count + HASH_THREADS - 1) / HASH_THREADS, HASH_GRID_AT_MOST);
    void *arguments[] = {&words, &tensors, &world, &differs};
    CUresult result =
        driver->cuLaunchKernel_p(kernels->compare, blocks, 1, 1, kernels->threads, 1, 1, 0, stream, arguments, NULL);
    return result == CUDA_SUCCESS || driver_fail(driver, result, "comparing hashes", error);
}
