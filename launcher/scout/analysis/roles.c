/*
 * roles.c - see roles.h.
 */
#include "launcher/scout/analysis/roles.h"

#include "base/mutant.h"
#include "launcher/common/xcalloc.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What is not larger than SCALAR_BYTES may be a few scalars: norms, flags, counts; if it is larger than an element,
 * which is one number, only if it is computed from gradients. */
enum { SCALAR_BYTES = 256, DATA_BYTES = 64, ELEMENT_BYTES = 8 };

static const struct graph_version *
version_of(const struct roles *roles, uint32_t number)
{
    return &roles->graph->versions[number];
}

static bool
in_period(const struct roles *roles, uint32_t number)
{
    return version_of(roles, number)->op < (int32_t)roles->period;
}

static const struct graph_edge *
in_edge(const struct roles *roles, uint32_t number, uint32_t i)
{
    return &roles->graph->edges[version_of(roles, number)->first_in + i];
}

static const struct graph_edge *
out_edge(const struct roles *roles, uint32_t number, uint32_t i)
{
    return &roles->graph->edges[roles->graph->outs[version_of(roles, number)->first_out + i]];
}

static const char *
op_name(const struct roles *roles, uint32_t number, char text[SCOUT_NAME_BYTES])
{
    const struct scout_op *op = graph_op(roles->graph, version_of(roles, number));
    if (op == NULL)
        snprintf(text, SCOUT_NAME_BYTES, "what was there before");
    else
        (void)scout_op_name(roles->graph->log, op, text);
    return text;
}

static uint32_t
alloc_of(const struct roles *roles, uint32_t number)
{
    int32_t memory = version_of(roles, number)->memory;
    return memory == HOST_MEMORY ? SCOUT_NONE : roles->graph->memories[memory].alloc;
}

/* "a3[0:4096]" */
static const char *
place_text(const struct roles *roles, uint32_t number, char text[64])
{
    const struct graph_version *version = version_of(roles, number);
    if (version->memory == HOST_MEMORY)
        snprintf(text, 64, "host memory");
    else
        snprintf(text, 64, "a%" PRIu32 "[%" PRIu64 ":%" PRIu64 "]", alloc_of(roles, number), version->lo, version->hi);
    return text;
}

static void __attribute__((format(printf, 2, 3))) add_note(struct scout_finding *finding, const char *format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    for (uint32_t i = 0; i < finding->note_count; ++i)
        if (strcmp(finding->notes[i], text) == 0)
            return;
    finding->notes = xrealloc(finding->notes, (finding->note_count + 1) * sizeof(*finding->notes));
    finding->notes[finding->note_count++] = xstrdup(text);
}

static enum roles_verdict __attribute__((format(printf, 3, 4)))
refuse(struct scout_finding *finding, enum roles_verdict verdict, const char *format, ...)
{
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    free(finding->reason);
    finding->reason = xstrdup(text);
    return verdict;
}

static bool
overlaps(const struct graph_version *a, const struct graph_version *b)
{
    return a->memory == b->memory && a->lo < b->hi && b->lo < a->hi;
}

/* ---- data ---- */

/* Whether any operation of the window writes where this version of no operation lies. */
static bool
is_overwritten(const struct roles *roles, uint32_t number)
{
    const struct graph_version *version = version_of(roles, number);
    if (!roles->graph->memories[version->memory].written)
        return false;
    for (uint32_t i = 0; i < roles->graph->version_count; ++i)
        if (roles->graph->versions[i].op >= 0 && overlaps(version, &roles->graph->versions[i]))
            return true;
    return false;
}

/* Whether the same copy carries the same bytes one period later. */
static bool
is_repeated(const struct roles *roles, const struct graph_version *version)
{
    const struct scout_op *op = graph_op(roles->graph, version);
    uint32_t later = (uint32_t)version->op + roles->period;
    return op->content != 0 && later < roles->graph->count &&
           roles->graph->log->ops[roles->graph->first + later].content == op->content;
}

/* A copy of a few numbers from the host, where larger ones bring the data: a rate, a scale, a count; or a small batch.
 */
static bool
is_small(const struct graph_version *version)
{
    return version->from_host && version->bytes <= DATA_BYTES;
}

static void
find_sources(struct roles *roles, struct scout_finding *finding)
{
    const struct graph *graph = roles->graph;
    uint64_t constants = 0, copies = 0;
    for (uint32_t i = 0; i < graph->version_count; ++i)
        roles->has_large =
            roles->has_large || (graph->versions[i].from_host && in_period(roles, i) && !is_small(&graph->versions[i]));
    for (uint32_t i = 0; i < graph->version_count; ++i) {
        const struct graph_version *version = &graph->versions[i];
        if (!version->from_host || !in_period(roles, i))
            continue;
        roles->source[i] = true;
        roles->constant[i] = is_repeated(roles, version) || (roles->has_large && is_small(version));
        copies += 1;
    }
    for (uint32_t i = 0; i < graph->version_count; ++i)
        if (graph->versions[i].op == VERSION_BEFORE && graph->versions[i].out_count > 0 && !is_overwritten(roles, i)) {
            roles->source[i] = roles->constant[i] = true;
            constants += 1;
        }
    finding->from_host = copies;
    finding->constants = constants;
}

/* Marks what is computed from sources within the period, not through what is blocked. */
static void
spread(const struct roles *roles, bool *marks, const bool *sources, const bool *blocked)
{
    for (uint32_t i = 0; i < roles->graph->version_count; ++i) {
        marks[i] = sources[i];
        if (!in_period(roles, i))
            continue;
        for (uint32_t e = 0; e < version_of(roles, i)->in_count && !marks[i]; ++e)
            marks[i] = marks[in_edge(roles, i, e)->from];
        if (blocked != NULL && blocked[i])
            marks[i] = false;
    }
}

/* ---- what stays ---- */

static void
find_persistent(struct roles *roles)
{
    for (uint32_t i = 0; i < roles->graph->version_count; ++i) {
        const struct graph_version *version = version_of(roles, i);
        if (version->op < 0 || !in_period(roles, i) || version->memory == HOST_MEMORY)
            continue;
        for (uint32_t e = 0; e < version->out_count && !roles->persistent[i]; ++e)
            roles->persistent[i] = !in_period(roles, out_edge(roles, i, e)->to);
    }
}

