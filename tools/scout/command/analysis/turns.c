/* turns.c - see turns.h. */
#include "tools/scout/command/analysis/turns.h"

#include "tools/common/grown.h"
#include "tools/common/owned.h"

/* What an operation of the period writes, in any of the recorded periods. */
struct writes {
    bool any;      /* memory of the device */
    bool host;     /* a copy to the host, or an answer */
    bool gradient; /* a part of one, at least */
    bool own;      /* memory that each rank has for itself */
    bool common;   /* other memory that a later period reads */
    bool update;   /* after the place: from gradients, or what is computed from gradients */
};

struct sorter {
    const struct graph *graph;
    const struct scout_finding *finding;
    struct turns *turns;
    struct writes *writes; /* [period] */
    uint32_t *root;        /* [period]: the operation for which all make this one */
    uint32_t *noise;       /* noise_find() */
    uint32_t before;
};

bool
turns_take_reason(struct turns *turns, char *reason)
{
    free(turns->reason);
    turns->reason = reason;
    return false;
}

const char *
turns_op_name(const struct graph *graph, uint32_t at, char text[SCOUT_NAME_BYTES])
{
    return scout_op_name(graph->log, &graph->log->ops[graph->first + at], text);
}

/* Whether a range is like the last one, and begins where that ends. */
static bool
range_continues(const struct turns_range *last, const struct turns_range *range)
{
    if (last->alloc != range->alloc || last->hi != range->lo)
        return false;
    if (last->role != range->role || last->type != range->type || last->width != range->width)
        return false;
    return last->is_overwritten == range->is_overwritten && last->is_in_place == range->is_in_place &&
           last->may_be_sum == range->may_be_sum && last->may_decide == range->may_decide;
}

void
turns_add_range(struct turns *turns, const struct turns_range *range)
{
    struct turns_range *last = turns->range_count > 0 ? &turns->ranges[turns->range_count - 1] : NULL;
    if (last != NULL && range_continues(last, range)) {
        last->hi = range->hi;
        last->written_before =
            range->written_before > last->written_before ? range->written_before : last->written_before;
    } else {
        *GROWN(turns->ranges, turns->range_count) = *range;
    }
}

/* ---- places ---- */

/* How many bytes from `lo` on tensors hold; of gradients, or of what ranks have for themselves. */
static uint64_t
held_from(const struct sorter *sorter, int32_t memory, uint64_t lo, bool gradients)
{
    uint64_t end = lo;
    FOR_EACH(tensor, sorter->finding->tensors, sorter->finding->tensor_count) {
        bool is_own = tensor->role == ROLE_STATISTICS || tensor->role == ROLE_CARRIED;
        if ((gradients ? tensor->role == ROLE_GRADIENT : is_own) &&
            (int32_t)sorter->graph->memory_of[tensor->alloc] == memory && tensor->lo <= lo && tensor->hi > end)
            end = tensor->hi;
    }
    return end - lo;
}

/* Whether all bytes of the version are memory of one rank alone, or (`gradients`) gradients. */
static bool
is_held(const struct sorter *sorter, const struct graph_version *version, bool gradients)
{
    for (uint64_t at = version->lo, bytes; at < version->hi; at += bytes) {
        bytes = held_from(sorter, version->memory, at, gradients);
        if (bytes == 0)
            return false;
    }
    return true;
}

/* Whether the version has bytes of a gradient. */
static bool
meets_gradient(const struct sorter *sorter, const struct graph_version *version)
{
    return ANY(tensor, sorter->finding->tensors, sorter->finding->tensor_count,
               tensor->role == ROLE_GRADIENT && (int32_t)sorter->graph->memory_of[tensor->alloc] == version->memory &&
                   tensor->lo < version->hi && version->lo < tensor->hi);
}

/* Whether an operation of a later period reads the version. The host may read whatever is there. */
static bool
is_read_later(const struct sorter *sorter, const struct graph_version *version)
{
    return !scout_is_scratch(sorter->finding, version_alloc(sorter->graph, version), version->lo, version->hi) &&
           ANY_OUT(out, version, out->to->memory != HOST_MEMORY && out->to->period > version->period);
}

