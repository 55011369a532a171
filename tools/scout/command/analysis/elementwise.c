/*
 * elementwise.c - the elementwise way from a parameter upwards.
 */
#include "tools/scout/command/analysis/rules.h"

#include "tools/common/owned.h"

bool
elementwise_may_scale(const struct roles *roles, uint32_t number)
{
    uint64_t bytes = version_of(roles, number)->bytes;
    return bytes <= ELEMENT_BYTES || (bytes <= SCALAR_BYTES && !roles->vector[number]);
}

bool
elementwise_goes(const struct roles *roles, const struct graph_edge *edge)
{
    const struct graph_version *from = version_of(roles, edge->from), *to = version_of(roles, edge->to);
    return edge->elementwise || (to->bytes <= ELEMENT_BYTES && from->bytes == to->bytes) ||
           stays_made_again(roles, edge);
}

bool
elementwise_matters(const struct roles *roles, const struct graph_edge *edge)
{
    return roles->tainted[edge->from] && !roles->between[edge->from] &&
           !(roles->constant[edge->from] && elementwise_goes(roles, edge));
}

/* Whether a version is computed from nothing but what another one, `number`, comes from element by element, and from
 * what was in its own place before: norms of rows of a gradient, which scale it, and means of them. */
static bool
is_of_inputs(const struct roles *roles, uint32_t from, uint32_t number, const struct graph_version *place)
{
    const struct graph_version *version = version_of(roles, from);
    return ANY_IN(edge, roles, number, edge->from == from && elementwise_goes(roles, edge)) ||
           (version->op == VERSION_BEFORE && version_overlaps(version, place)) ||
           (version->in_count > 0 && !version->from_host && !roles->source[from] &&
            !ANY_IN(edge, roles, from, !is_of_inputs(roles, edge->from, number, place)));
}

bool
elementwise_is_inner(const struct roles *roles, uint32_t number)
{
    bool some = false;
    FOR_EACH_IN(edge, roles, number) {
        if (!elementwise_matters(roles, edge))
            continue;
        if (elementwise_goes(roles, edge))
            some = true;
        else if (!elementwise_may_scale(roles, edge->from) &&
                 !is_of_inputs(roles, edge->from, number, version_of(roles, edge->from)))
            return false;
    }
    return some;
}

/* Whether all ways of what may scale to parameters enter the elementwise way on its inside. What uses it is decided: a
 * version comes after all that it is computed from. */
static bool
scales_only(const struct roles *roles, uint32_t number)
{
    if (roles->scales[number] == 0) {
        bool only = ALL_OUT(out, roles, number,
                            !version_in_period(roles, out->to) || !roles->leads[out->to] ||
                                (roles->chain[out->to] ? roles->inner[out->to] : scales_only(roles, out->to)));
        roles->scales[number] = only ? 1 : 2;
    }
    return roles->scales[number] == 1;
}

/* Whether all that a version leads to is what it becomes in its own place, up to a gradient. */
static bool
is_kept(const struct roles *roles, uint32_t number)
{
    if (roles->kept[number] == 0) {
        bool only =
            ALL_OUT(out, roles, number,
                    !version_in_period(roles, out->to) || !roles->leads[out->to] ||
                        (out->elementwise && version_overlaps(version_of(roles, out->to), version_of(roles, number)) &&
                         (roles->chain[out->to] || is_kept(roles, out->to))));
        roles->kept[number] = only ? 1 : 2;
    }
    return roles->kept[number] == 1;
}

/* Whether no way leaves the version to a parameter, but the elementwise one; or that by its own place into the next
 * step's gradient, which keeps a part of it. */
