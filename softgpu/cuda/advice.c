/*
 * advice.c - advice about managed memory and prefetches of it. All memory is the host's here, so they are checked and
 * remembered, for cuMemRangeGetAttribute(s) to tell.
 */
#include "driver.h"

#include <stdlib.h>

enum { READ_MOSTLY, PREFERRED, PREFETCHED, ACCESSED_BY = 10 /* + the device, CU_DEVICE_CPU too */ };

/* Of [begin, end); the type is 0 for advice that was taken back. */
struct advice {
    struct advice *next; /* an older one */
    uintptr_t begin, end;
    uint64_t buffer; /* buffer_id of the allocation: its address may come again */
    int kind;
    CUmemLocation place;
};

static struct advice *advices; /* guarded by lock */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- what is remembered ---- */

static bool
same_place(CUmemLocation a, CUmemLocation b)
{
    return a.type == b.type && (a.type != CU_MEM_LOCATION_TYPE_DEVICE || a.id == b.id);
}

/* Takes the place of what lies within it. Without memory for it, it is forgotten: it was advice. */
static void
remember(const struct allocation *of, CUdeviceptr address, size_t bytes, int kind, CUmemLocation place)
{
    struct advice *made = malloc(sizeof *made);
    if (made == NULL) {
        return;
    }
    *made = (struct advice){
        .begin = address, .end = address + bytes, .buffer = of->buffer_id, .kind = kind, .place = place};
    pthread_mutex_lock(&lock);
    for (struct advice **link = &advices; *link != NULL;) {
        struct advice *old = *link;
        if (old->kind == kind && old->begin >= made->begin && old->end <= made->end) {
            *link = old->next;
            free(old);
        } else {
            link = &old->next;
        }
    }
    made->next = advices;
    advices = made;
    pthread_mutex_unlock(&lock);
}

/* Whether all of [begin, end) has the same place, by `from` and older advice: *place_p, unless that is -1 yet. With
 * the lock held. */
static bool
is_alike(const struct advice *from, uintptr_t begin, uintptr_t end, uint64_t buffer, int kind, CUmemLocation *place_p)
{
    if (begin >= end) {
        return true;
    }
    while (from != NULL && (from->kind != kind || from->buffer != buffer || from->end <= begin || from->begin >= end)) {
        from = from->next;
    }
    const CUmemLocation place = from != NULL ? from->place : (CUmemLocation){0};
    if ((int)place_p->type == -1) {
        *place_p = place;
    }
    return same_place(place, *place_p) &&
           (from == NULL || (is_alike(from->next, begin, from->begin, buffer, kind, place_p) &&
                             is_alike(from->next, from->end, end, buffer, kind, place_p)));
}

static CUmemLocation
recall(const struct allocation *of, CUdeviceptr address, size_t bytes, int kind)
{
    CUmemLocation place = {.type = (CUmemLocationType)-1};
    pthread_mutex_lock(&lock);
    const bool alike = is_alike(advices, address, address + bytes, of->buffer_id, kind, &place);
    pthread_mutex_unlock(&lock);
    return alike ? place : (CUmemLocation){0};
}

/* ---- giving advice ---- */

static CUresult
find_managed(CUdeviceptr address, size_t bytes, struct allocation *found)
{
    struct context *context;
    TRY(context_enter(&context));
    REQUIRE(bytes != 0 && pointer_find(address, found) && found->kind == MEMORY_MANAGED &&
            bytes <= found->bytes - (address - found->base));
    return CUDA_SUCCESS;
}

/* A device, or the host. */
static bool
place_valid(CUmemLocation place)
{
    switch (place.type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
        return device_valid(place.id);
    case CU_MEM_LOCATION_TYPE_HOST:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
        return true;
    default:
        return false;
    }
}

static CUmemLocation
place_of_device(CUdevice device)
{
    return (CUmemLocation){.type = device == CU_DEVICE_CPU ? CU_MEM_LOCATION_TYPE_HOST : CU_MEM_LOCATION_TYPE_DEVICE,
                           .id = device};
}

CUresult
cuMemAdvise_v2(CUdeviceptr address, size_t bytes, CUmem_advise advice, CUmemLocation place)
{
    /* Advice about all processors alike looks at no place. */
    static const struct {
        int kind;
        bool everywhere, set;
    } meanings[] = {
        [CU_MEM_ADVISE_SET_READ_MOSTLY] = {READ_MOSTLY, true, true},
        [CU_MEM_ADVISE_UNSET_READ_MOSTLY] = {READ_MOSTLY, true, false},
        [CU_MEM_ADVISE_SET_PREFERRED_LOCATION] = {PREFERRED, false, true},
        [CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION] = {PREFERRED, true, false},
        [CU_MEM_ADVISE_SET_ACCESSED_BY] = {ACCESSED_BY, false, true},
        [CU_MEM_ADVISE_UNSET_ACCESSED_BY] = {ACCESSED_BY, false, false},
    };
    struct allocation found;
    TRY(find_managed(address, bytes, &found));
    REQUIRE(advice >= CU_MEM_ADVISE_SET_READ_MOSTLY && advice <= CU_MEM_ADVISE_UNSET_ACCESSED_BY);
    REQUIRE_ELSE(meanings[advice].everywhere || place_valid(place), CUDA_ERROR_INVALID_DEVICE);
    int kind = meanings[advice].kind;
    if (kind == READ_MOSTLY) {
        place = place_of_device(CU_DEVICE_CPU);
    } else if (kind == ACCESSED_BY) {
        kind += place.type == CU_MEM_LOCATION_TYPE_DEVICE ? place.id : CU_DEVICE_CPU;
    }
    remember(&found, address, bytes, kind, meanings[advice].set ? place : (CUmemLocation){0});
    return CUDA_SUCCESS;
}