/* ---- what operations write ---- */

bool
turns_moves_generators(const struct scout_log *log, uint32_t op)
{
    return ANY_NUMBER(i, 0, log->ops[op].argument_count,
                      log->allocs[log->ops[op].arguments[i].alloc].memory == SCOUT_GENERATORS);
}

/* Fills sorter->writes: what kinds of memory each operation of the period writes. */
static void
note_writes(struct sorter *sorter)
{
    const struct graph *graph = sorter->graph;
    FOR_EACH_VERSION(version, graph) {
        if (version->op < 0)
            continue;
        struct writes *writes = &sorter->writes[version->position];
        if (version->memory == HOST_MEMORY) {
            writes->host = true;
            continue;
        }
        bool own = is_held(sorter, version, false), gradient = is_held(sorter, version, true);
        writes->any = true;
        writes->gradient = writes->gradient || meets_gradient(sorter, version);
        writes->own = writes->own || own;
        writes->common = writes->common || (!own && !gradient && is_read_later(sorter, version));
    }
    for (uint32_t at = 0; at < sorter->graph->period; ++at) {
        bool moves = turns_moves_generators(graph->log, sorter->finding->first + at);
        sorter->writes[at].any = sorter->writes[at].any || moves;
        sorter->writes[at].common = sorter->writes[at].common || moves;
    }
}

/* Whether a version, after the place where gradients are averaged, is of the update: computed from gradients, or in
 * memory that the update writes. */
static bool
is_updated(const struct sorter *sorter, const struct graph_version *version)
{
    return ANY_IN(edge, version,
                  meets_gradient(sorter, edge->from) ||
                      (edge->from->period == version->period && sorter->writes[edge->from->position].update)) ||
           ANY_VERSION(other, sorter->graph,
                       other->op >= 0 && version_overlaps(other, version) && sorter->writes[other->position].update &&
                           is_read_later(sorter, other));
}

/* Marks operations after the average that write a gradient, or what depends on one, until nothing new is found. */
static void
note_updates(struct sorter *sorter)
{
    const struct graph *graph = sorter->graph;
    for (bool more = true; more;) {
        more = false;
        FOR_EACH_VERSION(version, graph) {
            if (version->op < 0 || version->memory == HOST_MEMORY || version->position < sorter->before)
                continue;
            struct writes *writes = &sorter->writes[version->position];
            if (writes->update || (!writes->gradient && !is_updated(sorter, version)))
                continue;
            writes->update = true;
            more = true;
        }
    }
}

/* ---- parts ---- */

/* Whether an operation reads what one rank's turn has left, other than a gradient. */
static bool
reads_turn(const struct sorter *sorter, uint32_t at)
{
    return ANY(edge, sorter->graph->edges, sorter->graph->edge_count,
               edge->to->op >= 0 && edge->to->position == at && edge->from->op >= 0 &&
                   !is_held(sorter, edge->from, true) && sorter->turns->parts[edge->from->position] == PLAY_BY_TURN);
}

/* Who makes operation `at` of the period, if only its own writes count: settle_reads() may change it. */
static enum play_part
part_of(const struct sorter *sorter, uint32_t at)
{
    const struct writes *writes = &sorter->writes[at];
    bool is_behind = at >= sorter->before;
    if (!writes->any && writes->host)
        return PLAY_BY_ALL;
    if (!writes->any)
        return is_behind ? PLAY_BY_LAST : PLAY_BY_TURN;
    if (!is_behind)
        return writes->common ? PLAY_BY_ALL : PLAY_BY_TURN;
    if (writes->update)
        return PLAY_BY_LAST;
    if (writes->common)
        return PLAY_BY_ALL;
    return reads_turn(sorter, at) || scout_brings_data(&sorter->graph->log->ops[sorter->finding->first + at])
               ? PLAY_BY_TURN
               : PLAY_BY_LAST;
}

