/*
 * allocations.c - memory that the device reaches, from its allocation to its release.
 *
 * Hooks report most of it. What they could not (memory of libraries that is older than the recorder, chunks of address
 * ranges) is asked of the driver when a pointer into it is seen.
 */
#include "tools/scout/trainer/scout.h"

static struct allocation **live, **numbered; /* [live_count], by address; [made], by number: NULL: it is freed */
static size_t live_count;
static uint32_t made;

static uint64_t changes = 1; /* of `live`, so far */

/* The first place whose allocation ends after `address`. */
static size_t
place_of_address(uint64_t address)
{
    return COUNT_SORTED(it, live, live_count, (*it)->address + (*it)->bytes <= address);
}

/* The least that no live allocation of this size has. */
static uint32_t
free_ordinal(uint64_t bytes)
{
    bool *taken = scout_zeroed(live_count + 1, sizeof(*taken));
    uint32_t ordinal = 0;
    FOR_EACH(it, live, live_count)
        if ((*it)->bytes == bytes && (*it)->ordinal < live_count)
            taken[(*it)->ordinal] = true;
    while (taken[ordinal])
        ++ordinal;
    free(taken);
    return ordinal;
}

/* Adds an allocation to the live ones and to the log, and returns it. */
static struct allocation *
insert_allocation(uint64_t address, uint64_t bytes, uint32_t memory)
{
    struct allocation *allocation = scout_zeroed(1, sizeof(*allocation));
    *allocation = (struct allocation){
        .number = made, .address = address, .bytes = bytes, .ordinal = free_ordinal(bytes), .memory = memory};
    size_t at = place_of_address(address);
    (void)SCOUT_GROWN(live, live_count);
    memmove(&live[at + 1], &live[at], (live_count - 1 - at) * sizeof(*live));
    live[at] = allocation;
    *SCOUT_GROWN(numbered, made) = allocation;
    ++changes;
    const struct scout_alloc record = {
        .bytes = bytes, .ordinal = allocation->ordinal, .memory = memory, .site = names_site()};
    (void)scout_writer_put(&scout_state.log, SCOUT_ALLOC, &record);
    return allocation;
}

/* What the driver knows of an address: its memory begins at *begin_p. Returns how long it is; 0: nothing. */
static size_t
ask_about_address(uint64_t address, uint64_t *begin_p, bool *is_host_p)
{
    CUdeviceptr begin = 0;
    size_t bytes = 0;
    unsigned type = 0, is_managed = 0;
    CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, CU_POINTER_ATTRIBUTE_RANGE_SIZE,
                                        CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED};
    void *values[] = {&begin, &bytes, &type, &is_managed};
    if (scout_state.driver.cuPointerGetAttributes_p == NULL ||
        scout_state.driver.cuPointerGetAttributes_p(4, attributes, values, address) != CUDA_SUCCESS || begin == 0)
        return 0;
    *begin_p = begin;
    *is_host_p = type == CU_MEMORYTYPE_HOST && !is_managed;
    return bytes;
}

void
known_allocations_add(uint64_t address, uint64_t bytes, enum memory_kind kind)
{
    static const uint32_t memories[] = {[MEMORY_DEVICE] = SCOUT_DEVICE,
                                        [MEMORY_MANAGED] = SCOUT_MANAGED,
                                        [MEMORY_HOST] = SCOUT_PINNED,
                                        [MEMORY_MAPPED] = SCOUT_DEVICE,
                                        [MEMORY_PINNED] = SCOUT_PINNED};
    uint64_t begin = address;
    bool is_host = false, is_variable = bytes == 0;
    if (is_variable)
        bytes = ask_about_address(address, &begin, &is_host);
    size_t at = place_of_address(begin);
    /* a variable that was asked for twice */
    if (bytes == 0 || (at < live_count && live[at]->address < begin + bytes))
        return;
    uint32_t own = memories[kind];
    (void)insert_allocation(begin, bytes, own == SCOUT_PINNED || is_variable ? own : names_memory_of_caller(own));
}

void
known_allocations_remove(uint64_t address, uint64_t bytes)
{
    size_t at = place_of_address(address);
    while (at < live_count && (bytes == 0 ? live[at]->address == address : live[at]->address < address + bytes)) {
        (void)scout_writer_put(&scout_state.log, SCOUT_FREE, &live[at]->number);
        numbered[live[at]->number] = NULL;
        free(live[at]->offsets);
        free(live[at]->kinds);
        free(live[at]);
        --live_count;
        ++changes;
        memmove(&live[at], &live[at + 1], (live_count - at) * sizeof(struct allocation *));
        if (bytes == 0)
            return;
    }
}

uint64_t
allocations_changes(void)
{
    return changes;
}

struct allocation *
allocations_known(uint64_t address)
{
    size_t at = place_of_address(address);
    return at < live_count && live[at]->address <= address ? live[at] : NULL;
}

struct allocation *
allocations_find(uint64_t address)
{
    struct allocation *known = allocations_known(address);
    if (known != NULL || address < 1u << 16)
        return known;
    size_t at = place_of_address(address);
    uint64_t begin = 0;
    bool is_host = false;
    uint64_t bytes = ask_about_address(address, &begin, &is_host);
    if (bytes == 0 || address - begin >= bytes || (at < live_count && live[at]->address < begin + bytes))
        return NULL;
    return insert_allocation(begin, bytes, is_host ? SCOUT_PINNED : SCOUT_DEVICE);
}

bool
allocations_is_host(uint64_t address)
{
    const struct allocation *allocation = allocations_find(address);
    return allocation == NULL || allocation->memory == SCOUT_PINNED;
}

void
allocations_note_offset(struct allocation *allocation, uint64_t offset)
{
    uint32_t at = COUNT_SORTED(it, allocation->offsets, allocation->offset_count, *it < offset);
    if (at < allocation->offset_count && allocation->offsets[at] == offset)
        return;
    (void)SCOUT_GROWN(allocation->offsets, allocation->offset_count);
    memmove(&allocation->offsets[at + 1], &allocation->offsets[at],
            (allocation->offset_count - 1 - at) * sizeof(*allocation->offsets));
    allocation->offsets[at] = offset;
}

uint64_t
allocations_next_offset(const struct allocation *allocation, uint64_t offset)
{
    const uint64_t *next = FIND(it, allocation->offsets, allocation->offset_count, *it > offset);
    return next != NULL ? *next : allocation->bytes;
}

struct allocation *
allocations_numbered(uint32_t number)
{
    return number < made ? numbered[number] : NULL;
}

struct allocation **
allocations_all(size_t *count_p)
{
    *count_p = live_count;
    return live;
}

uint64_t
allocations_name(const struct allocation *allocation)
{
    return allocation->bytes << 20 ^ allocation->ordinal;
}
