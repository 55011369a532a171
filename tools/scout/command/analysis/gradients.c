/*
 * gradients.c - gradients: where a parameter's way up ends.
 */
#include "tools/scout/command/analysis/rules.h"

#include "tools/common/grown.h"
#include "tools/common/owned.h"

/* What a parameter's way up finds. */
struct way {
    const struct graph *graph;
    struct scout_finding *finding;
    const struct graph_version *parameter;
    uint32_t tensor; /* of the finding */
    bool *visited;
    bool follows; /* the way goes through another parameter's new value */
    bool own;     /* it ends at the parameter */
    bool is_part; /* of 16 bits, the gradient goes on beyond the parameter */
};

uint32_t
gradients_add_tensor(struct scout_finding *finding, enum scout_role role, uint32_t alloc, struct scout_range at,
                     uint32_t type, uint32_t pair, uint32_t writer)
{
    FOR_EACH(other, finding->tensors, finding->tensor_count) {
        /* what is written there for another parameter, by another launch, is another gradient */
        bool is_other = role == ROLE_GRADIENT && other->writer != writer && other->pair != pair;
        if (other->role == role && other->alloc == alloc && other->lo == at.lo && other->hi == at.hi && !is_other)
            return NUMBER_OF(other);
    }
    *GROWN(finding->tensors, finding->tensor_count) = (struct scout_tensor){.role = role,
                                                                            .alloc = alloc,
                                                                            .lo = at.lo,
                                                                            .hi = at.hi,
                                                                            .type = type,
                                                                            .pair = pair,
                                                                            .group = GROUP_NONE,
                                                                            .writer = writer};
    return finding->tensor_count - 1;
}

uint32_t
gradients_log_op(const struct graph *graph, const struct graph_version *version)
{
    return graph->first + (uint32_t)(version->op < 0 ? 0 : version->op);
}

/* The version that a gradient is copied to as it is, if it leads to parameters in no other way: there all of it may lie
 * together. Moves [*lo, *hi) along. */
static struct graph_version *
follow_copies(const struct graph *graph, struct graph_version *version, uint64_t *lo, uint64_t *hi)
{
    for (;;) {
        const struct graph_edge *only = NULL;
        FOR_EACH(out, version->out, version->out_count) {
            const struct graph_edge *edge = *out;
            if (!edge_leads(edge))
                continue;
            if (only != NULL || !edge->to->chain || !edge->elementwise || edge->to->op < 0 ||
                graph_op(graph, edge->to)->kind != SCOUT_COPY)
                return version;
            only = edge;
        }
        if (only == NULL || only->to->parameter)
            return version;
        *lo = *lo - only->map.from_base + only->map.to_base;
        *hi = *hi - only->map.from_base + only->map.to_base;
        version = only->to;
    }
}

/* Ends a parameter's way up at bytes [lo, hi) of a version: it is a gradient, or the parameter itself where it has none
 * of its own. */
static void
end_way(struct way *way, struct graph_version *version, uint64_t lo, uint64_t hi)
{
    if (version != way->parameter)
        version = follow_copies(way->graph, version, &lo, &hi);
    version->gradient = true;
    if (version == way->parameter) {
        way->own = true;
        return;
    }
    way->is_part =
        way->is_part || (scout_type_bytes(version->type) == sizeof(uint16_t) && (version->lo < lo || version->hi > hi));
    uint64_t limit = way->graph->memories[version->memory].bytes;
    uint32_t gradient = gradients_add_tensor(way->finding, ROLE_GRADIENT, version_alloc(way->graph, version),
                                             (struct scout_range){lo, hi < limit ? hi : limit}, version->type,
                                             way->tensor, gradients_log_op(way->graph, version));
    struct scout_tensor *parameter = &way->finding->tensors[way->tensor];
    if (parameter->pair == PAIR_NONE)
        parameter->pair = gradient;
}

