/* reads.c - see turns.h. */
#include "tools/scout/command/analysis/turns.h"

#include "tools/common/grown.h"

struct seen {
    struct play_written written;
    int32_t memory;
    uint32_t periods; /* in which the operation writes these bytes */
};

struct finder {
    const struct graph *graph;
    const enum play_part *parts;
    const unsigned char *classes; /* enum reads_class; NULL: by gradients */
    uint32_t state_before;        /* of reads_find() */
    struct reads *reads;
    struct seen *seen; /* by writer */
    uint32_t seen_count;
};

/* Whether one rank makes the operation that left the version. A loader's copies are made by all. */
static bool
is_of_step(const struct finder *finder, const struct graph_version *version)
{
    return version->op >= 0 && finder->parts[version->position] == PLAY_BY_TURN &&
           graph_op(finder->graph, version)->ahead == 0;
}

static enum reads_class
class_of(const struct finder *finder, const struct graph_version *version)
{
    return finder->classes != NULL ? finder->classes[version->number] : READS_OF_STEP;
}

/* ---- reads ---- */

/* Whether a launch gets a pointer to what a version holds: it may write there where the recorded one did not, as a flag
 * that only an overflow sets. */
static bool
may_write(const struct finder *finder, int32_t op, const struct graph_version *version)
{
    const struct scout_op *it = &finder->graph->log->ops[finder->graph->first + (uint32_t)op];
    return it->ahead == 0 && finder->parts[(uint32_t)op % finder->graph->period] == PLAY_BY_TURN &&
           ANY(argument, it->arguments, it->argument_count,
               (int32_t)finder->graph->memory_of[argument->alloc] == version->memory &&
                   argument->offset < version->hi && argument->end > version->lo);
}

/* The last operation of the writer's period, in front of the read, that may have written the version. */
static uint32_t
last_writer(const struct finder *finder, const struct graph_version *from, int32_t read)
{
    int32_t writer = from->op, period = (int32_t)finder->graph->period;
    for (int32_t op = from->op + 1; op < read && op / period == from->op / period; ++op)
        writer = may_write(finder, op, from) ? op : writer;
    return (uint32_t)(writer % period);
}

/* Whether all ranks have the same of what the host reads: state that the step writes no more. */
static bool
is_put_back(const struct finder *finder, const struct graph_version *to, const struct graph_version *from)
{
    return class_of(finder, from) == READS_OF_STATE && to->period == from->period &&
           to->position >= finder->state_before;
}

/* Of what the host gets in one period: which step has written it. */
static struct reads_of
read_of(const struct finder *finder, const struct graph_version *to)
{
    struct reads_of of = {.kind = PLAY_READS_ALIKE};
    int32_t last = -1;
    FOR_EACH_IN(edge, to) {
        const struct graph_version *from = edge->from;
        if (!is_of_step(finder, from) || is_put_back(finder, to, from))
            continue;
        uint32_t back = (uint32_t)(to->period - from->period);
        enum reads_class class = class_of(finder, from);
        bool is_state = class == READS_OF_STATE || class == READS_OF_STATE_OR_SUM;
        bool is_first = of.kind == PLAY_READS_ALIKE, is_begin = back > 0 && is_state;
        back = is_begin ? 0 : back;
        of.kind = is_first || (of.kind == PLAY_READS_STEP && back == of.back) ? PLAY_READS_STEP : PLAY_READS_MIXED;
        if (class_of(finder, from) == READS_OF_SUM)
            of.kind = PLAY_READS_MIXED;
        of.back = back;
        if (from->op > last)
            of.writer = is_begin ? to->position : last_writer(finder, from, to->op);
        last = from->op > last ? from->op : last;
    }
    return of;
}

/* What is read of the period before, and was written before the first recorded one, shows in a later one: the last. */
static void
find_reads(struct finder *finder)
{
    FOR_EACH_VERSION(version, finder->graph)
        if (version->op >= 0 && version->memory == HOST_MEMORY)
            finder->reads->by_operation[version->position] = read_of(finder, version);
}

/* ---- writes ---- */

/* Whether the host writes managed memory; `bytes` not 0: an allocation of that size. */
static bool
host_writes(const struct scout_log *log, uint64_t bytes)
{
    return ANY(op, log->ops, log->op_count,
               op->kind == SCOUT_COPY && op->bytes == 0 && op->to.alloc != SCOUT_NONE &&
                   (bytes == 0 || log->allocs[op->to.alloc].bytes == bytes));
}

