/* scouted.c - see unannotated.h: what scout's graph of one run of the program shows. */
#include "tools/check/unannotated/unannotated.h"

#include "tools/check/format/run.h"
#include "tools/common/owned.h"
#include "tools/scout/command/analysis/finding.h"
#include "tools/scout/command/analysis/rules.h"
#include "tools/scout/command/proofs/prove.h"
#include "tools/scout/command/report/lines.h"
#include "tools/scout/command/run.h"

/* ---- what stays from step to step, and nothing that is compared depends on ---- */

/* Fewer elements are losses and counts. */
static void
find_uncompared(const struct scout_log *log, const struct scout_finding *finding, enum scout_role role,
                enum unannotated_kind kind, struct unannotated_findings *findings)
{
    enum { LEAST_ELEMENTS = 4 };
    char name[SCOUT_NAME_BYTES] = "";
    uint64_t elements = 0;
    FOR_EACH(tensor, finding->tensors, finding->tensor_count) {
        uint32_t known = scout_type_bytes(tensor->type), each = known > 0 ? known : sizeof(float);
        uint64_t own = (tensor->hi - tensor->lo) / each;
        bool annotated = ANY(it, log->annotations, log->annotation_count,
                             it->alloc == tensor->alloc && it->says != SCOUT_SAYS_STEP && it->offset <= tensor->lo &&
                                 it->offset + it->bytes > tensor->lo);
        /* Gradients are computed from a teacher, and are compared. */
        bool is_teacher = tensor->pair != PAIR_NONE && finding->tensors[tensor->pair].role == ROLE_GRADIENT;
        if (tensor->role != role || annotated || own < LEAST_ELEMENTS || is_teacher)
            continue;
        elements += own;
        if (name[0] == '\0')
            (void)scout_op_name(log, &log->ops[tensor->writer], name);
    }
    if (elements > 0)
        unannotated_add(findings,
                        &(struct unannotated_finding){.kind = kind, .elements = elements, .text = xstrdup(name)});
}

/* ---- what the host reads ---- */

/* What the host reads in a step is computed from gradients that DDP_STEP has averaged, from a rank's own, or not from
 * gradients. */
enum origin_of_read { OF_OTHERS, OF_AVERAGES, OF_OWN };

static bool
is_read(const struct scout_log *log, const struct scout_op *op)
{
    bool copies = op->kind == SCOUT_COPY && op->to.alloc == SCOUT_NONE && op->from.alloc != SCOUT_NONE;
    return (copies || op->answers) && op->site < log->site_count;
}

/* Also where it could not be tried, as where it finds zeros. */
static bool
writes(const struct scout_op *op, uint32_t alloc, uint64_t offset)
{
    uint64_t end = offset + sizeof(float);
    bool fills = op->kind != SCOUT_LAUNCH && op->to.alloc == alloc && op->to.offset < end;
    return (fills && offset < op->to.offset + op->bytes * op->rows) ||
           (op->effect != NULL && ANY(it, op->effect->segments, op->effect->segment_count,
                                      it->alloc == alloc && it->lo < end && offset < it->hi &&
                                          (it->tested == 0 || graph_ranges_meet(&it->killed, offset, end) ||
                                           graph_ranges_meet(&it->modified, offset, end))));
}

static enum origin_of_read find_origin(const struct scout_log *log, uint32_t at, int depth);

/* What an operation reads as argument k; after its arguments, the source of a copy. alloc SCOUT_NONE: nothing. */
static struct scout_place
read_by(const struct scout_op *op, uint32_t k)
{
    if (k < op->argument_count)
        return (struct scout_place){.alloc = op->arguments[k].alloc, .offset = op->arguments[k].offset};
    return op->kind == SCOUT_COPY ? op->from : (struct scout_place){.alloc = SCOUT_NONE};
}