/* Follows the way from bytes [lo, hi) of a version upwards. */
static void
go_up(struct way *way, struct graph_version *version, uint64_t lo, uint64_t hi)
{
    if (way->visited[version->number])
        return;
    way->visited[version->number] = true;
    way->follows = way->follows || (version->parameter && version != way->parameter);
    if (!elementwise_goes_on(way->graph, version)) {
        end_way(way, version, lo, hi);
        return;
    }
    FOR_EACH_IN(edge, version) {
        struct graph_version *from = edge->from;
        if (!elementwise_leads_up(edge))
            continue;
        if (!from->chain) {
            from->gradient |= elementwise_is_rest(version, from); /* averaged with what follows it */
            continue;
        }
        uint64_t image_lo = from->lo, image_hi = from->hi;
        const struct graph_map *map = &edge->map;
        if (edge->elementwise && hi > map->to_base) {
            uint64_t begin = lo > map->to_base ? lo - map->to_base : 0;
            image_lo = map->from_base + begin / map->to_bytes * map->from_bytes;
            image_hi = map->from_base + (hi - map->to_base + map->to_bytes - 1) / map->to_bytes * map->from_bytes;
        }
        if (image_lo < from->hi && image_hi > from->lo) /* the way's elements */
            go_up(way, from, image_lo, image_hi);
    }
}

/* Whether a small input is a part of something large, as the errors of a few records are, and no number that scales: it
 * comes from large memory, which may lie on the device, or element by element from what does. `vectors`: the same of
 * all versions before it, of which it is computed. */
static bool
is_vector(const struct graph_version *version, const bool *vectors)
{
    return (version->source && !version->constant) ||
           ANY_IN(edge, version,
                  (elementwise_matters(edge) || edge->from->op == VERSION_BEFORE) && !edge->from->chain &&
                      (!elementwise_may_scale(edge->from) || (edge->elementwise && vectors[edge->from->number])));
}

/* Whether an edge brings factors of many elements to a version of the chain. */
static bool
scales_chain(const struct graph_edge *edge)
{
    if (!version_in_period(edge->to) || !edge->to->chain)
        return false;
    if (edge->goes || !elementwise_matters(edge) || edge->from->bytes <= ELEMENT_BYTES)
        return false;
    return elementwise_may_scale(edge->from) && !elementwise_has_others(edge->to);
}

bool
gradients_find_vectors(struct graph *graph)
{
    OWNED bool *vectors = xcalloc(graph->version_count + 1, sizeof(*vectors));
    bool some = false;
    FOR_EACH_VERSION(version, graph)
        vectors[version->number] = is_vector(version, vectors);
    FOR_EACH(edge, graph->edges, graph->edge_count) {
        struct graph_version *from = edge->from;
        if (!scales_chain(edge))
            continue;
        from->vector = vectors[from->number];
        some = some || from->vector;
    }
    return some;
}

bool
gradients_find_kept_sums(struct graph *graph)
{
    bool some = false;
    const struct graph_version *last;
    FOR_EACH_VERSION(version, graph)
        if (version->parameter && version->inner && !elementwise_goes_on(graph, version) &&
            elementwise_parameters_behind(graph, version, &last) > 0)
            version->carried = some = true;
    for (uint32_t i = 0; i < graph->version_count && some; ++i) {
        struct graph_version *version = &graph->versions[i];
        version->carried = version->carried || (version->parameter && !stays_from_itself(graph, version));
        version->parameter = version->parameter && !version->carried;
    }
    return some;
}

/* Whether the launch that updates a parameter may reach more of its memory. */
static bool
reaches_further(const struct graph *graph, const struct graph_version *version)
{
    const struct scout_argument *it = version_argument(graph, version, graph_op(graph, version));
    return it != NULL && it->end - it->offset > version->hi - version->lo;
}

void
gradients_find(struct graph *graph, struct scout_finding *finding)
{
    FOR_EACH_VERSION(version, graph) {
        if (!version->parameter)
            continue;
        OWNED bool *visited = xcalloc(graph->version_count, sizeof(*visited));
        struct way way = {.graph = graph, .finding = finding, .parameter = version, .visited = visited};
        way.tensor = gradients_add_tensor(finding, ROLE_PARAMETER, version_alloc(graph, version),
                                          (struct scout_range){version->lo, version->hi}, version->type, PAIR_NONE,
                                          gradients_log_op(graph, version));
        go_up(&way, version, version->lo, version->hi);
        if (way.follows && !way.own)
            finding->tensors[way.tensor].role = ROLE_AVERAGE;
        finding->tensors[way.tensor].fused = way.own;
        finding->tensors[way.tensor].cut = way.is_part && reaches_further(graph, version);
    }
}
