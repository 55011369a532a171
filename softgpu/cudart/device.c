/*
 * device.c - devices: which one a thread uses, what it can do, and what applies to all of it.
 */
#include "runtime.h"

#include "softgpu/calls.h"

#include <limits.h>
#include <string.h>

cudaError_t
cudaDriverGetVersion(int *version)
{
    REQUIRE(version != NULL);
    return WITHOUT_CONTEXT(driver.cuDriverGetVersion(version));
}

cudaError_t
cudaRuntimeGetVersion(int *version)
{
    REQUIRE(version != NULL);
    *version = CUDART_VERSION;
    return cudaSuccess;
}

/* ---- the thread's device ---- */

cudaError_t
cudaGetDeviceCount(int *count)
{
    REQUIRE(count != NULL);
    cudaError_t error = WITHOUT_CONTEXT(driver.cuDeviceGetCount(count));
    if (error != cudaSuccess) {
        *count = 0; /* programs look at the number only */
    }
    return error;
}

cudaError_t
cudaSetDevice(int device)
{
    TRY(runtime_start());
    return finish(runtime_set_device(device));
}

cudaError_t
cudaGetDevice(int *device)
{
    REQUIRE(device != NULL);
    TRY(runtime_start());
    *device = runtime_device();
    return cudaSuccess;
}

cudaError_t
cudaInitDevice(int device, unsigned int device_flags, unsigned int flags)
{
    CUcontext context;
    REQUIRE((flags & ~cudaInitDeviceFlagsAreValid) == 0);
    TRY(runtime_start());
    TRY(runtime_context(device, &context));
    if ((flags & cudaInitDeviceFlagsAreValid) != 0) {
        TRY_DRIVER(driver.cuDevicePrimaryCtxSetFlags_v2(device, device_flags));
    }
    return cudaSuccess;
}

ONE_FLAVOUR(cudaSetDeviceFlags, (unsigned int flags),
            WITHOUT_CONTEXT(driver.cuDevicePrimaryCtxSetFlags_v2(runtime_device(), flags)))

cudaError_t
cudaGetDeviceFlags(unsigned int *flags)
{
    int active;
    return WITHOUT_CONTEXT(driver.cuDevicePrimaryCtxGetState(runtime_device(), flags, &active));
}

cudaError_t
cudaSetValidDevices(int *devices, int count)
{
    REQUIRE(count <= 0 || devices != NULL);
    return count > 0 ? cudaSetDevice(devices[0]) : cudaSuccess;
}

/* All devices are alike. */
cudaError_t
cudaChooseDevice(int *device, const struct cudaDeviceProp *wanted)
{
    REQUIRE(device != NULL && wanted != NULL);
    *device = 0;
    return cudaSuccess;
}

ONE_FLAVOUR(cudaDeviceReset, (void), WITHOUT_CONTEXT(driver.cuDevicePrimaryCtxReset(runtime_device())))
ONE_FLAVOUR(cudaDeviceSynchronize, (void), WITH_CONTEXT(driver.cuCtxSynchronize()))

/* ---- what it is ---- */

/* Attributes have the same numbers in the runtime and the driver. */
ONE_FLAVOUR(cudaDeviceGetAttribute, (int *value, enum cudaDeviceAttr attribute, int device),
            WITHOUT_CONTEXT(driver.cuDeviceGetAttribute(value, (CUdevice_attribute)attribute, device)))

static int
attribute(CUdevice_attribute which, int device)
{
    int value = 0;
    return driver.cuDeviceGetAttribute(&value, which, device) == CUDA_SUCCESS ? value : 0;
}