/* Of what operation `at` reads at a place. */
static enum origin_of_read
origin_of_place(const struct scout_log *log, uint32_t at, const struct scout_place *place, int depth)
{
    const struct scout_annotation *annotation =
        FIND(it, log->annotations, log->annotation_count,
             it->says != SCOUT_SAYS_STEP && it->alloc == place->alloc && it->offset <= place->offset &&
                 place->offset < it->offset + it->bytes);
    uint32_t by = at;
    while (by > 0 && !writes(&log->ops[by - 1], place->alloc, place->offset))
        --by;
    if (by == 0 || writes(&log->ops[at], place->alloc, place->offset))
        return OF_OTHERS;
    if (annotation == NULL)
        return depth > 0 ? find_origin(log, by - 1, depth - 1) : OF_OTHERS;
    if (annotation->says != SCOUT_SAYS_GRADIENT)
        return OF_OTHERS;
    const bool is_averaged =
        ANY(step, log->annotations, log->annotation_count,
            step->says == SCOUT_SAYS_STEP && step->operations_before >= by && step->operations_before <= at);
    return is_averaged ? OF_AVERAGES : OF_OWN;
}

static enum origin_of_read
find_origin(const struct scout_log *log, uint32_t at, int depth)
{
    const struct scout_op *op = &log->ops[at];
    enum origin_of_read found = OF_OTHERS;
    bool is_known = op->kind == SCOUT_COPY || op->effect != NULL || op->answers;
    for (uint32_t k = 0; k <= op->argument_count && is_known; ++k) {
        const struct scout_place place = read_by(op, k);
        if (place.alloc == SCOUT_NONE)
            continue;
        const enum origin_of_read here = origin_of_place(log, at, &place, depth);
        found = here > found ? here : found;
    }
    return found;
}

static bool
is_read_at(const struct scout_log *log, const struct scout_op *op, uint32_t site)
{
    return is_read(log, op) && op->site == site;
}

/* Of all reads at a site: not each was looked at. *calls_p: how many there are. */
static enum origin_of_read
find_origin_at(const struct scout_log *log, uint32_t site, size_t *calls_p)
{
    enum { DEPTH = 3 };
    enum origin_of_read from = OF_OTHERS;
    *calls_p = 0;
    for (uint32_t at = 0; at < log->op_count; ++at) {
        if (!is_read_at(log, &log->ops[at], site))
            continue;
        const enum origin_of_read here = find_origin(log, at, DEPTH);
        from = here > from ? here : from;
        ++*calls_p;
    }
    return from;
}

/* What the host reads of a rank's share in each step, at more places than DDP_MEAN makes it that of the batch; and what
 * it reads of gradients before DDP_STEP, such as a norm whose bound no step has reached. `means`: places where the
 * program calls DDP_MEAN. */
static void
find_reads(const struct scout_log *log, struct sites *sites, size_t means, bool takes_turns,
           struct unannotated_findings *findings)
{
    char place[160], places[OF_OWN + 1][400] = {""};
    size_t count = 0;
    FOR_EACH(op, log->ops, log->op_count) {
        const size_t before = (size_t)(op - log->ops);
        size_t calls;
        if (!is_read(log, op) || ANY(it, log->ops, before, is_read_at(log, it, op->site)))
            continue;
        const enum origin_of_read from = find_origin_at(log, op->site, &calls);
        if (calls < 2 || from == OF_AVERAGES || (from == OF_OTHERS && op->answers))
            continue;
        printable_append(places[from], sizeof(places[from]), "%s%s", places[from][0] != '\0' ? ", " : "",
                         sites_text(sites, op->site, place, sizeof(place)));
        count += from == OF_OTHERS;
    }
    const enum unannotated_kind kind = takes_turns ? UNANNOTATED_READ_OF_BATCHES : UNANNOTATED_READ_OF_SHARE;
    if (count > means)
        unannotated_add(findings, &(struct unannotated_finding){.kind = kind, .text = xstrdup(places[OF_OTHERS])});
    if (places[OF_OWN][0] != '\0')
        unannotated_add(findings, &(struct unannotated_finding){.kind = UNANNOTATED_READ_OF_GRADIENTS,
                                                                .text = xstrdup(places[OF_OWN])});
}