static bool
is_private(const struct roles *roles, uint32_t number)
{
    for (uint32_t e = 0; e < version_of(roles, number)->out_count; ++e) {
        const struct graph_edge *edge = version_out_edge(roles, number, e);
        uint32_t to = edge->to;
        if (!version_in_period(roles, to) || !roles->leads[to])
            continue;
        if (edge->elementwise && version_overlaps(version_of(roles, to), version_of(roles, number)) &&
            !roles->parameter[to] &&
            ANY_OUT(out, roles, number,
                    out->to < to && roles->chain[out->to] &&
                        !version_overlaps(version_of(roles, out->to),
                                          version_of(roles, number))) && /* used: of another step */
            (roles->chain[to] || is_kept(roles, to)))
            continue;
        if (roles->chain[to]) {
            if (!roles->inner[to] || !elementwise_goes(roles, edge))
                return false;
        } else if (!scales_only(roles, to)) {
            return false;
        }
    }
    return true;
}

void
elementwise_find_chain(struct roles *roles)
{
    OWNED bool *asked = xcalloc(roles->graph->version_count, sizeof(*asked));
    memset(roles->scales, 0, roles->graph->version_count);
    memset(roles->kept, 0, roles->graph->version_count);
    for (uint32_t i = roles->graph->version_count; i-- > 0;) {
        if (!version_in_period(roles, i))
            continue;
        roles->chain[i] = roles->parameter[i] || (asked[i] && version_of(roles, i)->op >= 0 && is_private(roles, i));
        if (!roles->chain[i] || !roles->inner[i])
            continue;
        FOR_EACH_IN(edge, roles, i) {
            if (elementwise_matters(roles, edge) && elementwise_goes(roles, edge))
                asked[edge->from] = true;
        }
    }
}

/* A small input that is less than what it is an input of. */
static bool
is_scalar_of(const struct roles *roles, const struct graph_edge *edge)
{
    uint64_t bytes = version_of(roles, edge->from)->bytes;
    return bytes <= ELEMENT_BYTES ||
           (elementwise_may_scale(roles, edge->from) && bytes < version_of(roles, edge->to)->bytes);
}

bool
elementwise_is_rest(const struct roles *roles, uint32_t number, uint32_t rest)
{
    FOR_EACH_IN(edge, roles, number) {
        uint32_t at = edge->from;
        bool found = roles->chain[at] && at > rest && elementwise_matters(roles, edge) && elementwise_goes(roles, edge);
        while (found && at > rest) { /* from one version of the memory to the one before */
            uint32_t before = UINT32_MAX;
            FOR_EACH_IN(own, roles, at) {
                if (own->elementwise && own->from >= rest && (before == UINT32_MAX || own->from > before) &&
                    version_of(roles, own->from)->memory == version_of(roles, rest)->memory)
                    before = own->from;
            }
            if (before == rest)
                return true;
            found = before != UINT32_MAX;
            at = before;
        }
    }
    return false;
}

bool
elementwise_has_others(const struct roles *roles, uint32_t number)
{
    return ANY_IN(edge, roles, number,
                  elementwise_matters(roles, edge) && elementwise_goes(roles, edge) &&
                      !version_overlaps(version_of(roles, edge->from), version_of(roles, number)));
}

/* Whether a version leads to parameters only by what it becomes in its place. */
static bool
leads_by_place(const struct roles *roles, uint32_t number)
{
    return ALL_OUT(out, roles, number,
                   !version_in_period(roles, out->to) || !roles->leads[out->to] ||
                       version_overlaps(version_of(roles, out->to), version_of(roles, number)));
}

/* Whether a number that is computed from what was in a version's place before, as the norm by which a gradient of one
 * element is clipped, is all that the version has besides. */
static bool
is_scaled_alone(const struct roles *roles, uint32_t number)
{
    const struct graph_edge *own = version_own_edge(roles, number, true);
    if (own == NULL || version_of(roles, number)->bytes > ELEMENT_BYTES)
        return false;
    OWNED bool *reached = sources_of(roles, own->from, false);
    return !ANY_IN(edge, roles, number, elementwise_matters(roles, edge) && edge != own && !reached[edge->from]);
}

/* Whether a version is what a sum has become that begins at nothing in this period, or to which several have been added
 * in it: that is the gradient, not what is added to it. */
