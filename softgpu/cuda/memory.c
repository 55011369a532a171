/*
 * memory.c - which address belongs to which allocation.
 *
 * Device memory is ordinary memory of the process (a device pointer is its address), mapped page by page, so that use
 * after free is a fault and not a wrong number. Everything that the driver knows stands in one sorted table: device,
 * managed, page-locked and registered memory, and the program's __device__ variables.
 *
 * Called by: allocation, copies, memset, pointer attributes. Must never: wait for a stream while its lock is held.
 */
#include "table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

pthread_rwlock_t table_lock = PTHREAD_RWLOCK_INITIALIZER;
struct allocation **table;
size_t table_count;
static size_t table_room;               /* this and all below: guarded by table_lock */
static size_t used_bytes[DEVICE_LIMIT]; /* device and managed memory */
static uint64_t last_buffer_id;
static bool open_to_all; /* with SOFTGPU_STRICT: an operation runs, so device memory is open */

size_t
table_place_after(uintptr_t address)
{
    size_t low = 0, high = table_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (table[middle]->base <= address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static struct allocation *
holder_of(uintptr_t address)
{
    size_t place = table_place_after(address);
    if (place == 0) {
        return NULL;
    }
    struct allocation *candidate = table[place - 1];
    return address - candidate->base < candidate->bytes ? candidate : NULL;
}

static bool
overlaps(uintptr_t base, size_t bytes)
{
    size_t place = table_place_after(base);
    return (place < table_count && table[place]->base - base < bytes) || holder_of(base) != NULL;
}

static void remove_at(size_t place);

/*
 * Memory that the system has just given the driver cannot belong to another owner: what still stands there was
 * registered by a program that gave it back without a call of CUDA (freed it, or closed the library whose variable it
 * was).
 */
static void
remove_stale(uintptr_t base, size_t bytes)
{
    for (size_t place = table_place_after(base + bytes - 1); place > 0; --place) {
        struct allocation *entry = table[place - 1];
        if (entry->mapping.pages_bytes > 0 || entry->base + entry->bytes <= base) {
            return;
        }
        remove_at(place - 1);
    }
}

static CUresult
insert(const struct allocation *record)
{
    if (table_count == table_room) {
        size_t room = table_room == 0 ? 256 : table_room * 2;
        struct allocation **grown = realloc(table, room * sizeof *table);
        REQUIRE_ELSE(grown != NULL, CUDA_ERROR_OUT_OF_MEMORY);
        table = grown;
        table_room = room;
    }
    struct allocation *entry = malloc(sizeof *entry);
    REQUIRE_ELSE(entry != NULL, CUDA_ERROR_OUT_OF_MEMORY);
    *entry = *record;
    entry->buffer_id = ++last_buffer_id;
    size_t place = table_place_after(entry->base);
    memmove(table + place + 1, table + place, (table_count - place) * sizeof *table);
    table[place] = entry;
    ++table_count;
    if (entry->pool != NULL) {
        pool_note(entry->pool, entry->bytes, true);
    }
    return CUDA_SUCCESS;
}

static bool
counted(enum memory_kind kind)
{
    return kind == MEMORY_DEVICE || kind == MEMORY_MANAGED;
}

static void
remove_at(size_t place)
{
    struct allocation *entry = table[place];
    if (counted(entry->kind)) {
        used_bytes[entry->context->device] -= entry->bytes;
    }
    if (entry->mapping.pages_bytes > 0 && entry->kind != MEMORY_MAPPED) {
        mapping_retire(entry);
    }
    if (entry->pool != NULL) {
        pool_note(entry->pool, entry->bytes, false);
    }
    free(entry);
    --table_count;
    memmove(table + place, table + place + 1, (table_count - place) * sizeof *table);
}

/* ---- making and ending ---- */

/* Opens it as far as it may be opened, or closes it. */
static void
protect(const struct allocation *entry, bool open)
{
    int access = PROT_READ | PROT_WRITE;
    if (entry->kind == MEMORY_MAPPED) {
        access = entry->access == CU_MEM_ACCESS_FLAGS_PROT_READWRITE ? PROT_READ | PROT_WRITE
                 : entry->access == CU_MEM_ACCESS_FLAGS_PROT_READ    ? PROT_READ
                                                                     : PROT_NONE;
    }
    if (pkey_mprotect((void *)entry->mapping.pages, entry->mapping.pages_bytes, open ? access : PROT_NONE,
                      driver.memory_key) != 0) {
        say("allocation %llu cannot be %s: %s", (unsigned long long)entry->buffer_id, open ? "opened" : "closed",
            strerror(errno));
    }
}

/* With the lock held. */
static bool
is_open(void)
{
    return !driver.strict || open_to_all;
}

void
memory_protect(bool open)
{
    pthread_rwlock_wrlock(&table_lock);
    open_to_all = open;
    for (size_t place = 0; place < table_count; ++place) {
        if (table[place]->kind == MEMORY_DEVICE || table[place]->kind == MEMORY_MAPPED) {
            protect(table[place], open);
        }
    }
    pthread_rwlock_unlock(&table_lock);
}

/* No program may rely on the content of fresh device memory; NaNs (all bits set) in any floating-point type show it. */
static void
poison(void *base, size_t bytes)
{
    if (driver.poison) {
        memset(base, 0xff, bytes);
    }
}

bool
memory_reserve(CUdevice device, size_t bytes)
{
    pthread_rwlock_wrlock(&table_lock);
    bool fits = bytes <= driver.memory_bytes - used_bytes[device];
    used_bytes[device] += fits ? bytes : 0;
    pthread_rwlock_unlock(&table_lock);
    return fits;
}

void
memory_unreserve(CUdevice device, size_t bytes)
{
    pthread_rwlock_wrlock(&table_lock);
    used_bytes[device] -= bytes;
    pthread_rwlock_unlock(&table_lock);
}

/* Enters fresh memory; device memory is closed to the host, and in strict mode left as all of it is just now. */
static CUresult
enter_fresh(struct allocation *record)
{
    bool closes = record->kind == MEMORY_DEVICE || record->kind == MEMORY_MAPPED;
    closes = closes && (driver.strict || driver.memory_key >= 0);
    pthread_rwlock_wrlock(&table_lock);
    remove_stale(record->mapping.pages, record->mapping.pages_bytes);
    CUresult result = insert(record);
    if (result == CUDA_SUCCESS && closes) {
        protect(record, is_open());
    }
    pthread_rwlock_unlock(&table_lock);
    return result;
}

CUresult
memory_allocate(struct context *context, size_t bytes, enum memory_kind kind, unsigned flags, struct pool *pool,
                uintptr_t *base_p)
{
    REQUIRE(bytes != 0);
    REQUIRE_ELSE(!counted(kind) || memory_reserve(context->device, bytes), CUDA_ERROR_OUT_OF_MEMORY);
    struct allocation record = {
        .bytes = bytes, .kind = kind, .context = context, .device = context->device, .flags = flags, .pool = pool};
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
    bool mapped = mapping_make(bytes, allocation_place(kind, pool), kind == MEMORY_DEVICE, &record.mapping);
    if (mapped) {
        record.base = record.mapping.base;
        poison((void *)record.base, bytes);
        result = enter_fresh(&record);
    }
    if (result == CUDA_SUCCESS) {
        *base_p = record.base;
        return CUDA_SUCCESS;
    }
    if (mapped) {
        munmap((void *)record.mapping.region, record.mapping.region_bytes);
    }
    if (counted(kind)) {
        memory_unreserve(context->device, bytes);
    }
    return result;
}

CUresult
memory_register(struct context *context, uintptr_t base, size_t bytes, enum memory_kind kind, unsigned flags)
{
    REQUIRE(base != 0 && bytes != 0 && bytes <= UINTPTR_MAX - base);
    struct allocation record = {
        .base = base, .bytes = bytes, .kind = kind, .context = context, .device = context->device, .flags = flags};
    pthread_rwlock_wrlock(&table_lock);
    CUresult result = overlaps(base, bytes) ? CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED : insert(&record);
    pthread_rwlock_unlock(&table_lock);
    return result;
}

bool
memory_kind_matches(enum memory_kind have, enum memory_kind want)
{
    return have == want || (want == MEMORY_DEVICE && have == MEMORY_MANAGED);
}

CUresult
memory_free(uintptr_t base, enum memory_kind kind)
{
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    pthread_rwlock_wrlock(&table_lock);
    size_t place = table_place_after(base);
    if (place > 0 && table[place - 1]->base == base && memory_kind_matches(table[place - 1]->kind, kind)) {
        remove_at(place - 1);
        result = CUDA_SUCCESS;
    }
    pthread_rwlock_unlock(&table_lock);
    return result;
}

CUresult
memory_mark_freeing(uintptr_t base)
{
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    pthread_rwlock_wrlock(&table_lock);
    struct allocation *entry = holder_of(base);
    if (entry != NULL && entry->base == base && memory_kind_matches(entry->kind, MEMORY_DEVICE) && !entry->freeing) {
        entry->freeing = true;
        result = CUDA_SUCCESS;
    }
    pthread_rwlock_unlock(&table_lock);
    return result;
}

void
memory_free_all(struct context *context)
{
    pthread_rwlock_wrlock(&table_lock);
    for (size_t place = table_count; place-- > 0;) {
        enum memory_kind kind = table[place]->kind;
        if (table[place]->context == context && kind != MEMORY_GLOBAL && kind != MEMORY_MAPPED) {
            remove_at(place);
        }
    }
    pthread_rwlock_unlock(&table_lock);
}

/* ---- maps ---- */

CUresult
memory_map(const struct allocation *record)
{
    struct allocation copy = *record;
    return enter_fresh(&copy);
}

CUresult
memory_unmap(uintptr_t base)
{
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    pthread_rwlock_wrlock(&table_lock);
    size_t place = table_place_after(base);
    if (place > 0 && table[place - 1]->base == base && table[place - 1]->kind == MEMORY_MAPPED) {
        remove_at(place - 1);
        result = CUDA_SUCCESS;
    }
    pthread_rwlock_unlock(&table_lock);
    return result;
}

void
memory_set_access(uintptr_t base, CUmemAccess_flags access)
{
    pthread_rwlock_wrlock(&table_lock);
    struct allocation *entry = holder_of(base);
    if (entry != NULL) {
        entry->access = access;
        protect(entry, is_open());
    }
    pthread_rwlock_unlock(&table_lock);
}

/* ---- asking ---- */

bool
memory_find(uintptr_t address, struct allocation *found)
{
    pthread_rwlock_rdlock(&table_lock);
    struct allocation *entry = holder_of(address);
    if (entry != NULL) {
        *found = *entry;
    }
    pthread_rwlock_unlock(&table_lock);
    return entry != NULL;
}

size_t
memory_reach(uintptr_t address)
{
    size_t bytes = 0;
    pthread_rwlock_rdlock(&table_lock);
    const struct allocation *entry = holder_of(address);
    if (entry != NULL) {
        bytes = entry->bytes - (address - entry->base);
    }
    while (entry != NULL && entry->kind == MEMORY_MAPPED) {
        entry = holder_of(entry->base + entry->bytes);
        if (entry != NULL && entry->kind == MEMORY_MAPPED) {
            bytes += entry->bytes;
        }
    }
    pthread_rwlock_unlock(&table_lock);
    return bytes;
}

size_t
memory_used(CUdevice device)
{
    pthread_rwlock_rdlock(&table_lock);
    size_t bytes = used_bytes[device];
    pthread_rwlock_unlock(&table_lock);
    return bytes;
}
