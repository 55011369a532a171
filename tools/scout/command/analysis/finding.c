/* finding.c - see finding.h: the period, its border, and for each candidate the roles. */

#include "tools/common/owned.h"
#include "tools/scout/command/analysis/rules.h"

#include <stdio.h>

enum { CANDIDATES_AT_MOST = 64 };

/* ---- the border ---- */

bool
scout_brings_data(const struct scout_op *op)
{
    return op->kind == SCOUT_COPY && op->from.alloc == SCOUT_NONE && op->to.alloc != SCOUT_NONE &&
           op->bytes * op->rows > DATA_BYTES;
}

/* Whether an operation computes from nothing: a fill, or a kernel that only sets. One that has written nothing, as of
 * figures that only the first steps change, is none: it may end the step before. */
static bool
only_sets(const struct graph *graph, uint32_t position)
{
    return ANY_VERSION(it, graph, it->op == (int32_t)position) &&
           !ANY_VERSION(it, graph, it->op == (int32_t)position && (it->in_count > 0 || it->from_host));
}

/* Whether the operation before a border belongs to the step that begins there: it sets memory, or is a smaller copy in
 * front of the data. */
static bool
begins_step(const struct graph *graph, uint32_t border, bool is_at_data)
{
    const struct scout_op *op = &graph->log->ops[graph->first + border - 1];
    if (only_sets(graph, border - 1))
        return true;
    return is_at_data && op->kind == SCOUT_COPY && op->from.alloc == SCOUT_NONE;
}

/* Position in [period, 2 * period) of a graph of three periods before which a step begins: at new data, where the
 * fewest bytes stay; without copies of data, where the fewest bytes stay, after what updates them in place. What is set
 * to begin with, and smaller copies in front of the data, belong to the step. */
static uint32_t
find_border(const struct graph *graph)
{
    const uint32_t period = graph->period;
    OWNED int64_t *change = xcalloc(graph->count + 2, sizeof(*change));
    FOR_EACH_VERSION(version, graph) {
        int32_t last = -1;
        FOR_EACH(out, version->out, version->out_count)
            last = (*out)->to->op > last ? (*out)->to->op : last;
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
        bool data = scout_brings_data(op) && !scout_brings_data(op - 1);
        bool updates = !data && !best_data && live == best_live && best == b - 1;
        if (best == 0 || data > best_data || (data == best_data && live < best_live) || updates) {
            best = b;
            best_live = live;
            best_data = data;
        }
    }
    const uint32_t least = best_data ? period : 1;
    while (best > least && begins_step(graph, best, best_data))
        --best;
    best += best < period ? period : 0;
    return best;
}

/* ---- candidates ---- */

/* Empties a finding's tensors, groups and notes, before the next reading of the same period. */
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
}

/* From the versions of two periods to the roles of memory. Fills in tensors, notes and, with ROLES_REFUSED or
 * ROLES_NO_LOOP, the reason of `finding`. */
static enum roles_verdict
find_roles(struct graph *graph, struct scout_finding *finding)
{
    sources_find(graph);
    elementwise_find_edges(graph);
    stays_find(graph, finding);
    stays_find_parameters(graph);
    enum roles_verdict verdict = refusals_judge_loops(graph, finding);
    if (verdict != ROLES_FOUND)
        return verdict;
    do {
        FOR_EACH_VERSION(version, graph)
            version->inner = elementwise_is_inner(version);
        stays_find_leading(graph);
        elementwise_find_chain(graph);
    } while (gradients_find_vectors(graph) || gradients_find_kept_sums(graph));
    verdict = refusals_judge_loops(graph, finding);
    if (verdict == ROLES_FOUND)
        verdict = refusals_judge_unsure(graph, finding);
    if (verdict != ROLES_FOUND)
        return verdict;
    gradients_find(graph, finding);
    verdict = refusals_judge_fused(graph, finding);
    if (verdict == ROLES_FOUND)
        verdict = refusals_prove_cut(graph, finding);
    if (verdict == ROLES_FOUND)
        verdict = states_find(graph, finding);
    if (verdict == ROLES_FOUND) {
        refusals_note_host(graph, finding);
        refusals_note_unsure(graph, finding);
    }
    return verdict;
}