/* Marks a version and those that it became, element by element in the same place, in this period. */
static void
mark_own(const struct roles *roles, uint32_t number, bool *own)
{
    memset(own, 0, roles->graph->version_count);
    own[number] = true;
    for (uint32_t i = number + 1; i-- > 0;)
        for (uint32_t e = 0; e < version_of(roles, i)->in_count && own[i]; ++e) {
            const struct graph_edge *edge = in_edge(roles, i, e);
            own[edge->from] = own[edge->from] || (edge->elementwise && version_of(roles, edge->from)->op >= 0 &&
                                                  overlaps(version_of(roles, edge->from), version_of(roles, number)));
        }
}

/* How a version is reached from what was in a place: */
enum reached {
    NOT_REACHED,
    BY_PLACE,   /* within the place, or by a scalar of it that scales it, as in clipping */
    BY_SCALARS, /* by few numbers that are computed from it */
    BY_OTHERS,  /* by way of other memory; what left and came back counts, too */
};

/* Whether a version is what it was in its place, element by element, and something else. */
static bool
keeps_place(const struct roles *roles, uint32_t number)
{
    for (uint32_t e = 0; e < version_of(roles, number)->in_count; ++e)
        if (in_edge(roles, number, e)->elementwise &&
            overlaps(version_of(roles, in_edge(roles, number, e)->from), version_of(roles, number)))
            return true;
    return false;
}

static enum reached
reached_by(const struct roles *roles, enum reached before, const struct graph_edge *edge,
           const struct graph_version *place)
{
    const struct graph_version *next = version_of(roles, edge->to);
    uint64_t bytes = version_of(roles, edge->from)->bytes;
    bool is_scalar = bytes <= ELEMENT_BYTES && bytes < place->bytes;
    if (before == NOT_REACHED || before == BY_OTHERS)
        return before;
    if (overlaps(next, place))
        return before == BY_PLACE || is_scalar ? BY_PLACE : BY_OTHERS;
    if (next->bytes <= SCALAR_BYTES && next->bytes < place->bytes)
        return BY_SCALARS;
    /* scales another gradient, and what becomes of that */
    bool scales = before == BY_SCALARS && (is_scalar ? keeps_place(roles, edge->to) : edge->elementwise);
    return scales ? BY_SCALARS : BY_OTHERS;
}

/* Whether what was in the version's place before the period leads to it, or to what it was on the way, through other
 * memory; `directly`: and not through a value that a parameter has between two steps. */
static bool
feeds_back(const struct roles *roles, uint32_t number, bool directly)
{
    const struct graph *graph = roles->graph;
    const struct graph_version *end = version_of(roles, number);
    enum reached *reached = xcalloc(graph->version_count, sizeof(*reached));
    bool *own = xcalloc(graph->version_count, sizeof(*own)), found = false;
    mark_own(roles, number, own);
    for (uint32_t i = 0; i <= number && !found; ++i) {
        const struct graph_version *version = version_of(roles, i);
        if (version->op == VERSION_BEFORE && overlaps(version, end))
            reached[i] = BY_PLACE;
        for (uint32_t e = 0; e < version->in_count && in_period(roles, i); ++e) {
            const struct graph_edge *edge = in_edge(roles, i, e);
            enum reached here = reached_by(roles, reached[edge->from], edge, end);
            if (here > reached[i])
                reached[i] = here;
        }
        found = own[i] && reached[i] == BY_OTHERS;
        if (roles->between[i] && directly)
            reached[i] = NOT_REACHED;
    }
    free(reached);
    free(own);
    return found;
}

/* Whether the version is computed, element by element, from what it, or state that no rank keeps for itself, was before
 * the period. */
static bool
comes_from_itself(const struct roles *roles, uint32_t number)
{
    const struct graph *graph = roles->graph;
    bool *reached = xcalloc(graph->version_count, sizeof(*reached));
    bool found = false;
    reached[number] = true;
    for (uint32_t i = number + 1; i-- > 0 && !found;) {
        if (!reached[i])
            continue;
        const struct graph_version *version = version_of(roles, i);
        if (version->op == VERSION_BEFORE && version->memory != HOST_MEMORY)
            for (uint32_t p = 0; p < graph->version_count && !found; ++p)
                found = roles->persistent[p] && !roles->carried[p] && overlaps(version, version_of(roles, p));
        for (uint32_t e = 0; e < version->in_count; ++e) {
            const struct graph_edge *edge = in_edge(roles, i, e);
            if (edge->elementwise ||
                (version->bytes <= ELEMENT_BYTES && version_of(roles, edge->from)->bytes == version->bytes))
                reached[edge->from] = true;
        }
    }
    free(reached);
    return found;
}

/* Whether an edge leaves a version for other memory, in this period, and not element by element. */
static bool
spreads(const struct roles *roles, const struct graph_edge *edge)
{
    const struct graph_version *from = version_of(roles, edge->from), *to = version_of(roles, edge->to);
    return in_period(roles, edge->to) && !edge->elementwise && !overlaps(to, from) && to->bytes > ELEMENT_BYTES;
}

/* A period may hold several steps. The value that a parameter has between two of them comes element by element from
 * what was there before, is read elsewhere, not only element by element as the optimizer's state is, and changes again
 * in the same way. */
static void
find_between(struct roles *roles)
{
    uint32_t count = roles->graph->version_count;
    bool *own = xcalloc(count, sizeof(*own)); /* comes from what was in its place */
    for (uint32_t i = 0; i < count; ++i) {
        const struct graph_version *version = version_of(roles, i);
        bool is_read = false, changes = false;
        own[i] = version->op == VERSION_BEFORE;
        for (uint32_t e = 0; e < version->in_count && !own[i]; ++e) {
            const struct graph_edge *edge = in_edge(roles, i, e);
            own[i] = own[edge->from] && edge->elementwise && overlaps(version_of(roles, edge->from), version);
        }
        for (uint32_t e = 0; e < version->out_count; ++e) {
            const struct graph_edge *edge = out_edge(roles, i, e);
            is_read = is_read || spreads(roles, edge);
            changes = changes || (in_period(roles, edge->to) && edge->elementwise &&
                                  overlaps(version_of(roles, edge->to), version));
        }
        roles->between[i] =
            own[i] && is_read && changes && version->op >= 0 && in_period(roles, i) && roles->tainted[i];
    }
    free(own);
}