CUresult
cuMemAdvise(CUdeviceptr address, size_t bytes, CUmem_advise advice, CUdevice device)
{
    return cuMemAdvise_v2(address, bytes, advice, place_of_device(device));
}

static CUresult
prefetch(CUdeviceptr address, size_t bytes, CUmemLocation place, unsigned flags, CUstream handle, enum flavour flavour)
{
    struct stream *stream;
    struct allocation found;
    TRY(stream_enter(handle, flavour, &stream));
    TRY(find_managed(address, bytes, &found));
    REQUIRE(flags == 0);
    REQUIRE_ELSE(place_valid(place), CUDA_ERROR_INVALID_DEVICE);
    remember(&found, address, bytes, PREFETCHED, place);
    return CUDA_SUCCESS;
}
BOTH_FLAVOURS(cuMemPrefetchAsync, _ptsz, (CUdeviceptr address, size_t bytes, CUdevice device, CUstream stream),
              prefetch(address, bytes, place_of_device(device), 0, stream, flavour))
BOTH_FLAVOURS(cuMemPrefetchAsync_v2, _ptsz,
              (CUdeviceptr address, size_t bytes, CUmemLocation location, unsigned int flags, CUstream stream),
              prefetch(address, bytes, location, flags, stream, flavour))

static CUresult
attach(CUdeviceptr address, CUstream handle, enum flavour flavour)
{
    struct stream *stream;
    struct allocation found;
    CUresult result = stream_enter(handle, flavour, &stream);
    return result == CUDA_SUCCESS ? find_managed(address, 1, &found) : result;
}
BOTH_FLAVOURS(cuStreamAttachMemAsync, _ptsz, (CUstream stream, CUdeviceptr address, size_t bytes, unsigned int flags),
              ((void)bytes, (void)flags, attach(address, stream, flavour)))

/* ---- asking ---- */

static int
device_of(CUmemLocation place)
{
    return place.type == CU_MEM_LOCATION_TYPE_DEVICE ? place.id : place.type == 0 ? CU_DEVICE_INVALID : CU_DEVICE_CPU;
}

/* The devices, and perhaps the CPU, that all of the range is advised to be accessed by. */
static void
list_accessing(int *list, size_t room, const struct allocation *found, CUdeviceptr address, size_t bytes)
{
    size_t used = 0;
    for (int device = CU_DEVICE_CPU; device < driver.device_count && used < room; ++device) {
        if (recall(found, address, bytes, ACCESSED_BY + device).type != 0) {
            list[used++] = device;
        }
    }
    while (used < room) {
        list[used++] = CU_DEVICE_INVALID;
    }
}

CUresult
cuMemRangeGetAttribute(void *data, size_t data_bytes, CUmem_range_attribute attribute, CUdeviceptr address,
                       size_t bytes)
{
    struct allocation found;
    TRY(find_managed(address, bytes, &found));
    const bool is_list = attribute == CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY;
    if (data == NULL || (is_list ? data_bytes == 0 || data_bytes % sizeof(int) != 0 : data_bytes != sizeof(int))) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    int *out = data;
    const CUmemLocation preferred = recall(&found, address, bytes, PREFERRED),
                        prefetched = recall(&found, address, bytes, PREFETCHED);
    switch (attribute) {
    case CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY:
        *out = recall(&found, address, bytes, READ_MOSTLY).type != 0;
        return CUDA_SUCCESS;
    case CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY:
        list_accessing(out, data_bytes / sizeof(int), &found, address, bytes);
        return CUDA_SUCCESS;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION:
        *out = device_of(preferred);
        return CUDA_SUCCESS;
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION:
        *out = device_of(prefetched);
        return CUDA_SUCCESS;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE:
        *out = (int)preferred.type;
        return CUDA_SUCCESS;
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE:
        *out = (int)prefetched.type;
        return CUDA_SUCCESS;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID:
        *out = preferred.id;
        return CUDA_SUCCESS;
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID:
        *out = prefetched.id;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult
cuMemRangeGetAttributes(void **data, size_t *data_bytes, CUmem_range_attribute *attributes, size_t count,
                        CUdeviceptr address, size_t bytes)
{
    REQUIRE(data != NULL && data_bytes != NULL && attributes != NULL && count != 0);
    CUresult result = CUDA_SUCCESS;
    for (size_t i = 0; i < count && result == CUDA_SUCCESS; ++i) {
        result = cuMemRangeGetAttribute(data[i], data_bytes[i], attributes[i], address, bytes);
    }
    return result;
}