/* The roles by one reading of the period from `border` on. */
static enum roles_verdict
read_period(const struct scout_log *lent, uint32_t border, uint32_t period, struct scout_finding *finding)
{
    struct graph graph;
    finding->first = border;
    finding->period = period;
    graph_build(lent, border, period, 2, &graph);
    enum roles_verdict verdict = find_roles(&graph, finding);
    if (verdict == ROLES_FOUND)
        verdict = types_find(&graph, finding);
    if (verdict == ROLES_FOUND)
        groups_find(&graph, finding);
    graph_free(&graph);
    return verdict;
}

/* What has to be equal on all ranks; whether a parameter is computed from it, a period may fail to show. */
static bool
is_kept_equal(const struct scout_tensor *tensor)
{
    return tensor->role == ROLE_OPTIMIZER_STATE || tensor->role == ROLE_AVERAGE;
}

static bool
may_be_trained(const struct scout_tensor *tensor)
{
    return tensor->role == ROLE_PARAMETER || tensor->role == ROLE_SUSPECT;
}

/* Whether both are one tensor, as two readings of the same step found it. How much of its memory a state's update
 * touches may differ between steps. `rough`: so it may of the others, and of a parameter the elements that no step
 * changes are suspects. */
static bool
is_same_tensor(const struct scout_tensor *a, const struct scout_tensor *b, bool rough)
{
    bool exact = !rough && (a->role == ROLE_PARAMETER || a->role == ROLE_GRADIENT);
    bool same_place = exact ? a->lo == b->lo && a->hi == b->hi : a->lo < b->hi && b->lo < a->hi;
    bool same_role = a->role == b->role || (is_kept_equal(a) && is_kept_equal(b)) ||
                     (rough && may_be_trained(a) && may_be_trained(b));
    return a->alloc == b->alloc && same_role && same_place && (rough || (a->fused == b->fused && a->group == b->group));
}

/* Whether the tensor is whole numbers that each rank has for itself, as masks and counts: what they are, and how far
 * they reach, decides nothing. */
static bool
is_mere_count(const struct scout_tensor *tensor)
{
    return (tensor->role == ROLE_STATISTICS || tensor->role == ROLE_CARRIED || tensor->role == ROLE_RANDOM) &&
           (tensor->type == SCOUT_INTEGER || tensor->type == SCOUT_UNKNOWN);
}

/* A tensor that only one of two readings has; NULL: they agree. */
static const struct scout_tensor *
find_unlike(const struct scout_finding *one, const struct scout_finding *other, bool rough)
{
    for (int i = 0; i < 2; ++i) {
        const struct scout_finding *of = i == 0 ? one : other, *in = i == 0 ? other : one;
        FOR_EACH(tensor, of->tensors, of->tensor_count)
            if (!is_mere_count(tensor) && !ANY(it, in->tensors, in->tensor_count, is_same_tensor(it, tensor, rough)))
                return tensor;
    }
    return NULL;
}

/* What one of two readings has as the optimizer's state is that, and no average; how suspects are written, both say. */
static void
take_states(struct scout_finding *finding, const struct scout_finding *other)
{
    FOR_EACH(theirs, other->tensors, other->tensor_count)
        FOR_EACH_MUTABLE(tensor, finding->tensors, finding->tensor_count) {
            if (!is_same_tensor(tensor, theirs, false))
                continue;
            tensor->updated |= theirs->updated;
            tensor->grows |= theirs->grows;
            if (theirs->role == ROLE_OPTIMIZER_STATE)
                tensor->role = ROLE_OPTIMIZER_STATE;
        }
}

/* Reads the same period in another way: what is not the same in both is refused. `open`: the operation of which
 * something stayed open; UINT32_MAX: it is the age of periods that differs. */