static void
find_parameters(struct roles *roles)
{
    uint32_t count = roles->graph->version_count;
    bool *own = xcalloc(count, sizeof(*own)), *between = xcalloc(count, sizeof(*between));
    find_between(roles);
    for (uint32_t i = 0; i < count; ++i) {
        if (!roles->persistent[i] || !roles->tainted[i] || roles->source[i] || !feeds_back(roles, i, true))
            continue;
        roles->parameter[i] = comes_from_itself(roles, i) || MUTANT(SCOUT_CHAIN_NOT_REQUIRED);
        roles->carried[i] = !roles->parameter[i];
        if (roles->parameter[i])
            mark_own(roles, i, own);
        for (uint32_t k = 0; k < i && roles->parameter[i]; ++k)
            between[k] = between[k] || (own[k] && roles->between[k]);
    }
    memcpy(roles->between, between, count);
    for (uint32_t i = 0; i < count; ++i)
        roles->parameter[i] = roles->parameter[i] || between[i];
    free(own);
    free(between);
}

/* Marks what leads to a parameter in this period; a parameter's new value leads to itself. */
static void
find_leading(struct roles *roles)
{
    for (uint32_t i = roles->graph->version_count; i-- > 0;) {
        roles->leads[i] = roles->parameter[i];
        for (uint32_t e = 0; e < version_of(roles, i)->out_count && !roles->leads[i]; ++e) {
            uint32_t to = out_edge(roles, i, e)->to;
            roles->leads[i] = in_period(roles, to) && roles->leads[to];
        }
    }
}

/* ---- the elementwise way ---- */

static bool
may_scale(const struct roles *roles, uint32_t number)
{
    uint64_t bytes = version_of(roles, number)->bytes;
    return bytes <= ELEMENT_BYTES || (bytes <= SCALAR_BYTES && !roles->vector[number]);
}

static bool
is_scalar(const struct roles *roles, uint32_t number)
{
    return may_scale(roles, number) && !roles->parameter[number];
}

/* An edge along which each element goes to one element. */
static bool
goes_by_element(const struct roles *roles, const struct graph_edge *edge)
{
    const struct graph_version *from = version_of(roles, edge->from), *to = version_of(roles, edge->to);
    return edge->elementwise || (to->bytes <= ELEMENT_BYTES && from->bytes == to->bytes);
}

/* An input that matters on the way: computed from data, and no constant of the update itself. */
static bool
matters(const struct roles *roles, const struct graph_edge *edge)
{
    return roles->tainted[edge->from] && !roles->between[edge->from] &&
           !(roles->constant[edge->from] && goes_by_element(roles, edge));
}

/* Whether all that a version has from data comes element by element, scalars aside: roles->inner. */
static bool
is_inner(const struct roles *roles, uint32_t number)
{
    bool some = false;
    for (uint32_t e = 0; e < version_of(roles, number)->in_count; ++e) {
        const struct graph_edge *edge = in_edge(roles, number, e);
        if (!matters(roles, edge))
            continue;
        if (goes_by_element(roles, edge))
            some = true;
        else if (!may_scale(roles, edge->from))
            return false;
    }
    return some;
}

/* Whether all ways of a scalar to parameters enter the elementwise way on its inside. What uses it is decided: a
 * version comes after all that it is computed from. */
static bool
scales_only(const struct roles *roles, uint32_t number)
{
    if (roles->scales[number] == 0) {
        bool only = true;
        for (uint32_t e = 0; e < version_of(roles, number)->out_count && only; ++e) {
            uint32_t to = out_edge(roles, number, e)->to;
            only = !in_period(roles, to) || !roles->leads[to] || (roles->chain[to] && roles->inner[to]) ||
                   (is_scalar(roles, to) && scales_only(roles, to));
        }
        roles->scales[number] = only ? 1 : 2;
    }
    return roles->scales[number] == 1;
}

/* Whether an update has used a version before it becomes `next` in its own place: then that is of another step. */
static bool
is_used_before(const struct roles *roles, uint32_t number, uint32_t next)
{
    for (uint32_t e = 0; e < version_of(roles, number)->out_count; ++e) {
        uint32_t to = out_edge(roles, number, e)->to;
        if (to < next && roles->chain[to] && !overlaps(version_of(roles, to), version_of(roles, number)))
            return true;
    }
    return false;
}

/* Whether all that a version leads to is what it becomes in its own place, up to a gradient. */
static bool
is_kept(const struct roles *roles, uint32_t number)
{
    if (roles->kept[number] == 0) {
        bool only = true;
        for (uint32_t e = 0; e < version_of(roles, number)->out_count && only; ++e) {
            const struct graph_edge *edge = out_edge(roles, number, e);
            only = !in_period(roles, edge->to) || !roles->leads[edge->to] ||
                   (edge->elementwise && overlaps(version_of(roles, edge->to), version_of(roles, number)) &&
                    (roles->chain[edge->to] || is_kept(roles, edge->to)));
        }
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
        const struct graph_edge *edge = out_edge(roles, number, e);
        uint32_t to = edge->to;
        if (!in_period(roles, to) || !roles->leads[to])
            continue;
        if (edge->elementwise && overlaps(version_of(roles, to), version_of(roles, number)) && !roles->parameter[to] &&
            is_used_before(roles, number, to) && (roles->chain[to] || is_kept(roles, to)))
            continue;
        if (roles->chain[to]) {
            if (!roles->inner[to] || !goes_by_element(roles, edge))
                return false;
        } else if (!is_scalar(roles, to) || !scales_only(roles, to)) {
            return false;
        }
    }
    return true;
}

