/*
 * stays.c - what stays from period to period, what feeds back, and which of it are parameters.
 */
#include "tools/scout/command/analysis/rules.h"

#include "tools/common/owned.h"

void
stays_find(struct roles *roles, const struct scout_finding *finding)
{
    for (uint32_t i = 0; i < roles->graph->version_count; ++i) {
        const struct graph_version *version = version_of(roles, i);
        if (version->op < 0 || !version_in_period(roles, i) || version->memory == HOST_MEMORY ||
            scout_is_scratch(finding, version_alloc(roles, i)))
            continue;
        roles->persistent[i] = ANY_OUT(out, roles, i, !version_in_period(roles, out->to));
    }
}

/* Marks a version and those that it became, element by element in the same place, in this period; also the value that a
 * parameter with two places has in the other one. */
static void
mark_own(const struct roles *roles, uint32_t number, bool *own)
{
    memset(own, 0, roles->graph->version_count);
    own[number] = true;
    for (uint32_t i = number + 1; i-- > 0;)
        FOR_EACH_IN_UNTIL(edge, roles, i, !own[i]) {
            const struct graph_version *from = version_of(roles, edge->from);
            own[edge->from] =
                own[edge->from] || (edge->elementwise && from->op >= 0 &&
                                    (version_overlaps(from, version_of(roles, number)) ||
                                     (roles->between[edge->from] && from->bytes == version_of(roles, number)->bytes)));
        }
}

/* How a version is reached from what was in a place: */
enum reached {
    NOT_REACHED,
    BY_PLACE,   /* within the place, or by a scalar of it that scales it, as in clipping */
    BY_SCALARS, /* by few numbers that are computed from it */
    BY_OTHERS,  /* by way of other memory; what left and came back counts, too */
};

static enum reached
reached_by(const struct roles *roles, enum reached before, const struct graph_edge *edge,
           const struct graph_version *place)
{
    const struct graph_version *next = version_of(roles, edge->to);
    uint64_t bytes = version_of(roles, edge->from)->bytes;
    bool is_scalar = bytes <= ELEMENT_BYTES && bytes < place->bytes;
    if (before == NOT_REACHED || before == BY_OTHERS)
        return before;
    if (version_overlaps(next, place))
        return before == BY_PLACE || is_scalar ? BY_PLACE : BY_OTHERS;
    if (next->bytes <= SCALAR_BYTES && next->bytes < place->bytes)
        return BY_SCALARS;
    /* scales another gradient, and what becomes of that */
    bool scales =
        before == BY_SCALARS && (is_scalar ? version_own_edge(roles, edge->to, true) != NULL : edge->elementwise);
    return scales ? BY_SCALARS : BY_OTHERS;
}

bool
stays_feeds_back(const struct roles *roles, uint32_t number, bool directly)
{
    const struct graph *graph = roles->graph;
    const struct graph_version *end = version_of(roles, number);
    OWNED enum reached *reached = xcalloc(graph->version_count, sizeof(*reached));
    OWNED bool *own = xcalloc(graph->version_count, sizeof(*own));
    mark_own(roles, number, own);
    for (uint32_t i = 0; i <= number; ++i) {
        const struct graph_version *version = version_of(roles, i);
        if (version->op == VERSION_BEFORE && version_overlaps(version, end))
            reached[i] = BY_PLACE;
        FOR_EACH_IN_UNTIL(edge, roles, i, !version_in_period(roles, i)) {
            enum reached here = reached_by(roles, reached[edge->from], edge, end);
            if (here > reached[i])
                reached[i] = here;
        }
        if (own[i] && reached[i] == BY_OTHERS)
            return true;
        if (roles->between[i] && directly)
            reached[i] = NOT_REACHED;
    }
    return false;
}

bool
stays_made_again(const struct roles *roles, const struct graph_edge *edge)
{
    const struct graph_version *to = version_of(roles, edge->to);
    return !edge->elementwise && version_overlaps(version_of(roles, edge->from), to) && to->bytes > ELEMENT_BYTES &&
           !ANY_IN(in, roles, edge->to,
                   version_of(roles, in->from)->bytes > ELEMENT_BYTES &&
                       !ANY_NUMBER(i, in->from + 1, roles->graph->version_count,
                                   version_of(roles, i)->op == to->op &&
                                       version_overlaps(version_of(roles, i), version_of(roles, in->from))));
}

bool
stays_from_itself(const struct roles *roles, uint32_t number)
{
    const struct graph *graph = roles->graph;
    OWNED bool *reached = xcalloc(graph->version_count, sizeof(*reached));
    reached[number] = true;
    for (uint32_t i = number + 1; i-- > 0;) {
        if (!reached[i])
            continue;
        const struct graph_version *version = version_of(roles, i);
        if (version->op == VERSION_BEFORE && version->memory != HOST_MEMORY &&
            ANY_NUMBER(p, 0, graph->version_count,
                       roles->persistent[p] && !roles->carried[p] && version_overlaps(version, version_of(roles, p))))
            return true;
        FOR_EACH_IN(edge, roles, i) {
            if (edge->elementwise || stays_made_again(roles, edge) ||
                (version->bytes <= ELEMENT_BYTES && version_of(roles, edge->from)->bytes == version->bytes))
                reached[edge->from] = true;
        }
    }
    return false;
}

