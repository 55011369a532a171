/*
 * loaders.c - copies by threads, and on streams, that launch nothing: a loader is ahead of what trains, by as many
 * batches as it has buffers, and by how many may differ from step to step. What it copies from the host is held here,
 * and enters the log, and the course, in front of the first operation that touches it.
 *
 * The player (follow.c) asks which copies these are, and does not count them.
 *
 * Threads: record.c calls with scout_lock() held, follow.c with its own lock.
 */
#include "tools/scout/trainer/scout.h"

enum { HELD_AT_MOST = 256, STREAMS_AT_MOST = 256 };

static __thread bool launches __attribute__((tls_model("initial-exec")));

/* Copies, in the order in which they were made. */
static struct held {
    struct scout_op op;
    const bool *launches; /* of its stream, if that has launched nothing, else of its thread */
} held[HELD_AT_MOST];
static size_t held_count;

/* Streams that the program has made: whether each has launched anything so far. */
static struct lane {
    CUstream stream;
    bool launches;
} lanes[STREAMS_AT_MOST];
static size_t lane_count;
static const bool *noted_launches; /* of the last operation that was noted, as held.launches */

/* NULL: a stream of the driver's own, or there is no room. */
static struct lane *
lane_of(CUstream stream)
{
    struct lane *known = FIND(lane, lanes, lane_count, lane->stream == stream);
    if (known != NULL || lane_count == STREAMS_AT_MOST || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD)
        return known;
    lanes[lane_count].stream = stream;
    return &lanes[lane_count++];
}

bool
loaders_is_transfer(const struct operation *operation)
{
    return (begins_with(operation->name, "cuMemcpy") || begins_with(operation->name, "cuMemset")) &&
           operation->operand_count <= 2 &&
           !ANY(operand, operation->operands, operation->operand_count,
                operand->pieces.bytes != 0 && operand->pieces.outer_count > 1);
}

static bool
is_of_device(const struct operand *operand)
{
    const struct allocation *allocation = allocations_find(operand->address);
    return allocation != NULL && allocation->memory != SCOUT_PINNED;
}

bool
loaders_note(const struct operation *operation)
{
    bool is_transfer = loaders_is_transfer(operation);
    struct lane *lane = lane_of(operation->stream);
    launches = launches || !is_transfer;
    if (lane != NULL)
        lane->launches = lane->launches || !is_transfer;
    noted_launches = lane != NULL && !lane->launches ? &lane->launches : &launches;
    return !*noted_launches && begins_with(operation->name, "cuMemcpy") &&
           ANY(it, operation->operands, operation->operand_count, operand_is_target(it)) &&
           ALL(it, operation->operands, operation->operand_count, operand_is_target(it) == is_of_device(it));
}

bool
loaders_thread_launches(void)
{
    return launches;
}

/* ---- the recorder ---- */

/* Releases a copy that was held: it enters the log now. The others move up. */
static void
put_held(size_t index)
{
    static struct noted noted; /* large; only its first fields are used */
    const struct scout_effect nothing = {.why = SCOUT_NONE, .hidden_write = SCOUT_NONE};
    noted.op = held[index].op;
    memmove(&held[index], &held[index + 1], (held_count - index - 1) * sizeof(*held));
    --held_count;
    (void)scout_writer_put(&scout_state.log, SCOUT_OP, &noted.op);
    if (course_now() == COURSE_DEEP)
        (void)scout_writer_put(&scout_state.log, SCOUT_EFFECT, &nothing);
    ++scout_state.operation_count;
    course_note(&noted, true);
}

void
loaders_hold(const struct noted *noted)
{
    if (held_count == HELD_AT_MOST)
        put_held(0);
    held[held_count] = (struct held){noted->op, noted_launches};
    held[held_count++].op.arguments = NULL;
}

static bool
is_touched_at(const struct scout_op *copy, const struct scout_place *place, uint64_t bytes)
{
    uint64_t end = copy->to.offset + (copy->rows - 1) * copy->to.pitch + copy->bytes;
    return place->alloc == copy->to.alloc && place->offset < end && copy->to.offset < place->offset + bytes;
}

/* Whether the operation works on memory that the copy, which is held, brings. */
static bool
is_touched(const struct scout_op *copy, const struct noted *noted)
{
    const struct scout_op *op = &noted->op;
    bool touched = is_touched_at(copy, &op->to, op->rows * (op->to.pitch + op->bytes)) ||
                   is_touched_at(copy, &op->from, op->rows * (op->from.pitch + op->bytes));
    FOR_EACH_UNTIL(argument, noted->arguments, op->argument_count, touched) {
        const struct scout_place place = {.alloc = argument->alloc, .offset = argument->offset};
        touched = is_touched_at(copy, &place, argument->end - argument->offset);
    }
    return touched;
}

/* Whether a loader overwrote the allocation of this number before anything was seen to read its last copy, as what a
 * table leads to; with `add` it has from now on. */
static bool
is_unseen(uint32_t alloc, bool add)
{
    static uint32_t unseen[HELD_AT_MOST];
    static size_t count;
    if (ANY_NUMBER(i, 0, count, unseen[i] == alloc))
        return true;
    if (add && count < HELD_AT_MOST)
        unseen[count++] = alloc;
    return count == HELD_AT_MOST;
}

bool
loaders_release(const struct noted *noted)
{
    bool is_first = true;
    for (size_t i = 0; i < held_count && course_now() != COURSE_OVER;) {
        bool touched = is_touched(&held[i].op, noted);
        is_first = is_first && !(touched && held[i].launches == noted_launches);
        if (touched || *held[i].launches)
            put_held(i);
        else
            ++i;
    }
    return noted->op.ahead == 0 || is_unseen(noted->op.to.alloc, !is_first);
}
