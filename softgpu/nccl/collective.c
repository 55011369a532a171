/*
 * collective.c - see collective.h.
 */
#include "nccl/collective.h"

#include "nccl/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How much is reduced before it is copied on: still in the first-level cache. */
enum { REDUCE_BLOCK_BYTES = 8 << 10, LINK_SLICES = 32 };

/* A collective while it runs. */
enum { CORRUPTED_BYTES = 64 << 10 }; /* a smaller operation goes another way */

struct run {
    struct exchange *exchange;
    struct segment *segment;
    const struct collective *what;
    int rank;
    int rank_count;
    size_t element_bytes;
    size_t chunk_elements; /* per chunk, of `what->count` */
    uint32_t chunk_count;
    uint32_t first_chunk; /* the number of chunk 0 of this operation */
    enum wait_result why; /* of the first wait that failed */
    int peer;             /* the rank that it was for */
};

/* "all-reduce" */
static const char *
kind_name(enum operation_kind kind)
{
    static const char *const names[OPERATION_KIND_COUNT] = {"all-reduce", "broadcast", "reduce", "all-gather",
                                                            "reduce-scatter"};
    return (unsigned)kind < OPERATION_KIND_COUNT ? names[kind] : "an unknown operation";
}

/* "all-reduce of 100 float32 (sum)" */
static void
describe(const struct operation_signature *signature, char *text, size_t text_bytes)
{
    char detail[48] = "";
    if (signature->kind == OPERATION_BROADCAST)
        snprintf(detail, sizeof(detail), " from rank %d", signature->root);
    else if (signature->kind == OPERATION_REDUCE)
        snprintf(detail, sizeof(detail), " (%s) to rank %d", reduction_name((ncclRedOp_t)signature->op),
                 signature->root);
    else if (signature->kind != OPERATION_ALL_GATHER)
        snprintf(detail, sizeof(detail), " (%s)", reduction_name((ncclRedOp_t)signature->op));
    snprintf(text, text_bytes, "%s of %llu %s%s", kind_name((enum operation_kind)signature->kind),
             (unsigned long long)signature->count, type_name((ncclDataType_t)signature->type), detail);
    if (signature->registered)
        strncat(text, " in registered memory", text_bytes - strlen(text) - 1);
}

static bool
same_signature(const struct operation_signature *a, const struct operation_signature *b)
{
    return a->kind == b->kind && a->type == b->type && a->op == b->op && a->root == b->root && a->count == b->count &&
           a->registered == b->registered;
}

static const struct operation_signature *
signature_of(const struct run *run, int rank)
{
    return &run->segment->slots[rank]->signatures[run->exchange->operation_number % 2];
}

/* Waits for one rank or (peer < 0) all others; false, with the reason kept in the run, if they do not come. */
static bool
wait_for(struct run *run, int peer, enum progress which, uint32_t target)
{
    if (peer < 0) {
        run->why = segment_wait_all(run->segment, which, target, &run->peer);
    } else {
        run->peer = peer;
        run->why = segment_wait(run->segment, peer, which, target);
    }
    return run->why == WAIT_REACHED;
}

/* `is_held`: a contribution follows. */
static void
publish_signature(struct run *run, bool is_held)
{
    const struct collective *what = run->what;
    bool reduces = what->kind != OPERATION_BROADCAST && what->kind != OPERATION_ALL_GATHER;
    const struct operation_signature mine = {
        .kind = what->kind,
        .type = what->type,
        .op = !reduces       ? 0
              : what->scalar ? ncclNumOps
                             : what->op,
        .root = what->root,
        .count = what->count,
        .registered = what->is_registered,
    };
    segment_publish(run->segment, run->exchange->operation_number, &mine, is_held);
}

static unsigned char *
contribution(const struct run *run, int rank, uint32_t chunk)
{
    return run->segment->slots[rank]->staging[STAGING_CONTRIBUTION][(run->first_chunk + chunk) % SEGMENT_STAGES];
}