/* From the parameters upwards; a version comes after all that uses it. */
static void
find_chain(struct roles *roles)
{
    bool *asked = xcalloc(roles->graph->version_count, sizeof(*asked));
    memset(roles->scales, 0, roles->graph->version_count);
    memset(roles->kept, 0, roles->graph->version_count);
    for (uint32_t i = roles->graph->version_count; i-- > 0;) {
        if (!in_period(roles, i))
            continue;
        roles->chain[i] = roles->parameter[i] || (asked[i] && version_of(roles, i)->op >= 0 && is_private(roles, i));
        if (!roles->chain[i] || !roles->inner[i])
            continue;
        for (uint32_t e = 0; e < version_of(roles, i)->in_count; ++e) {
            const struct graph_edge *edge = in_edge(roles, i, e);
            if (matters(roles, edge) && goes_by_element(roles, edge))
                asked[edge->from] = true;
        }
    }
    free(asked);
}

/* A small input that is less than what it is an input of. */
static bool
is_scalar_of(const struct roles *roles, const struct graph_edge *edge)
{
    uint64_t bytes = version_of(roles, edge->from)->bytes;
    return bytes <= ELEMENT_BYTES || (may_scale(roles, edge->from) && bytes < version_of(roles, edge->to)->bytes);
}

/* Whether what a version read of `rest` is only what a later version of the same memory, on the way, left as it was:
 * rows that a batch does not touch. */
