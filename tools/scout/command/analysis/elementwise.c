/*
 * elementwise.c - the elementwise way from a parameter upwards.
 */
#include "tools/scout/command/analysis/rules.h"

#include "tools/common/owned.h"

/* Of two versions in one place, whether the later one is made of the earlier one alone, though not element by element:
 * it is scaled by its own norm. What holds for all of the earlier one holds for the later one. */
static bool
is_made_again(const struct graph *graph, const struct graph_version *from, const struct graph_version *to)
{
    return version_overlaps(from, to) && to->bytes > ELEMENT_BYTES &&
           ALL_IN(in, to,
                  in->from->bytes <= ELEMENT_BYTES ||
                      ANY_VERSION(it, graph, it->op == to->op && version_overlaps(it, in->from)));
}

void
elementwise_find_edges(struct graph *graph)
{
    FOR_EACH_MUTABLE(edge, graph->edges, graph->edge_count) {
        const struct graph_version *from = edge->from, *to = edge->to;
        edge->goes = edge->elementwise || (to->bytes <= ELEMENT_BYTES && from->bytes == to->bytes) ||
                     is_made_again(graph, from, to);
    }
}

bool
elementwise_may_scale(const struct graph_version *version)
{
    return version->bytes <= ELEMENT_BYTES || (version->bytes <= SCALAR_BYTES && !version->vector);
}

bool
elementwise_matters(const struct graph_edge *edge)
{
    return edge->from->tainted && !edge->from->between && !(edge->from->constant && edge->goes);
}

bool
elementwise_leads_up(const struct graph_edge *edge)
{
    return edge->goes && elementwise_matters(edge);
}

/* Whether a version is computed from nothing but what another one, `to`, comes from element by element, and from what
 * was in its own `place` before: norms of rows of a gradient, which scale it, and means of them. */
static bool
is_of_inputs(const struct graph_version *version, const struct graph_version *to, const struct graph_version *place)
{
    if (ANY_IN(edge, to, edge->from == version && edge->goes))
        return true;
    if (version->op == VERSION_BEFORE && version_overlaps(version, place))
        return true;
    if (version->in_count == 0 || version->from_host || version->source)
        return false;
    return ALL_IN(edge, version, is_of_inputs(edge->from, to, place));
}

bool
elementwise_is_inner(const struct graph_version *version)
{
    return ANY_IN(edge, version, elementwise_leads_up(edge)) &&
           ALL_IN(edge, version,
                  edge->goes || !elementwise_matters(edge) || elementwise_may_scale(edge->from) ||
                      is_of_inputs(edge->from, version, edge->from));
}

/* Whether all ways of what may scale to parameters enter the elementwise way on its inside. What uses it is decided: a
 * version comes after all that it is computed from. */
static bool
scales_only(struct graph_version *version)
{
    if (version->scales == 0) {
        bool only = ALL_OUT(out, version, !edge_leads(out) || (out->to->chain ? out->to->inner : scales_only(out->to)));
        version->scales = only ? 1 : 2;
    }
    return version->scales == 1;
}

/* Whether all that a version leads to is what it becomes in its own place, up to a gradient. */
static bool
is_kept(struct graph_version *version)
{
    if (version->kept == 0) {
        bool only = ALL_OUT(out, version,
                            !edge_leads(out) || (out->elementwise && version_overlaps(out->to, version) &&
                                                 (out->to->chain || is_kept(out->to))));
        version->kept = only ? 1 : 2;
    }
    return version->kept == 1;
}

/* Whether a version becomes, in its own place, a part of the next step's gradient, after it was used. */
static bool
goes_on_by_place(const struct graph_version *version, const struct graph_edge *edge)
{
    return edge->elementwise && version_overlaps(edge->to, version) && !edge->to->parameter &&
           ANY_OUT(used, version, used->to < edge->to && used->to->chain && !version_overlaps(used->to, version)) &&
           (edge->to->chain || is_kept(edge->to));
}

/* Whether no way leaves the version to a parameter, but the elementwise one; or that by its own place into the next
 * step's gradient, which keeps a part of it. */
static bool
is_private(const struct graph_version *version)
{
    return ALL_OUT(out, version,
                   !edge_leads(out) || goes_on_by_place(version, out) ||
                       (out->to->chain ? out->to->inner && out->goes : scales_only(out->to)));
}

void
elementwise_find_chain(struct graph *graph)
{
    OWNED bool *asked = xcalloc(graph->version_count, sizeof(*asked));
    FOR_EACH_VERSION(version, graph)
        version->scales = version->kept = 0;
    for (uint32_t i = graph->version_count; i-- > 0;) {
        struct graph_version *version = &graph->versions[i];
        if (!version_in_period(version))
            continue;
        version->chain = version->parameter || (asked[i] && version->op >= 0 && is_private(version));
        FOR_EACH_IN_UNTIL(edge, version, !version->chain || !version->inner)
            asked[edge->from->number] = asked[edge->from->number] || elementwise_leads_up(edge);
    }
}

/* Whether the version is a small input, and less than what it is an input of. */
static bool
is_scalar_of(const struct graph_edge *edge)
{
    return edge->from->bytes <= ELEMENT_BYTES ||
           (elementwise_may_scale(edge->from) && edge->from->bytes < edge->to->bytes);
}

/* The last version in the memory of `rest`, and not before that, of which a version is computed element by element;
 * NULL: there is none. */
static const struct graph_version *
version_before(const struct graph_version *version, const struct graph_version *rest)
{
    const struct graph_version *before = NULL;
    FOR_EACH_IN(own, version)
        if (own->elementwise && own->from >= rest && (before == NULL || own->from > before) &&
            own->from->memory == rest->memory)
            before = own->from;
    return before;
}

