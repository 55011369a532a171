/*
 * hashing.c - hashes of device memory, computed in stream order without making the host wait.
 *
 * Memory is copied in pieces through one pinned buffer; a host function after each copy feeds the piece to XXH3. The
 * stream's order keeps one buffer enough. Used by checks.c on a few steps only: it costs a copy to the host.
 */
#include "interpose/engine/state.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <stdlib.h>

enum { PIECE_BYTES = 1 << 20 };

struct hasher {
    void *piece; /* pinned */
    XXH3_state_t *state;
    struct hasher *next; /* among the idle ones */
};

/* One copied piece, on its way to its host function. */
struct piece {
    struct hasher *hasher;
    size_t bytes;
    bool first, last;
    void (*done)(void *arg, uint64_t hash);
    void *arg;
};

/* Guards the list of idle hashers. Pinned memory cannot be released in a host function, so hashers are kept. */
static pthread_mutex_t idle_lock = PTHREAD_MUTEX_INITIALIZER;
static struct hasher *idle;

struct hasher *
hasher_get(void)
{
    pthread_mutex_lock(&idle_lock);
    struct hasher *hasher = idle;
    if (hasher != NULL)
        idle = hasher->next;
    pthread_mutex_unlock(&idle_lock);
    if (hasher != NULL)
        return hasher;

    hasher = calloc(1, sizeof(*hasher));
    if (hasher == NULL || (hasher->state = XXH3_createState()) == NULL)
        stop_job("out of memory");
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    require_cuda(engine_state.driver.cuThreadExchangeStreamCaptureMode_p(&mode), "cuThreadExchangeStreamCaptureMode");
    require_cuda(engine_state.driver.cuMemHostAlloc_p(&hasher->piece, PIECE_BYTES, CU_MEMHOSTALLOC_PORTABLE),
                 "cuMemHostAlloc");
    require_cuda(engine_state.driver.cuThreadExchangeStreamCaptureMode_p(&mode), "cuThreadExchangeStreamCaptureMode");
    return hasher;
}

void
hasher_put(struct hasher *hasher)
{
    pthread_mutex_lock(&idle_lock);
    hasher->next = idle;
    idle = hasher;
    pthread_mutex_unlock(&idle_lock);
}

static void CUDA_CB
digest_piece(void *data)
{
    struct piece *piece = data;
    struct hasher *hasher = piece->hasher;
    if (piece->first)
        XXH3_64bits_reset(hasher->state);
    XXH3_64bits_update(hasher->state, hasher->piece, piece->bytes);
    if (piece->last)
        piece->done(piece->arg, XXH3_64bits_digest(hasher->state));
    free(piece);
}

void
hasher_enqueue(struct hasher *hasher, CUstream stream, CUdeviceptr address, size_t bytes,
               void (*done)(void *arg, uint64_t hash), void *arg)
{
    for (size_t at = 0; at < bytes; at += PIECE_BYTES) {
        struct piece *piece = malloc(sizeof(*piece));
        if (piece == NULL)
            stop_job("out of memory");
        size_t here = bytes - at < PIECE_BYTES ? bytes - at : PIECE_BYTES;
        *piece = (struct piece){hasher, here, at == 0, at + here == bytes, done, arg};
        require_cuda(engine_state.driver.cuMemcpyDtoHAsync_p(hasher->piece, address + at, here, stream),
                     "copying memory that is checked");
        require_cuda(engine_state.driver.cuLaunchHostFunc_p(stream, digest_piece, piece), "cuLaunchHostFunc");
    }
}
