/*
 * device_copies.c - copies between the device's memory and the recorder's own, on the stream of the launch that is made
 * again, else on one of its own. Copies are enqueued, and waited for together: to wait costs more than most of them.
 * Called when the device has nothing to do. Pinned memory of the trainer is read where it is.
 */
#include "base/clock.h"
#include "tools/scout/trainer/scout.h"

#include <xxhash.h>

static CUstream followed; /* NULL: none */
static CUcontext stream_context;
static bool any_enqueued;

void
memory_wait(void)
{
    if (any_enqueued)
        scout_require(scout_state.driver.cuStreamSynchronize_p(followed != NULL ? followed : scout_state.stream),
                      "copying memory of the trainer");
    any_enqueued = false;
}

void
memory_follow(CUstream launch)
{
    followed = launch;
}

/* Streams belong to a context, and a trainer may use several. */
static CUstream
stream_now(void)
{
    CUcontext context = NULL;
    if (followed != NULL)
        return followed;
    scout_require(scout_state.driver.cuCtxGetCurrent_p(&context), "cuCtxGetCurrent");
    if (scout_state.stream == NULL || context != stream_context) {
        memory_wait();
        scout_require(scout_state.driver.cuStreamCreateWithPriority_p(&scout_state.stream, CU_STREAM_NON_BLOCKING, 0),
                      "cuStreamCreate");
        stream_context = context;
    }
    return scout_state.stream;
}

void
memory_read_later(const struct allocation *allocation, uint64_t offset, void *to, size_t bytes)
{
    uint64_t from = allocation->address + offset;
    if (bytes > 0 && allocation->memory == SCOUT_PINNED) {
        memcpy(to, (const void *)(uintptr_t)from, bytes);
    } else if (bytes > 0) {
        scout_require(scout_state.driver.cuMemcpyDtoHAsync_p(to, from, bytes, stream_now()), "cuMemcpyDtoH");
        any_enqueued = true;
    }
}

void
memory_read(const struct allocation *allocation, uint64_t offset, void *to, size_t bytes)
{
    memory_read_later(allocation, offset, to, bytes);
    memory_wait();
}

void
memory_write(const struct allocation *allocation, uint64_t offset, const void *from, size_t bytes)
{
    uint64_t to = allocation->address + offset;
    if (bytes > 0 && allocation->memory == SCOUT_PINNED) {
        memcpy((void *)(uintptr_t)to, from, bytes);
    } else if (bytes > 0) {
        scout_require(scout_state.driver.cuMemcpyHtoDAsync_p(to, from, bytes, stream_now()), "cuMemcpyHtoD");
        any_enqueued = true;
    }
}

/* ---- by pieces ---- */

enum { PIECE_BYTES = 1 << 20, PAGE_BYTES = 4096, APART_BYTES = 64 };

/* Two in turn: one is filled while the other one is worked on. */
static char *pieces; /* [2 * PIECE_BYTES] once they are needed */

/* What a piece has of an allocation. Those that fit into a piece share one; others have several, from a begin on. */
struct chunk {
    struct allocation *allocation;
    uint64_t offset;
    size_t bytes;
    void *words;
};

/* Bytes [first, end) of each allocation of a list that is looked at, as they pass by, one chunk after the other. */
struct passing {
    struct allocation *const *list;
    size_t count;
    uint64_t first, end;
    struct cursor { /* where the next chunk begins: in the list and in the piece */
        size_t which, used;
        uint64_t offset;
        unsigned turn;
    } taken, under_way, next; /* in the piece that is worked on; that is being filled; behind that */
};

/* False: the piece has no room for it, or there is none. */
static bool
take_chunk(const struct passing *passing, struct cursor *place, struct chunk *chunk)
{
    while (place->which < passing->count && !allocation_is_looked_at(passing->list[place->which]))
        ++place->which;
    if (place->which == passing->count)
        return false;
    struct allocation *allocation = passing->list[place->which];
    uint64_t end = allocation->bytes < passing->end ? allocation->bytes : passing->end, rest = end - place->offset;
    if (place->used > 0 && place->used + rest > PIECE_BYTES)
        return false;
    *chunk = (struct chunk){allocation, place->offset, rest < PIECE_BYTES ? (size_t)rest : PIECE_BYTES,
                            pieces + place->turn * PIECE_BYTES + place->used};
    place->used += (chunk->bytes + APART_BYTES - 1) / APART_BYTES * APART_BYTES;
    place->offset += chunk->bytes;
    if (place->offset == end)
        ++place->which, place->offset = passing->first;
    return true;
}