bool
elementwise_is_rest(const struct graph_version *version, const struct graph_version *rest)
{
    FOR_EACH_IN(edge, version) {
        bool begins = edge->from > rest && edge->from->chain && elementwise_leads_up(edge);
        const struct graph_version *at = begins ? edge->from : NULL;
        while (at != NULL && at != rest)
            at = version_before(at, rest);
        if (at == rest)
            return true;
    }
    return false;
}

bool
elementwise_has_others(const struct graph_version *version)
{
    return ANY_IN(edge, version, elementwise_leads_up(edge) && !version_overlaps(edge->from, version));
}

/* Whether a version leads to parameters only by what it becomes in its place. */
static bool
leads_by_place(const struct graph_version *version)
{
    return ALL_OUT(out, version, !edge_leads(out) || version_overlaps(out->to, version));
}

/* Whether a number that is computed from what was in a version's place before, as the norm by which a gradient of one
 * element is clipped, is all that the version has besides. */
static bool
is_scaled_alone(const struct graph *graph, const struct graph_version *version)
{
    const struct graph_edge *own = version_own_edge(version, true);
    if (own == NULL || version->bytes > ELEMENT_BYTES)
        return false;
    OWNED bool *reached = sources_of(graph, own->from, false);
    return ALL_IN(edge, version, !elementwise_matters(edge) || edge == own || reached[edge->from->number]);
}

/* Whether a version is what a sum has become that begins at nothing in this period, or to which several have been added
 * in it: that is the gradient, not what is added to it. */
static bool
is_sum(const struct graph *graph, const struct graph_version *version)
{
    bool several = false;
    if (!elementwise_has_others(version) || is_scaled_alone(graph, version))
        return false;
    for (const struct graph_version *at = version;; at = version_own_edge(at, true)->from) {
        if (version_own_edge(at, true) == NULL)
            return at->op < 0 ? several : at != version;
        if (at != version && (!leads_by_place(at) || at->parameter))
            return false;
        several = several || (at != version && elementwise_has_others(at));
    }
}

static bool
gets(const struct graph *graph, const struct scout_op *op, uint32_t memory)
{
    return ANY(it, op->arguments, op->argument_count, graph->memory_of[it->alloc] == memory);
}

/* Whether an operation is a copy or a fill that may write a place. */
static bool
may_bring(const struct graph *graph, const struct scout_op *op, const struct graph_version *place)
{
    if (op->kind != SCOUT_COPY && op->kind != SCOUT_FILL)
        return false;
    if (op->to.alloc == SCOUT_NONE || graph->memory_of[op->to.alloc] != (uint32_t)place->memory)
        return false;
    if (op->to.offset >= place->hi)
        return false;
    return op->rows > 1 || op->bytes == 0 || op->to.offset + op->bytes > place->lo;
}

/* Whether the graph would show that an operation writes memory: what it writes is known, or the memory is not among its
 * arguments, or a launch of its kernel is in the period and gets the memory. */
static bool
is_shown(const struct graph *graph, const struct scout_op *op, uint32_t memory)
{
    if (op->effect != NULL || !gets(graph, op, memory))
        return true;
    return ANY(it, &graph->log->ops[graph->first], graph->count, it->name == op->name && gets(graph, it, memory));
}

/* Whether a place holds what the program has filled it with, such as the zeros with which a recurrent net begins: no
 * copy brings other contents, no launch of the period writes it, no other kernel gets its memory. A copy of no bytes:
 * the host writes managed memory, anywhere. */
static bool
stays_filled(const struct graph *graph, const struct graph_version *place)
{
    uint32_t memory = (uint32_t)place->memory;
    bool filled = false;
    FOR_EACH(op, graph->log->ops, graph->log->op_count) {
        bool is_target = may_bring(graph, op, place);
        if (!is_shown(graph, op, memory) || (is_target && op->kind == SCOUT_COPY))
            return false;
        filled = filled || is_target;
    }
    return filled && (place->op < 0 || graph_op(graph, place)->kind == SCOUT_FILL);
}

/* Whether a launch adds nothing to what is in the version's place, because one of its factors is zero, and all that it
 * gets of that memory: the state from which a recurrent net begins. What it leaves is the gradient, not what it adds
 * to. */
static bool
adds_nothing(const struct graph *graph, const struct graph_version *version)
{
    return !version->parameter && version_own_edge(version, true) != NULL && !elementwise_has_others(version) &&
           ANY_IN(edge, version,
                  !edge->elementwise && edge->from->bytes > SCALAR_BYTES &&
                      (!edge->from->tainted || edge->from->constant) &&
                      !ANY_IN(other, version,
                              other->from->tainted && !other->from->constant &&
                                  other->from->memory == edge->from->memory) &&
                      stays_filled(graph, edge->from));
}

bool
elementwise_goes_on(const struct graph *graph, const struct graph_version *version)
{
    return ANY_IN(edge, version, elementwise_leads_up(edge) && edge->from->chain) &&
           ALL_IN(edge, version,
                  !elementwise_leads_up(edge) || edge->from->chain || is_scalar_of(edge) ||
                      elementwise_is_rest(version, edge->from)) &&
           version->inner && !is_sum(graph, version) && !adds_nothing(graph, version);
}

uint32_t
elementwise_parameters_behind(const struct graph *graph, const struct graph_version *version,
                              const struct graph_version **last)
{
    uint32_t count = 0;
    OWNED bool *reached = sources_of(graph, version, false);
    FOR_EACH_VERSION(it, graph) {
        if (it <= version || !reached[it->number] || !it->parameter)
            continue;
        count += 1;
        *last = it;
    }
    return count;
}