/* Whether it may be figures that the host prints: managed memory that is not too large to be exchanged. What the host
 * computes of as much as it writes itself may be an update, which no operation shows: ranks must not do that alike. So
 * may it be of more than a number, if the host writes any managed memory. */
static bool
is_figure(const struct finder *finder, uint32_t alloc, uint64_t bytes)
{
    const struct scout_log *log = finder->graph->log;
    if (log->allocs[alloc].memory != SCOUT_MANAGED || bytes > PLAY_SLOT_BYTES)
        return false;
    return !host_writes(log, bytes <= sizeof(uint64_t) ? log->allocs[alloc].bytes : 0);
}

/* Notes that the version's operation writes these bytes; those that it writes in several periods are one. */
static void
note_write(struct finder *finder, const struct graph_version *version)
{
    const struct graph_memory *memory = &finder->graph->memories[version->memory];
    uint32_t writer = version->position;
    bool unread = version->out_count == 0 && is_figure(finder, memory->alloc, version->hi - version->lo);
    struct seen *seen = FIND(it, finder->seen, finder->seen_count,
                             it->written.writer == writer && it->memory == version->memory &&
                                 it->written.lo == version->lo && it->written.hi == version->hi);
    if (seen != NULL) {
        seen->periods += 1;
        seen->written.unread = seen->written.unread && unread;
        return;
    }
    *GROWN(finder->seen, finder->seen_count) = (struct seen){.written = {.writer = writer,
                                                                         .unread = unread,
                                                                         .alloc = memory->alloc,
                                                                         .ordinal = memory->ordinal,
                                                                         .bytes = memory->bytes,
                                                                         .lo = version->lo,
                                                                         .hi = version->hi},
                                                             .memory = version->memory,
                                                             .periods = 1};
}

COMPARES(by_place, struct seen,
         COMPARE(a, b, written.writer, COMPARE(a, b, written.alloc, COMPARE(a, b, written.lo, 0))))

/* Adds bytes to the plan, joined with the last ones where they are of one kind and touch. */
static void
add_written(struct reads *reads, const struct play_written *written)
{
    struct play_written *last = reads->written_count > 0 ? &reads->written[reads->written_count - 1] : NULL;
    if (last != NULL && last->writer == written->writer && last->alloc == written->alloc && last->hi == written->lo &&
        last->moves == written->moves && last->unread == written->unread)
        last->hi = written->hi;
    else
        reads->written[reads->written_count++] = *written;
}

/* Whether the operation writes to another place like this one in other periods, and not here in some: in the same
 * memory, or in memory as large. Where there is none, it writes here in some periods only, as a count of hits. */
static bool
is_elsewhere(const struct finder *finder, const struct seen *place)
{
    uint32_t periods = finder->graph->count / finder->graph->period;
    return place->periods != periods &&
           ANY(other, finder->seen, finder->seen_count,
               other != place && other->periods != periods && other->written.writer == place->written.writer &&
                   other->written.bytes == place->written.bytes);
}

/* Lists what each operation writes and the host may read later, in the order of operations and bytes. */
static void
find_writes(struct finder *finder)
{
    FOR_EACH_VERSION(version, finder->graph)
        if (version->memory != HOST_MEMORY && is_of_step(finder, version) && class_of(finder, version) == READS_OF_STEP)
            note_write(finder, version);
    SORT(finder->seen, finder->seen_count, by_place);
    finder->reads->written = xcalloc(finder->seen_count + 1, sizeof(*finder->reads->written));
    FOR_EACH_MUTABLE(seen, finder->seen, finder->seen_count) {
        seen->written.moves = is_elsewhere(finder, seen);
        seen->written.unread = seen->written.unread && !seen->written.moves; /* only the last place would be shown */
        add_written(finder->reads, &seen->written);
    }
    free(finder->seen);
}

void
reads_find(const struct graph *graph, const enum play_part *parts, const unsigned char *classes, uint32_t state_before,
           struct reads *reads)
{
    *reads = (struct reads){.by_operation = xcalloc(graph->period + 1, sizeof(*reads->by_operation))};
    struct finder finder = {
        .graph = graph, .parts = parts, .classes = classes, .state_before = state_before, .reads = reads};
    find_reads(&finder);
    find_writes(&finder);
}

void
reads_free(struct reads *reads)
{
    free(reads->by_operation);
    free(reads->written);
    *reads = (struct reads){0};
}