static unsigned char *
result(const struct run *run, int rank, uint32_t chunk)
{
    return run->segment->slots[rank]->staging[STAGING_RESULT][(run->first_chunk + chunk) % SEGMENT_STAGES];
}

/* Where chunk `chunk` begins, in elements, and how many it has. */
static size_t
chunk_begin(const struct run *run, uint32_t chunk)
{
    return chunk * run->chunk_elements;
}

static size_t
chunk_length(const struct run *run, uint32_t chunk)
{
    size_t left = run->what->count - chunk_begin(run, chunk);
    return left < run->chunk_elements ? left : run->chunk_elements;
}

/* Progress up to and including `chunk`, as the counters have it. */
static uint32_t
after_chunk(const struct run *run, uint32_t chunk)
{
    return run->first_chunk + chunk + 1;
}

/* The progress of the others that frees the staging buffer of `chunk`. */
static uint32_t
before_reuse(const struct run *run, uint32_t chunk)
{
    return run->first_chunk + chunk + 1 - SEGMENT_STAGES;
}

/* Copies, or for premulsum scales, `count` elements of the send buffer from element `from` on. */
static void
copy_in(const struct run *run, void *to, size_t from, size_t count)
{
    const unsigned char *source = (const unsigned char *)run->what->send + from * run->element_bytes;
    if (run->what->scalar)
        scale_elements(to, source, count, run->what->type, run->what->scalar);
    else
        memcpy(to, source, count * run->element_bytes);
}

/*
 * `count` elements of the send buffer from element `from` on, to `offset` elements in this rank's staging buffer of
 * `chunk`, for `reader` to read. What is for another host, and is not to be scaled, need not be copied there first.
 */
static void
contribute_to(const struct run *run, int reader, uint32_t chunk, size_t offset, size_t from, size_t count)
{
    unsigned char *staged = contribution(run, run->rank, chunk) + offset * run->element_bytes;
    const void *data = staged;
    if (segment_is_remote(run->segment, reader) && !run->what->scalar)
        data = (const unsigned char *)run->what->send + from * run->element_bytes;
    else
        copy_in(run, staged, from, count);
    segment_give(run->segment, reader, STAGING_CONTRIBUTION, run->first_chunk + chunk, offset * run->element_bytes,
                 data, count * run->element_bytes);
}

/* ---- all-reduce: piece p of a chunk of `length` elements is rank p's to reduce ---- */

static size_t
piece_begin(const struct run *run, size_t length, int piece)
{
    return length * (size_t)piece / (size_t)run->rank_count;
}

/* Premulsum stages this rank's own piece too, scaled and rounded like the others'. */
static bool
all_reduce_contribute(struct run *run, uint32_t chunk)
{
    if (!wait_for(run, -1, PROGRESS_REDUCED, before_reuse(run, chunk)))
        return false;
    size_t begin = chunk_begin(run, chunk), length = chunk_length(run, chunk);
    for (int p = 0; p < run->rank_count; ++p) {
        size_t first = piece_begin(run, length, p), end = piece_begin(run, length, p + 1);
        if (p != run->rank || run->what->scalar)
            contribute_to(run, p, chunk, first, begin + first, end - first);
    }
    segment_advance(run->segment, PROGRESS_CONTRIBUTED, after_chunk(run, chunk));
    return true;
}

/*
 * Publishes this rank's signature and compares those of all ranks. That all have come here also means that all are done
 * with the operation before, and that signatures of two operations ago can be overwritten. An all-reduce contributes
 * its first chunk before the others have come, so that one arrival brings both: the waits of each chunk free its
 * staging space, and where ranks disagree no rank reads it.
 */
