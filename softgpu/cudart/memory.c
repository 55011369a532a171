/*
 * memory.c - allocating, freeing, registering and asking about memory.
 */
#include "runtime.h"

/* Nothing is asked for: the runtime answers NULL where the driver refuses. */
static cudaError_t
nothing(void **pointer)
{
    TRY(runtime_enter());
    *pointer = NULL;
    return cudaSuccess;
}

cudaError_t
cudaMalloc(void **pointer, size_t bytes)
{
    REQUIRE(pointer != NULL);
    return bytes == 0 ? nothing(pointer) : WITH_CONTEXT(driver.cuMemAlloc_v2((CUdeviceptr *)pointer, bytes));
}

cudaError_t
cudaMallocManaged(void **pointer, size_t bytes, unsigned int flags)
{
    REQUIRE(pointer != NULL);
    return WITH_CONTEXT(driver.cuMemAllocManaged((CUdeviceptr *)pointer, bytes, flags));
}

cudaError_t
cudaMallocPitch(void **pointer, size_t *pitch, size_t width_bytes, size_t height)
{
    REQUIRE(pointer != NULL && pitch != NULL);
    if (width_bytes == 0 || height == 0) {
        *pitch = 0;
        return nothing(pointer);
    }
    return WITH_CONTEXT(driver.cuMemAllocPitch_v2((CUdeviceptr *)pointer, pitch, width_bytes, height, sizeof(int)));
}

cudaError_t
cudaMalloc3D(struct cudaPitchedPtr *pitched, struct cudaExtent extent)
{
    size_t rows;
    REQUIRE(pitched != NULL && !__builtin_mul_overflow(extent.height, extent.depth, &rows));
    struct cudaPitchedPtr made = {.xsize = extent.width, .ysize = extent.height};
    TRY(cudaMallocPitch(&made.ptr, &made.pitch, extent.width, rows));
    *pitched = made;
    return cudaSuccess;
}

ONE_FLAVOUR(cudaFree, (void *pointer), WITH_CONTEXT(driver.cuMemFree_v2((CUdeviceptr)pointer)))
ONE_FLAVOUR(cudaMemGetInfo, (size_t * free_bytes, size_t *total_bytes),
            WITH_CONTEXT(driver.cuMemGetInfo_v2(free_bytes, total_bytes)))

/* ---- host memory ---- */

cudaError_t
cudaHostAlloc(void **pointer, size_t bytes, unsigned int flags)
{
    REQUIRE(pointer != NULL);
    return bytes == 0 ? nothing(pointer) : WITH_CONTEXT(driver.cuMemHostAlloc(pointer, bytes, flags));
}

cudaError_t
cudaMallocHost(void **pointer, size_t bytes)
{
    return cudaHostAlloc(pointer, bytes, cudaHostAllocDefault);
}

ONE_FLAVOUR(cudaFreeHost, (void *pointer), WITH_CONTEXT(driver.cuMemFreeHost(pointer)))
ONE_FLAVOUR(cudaHostRegister, (void *pointer, size_t bytes, unsigned int flags),
            WITH_CONTEXT(driver.cuMemHostRegister_v2(pointer, bytes, flags)))
ONE_FLAVOUR(cudaHostUnregister, (void *pointer), WITH_CONTEXT(driver.cuMemHostUnregister(pointer)))
ONE_FLAVOUR(cudaHostGetDevicePointer, (void **device_pointer, void *pointer, unsigned int flags),
            WITH_CONTEXT(driver.cuMemHostGetDevicePointer_v2((CUdeviceptr *)device_pointer, pointer, flags)))
ONE_FLAVOUR(cudaHostGetFlags, (unsigned int *flags, void *pointer),
            WITH_CONTEXT(driver.cuMemHostGetFlags(flags, pointer)))

/* ---- what an address is ---- */

cudaError_t
cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *pointer)
{
    REQUIRE(attributes != NULL);
    unsigned type = 0, managed = 0;
    int device = cudaInvalidDeviceId;
    void *on_device = NULL, *on_host = NULL;
    CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                   CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
                                   CU_POINTER_ATTRIBUTE_HOST_POINTER};
    void *values[] = {&type, &managed, &device, &on_device, &on_host};
    TRY(WITH_CONTEXT(
        driver.cuPointerGetAttributes(sizeof which / sizeof which[0], which, values, (CUdeviceptr)pointer)));
    *attributes = (struct cudaPointerAttributes){
        .type = managed != 0                   ? cudaMemoryTypeManaged
                : type == CU_MEMORYTYPE_HOST   ? cudaMemoryTypeHost
                : type == CU_MEMORYTYPE_DEVICE ? cudaMemoryTypeDevice
                                               : cudaMemoryTypeUnregistered,
        .device = device,
        .devicePointer = on_device,
        .hostPointer = type == 0 ? (void *)pointer : on_host,
    };
    return cudaSuccess;
}