/* Whether an operation may read a version. What is made for the update alone, in front of it, no other may read. */
static bool
may_read(const struct sorter *sorter, const struct graph_version *to, const struct graph_version *from)
{
    enum play_part part = sorter->turns->parts[to->position];
    enum play_part its = from->op >= 0 ? sorter->turns->parts[from->position] : PLAY_BY_ALL;
    if (its == PLAY_BY_LAST && from->position < sorter->before)
        return part == PLAY_BY_LAST;
    if (part == PLAY_BY_TURN || its == PLAY_BY_ALL || to->memory == HOST_MEMORY)
        return true;
    if (its == PLAY_BY_LAST)
        return part == PLAY_BY_LAST || is_read_later(sorter, from);
    return part == PLAY_BY_LAST && is_held(sorter, from, true) && from->position < sorter->before;
}

/* Lets all ranks make those operations whose results a read of theirs needs, until each read finds what it needs.
 * False, with the reason: what is the same on all ranks would depend on data of one rank. */
static bool
settle_reads(struct sorter *sorter)
{
    const struct graph *graph = sorter->graph;
    for (bool more = true; more;) {
        more = false;
        FOR_EACH(edge, graph->edges, graph->edge_count) {
            const struct graph_version *to = edge->to, *from = edge->from;
            char reader[SCOUT_NAME_BYTES], writer[SCOUT_NAME_BYTES];
            if (to->op < 0 || may_read(sorter, to, from))
                continue;
            uint32_t at = from->position;
            /* Scratch that the rank in turn fills, and that the update alone reads. */
            bool for_update = from->in_count == 0 && !from->from_host && sorter->turns->parts[at] == PLAY_BY_TURN &&
                              sorter->turns->parts[to->position] == PLAY_BY_LAST;
            sorter->root[at] = sorter->root[to->position];
            /* scratch that is computed from what is the same on all ranks may be computed by all */
            const struct writes *writes = &sorter->writes[at];
            if (writes->gradient || writes->own || writes->update ||
                scout_brings_data(&graph->log->ops[sorter->finding->first + at]))
                return turns_refuse(
                    sorter->turns,
                    "%s writes memory that is the same on all ranks, and depends on data of one rank, by %s",
                    turns_op_name(graph, sorter->root[at], reader), turns_op_name(graph, at, writer));
            sorter->turns->parts[at] = for_update ? PLAY_BY_LAST : PLAY_BY_ALL;
            more = true;
        }
    }
    return true;
}

/* ---- what cannot be played by turns ---- */

/* Whether an edge computes a gradient, after the place, from more than averaged gradients and single numbers. */
static bool
computes_gradient_late(const struct sorter *sorter, const struct graph_edge *edge)
{
    const struct graph_version *to = edge->to, *from = edge->from;
    if (to->op < 0 || to->memory == HOST_MEMORY || to->position < sorter->before)
        return false;
    if (edge->elementwise || from->bytes <= SCALAR_BYTES)
        return false;
    return meets_gradient(sorter, to) && !is_held(sorter, from, true);
}

/* False, with the reason: gradients are computed after the place where the first ones are averaged, as in a period
 * with more than one step. */
static bool
judge_gradients(const struct sorter *sorter)
{
    const struct graph *graph = sorter->graph;
    char name[SCOUT_NAME_BYTES];
    FOR_EACH(edge, graph->edges, graph->edge_count) {
        if (computes_gradient_late(sorter, edge))
            return turns_refuse(sorter->turns, "%s computes gradients after the place where they are averaged",
                                turns_op_name(graph, edge->to->position, name));
    }
    return true;
}

/* Whether the host's numbers for an operation differ from batch to batch. */
static bool
has_own_numbers(const struct sorter *sorter, uint32_t at)
{
    const struct scout_op *op = &sorter->graph->log->ops[sorter->finding->first + at];
    return at + sorter->graph->period < sorter->graph->count && op->scalars != op[sorter->graph->period].scalars;
}