static bool
agree(struct run *run)
{
    bool contributes = run->what->kind == OPERATION_ALL_REDUCE && run->chunk_count > 0;
    publish_signature(run, contributes);
    if (contributes && !all_reduce_contribute(run, 0))
        return false;
    if (!wait_for(run, -1, PROGRESS_OPERATION, run->exchange->operation_number + 1))
        return false;
    const struct operation_signature *first = signature_of(run, 0);
    for (int r = 1; r < run->rank_count; ++r) {
        const struct operation_signature *other = signature_of(run, r);
        if (same_signature(first, other))
            continue;
        char first_text[160], other_text[160];
        describe(first, first_text, sizeof(first_text));
        describe(other, other_text, sizeof(other_text));
        /* All ranks find the same difference at the same time; rank 0 says it. */
        exchange_fail(run->exchange, run->rank == 0, ncclInvalidUsage,
                      "ranks disagree on operation %u of their communicator: rank 0 calls %s, rank %d calls %s",
                      run->exchange->operation_number, first_text, r, other_text);
        return false;
    }
    return true;
}

/* A ring adds a piece from another rank on than the next piece: with SOFTGPU_NCCL_ORDER=ring the order of a sum depends
 * on its place in the operation, else it is that of the ranks. */
static void
put_in_order(const struct run *run, const void **sources)
{
    const void *ordered[SEGMENT_MAX_RANKS];
    const char *order = getenv("SOFTGPU_NCCL_ORDER");
    if (order == NULL || strcmp(order, "ring") != 0)
        return;
    for (int i = 0; i < run->rank_count; ++i)
        ordered[i] = sources[(run->rank + 1 + i) % run->rank_count];
    memcpy(sources, ordered, (size_t)run->rank_count * sizeof(*sources));
}

static bool
all_reduce_reduce(struct run *run, uint32_t chunk)
{
    if (!wait_for(run, -1, PROGRESS_CONTRIBUTED, after_chunk(run, chunk)) ||
        !wait_for(run, -1, PROGRESS_TAKEN, before_reuse(run, chunk)))
        return false;
    size_t begin = chunk_begin(run, chunk), length = chunk_length(run, chunk);
    size_t first = piece_begin(run, length, run->rank), count = piece_begin(run, length, run->rank + 1) - first;
    size_t offset = (begin + first) * run->element_bytes, staged = first * run->element_bytes;
    const void *sources[SEGMENT_MAX_RANKS];
    unsigned char *mine = result(run, run->rank, chunk) + staged;
    unsigned char *receive = (unsigned char *)run->what->receive + offset;
    size_t block = REDUCE_BLOCK_BYTES / run->element_bytes;
    for (size_t done = 0; done < count; done += block) {
        size_t length = count - done < block ? count - done : block, at = done * run->element_bytes;
        for (int r = 0; r < run->rank_count; ++r)
            sources[r] = contribution(run, r, chunk) + staged + at;
        if (!run->what->scalar)
            sources[run->rank] = (const unsigned char *)run->what->send + offset + at;
        put_in_order(run, sources);
        reduce_elements(mine + at, sources, run->rank_count, length, run->what->type, run->what->op);
        memcpy(receive + at, mine + at, length * run->element_bytes);
    }
    if (run->exchange->corrupts && offset == 0 && run->what->count * run->element_bytes > CORRUPTED_BYTES)
        receive[0] = mine[0] ^= 1;
    segment_give_all(run->segment, STAGING_RESULT, run->first_chunk + chunk, staged, mine, count * run->element_bytes);
    segment_advance(run->segment, PROGRESS_REDUCED, after_chunk(run, chunk));
    return true;
}

static bool
all_reduce_take(struct run *run, uint32_t chunk)
{
    if (!wait_for(run, -1, PROGRESS_REDUCED, after_chunk(run, chunk)))
        return false;
    size_t begin = chunk_begin(run, chunk), length = chunk_length(run, chunk);
    for (int p = 0; p < run->rank_count; ++p) {
        if (p == run->rank)
            continue;
        size_t first = piece_begin(run, length, p), count = piece_begin(run, length, p + 1) - first;
        memcpy((unsigned char *)run->what->receive + (begin + first) * run->element_bytes,
               result(run, p, chunk) + first * run->element_bytes, count * run->element_bytes);
    }
    segment_advance(run->segment, PROGRESS_TAKEN, after_chunk(run, chunk));
    return true;
}