/* Whether an edge leaves a version for other memory, in this period, and not element by element. */
static bool
spreads(const struct roles *roles, const struct graph_edge *edge)
{
    const struct graph_version *from = version_of(roles, edge->from), *to = version_of(roles, edge->to);
    return version_in_period(roles, edge->to) && !edge->elementwise && !version_overlaps(to, from) &&
           to->bytes > ELEMENT_BYTES;
}

static const struct scout_op *
op_of(const struct roles *roles, const struct graph_edge *edge)
{
    return graph_op(roles->graph, version_of(roles, edge->to));
}

/* Whether a kernel reads both versions, and makes other memory of each, not element by element. */
static bool
are_used_alike(const struct roles *roles, uint32_t number, uint32_t other)
{
    return ANY_OUT(
        out, roles, number,
        spreads(roles, out) && op_of(roles, out)->kind == SCOUT_LAUNCH &&
            ANY_OUT(same, roles, other, spreads(roles, same) && op_of(roles, out)->name == op_of(roles, same)->name));
}

/* A parameter may have two places, which the host exchanges in each step: whether a version is what one of them held,
 * element by element, and goes back there in the next step. */
static bool
is_in_other_place(const struct roles *roles, uint32_t number)
{
    OWNED bool *from = xcalloc(number + 1, sizeof(*from));
    from[number] = true;
    for (uint32_t i = number + 1; i-- > 0;) {
        const struct graph_version *version = version_of(roles, i);
        if (!from[i])
            continue;
        FOR_EACH_IN(edge, roles, i) {
            if (edge->elementwise && version_of(roles, edge->from)->bytes == version->bytes)
                from[edge->from] = true;
        }
        if (version->op == VERSION_BEFORE && version->memory != version_of(roles, number)->memory &&
            ANY_OUT(out, roles, number,
                    out->elementwise && version_in_period(roles, out->to) &&
                        version_overlaps(version_of(roles, out->to), version) && are_used_alike(roles, number, i)))
            return true;
    }
    return false;
}

/* A period may hold several steps. The value that a parameter has between two of them comes element by element from
 * what was there before, is read elsewhere, not only element by element as the optimizer's state is, and changes again
 * in the same way. */
static void
find_between(struct roles *roles)
{
    uint32_t count = roles->graph->version_count;
    OWNED bool *own = xcalloc(count, sizeof(*own)); /* comes from what was in its place */
    for (uint32_t i = 0; i < count; ++i) {
        const struct graph_version *version = version_of(roles, i);
        own[i] = version->op == VERSION_BEFORE;
        FOR_EACH_IN_UNTIL(edge, roles, i, own[i]) {
            own[i] = own[edge->from] && edge->elementwise && version_overlaps(version_of(roles, edge->from), version);
        }
        bool is_read = ANY_OUT(out, roles, i, spreads(roles, out)),
             changes = ANY_OUT(out, roles, i,
                               version_in_period(roles, out->to) && out->elementwise &&
                                   version_overlaps(version_of(roles, out->to), version));
        roles->between[i] = is_read && version->op >= 0 && version_in_period(roles, i) && roles->tainted[i] &&
                            ((own[i] && changes) || is_in_other_place(roles, i));
    }
}

/* Whether a launch gets a version as the same argument as another one of the kernel gets another version. */
static bool
are_one_argument(const struct roles *roles, uint32_t number, const struct scout_op *op, uint32_t other,
                 const struct scout_op *other_op)
{
    const struct scout_argument *a = version_argument(roles, version_of(roles, number), op),
                                *b = version_argument(roles, version_of(roles, other), other_op);
    return a != NULL && b != NULL && a->slot == b->slot && a->at == b->at;
}

/* What comes from the host is a gradient where a launch gets it as the same argument as another launch of the kernel
 * gets what a parameter is updated with: the host has added up the errors of a bias. Then what that launch updates is a
 * parameter. */
static void
find_by_host(struct roles *roles, uint32_t number, uint32_t other)
{
    const struct scout_op *op = graph_op(roles->graph, version_of(roles, number)),
                          *other_op = graph_op(roles->graph, version_of(roles, other));
    if (op == NULL || other_op == NULL || op->kind != SCOUT_LAUNCH || op->name != other_op->name ||
        !are_one_argument(roles, number, op, other, other_op))
        return;
    FOR_EACH_IN(edge, roles, number) {
        if (!version_of(roles, edge->from)->from_host ||
            !ANY_IN(like, roles, other,
                    roles->tainted[like->from] && !roles->source[like->from] &&
                        are_one_argument(roles, edge->from, op, like->from, other_op)))
            continue;
        roles->parameter[number] = true;
        roles->constant[edge->from] = false;
    }
}