cudaError_t
cudaMemAdvise(const void *pointer, size_t bytes, enum cudaMemoryAdvise advice, struct cudaMemLocation location)
{
    return WITH_CONTEXT(driver.cuMemAdvise_v2((CUdeviceptr)pointer, bytes, (CUmem_advise)advice,
                                              (CUmemLocation){(CUmemLocationType)location.type, location.id}));
}

ONE_FLAVOUR(cudaMemRangeGetAttribute,
            (void *data, size_t data_bytes, enum cudaMemRangeAttribute attribute, const void *pointer, size_t bytes),
            WITH_CONTEXT(driver.cuMemRangeGetAttribute(data, data_bytes, (CUmem_range_attribute)attribute,
                                                       (CUdeviceptr)pointer, bytes)))
ONE_FLAVOUR(cudaMemRangeGetAttributes,
            (void **data, size_t *data_bytes, enum cudaMemRangeAttribute *attributes, size_t count, const void *pointer,
             size_t bytes),
            WITH_CONTEXT(driver.cuMemRangeGetAttributes(data, data_bytes, (CUmem_range_attribute *)attributes, count,
                                                        (CUdeviceptr)pointer, bytes)))

BOTH_FLAVOURS(
    cudaMemPrefetchAsync, _ptsz,
    (const void *pointer, size_t bytes, struct cudaMemLocation location, unsigned int flags, cudaStream_t stream),
    WITH_CONTEXT(STREAM_CALL(cuMemPrefetchAsync_v2)((CUdeviceptr)pointer, bytes,
                                                    (CUmemLocation){(CUmemLocationType)location.type, location.id},
                                                    flags, stream)))

/* ---- in stream order ---- */

BOTH_FLAVOURS(cudaMallocAsync, _ptsz, (void **pointer, size_t bytes, cudaStream_t stream),
              pointer != NULL && bytes == 0
                  ? nothing(pointer)
                  : WITH_CONTEXT(STREAM_CALL(cuMemAllocAsync)((CUdeviceptr *)pointer, bytes, stream)))
BOTH_FLAVOURS(cudaMallocFromPoolAsync, _ptsz, (void **pointer, size_t bytes, cudaMemPool_t pool, cudaStream_t stream),
              WITH_CONTEXT(STREAM_CALL(cuMemAllocFromPoolAsync)((CUdeviceptr *)pointer, bytes, pool, stream)))
BOTH_FLAVOURS(cudaFreeAsync, _ptsz, (void *pointer, cudaStream_t stream),
              WITH_CONTEXT(STREAM_CALL(cuMemFreeAsync)((CUdeviceptr)pointer, stream)))

ONE_FLAVOUR(cudaDeviceGetDefaultMemPool, (cudaMemPool_t * pool, int device),
            WITHOUT_CONTEXT(driver.cuDeviceGetDefaultMemPool(pool, device)))
ONE_FLAVOUR(cudaDeviceGetMemPool, (cudaMemPool_t * pool, int device),
            WITHOUT_CONTEXT(driver.cuDeviceGetMemPool(pool, device)))
ONE_FLAVOUR(cudaDeviceSetMemPool, (int device, cudaMemPool_t pool),
            WITHOUT_CONTEXT(driver.cuDeviceSetMemPool(device, pool)))
ONE_FLAVOUR(cudaMemPoolCreate, (cudaMemPool_t * pool, const struct cudaMemPoolProps *properties),
            WITHOUT_CONTEXT(driver.cuMemPoolCreate(pool, (const CUmemPoolProps *)properties)))
ONE_FLAVOUR(cudaMemPoolDestroy, (cudaMemPool_t pool), WITHOUT_CONTEXT(driver.cuMemPoolDestroy(pool)))
ONE_FLAVOUR(cudaMemPoolSetAttribute, (cudaMemPool_t pool, enum cudaMemPoolAttr attribute, void *value),
            WITHOUT_CONTEXT(driver.cuMemPoolSetAttribute(pool, (CUmemPool_attribute)attribute, value)))
ONE_FLAVOUR(cudaMemPoolGetAttribute, (cudaMemPool_t pool, enum cudaMemPoolAttr attribute, void *value),
            WITHOUT_CONTEXT(driver.cuMemPoolGetAttribute(pool, (CUmemPool_attribute)attribute, value)))
ONE_FLAVOUR(cudaMemPoolTrimTo, (cudaMemPool_t pool, size_t bytes), WITHOUT_CONTEXT(driver.cuMemPoolTrimTo(pool, bytes)))
ONE_FLAVOUR(cudaMemPoolSetAccess, (cudaMemPool_t pool, const struct cudaMemAccessDesc *accesses, size_t count),
            WITHOUT_CONTEXT(driver.cuMemPoolSetAccess(pool, (const CUmemAccessDesc *)accesses, count)))
ONE_FLAVOUR(cudaMemPoolGetAccess,
            (enum cudaMemAccessFlags * flags, cudaMemPool_t pool, struct cudaMemLocation *location),
            WITHOUT_CONTEXT(driver.cuMemPoolGetAccess((CUmemAccess_flags *)flags, pool, (CUmemLocation *)location)))
