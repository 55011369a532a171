/*
 * scouted.c - see session.h.
 */
#include "tools/check/command/session.h"

#include "base/clock.h"
#include "base/message.h"
#include "base/protocol.h"
#include "launcher/common/xcalloc.h"
#include "tools/check/command/check.h"
#include "tools/scout/command/analysis/finding.h"
#include "tools/scout/command/proofs/prove.h"
#include "tools/scout/command/report/insert.h"
#include "tools/scout/command/run.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    WORD_SHIFT = 16,
    TIMEOUT_S = 900,
    LEAST_S = 5, /* for annotations, besides the time of the runs */
};               /* of a word's place in a struct, beside its argument's, as engines have it */

/* ---- what is not annotated ---- */

/* Of bytes [lo, hi): up to where they are annotated alike, and whether they are. */
static uint64_t
end_alike(const struct scout_log *log, uint32_t alloc, uint64_t lo, uint64_t hi, bool *is_annotated)
{
    *is_annotated = false;
    for (uint32_t i = 0; i < log->annotation_count; ++i) {
        const struct scout_annotation *it = &log->annotations[i];
        if (it->alloc != alloc || it->says == SCOUT_SAYS_STEP || it->offset + it->bytes <= lo || it->offset >= hi)
            continue;
        if (it->offset <= lo) {
            *is_annotated = true;
            return it->offset + it->bytes < hi ? it->offset + it->bytes : hi;
        }
        hi = it->offset;
    }
    return hi;
}

/* ---- how engines find it ---- */

/* Which call of that function it is since the last DDP_STEP: the first is 0. */
static uint32_t
ordinal_of(const struct scout_log *log, uint32_t op)
{
    uint64_t begin = 0;
    uint32_t ordinal = 0;
    for (uint32_t i = 0; i < log->annotation_count; ++i) {
        const struct scout_annotation *it = &log->annotations[i];
        if (it->says == SCOUT_SAYS_STEP && it->at <= op && it->at > begin)
            begin = it->at;
    }
    for (uint32_t i = (uint32_t)begin; i < op; ++i)
        ordinal += log->ops[i].kind == log->ops[op].kind && log->ops[i].name == log->ops[op].name;
    return ordinal;
}

/* The pointer of the call behind which the byte lies; NULL: there is none that engines see. */
static const struct scout_argument *
argument_of(const struct scout_op *op, uint32_t alloc, uint64_t lo)
{
    const struct scout_argument *best = NULL;
    for (uint32_t i = 0; i < op->argument_count && op->kind == SCOUT_LAUNCH; ++i) {
        const struct scout_argument *it = &op->arguments[i];
        if (it->alloc == alloc && it->offset <= lo && it->slot < 1u << WORD_SHIFT && it->slot != UINT16_MAX &&
            (best == NULL || it->offset > best->offset))
            best = it;
    }
    return best;
}

static bool
put(FILE *file, const struct scout_log *log, const struct scout_tensor *tensor, uint64_t lo, uint64_t hi)
{
    const struct scout_op *op = &log->ops[tensor->writer];
    const struct scout_argument *argument = argument_of(op, tensor->alloc, lo);
    uint32_t type = play_plan_type(tensor->type), bytes = scout_type_bytes(tensor->type);
    if (argument == NULL)
        return false;
    uint32_t place = argument->slot | (argument->at / (uint32_t)sizeof(uint64_t)) << WORD_SHIFT;
    struct check_scouted *scouted = xcalloc(1, sizeof(*scouted));
    scouted->memory = (struct check_memory){.tensor = {.role = CHECK_MEMORY,
                                                       .group = tensor->role == ROLE_PARAMETER ? 1 : 2,
                                                       .type = type,
                                                       .count = (hi - lo) / (bytes > 0 ? bytes : 1),
                                                       .argument = argument->slot},
                                            .owner = CHECK_OWNER_ANY,
                                            .ordinal = ordinal_of(log, tensor->writer),
                                            .argument = place,
                                            .offset = (int64_t)(lo - argument->offset),
                                            .bytes = hi - lo};
    char name[SCOUT_NAME_BYTES];
    snprintf(scouted->memory.tensor.text, sizeof(scouted->memory.tensor.text), "%s", scout_op_name(log, op, name));
    snprintf(scouted->name, sizeof(scouted->name), "%s", scout_log_name(log, op->name));
    bool written = fwrite(scouted, sizeof(*scouted), 1, file) == 1;
    free(scouted);
    return written;
}

