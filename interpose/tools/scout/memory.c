/*
 * memory.c - copies between the device's memory and the recorder's own, on a stream of its own. Copies are enqueued,
 * and waited for together: to wait costs more than most of them.
 *
 * Called when the device has nothing to do. Pinned memory of the trainer is read where it is.
 */
#include "interpose/tools/scout/scout.h"

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

enum { PIECE_BYTES = 1 << 20 };
static uint32_t *piece; /* [PIECE_BYTES] once it is needed */

static void
ensure_piece(void)
{
    if (piece == NULL)
        piece = copies_map(PIECE_BYTES);
    if (piece == NULL)
        scout_stop("out of memory");
}

static size_t
piece_bytes(const struct allocation *allocation, uint64_t offset)
{
    return allocation->bytes - offset < PIECE_BYTES ? allocation->bytes - offset : PIECE_BYTES;
}

uint64_t
memory_hash(struct allocation *allocation)
{
    ensure_piece();
    uint64_t hash = allocation->bytes;
    for (uint64_t offset = 0; offset < allocation->bytes; offset += PIECE_BYTES) {
        size_t bytes = piece_bytes(allocation, offset);
        memory_read(allocation, offset, piece, bytes);
        hash = XXH3_64bits_withSeed(piece, bytes, hash);
        allocation->held_floats = allocation->held_floats || change_looks_like_floats(piece, bytes / sizeof(uint32_t));
    }
    return hash;
}

uint64_t
memory_change_reversibly(const struct allocation *allocation, uint64_t *before_p)
{
    ensure_piece();
    uint64_t before = allocation->bytes, after = allocation->bytes;
    for (uint64_t offset = 0; offset < allocation->bytes; offset += PIECE_BYTES) {
        size_t bytes = piece_bytes(allocation, offset);
        memory_read(allocation, offset, piece, bytes);
        if (before_p != NULL)
            before = XXH3_64bits_withSeed(piece, bytes, before);
        change_reversibly(piece, bytes / sizeof(uint32_t));
        after = XXH3_64bits_withSeed(piece, bytes, after);
        memory_write(allocation, offset, piece, bytes);
    }
    if (before_p != NULL)
        *before_p = before;
    return after;
}