/* The next chunk is contributed before this one is waited for, so that the others find it when they come to it. */
static bool
run_all_reduce(struct run *run)
{
    for (uint32_t chunk = 0; chunk < run->chunk_count; ++chunk) {
        if (chunk + 1 < run->chunk_count && !all_reduce_contribute(run, chunk + 1))
            return false;
        if (!all_reduce_reduce(run, chunk) || !all_reduce_take(run, chunk))
            return false;
    }
    return true;
}

/* ---- reduce-scatter: a chunk holds `chunk_elements` of each rank's block ---- */

static bool
reduce_scatter_contribute(struct run *run, uint32_t chunk)
{
    if (!wait_for(run, -1, PROGRESS_REDUCED, before_reuse(run, chunk)))
        return false;
    size_t begin = chunk_begin(run, chunk), length = chunk_length(run, chunk);
    for (int p = 0; p < run->rank_count; ++p) {
        if (p != run->rank || run->what->scalar)
            contribute_to(run, p, chunk, (size_t)p * run->chunk_elements, (size_t)p * run->what->count + begin, length);
    }
    segment_advance(run->segment, PROGRESS_CONTRIBUTED, after_chunk(run, chunk));
    return true;
}

static bool
run_reduce_scatter(struct run *run)
{
    if (run->chunk_count > 0 && !reduce_scatter_contribute(run, 0))
        return false;
    for (uint32_t chunk = 0; chunk < run->chunk_count; ++chunk) {
        if (chunk + 1 < run->chunk_count && !reduce_scatter_contribute(run, chunk + 1))
            return false;
        if (!wait_for(run, -1, PROGRESS_CONTRIBUTED, after_chunk(run, chunk)))
            return false;
        size_t begin = chunk_begin(run, chunk);
        const void *sources[SEGMENT_MAX_RANKS];
        for (int r = 0; r < run->rank_count; ++r)
            sources[r] = contribution(run, r, chunk) + (size_t)run->rank * run->chunk_elements * run->element_bytes;
        if (!run->what->scalar)
            sources[run->rank] = (const unsigned char *)run->what->send +
                                 ((size_t)run->rank * run->what->count + begin) * run->element_bytes;
        reduce_elements((unsigned char *)run->what->receive + begin * run->element_bytes, sources, run->rank_count,
                        chunk_length(run, chunk), run->what->type, run->what->op);
        segment_advance(run->segment, PROGRESS_REDUCED, after_chunk(run, chunk));
    }
    return true;
}

/* ---- the others: whole chunks ---- */

static bool
contribute_whole(struct run *run, int reader, uint32_t chunk)
{
    if (!wait_for(run, reader, PROGRESS_REDUCED, before_reuse(run, chunk)))
        return false;
    size_t begin = chunk_begin(run, chunk), length = chunk_length(run, chunk);
    const void *data = contribution(run, run->rank, chunk);
    if (run->segment->local_count > 1 || run->what->scalar)
        copy_in(run, contribution(run, run->rank, chunk), begin, length);
    else
        data = (const unsigned char *)run->what->send + begin * run->element_bytes;
    for (int r = 0; r < run->rank_count; ++r) {
        if (reader < 0 || r == reader)
            segment_give(run->segment, r, STAGING_CONTRIBUTION, run->first_chunk + chunk, 0, data,
                         length * run->element_bytes);
    }
    segment_advance(run->segment, PROGRESS_CONTRIBUTED, after_chunk(run, chunk));
    return true;
}

