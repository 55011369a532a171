/*
 * device.c - what programs ask about devices. The answers are those of an H100, or of another GPU that SOFTGPU_DEVICE
 * names (profile.c), so that a program takes the path that it takes there; what the stand-in cannot do is answered with
 * no.
 */
#include "driver.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#define ATTRIBUTE(name) [CU_DEVICE_ATTRIBUTE_##name]

/* Attributes that are not here are 0: absent or unsupported. */
static const int attributes[CU_DEVICE_ATTRIBUTE_MAX] = {
    ATTRIBUTE(MAX_THREADS_PER_BLOCK) = THREADS_PER_BLOCK,
    ATTRIBUTE(MAX_BLOCK_DIM_X) = 1024,
    ATTRIBUTE(MAX_BLOCK_DIM_Y) = 1024,
    ATTRIBUTE(MAX_BLOCK_DIM_Z) = 64,
    ATTRIBUTE(MAX_GRID_DIM_X) = 0x7fffffff,
    ATTRIBUTE(MAX_GRID_DIM_Y) = 65535,
    ATTRIBUTE(MAX_GRID_DIM_Z) = 65535,
    ATTRIBUTE(MAX_SHARED_MEMORY_PER_BLOCK) = SHARED_BYTES_PER_BLOCK,
    ATTRIBUTE(TOTAL_CONSTANT_MEMORY) = 64 << 10,
    ATTRIBUTE(WARP_SIZE) = 32,
    ATTRIBUTE(MAX_PITCH) = 0x7fffffff,
    ATTRIBUTE(MAX_REGISTERS_PER_BLOCK) = 65536,
    ATTRIBUTE(TEXTURE_ALIGNMENT) = 512,
    ATTRIBUTE(GPU_OVERLAP) = 1,
    ATTRIBUTE(CAN_MAP_HOST_MEMORY) = 1,
    ATTRIBUTE(COMPUTE_MODE) = CU_COMPUTEMODE_DEFAULT,
    ATTRIBUTE(SURFACE_ALIGNMENT) = 512,
    ATTRIBUTE(CONCURRENT_KERNELS) = 1,
    ATTRIBUTE(MAX_THREADS_PER_MULTIPROCESSOR) = 2048,
    ATTRIBUTE(UNIFIED_ADDRESSING) = 1,
    ATTRIBUTE(TEXTURE_PITCH_ALIGNMENT) = 32,
    ATTRIBUTE(STREAM_PRIORITIES_SUPPORTED) = 1,
    ATTRIBUTE(GLOBAL_L1_CACHE_SUPPORTED) = 1,
    ATTRIBUTE(LOCAL_L1_CACHE_SUPPORTED) = 1,
    ATTRIBUTE(MAX_REGISTERS_PER_MULTIPROCESSOR) = 65536,
    ATTRIBUTE(MANAGED_MEMORY) = 1,
    ATTRIBUTE(HOST_NATIVE_ATOMIC_SUPPORTED) = 1,
    ATTRIBUTE(SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO) = 2,
    ATTRIBUTE(COMPUTE_PREEMPTION_SUPPORTED) = 1,
    ATTRIBUTE(CAN_USE_STREAM_MEM_OPS_V1) = 1,
    ATTRIBUTE(CAN_USE_64_BIT_STREAM_MEM_OPS_V1) = 1,
    ATTRIBUTE(CAN_USE_STREAM_WAIT_VALUE_NOR_V1) = 1,
    ATTRIBUTE(CAN_USE_64_BIT_STREAM_MEM_OPS) = 1,
    ATTRIBUTE(CAN_USE_STREAM_WAIT_VALUE_NOR) = 1,
    ATTRIBUTE(CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM) = 1,
    ATTRIBUTE(HOST_REGISTER_SUPPORTED) = 1,
    ATTRIBUTE(MAX_BLOCKS_PER_MULTIPROCESSOR) = 32,
    ATTRIBUTE(MEMORY_POOLS_SUPPORTED) = 1,
    ATTRIBUTE(VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED) = 1,
    ATTRIBUTE(UNIFIED_FUNCTION_POINTERS) = 0,
    ATTRIBUTE(NUMA_ID) = -1,
    ATTRIBUTE(HOST_NUMA_ID) = -1,
};

/* What differs from device to device, or from profile to profile. */
static int
attribute_of(CUdevice_attribute attribute, CUdevice device)
{
    const struct profile *profile = driver.profile;
    switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
        return driver.device_index[device] + 1;
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS:
        return !driver.managed_apart;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
        return profile->major;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
        return profile->minor;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
        return profile->multiprocessors;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR:
        return profile->shared_bytes_per_multiprocessor;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
        return profile->shared_bytes_opt_in;
    case CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK:
        return profile->shared_bytes_reserved;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE:
        return profile->l2_bytes;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE:
        return profile->clock_khz;
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE:
        return profile->memory_clock_khz;
    case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH:
        return profile->memory_bus_bits;
    case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT:
        return profile->copy_engines;
    default:
        return attributes[attribute];
    }
}

