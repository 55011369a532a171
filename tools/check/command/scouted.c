/* scouted.c - see session.h. */
#include "tools/check/command/session.h"

#include "base/clock.h"
#include "tools/check/command/check.h"
#include "tools/common/owned.h"
#include "tools/scout/command/analysis/finding.h"
#include "tools/scout/command/analysis/rules.h"
#include "tools/scout/command/proofs/prove.h"
#include "tools/scout/command/report/lines.h"
#include "tools/scout/command/run.h"

/* ---- the annotations of a program that is equal ---- */

/* What stays from step to step, and nothing that is compared depends on. Fewer elements are losses and counts. */
static void
print_uncompared(FILE *out, const struct scout_log *log, const struct scout_finding *finding, enum scout_role role,
                 const char *what)
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
        fprintf(out,
                "not compared: %" PRIu64 " elements that `%s` writes, which no other operation of a step reads: %s\n",
                elements, name, what);
}

static void
print_not_held(FILE *out, const char *why)
{
    fprintf(out, "not exercised: the search for missing annotations: %s\n", why);
}

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

/* What the host reads of a rank's share in each step, at more places than DDP_MEAN makes it that of the batch; and what
 * it reads of gradients before DDP_STEP, such as a norm whose bound no step has reached. */
static void
print_read(FILE *out, const struct scout_log *log, struct sites *sites, size_t means, bool takes_turns)
{
    enum { DEPTH = 3 };
    char place[160], places[OF_OWN + 1][400] = {""};
    size_t count = 0;
    FOR_EACH(op, log->ops, log->op_count) {
        size_t before = (size_t)(op - log->ops), calls = 0;
        enum origin_of_read from = OF_OTHERS, here;
        if (!is_read(log, op) || ANY(it, log->ops, before, is_read(log, it) && it->site == op->site))
            continue;
        for (size_t at = before; at < log->op_count; ++at) { /* not each was looked at */
            bool is_it = is_read(log, &log->ops[at]) && log->ops[at].site == op->site;
            here = is_it ? find_origin(log, (uint32_t)at, DEPTH) : OF_OTHERS;
            from = here > from ? here : from;
            calls += is_it;
        }
        if (calls < 2 || from == OF_AVERAGES || (from == OF_OTHERS && op->answers))
            continue;
        printable_append(places[from], sizeof(places[from]), "%s%s", places[from][0] != '\0' ? ", " : "",
                         sites_text(sites, op->site, place, sizeof(place)));
        count += from == OF_OTHERS;
    }
    if (count > means)
        fprintf(out,
                "not compared: values that the host reads at %s: the loss or count of a rank's %s needs DDP_MEAN or "
                "DDP_REDUCE\n",
                places[OF_OTHERS], takes_turns ? "own batches" : "share");
    if (places[OF_OWN][0] != '\0')
        fprintf(out,
                "not compared: what the host reads, at %s, of gradients that DDP_STEP has not averaged: if it clips, "
                "scales or skips updates in other steps, call DDP_STEP before it\n",
                places[OF_OWN]);
}

/* What equal steps leave open. A step is missing only where all that was recorded shows the same. `means`: places where
 * the program calls DDP_MEAN. */
static void
print_open(FILE *out, const char *path, size_t means, bool takes_turns)
{
    struct scout_log log;
    struct scout_finding finding;
    const char *unreadable;
    if (!scout_log_open(path, &log, &unreadable)) {
        print_not_held(out, unreadable);
        return;
    }
    struct sites *sites = sites_open(&log);
    scout_find(&log, NULL, &finding);
    print_read(out, &log, sites, means, takes_turns);
    /* Else it averages parameters, and leaves its gradients as they are. */
    bool by_gradients = finding.found &&
                        ANY(it, log.annotations, log.annotation_count, it->says == SCOUT_SAYS_GRADIENT) &&
                        !ANY(group, finding.groups, finding.group_count, group->fused);
    if (finding.found)
        annotated_print_open(out, &log, &finding, sites, by_gradients);
    if (!by_gradients)
        print_not_held(out, finding.found ? "the program averages parameters, too" : finding.reason);
    if (finding.found || finding.is_rough || finding.is_open) {
        print_uncompared(out, &log, &finding, ROLE_AVERAGE,
                         "a moving average of gradients or parameters, which DDP_STATE would compare");
        if (!takes_turns) /* else they are compared */
            print_uncompared(out, &log, &finding, ROLE_STATISTICS, "results of the rank's share");
    }
    scout_finding_free(&finding);
    sites_close(sites);
    scout_log_free(&log);
}

/* One run of the program of the check, in one process; what it writes goes where the check's runs write. */
char *
scouted_compare(const struct check *check, const struct check_verdict *verdict)
{
    int64_t took_s = (clock_now_ms() - check->place.begin_ms) / 1000, least_s = 5; /* for annotations */
    struct scout_outcome outcome = {0};
    struct scout_order order = {.timeout_s = (unsigned)(took_s + least_s),
                                .silent = true,
                                .options = check->options,
                                .program = check->alone,
                                .folder = check->folder.path,
                                .old_mask = check->place.old_mask,
                                .steps = 3};
    struct error error;
    char *text = NULL;
    size_t bytes, means = 0;
    FOR_EACH(item, verdict->facts->items, verdict->facts->item_count)
        means += item->tensor.role == CHECK_MEAN;
    bool reduces = ANY(item, verdict->facts->items, verdict->facts->item_count,
                       item->tensor.role == CHECK_REDUCE); /* what it annotates is a part of what is reduced */
    if (check->in_cluster || check->has_reference)
        return NULL;
    OWNED char *files = xasprintf("%s/scout", check->folder.path);
    setenv(DDPRUN_ENV_CHECK_FILES, files, 1);
    bool made = !reduces && scout_run_make(&order, &outcome, &error);
    unsetenv(DDPRUN_ENV_CHECK_FILES);
    FILE *out = open_memstream(&text, &bytes);
    if (reduces)
        print_not_held(out, "for a program that calls DDP_REDUCE use ddprun scout");
    else if (made && scout_run_judge(&order, &outcome, &error))
        print_open(out, outcome.log, means, check_evidence_takes_turns(&check->evidence));
    else
        print_not_held(out, error.text);
    fclose(out);
    free(outcome.log);
    return text;
}