static bool
run_all_gather(struct run *run)
{
    unsigned char *receive = run->what->receive;
    size_t block_bytes = run->what->count * run->element_bytes;
    if (block_bytes > 0 && receive + (size_t)run->rank * block_bytes != run->what->send)
        memmove(receive + (size_t)run->rank * block_bytes, run->what->send, block_bytes);
    if (run->chunk_count > 0 && !contribute_whole(run, -1, 0))
        return false;
    for (uint32_t chunk = 0; chunk < run->chunk_count; ++chunk) {
        if (chunk + 1 < run->chunk_count && !contribute_whole(run, -1, chunk + 1))
            return false;
        if (!wait_for(run, -1, PROGRESS_CONTRIBUTED, after_chunk(run, chunk)))
            return false;
        for (int r = 0; r < run->rank_count; ++r) {
            if (r != run->rank)
                memcpy(receive + (size_t)r * block_bytes + chunk_begin(run, chunk) * run->element_bytes,
                       contribution(run, r, chunk), chunk_length(run, chunk) * run->element_bytes);
        }
        segment_advance(run->segment, PROGRESS_REDUCED, after_chunk(run, chunk));
    }
    return true;
}

static bool
run_broadcast(struct run *run)
{
    const struct collective *what = run->what;
    if (run->rank == what->root && what->count > 0 && what->receive != what->send)
        memmove(what->receive, what->send, what->count * run->element_bytes);
    for (uint32_t chunk = 0; chunk < run->chunk_count; ++chunk) {
        if (run->rank == what->root) {
            if (!contribute_whole(run, -1, chunk))
                return false;
            continue;
        }
        if (!wait_for(run, what->root, PROGRESS_CONTRIBUTED, after_chunk(run, chunk)))
            return false;
        memcpy((unsigned char *)what->receive + chunk_begin(run, chunk) * run->element_bytes,
               contribution(run, what->root, chunk), chunk_length(run, chunk) * run->element_bytes);
        segment_advance(run->segment, PROGRESS_REDUCED, after_chunk(run, chunk));
    }
    return true;
}

static bool
run_reduce(struct run *run)
{
    const struct collective *what = run->what;
    for (uint32_t chunk = 0; chunk < run->chunk_count; ++chunk) {
        if (run->rank != what->root) {
            if (!contribute_whole(run, what->root, chunk))
                return false;
            continue;
        }
        if (!wait_for(run, -1, PROGRESS_CONTRIBUTED, after_chunk(run, chunk)))
            return false;
        size_t offset = chunk_begin(run, chunk) * run->element_bytes, length = chunk_length(run, chunk);
        const void *sources[SEGMENT_MAX_RANKS];
        for (int r = 0; r < run->rank_count; ++r)
            sources[r] = contribution(run, r, chunk);
        sources[run->rank] = (const unsigned char *)what->send + offset;
        if (what->scalar) {
            copy_in(run, contribution(run, run->rank, chunk), chunk_begin(run, chunk), length);
            sources[run->rank] = contribution(run, run->rank, chunk);
        }
        reduce_elements((unsigned char *)what->receive + offset, sources, run->rank_count, length, what->type,
                        what->op);
        segment_advance(run->segment, PROGRESS_REDUCED, after_chunk(run, chunk));
    }
    return true;
}

/* With one rank every collective is a copy, scaled for premulsum. */
static void
run_alone(const struct run *run)
{
    if (run->what->count == 0 || (run->what->receive == run->what->send && !run->what->scalar))
        return;
    if (run->what->scalar)
        scale_elements(run->what->receive, run->what->send, run->what->count, run->what->type, run->what->scalar);
    else
        memmove(run->what->receive, run->what->send, run->what->count * run->element_bytes);
}

/* With one rank there are no chunks. */
static void
set_chunks(struct run *run)
{
    size_t staged = run->element_bytes * (run->what->kind == OPERATION_REDUCE_SCATTER ? (size_t)run->rank_count : 1);
    run->chunk_elements = SEGMENT_CHUNK_BYTES / staged;
    if (run->rank_count > 1)
        run->chunk_count = (uint32_t)((run->what->count + run->chunk_elements - 1) / run->chunk_elements);
}