static void
put_all(FILE *file, const struct scout_log *log, const struct scout_finding *finding)
{
    unsigned missed = 0;
    for (uint32_t i = 0; i < finding->tensor_count; ++i) {
        const struct scout_tensor *tensor = &finding->tensors[i];
        bool is_equal = tensor->role == ROLE_PARAMETER || tensor->role == ROLE_OPTIMIZER_STATE ||
                        tensor->role == ROLE_AVERAGE; /* on all ranks */
        for (uint64_t at = tensor->lo, end; is_equal && at < tensor->hi; at = end) {
            bool is_annotated;
            end = end_alike(log, tensor->alloc, at, tensor->hi, &is_annotated);
            missed += !is_annotated && !put(file, log, tensor, at, end);
        }
    }
    if (missed > 0)
        message_line("check: %u ranges of memory that stay from step to step are not compared: what writes them is no "
                     "kernel and no library call that gets a pointer to them",
                     missed);
}

/* ---- the run ---- */

static bool
write_list(const char *path, const struct scout_outcome *outcome, const char *per_rank, struct error *error)
{
    struct scout_log log;
    struct scout_finding finding;
    const char *why;
    if (!scout_log_open(outcome->log, &log, &why))
        return error_set(error, DDPRUN_EXIT_USAGE, "cannot read what was recorded for --scout: %s", why);
    scout_find(&log, &finding);
    bool ok = per_rank == NULL || scout_finding_name(&finding, per_rank, false) ||
              error_set(error, DDPRUN_EXIT_USAGE, SCOUT_UNASKED, per_rank);
    ok = ok &&
         (finding.found ||
          (finding.is_open
               ? error_set(error, DDPRUN_EXIT_USAGE, "--scout cannot tell what all memory is: %s; or leave --scout out",
                           finding.reason)
               : error_set(error, DDPRUN_EXIT_USAGE, "--scout finds no gradients: %s; leave it out", finding.reason)));
    FILE *file = ok ? fopen(path, "wxe") : NULL;
    if (file != NULL)
        put_all(file, &log, &finding);
    bool bad = file == NULL || ferror(file);
    if (file != NULL && fclose(file) != 0)
        bad = true;
    if (ok && bad)
        ok = error_set(error, DDPRUN_EXIT_FAILURE, "cannot write %s: %s; make room there, or set TMPDIR", path,
                       strerror(errno));
    scout_finding_free(&finding);
    scout_log_free(&log);
    return ok;
}

/* One run of the program of the check, in one process; what it writes goes where the check's runs write. */
static bool
scout_program(const struct check *check, struct scout_order *order, struct scout_outcome *outcome, struct error *error)
{
    char *files = xasprintf("%s/scout", check->folder.path);
    order->options = check->options;
    order->program = check->alone;
    order->folder = check->folder.path;
    order->old_mask = check->place.old_mask;
    order->steps = 3;
    setenv(DDPRUN_ENV_CHECK_FILES, files, 1);
    bool ok = scout_run_make(order, outcome, error);
    unsetenv(DDPRUN_ENV_CHECK_FILES);
    free(files);
    return ok && scout_run_judge(order, outcome, error);
}

char *
scouted_write(const struct check *check, struct error *error)
{
    char *list = xasprintf("%s/scouted", check->folder.path);
    struct scout_outcome outcome = {0};
    struct scout_order order = {.timeout_s = TIMEOUT_S};
    bool ok =
        scout_program(check, &order, &outcome, error) && write_list(list, &outcome, check_options.per_rank, error);
    free(outcome.log);
    if (ok)
        return list;
    free(list);
    return NULL;
}

/* ---- the annotations of a program that is equal ---- */