static bool
is_rest(const struct roles *roles, uint32_t number, uint32_t rest)
{
    for (uint32_t e = 0; e < version_of(roles, number)->in_count; ++e) {
        const struct graph_edge *edge = in_edge(roles, number, e);
        uint32_t at = edge->from;
        bool found = roles->chain[at] && at > rest && matters(roles, edge) && goes_by_element(roles, edge);
        while (found && at > rest) { /* from one version of the memory to the one before */
            uint32_t before = UINT32_MAX;
            for (uint32_t i = 0; i < version_of(roles, at)->in_count; ++i) {
                const struct graph_edge *own = in_edge(roles, at, i);
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

/* Whether a version has something from data element by element, and not only from its own place. */
static bool
has_other_elements(const struct roles *roles, uint32_t number)
{
    for (uint32_t e = 0; e < version_of(roles, number)->in_count; ++e) {
        const struct graph_edge *edge = in_edge(roles, number, e);
        if (matters(roles, edge) && goes_by_element(roles, edge) &&
            !overlaps(version_of(roles, edge->from), version_of(roles, number)))
            return true;
    }
    return false;
}

/* The version that this one comes from element by element in the same place; UINT32_MAX: there is none. */
static uint32_t
own_before(const struct roles *roles, uint32_t number)
{
    uint32_t before = UINT32_MAX;
    for (uint32_t e = 0; e < version_of(roles, number)->in_count; ++e) {
        const struct graph_edge *edge = in_edge(roles, number, e);
        if (edge->elementwise && overlaps(version_of(roles, edge->from), version_of(roles, number)))
            before = edge->from;
    }
    return before;
}

/* Whether a version leads to parameters only by what it becomes in its place. */
static bool
leads_by_place(const struct roles *roles, uint32_t number)
{
    for (uint32_t e = 0; e < version_of(roles, number)->out_count; ++e) {
        uint32_t to = out_edge(roles, number, e)->to;
        if (in_period(roles, to) && roles->leads[to] && !overlaps(version_of(roles, to), version_of(roles, number)))
            return false;
    }
    return true;
}

/* Whether a version is what a sum has become that begins at nothing in this period, or to which several have been added
 * in it: that is the gradient, not what is added to it. */
static bool
is_sum(const struct roles *roles, uint32_t number)
{
    bool several = false;
    if (!has_other_elements(roles, number))
        return false;
    for (uint32_t at = number, before; at != UINT32_MAX; at = before) {
        before = own_before(roles, at);
        if (before == UINT32_MAX)
            return version_of(roles, at)->op < 0 ? several : at != number;
        if (at != number && (!leads_by_place(roles, at) || roles->parameter[at]))
            return false;
        several = several || (at != number && has_other_elements(roles, at));
    }
    return false;
}

/* Whether the way up goes on from a version: all that it has from data is on the way, scalars aside. */
static bool
goes_on(const struct roles *roles, uint32_t number)
{
    bool some = false;
    for (uint32_t e = 0; e < version_of(roles, number)->in_count; ++e) {
        const struct graph_edge *edge = in_edge(roles, number, e);
        if (!matters(roles, edge) || !goes_by_element(roles, edge))
            continue;
        if (roles->chain[edge->from])
            some = true;
        else if (!is_scalar_of(roles, edge) && !is_rest(roles, number, edge->from))
            return false;
    }
    return some && roles->inner[number] && !is_sum(roles, number);
}

/* Whether a version leads, in this period, to parameters other than itself; the last of them. */
static uint32_t
parameters_behind(const struct roles *roles, uint32_t number, uint32_t *last)
{
    bool *reached = xcalloc(roles->graph->version_count, sizeof(*reached));
    uint32_t count = 0;
    reached[number] = true;
    for (uint32_t i = number + 1; i < roles->graph->version_count; ++i) {
        for (uint32_t e = 0; e < version_of(roles, i)->in_count && in_period(roles, i) && !reached[i]; ++e)
            reached[i] = reached[in_edge(roles, i, e)->from];
        if (reached[i] && roles->parameter[i]) {
            count += 1;
            *last = i;
        }
    }
    free(reached);
    return count;
}

/* What a parameter's way up finds. */
struct way {
    struct roles *roles;
    struct scout_finding *finding;
    uint32_t parameter; /* version */
    uint32_t tensor;    /* of the finding */
    bool *visited;
    bool follows; /* the way goes through another parameter's new value */
    bool own;     /* it ends at the parameter */
    uint32_t gradients;
};

static uint32_t
add_tensor(struct scout_finding *finding, const struct scout_tensor *tensor)
{
    for (uint32_t i = 0; i < finding->tensor_count; ++i) {
        const struct scout_tensor *other = &finding->tensors[i];
        if (other->role == tensor->role && other->alloc == tensor->alloc && other->lo == tensor->lo &&
            other->hi == tensor->hi)
            return i;
    }
    finding->tensors = xrealloc(finding->tensors, (finding->tensor_count + 1) * sizeof(*finding->tensors));
    finding->tensors[finding->tensor_count] = *tensor;
    return finding->tensor_count++;
}

static uint32_t
log_op(const struct roles *roles, uint32_t number)
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
            const struct graph_edge *edge = out_edge(roles, number, e);
            if (!in_period(roles, edge->to) || !roles->leads[edge->to])
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

/* What a program may as well call the gradient: the only thing that it becomes on its way. */
static void
note_next(const struct way *way, uint32_t number)
{
    const struct roles *roles = way->roles;
    char place[64], next[64], name[SCOUT_NAME_BYTES];
    uint32_t only = UINT32_MAX;
    for (uint32_t e = 0; e < version_of(roles, number)->out_count; ++e) {
        uint32_t to = out_edge(roles, number, e)->to;
        if (!in_period(roles, to) || !roles->leads[to] || to == only)
            continue;
        if (only != UINT32_MAX || !roles->chain[to] || roles->parameter[to] ||
            overlaps(version_of(roles, to), version_of(roles, number)))
            return;
        only = to;
    }
    if (only != UINT32_MAX)
        add_note(way->finding, "gradient %s is only read by %s: %s, which becomes of it, may be meant",
                 place_text(roles, number, place), op_name(roles, only, name), place_text(roles, only, next));
}

static void
end_way(struct way *way, uint32_t number, uint64_t lo, uint64_t hi)
{
    const struct roles *roles = way->roles;
    if (number != way->parameter) {
        number = follow_copies(roles, number, &lo, &hi);
        note_next(way, number);
    }
    const struct graph_version *version = version_of(roles, number);
    roles->gradient[number] = true;
    if (number == way->parameter) {
        way->own = true;
        return;
    }
    if (MUTANT(SCOUT_BYTES_SEEN)) {
        lo = version->lo;
        hi = version->lo + version->bytes;
    }
    uint64_t limit = roles->graph->memories[version->memory].bytes;
    uint32_t gradient = add_tensor(way->finding, &(struct scout_tensor){.role = ROLE_GRADIENT,
                                                                        .alloc = alloc_of(roles, number),
                                                                        .lo = lo,
                                                                        .hi = hi < limit ? hi : limit,
                                                                        .type = version->type,
                                                                        .pair = way->tensor,
                                                                        .group = GROUP_NONE,
                                                                        .writer = log_op(roles, number)});
    struct scout_tensor *parameter = &way->finding->tensors[way->tensor];
    if (parameter->pair == PAIR_NONE)
        parameter->pair = gradient;
    way->gradients += parameter->pair != gradient || way->gradients == 0;
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
    if (!goes_on(roles, number) || (MUTANT(SCOUT_DOWNSTREAM) && number != way->parameter)) {
        end_way(way, number, lo, hi);
        return;
    }
    for (uint32_t e = 0; e < version_of(roles, number)->in_count; ++e) {
        const struct graph_edge *edge = in_edge(roles, number, e);
        if (!matters(roles, edge) || !goes_by_element(roles, edge))
            continue;
        if (!roles->chain[edge->from]) {
            way->roles->gradient[edge->from] |= is_rest(roles, number, edge->from); /* averaged with what follows it */
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
        go_up(way, edge->from, image_lo, image_hi);
    }
}

/* What is used as a few scalars on the way, and is not computed from gradients, is a vector, where it is added to a
 * sum: what a gradient is computed from. Whether there was one. */
static bool
find_vectors(struct roles *roles)
{
    bool some = false;
    for (uint32_t i = 0; i < roles->graph->edge_count; ++i) {
        const struct graph_edge *edge = &roles->graph->edges[i];
        uint32_t from = edge->from;
        if (!in_period(roles, edge->to) || !roles->chain[edge->to] || !matters(roles, edge) ||
            goes_by_element(roles, edge) || version_of(roles, from)->bytes <= ELEMENT_BYTES ||
            !may_scale(roles, from) || has_other_elements(roles, edge->to))
            continue;
        bool is_vector = roles->source[from] && !roles->constant[from];
        for (uint32_t e = 0; e < version_of(roles, from)->in_count; ++e) {
            uint32_t of = in_edge(roles, from, e)->from;
            is_vector =
                is_vector || (matters(roles, in_edge(roles, from, e)) && !roles->chain[of] && !may_scale(roles, of));
        }
        roles->vector[from] = is_vector;
        some = some || is_vector;
    }
    return some;
}

/* A sum that a net keeps, such as that of a recurrent cell, looks like a parameter until its way up is known: it has no
 * gradient of its own, and other parameters' gradients are computed from its new value. Whether there was one. */
static bool
find_kept_sums(struct roles *roles)
{
    bool some = false;
    uint32_t last;
    for (uint32_t i = 0; i < roles->graph->version_count; ++i)
        if (roles->parameter[i] && roles->inner[i] && !goes_on(roles, i) && parameters_behind(roles, i, &last) > 0)
            roles->carried[i] = some = true;
    for (uint32_t i = 0; i < roles->graph->version_count && some; ++i) {
        roles->carried[i] = roles->carried[i] || (roles->parameter[i] && !comes_from_itself(roles, i));
        roles->parameter[i] = roles->parameter[i] && !roles->carried[i];
    }
    return some;
}

static void
note_unlike(const struct roles *roles, struct scout_finding *finding, uint32_t number, uint32_t others)
{
    char place[64], name[SCOUT_NAME_BYTES];
    add_note(finding, "parameter %s has %u gradients, which %s adds: all of them are averaged",
             place_text(roles, number, place), others, op_name(roles, number, name));
}

static void
find_gradients(struct roles *roles, struct scout_finding *finding)
{
    for (uint32_t i = 0; i < roles->graph->version_count; ++i) {
        if (!roles->parameter[i])
            continue;
        const struct graph_version *version = version_of(roles, i);
        struct scout_tensor tensor = {.role = ROLE_PARAMETER,
                                      .alloc = alloc_of(roles, i),
                                      .lo = version->lo,
                                      .hi = version->hi,
                                      .type = version->type,
                                      .pair = PAIR_NONE,
                                      .group = GROUP_NONE,
                                      .writer = log_op(roles, i)};
        struct way way = {.roles = roles, .finding = finding, .parameter = i};
        way.visited = xcalloc(roles->graph->version_count, sizeof(*way.visited));
        way.tensor = add_tensor(finding, &tensor);
        go_up(&way, i, version->lo, version->hi);
        if (way.follows && !way.own)
            finding->tensors[way.tensor].role = ROLE_AVERAGE;
        finding->tensors[way.tensor].fused = way.own;
        if (roles->between[i])
            add_note(finding, "a period holds several updates of parameters: average before each of them; groups show "
                              "the first");
        if (way.gradients > 1)
            note_unlike(roles, finding, i, way.gradients);
        free(way.visited);
    }
}

/* ---- proof, and what must be refused ---- */

/* A constant that only scales or masks the update itself. */
static bool
belongs_to_update(const struct roles *roles, uint32_t number)
{
    for (uint32_t e = 0; e < version_of(roles, number)->out_count; ++e) {
        uint32_t to = out_edge(roles, number, e)->to;
        if (in_period(roles, to) && roles->leads[to] && !(roles->chain[to] && roles->inner[to]))
            return false;
    }
    return true;
}

/* The operations by which data reaches a version past the gradients: "K1, K2 and K3". */
static void
describe_way(const struct roles *roles, uint32_t number, char *text, size_t room)
{
    size_t used = 0;
    char name[SCOUT_NAME_BYTES];
    text[0] = '\0';
    for (int steps = 0; steps < 6 && used < room; ++steps) {
        uint32_t next = UINT32_MAX;
        for (uint32_t e = 0; e < version_of(roles, number)->in_count && next == UINT32_MAX; ++e)
            if (roles->past[in_edge(roles, number, e)->from])
                next = in_edge(roles, number, e)->from;
        if (version_of(roles, number)->op >= 0)
            used += (size_t)snprintf(text + used, room - used, "%s%s", steps > 0 ? " after " : "",
                                     op_name(roles, number, name));
        if (next == UINT32_MAX)
            return;
        number = next;
    }
}

/* Proof (a): with the gradients cut out no way leads from data to a parameter. */
static enum roles_verdict
prove_cut(struct roles *roles, struct scout_finding *finding)
{
    uint32_t count = roles->graph->version_count;
    bool *sources = xcalloc(count, sizeof(*sources));
    for (uint32_t i = 0; i < count; ++i)
        sources[i] = roles->source[i] && !(roles->constant[i] && belongs_to_update(roles, i)) &&
                     !(roles->has_large && is_small(version_of(roles, i)));
    spread(roles, roles->past, sources, roles->gradient);
    free(sources);
    for (uint32_t i = 0; i < count; ++i) {
        if (roles->gradient[i])
            finding->paths_cut += version_of(roles, i)->in_count;
        if (!roles->parameter[i] || !roles->past[i])
            continue;
        char way[512], place[64];
        describe_way(roles, i, way, sizeof(way));
        return refuse(finding, ROLES_REFUSED, "data reaches %s past the gradients, by %s", place_text(roles, i, place),
                      way);
    }
    return ROLES_FOUND;
}

/* State that the operation of a version keeps besides parameters. */
static uint32_t
kept_beside(const struct roles *roles, uint32_t number)
{
    for (uint32_t i = 0; i < roles->graph->version_count; ++i)
        if (roles->persistent[i] && roles->tainted[i] && !roles->parameter[i] &&
            version_of(roles, i)->op == version_of(roles, number)->op)
            return i;
    return UINT32_MAX;
}

static enum roles_verdict
judge_fused(const struct roles *roles, struct scout_finding *finding)
{
    for (uint32_t i = 0; i < roles->graph->version_count; ++i) {
        if (!roles->parameter[i] || !roles->gradient[i])
            continue;
        char place[64], state[64], name[SCOUT_NAME_BYTES];
        bool inner = roles->inner[i];
        uint32_t kept = kept_beside(roles, i);
        if (kept != UINT32_MAX)
            return refuse(finding, ROLES_REFUSED,
                          "parameter %s is updated by %s, which keeps state %s and has no gradient of its own",
                          place_text(roles, i, place), op_name(roles, i, name), place_text(roles, kept, state));
        if (inner)
            return refuse(finding, ROLES_REFUSED,
                          "parameter %s is updated by %s from memory that also leads to other parameters: it has no "
                          "gradient of its own",
                          place_text(roles, i, place), op_name(roles, i, name));
        add_note(finding,
                 "%s computes the gradient of %s and updates it in one launch: its change is what can be averaged",
                 op_name(roles, i, name), place_text(roles, i, place));
    }
    return ROLES_FOUND;
}

/* Whether what was in a version's place before the period leads to a parameter other than itself. */
static bool
leads_on(const struct roles *roles, uint32_t number)
{
    for (uint32_t i = 0; i < roles->graph->version_count; ++i) {
        const struct graph_version *before = version_of(roles, i);
        if (before->op != VERSION_BEFORE || !overlaps(before, version_of(roles, number)))
            continue;
        for (uint32_t e = 0; e < before->out_count; ++e) {
            uint32_t to = out_edge(roles, i, e)->to;
            if (in_period(roles, to) && roles->leads[to])
                return true;
        }
    }
    return false;
}

/* The same, of what is upstream of a gradient. */
static bool
leads_to_gradients(const struct roles *roles, uint32_t number)
{
    uint32_t count = roles->graph->version_count;
    bool *reached = xcalloc(count, sizeof(*reached)), found = false;
    for (uint32_t i = 0; i < count && !found; ++i) {
        const struct graph_version *version = version_of(roles, i);
        if (version->op == VERSION_BEFORE && overlaps(version, version_of(roles, number)))
            reached[i] = true;
        for (uint32_t e = 0; e < version->in_count && in_period(roles, i) && !reached[i]; ++e)
            reached[i] = reached[in_edge(roles, i, e)->from];
        found = reached[i] && roles->gradient[i];
    }
    free(reached);
    return found;
}

/* A copy to the host that is computed from data, and one from the host of the same size: 0 if there is no such pair. */
static uint64_t
sent_and_returned(const struct roles *roles)
{
    for (uint32_t i = 0; i < roles->graph->version_count; ++i) {
        const struct graph_version *sent = version_of(roles, i);
        if (sent->memory != HOST_MEMORY || !roles->tainted[i] || sent->bytes <= DATA_BYTES || !in_period(roles, i))
            continue;
        for (uint32_t k = 0; k < roles->graph->version_count; ++k)
            if (version_of(roles, k)->from_host && version_of(roles, k)->bytes == sent->bytes)
                return sent->bytes;
    }
    return 0;
}

/* What stays, and is computed in a graph from data and from all of its own old value. */
static bool
is_step_of_graph(const struct roles *roles, uint32_t number)
{
    const struct scout_op *op = graph_op(roles->graph, version_of(roles, number));
    if (!roles->persistent[number] || !roles->tainted[number] || op == NULL || op->kind != SCOUT_GRAPH)
        return false;
    for (uint32_t e = 0; e < version_of(roles, number)->in_count; ++e)
        if (!in_edge(roles, number, e)->elementwise &&
            overlaps(version_of(roles, in_edge(roles, number, e)->from), version_of(roles, number)))
            return true;
    return false;
}

/* Whether what comes from the host leads to gradients, or is data alone, cannot be told where as much as comes has been
 * computed and sent: the host may have updated it. */
static void
note_host(const struct roles *roles, struct scout_finding *finding)
{
    uint64_t bytes = sent_and_returned(roles);
    if (bytes > 0)
        add_note(finding,
                 "%" PRIu64 " bytes that are computed from data are copied to the host, and as many come back: if the "
                 "host updates parameters, these and their gradients are not in the table",
                 bytes);
    const struct scout_log *log = roles->graph->log;
    for (uint32_t i = 0; i < log->op_count; ++i)
        if (log->ops[i].kind == SCOUT_COPY && log->ops[i].bytes == 0 && log->ops[i].to.alloc != SCOUT_NONE) {
            add_note(finding,
                     "the host writes memory that it shares with the device, as a%" PRIu32 ": if it updates parameters "
                     "or gradients, these are not in the table",
                     log->ops[i].to.alloc);
            return;
        }
}

static enum roles_verdict
judge_loops(const struct roles *roles, struct scout_finding *finding)
{
    uint32_t carried = UINT32_MAX;
    for (uint32_t i = 0; i < roles->graph->version_count; ++i) {
        if (roles->parameter[i])
            return ROLES_FOUND;
        if (roles->carried[i])
            carried = i;
    }
    char place[64], name[SCOUT_NAME_BYTES];
    uint64_t bytes = sent_and_returned(roles);
    if (bytes > 0 && carried == UINT32_MAX)
        return refuse(finding, ROLES_NO_LOOP,
                      "nothing stays on the device between steps: the optimizer runs on the host (%" PRIu64
                      " bytes are copied to the host, and as many come back)",
                      bytes);
    for (uint32_t i = 0; i < roles->graph->version_count; ++i)
        if (is_step_of_graph(roles, i))
            return refuse(
                finding, ROLES_REFUSED,
                "%s is updated in a graph, together with what its gradient is computed from: capture less, or "
                "scout the program without its graph",
                place_text(roles, i, place));
    if (carried != UINT32_MAX && version_of(roles, carried)->type == SCOUT_INTEGER)
        return refuse(
            finding, ROLES_NO_LOOP,
            "%s, written by %s, feeds back into the next step, but holds no numbers with a fraction: integers, "
            "or a run that has diverged; scout earlier steps",
            place_text(roles, carried, place), op_name(roles, carried, name));
    if (carried != UINT32_MAX)
        return refuse(finding, ROLES_NO_LOOP,
                      "%s, written by %s, feeds back into the next step, but no element of it is computed from its own "
                      "old value: this is not training by gradients",
                      place_text(roles, carried, place), op_name(roles, carried, name));
    return refuse(finding, ROLES_NO_LOOP,
                  "no memory feeds back into the next step: this is not training, or its numbers no longer move");
}

/* Operations of which nothing is known must not lead to a parameter. */
static enum roles_verdict
judge_unsure(const struct roles *roles, struct scout_finding *finding)
{
    for (uint32_t i = 0; i < roles->graph->version_count; ++i) {
        if (!version_of(roles, i)->unsure || !in_period(roles, i) || !roles->leads[i])
            continue;
        const struct scout_op *op = graph_op(roles->graph, version_of(roles, i));
        const struct scout_effect *effect = op->effect;
        char text[SCOUT_NAME_BYTES];
        const char *name = op_name(roles, i, text);
        if (effect == NULL)
            return refuse(finding, ROLES_REFUSED, "%s was not tried", name);
        if (effect->verdict == SCOUT_DIFFERS)
            return refuse(finding, ROLES_REFUSED, "the same launch twice gives different results: %s", name);
        if (effect->verdict == SCOUT_EXCLUDED || effect->verdict == SCOUT_TOO_LARGE)
            return refuse(finding, ROLES_REFUSED, "%s cannot be repeated: %s", name,
                          effect->verdict == SCOUT_TOO_LARGE ? "there is no room for copies of its memory"
                                                             : scout_log_name(roles->graph->log, effect->why));
        if (effect->why != SCOUT_NONE)
            return refuse(finding, ROLES_REFUSED, "%s cannot be followed: %s", name,
                          scout_log_name(roles->graph->log, effect->why));
        return refuse(finding, ROLES_REFUSED, "%s %s memory that is not among its arguments", name,
                      effect->hidden_read != 0 ? "reads" : "writes");
    }
    return ROLES_FOUND;
}

/* An operation of which not all is known may be the way by which something is a parameter: what stays behind it. */
static void
note_unsure(const struct roles *roles, struct scout_finding *finding)
{
    uint32_t count = roles->graph->version_count;
    uint32_t *unsure = xcalloc(count, sizeof(*unsure)); /* 1 + the version that it is computed from */
    char name[SCOUT_NAME_BYTES], place[64];
    for (uint32_t i = 0; i < count; ++i) {
        for (uint32_t e = 0; e < version_of(roles, i)->in_count && in_period(roles, i) && unsure[i] == 0; ++e)
            unsure[i] = unsure[in_edge(roles, i, e)->from];
        if (version_of(roles, i)->unsure && in_period(roles, i))
            unsure[i] = 1 + i;
        if (roles->persistent[i] && unsure[i] != 0)
            add_note(finding,
                     "not all is known of %s: %s, which is computed from what it writes, may be something else",
                     op_name(roles, unsure[i] - 1, name), place_text(roles, i, place));
    }
    free(unsure);
}

/* ---- state ---- */

static enum scout_role
role_of_state(const struct roles *roles, uint32_t number)
{
    if (!roles->tainted[number])
        return leads_to_gradients(roles, number) || !leads_on(roles, number) ? ROLE_RANDOM : ROLE_OPTIMIZER_STATE;
    if (roles->carried[number])
        return ROLE_CARRIED;
    if (roles->past[number])
        return leads_to_gradients(roles, number) ? ROLE_CARRIED : ROLE_STATISTICS;
    return leads_on(roles, number) ? ROLE_OPTIMIZER_STATE : ROLE_AVERAGE;
}

/* The parameter that this state and the gradient of which it is computed belong to. */
static uint32_t
partner_of(const struct scout_finding *finding, const struct roles *roles, uint32_t number)
{
    for (uint32_t t = 0; t < finding->tensor_count; ++t) {
        const struct scout_tensor *tensor = &finding->tensors[t];
        if (tensor->role == ROLE_PARAMETER && tensor->writer == log_op(roles, number) &&
            (tensor->hi - tensor->lo) * scout_type_bytes(version_of(roles, number)->type) ==
                version_of(roles, number)->bytes * scout_type_bytes(tensor->type))
            return t;
    }
    return PAIR_NONE;
}

static enum roles_verdict
find_state(const struct roles *roles, struct scout_finding *finding)
{
    for (uint32_t i = 0; i < roles->graph->version_count; ++i) {
        if (!roles->persistent[i] || roles->parameter[i] || roles->source[i])
            continue;
        const struct graph_version *version = version_of(roles, i);
        enum scout_role role = role_of_state(roles, i);
        char place[64], other[64], name[SCOUT_NAME_BYTES];
        uint32_t parameter;
        if (role == ROLE_CARRIED && !roles->carried[i] && comes_from_itself(roles, i) && feeds_back(roles, i, false))
            return refuse(finding, ROLES_REFUSED,
                          "%s, written by %s, changes several times in a period, and whether it is a parameter cannot "
                          "be told: it has no gradient of its own",
                          place_text(roles, i, place), op_name(roles, i, name));
        if (role == ROLE_CARRIED && !roles->carried[i] && comes_from_itself(roles, i) &&
            parameters_behind(roles, i, &parameter) == 1 && version_of(roles, parameter)->bytes == version->bytes)
            return refuse(finding, ROLES_REFUSED,
                          "parameter %s is updated by %s, not element by element, from state %s: it has no gradient of "
                          "its own",
                          place_text(roles, parameter, other), op_name(roles, parameter, name),
                          place_text(roles, i, place));
        (void)add_tensor(finding, &(struct scout_tensor){.role = role,
                                                         .alloc = alloc_of(roles, i),
                                                         .lo = version->lo,
                                                         .hi = version->hi,
                                                         .type = version->type,
                                                         .pair = partner_of(finding, roles, i),
                                                         .group = GROUP_NONE,
                                                         .writer = log_op(roles, i)});
    }
    return ROLES_FOUND;
}

/* ---- all of it ---- */

static enum roles_verdict
find_all(struct roles *roles, struct scout_finding *finding)
{
    find_sources(roles, finding);
    spread(roles, roles->tainted, roles->source, NULL);
    find_persistent(roles);
    find_parameters(roles);
    enum roles_verdict verdict = judge_loops(roles, finding);
    if (verdict != ROLES_FOUND)
        return verdict;
    do {
        for (uint32_t i = 0; i < roles->graph->version_count; ++i)
            roles->inner[i] = is_inner(roles, i);
        find_leading(roles);
        find_chain(roles);
    } while (find_vectors(roles) || find_kept_sums(roles));
    verdict = judge_loops(roles, finding);
    if (verdict == ROLES_FOUND)
        verdict = judge_unsure(roles, finding);
    if (verdict != ROLES_FOUND)
        return verdict;
    find_gradients(roles, finding);
    verdict = judge_fused(roles, finding);
    if (verdict == ROLES_FOUND)
        verdict = prove_cut(roles, finding);
    if (verdict == ROLES_FOUND)
        verdict = find_state(roles, finding);
    if (verdict == ROLES_FOUND) {
        note_host(roles, finding);
        note_unsure(roles, finding);
    }
    return verdict;
}

enum roles_verdict
roles_find(const struct graph *graph, uint32_t period, struct scout_finding *finding)
{
    struct roles roles = {.graph = graph, .period = period};
    bool **arrays[] = {&roles.source,    &roles.constant, &roles.tainted, &roles.past,  &roles.persistent,
                       &roles.parameter, &roles.carried,  &roles.leads,   &roles.inner, &roles.chain,
                       &roles.gradient,  &roles.between,  &roles.vector};
    for (size_t i = 0; i < sizeof(arrays) / sizeof(*arrays); ++i)
        *arrays[i] = xcalloc(graph->version_count + 1, sizeof(**arrays[i]));
    roles.scales = xcalloc(graph->version_count + 1, sizeof(*roles.scales));
    roles.kept = xcalloc(graph->version_count + 1, sizeof(*roles.kept));
    enum roles_verdict verdict = find_all(&roles, finding);
    for (size_t i = 0; i < sizeof(arrays) / sizeof(*arrays); ++i)
        free(*arrays[i]);
    free(roles.scales);
    free(roles.kept);
    return verdict;
}