static bool
move_data(struct run *run)
{
    static bool (*const runs[OPERATION_KIND_COUNT])(struct run *) = {run_all_reduce, run_broadcast, run_reduce,
                                                                     run_all_gather, run_reduce_scatter};
    if (run->rank_count == 1) {
        run_alone(run);
        return true;
    }
    return runs[run->what->kind](run);
}

/* The counters that this operation had no use for catch up, so that they agree again on all ranks. */
static void
catch_up(struct run *run)
{
    uint32_t end = run->first_chunk + run->chunk_count;
    segment_advance(run->segment, PROGRESS_CONTRIBUTED, end);
    segment_advance(run->segment, PROGRESS_REDUCED, end);
    segment_advance(run->segment, PROGRESS_TAKEN, end);
    run->exchange->chunk_number = end;
}

/* What the link model says: by the larger of the two buffers. */
static int64_t
link_ns(const struct run *run)
{
    if (run->rank_count == 1)
        return 0;
    bool gathers = run->what->kind == OPERATION_ALL_GATHER || run->what->kind == OPERATION_REDUCE_SCATTER;
    size_t bytes = run->what->count * run->element_bytes * (gathers ? (size_t)run->rank_count : 1);
    return link_model_ns(&run->exchange->link, bytes, run->what->pays_latency);
}

/* Lets the link's time pass. Beside other work it passes slower by the model's factor, looked at a slice at a time. */
static enum wait_result
spend_on_link(const struct run *run, int64_t start_ns)
{
    const struct exchange *exchange = run->exchange;
    int64_t left_ns = link_ns(run), at_ns = start_ns;
    bool varies = exchange->link.busy_factor > 1.0 && exchange->work_running != NULL;
    enum wait_result result = WAIT_REACHED;
    for (int64_t slice_ns = varies ? left_ns / LINK_SLICES + 1 : left_ns; left_ns > 0 && result == WAIT_REACHED;) {
        slice_ns = slice_ns < left_ns ? slice_ns : left_ns;
        bool busy = varies && exchange->work_running() > 1; /* this operation is one */
        at_ns += busy ? (int64_t)((double)slice_ns * exchange->link.busy_factor) : slice_ns;
        left_ns -= slice_ns;
        result = segment_sleep_until(run->segment, at_ns);
    }
    return result;
}

void
collective_run(struct exchange *exchange, const struct collective *what)
{
    struct run run = {
        .exchange = exchange,
        .segment = &exchange->segment,
        .what = what,
        .rank = exchange->segment.rank,
        .rank_count = exchange->segment.rank_count,
        .element_bytes = type_bytes(what->type),
    };
    pthread_mutex_lock(&exchange->running);
    run.first_chunk = exchange->chunk_number;
    set_chunks(&run);
    bool done = exchange_may_run(exchange) && agree(&run);
    if (done) {
        int64_t start_ns = clock_now_ns();
        done = move_data(&run);
        if (done) {
            catch_up(&run);
            bool slows = exchange->link.slows > 1.0 && exchange->link_begins != NULL;
            if (slows)
                exchange->link_begins(exchange->link.slows);
            run.why = spend_on_link(&run, start_ns);
            if (slows)
                exchange->link_ends();
            done = run.why == WAIT_REACHED;
        }
    }
    if (!done && exchange_error(exchange, NULL, 0) == ncclSuccess) {
        char signature[160], doing[200];
        describe(signature_of(&run, run.rank), signature, sizeof(signature));
        snprintf(doing, sizeof(doing), "operation %u, %s", exchange->operation_number, signature);
        exchange_fail_waiting(exchange, run.why, run.peer, doing);
    }
    ++exchange->operation_number;
    pthread_mutex_unlock(&exchange->running);
}