/* ---- the graph ---- */

static void
say_not_searched(const char *why, struct unannotated_findings *findings)
{
    unannotated_add(findings, &(struct unannotated_finding){.kind = UNANNOTATED_NOT_SEARCHED, .text = xstrdup(why)});
}

/* False where the program averages parameters, and leaves its gradients as they are. */
static bool
is_by_gradients(const struct scout_log *log, const struct scout_finding *finding)
{
    return finding->found && ANY(it, log->annotations, log->annotation_count, it->says == SCOUT_SAYS_GRADIENT) &&
           !ANY(group, finding->groups, finding->group_count, group->fused);
}

/* Parameters, and steps that are late. A step is missing only where all that was recorded shows the same. */
static void
find_missing(const struct scout_log *log, const struct scout_finding *finding, struct sites *sites,
             struct unannotated_findings *findings)
{
    char *lines = NULL;
    size_t bytes;
    const bool by_gradients = is_by_gradients(log, finding);
    if (finding->found) {
        FILE *out = open_memstream(&lines, &bytes);
        annotated_print_open(out, log, finding, sites, by_gradients);
        fclose(out);
        unannotated_add(findings, &(struct unannotated_finding){.kind = UNANNOTATED_MISSING, .text = lines});
    }
    if (!by_gradients)
        say_not_searched(finding->found ? "the program averages parameters, too" : finding->reason, findings);
}

static void
read_graph(const char *path, const struct check_facts *facts, bool takes_turns, struct unannotated_findings *findings)
{
    struct scout_log log;
    struct scout_finding finding;
    const char *unreadable;
    size_t means = 0;
    if (!scout_log_open(path, &log, &unreadable)) {
        say_not_searched(unreadable, findings);
        return;
    }
    FOR_EACH(item, facts->items, facts->item_count)
        means += item->tensor.role == CHECK_MEAN;
    struct sites *sites = sites_open(&log);
    scout_find(&log, NULL, &finding);
    find_reads(&log, sites, means, takes_turns, findings);
    find_missing(&log, &finding, sites, findings);
    if (finding.found || finding.is_rough || finding.is_open) {
        find_uncompared(&log, &finding, ROLE_AVERAGE, UNANNOTATED_AVERAGE, findings);
        if (!takes_turns) /* else they are compared */
            find_uncompared(&log, &finding, ROLE_STATISTICS, UNANNOTATED_STATISTICS, findings);
    }
    scout_finding_free(&finding);
    sites_close(sites);
    scout_log_free(&log);
}

/* One run of the program of the check, in one process; what it writes goes where the check's runs write. */
void
unannotated_scout(const struct unannotated_search *search, const struct check_evidence *evidence,
                  const struct check_facts *facts, struct unannotated_findings *findings)
{
    struct scout_outcome outcome = {0};
    struct scout_order order = {.timeout_s = search->limit_s,
                                .silent = true,
                                .options = search->options,
                                .program = search->program,
                                .folder = search->folder,
                                .old_mask = search->old_mask,
                                .steps = 3};
    struct error error;
    /* What it annotates is a part of what is reduced. */
    if (ANY(item, facts->items, facts->item_count, item->tensor.role == CHECK_REDUCE)) {
        say_not_searched("for a program that calls DDP_REDUCE use ddprun scout", findings);
        return;
    }
    OWNED char *files = xasprintf("%s/scout", search->folder);
    setenv(DDPRUN_ENV_CHECK_FILES, files, 1);
    const bool made = scout_run_make(&order, &outcome, &error);
    unsetenv(DDPRUN_ENV_CHECK_FILES);
    if (made && scout_run_judge(&order, &outcome, &error))
        read_graph(outcome.log, facts, check_evidence_takes_turns(evidence), findings);
    else
        say_not_searched(error.text, findings);
    free(outcome.log);
}