static enum roles_verdict
compare_readings(const struct scout_log *lent, uint32_t open, struct scout_finding *finding)
{
    struct scout_finding other = {.scratch_count = finding->scratch_count};
    char name[SCOUT_NAME_BYTES], place[64];
    memcpy(other.scratch, finding->scratch, sizeof(other.scratch));
    enum roles_verdict verdict = read_period(lent, finding->first, finding->period, &other);
    const struct scout_tensor *unlike = verdict == ROLES_FOUND ? find_unlike(finding, &other, false) : NULL;
    char how[192] = "the recorded periods disagree";
    if (open != UINT32_MAX)
        snprintf(how, sizeof(how), "too few elements changed to tell whether %s computes element by element",
                 scout_op_name(lent, &lent->ops[open], name));
    if (unlike != NULL) {
        finding->is_rough = find_unlike(finding, &other, true) == NULL;
        verdict = note_refuse(finding, ROLES_REFUSED, "%s: the role of %s is not known; scout equal steps", how,
                              scout_tensor_place(unlike, place));
    } else if (verdict != ROLES_FOUND) {
        verdict = note_refuse(finding, ROLES_REFUSED, "%s: in one of two readings %s", how,
                              other.reason != NULL ? other.reason : "scout finds no parameters; scout equal steps");
    }
    if (verdict == ROLES_FOUND)
        take_states(finding, &other);
    finding->is_unlike = verdict != ROLES_FOUND && open == UINT32_MAX;
    scout_finding_free(&other);
    return verdict;
}

/* Looks at one period, which repeats in operations [first, end) of the log at least three times. */
static enum roles_verdict
try_period(const struct scout_log *log, uint32_t first, uint32_t end, uint32_t period, struct scout_finding *finding)
{
    struct graph graph;
    struct scout_log lent;
    finding->begin = first;
    finding->end = end;
    borrow_make(log, first, end, period, READING_OLD, &lent);
    graph_build(&lent, first, period, 3, &graph);
    uint32_t border = first + find_border(&graph);
    graph_free(&graph);
    if (border + 2 * period > end)
        border -= period;
    enum roles_verdict verdict = read_period(&lent, border, period, finding);
    borrow_free(&lent);
    uint32_t open = borrow_find_open(log, first, end);
    if (verdict == ROLES_FOUND && open != UINT32_MAX) {
        borrow_make(log, first, end, period, READING_OPEN, &lent);
        verdict = compare_readings(&lent, open, finding);
        borrow_free(&lent);
    }
    if (verdict == ROLES_FOUND) {
        borrow_make(log, first, end, period, READING_NEW, &lent);
        verdict = compare_readings(&lent, UINT32_MAX, finding);
        borrow_free(&lent);
    }
    return verdict;
}

/* Looks at all of what repeats in operations [first, end). Where these periods disagree, at each three of them in a
 * row: they count if the others show nothing that these do not, as a step does that updates nothing. */