#define GET(field, name) \
    properties->field = (__typeof__(properties->field))attribute(CU_DEVICE_ATTRIBUTE_##name, device)

static void
fill_limits(struct cudaDeviceProp *properties, int device)
{
    GET(sharedMemPerBlock, MAX_SHARED_MEMORY_PER_BLOCK);
    GET(regsPerBlock, MAX_REGISTERS_PER_BLOCK);
    GET(warpSize, WARP_SIZE);
    GET(memPitch, MAX_PITCH);
    GET(maxThreadsPerBlock, MAX_THREADS_PER_BLOCK);
    GET(maxThreadsDim[0], MAX_BLOCK_DIM_X);
    GET(maxThreadsDim[1], MAX_BLOCK_DIM_Y);
    GET(maxThreadsDim[2], MAX_BLOCK_DIM_Z);
    GET(maxGridSize[0], MAX_GRID_DIM_X);
    GET(maxGridSize[1], MAX_GRID_DIM_Y);
    GET(maxGridSize[2], MAX_GRID_DIM_Z);
    GET(totalConstMem, TOTAL_CONSTANT_MEMORY);
    GET(textureAlignment, TEXTURE_ALIGNMENT);
    GET(texturePitchAlignment, TEXTURE_PITCH_ALIGNMENT);
    GET(surfaceAlignment, SURFACE_ALIGNMENT);
    GET(multiProcessorCount, MULTIPROCESSOR_COUNT);
    GET(maxThreadsPerMultiProcessor, MAX_THREADS_PER_MULTIPROCESSOR);
    GET(sharedMemPerMultiprocessor, MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
    GET(regsPerMultiprocessor, MAX_REGISTERS_PER_MULTIPROCESSOR);
    GET(sharedMemPerBlockOptin, MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
    GET(maxBlocksPerMultiProcessor, MAX_BLOCKS_PER_MULTIPROCESSOR);
    GET(reservedSharedMemPerBlock, RESERVED_SHARED_MEMORY_PER_BLOCK);
    GET(memoryBusWidth, GLOBAL_MEMORY_BUS_WIDTH);
    GET(l2CacheSize, L2_CACHE_SIZE);
}

static void
fill_abilities(struct cudaDeviceProp *properties, int device)
{
    GET(major, COMPUTE_CAPABILITY_MAJOR);
    GET(minor, COMPUTE_CAPABILITY_MINOR);
    GET(canMapHostMemory, CAN_MAP_HOST_MEMORY);
    GET(concurrentKernels, CONCURRENT_KERNELS);
    GET(pciBusID, PCI_BUS_ID);
    GET(pciDeviceID, PCI_DEVICE_ID);
    GET(pciDomainID, PCI_DOMAIN_ID);
    GET(asyncEngineCount, ASYNC_ENGINE_COUNT);
    GET(unifiedAddressing, UNIFIED_ADDRESSING);
    GET(streamPrioritiesSupported, STREAM_PRIORITIES_SUPPORTED);
    GET(globalL1CacheSupported, GLOBAL_L1_CACHE_SUPPORTED);
    GET(localL1CacheSupported, LOCAL_L1_CACHE_SUPPORTED);
    GET(managedMemory, MANAGED_MEMORY);
    GET(hostNativeAtomicSupported, HOST_NATIVE_ATOMIC_SUPPORTED);
    GET(pageableMemoryAccess, PAGEABLE_MEMORY_ACCESS);
    GET(concurrentManagedAccess, CONCURRENT_MANAGED_ACCESS);
    GET(computePreemptionSupported, COMPUTE_PREEMPTION_SUPPORTED);
    GET(canUseHostPointerForRegisteredMem, CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM);
    GET(cooperativeLaunch, COOPERATIVE_LAUNCH);
    GET(hostRegisterSupported, HOST_REGISTER_SUPPORTED);
    GET(memoryPoolsSupported, MEMORY_POOLS_SUPPORTED);
    GET(clusterLaunch, CLUSTER_LAUNCH);
    GET(unifiedFunctionPointers, UNIFIED_FUNCTION_POINTERS);
    GET(deviceNumaId, NUMA_ID);
    GET(hostNumaId, HOST_NUMA_ID);
}

/* What CUDA 13 has removed, for programs with the headers that softgpu/cc/removed.cmake makes. */
static void
fill_removed(struct cudaDeviceProp *properties, int device)
{
    GET(reserved[0], CLOCK_RATE);
    GET(reserved[1], GPU_OVERLAP);
    GET(reserved[2], KERNEL_EXEC_TIMEOUT);
    GET(reserved[3], COMPUTE_MODE);
    GET(reserved[4], MAXIMUM_TEXTURE1D_LINEAR_WIDTH);
    GET(reserved[5], MEMORY_CLOCK_RATE);
    GET(reserved[6], SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO);
}

cudaError_t
cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device)
{
    CUdevice found;
    CUuuid uuid;
    REQUIRE(properties != NULL);
    TRY(runtime_start());
    TRY_DRIVER(driver.cuDeviceGet(&found, device));
    memset(properties, 0, sizeof *properties);
    TRY_DRIVER(driver.cuDeviceGetName(properties->name, sizeof properties->name, device));
    TRY_DRIVER(driver.cuDeviceTotalMem_v2(&properties->totalGlobalMem, device));
    TRY_DRIVER(driver.cuDeviceGetUuid(&uuid, device));
    memcpy(properties->uuid.bytes, uuid.bytes, sizeof properties->uuid.bytes);
    fill_limits(properties, device);
    fill_abilities(properties, device);
    fill_removed(properties, device);
    return cudaSuccess;
}

ONE_FLAVOUR(cudaDeviceGetPCIBusId, (char *id, int room, int device),
            WITHOUT_CONTEXT(driver.cuDeviceGetPCIBusId(id, room, device)))
ONE_FLAVOUR(cudaDeviceGetByPCIBusId, (int *device, const char *id),
            WITHOUT_CONTEXT(driver.cuDeviceGetByPCIBusId(device, id)))
ONE_FLAVOUR(cudaDeviceCanAccessPeer, (int *can, int device, int peer),
            WITHOUT_CONTEXT(driver.cuDeviceCanAccessPeer(can, device, peer)))
ONE_FLAVOUR(cudaDeviceGetP2PAttribute, (int *value, enum cudaDeviceP2PAttr which, int device, int peer),
            WITHOUT_CONTEXT(driver.cuDeviceGetP2PAttribute(value, (CUdevice_P2PAttribute)which, device, peer)))

cudaError_t
cudaDeviceEnablePeerAccess(int peer, unsigned int flags)
{
    CUcontext context;
    TRY(runtime_enter());
    TRY(runtime_context(peer, &context));
    return finish(from_driver(driver.cuCtxEnablePeerAccess(context, flags)));
}

cudaError_t
cudaDeviceDisablePeerAccess(int peer)
{
    CUcontext context;
    TRY(runtime_enter());
    TRY(runtime_context(peer, &context));
    return finish(from_driver(driver.cuCtxDisablePeerAccess(context)));
}

/* ---- settings ---- */

ONE_FLAVOUR(cudaDeviceSetLimit, (enum cudaLimit limit, size_t value),
            WITH_CONTEXT(driver.cuCtxSetLimit((CUlimit)limit, value)))
ONE_FLAVOUR(cudaDeviceGetLimit, (size_t * value, enum cudaLimit limit),
            WITH_CONTEXT(driver.cuCtxGetLimit(value, (CUlimit)limit)))
ONE_FLAVOUR(cudaDeviceSetCacheConfig, (enum cudaFuncCache config),
            WITH_CONTEXT(driver.cuCtxSetCacheConfig((CUfunc_cache)config)))
ONE_FLAVOUR(cudaDeviceGetCacheConfig, (enum cudaFuncCache * config),
            WITH_CONTEXT(driver.cuCtxGetCacheConfig((CUfunc_cache *)config)))
ONE_FLAVOUR(cudaDeviceSetSharedMemConfig, (enum cudaSharedMemConfig config),
            WITH_CONTEXT(driver.cuCtxSetSharedMemConfig((CUsharedconfig)config)))
ONE_FLAVOUR(cudaDeviceGetSharedMemConfig, (enum cudaSharedMemConfig * config),
            WITH_CONTEXT(driver.cuCtxGetSharedMemConfig((CUsharedconfig *)config)))
ONE_FLAVOUR(cudaCtxResetPersistingL2Cache, (void), WITH_CONTEXT(driver.cuCtxResetPersistingL2Cache()))
ONE_FLAVOUR(cudaDeviceGetStreamPriorityRange, (int *least, int *greatest),
            WITH_CONTEXT(driver.cuCtxGetStreamPriorityRange(least, greatest)))
ONE_FLAVOUR(cudaProfilerStart, (void), WITH_CONTEXT(driver.cuProfilerStart()))
ONE_FLAVOUR(cudaProfilerStop, (void), WITH_CONTEXT(driver.cuProfilerStop()))

/* ---- the driver's own functions ---- */

/* The default is the flavour that the caller was compiled for. */
static cudaError_t
entry_point(const char *name, void **function, int version, unsigned long long flags,
            enum cudaDriverEntryPointQueryResult *status, enum flavour flavour)
{
    if (flags == cudaEnableDefault) {
        flags = flavour == LEGACY ? cudaEnableLegacyStream : cudaEnablePerThreadDefaultStream;
    }
    CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    cudaError_t error = WITHOUT_CONTEXT(driver.cuGetProcAddress_v2(name, function, version, flags, &found));
    if (error == cudaSuccess && status != NULL) {
        *status = (enum cudaDriverEntryPointQueryResult)found;
    }
    return error;
}
BOTH_FLAVOURS(cudaGetDriverEntryPoint, _ptsz,
              (const char *name, void **function, unsigned long long flags,
               enum cudaDriverEntryPointQueryResult *status),
              entry_point(name, function, CUDART_VERSION, flags, status, flavour))
BOTH_FLAVOURS(cudaGetDriverEntryPointByVersion, _ptsz,
              (const char *name, void **function, unsigned int version, unsigned long long flags,
               enum cudaDriverEntryPointQueryResult *status),
              entry_point(name, function, version > INT_MAX ? INT_MAX : (int)version, flags, status, flavour))

cudaError_t
cudaGetExportTable(const void **table, const cudaUUID_t *id)
{
    static const cudaUUID_t calls_id = {SOFTGPU_CALLS_ID};
    if (table != NULL && id != NULL && memcmp(id, &calls_id, sizeof(calls_id)) == 0) {
        *table = softgpu_calls_table(); /* asked when a program is loaded: it must not start the driver */
        return cudaSuccess;
    }
    return WITHOUT_CONTEXT(driver.cuGetExportTable(table, (const CUuuid *)id));
}
