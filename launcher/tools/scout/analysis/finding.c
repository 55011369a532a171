/*
 * finding.c - see finding.h: the period, its border, and for each candidate the roles.
 */
#include "launcher/tools/scout/analysis/finding.h"

#include "base/mutant.h"
#include "launcher/common/xcalloc.h"
#include "launcher/tools/scout/analysis/borrow.h"
#include "launcher/tools/scout/analysis/graph.h"
#include "launcher/tools/scout/analysis/groups.h"
#include "launcher/tools/scout/analysis/period.h"
#include "launcher/tools/scout/analysis/roles.h"

#include <stdlib.h>
#include <string.h>

enum { CANDIDATES_AT_MOST = 64, DATA_BYTES = 64 };

/* ---- the border ---- */

static bool
brings_data(const struct scout_op *op)
{
    return op->kind == SCOUT_COPY && op->from.alloc == SCOUT_NONE && op->to.alloc != SCOUT_NONE &&
           op->bytes * op->rows > DATA_BYTES;
}

/* Whether an operation computes from nothing: a fill, or a kernel that only sets. */
static bool
only_sets(const struct graph *graph, uint32_t position)
{
    for (uint32_t i = 0; i < graph->version_count; ++i)
        if (graph->versions[i].op == (int32_t)position &&
            (graph->versions[i].in_count > 0 || graph->versions[i].from_host))
            return false;
    return true;
}

static bool
is_from_host(const struct graph *graph, uint32_t position)
{
    const struct scout_op *op = &graph->log->ops[graph->first + position];
    return op->kind == SCOUT_COPY && op->from.alloc == SCOUT_NONE;
}

/* Position in [period, 2 * period) of a graph of three periods before which a step begins: at new data, where the
 * fewest bytes stay; without copies of data, where the fewest bytes stay. What is set to begin with, and smaller copies
 * in front of the data, belong to the step. */
static uint32_t
find_border(const struct graph *graph, uint32_t period, uint64_t *live_bytes)
{
    int64_t *change = xcalloc(graph->count + 2, sizeof(*change));
    for (uint32_t i = 0; i < graph->version_count; ++i) {
        const struct graph_version *version = &graph->versions[i];
        int32_t last = -1;
        for (uint32_t e = 0; e < version->out_count; ++e) {
            int32_t op = graph->versions[graph->edges[graph->outs[version->first_out + e]].to].op;
            last = op > last ? op : last;
        }
        bool is_set = version->in_count == 0 && !version->from_host; /* to what it always is: nothing that stays */
        if (version->op < 0 || last <= version->op || version->memory == HOST_MEMORY || is_set)
            continue;
        change[version->op + 1] += (int64_t)version->bytes;
        change[last + 1] -= (int64_t)version->bytes;
    }
    int64_t live = 0, best_live = 0;
    uint32_t best = 0;
    bool best_data = false;
    for (uint32_t b = 0; b < 2 * period && b < graph->count; ++b) {
        live += change[b];
        if (b < period)
            continue;
        const struct scout_op *op = &graph->log->ops[graph->first + b];
        bool data = brings_data(op) && !brings_data(op - 1);
        if (best == 0 || data > best_data || (data == best_data && live < best_live)) {
            best = b;
            best_live = live;
            best_data = data;
        }
    }
    while (best > period && (only_sets(graph, best - 1) || (best_data && is_from_host(graph, best - 1)))) {
        best_live -= change[best];
        best -= 1;
    }
    free(change);
    *live_bytes = (uint64_t)best_live;
    return MUTANT(SCOUT_BORDER_EARLY) ? best - 1 : best;
}

/* ---- candidates ---- */

static void
forget_tensors(struct scout_finding *finding)
{
    free(finding->tensors);
    free(finding->groups);
    for (uint32_t i = 0; i < finding->note_count; ++i)
        free(finding->notes[i]);
    free(finding->notes);
    finding->tensors = NULL;
    finding->groups = NULL;
    finding->notes = NULL;
    finding->tensor_count = finding->group_count = finding->note_count = 0;
    finding->paths_cut = 0;
}

/* Looks at one period, which repeats in operations [first, end) of the log at least three times. */
static enum roles_verdict
try_period(const struct scout_log *log, uint32_t first, uint32_t end, uint32_t period, struct scout_finding *finding)
{
    struct graph graph;
    struct scout_log lent;
    borrow_make(log, first, end, period, &lent);
    graph_build(&lent, first, 3 * period, &graph);
    uint32_t border = first + find_border(&graph, period, &finding->live_bytes);
    graph_free(&graph);
    if (border + 2 * period > end)
        border -= period;
    finding->first = border;
    finding->period = period;
    graph_build(&lent, border, 2 * period, &graph);
    enum roles_verdict verdict = roles_find(&graph, period, finding);
    if (verdict == ROLES_FOUND)
        groups_find(&graph, period, finding);
    graph_free(&graph);
    borrow_free(log, &lent);
    return verdict;
}

/* The last stretch of operations of the deep pass in front of *end; false: there is none. */
static bool
find_deep(const struct scout_log *log, uint32_t *first, uint32_t *end)
{
    while (*end > 0 && log->ops[*end - 1].effect == NULL)
        --*end;
    *first = *end;
    while (*first > 0 && log->ops[*first - 1].effect != NULL)
        --*first;
    return *first < *end;
}

/* Looks at all that repeats in a stretch, the shortest first. */
static void
try_stretch(const struct scout_log *log, uint32_t first, uint32_t end, struct scout_finding *finding)
{
    struct period periods[CANDIDATES_AT_MOST];
    enum roles_verdict verdict = ROLES_NO_LOOP;
    uint32_t count = periods_find(log, first, end, periods, CANDIDATES_AT_MOST);
    for (uint32_t i = 0; i < count && verdict == ROLES_NO_LOOP; ++i) {
        forget_tensors(finding);
        uint32_t begin = periods[i].end - periods[i].run - periods[i].lag;
        verdict = try_period(log, begin, periods[i].end, periods[i].lag, finding);
    }
    finding->candidates += count;
    finding->feeds_back = verdict != ROLES_NO_LOOP;
    finding->found = verdict == ROLES_FOUND;
}

static void
refuse_early(const struct scout_log *log, bool deep, struct scout_finding *finding)
{
    const char *why = log->op_count == 0 ? "the program makes no use of the device"
                      : !deep            ? "the program ended before its operations repeated"
                                         : "the program's operations do not repeat";
    finding->reason = xstrdup(why);
}

/* The program may repeat several things, one after the other: the last one that feeds back counts. */
void
scout_find(const struct scout_log *log, struct scout_finding *finding)
{
    *finding = (struct scout_finding){0};
    uint32_t first, end = log->op_count;
    bool deep = false;
    for (; !finding->feeds_back && find_deep(log, &first, &end); end = first) {
        try_stretch(log, first, end, finding);
        deep = true;
    }
    if (finding->candidates == 0)
        refuse_early(log, deep, finding);
}

void
scout_finding_free(struct scout_finding *finding)
{
    forget_tensors(finding);
    free(finding->reason);
    *finding = (struct scout_finding){0};
}