/* False, with the reason: what changes averaged gradients is not alike for all batches of a round. A mask that is
 * drawn for each is not; what the host computes, once it has read something after the place, may be a clipping. What
 * the update changes must not change in each batch, too, as by a decay in front of it, or noise that is taken off
 * again after the place. */
static bool
judge_changes(const struct sorter *sorter)
{
    const struct graph *graph = sorter->graph;
    uint32_t read_at = sorter->before;
    while (read_at < sorter->graph->period && !sorter->writes[read_at].host)
        ++read_at;
    FOR_EACH(edge, graph->edges, graph->edge_count) {
        const struct graph_version *to = edge->to, *from = edge->from;
        char name[SCOUT_NAME_BYTES], other[SCOUT_NAME_BYTES];
        if (to->op < 0 || from->op < 0 || to->position < sorter->before || to->period != from->period)
            continue;
        uint32_t at = to->position, source = from->position;
        bool is_gradient = is_held(sorter, from, true), stays = is_read_later(sorter, to);
        bool by_all = !is_gradient && source < sorter->before && sorter->turns->parts[source] == PLAY_BY_ALL &&
                      (from->in_count > 0 || has_own_numbers(sorter, source));
        if (by_all && stays && version_overlaps(from, to) && sorter->turns->parts[at] == PLAY_BY_LAST)
            return turns_refuse(sorter->turns, "%s changes in each batch what %s changes in each update",
                                turns_op_name(graph, source, name), turns_op_name(graph, at, other));
        bool is_of_update = !stays && to->out_count > 0 && meets_gradient(sorter, to); /* which reads it */
        if (is_of_update && (by_all || (is_gradient && at < read_at && has_own_numbers(sorter, at))))
            return turns_refuse(sorter->turns, "%s changes averaged gradients by what differs from batch to batch",
                                turns_op_name(graph, at, name));
    }
    return true;
}

/* False, with the reason: the operation at `at` of the period writes what no single part of a round can. */
static bool
judge_operation(const struct sorter *sorter, uint32_t at)
{
    const struct scout_op *op = &sorter->graph->log->ops[sorter->finding->first + at];
    const struct writes *writes = &sorter->writes[at];
    bool is_update = sorter->turns->parts[at] == PLAY_BY_LAST;
    char name[SCOUT_NAME_BYTES];
    (void)turns_op_name(sorter->graph, at, name);
    if (writes->common && (writes->own || (writes->gradient && !is_update)))
        return turns_refuse(sorter->turns, "%s writes memory that is the same on all ranks beside %s", name,
                            writes->own ? "memory of one rank" : "gradients");
    if (writes->host && writes->any && sorter->turns->parts[at] != PLAY_BY_ALL)
        return turns_refuse(sorter->turns, "%s gives the host a result, and writes memory that one rank computes",
                            name);
    if (op->effect != NULL && op->effect->hidden_write != SCOUT_NONE)
        return turns_refuse(sorter->turns, "%s writes memory that is not among its arguments", name);
    if (op->effect != NULL && op->kind == SCOUT_LAUNCH && op->effect->verdict == SCOUT_DIFFERS)
        return turns_refuse(sorter->turns, "the same launch of %s twice gives different results", name);
    return true;
}

/* False, with the reason: a tensor is made again in each step, or a gradient's type is not known. */
static bool
judge_tensors(const struct sorter *sorter)
{
    FOR_EACH(tensor, sorter->finding->tensors, sorter->finding->tensor_count) {
        if (scout_is_remade(sorter->graph->log, sorter->finding, tensor->alloc))
            return turns_refuse(sorter->turns, "a%u is freed and made again in each step", tensor->alloc);
        if (tensor->role == ROLE_GRADIENT && tensor->guessed)
            return turns_refuse(sorter->turns,
                                "the type of the sum in gradient a%u is not known: no kernel or library call has it",
                                tensor->alloc);
    }
    return true;
}

/* ---- what stays ---- */