static CUresult
enter(CUdevice device, const void *out)
{
    TRY(device_enter(device));
    return out != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult
cuDeviceGetCount(int *count)
{
    CUresult result = driver_enter();
    return ANSWER(result, count, driver.device_count);
}

CUresult
cuDeviceGet(CUdevice *device, int ordinal)
{
    CUresult result = device_enter(ordinal);
    return ANSWER(result, device, ordinal);
}

CUresult
cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    TRY(enter(device, value));
    REQUIRE((unsigned)attribute >= 1 && (unsigned)attribute < CU_DEVICE_ATTRIBUTE_MAX);
    *value = attribute_of(attribute, device);
    return CUDA_SUCCESS;
}

CUresult
cuDeviceGetName(char *name, int room, CUdevice device)
{
    TRY(enter(device, name));
    REQUIRE(room > 0);
    snprintf(name, (size_t)room, "softgpu (CPU stand-in for %s)", driver.profile->title);
    return CUDA_SUCCESS;
}

CUresult
cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
    CUresult result = device_enter(device);
    return ANSWER(result, bytes, driver.memory_bytes);
}

CUresult
cuDeviceComputeCapability(int *major, int *minor, CUdevice device)
{
    TRY(enter(device, major));
    REQUIRE(minor != NULL);
    *major = driver.profile->major;
    *minor = driver.profile->minor;
    return CUDA_SUCCESS;
}

/* The physical number is the last byte: CUDA_VISIBLE_DEVICES=GPU-...-<number> (state.c) relies on it. */
CUresult
cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device)
{
    TRY(enter(device, uuid));
    memcpy(uuid->bytes, "softgpu\0\0\0\0\0\0\0\0\0", sizeof uuid->bytes);
    uuid->bytes[sizeof uuid->bytes - 1] = (char)driver.device_index[device];
    return CUDA_SUCCESS;
}

CUresult
cuDeviceGetUuid(CUuuid *uuid, CUdevice device)
{
    return cuDeviceGetUuid_v2(uuid, device);
}

CUresult
cuDeviceGetPCIBusId(char *id, int room, CUdevice device)
{
    TRY(enter(device, id));
    REQUIRE(room > 0);
    snprintf(id, (size_t)room, "0000:%02X:00.0", (unsigned)driver.device_index[device] + 1);
    return CUDA_SUCCESS;
}

CUresult
cuDeviceGetByPCIBusId(CUdevice *device, const char *id)
{
    TRY(driver_enter());
    REQUIRE(device != NULL && id != NULL);
    for (CUdevice candidate = 0; candidate < driver.device_count; ++candidate) {
        char name[16];
        snprintf(name, sizeof name, "0000:%02X:00.0", (unsigned)driver.device_index[candidate] + 1);
        /* With and without the domain and the function, as CUDA accepts it. */
        if (strcasecmp(id, name) == 0 || strcasecmp(id, name + 5) == 0) {
            *device = candidate;
            return CUDA_SUCCESS;
        }
    }
    return CUDA_ERROR_INVALID_DEVICE;
}

CUresult
cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer)
{
    TRY(enter(device, can));
    REQUIRE_ELSE(device_valid(peer), CUDA_ERROR_INVALID_DEVICE);
    *can = device != peer;
    return CUDA_SUCCESS;
}

CUresult
cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attribute, CUdevice device, CUdevice peer)
{
    TRY(enter(device, value));
    REQUIRE_ELSE(device_valid(peer) && device != peer, CUDA_ERROR_INVALID_DEVICE);
    *value = attribute == CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED ||
             attribute == CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED;
    return CUDA_SUCCESS;
}

/* All memory is in one address space: access between devices is always there. */
CUresult
cuCtxEnablePeerAccess(CUcontext handle, unsigned int flags)
{
    struct context *context, *peer;
    TRY(context_enter(&context));
    TRY(context_from_handle(handle, &peer));
    REQUIRE(flags == 0 && peer != context);
    return CUDA_SUCCESS;
}

CUresult
cuCtxDisablePeerAccess(CUcontext handle)
{
    return cuCtxEnablePeerAccess(handle, 0);
}

/* Profilers have nothing to attach to; a program that switches them on or off continues. */
CUresult
cuProfilerStart(void)
{
    return driver_enter();
}

CUresult
cuProfilerStop(void)
{
    return driver_enter();
}
