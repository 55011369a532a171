/*
 * memory.c - allocating, freeing, registering and asking about memory.
 */
#include "runtime.h"

/* Nothing is asked for: the runtime answers NULL where the driver refuses. */
static cudaError_t
nothing(void **pointer)
{
    cudaError_t error = runtime_enter();
    if (error == cudaSuccess) {
        *pointer = NULL;
    }
    return finish(error);
}

cudaError_t
cudaMalloc(void **pointer, size_t bytes)
{
    if (pointer == NULL) {
        return finish(cudaErrorInvalidValue);
    }
    return bytes == 0 ? nothing(pointer) : WITH_CONTEXT(driver.cuMemAlloc_v2((CUdeviceptr *)pointer, bytes));
}

cudaError_t
cudaMallocManaged(void **pointer, size_t bytes, unsigned int flags)
{
    if (pointer == NULL) {
        return finish(cudaErrorInvalidValue);
    }
    return WITH_CONTEXT(driver.cuMemAllocManaged((CUdeviceptr *)pointer, bytes, flags));
}

cudaError_t
cudaMallocPitch(void **pointer, size_t *pitch, size_t width_bytes, size_t height)
{
    if (pointer == NULL || pitch == NULL) {
        return finish(cudaErrorInvalidValue);
    }
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
    if (pitched == NULL || __builtin_mul_overflow(extent.height, extent.depth, &rows)) {
        return finish(cudaErrorInvalidValue);
    }
    struct cudaPitchedPtr made = {.xsize = extent.width, .ysize = extent.height};
    cudaError_t error = cudaMallocPitch(&made.ptr, &made.pitch, extent.width, rows);
    if (error == cudaSuccess) {
        *pitched = made;
    }
    return error;
}

cudaError_t
cudaFree(void *pointer)
{
    return WITH_CONTEXT(driver.cuMemFree_v2((CUdeviceptr)pointer));
}

cudaError_t
cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes)
{
    return WITH_CONTEXT(driver.cuMemGetInfo_v2(free_bytes, total_bytes));
}

/* ---- host memory ---- */

cudaError_t
cudaHostAlloc(void **pointer, size_t bytes, unsigned int flags)
{
    if (pointer == NULL) {
        return finish(cudaErrorInvalidValue);
    }
    return bytes == 0 ? nothing(pointer) : WITH_CONTEXT(driver.cuMemHostAlloc(pointer, bytes, flags));
}

cudaError_t
cudaMallocHost(void **pointer, size_t bytes)
{
    return cudaHostAlloc(pointer, bytes, cudaHostAllocDefault);
}

cudaError_t
cudaFreeHost(void *pointer)
{
    return WITH_CONTEXT(driver.cuMemFreeHost(pointer));
}

cudaError_t
cudaHostRegister(void *pointer, size_t bytes, unsigned int flags)
{
    return WITH_CONTEXT(driver.cuMemHostRegister_v2(pointer, bytes, flags));
}

cudaError_t
cudaHostUnregister(void *pointer)
{
    return WITH_CONTEXT(driver.cuMemHostUnregister(pointer));
}

cudaError_t
cudaHostGetDevicePointer(void **device_pointer, void *pointer, unsigned int flags)
{
    return WITH_CONTEXT(driver.cuMemHostGetDevicePointer_v2((CUdeviceptr *)device_pointer, pointer, flags));
}

cudaError_t
cudaHostGetFlags(unsigned int *flags, void *pointer)
{
    return WITH_CONTEXT(driver.cuMemHostGetFlags(flags, pointer));
}

/* ---- what an address is ---- */

cudaError_t
cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *pointer)
{
    if (attributes == NULL) {
        return finish(cudaErrorInvalidValue);
    }
    unsigned type = 0, managed = 0;
    int device = cudaInvalidDeviceId;
    void *on_device = NULL, *on_host = NULL;
    CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                   CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
                                   CU_POINTER_ATTRIBUTE_HOST_POINTER};
    void *values[] = {&type, &managed, &device, &on_device, &on_host};
    cudaError_t error = WITH_CONTEXT(
        driver.cuPointerGetAttributes(sizeof which / sizeof which[0], which, values, (CUdeviceptr)pointer));
    if (error != cudaSuccess) {
        return error;
    }
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

cudaError_t
cudaMemRangeGetAttribute(void *data, size_t data_bytes, enum cudaMemRangeAttribute attribute, const void *pointer,
                         size_t bytes)
{
    return WITH_CONTEXT(
        driver.cuMemRangeGetAttribute(data, data_bytes, (CUmem_range_attribute)attribute, (CUdeviceptr)pointer, bytes));
}

cudaError_t
cudaMemRangeGetAttributes(void **data, size_t *data_bytes, enum cudaMemRangeAttribute *attributes, size_t count,
                          const void *pointer, size_t bytes)
{
    return WITH_CONTEXT(driver.cuMemRangeGetAttributes(data, data_bytes, (CUmem_range_attribute *)attributes, count,
                                                       (CUdeviceptr)pointer, bytes));
}

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

cudaError_t
cudaDeviceGetDefaultMemPool(cudaMemPool_t *pool, int device)
{
    return WITHOUT_CONTEXT(driver.cuDeviceGetDefaultMemPool(pool, device));
}

cudaError_t
cudaDeviceGetMemPool(cudaMemPool_t *pool, int device)
{
    return WITHOUT_CONTEXT(driver.cuDeviceGetMemPool(pool, device));
}

cudaError_t
cudaDeviceSetMemPool(int device, cudaMemPool_t pool)
{
    return WITHOUT_CONTEXT(driver.cuDeviceSetMemPool(device, pool));
}

cudaError_t
cudaMemPoolCreate(cudaMemPool_t *pool, const struct cudaMemPoolProps *properties)
{
    return WITHOUT_CONTEXT(driver.cuMemPoolCreate(pool, (const CUmemPoolProps *)properties));
}

cudaError_t
cudaMemPoolDestroy(cudaMemPool_t pool)
{
    return WITHOUT_CONTEXT(driver.cuMemPoolDestroy(pool));
}

cudaError_t
cudaMemPoolSetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr attribute, void *value)
{
    return WITHOUT_CONTEXT(driver.cuMemPoolSetAttribute(pool, (CUmemPool_attribute)attribute, value));
}

cudaError_t
cudaMemPoolGetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr attribute, void *value)
{
    return WITHOUT_CONTEXT(driver.cuMemPoolGetAttribute(pool, (CUmemPool_attribute)attribute, value));
}

cudaError_t
cudaMemPoolTrimTo(cudaMemPool_t pool, size_t bytes)
{
    return WITHOUT_CONTEXT(driver.cuMemPoolTrimTo(pool, bytes));
}

cudaError_t
cudaMemPoolSetAccess(cudaMemPool_t pool, const struct cudaMemAccessDesc *accesses, size_t count)
{
    return WITHOUT_CONTEXT(driver.cuMemPoolSetAccess(pool, (const CUmemAccessDesc *)accesses, count));
}

cudaError_t
cudaMemPoolGetAccess(enum cudaMemAccessFlags *flags, cudaMemPool_t pool, struct cudaMemLocation *location)
{
    return WITHOUT_CONTEXT(driver.cuMemPoolGetAccess((CUmemAccess_flags *)flags, pool, (CUmemLocation *)location));
}
