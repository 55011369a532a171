/*
 * gradients.c - gradients: where a parameter's way up ends.
 */
#include "tools/scout/command/analysis/rules.h"

#include "tools/common/grown.h"
#include "tools/common/owned.h"

/* What a parameter's way up finds. */
struct way {
    struct roles *roles;
    struct scout_finding *finding;
    uint32_t parameter; /* version */
    uint32_t tensor;    /* of the finding */
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
gradients_log_op(const struct roles *roles, uint32_t number)
{
    int32_t op = version_of(roles, number)->op;
    return roles->graph->first + (uint32_t)(op < 0 ? 0 : op);
}

/* The version that a gradient is copied to as it is, if it leads to parameters in no other way: there all of it may lie
 * together. Moves [*lo, *hi) along. */
static uint32_t
follow_copies(const struct roles *roles, uint32_t number, uint64_t *lo, uint64_t *hi)
{
    for (;;) {
        const struct graph_edge *only = NULL;
        for (uint32_t e = 0; e < version_of(roles, number)->out_count; ++e) {
            const struct graph_edge *edge = version_out_edge(roles, number, e);
            if (!version_in_period(roles, edge->to) || !roles->leads[edge->to])
                continue;
            if (only != NULL || !roles->chain[edge->to] || !edge->elementwise || version_of(roles, edge->to)->op < 0 ||
                graph_op(roles->graph, version_of(roles, edge->to))->kind != SCOUT_COPY)
                return number;
            only = edge;
        }
        if (only == NULL || roles->parameter[only->to])
            return number;
        *lo = *lo - only->map.from_base + only->map.to_base;
        *hi = *hi - only->map.from_base + only->map.to_base;
        number = only->to;
    }
}

static void
end_way(struct way *way, uint32_t number, uint64_t lo, uint64_t hi)
{
    const struct roles *roles = way->roles;
    if (number != way->parameter)
        number = follow_copies(roles, number, &lo, &hi);
    const struct graph_version *version = version_of(roles, number);
    roles->gradient[number] = true;
    if (number == way->parameter) {
        way->own = true;
        return;
    }
    way->is_part =
        way->is_part || (scout_type_bytes(version->type) == sizeof(uint16_t) && (version->lo < lo || version->hi > hi));
    uint64_t limit = roles->graph->memories[version->memory].bytes;
    uint32_t gradient = gradients_add_tensor(way->finding, ROLE_GRADIENT, version_alloc(roles, number),
                                             (struct scout_range){lo, hi < limit ? hi : limit}, version->type,
                                             way->tensor, gradients_log_op(roles, number));
    struct scout_tensor *parameter = &way->finding->tensors[way->tensor];
    if (parameter->pair == PAIR_NONE)
        parameter->pair = gradient;
}

/* Follows the way from bytes [lo, hi) of a version upwards. */
static void
go_up(struct way *way, uint32_t number, uint64_t lo, uint64_t hi)
{
    const struct roles *roles = way->roles;
    if (way->visited[number])
        return;
    way->visited[number] = true;
    way->follows = way->follows || (roles->parameter[number] && number != way->parameter);
    if (!elementwise_goes_on(roles, number)) {
        end_way(way, number, lo, hi);
        return;
    }
    FOR_EACH_IN(edge, roles, number) {
        if (!elementwise_matters(roles, edge) || !elementwise_goes(roles, edge))
            continue;
        if (!roles->chain[edge->from]) {
            way->roles->gradient[edge->from] |=
                elementwise_is_rest(roles, number, edge->from); /* averaged with what follows it */
            continue;
        }
        const struct graph_version *from = version_of(roles, edge->from);
        uint64_t image_lo = from->lo, image_hi = from->hi;
        const struct graph_map *map = &edge->map;
        if (edge->elementwise && hi > map->to_base) {
            uint64_t begin = lo > map->to_base ? lo - map->to_base : 0;
            image_lo = map->from_base + begin / map->to_bytes * map->from_bytes;
            image_hi = map->from_base + (hi - map->to_base + map->to_bytes - 1) / map->to_bytes * map->from_bytes;
        }
        if (image_lo >= from->hi || image_hi <= from->lo)
            continue; /* other elements than the way's */
        go_up(way, edge->from, image_lo, image_hi);
    }
}

/* Whether a small input is a part of something large, as the errors of a few records are, and no number that scales: it
 * comes from large memory, which may lie on the device, or element by element from what does. `vectors`: the same of
 * all versions before it, of which it is computed. */
static bool
is_vector(const struct roles *roles, uint32_t number, const bool *vectors)
{
    bool is = roles->source[number] && !roles->constant[number];
    FOR_EACH_IN_UNTIL(edge, roles, number, is) {
        bool is_data = elementwise_matters(roles, edge) || version_of(roles, edge->from)->op == VERSION_BEFORE;
        is = is_data && !roles->chain[edge->from] &&
             (!elementwise_may_scale(roles, edge->from) || (edge->elementwise && vectors[edge->from]));
    }
    return is;
}

bool
gradients_find_vectors(struct roles *roles)
{
    OWNED bool *vectors = xcalloc(roles->graph->version_count + 1, sizeof(*vectors));
    bool some = false;
    for (uint32_t i = 0; i < roles->graph->version_count; ++i)
        vectors[i] = is_vector(roles, i, vectors);
    FOR_EACH(edge, roles->graph->edges, roles->graph->edge_count) {
        uint32_t from = edge->from;
        if (!version_in_period(roles, edge->to) || !roles->chain[edge->to] || !elementwise_matters(roles, edge) ||
            elementwise_goes(roles, edge) || version_of(roles, from)->bytes <= ELEMENT_BYTES ||
            !elementwise_may_scale(roles, from) || elementwise_has_others(roles, edge->to))
            continue;
        roles->vector[from] = vectors[from];
        some = some || roles->vector[from];
    }
    return some;
}

bool
gradients_find_kept_sums(struct roles *roles)
{
    bool some = false;
    uint32_t last;
    for (uint32_t i = 0; i < roles->graph->version_count; ++i)
        if (roles->parameter[i] && roles->inner[i] && !elementwise_goes_on(roles, i) &&
            elementwise_parameters_behind(roles, i, &last) > 0)
            roles->carried[i] = some = true;
    for (uint32_t i = 0; i < roles->graph->version_count && some; ++i) {
        roles->carried[i] = roles->carried[i] || (roles->parameter[i] && !stays_from_itself(roles, i));
        roles->parameter[i] = roles->parameter[i] && !roles->carried[i];
    }
    return some;
}

/* Whether the launch that updates a parameter may reach more of its memory. */
static bool
reaches_further(const struct roles *roles, uint32_t number)
{
    const struct graph_version *version = version_of(roles, number);
    const struct scout_argument *it = version_argument(roles, version, graph_op(roles->graph, version));
    return it != NULL && it->end - it->offset > version->hi - version->lo;
}

void
gradients_find(struct roles *roles, struct scout_finding *finding)
{
    for (uint32_t i = 0; i < roles->graph->version_count; ++i) {
        if (!roles->parameter[i])
            continue;
        const struct graph_version *version = version_of(roles, i);
        OWNED bool *visited = xcalloc(roles->graph->version_count, sizeof(*visited));
        struct way way = {.roles = roles, .finding = finding, .parameter = i, .visited = visited};
        way.tensor = gradients_add_tensor(finding, ROLE_PARAMETER, version_alloc(roles, i),
                                          (struct scout_range){version->lo, version->hi}, version->type, PAIR_NONE,
                                          gradients_log_op(roles, i));
        go_up(&way, i, version->lo, version->hi);
        if (way.follows && !way.own)
            finding->tensors[way.tensor].role = ROLE_AVERAGE;
        finding->tensors[way.tensor].fused = way.own;
        finding->tensors[way.tensor].cut = way.is_part && reaches_further(roles, i);
    }
}
