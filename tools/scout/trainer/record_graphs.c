/*
 * record_graphs.c - see scout.h. Captures that are open at the same time are one: what they hold is given to
 * each graph that they become, which is more than the graph has, never less.
 */
#include "tools/scout/trainer/scout.h"

enum { NODES_STRIDE = 1000 };

/* What was captured into a graph, or what an executable graph was made of. */
struct known_graph {
    void *handle;
    struct scout_argument *arguments;
    uint32_t argument_count;
    uint32_t nodes;
    bool incomplete; /* something in it has arguments that are not known */
};

static struct known_graph *graphs;
static size_t graph_count;
static struct known_graph captured; /* by the captures that are open */
static _Atomic unsigned captures_open;

bool
graphs_capture_is_open(void)
{
    return captures_open > 0;
}

void
graphs_capture(const struct noted *noted)
{
    uint32_t first = captured.nodes++ * NODES_STRIDE;
    captured.incomplete = captured.incomplete || noted->opaque || noted->unknown || noted->too_many;
    FOR_EACH(argument, noted->arguments, noted->op.argument_count) {
        struct scout_argument *added = SCOUT_GROWN(captured.arguments, captured.argument_count);
        *added = *argument;
        added->slot += first;
    }
    const struct scout_place *places[] = {&noted->op.to, &noted->op.from};
    bool moves = noted->op.kind == SCOUT_COPY || noted->op.kind == SCOUT_FILL;
    for (uint32_t i = 0; i < 2 && moves; ++i) {
        if (places[i]->alloc != SCOUT_NONE)
            *SCOUT_GROWN(captured.arguments, captured.argument_count) =
                (struct scout_argument){.slot = first + i,
                                        .alloc = places[i]->alloc,
                                        .offset = places[i]->offset,
                                        .end = places[i]->offset + noted->op.bytes * noted->op.rows};
    }
}

static struct known_graph *
find_known_graph(void *handle)
{
    for (size_t i = graph_count; i-- > 0;) {
        if (graphs[i].handle == handle)
            return &graphs[i];
    }
    return NULL;
}

static void
keep_graph(void *handle, const struct known_graph *from)
{
    struct known_graph copy = {.handle = handle, .incomplete = from->incomplete};
    FOR_EACH(argument, from->arguments, from->argument_count)
        *SCOUT_GROWN(copy.arguments, copy.argument_count) = *argument;
    *SCOUT_GROWN(graphs, graph_count) = copy; /* `from` may be one of them */
}

void
graphs_describe(struct noted *noted, CUgraphExec graph)
{
    const struct known_graph *known = find_known_graph(graph);
    noted->op.kind = SCOUT_GRAPH;
    noted->unknown = known == NULL || known->incomplete;
    for (uint32_t i = 0; known != NULL && i < known->argument_count; ++i) {
        if (noted->op.argument_count == ARGUMENTS_AT_MOST) {
            noted->too_many = true;
            return;
        }
        noted->arguments[noted->op.argument_count++] = known->arguments[i];
    }
}

void
record_capture_begun(CUstream stream, bool into_graph, bool done)
{
    (void)stream, (void)into_graph;
    scout_ensure_driver();
    if (!done)
        return;
    scout_lock();
    if (captures_open++ == 0) {
        free(captured.arguments);
        captured = (struct known_graph){0};
    }
    scout_unlock();
}

void
record_capture_ended(void *ended, const CUgraph *graph, bool done)
{
    (void)ended;
    scout_lock();
    if (captures_open > 0)
        --captures_open;
    if (done && graph != NULL && *graph != NULL)
        keep_graph(*graph, &captured);
    scout_unlock();
}

void
record_graph_made(CUgraph from, const CUgraphExec *made, uint64_t flags, bool done)
{
    (void)flags;
    if (!done || made == NULL)
        return;
    scout_lock();
    const struct known_graph *known = find_known_graph(from);
    const struct known_graph unknown = {.incomplete = true};
    keep_graph(*made, known != NULL ? known : &unknown);
    scout_unlock();
}
