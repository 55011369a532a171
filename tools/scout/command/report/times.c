/* times.c - see lines.h. */
#include "tools/scout/command/report/lines.h"

#include "tools/common/grown.h"

/* In which pass of the loop an operation of the period is; SCOUT_NONE: in none. */
static uint32_t
pass_of(const struct times *times, int64_t op)
{
    const uint32_t *calls = times->calls;
    uint32_t pass = 0, last = times->count - 1;
    if (op < calls[0] || op >= 2 * (int64_t)calls[last] - calls[last - 1])
        return SCOUT_NONE;
    while (pass < last && op >= calls[pass + 1])
        ++pass;
    return pass;
}

/* How far an argument of the launch moves on in its memory from pass to pass; UINT64_MAX: not as far each time. */
static uint64_t
stride_of(const struct times *times, uint32_t argument)
{
    const struct scout_argument *first = &times->ops[times->calls[0]].arguments[argument];
    uint64_t stride = UINT64_MAX;
    for (uint32_t i = 1; i < times->count; ++i) {
        const struct scout_op *op = &times->ops[times->calls[i]];
        const struct scout_argument *it = &op->arguments[argument];
        if (argument >= op->argument_count || it->alloc != first->alloc || it->offset < first->offset)
            return UINT64_MAX;
        stride = i == 1 ? it->offset - first->offset : stride;
        if (it->offset - first->offset != i * stride)
            return UINT64_MAX;
    }
    return stride;
}

/* Whether each pass gets the same parameter, and an argument that moves on. */
static bool
is_loop(const struct scout_finding *finding, const struct times *times)
{
    const struct scout_op *op = &times->ops[times->calls[0]];
    bool moves = false, same = false;
    FOR_EACH(it, op->arguments, op->argument_count) {
        uint64_t stride = stride_of(times, NUMBER_OF(it));
        moves = moves || (stride > 0 && stride != UINT64_MAX);
        same = same || (stride == 0 && ANY(tensor, finding->tensors, finding->tensor_count,
                                           tensor->role == ROLE_PARAMETER && tensor->alloc == it->alloc &&
                                               it->offset >= tensor->lo && it->offset < tensor->hi));
    }
    return moves && same;
}

/* Whether passes compute from what the one before has left in other memory: no loop over parts of a batch does. */
static bool
is_recurrent(const struct times *times)
{
    return ANY(edge, times->graph.edges, times->graph.edge_count,
               pass_of(times, edge->from->op) != SCOUT_NONE &&
                   pass_of(times, edge->to->op) == pass_of(times, edge->from->op) + 1 &&
                   !version_overlaps(edge->from, edge->to) && edge->to->memory != HOST_MEMORY);
}

/* The launches of the period from the place of this one; false: it is not the first of them. */
static bool
take_calls(struct times *times, uint32_t first)
{
    const struct scout_op *ops = times->ops;
    times->count = 0;
    if (ops[first].kind != SCOUT_LAUNCH || ANY_NUMBER(k, 0, first, ops[k].site == ops[first].site))
        return false;
    for (uint32_t k = first; k < times->graph.count; ++k)
        if (ops[k].site == ops[first].site && ops[k].name == ops[first].name)
            *GROWN(times->calls, times->count) = k;
    return true;
}

void
times_find(const struct scout_log *log, const struct scout_finding *finding, struct times *times)
{
    const struct scout_op *ops = &log->ops[finding->first];
    *times = (struct times){.ops = ops};
    graph_build(log, finding->first, finding->period, 1, &times->graph);
    for (uint32_t i = 0; i < finding->period; ++i)
        if (take_calls(times, i) && times->count > 1 && is_loop(finding, times) && is_recurrent(times))
            return;
    times->count = 0;
}

void
times_free(struct times *times)
{
    graph_free(&times->graph);
    free(times->calls);
}

/* How many passes an operation outside of the loop is computed from, or leads to, without another pass in between. */
static uint32_t
count_passes(const struct times *times, uint32_t op)
{
    const struct graph *graph = &times->graph;
    OWNED bool *marks = xcalloc(graph->version_count + 1, sizeof(*marks)),
               *passes = xcalloc(times->count, sizeof(*passes));
    bool is_before = op < times->calls[0];
    uint32_t count = 0;
    for (uint32_t n = 0; n < graph->version_count; ++n) {
        uint32_t at = is_before ? n : graph->version_count - 1 - n;
        const struct graph_version *version = &graph->versions[at];
        uint32_t pass = pass_of(times, version->op);
        if (!marks[at] && version->op != (int64_t)op)
            continue;
        if (pass != SCOUT_NONE) {
            count += !passes[pass];
            passes[pass] = true;
        }
        FOR_EACH_OUT_UNTIL(out, version, !is_before || pass != SCOUT_NONE)
            marks[out->to->number] = true;
        FOR_EACH_IN_UNTIL(in, version, is_before || pass != SCOUT_NONE)
            marks[in->from->number] = true;
    }
    return count;
}

/* Whether another loop of as many passes, such as that of the loss, moves on through all of the memory. */
static bool
moves_elsewhere(const struct times *times, uint32_t alloc, uint64_t bytes)
{
    struct times loop = {.ops = times->ops, .graph = times->graph};
    const uint32_t *memory_of = times->graph.memory_of;
    bool moves = false;
    for (uint32_t i = 0; i < times->graph.count && !moves; ++i)
        moves = take_calls(&loop, i) && loop.count == times->count &&
                ANY_NUMBER(a, 0, loop.ops[i].argument_count,
                           memory_of[loop.ops[i].arguments[a].alloc] == memory_of[alloc] &&
                               stride_of(&loop, a) == bytes / loop.count);
    free(loop.calls);
    return moves;
}

uint32_t
times_of(const struct times *times, uint32_t alloc, uint64_t bytes)
{
    const uint32_t *memory_of = times->graph.memory_of;
    uint32_t first = SCOUT_NONE, passes = 0, last = SCOUT_NONE;
    uint64_t begins[2] = {0, 0};
    for (uint32_t i = 0; i < times->graph.count && times->count > 0; ++i) {
        uint32_t pass = pass_of(times, i);
        FOR_EACH(argument, times->ops[i].arguments, times->ops[i].argument_count) {
            if (memory_of[argument->alloc] != memory_of[alloc])
                continue;
            first = first == SCOUT_NONE ? i : first;
            if (pass == SCOUT_NONE || pass == last)
                continue;
            if (passes < 2)
                begins[passes] = argument->offset;
            ++passes;
            last = pass;
        }
    }
    if (first == SCOUT_NONE)
        return 1;
    /* what moves on through all of it has a time step after the other; one more: what comes next */
    uint64_t stride = begins[1] - begins[0], steps = stride > 0 && bytes % stride == 0 ? bytes / stride : 0;
    if (passes > 0)
        return passes == times->count && (steps == passes || steps == passes + 1) ? (uint32_t)steps : 1;
    if (times->count > 0 && moves_elsewhere(times, alloc, bytes))
        return times->count;
    passes = count_passes(times, first);
    return passes <= 1 ? 1 : passes == times->count ? passes : 0;
}
