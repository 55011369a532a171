/*
 * groups.c - see roles.h.
 */
#include "tools/scout/command/analysis/roles.h"

#include "base/mutant.h"
#include "launcher/common/xcalloc.h"

#include <stdlib.h>
#include <string.h>

/* ---- joining ---- */

static int
compare_tensors(const void *a, const void *b, void *context)
{
    const struct scout_finding *sorted = context;
    const struct scout_tensor *x = &sorted->tensors[*(const uint32_t *)a], *y = &sorted->tensors[*(const uint32_t *)b];
    if (x->role != y->role)
        return x->role < y->role ? -1 : 1;
    if (x->alloc != y->alloc)
        return x->alloc < y->alloc ? -1 : 1;
    return x->lo < y->lo ? -1 : x->lo > y->lo;
}

static bool
are_alike(const struct scout_tensor *x, const struct scout_tensor *y)
{
    /* gradients are written one by one */
    return x->role == y->role && x->alloc == y->alloc && x->hi == y->lo && x->type == y->type && x->fused == y->fused &&
           (x->role == ROLE_GRADIENT ? x->group == y->group : x->writer == y->writer);
}

/* Joins what lies side by side and is alike, gradients together with their parameters; a flat buffer becomes one
 * tensor. */
static void
join_tensors(struct scout_finding *finding)
{
    uint32_t count = finding->tensor_count;
    uint32_t *order = xcalloc(count + 1, sizeof(*order)), *into = xcalloc(count + 1, sizeof(*into));
    for (uint32_t i = 0; i < count; ++i)
        order[i] = into[i] = i;
    qsort_r(order, count, sizeof(*order), compare_tensors, finding);
    for (uint32_t i = 1; i < count; ++i) {
        uint32_t last = into[order[i - 1]], here = order[i];
        struct scout_tensor *x = &finding->tensors[last], *y = &finding->tensors[here];
        if (!are_alike(x, y) || x->role == ROLE_GRADIENT || (x->pair == PAIR_NONE) != (y->pair == PAIR_NONE))
            continue;
        if (x->role == ROLE_PARAMETER && x->pair != PAIR_NONE) {
            struct scout_tensor *gx = &finding->tensors[x->pair], *gy = &finding->tensors[y->pair];
            if (gx == gy || !are_alike(gx, gy) || gx->pair != last || gy->pair != here)
                continue;
            gx->hi = gy->hi;
            gx->guessed = gx->guessed || gy->guessed;
            if (gy->writer > gx->writer)
                gx->writer = gy->writer;
            into[y->pair] = x->pair;
        }
        x->hi = y->hi;
        x->updated = x->updated || y->updated;
        x->grows = x->grows || y->grows;
        x->guessed = x->guessed || y->guessed;
        into[here] = last;
    }
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; ++i) /* numbers of those that stay */
        order[i] = into[i] == i ? kept++ : UINT32_MAX;
    for (uint32_t i = 0; i < count; ++i) {
        if (into[i] != i)
            continue;
        struct scout_tensor tensor = finding->tensors[i];
        if (tensor.pair != PAIR_NONE) {
            while (into[tensor.pair] != tensor.pair)
                tensor.pair = into[tensor.pair];
            tensor.pair = order[tensor.pair];
        }
        finding->tensors[order[i]] = tensor;
    }
    finding->tensor_count = kept;
    free(order);
    free(into);
}

/* ---- groups ---- */

/* The first operation of the period that reads what `writer` left in the tensor; the border if none does. */
static uint32_t
first_reader(const struct graph *graph, uint32_t period, const struct scout_tensor *tensor)
{
    uint32_t first = graph->first + period;
    for (uint32_t i = 0; i < graph->version_count; ++i) {
        const struct graph_version *version = &graph->versions[i];
        if (version->op < 0 || graph->first + (uint32_t)version->op != tensor->writer || version->memory < 0 ||
            graph->memories[version->memory].alloc != tensor->alloc || version->hi <= tensor->lo ||
            version->lo >= tensor->hi)
            continue;
        for (uint32_t e = 0; e < version->out_count; ++e) {
            uint32_t op =
                graph->first + (uint32_t)graph->versions[graph->edges[graph->outs[version->first_out + e]].to].op;
            if (op > tensor->writer && op < first)
                first = op;
        }
    }
    return first;
}

static uint32_t
add_group(struct scout_finding *finding, uint32_t before, bool fused)
{
    finding->groups = xrealloc(finding->groups, (finding->group_count + 1) * sizeof(*finding->groups));
    finding->groups[finding->group_count] = (struct scout_group){.before = before, .fused = fused};
    return finding->group_count++;
}

static void
put_into_group(struct scout_finding *finding, uint32_t tensor, uint32_t group)
{
    struct scout_tensor *it = &finding->tensors[tensor];
    struct scout_group *to = &finding->groups[group];
    if (it->group != GROUP_NONE)
        return;
    it->group = group;
    if (it->writer > to->complete)
        to->complete = it->writer;
    if (it->role == ROLE_GRADIENT) {
        to->gradients += 1;
        if (it->pair != PAIR_NONE && finding->tensors[it->pair].group == GROUP_NONE) {
            finding->tensors[it->pair].group = group;
            to->parameters += 1;
        }
    } else {
        to->parameters += 1;
    }
}

