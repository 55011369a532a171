/*
 * virtual.c - virtual memory maps: address ranges, memory without an address ("chunks"), and mapping one into the
 * other.
 *
 * A chunk is an anonymous file, so that it can be mapped in several places, and lives until it was released and is
 * mapped nowhere. Maps are entries of memory.c's table, which holds a reference to the chunk for each.
 */
#include "driver.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { GRANULARITY = 2 << 20 };

struct chunk {
    _Atomic uint32_t magic;
    _Atomic unsigned handles; /* references that the program holds */
    _Atomic unsigned refs;    /* those, and maps */
    int file;
    size_t bytes;
    CUmemAllocationProp properties;
};

/* A range of addresses. */
struct range {
    struct range *next;
    uintptr_t base, region;
    size_t bytes, region_bytes;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the list, and orders the calls of this file */
static struct range *ranges;

static struct range **
find_range(uintptr_t address, size_t bytes)
{
    struct range **link = &ranges;
    while (*link != NULL &&
           (address - (*link)->base >= (*link)->bytes || bytes > (*link)->bytes - (address - (*link)->base))) {
        link = &(*link)->next;
    }
    return link;
}

static bool
fits(size_t bytes)
{
    return bytes > 0 && bytes % GRANULARITY == 0;
}

/* ---- what can be had ---- */

static CUresult
check_properties(const char *call, const CUmemAllocationProp *properties)
{
    TRY(driver_enter());
    REQUIRE(properties != NULL && properties->type == CU_MEM_ALLOCATION_TYPE_PINNED);
    if (properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE || properties->requestedHandleTypes != 0) {
        say("%s: only device memory that stays in the process is supported", call);
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    return device_valid(properties->location.id) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult
cuMemGetAllocationGranularity(size_t *bytes, const CUmemAllocationProp *properties,
                              CUmemAllocationGranularity_flags option)
{
    TRY(check_properties("cuMemGetAllocationGranularity", properties));
    REQUIRE(bytes != NULL && (unsigned)option <= CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
    *bytes = GRANULARITY;
    return CUDA_SUCCESS;
}

/* ---- ranges ---- */

CUresult
cuMemAddressReserve(CUdeviceptr *pointer, size_t bytes, size_t alignment, CUdeviceptr hint, unsigned long long flags)
{
    (void)hint; /* CUDA promises nothing about it */
    TRY(driver_enter());
    alignment = alignment > GRANULARITY ? alignment : GRANULARITY;
    REQUIRE(pointer != NULL && fits(bytes) && flags == 0 && (alignment & (alignment - 1)) == 0 &&
            bytes <= SIZE_MAX / 4 && alignment <= SIZE_MAX / 4);
    struct range *range = malloc(sizeof *range);
    /* Closed addresses lie before and after the range as they do around allocations. */
    size_t region_bytes = bytes + 2 * alignment;
    void *region = address_reserve(ADDRESS_POOL, region_bytes);
    if (range == NULL || region == MAP_FAILED) {
        free(range);
        if (region != MAP_FAILED) {
            munmap(region, region_bytes);
        }
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *range = (struct range){.base = ((uintptr_t)region + alignment) & ~(uintptr_t)(alignment - 1),
                            .region = (uintptr_t)region,
                            .bytes = bytes,
                            .region_bytes = region_bytes};
    pthread_mutex_lock(&lock);
    range->next = ranges;
    ranges = range;
    pthread_mutex_unlock(&lock);
    *pointer = range->base;
    return CUDA_SUCCESS;
}

/* Maps in [address, address + bytes), which must be whole ones: their number, 0 if one sticks out. With the lock held.
 */
static size_t
count_maps(uintptr_t address, size_t bytes, bool may_have_gaps)
{
    size_t count = 0;
    for (uintptr_t at = address; at < address + bytes; at += GRANULARITY) {
        struct allocation map;
        if (!memory_find(at, &map)) {
            if (!may_have_gaps) {
                return 0;
            }
            continue;
        }
        if (map.base < address || map.base + map.bytes > address + bytes) {
            return 0;
        }
        count += map.base == at;
    }
    return count;
}

CUresult
cuMemAddressFree(CUdeviceptr pointer, size_t bytes)
{
    TRY(driver_enter());
    pthread_mutex_lock(&lock);
    struct range **link = find_range(pointer, bytes), *range = *link;
    if (range == NULL || range->base != pointer || range->bytes != bytes || count_maps(pointer, bytes, true) > 0) {
        pthread_mutex_unlock(&lock);
        return CUDA_ERROR_INVALID_VALUE;
    }
    *link = range->next;
    pthread_mutex_unlock(&lock);
    munmap((void *)range->region, range->region_bytes);
    free(range);
    return CUDA_SUCCESS;
}

/* ---- chunks ---- */

static CUresult
find_chunk(CUmemGenericAllocationHandle handle, struct chunk **chunk_p)
{
    TRY(driver_enter());
    struct chunk *chunk = (struct chunk *)(uintptr_t)handle;
    REQUIRE(chunk != NULL && atomic_load(&chunk->magic) == MAGIC_CHUNK && atomic_load(&chunk->handles) != 0);
    *chunk_p = chunk;
    return CUDA_SUCCESS;
}

static void
drop_chunk(struct chunk *chunk)
{
    if (atomic_fetch_sub(&chunk->refs, 1) == 1) {
        memory_unreserve(chunk->properties.location.id, chunk->bytes);
        close(chunk->file);
        atomic_store(&chunk->magic, 0);
        object_give(OBJECT_CHUNK, chunk);
    }
}

CUresult
cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes, const CUmemAllocationProp *properties,
            unsigned long long flags)
{
    TRY(check_properties("cuMemCreate", properties));
    REQUIRE(handle != NULL && fits(bytes) && flags == 0);
    CUdevice device = properties->location.id;
    REQUIRE_ELSE(memory_reserve(device, bytes), CUDA_ERROR_OUT_OF_MEMORY);
    struct chunk *chunk = object_take(OBJECT_CHUNK, sizeof *chunk);
    int file = memfd_create("softgpu", MFD_CLOEXEC);
    if (chunk == NULL || file < 0 || ftruncate(file, (off_t)bytes) != 0) {
        if (chunk != NULL) {
            object_give(OBJECT_CHUNK, chunk);
        }
        if (file >= 0) {
            close(file);
        }
        memory_unreserve(device, bytes);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    chunk->file = file;
    chunk->bytes = bytes;
    chunk->properties = *properties;
    atomic_store(&chunk->handles, 1);
    atomic_store(&chunk->refs, 1);
    atomic_store(&chunk->magic, MAGIC_CHUNK);
    *handle = (CUmemGenericAllocationHandle)(uintptr_t)chunk;
    return CUDA_SUCCESS;
}

CUresult
cuMemRelease(CUmemGenericAllocationHandle handle)
{
    struct chunk *chunk;
    TRY(find_chunk(handle, &chunk));
    atomic_fetch_sub(&chunk->handles, 1);
    drop_chunk(chunk);
    return CUDA_SUCCESS;
}

CUresult
cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *properties, CUmemGenericAllocationHandle handle)
{
    struct chunk *chunk;
    CUresult result = find_chunk(handle, &chunk);
    return ANSWER(result, properties, chunk->properties);
}

CUresult
cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *address)
{
    CUresult result = driver_enter();
    if (result != CUDA_SUCCESS) {
        return result;
    }
    struct allocation map;
    pthread_mutex_lock(&lock);
    if (handle == NULL || !memory_find((uintptr_t)address, &map) || map.kind != MEMORY_MAPPED) {
        result = CUDA_ERROR_INVALID_VALUE;
    } else {
        atomic_fetch_add(&map.chunk->refs, 1);
        atomic_fetch_add(&map.chunk->handles, 1);
        *handle = (CUmemGenericAllocationHandle)(uintptr_t)map.chunk;
    }
    pthread_mutex_unlock(&lock);
    return result;
}

/* ---- maps ---- */

/* With the lock held. */
static CUresult
make_map(struct context *context, uintptr_t address, size_t bytes, size_t offset, struct chunk *chunk)
{
    struct allocation record = {
        .base = address,
        .bytes = bytes,
        .mapping = {address, address, bytes, address, bytes},
        .kind = MEMORY_MAPPED,
        .context = context,
        .device = chunk->properties.location.id,
        .chunk = chunk,
        .access = CU_MEM_ACCESS_FLAGS_PROT_NONE, /* until cuMemSetAccess */
    };
    REQUIRE(*find_range(address, bytes) != NULL);
    for (uintptr_t at = address; at < address + bytes; at += GRANULARITY) {
        struct allocation other;
        REQUIRE(!memory_find(at, &other));
    }
    REQUIRE_ELSE(mmap((void *)address, bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, chunk->file, (off_t)offset) !=
                     MAP_FAILED,
                 CUDA_ERROR_OUT_OF_MEMORY);
    atomic_fetch_add(&chunk->refs, 1);
    CUresult result = memory_map(&record);
    if (result != CUDA_SUCCESS) {
        drop_chunk(chunk);
    }
    return result;
}

CUresult
cuMemMap(CUdeviceptr pointer, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
         unsigned long long flags)
{
    struct context *context;
    struct chunk *chunk;
    TRY(context_enter(&context));
    TRY(find_chunk(handle, &chunk));
    REQUIRE(fits(bytes) && pointer % GRANULARITY == 0 && offset % GRANULARITY == 0 && offset <= chunk->bytes &&
            bytes <= chunk->bytes - offset && flags == 0);
    pthread_mutex_lock(&lock);
    CUresult result = make_map(context, pointer, bytes, offset, chunk);
    pthread_mutex_unlock(&lock);
    return result;
}

CUresult
cuMemUnmap(CUdeviceptr pointer, size_t bytes)
{
    struct context *context;
    TRY(context_enter(&context));
    REQUIRE(fits(bytes) && pointer % GRANULARITY == 0);
    /* Work that is under way may use the maps: that of this context, and of those in which they were made. */
    CUresult result = context_drain(context);
    struct allocation map;
    for (uintptr_t at = pointer; at < pointer + bytes && memory_find(at, &map) && map.kind == MEMORY_MAPPED;
         at = map.base + map.bytes) {
        if (map.context != context) {
            CUresult drained = context_drain(map.context);
            result = result == CUDA_SUCCESS ? drained : result;
        }
    }
    pthread_mutex_lock(&lock);
    if (count_maps(pointer, bytes, false) == 0) {
        pthread_mutex_unlock(&lock);
        return CUDA_ERROR_INVALID_VALUE;
    }
    for (uintptr_t at = pointer; at < pointer + bytes; at += map.bytes) {
        if (!memory_find(at, &map) || memory_unmap(at) != CUDA_SUCCESS) {
            break; /* cannot be: they have just been counted */
        }
        (void)mmap((void *)at, map.bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
        drop_chunk(map.chunk);
    }
    pthread_mutex_unlock(&lock);
    return result;
}

CUresult
cuMemSetAccess(CUdeviceptr pointer, size_t bytes, const CUmemAccessDesc *accesses, size_t count)
{
    TRY(driver_enter());
    REQUIRE(fits(bytes) && pointer % GRANULARITY == 0 && accesses != NULL && count != 0);
    for (size_t i = 0; i < count; ++i) {
        if (accesses[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE) {
            say("cuMemSetAccess: only access by devices is supported");
            return CUDA_ERROR_NOT_SUPPORTED;
        }
        REQUIRE_ELSE(device_valid(accesses[i].location.id), CUDA_ERROR_INVALID_DEVICE);
    }
    pthread_mutex_lock(&lock);
    CUresult result = count_maps(pointer, bytes, false) == 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    struct allocation map;
    /* All devices share the process's memory: what one may do all may do. */
    for (uintptr_t at = pointer; result == CUDA_SUCCESS && at < pointer + bytes && memory_find(at, &map);
         at += map.bytes) {
        memory_set_access(at, accesses[count - 1].flags);
    }
    pthread_mutex_unlock(&lock);
    return result;
}

CUresult
cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location, CUdeviceptr pointer)
{
    TRY(driver_enter());
    struct allocation map;
    REQUIRE(flags != NULL && location != NULL && memory_find(pointer, &map) && map.kind == MEMORY_MAPPED);
    *flags = map.access;
    return CUDA_SUCCESS;
}