void
stays_find_parameters(struct roles *roles)
{
    uint32_t count = roles->graph->version_count;
    OWNED bool *own = xcalloc(count, sizeof(*own)), *between = xcalloc(count, sizeof(*between));
    find_between(roles);
    for (uint32_t i = 0; i < count; ++i) {
        if (!roles->persistent[i] || !roles->tainted[i] || roles->source[i] || !stays_feeds_back(roles, i, true))
            continue;
        roles->parameter[i] = version_of(roles, i)->type != SCOUT_INTEGER && stays_from_itself(roles, i);
        roles->carried[i] = !roles->parameter[i];
        if (roles->parameter[i])
            mark_own(roles, i, own);
        for (uint32_t k = 0; k < i && roles->parameter[i]; ++k)
            between[k] = between[k] || (own[k] && roles->between[k]);
    }
    memcpy(roles->between, between, count);
    for (uint32_t i = 0; i < count; ++i) {
        roles->parameter[i] = roles->parameter[i] || between[i];
        bool may_be = roles->persistent[i] && roles->tainted[i] && !roles->source[i] && !roles->carried[i] &&
                      version_of(roles, i)->type != SCOUT_INTEGER;
        for (uint32_t k = 0; k < count && may_be && !roles->parameter[i]; ++k)
            if (roles->parameter[k])
                find_by_host(roles, i, k);
    }
}

void
stays_find_leading(struct roles *roles)
{
    for (uint32_t i = roles->graph->version_count; i-- > 0;) {
        roles->leads[i] =
            roles->parameter[i] || ANY_OUT(out, roles, i, version_in_period(roles, out->to) && roles->leads[out->to]);
    }
}

/* ---- where data comes from ---- */

/* Whether any operation of the window writes where this version of no operation lies. */
static bool
is_overwritten(const struct roles *roles, uint32_t number)
{
    const struct graph_version *version = version_of(roles, number);
    if (!roles->graph->memories[version->memory].written)
        return false;
    return ANY(it, roles->graph->versions, roles->graph->version_count, it->op >= 0 && version_overlaps(version, it));
}

/* Whether the same copy carries the same bytes one period later. */
static bool
is_repeated(const struct roles *roles, const struct graph_version *version)
{
    const struct scout_op *op = graph_op(roles->graph, version);
    uint32_t later = (uint32_t)version->op + roles->graph->period;
    return op->content != 0 && later < roles->graph->count &&
           roles->graph->log->ops[roles->graph->first + later].content == op->content;
}

bool
source_is_small(const struct graph_version *version)
{
    return version->from_host && version->bytes <= DATA_BYTES;
}

void
sources_find(struct roles *roles)
{
    const struct graph *graph = roles->graph;
    for (uint32_t i = 0; i < graph->version_count; ++i)
        roles->has_large = roles->has_large || (graph->versions[i].from_host && version_in_period(roles, i) &&
                                                !source_is_small(&graph->versions[i]));
    for (uint32_t i = 0; i < graph->version_count; ++i) {
        const struct graph_version *version = &graph->versions[i];
        if (!version->from_host || !version_in_period(roles, i))
            continue;
        roles->source[i] = true;
        roles->constant[i] = is_repeated(roles, version) || (roles->has_large && source_is_small(version));
    }
    for (uint32_t i = 0; i < graph->version_count; ++i)
        if (graph->versions[i].op == VERSION_BEFORE && graph->versions[i].out_count > 0 && !is_overwritten(roles, i))
            roles->source[i] = roles->constant[i] = true;
}

void
sources_spread(const struct roles *roles, bool *marks, const bool *sources, const bool *blocked)
{
    for (uint32_t i = 0; i < roles->graph->version_count; ++i) {
        marks[i] = sources[i];
        if (!version_in_period(roles, i))
            continue;
        marks[i] = (marks[i] || ANY_IN(edge, roles, i, marks[edge->from])) && (blocked == NULL || !blocked[i]);
    }
}

bool *
sources_of(const struct roles *roles, uint32_t number, bool before)
{
    uint32_t count = roles->graph->version_count;
    OWNED bool *sources = xcalloc(count + 1, sizeof(*sources));
    bool *marks = xcalloc(count + 1, sizeof(*marks));
    for (uint32_t i = 0; i < count; ++i)
        sources[i] = before ? version_of(roles, i)->op == VERSION_BEFORE &&
                                  version_overlaps(version_of(roles, i), version_of(roles, number))
                            : i == number;
    sources_spread(roles, marks, sources, NULL);
    return marks;
}