/* Whether each gradient has to be annotated: a program that averages parameters leaves its gradients as they are. */
static bool
averages_gradients(const struct scout_log *log, const struct scout_finding *finding)
{
    bool any = false;
    for (uint32_t i = 0; i < log->annotation_count; ++i)
        any = any || log->annotations[i].says == SCOUT_SAYS_GRADIENT;
    for (uint32_t g = 0; g < finding->group_count; ++g)
        any = any && !finding->groups[g].fused;
    return any;
}

/* What stays from step to step, and nothing that is compared depends on. Fewer elements are losses and counts. */
static void
print_uncompared(FILE *out, const struct scout_log *log, const struct scout_finding *finding, enum scout_role role,
                 const char *what)
{
    enum { LEAST_ELEMENTS = 4 };
    char name[SCOUT_NAME_BYTES] = "";
    uint64_t elements = 0;
    for (uint32_t i = 0; i < finding->tensor_count; ++i) {
        const struct scout_tensor *tensor = &finding->tensors[i];
        uint64_t own = (tensor->hi - tensor->lo) / scout_type_bytes(tensor->type);
        bool annotated;
        (void)end_alike(log, tensor->alloc, tensor->lo, tensor->hi, &annotated);
        if (tensor->role != role || annotated || own < LEAST_ELEMENTS)
            continue;
        elements += own;
        if (name[0] == '\0')
            (void)scout_op_name(log, &log->ops[tensor->writer], name);
    }
    if (elements > 0)
        fprintf(out, "not compared: %s, %" PRIu64 " elements, which `%s` writes, and nothing else depends on\n", what,
                elements, name);
}

/* Into *text_p what equal steps leave open; empty: nothing. False: why it cannot be told. */
static bool
compare_annotations(const char *path, char **text_p, char *why, size_t room)
{
    struct scout_log log;
    struct scout_finding finding;
    const char *unreadable;
    size_t bytes;
    if (!scout_log_open(path, &log, &unreadable)) {
        snprintf(why, room, "%s", unreadable);
        return false;
    }
    scout_find(&log, &finding);
    bool found = finding.found && averages_gradients(&log, &finding);
    FILE *out = found ? open_memstream(text_p, &bytes) : NULL;
    if (out != NULL) {
        struct sites *sites = sites_open(&log);
        (void)annotated_print_open(out, &log, &finding, sites);
        if (!check_options.scout)
            print_uncompared(out, &log, &finding, ROLE_AVERAGE,
                             "an average of gradients or parameters (--scout compares it)");
        print_uncompared(out, &log, &finding, ROLE_STATISTICS, "statistics of each rank's own data");
        sites_close(sites);
        fclose(out);
    } else {
        snprintf(why, room, "%s", finding.found ? "not only gradients are averaged" : finding.reason);
    }
    scout_finding_free(&finding);
    scout_log_free(&log);
    return out != NULL;
}

char *
scouted_compare(const struct check *check, const struct check_verdict *verdict)
{
    enum annotations_choice choice = check_options.annotations;
    int64_t took_s = (clock_now_ms() - check->begin_ms) / 1000;
    struct scout_outcome outcome = {0};
    struct scout_order order = {.timeout_s = choice == ANNOTATIONS_ON ? TIMEOUT_S : (unsigned)took_s + LEAST_S,
                                .silent = true};
    struct error error;
    char *text = NULL;
    bool reduces = false; /* what it annotates is a part of what is reduced */
    for (size_t i = 0; i < verdict->item_count; ++i)
        reduces = reduces || verdict->items[i].tensor.role == CHECK_REDUCE;
    if (choice == ANNOTATIONS_OFF || reduces || check->in_cluster || check->has_reference)
        return NULL;
    bool ok = scout_program(check, &order, &outcome, &error) &&
              compare_annotations(outcome.log, &text, error.text, sizeof(error.text));
    if (!ok && (check->options->verbose || choice == ANNOTATIONS_ON))
        message_line("check: the annotations are not held against a scouted run: %s", error.text);
    free(outcome.log);
    return text;
}