/* Whether a turn has left something in a memory that is no gradient. Next time it may do so in another place of it. */
static bool
has_scratch(const struct sorter *sorter, const struct graph_memory *memory)
{
    const struct graph_version *versions = sorter->graph->versions;
    return ANY(span, memory->spans, memory->span_count,
               versions[span->version].op >= 0 &&
                   sorter->turns->parts[versions[span->version].position] == PLAY_BY_TURN &&
                   !is_held(sorter, &versions[span->version], true));
}

/* Whether a loader's copies, and nothing else, write a memory, as they do one in the period: it may be ahead by another
 * number of batches in each run. */
static bool
is_loaded(const struct sorter *sorter, uint32_t memory)
{
    const struct scout_log *log = sorter->graph->log;
    const struct scout_alloc *alloc = &log->allocs[sorter->graph->memories[memory].alloc];
    return ANY_NUMBER(i, sorter->finding->first, sorter->finding->first + sorter->graph->period,
                      log->ops[i].ahead != 0 && log->allocs[log->ops[i].to.alloc].bytes == alloc->bytes) &&
           ALL(op, log->ops, log->op_count,
               op->ahead != 0 || (op->kind != SCOUT_COPY && op->kind != SCOUT_FILL) || op->to.alloc == SCOUT_NONE ||
                   sorter->graph->memory_of[op->to.alloc] != memory) &&
           ALL(version, sorter->graph->versions, sorter->graph->version_count,
               version->memory != (int32_t)memory || version->op < 0 || graph_op(sorter->graph, version)->ahead != 0);
}

/* Whether what a span has after the period stays. */
static bool
span_stays(const struct sorter *sorter, const struct graph_memory *memory, const struct graph_span *span)
{
    const struct graph *graph = sorter->graph;
    const struct graph_version *version = &graph->versions[span->version];
    const int32_t m = (int32_t)(memory - graph->memories);
    if (version->op < 0)
        return !has_scratch(sorter, memory);
    if (sorter->turns->parts[version->position] == PLAY_BY_TURN)
        return false;
    return ANY_VERSION(it, graph,
                       it->memory == m && it->lo < span->hi && span->lo < it->hi && is_read_later(sorter, it));
}

/* The role in the plan of memory that is kept from round to round, by its last version. */
static enum play_role
role_of_kept(const struct graph_version *version)
{
    if (version->op >= 0)
        return PLAY_STAYS;
    return version->out_count > 0 ? PLAY_UNWRITTEN : PLAY_UNREAD;
}

/* Adds the memory that must be the same after a round as in one process. */
static void
find_stays(struct sorter *sorter)
{
    const struct graph *graph = sorter->graph;
    FOR_EACH(memory, graph->memories, graph->memory_count) {
        const uint32_t kind = graph->log->allocs[memory->alloc].memory;
        const bool is_of_host = kind == SCOUT_PINNED || kind == SCOUT_SCRATCH;
        if (is_of_host || scout_is_remade(graph->log, sorter->finding, memory->alloc) ||
            is_loaded(sorter, NUMBER_OF(memory)))
            continue;
        FOR_EACH(span, memory->spans, memory->span_count) {
            const struct graph_version *version = &graph->versions[span->version];
            const uint32_t type = version->type != SCOUT_UNKNOWN ? version->type : SCOUT_FLOAT32;
            const bool has_noise = sorter->noise[span->version] != 0; /* it is compared by values */
            const struct turns_range range = {.role = role_of_kept(version),
                                              .type = has_noise ? type : SCOUT_UNKNOWN,
                                              .alloc = memory->alloc,
                                              .lo = span->lo,
                                              .hi = span->hi};
            if (span_stays(sorter, memory, span))
                turns_add_range(sorter->turns, &range);
        }
    }
}

/* Whether a gradient's version in front of the place is computed from gradients and scalars: it is scaled. */
static bool
is_scaled(const struct sorter *sorter, const struct graph_version *version)
{
    const struct graph *graph = sorter->graph;
    bool from_gradients = false, from_others = false;
    if (version->op < 0 || version->memory == HOST_MEMORY || version->position >= sorter->before ||
        !meets_gradient(sorter, version) || graph_op(graph, version)->kind == SCOUT_COPY)
        return false;
    FOR_EACH_IN(edge, version) {
        if (is_held(sorter, edge->from, true))
            from_gradients = true;
        else if (edge->from->bytes > SCALAR_BYTES || edge->elementwise)
            from_others = true;
    }
    return from_gradients && !from_others;
}