static bool
is_sum(const struct roles *roles, uint32_t number)
{
    bool several = false;
    if (!elementwise_has_others(roles, number) || is_scaled_alone(roles, number))
        return false;
    for (uint32_t at = number;; at = version_own_edge(roles, at, true)->from) {
        if (version_own_edge(roles, at, true) == NULL)
            return version_of(roles, at)->op < 0 ? several : at != number;
        if (at != number && (!leads_by_place(roles, at) || roles->parameter[at]))
            return false;
        several = several || (at != number && elementwise_has_others(roles, at));
    }
}

static bool
gets(const struct roles *roles, const struct scout_op *op, uint32_t memory)
{
    return ANY(it, op->arguments, op->argument_count, roles->graph->memory_of[it->alloc] == memory);
}

/* Whether a place holds what the program has filled it with: no copy brings other contents, no launch of the period
 * writes it, no other kernel gets its memory. A copy of no bytes: the host writes managed memory, anywhere. */
static bool
stays_filled(const struct roles *roles, const struct graph_version *place)
{
    const struct graph *graph = roles->graph;
    uint32_t memory = (uint32_t)place->memory;
    bool filled = false;
    FOR_EACH(op, graph->log->ops, graph->log->op_count) {
        bool is_target = (op->kind == SCOUT_COPY || op->kind == SCOUT_FILL) && op->to.alloc != SCOUT_NONE &&
                         graph->memory_of[op->to.alloc] == memory && op->to.offset < place->hi &&
                         (op->rows > 1 || op->bytes == 0 || op->to.offset + op->bytes > place->lo);
        bool is_known = op->effect != NULL || !gets(roles, op, memory) ||
                        ANY_NUMBER(i, graph->first, graph->first + graph->count,
                                   graph->log->ops[i].name == op->name && gets(roles, &graph->log->ops[i], memory));
        if (!is_known || (is_target && op->kind == SCOUT_COPY))
            return false;
        filled = filled || is_target;
    }
    return filled && (place->op < 0 || graph_op(graph, place)->kind == SCOUT_FILL);
}

/* Whether a launch adds nothing to what is in the version's place, because one of its factors is zero, and all that it
 * gets of that memory: the state from which a recurrent net begins. What it leaves is the gradient, not what it adds
 * to. */
static bool
adds_nothing(const struct roles *roles, uint32_t number)
{
    return !roles->parameter[number] && version_own_edge(roles, number, true) != NULL &&
           !elementwise_has_others(roles, number) &&
           ANY_IN(edge, roles, number,
                  !edge->elementwise && version_of(roles, edge->from)->bytes > SCALAR_BYTES &&
                      (!roles->tainted[edge->from] || roles->constant[edge->from]) &&
                      !ANY_IN(other, roles, number,
                              roles->tainted[other->from] && !roles->constant[other->from] &&
                                  version_of(roles, other->from)->memory == version_of(roles, edge->from)->memory) &&
                      stays_filled(roles, version_of(roles, edge->from)));
}

bool
elementwise_goes_on(const struct roles *roles, uint32_t number)
{
    bool some = false;
    FOR_EACH_IN(edge, roles, number) {
        if (!elementwise_matters(roles, edge) || !elementwise_goes(roles, edge))
            continue;
        if (roles->chain[edge->from])
            some = true;
        else if (!is_scalar_of(roles, edge) && !elementwise_is_rest(roles, number, edge->from))
            return false;
    }
    return some && roles->inner[number] && !is_sum(roles, number) && !adds_nothing(roles, number);
}

uint32_t
elementwise_parameters_behind(const struct roles *roles, uint32_t number, uint32_t *last)
{
    uint32_t count = 0;
    OWNED bool *reached = sources_of(roles, number, false);
    for (uint32_t i = number + 1; i < roles->graph->version_count; ++i) {
        if (!reached[i] || !roles->parameter[i])
            continue;
        count += 1;
        *last = i;
    }
    return count;
}
