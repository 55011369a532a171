/*
 * stays.c - what stays from period to period, what feeds back, and which of it are parameters.
 */
#include "tools/scout/command/analysis/rules.h"

#include "tools/common/owned.h"

void
stays_find(struct graph *graph, const struct scout_finding *finding)
{
    FOR_EACH_VERSION(version, graph)
        version->persistent = version->period == 0 && version->memory != HOST_MEMORY &&
                              !scout_is_scratch(finding, version_alloc(graph, version), version->lo, version->hi) &&
                              ANY_OUT(out, version, !version_in_period(out->to));
}

/* Marks a version and those that it became, element by element in the same place, in this period; also the value that a
 * parameter with two places has in the other one. */
static void
mark_own(const struct graph *graph, const struct graph_version *of, bool *own)
{
    memset(own, 0, graph->version_count);
    own[of->number] = true;
    for (uint32_t i = of->number + 1; i-- > 0;)
        FOR_EACH_IN_UNTIL(edge, &graph->versions[i], !own[i]) {
            const struct graph_version *from = edge->from;
            own[from->number] =
                own[from->number] || (edge->elementwise && from->op >= 0 &&
                                      (version_overlaps(from, of) || (from->between && from->bytes == of->bytes)));
        }
}

/* How a version is reached from what was in a place: */
enum reached {
    NOT_REACHED,
    BY_PLACE,   /* within the place, or by a scalar of it that scales it, as in clipping */
    BY_SCALARS, /* by few numbers that are computed from it */
    BY_OTHERS,  /* by way of other memory; what left and came back counts, too */
};

/* How the place is reached along one more edge, if its beginning was reached in the way `before`. */
static enum reached
reached_by(enum reached before, const struct graph_edge *edge, const struct graph_version *place)
{
    const struct graph_version *next = edge->to;
    uint64_t bytes = edge->from->bytes;
    bool is_scalar = bytes <= ELEMENT_BYTES && bytes < place->bytes;
    if (before == NOT_REACHED || before == BY_OTHERS)
        return before;
    if (version_overlaps(next, place))
        return before == BY_PLACE || is_scalar ? BY_PLACE : BY_OTHERS;
    if (next->bytes <= SCALAR_BYTES && next->bytes < place->bytes)
        return BY_SCALARS;
    /* scales another gradient, and what becomes of that */
    bool scales = before == BY_SCALARS && (is_scalar ? version_own_edge(next, true) != NULL : edge->elementwise);
    return scales ? BY_SCALARS : BY_OTHERS;
}

bool
stays_feeds_back(const struct graph *graph, const struct graph_version *end, bool directly)
{
    OWNED enum reached *reached = xcalloc(graph->version_count, sizeof(*reached));
    OWNED bool *own = xcalloc(graph->version_count, sizeof(*own));
    mark_own(graph, end, own);
    FOR_EACH(version, graph->versions, end->number + 1) {
        enum reached *here = &reached[version->number];
        if (version->op == VERSION_BEFORE && version_overlaps(version, end))
            *here = BY_PLACE;
        FOR_EACH_IN_UNTIL(edge, version, !version_in_period(version)) {
            enum reached by = reached_by(reached[edge->from->number], edge, end);
            *here = by > *here ? by : *here;
        }
        if (own[version->number] && *here == BY_OTHERS)
            return true;
        if (version->between && directly)
            *here = NOT_REACHED;
    }
    return false;
}

bool
stays_from_itself(const struct graph *graph, const struct graph_version *of)
{
    OWNED bool *reached = xcalloc(graph->version_count, sizeof(*reached));
    reached[of->number] = true;
    for (uint32_t i = of->number + 1; i-- > 0;) {
        const struct graph_version *version = &graph->versions[i];
        if (!reached[i])
            continue;
        if (version->op == VERSION_BEFORE && version->memory != HOST_MEMORY &&
            ANY_VERSION(it, graph, it->persistent && !it->carried && version_overlaps(version, it)))
            return true;
        FOR_EACH_IN(edge, version)
            reached[edge->from->number] = reached[edge->from->number] || edge->goes;
    }
    return false;
}

/* Whether an edge leaves a version for other memory, in this period, and not element by element. */
static bool
spreads(const struct graph_edge *edge)
{
    return version_in_period(edge->to) && !edge->elementwise && !version_overlaps(edge->to, edge->from) &&
           edge->to->bytes > ELEMENT_BYTES;
}

/* Whether a kernel reads both versions, and makes other memory of each, not element by element. */
static bool
are_used_alike(const struct graph *graph, const struct graph_version *version, const struct graph_version *other)
{
    return ANY_OUT(
        out, version,
        spreads(out) && graph_op(graph, out->to)->kind == SCOUT_LAUNCH &&
            ANY_OUT(same, other, spreads(same) && graph_op(graph, out->to)->name == graph_op(graph, same->to)->name));
}