/* What ranks compute after the average, or all of them, is the same on all but for noise, and what the host reads of
 * it is what rank 0 has. Noise of one rank's turn ends where gradients are averaged. */
static void
find_noise(const struct sorter *sorter)
{
    const struct graph *graph = sorter->graph;
    OWNED bool *by_turn = xcalloc(graph->period + 1, sizeof(*by_turn));
    OWNED bool *is_clean = xcalloc(graph->version_count + 1, sizeof(*is_clean));
    for (uint32_t at = 0; at < graph->period; ++at)
        by_turn[at] = sorter->turns->parts[at] == PLAY_BY_TURN;
    FOR_EACH_VERSION(version, graph) {
        is_clean[version->number] = version->op >= 0 && version->memory != HOST_MEMORY &&
                                    version->position < sorter->before && meets_gradient(sorter, version);
    }
    OWNED uint32_t *between = noise_find(graph, by_turn, is_clean);
    FOR_EACH_VERSION(version, graph) {
        uint32_t i = version->number;
        struct reads_of *of = &sorter->turns->reads.by_operation[version->position];
        sorter->noise[i] = between[i] != 0 ? between[i] : sorter->noise[i]; /* for this one ranks differ */
        if (between[i] != 0 && version->op >= 0 && version->memory == HOST_MEMORY && of->kind == PLAY_READS_ALIKE)
            of->kind = PLAY_READS_FIRST;
    }
    noise_note(graph, sorter->noise, sorter->turns);
}

/* Decides for each operation of the period who makes it, and what the host may read. False, with the reason: it cannot
 * be so. */
static bool
sort_operations(struct sorter *sorter)
{
    note_writes(sorter);
    note_updates(sorter);
    for (uint32_t i = 0; i < sorter->graph->period; ++i) {
        sorter->turns->parts[i] = part_of(sorter, i);
        sorter->root[i] = i;
    }
    bool ok = judge_tensors(sorter) && judge_gradients(sorter);
    for (uint32_t i = 0; i < sorter->graph->period && ok; ++i)
        ok = judge_operation(sorter, i);
    ok = ok && settle_reads(sorter) && judge_changes(sorter);
    sorter->turns->is_scaled = ANY_VERSION(it, sorter->graph, is_scaled(sorter, it));
    reads_find(sorter->graph, sorter->turns->parts, NULL, 0, &sorter->turns->reads);
    find_noise(sorter);
    if (ok)
        find_stays(sorter);
    return ok;
}

void
turns_find(const struct scout_log *log, const struct scout_finding *finding, struct turns *turns)
{
    struct scout_log lent;
    struct graph graph;
    *turns = (struct turns){.parts = xcalloc(finding->period + 1, sizeof(*turns->parts)), .first = finding->first};
    struct sorter sorter = {.graph = &graph,
                            .finding = finding,
                            .turns = turns,
                            .writes = xcalloc(finding->period + 1, sizeof(*sorter.writes)),
                            .root = xcalloc(finding->period + 1, sizeof(*sorter.root)),
                            .before = finding->group_count > 0 ? finding->groups[0].before - finding->first : 0};
    borrow_make(log, finding->begin, finding->end, finding->period, READING_OLD, &lent);
    graph_build(&lent, finding->first, finding->period, (finding->end - finding->first) / finding->period, &graph);
    sorter.noise = noise_find(&graph, NULL, NULL);
    (void)sort_operations(&sorter);
    graph_free(&graph);
    borrow_free(&lent);
    free(sorter.noise);
    free(sorter.writes);
    free(sorter.root);
}

void
turns_free(struct turns *turns)
{
    free(turns->reason);
    free(turns->parts);
    free(turns->ranges);
    free(turns->noisy);
    reads_free(&turns->reads);
    *turns = (struct turns){0};
}
