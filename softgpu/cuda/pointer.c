/*
 * pointer.c - what the driver knows of an address: cuPointerGetAttribute(s).
 */
#include "driver.h"

#include "softgpu/stub.h"

#include <string.h>

#pragma weak softgpu_variable_find

bool
pointer_find(CUdeviceptr address, struct allocation *found)
{
    struct softgpu_variable variable;
    const bool known = memory_find(address, found);
    if ((known && found->kind != MEMORY_GLOBAL) || &softgpu_variable_find == NULL ||
        !softgpu_variable_find((const void *)address, &variable) || !variable.is_managed) {
        return known;
    }
    struct context *context = context_current();
    *found = (struct allocation){.base = (uintptr_t)variable.address,
                                 .bytes = variable.bytes,
                                 .kind = MEMORY_MANAGED,
                                 .context = context,
                                 .device = context != NULL ? context->device : 0};
    return true;
}

/* Writes one attribute of an address inside `found`. */
static CUresult
get_known(const struct allocation *found, CUdeviceptr address, CUpointer_attribute attribute, void *data)
{
    bool host = found->kind == MEMORY_HOST || found->kind == MEMORY_REGISTERED;
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        *(CUcontext *)data = (CUcontext)found->context;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *(unsigned int *)data = host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        *(CUdeviceptr *)data = address;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        REQUIRE(host || found->kind == MEMORY_MANAGED);
        *(void **)data = (void *)address;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
        *(unsigned int *)data = 0;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
        *(unsigned long long *)data = found->buffer_id;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        *(unsigned int *)data = found->kind == MEMORY_MANAGED;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *(int *)data = found->device;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
        *(void **)data = (void *)found->base;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        *(size_t *)data = found->bytes;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
        *(size_t *)data = found->mapping.pages_bytes > 0 ? found->mapping.pages_bytes : found->bytes;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPED:
        *(unsigned char *)data = 1; /* a bool, as the header says */
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
        *(unsigned long long *)data = 0;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        *(CUmemAccess_flags *)data = found->kind == MEMORY_MAPPED ? found->access : CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        *(CUmemoryPool *)data = (CUmemoryPool)found->pool;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_P2P_TOKENS:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    return CUDA_ERROR_INVALID_VALUE;
}

/* The value that means "nothing" for an attribute. */
static CUresult
get_nothing(CUpointer_attribute attribute, void *data)
{
    static const unsigned char bytes_of[] = {
        [CU_POINTER_ATTRIBUTE_CONTEXT] = sizeof(CUcontext),
        [CU_POINTER_ATTRIBUTE_MEMORY_TYPE] = sizeof(unsigned int),
        [CU_POINTER_ATTRIBUTE_DEVICE_POINTER] = sizeof(CUdeviceptr),
        [CU_POINTER_ATTRIBUTE_HOST_POINTER] = sizeof(void *),
        [CU_POINTER_ATTRIBUTE_P2P_TOKENS] = sizeof(CUDA_POINTER_ATTRIBUTE_P2P_TOKENS),
        [CU_POINTER_ATTRIBUTE_SYNC_MEMOPS] = sizeof(unsigned int),
        [CU_POINTER_ATTRIBUTE_BUFFER_ID] = sizeof(unsigned long long),
        [CU_POINTER_ATTRIBUTE_IS_MANAGED] = sizeof(unsigned int),
        [CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL] = sizeof(int),
        [CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE] = sizeof(unsigned int),
        [CU_POINTER_ATTRIBUTE_RANGE_START_ADDR] = sizeof(void *),
        [CU_POINTER_ATTRIBUTE_RANGE_SIZE] = sizeof(size_t),
        [CU_POINTER_ATTRIBUTE_MAPPED] = sizeof(unsigned char),
        [CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES] = sizeof(unsigned long long),
        [CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE] = sizeof(unsigned int),
        [CU_POINTER_ATTRIBUTE_ACCESS_FLAGS] = sizeof(CUmemAccess_flags),
        [CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE] = sizeof(CUmemoryPool),
        [CU_POINTER_ATTRIBUTE_MAPPING_SIZE] = sizeof(size_t),
        [CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR] = sizeof(void *),
        [CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID] = sizeof(unsigned long long),
        [CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE] = sizeof(unsigned int),
    };
    REQUIRE((unsigned)attribute < sizeof bytes_of && bytes_of[attribute] != 0);
    memset(data, 0, bytes_of[attribute]);
    if (attribute == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL) {
        *(int *)data = CU_DEVICE_INVALID;
    }
    return CUDA_SUCCESS;
}

CUresult
cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr address)
{
    TRY(driver_enter());
    struct allocation found;
    REQUIRE(data != NULL && pointer_find(address, &found));
    return get_known(&found, address, attribute, data);
}

CUresult
cuPointerGetAttributes(unsigned int count, CUpointer_attribute *attributes, void **data, CUdeviceptr address)
{
    CUresult result = CUDA_SUCCESS;
    TRY(driver_enter());
    REQUIRE(count != 0 && attributes != NULL && data != NULL);
    struct allocation found;
    bool known = pointer_find(address, &found);
    for (unsigned i = 0; result == CUDA_SUCCESS && i < count; ++i) {
        if (!known || get_known(&found, address, attributes[i], data[i]) != CUDA_SUCCESS) {
            result = get_nothing(attributes[i], data[i]);
        }
    }
    return result;
}

CUresult
cuPointerSetAttribute(const void *value, CUpointer_attribute attribute, CUdeviceptr address)
{
    TRY(driver_enter());
    struct allocation found;
    REQUIRE(value != NULL && attribute == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS && pointer_find(address, &found));
    return CUDA_SUCCESS;
}