/* A parameter may have two places, which the host exchanges in each step: whether a version is what one of them held,
 * element by element, and goes back there in the next step. */
static bool
is_in_other_place(const struct graph *graph, const struct graph_version *of)
{
    OWNED bool *from = xcalloc(of->number + 1, sizeof(*from));
    from[of->number] = true;
    for (uint32_t i = of->number + 1; i-- > 0;) {
        const struct graph_version *version = &graph->versions[i];
        if (!from[i])
            continue;
        FOR_EACH_IN(edge, version)
            if (edge->elementwise && edge->from->bytes == version->bytes)
                from[edge->from->number] = true;
        if (version->op == VERSION_BEFORE && version->memory != of->memory &&
            ANY_OUT(out, of,
                    out->elementwise && version_in_period(out->to) && version_overlaps(out->to, version) &&
                        are_used_alike(graph, of, version)))
            return true;
    }
    return false;
}

/* A period may hold several steps. The value that a parameter has between two of them comes element by element from
 * what was there before, is read elsewhere, not only element by element as the optimizer's state is, and changes again
 * in the same way. */
static void
find_between(struct graph *graph)
{
    OWNED bool *own = xcalloc(graph->version_count, sizeof(*own)); /* comes from what was in its place */
    FOR_EACH_VERSION(version, graph) {
        own[version->number] = version->op == VERSION_BEFORE || ANY_IN(edge, version,
                                                                       own[edge->from->number] && edge->elementwise &&
                                                                           version_overlaps(edge->from, version));
        bool is_read = ANY_OUT(out, version, spreads(out)),
             changes = ANY_OUT(out, version,
                               version_in_period(out->to) && out->elementwise && version_overlaps(out->to, version));
        version->between = is_read && version->period == 0 && version->tainted &&
                           ((own[version->number] && changes) || is_in_other_place(graph, version));
    }
}

/* Whether a launch gets a version as the same argument as another one of the kernel gets another version. */
static bool
are_one_argument(const struct graph *graph, const struct graph_version *version, const struct scout_op *op,
                 const struct graph_version *other, const struct scout_op *other_op)
{
    const struct scout_argument *a = version_argument(graph, version, op),
                                *b = version_argument(graph, other, other_op);
    return a != NULL && b != NULL && a->slot == b->slot && a->byte == b->byte;
}

/* What comes from the host is a gradient where a launch gets it as the same argument as another launch of the kernel
 * gets what a parameter is updated with: the host has added up the errors of a bias. Then what that launch updates is a
 * parameter. */
static void
find_by_host(const struct graph *graph, struct graph_version *version, const struct graph_version *other)
{
    const struct scout_op *op = graph_op(graph, version), *other_op = graph_op(graph, other);
    if (op == NULL || other_op == NULL || op->kind != SCOUT_LAUNCH || op->name != other_op->name ||
        !are_one_argument(graph, version, op, other, other_op))
        return;
    FOR_EACH_IN(edge, version) {
        if (!edge->from->from_host || !ANY_IN(like, other,
                                              like->from->tainted && !like->from->source &&
                                                  are_one_argument(graph, edge->from, op, like->from, other_op)))
            continue;
        version->parameter = true;
        edge->from->constant = false;
    }
}

void
stays_find_parameters(struct graph *graph)
{
    uint32_t count = graph->version_count;
    OWNED bool *own = xcalloc(count, sizeof(*own)), *between = xcalloc(count, sizeof(*between));
    find_between(graph);
    FOR_EACH_VERSION(version, graph) {
        if (!version->persistent || !version->tainted || version->source || !stays_feeds_back(graph, version, true))
            continue;
        version->parameter = version->type != SCOUT_INTEGER && stays_from_itself(graph, version);
        version->carried = !version->parameter;
        if (version->parameter)
            mark_own(graph, version, own);
        for (uint32_t k = 0; k < version->number && version->parameter; ++k)
            between[k] = between[k] || (own[k] && graph->versions[k].between);
    }
    FOR_EACH_VERSION(version, graph) {
        version->between = between[version->number];
        version->parameter = version->parameter || version->between;
        bool may_be = version->persistent && version->tainted && !version->source && !version->carried &&
                      version->type != SCOUT_INTEGER;
        FOR_EACH_UNTIL(other, graph->versions, count, !may_be || version->parameter)
            if (other->parameter)
                find_by_host(graph, version, other);
    }
}

void
stays_find_leading(struct graph *graph)
{
    for (uint32_t i = graph->version_count; i-- > 0;)
        graph->versions[i].leads = graph->versions[i].parameter || ANY_OUT(out, &graph->versions[i], edge_leads(out));
}
