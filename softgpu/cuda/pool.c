/*
 * pool.c - memory pools of cuMemAllocAsync. They are names: memory comes from and goes back to the system at once, so
 * that use after free is a fault; attributes read back as they were set.
 */
#include "driver.h"

#include <string.h>

enum { ATTRIBUTE_COUNT = CU_MEMPOOL_ATTR_USED_MEM_HIGH + 1 };

struct pool {
    _Atomic uint32_t magic;
    CUdevice device;
    bool is_default;
    _Atomic uint64_t used_bytes, high_bytes; /* allocated now; most at a time since high_bytes was reset */
    _Atomic uint64_t attributes[ATTRIBUTE_COUNT];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the two tables */
static struct pool *defaults[DEVICE_LIMIT];
static struct pool *current[DEVICE_LIMIT]; /* NULL: the default one */

static struct pool *
pool_new(CUdevice device, bool is_default)
{
    struct pool *pool = object_take(OBJECT_POOL, sizeof *pool);
    if (pool != NULL) {
        pool->device = device;
        pool->is_default = is_default;
        for (int i = CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES;
             i <= CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES; ++i) {
            atomic_store(&pool->attributes[i], 1);
        }
        atomic_store(&pool->magic, MAGIC_POOL);
    }
    return pool;
}

/* With lock held. */
static struct pool *
default_of(CUdevice device)
{
    if (defaults[device] == NULL) {
        defaults[device] = pool_new(device, true);
    }
    return defaults[device];
}

struct pool *
pool_default(CUdevice device)
{
    pthread_mutex_lock(&lock);
    struct pool *pool = current[device] != NULL ? current[device] : default_of(device);
    pthread_mutex_unlock(&lock);
    return pool;
}

void
pool_note(struct pool *pool, size_t bytes, bool allocated)
{
    if (!allocated) {
        uint64_t left = atomic_fetch_sub(&pool->used_bytes, bytes) - bytes;
        if (left == 0 && atomic_load(&pool->magic) == 0) {
            object_give(OBJECT_POOL, pool); /* destroyed before its allocations */
        }
        return;
    }
    uint64_t used = atomic_fetch_add(&pool->used_bytes, bytes) + bytes, high = atomic_load(&pool->high_bytes);
    while (used > high && !atomic_compare_exchange_weak(&pool->high_bytes, &high, used)) {
    }
}

CUresult
pool_from_handle(CUmemoryPool handle, struct pool **pool_p)
{
    struct pool *pool = (struct pool *)handle;
    REQUIRE(pool != NULL && atomic_load(&pool->magic) == MAGIC_POOL);
    *pool_p = pool;
    return CUDA_SUCCESS;
}

CUresult
cuDeviceGetDefaultMemPool(CUmemoryPool *pool_out, CUdevice device)
{
    TRY(device_enter(device));
    REQUIRE(pool_out != NULL);
    pthread_mutex_lock(&lock);
    struct pool *pool = default_of(device);
    pthread_mutex_unlock(&lock);
    REQUIRE_ELSE(pool != NULL, CUDA_ERROR_OUT_OF_MEMORY);
    *pool_out = (CUmemoryPool)pool;
    return CUDA_SUCCESS;
}

CUresult
cuDeviceGetMemPool(CUmemoryPool *pool_out, CUdevice device)
{
    TRY(device_enter(device));
    REQUIRE(pool_out != NULL);
    struct pool *pool = pool_default(device);
    REQUIRE_ELSE(pool != NULL, CUDA_ERROR_OUT_OF_MEMORY);
    *pool_out = (CUmemoryPool)pool;
    return CUDA_SUCCESS;
}

CUresult
cuDeviceSetMemPool(CUdevice device, CUmemoryPool handle)
{
    struct pool *pool;
    TRY(device_enter(device));
    TRY(pool_from_handle(handle, &pool));
    REQUIRE(pool->device == device);
    pthread_mutex_lock(&lock);
    current[device] = pool;
    pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}

CUresult
cuMemPoolCreate(CUmemoryPool *pool_out, const CUmemPoolProps *properties)
{
    TRY(driver_enter());
    REQUIRE(pool_out != NULL && properties != NULL);
    if (properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
        properties->handleTypes != CU_MEM_HANDLE_TYPE_NONE) {
        say("cuMemPoolCreate: only pools of device memory that stay in the process are supported");
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    REQUIRE_ELSE(device_valid(properties->location.id), CUDA_ERROR_INVALID_DEVICE);
    struct pool *pool = pool_new(properties->location.id, false);
    REQUIRE_ELSE(pool != NULL, CUDA_ERROR_OUT_OF_MEMORY);
    *pool_out = (CUmemoryPool)pool;
    return CUDA_SUCCESS;
}

CUresult
cuMemPoolDestroy(CUmemoryPool handle)
{
    struct pool *pool;
    TRY(driver_enter());
    TRY(pool_from_handle(handle, &pool));
    REQUIRE(!pool->is_default);
    pthread_mutex_lock(&lock);
    if (current[pool->device] == pool) {
        current[pool->device] = NULL;
    }
    pthread_mutex_unlock(&lock);
    /* It lives on, nameless, until its last allocation is freed. This one keeps that from happening in between. */
    pool_note(pool, 1, true);
    atomic_store(&pool->magic, 0);
    pool_note(pool, 1, false);
    return CUDA_SUCCESS;
}

static size_t
attribute_bytes(CUmemPool_attribute attribute)
{
    return attribute <= CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES ? sizeof(int) : sizeof(cuuint64_t);
}

static CUresult
enter_attribute(CUmemoryPool handle, CUmemPool_attribute attribute, const void *value, struct pool **pool_p)
{
    TRY(driver_enter());
    TRY(pool_from_handle(handle, pool_p));
    REQUIRE(attribute >= CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES && (int)attribute < ATTRIBUTE_COUNT &&
            value != NULL);
    return CUDA_SUCCESS;
}

CUresult
cuMemPoolSetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute, void *value)
{
    struct pool *pool;
    TRY(enter_attribute(handle, attribute, value, &pool));
    uint64_t set = 0;
    memcpy(&set, value, attribute_bytes(attribute));
    switch (attribute) {
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
        return CUDA_ERROR_INVALID_VALUE; /* only to be read */
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        REQUIRE(set == 0); /* can be reset, not set */
        atomic_store(&pool->high_bytes, atomic_load(&pool->used_bytes));
        return CUDA_SUCCESS;
    default:
        atomic_store(&pool->attributes[attribute], set);
        return CUDA_SUCCESS;
    }
}

CUresult
cuMemPoolGetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute, void *value)
{
    struct pool *pool;
    TRY(enter_attribute(handle, attribute, value, &pool));
    uint64_t set = atomic_load(&pool->attributes[attribute]);
    switch (attribute) {
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
        set = atomic_load(&pool->used_bytes); /* nothing is kept that is not in use */
        break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        set = atomic_load(&pool->high_bytes);
        break;
    default:
        break;
    }
    memcpy(value, &set, attribute_bytes(attribute));
    return CUDA_SUCCESS;
}

CUresult
cuMemPoolTrimTo(CUmemoryPool handle, size_t bytes)
{
    (void)bytes; /* nothing is kept beyond what is in use */
    struct pool *pool;
    TRY(driver_enter());
    return pool_from_handle(handle, &pool);
}

CUresult
cuMemPoolSetAccess(CUmemoryPool handle, const CUmemAccessDesc *accesses, size_t count)
{
    struct pool *pool;
    TRY(driver_enter());
    TRY(pool_from_handle(handle, &pool));
    REQUIRE(accesses != NULL || count == 0);
    return CUDA_SUCCESS;
}

/* All devices share the process's memory. */
CUresult
cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool handle, CUmemLocation *location)
{
    struct pool *pool;
    TRY(driver_enter());
    TRY(pool_from_handle(handle, &pool));
    REQUIRE(flags != NULL && location != NULL);
    *flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    return CUDA_SUCCESS;
}