/* What is complete before the first use of any waits for the same place; what is not, for the next. */
static void
group_gradients(const struct graph *graph, uint32_t period, struct scout_finding *finding)
{
    uint32_t *reader = xcalloc(finding->tensor_count + 1, sizeof(*reader));
    for (uint32_t i = 0; i < finding->tensor_count; ++i)
        reader[i] = first_reader(graph, period, &finding->tensors[i]);
    for (;;) {
        uint32_t before = UINT32_MAX;
        for (uint32_t i = 0; i < finding->tensor_count; ++i)
            if (finding->tensors[i].role == ROLE_GRADIENT && finding->tensors[i].group == GROUP_NONE &&
                reader[i] < before)
                before = reader[i];
        if (before == UINT32_MAX)
            break;
        uint32_t group = add_group(finding, before, false);
        for (uint32_t i = 0; i < finding->tensor_count; ++i)
            if (finding->tensors[i].role == ROLE_GRADIENT &&
                (finding->tensors[i].writer < before || MUTANT(SCOUT_GROUPS_MIXED)))
                put_into_group(finding, i, group);
    }
    for (uint32_t i = 0; i < finding->tensor_count; ++i)
        if (finding->tensors[i].role == ROLE_PARAMETER && finding->tensors[i].fused)
            put_into_group(finding, i, add_group(finding, reader[i], true));
    free(reader);
}

/* Marks what gradients of a group are computed from in this period. */
static void
mark_upstream(const struct graph *graph, uint32_t period, const struct scout_finding *finding, uint32_t group,
              bool *marks)
{
    memset(marks, 0, graph->version_count * sizeof(*marks));
    for (uint32_t i = graph->version_count; i-- > 0;) {
        const struct graph_version *version = &graph->versions[i];
        if (version->op < 0 || version->op >= (int32_t)period)
            continue;
        for (uint32_t t = 0; t < finding->tensor_count && !marks[i] && version->memory >= 0; ++t) {
            const struct scout_tensor *tensor = &finding->tensors[t];
            marks[i] = tensor->group == group && (tensor->role == ROLE_GRADIENT || tensor->fused) &&
                       graph->first + (uint32_t)version->op == tensor->writer &&
                       graph->memories[version->memory].alloc == tensor->alloc && version->hi > tensor->lo &&
                       version->lo < tensor->hi;
        }
        for (uint32_t e = 0; e < version->in_count && marks[i]; ++e)
            marks[graph->edges[version->first_in + e].from] = true;
    }
}

/* An update stands inside backward if a later group's gradients are computed from what its own were computed from. */
static void
find_inside_backward(const struct graph *graph, uint32_t period, struct scout_finding *finding)
{
    if (finding->group_count < 3)
        return;
    bool *here = xcalloc(graph->version_count, sizeof(*here)), *later = xcalloc(graph->version_count, sizeof(*later));
    for (uint32_t g = 0; g + 1 < finding->group_count; ++g) {
        mark_upstream(graph, period, finding, g, here);
        mark_upstream(graph, period, finding, g + 1, later);
        for (uint32_t i = 0; i < graph->version_count && !finding->groups[g].inside_backward; ++i)
            finding->groups[g].inside_backward =
                here[i] && later[i] && graph->versions[i].op >= 0 && !graph->versions[i].from_host;
    }
    free(here);
    free(later);
}

static int
compare_groups(const void *a, const void *b)
{
    const struct scout_group *x = a, *y = b;
    return x->before < y->before ? -1 : x->before > y->before;
}

static bool
is_same_group(const struct scout_group *a, const struct scout_group *b)
{
    return a->complete == b->complete && a->before == b->before && a->gradients == b->gradients &&
           a->parameters == b->parameters && a->fused == b->fused && a->inside_backward == b->inside_backward;
}

/* In the order of the program. */
static void
sort_groups(struct scout_finding *finding)
{
    uint32_t count = finding->group_count;
    struct scout_group *old = xcalloc(count + 1, sizeof(*old));
    if (count > 0) {
        memcpy(old, finding->groups, count * sizeof(*old));
        qsort(finding->groups, count, sizeof(*old), compare_groups);
    }
    for (uint32_t t = 0; t < finding->tensor_count; ++t)
        for (uint32_t g = 0; g < count && finding->tensors[t].group != GROUP_NONE; ++g)
            if (is_same_group(&finding->groups[g], &old[finding->tensors[t].group])) {
                finding->tensors[t].group = g;
                break;
            }
    free(old);
}

/* Fused updates that nothing reads in between are one group. */
static void
join_fused(struct scout_finding *finding)
{
    uint32_t kept = 0;
    for (uint32_t g = 0; g < finding->group_count; ++g) {
        struct scout_group group = finding->groups[g];
        uint32_t to = kept;
        if (kept > 0 && group.fused && finding->groups[kept - 1].fused &&
            group.complete < finding->groups[kept - 1].before) {
            to = kept - 1;
            finding->groups[to].parameters += group.parameters;
            if (group.complete > finding->groups[to].complete)
                finding->groups[to].complete = group.complete;
        } else {
            finding->groups[kept++] = group;
        }
        for (uint32_t t = 0; t < finding->tensor_count; ++t)
            if (finding->tensors[t].group == g)
                finding->tensors[t].group = to;
    }
    finding->group_count = kept;
}

void
groups_find(const struct graph *graph, uint32_t period, struct scout_finding *finding)
{
    group_gradients(graph, period, finding);
    sort_groups(finding);
    join_fused(finding);
    find_inside_backward(graph, period, finding);
    join_tensors(finding);
    for (uint32_t g = 0; g < finding->group_count; ++g)
        finding->groups[g].gradients = finding->groups[g].parameters = 0;
    for (uint32_t t = 0; t < finding->tensor_count; ++t) {
        const struct scout_tensor *tensor = &finding->tensors[t];
        if (tensor->group != GROUP_NONE && tensor->role == ROLE_GRADIENT)
            finding->groups[tensor->group].gradients += 1;
        else if (tensor->group != GROUP_NONE)
            finding->groups[tensor->group].parameters += 1;
    }
}
