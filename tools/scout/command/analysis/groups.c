/* groups.c - see rules.h. */
#include "tools/scout/command/analysis/rules.h"

#include "tools/common/grown.h"
#include "tools/common/owned.h"

/* ---- joining ---- */

/* Order of tensors: role, allocation, byte. For qsort_r() of their numbers. */
static int
compare_tensors(const void *a, const void *b, void *context)
{
    const struct scout_finding *sorted = context;
    const struct scout_tensor *x = &sorted->tensors[*(const uint32_t *)a], *y = &sorted->tensors[*(const uint32_t *)b];
    return COMPARE(x, y, role, COMPARE(x, y, alloc, COMPARE(x, y, lo, 0)));
}

/* Whether y lies directly after x and is of one kind with it, so that both are one tensor. */
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
    OWNED uint32_t *order = xcalloc(count + 1, sizeof(*order)), *into = xcalloc(count + 1, sizeof(*into));
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
}

/* ---- groups ---- */

/* The first operation of the period that reads what `writer` left in the tensor; the border if none does. */
static uint32_t
first_reader(const struct graph *graph, const struct scout_finding *finding, const struct scout_tensor *tensor)
{
    uint32_t first = graph->first + graph->period;
    if (tensor->pair != PAIR_NONE && finding->tensors[tensor->pair].writer > tensor->writer)
        first = finding->tensors[tensor->pair].writer;
    FOR_EACH_VERSION(version, graph) {
        if (version->op < 0 || graph->first + (uint32_t)version->op != tensor->writer || version->memory < 0 ||
            graph->memories[version->memory].alloc != tensor->alloc || version->hi <= tensor->lo ||
            version->lo >= tensor->hi)
            continue;
        FOR_EACH(out, version->out, version->out_count) {
            uint32_t op = graph->first + (uint32_t)(*out)->to->op;
            if (op > tensor->writer && op < first)
                first = op;
        }
    }
    return first;
}

static uint32_t
add_group(struct scout_finding *finding, uint32_t before, bool fused)
{
    *GROWN(finding->groups, finding->group_count) = (struct scout_group){.before = before, .fused = fused};
    return finding->group_count - 1;
}

/* Puts a tensor and its pair, if they have no group yet, into this one, which is complete when all are written. */
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
    if (it->role == ROLE_GRADIENT && it->pair != PAIR_NONE && finding->tensors[it->pair].group == GROUP_NONE)
        finding->tensors[it->pair].group = group;
}

/* What is complete before the first use of any waits for the same place; what is not, for the next. */
static void
group_gradients(const struct graph *graph, struct scout_finding *finding)
{
    OWNED uint32_t *reader = xcalloc(finding->tensor_count + 1, sizeof(*reader));
    for (uint32_t i = 0; i < finding->tensor_count; ++i)
        reader[i] = first_reader(graph, finding, &finding->tensors[i]);
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
            if (finding->tensors[i].role == ROLE_GRADIENT && finding->tensors[i].writer < before)
                put_into_group(finding, i, group);
    }
    for (uint32_t i = 0; i < finding->tensor_count; ++i)
        if (finding->tensors[i].role == ROLE_PARAMETER && finding->tensors[i].fused)
            put_into_group(finding, i, add_group(finding, reader[i], true));
}

/* In the order of the program. */
static void
sort_groups(struct scout_finding *finding)
{
    struct scout_group *groups = finding->groups;
    for (uint32_t g = 1; g < finding->group_count; ++g)
        for (uint32_t k = g; k > 0 && groups[k].before < groups[k - 1].before; --k) {
            struct scout_group later = groups[k - 1];
            groups[k - 1] = groups[k];
            groups[k] = later;
            for (uint32_t t = 0; t < finding->tensor_count; ++t)
                if (finding->tensors[t].group == k || finding->tensors[t].group == k - 1)
                    finding->tensors[t].group = 2 * k - 1 - finding->tensors[t].group;
        }
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
groups_find(const struct graph *graph, struct scout_finding *finding)
{
    group_gradients(graph, finding);
    sort_groups(finding);
    join_fused(finding);
    join_tensors(finding);
    FOR_EACH(tensor, finding->tensors, finding->tensor_count) {
        if (tensor->group != GROUP_NONE && tensor->role == ROLE_GRADIENT)
            finding->groups[tensor->group].gradients += 1;
        else if (tensor->group != GROUP_NONE)
            finding->groups[tensor->group].parameters += 1;
    }
}