/* Begins to read the next chunks, while those that were read before are worked on. */
static void
pass_on(struct passing *passing)
{
    struct cursor place = passing->under_way = passing->next;
    struct chunk chunk;
    while (take_chunk(passing, &place, &chunk))
        memory_read_later(chunk.allocation, chunk.offset, chunk.words, chunk.bytes);
    passing->next = (struct cursor){.which = place.which, .offset = place.offset, .turn = place.turn ^ 1};
}

/* Begins to pass bytes [first, end) of all allocations by, chunk by chunk. Ends the process without memory. */
static struct passing
pass_begin(struct allocation *const *list, size_t count, uint64_t first, uint64_t end)
{
    struct passing passing = {list, count, first, end, {.which = count}, {0}, {.offset = first}};
    pieces = pieces == NULL ? copies_map(2UL * PIECE_BYTES) : pieces;
    if (pieces == NULL)
        scout_stop("out of memory");
    pass_on(&passing);
    return passing;
}

/* The next chunk, which the caller has until it asks for another one; false: that was all. A long pass is no launch
 * that hangs. */
static bool
pass_next(struct passing *passing, struct chunk *chunk)
{
    if (take_chunk(passing, &passing->taken, chunk))
        return true;
    if (passing->under_way.which == passing->count)
        return false;
    memory_wait();
    if (scout_state.progress != NULL && atomic_load(&scout_state.progress->repeat_ms) != 0)
        atomic_store(&scout_state.progress->repeat_ms, (uint64_t)clock_now_ms());
    passing->taken = passing->under_way;
    pass_on(passing);
    return take_chunk(passing, &passing->taken, chunk);
}

void
memory_change(struct allocation *const *list, size_t count)
{
    struct passing passing = pass_begin(list, count, 0, UINT64_MAX);
    for (struct chunk chunk; pass_next(&passing, &chunk);) {
        struct allocation *it = chunk.allocation;
        change_reversibly(chunk.words, chunk.bytes / sizeof(uint32_t));
        it->turned = XXH3_64bits_withSeed(chunk.words, chunk.bytes, chunk.offset == 0 ? it->bytes : it->turned);
        memory_write(it, chunk.offset, chunk.words, chunk.bytes);
    }
}

void
memory_hash(struct allocation *const *list, size_t count, bool changes)
{
    struct passing passing = pass_begin(list, count, 0, UINT64_MAX);
    for (struct chunk chunk; pass_next(&passing, &chunk);) {
        struct allocation *it = chunk.allocation;
        it->met = XXH3_64bits_withSeed(chunk.words, chunk.bytes, chunk.offset == 0 ? it->bytes : it->met);
        it->held_floats = it->held_floats || change_looks_like_floats(chunk.words, chunk.bytes / sizeof(uint32_t));
        if (!changes)
            continue;
        change_reversibly(chunk.words, chunk.bytes / sizeof(uint32_t));
        it->turned = XXH3_64bits_withSeed(chunk.words, chunk.bytes, chunk.offset == 0 ? it->bytes : it->turned);
        memory_write(it, chunk.offset, chunk.words, chunk.bytes);
    }
}

void
memory_update(struct allocation *allocation, uint64_t offset, void *to, size_t bytes)
{
    struct passing passing = pass_begin(&allocation, 1, offset, offset + bytes);
    for (struct chunk chunk; pass_next(&passing, &chunk);) {
        const char *from = chunk.words;
        char *into = (char *)to + (chunk.offset - offset);
        for (size_t at = 0; at < chunk.bytes; at += PAGE_BYTES) {
            size_t length = chunk.bytes - at < PAGE_BYTES ? chunk.bytes - at : PAGE_BYTES;
            if (memcmp(into + at, from + at, length) != 0)
                memcpy(into + at, from + at, length);
        }
    }
}