static enum roles_verdict
try_periods(const struct scout_log *log, uint32_t first, uint32_t end, uint32_t period, struct scout_finding *finding)
{
    finding->is_unlike = finding->is_rough = false;
    forget_tensors(finding);
    const enum roles_verdict verdict = try_period(log, first, end, period, finding);
    for (uint32_t at = first; at + 3 * period <= end && finding->is_unlike && end - first > 3 * period; at += period) {
        struct scout_finding other = {.scratch_count = finding->scratch_count, .in_place = finding->in_place};
        memcpy(other.scratch, finding->scratch, sizeof(other.scratch));
        const bool is_found = try_period(log, at, at + 3 * period, period, &other) == ROLES_FOUND &&
                              !unlike_show_more(log, first, end, period, at);
        if (!is_found) {
            scout_finding_free(&other);
            continue;
        }
        scout_finding_free(finding);
        *finding = other;
        return ROLES_FOUND;
    }
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

/* Looks at all that repeats in a stretch, the shortest first; where nothing of that is trained, at what repeats but for
 * places of copies, then at what repeats but for sizes. */
static void
try_stretch(const struct scout_log *log, uint32_t first, uint32_t end, struct scout_finding *finding)
{
    struct period periods[CANDIDATES_AT_MOST];
    enum roles_verdict verdict = ROLES_NO_LOOP;
    for (unsigned like = PERIOD_EQUAL; like < PERIOD_LIKENESSES && verdict == ROLES_NO_LOOP; ++like) {
        uint32_t count = periods_find(log, first, end, (enum period_likeness)like, periods, CANDIDATES_AT_MOST);
        for (uint32_t i = 0; i < count && verdict == ROLES_NO_LOOP; ++i) {
            const uint32_t begin = periods[i].end - periods[i].run - periods[i].lag;
            verdict = try_periods(log, begin, periods[i].end, periods[i].lag, finding);
        }
        if (like == PERIOD_ANY_SIZE && verdict == ROLES_FOUND)
            note_add(finding, "steps are equal but for grid sizes of launches and byte counts of copies");
    }
    finding->feeds_back = verdict != ROLES_NO_LOOP;
    finding->found = verdict == ROLES_FOUND;
}

/* What repeats, and trains nothing, may be a loop inside steps of which no two are alike: then the program does more
 * behind it than to repeat it. */
static void
refuse_loop(const struct scout_log *log, uint32_t end, struct scout_finding *finding)
{
    char name[SCOUT_NAME_BYTES];
    uint32_t lag = finding->period, same = 0;
    if (lag == 0 || log->op_count - end < 4 * lag)
        return;
    for (uint32_t i = end + lag; i < log->op_count; ++i)
        same += scout_is_same_call(&log->ops[i], &log->ops[i - lag]);
    if (same >= (log->op_count - end - lag) / 10 * 9)
        return;
    finding->period = 0; /* by state, too, it is none */
    (void)note_refuse(
        finding, ROLES_NO_LOOP,
        "no two steps were equal: only a loop of %" PRIu32
        " operations from %s on repeats, which trains nothing; scout steps with the same launches and copies",
        lag, scout_op_name(log, &log->ops[finding->first], name));
}

/* ---- suspects ---- */

/* The suspects that are written as parameters are, or the others: "a3, a7". Returns how many ranges they are. */
static uint32_t
list_suspects(const struct scout_finding *finding, bool updated, const char *between, char names[256])
{
    size_t used = 0;
    uint32_t count = 0, last = UINT32_MAX;
    names[0] = '\0';
    FOR_EACH(tensor, finding->tensors, finding->tensor_count) {
        if (tensor->role != ROLE_SUSPECT || tensor->updated != updated)
            continue;
        if (tensor->alloc != last && used < 256)
            used += (size_t)snprintf(names + used, 256 - used, "%sa%" PRIu32, used > 0 ? between : "", tensor->alloc);
        last = tensor->alloc;
        count += 1;
    }
    return count;
}

/* Asks of what is left. There is no way around a parameter that was missed: no rank may have it for itself. */
static void
ask_about_notes(struct scout_finding *finding)
{
    char names[256], list[256];
    uint32_t updated = list_suspects(finding, true, ", ", names);
    bool asks = updated == 0 && list_suspects(finding, false, ", ", names) > 0;
    finding->found = updated == 0 && !asks;
    finding->is_open = !finding->found;
    free(finding->reason);
    finding->reason = NULL;
    (void)list_suspects(finding, false, ",", list);
    if (asks)
        (void)note_refuse(
            finding, ROLES_REFUSED,
            "trained, or carried from batch to batch? %s: gradients are computed from it, and scout sees no gradient "
            "of it. If it is trained, annotate it by hand; if it is carried, add --per-rank %s, which --prove tests",
            names, list);
    else if (updated > 0)
        (void)note_refuse(finding, ROLES_REFUSED,
                          "trained, or carried from batch to batch? %s: it is written as parameters are, and scout "
                          "sees no gradient of it: ranks must not keep their own; annotate it by hand",
                          names);
}

bool
scout_list_next(const char **list, uint32_t *alloc)
{
    char *end = NULL;
    bool is_name = (*list)[0] == 'a' && (*list)[1] >= '0' && (*list)[1] <= '9';
    if (is_name)
        *alloc = (uint32_t)strtoul(*list + 1, &end, 10);
    if (!is_name || (*end != ',' && *end != '\0'))
        return false;
    *list = end + (*end == ',');
    return true;
}

bool
scout_finding_name(struct scout_finding *finding, const char *list, bool is_tested)
{
    uint32_t alloc;
    while (*list != '\0') {
        bool known = false;
        if (!scout_list_next(&list, &alloc))
            return false;
        FOR_EACH_MUTABLE(tensor, finding->tensors, finding->tensor_count) {
            if (tensor->alloc != alloc || (tensor->role != ROLE_SUSPECT && tensor->role != ROLE_CARRIED))
                continue;
            known = true;
            tensor->named =
                tensor->named || (tensor->role == ROLE_SUSPECT && !tensor->updated && (!tensor->grows || is_tested));
            if (tensor->named)
                tensor->role = ROLE_CARRIED;
        }
        if (!known)
            return false;
    }
    if (finding->is_open)
        ask_about_notes(finding);
    return true;
}

bool
scout_is_read_by_host(const struct scout_log *log, const struct scout_tensor *tensor)
{
    return ANY(op, log->ops, log->op_count,
               op->kind == SCOUT_COPY && op->to.alloc == SCOUT_NONE && op->from.alloc == tensor->alloc &&
                   op->from.offset < tensor->hi && op->from.offset + op->bytes > tensor->lo);
}

bool
scout_is_remade(const struct scout_log *log, const struct scout_finding *finding, uint32_t alloc)
{
    return log->allocs[alloc].made_at > finding->first || log->allocs[alloc].freed_at < finding->end;
}

/* Whether the allocation is a variable of the program: it was first met at a launch, and not allocated. */
bool
scout_is_variable(const struct scout_log *log, uint32_t alloc)
{
    const uint32_t site = log->allocs[alloc].site;
    return site != SCOUT_NONE && ANY(op, log->ops, log->op_count, op->site == site);
}

/* A suspect is taken as scratch with all of its allocation, unless that has tensors of another kind: it is an arena. */
static void
take_as_scratch(struct scout_finding *finding, const struct scout_finding *without, const struct scout_tensor *suspect)
{
    if (finding->scratch_count == SCRATCH_AT_MOST ||
        scout_is_scratch(finding, suspect->alloc, suspect->lo, suspect->hi))
        return;
    struct scout_bytes scratch = {suspect->alloc, 0, UINT64_MAX};
    bool is_arena =
        ANY(it, without->tensors, without->tensor_count, it->alloc == suspect->alloc && it->role != ROLE_SUSPECT);
    if (is_arena) {
        scratch.lo = suspect->lo;
        scratch.hi = suspect->hi;
    }
    finding->scratch[finding->scratch_count++] = scratch;
}

/* The program may repeat several things, one after the other: the last one that feeds back counts. */
void
scout_find(const struct scout_log *log, const struct scout_finding *without, struct scout_finding *finding)
{
    *finding = (struct scout_finding){0};
    FOR_EACH(tensor, without != NULL ? without->tensors : NULL, without != NULL ? without->tensor_count : 0) {
        if (tensor->role == ROLE_SUSPECT)
            take_as_scratch(finding, without, tensor);
    }
    uint32_t first, end = log->op_count, last = 0;
    bool deep = false;
    for (; !finding->feeds_back && find_deep(log, &first, &end); end = first) {
        try_stretch(log, first, end, finding);
        last = deep ? last : end;
        deep = true;
    }
    if (finding->period == 0)
        finding->reason =
            deep ? renewed_reason(log, last) : xstrdup("the program ended before its operations repeated");
    else if (!finding->feeds_back)
        refuse_loop(log, last, finding);
    if (finding->found)
        ask_about_notes(finding);
}

void
scout_finding_free(struct scout_finding *finding)
{
    forget_tensors(finding);
    free(finding->reason);
    free(finding->varying_reads);
    free(finding->by_hand);
    *finding = (struct scout_finding){0};
}
