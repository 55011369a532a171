/*
 * memory.c - copies between the device's memory and the recorder's own, on a stream of its own. Copies are enqueued,
 * and waited for together: to wait costs more than most of them.
 *
 * Called when the device has nothing to do. Pinned memory of the trainer is read where it is.
 */
#include "base/clock.h"
#include "tools/scout/trainer/scout.h"

#include <string.h>
#include <xxhash.h>

static CUstream stream;
static CUcontext stream_context;
static bool any_enqueued;

void
memory_wait(void)
{
    if (any_enqueued)
        scout_require(scout_state.driver.cuStreamSynchronize_p(stream), "copying memory of the trainer");
    any_enqueued = false;
}

/* Streams belong to a context, and a trainer may use several. */
static CUstream
own_stream(void)
{
    CUcontext context = NULL;
    scout_require(scout_state.driver.cuCtxGetCurrent_p(&context), "cuCtxGetCurrent");
    if (stream == NULL || context != stream_context) {
        memory_wait();
        scout_require(scout_state.driver.cuStreamCreateWithPriority_p(&stream, CU_STREAM_NON_BLOCKING, 0),
                      "cuStreamCreate");
        stream_context = context;
    }
    return stream;
}

void
memory_read_later(const struct allocation *allocation, uint64_t offset, void *to, size_t bytes)
{
    if (bytes == 0)
        return;
    if (allocation->memory == SCOUT_PINNED) {
        memcpy(to, (const void *)(uintptr_t)(allocation->address + offset), bytes);
        return;
    }
    CUstream on = own_stream();
    scout_require(scout_state.driver.cuMemcpyDtoHAsync_p(to, allocation->address + offset, bytes, on), "cuMemcpyDtoH");
    any_enqueued = true;
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
    if (bytes == 0)
        return;
    if (allocation->memory == SCOUT_PINNED) {
        memcpy((void *)(uintptr_t)(allocation->address + offset), from, bytes);
        return;
    }
    CUstream on = own_stream();
    scout_require(scout_state.driver.cuMemcpyHtoDAsync_p(allocation->address + offset, from, bytes, on),
                  "cuMemcpyHtoD");
    any_enqueued = true;
}

/* ---- by pieces ---- */

enum { PIECE_BYTES = 1 << 20, PAGE_BYTES = 4096 };

/* Two in turn: one is filled while the other one is worked on. */
static char *pieces; /* [2 * PIECE_BYTES] once they are needed */

static void
ensure_pieces(void)
{
    if (pieces == NULL)
        pieces = copies_map(2UL * PIECE_BYTES);
    if (pieces == NULL)
        scout_stop("out of memory");
}

/* Bytes [offset, end) as they pass by, one piece after the other. */
struct passing {
    const struct allocation *allocation;
    uint64_t offset, end; /* of what is not under way yet */
    unsigned turn;
    struct piece {
        uint64_t offset;
        size_t bytes;
    } under_way;
};

static void
pass_on(struct passing *passing)
{
    uint64_t rest = passing->end - passing->offset;
    passing->under_way = (struct piece){passing->offset, rest < PIECE_BYTES ? (size_t)rest : PIECE_BYTES};
    memory_read_later(passing->allocation, passing->offset, pieces + passing->turn * PIECE_BYTES,
                      passing->under_way.bytes);
    passing->offset += passing->under_way.bytes;
}

static struct passing
pass_begin(const struct allocation *allocation, uint64_t offset, uint64_t bytes)
{
    struct passing passing = {.allocation = allocation, .offset = offset, .end = offset + bytes};
    ensure_pieces();
    pass_on(&passing);
    return passing;
}

/* The next piece, which the caller has until it asks for another one; NULL: that was all. A long pass is no launch that
 * hangs. */
static void *
pass_next(struct passing *passing, struct piece *piece)
{
    *piece = passing->under_way;
    if (piece->bytes == 0)
        return NULL;
    memory_wait();
    if (scout_state.progress != NULL && atomic_load(&scout_state.progress->repeat_ms) != 0)
        atomic_store(&scout_state.progress->repeat_ms, (uint64_t)clock_now_ms());
    void *bytes = pieces + passing->turn * PIECE_BYTES;
    passing->turn ^= 1;
    pass_on(passing);
    return bytes;
}

uint64_t
memory_hash(struct allocation *allocation)
{
    struct passing passing = pass_begin(allocation, 0, allocation->bytes);
    struct piece piece;
    uint64_t hash = allocation->bytes;
    for (uint32_t *words; (words = pass_next(&passing, &piece)) != NULL;) {
        hash = XXH3_64bits_withSeed(words, piece.bytes, hash);
        allocation->held_floats =
            allocation->held_floats || change_looks_like_floats(words, piece.bytes / sizeof(uint32_t));
    }
    return hash;
}

uint64_t
memory_change_reversibly(const struct allocation *allocation, uint64_t *before_p)
{
    struct passing passing = pass_begin(allocation, 0, allocation->bytes);
    struct piece piece;
    uint64_t before = allocation->bytes, after = allocation->bytes;
    for (uint32_t *words; (words = pass_next(&passing, &piece)) != NULL;) {
        if (before_p != NULL)
            before = XXH3_64bits_withSeed(words, piece.bytes, before);
        change_reversibly(words, piece.bytes / sizeof(uint32_t));
        after = XXH3_64bits_withSeed(words, piece.bytes, after);
        memory_write(allocation, piece.offset, words, piece.bytes);
    }
    if (before_p != NULL)
        *before_p = before;
    return after;
}

void
memory_update(const struct allocation *allocation, uint64_t offset, void *to, size_t bytes)
{
    struct passing passing = pass_begin(allocation, offset, bytes);
    struct piece piece;
    for (const char *from; (from = pass_next(&passing, &piece)) != NULL;) {
        char *into = (char *)to + (piece.offset - offset);
        for (size_t at = 0; at < piece.bytes; at += PAGE_BYTES) {
            size_t count = piece.bytes - at < PAGE_BYTES ? piece.bytes - at : PAGE_BYTES;
            if (memcmp(into + at, from + at, count) != 0)
                memcpy(into + at, from + at, count);
        }
    }
}
