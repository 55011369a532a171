/* scout.c - see scout.h. */
#include "tools/scout/command/scout.h"

#include "launcher/options/option_rows.h"
#include "launcher/output/whole_file.h"
#include "launcher/start/job_folder.h"
#include "tools/common/inner_run.h"
#include "tools/common/owned.h"
#include "tools/common/tool_options.h"
#include "tools/scout/command/analysis/finding.h"
#include "tools/scout/command/analysis/rules.h"
#include "tools/scout/command/dates.h"
#include "tools/scout/command/proofs/prove.h"
#include "tools/scout/command/report/lines.h"
#include "tools/scout/command/report/proofs.h"
#include "tools/scout/format/log.h"

#include <json-c/json.h>

enum { DEFAULT_STEPS = 3, MOST_STEPS = 100, MOST_TIMEOUT_S = 1000000 };

struct request {
    unsigned steps, timeout_s;
    const char *json, *patch;
    bool verbose;
    unsigned by;          /* enum plan_by; 0: gradients, or `either` */
    bool either;          /* for --plan auto: by state, where it cannot be by gradients */
    const char *per_rank; /* suspects that are state of each rank: "a3,a7"; NULL: none is named */
    bool prove;
    bool unproved; /* for --plan auto: also if a proof does not pass */
    bool silent;   /* for --plan auto: nothing is printed */
    char *const *program;
};

#define OPTION_TARGET struct request
static const struct option_row rows[] = {
    {.name = "steps",
     .argument = "M",
     .flags = OR_ZERO,
     WHOLE(steps, DEFAULT_STEPS, MOST_STEPS, "a number from 3 to 100"),
     .help = "end the program after M repeated steps, 3 to 100 (default 3); 0: let\n"
             "it finish"},
    {.name = "timeout",
     .argument = "SECONDS",
     WHOLE(timeout_s, 1, MOST_TIMEOUT_S, "a number from 1 to 1000000"),
     .help = "end the program if the recording takes longer (default 900)"},
    {.name = "prove",
     SWITCH(prove),
     .help = "test the result: train two ranks with the gradients that were found,\n"
             "and compare them with one process"},
    {.name = "per-rank",
     .argument = "LIST",
     TEXT(per_rank, "memory as a3,a7"),
     .help = "buffers that each rank keeps for itself, such as a hidden state:\n"
             "names as scout prints them, such as a3,a7"},

    {.name = "by",
     .argument = "gradients|state",
     ONE_OF(by, PLAN_BY_GRADIENTS),
     .help = "what --plan averages: gradients (default), or state: parameters and\n"
             "optimizer state, for which no gradient has to be found"},
    {.name = "patch",
     .argument = "FILE",
     TEXT(patch, "a file"),
     .help = "write the lines to add to FILE, as a diff against the sources for\n"
             "patch -p0 and git apply"},
    {.name = "verbose", .letter = 'v', SWITCH(verbose), .help = "print each tensor, and the lines to add"},
    {.name = "json",
     .argument = "FILE",
     TEXT(json, "a file"),
     .help = "write the findings to FILE, also if the program is refused"},
    HELP_ROW,
    {0},
};

/* False, with the error: options contradict each other, or a file cannot be written. Asked before anything runs. */
static bool
refuse(const struct options *options, const struct request *request, struct error *error)
{
    if (options->rank_count > 1)
        return error_set(error, DDPRUN_EXIT_USAGE,
                         "-n %d and scout contradict each other: the program is scouted in one process; leave -n out",
                         options->rank_count);
    static const char *const refused[] = {"dry-run", NULL};
    return options_refuse(options_set(options, refused), "scout", error) &&
           (request->patch == NULL || request->by != PLAN_BY_STATE ||
            error_set(error, DDPRUN_EXIT_USAGE,
                      "--patch and --by state contradict each other: by state no line is found")) &&
           whole_file_check(request->json, "--json", error) && whole_file_check(request->patch, "--patch", error);
}

/* ---- the run ---- */

static bool
is_proved(const struct scout_proofs *proofs, struct error *error)
{
    const struct proof *missing = proofs_missing(proofs);
    return missing == NULL || error_set(error, DDPRUN_EXIT_FAILURE, "findings are not proved: %s", missing->text);
}

/* Adds to a text of the finding, if it has one, which allocations its names (a12) are. */
static void
explain(const struct scout_log *log, char **text)
{
    OWNED char *old = *text;
    if (old != NULL)
        *text = sites_explain(log, old);
}

/* Prints what proofs say; names of memory get their lines. */
static void
tell_proofs(const struct request *request, const struct scout_log *log, struct scout_proofs *proofs)
{
    struct proof *const all[] = {&proofs->halves, &proofs->turns, &proofs->own, &proofs->complete};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); ++i) {
        OWNED char *text = sites_explain(log, all[i]->text);
        snprintf(all[i]->text, sizeof(all[i]->text), "%s", text);
    }
    if (!request->silent)
        proofs_print(stdout, proofs);
}

/* Writes the plan, or that there is none and why, to --json, and frees proofs->played. False, with the error: it
 * cannot be written. */
static bool
write_plan(const struct request *request, const struct scout_log *log, const struct scout_finding *finding,
           struct scout_proofs *proofs, struct error *error)
{
    bool ok = request->json == NULL || plan_write(request->json, request->program, log, finding, proofs, error);
    json_object_put(proofs->played);
    return ok;
}

/* Whether all that --per-rank names is memory of which there is a question by state, too. */
static bool
is_asked_by_state(const struct turns *by_state, const char *list)
{
    uint32_t alloc;
    bool is = true;
    while (list != NULL && *list != '\0' && is)
        is = scout_list_next(&list, &alloc) &&
             ANY(it, by_state->ranges, by_state->range_count, it->role == PLAY_PER_RANK && it->alloc == alloc);
    return is;
}

/* Turns by state, and what proofs say of them. */
struct attempt {
    struct turns turns;
    struct scout_proofs proofs;
};

/* Searches for a plan by state where gradients give none, and proves it as far as the request asks. False: a run
 * failed, or --per-rank names nothing. */
static bool
try_by_state(const struct scout_order *order, const struct request *request, const struct scout_log *log,
             struct scout_finding *finding, struct attempt *it, struct error *error)
{
    *it = (struct attempt){.proofs.by_state = true};
    by_state_find(log, finding, request->per_rank, &it->turns);
    finding->found = it->turns.reason == NULL;
    return (!finding->found || is_asked_by_state(&it->turns, request->per_rank) ||
            error_set(error, DDPRUN_EXIT_USAGE, SCOUT_UNASKED, request->per_rank)) &&
           scout_prove_by_state(order, log, finding, &it->turns, request->prove, &it->proofs, error);
}

/* What a reason is about, if steps may use it as scratch. */
static const struct scout_bytes *
asked_of(const struct scout_finding *finding, const struct attempt *it)
{
    return finding->found ? &it->proofs.complete.scratch : &it->turns.scratch;
}

/* Takes what the reason is about as scratch, `whole`: all of its allocation, then what the next reason is about, and
 * so on, until the proofs pass: *best is that attempt then. False, with the error: a run failed. */
static bool
try_scratch(const struct scout_order *order, const struct request *request, const struct scout_log *log,
            struct scout_finding *finding, bool whole, struct attempt *best, struct error *error)
{
    struct scout_bytes scratch = *asked_of(finding, best);
    bool ok = true, is_found = finding->found, is_better = false;
    finding->scratch_count = 0;
    while (ok && !is_better && scratch.hi != 0 && finding->scratch_count < SCRATCH_AT_MOST) {
        struct attempt next;
        finding->scratch[finding->scratch_count++] =
            whole ? (struct scout_bytes){scratch.alloc, 0, UINT64_MAX} : scratch;
        ok = try_by_state(order, request, log, finding, &next, error);
        scratch = *asked_of(finding, &next);
        is_better = finding->found && proofs_missing(&next.proofs) == NULL;
        struct attempt worse = is_better ? *best : next;
        *best = is_better ? next : *best;
        turns_free(&worse.turns);
        json_object_put(worse.proofs.played);
    }
    finding->found = is_better || is_found;
    return ok;
}

/* Whether an allocation has other memory with a class: it is an arena, or a struct. */
static bool
is_one_of_several(const struct turns *turns, const struct scout_bytes *scratch)
{
    return ANY(it, turns->ranges, turns->range_count,
               it->alloc == scratch->alloc && (it->hi <= scratch->lo || it->lo >= scratch->hi));
}

/* Of turns by state: what has which class, and the plan. A launch that gets a pointer to scratch seems to read all that
 * follows in the struct or the array, also what an earlier step has left. Where that would end the plan all of the
 * allocation is taken as scratch, or these bytes of it, and the proofs show whether it is; else the first reason
 * stands. */
static bool
report_by_state(const struct scout_order *order, const struct request *request, const struct scout_log *log,
                struct scout_finding *finding, struct error *error)
{
    struct attempt best;
    bool ok = try_by_state(order, request, log, finding, &best, error);
    if (ok && request->prove && request->per_rank == NULL) {
        const struct scout_bytes scratch = *asked_of(finding, &best);
        bool is_part = is_one_of_several(&best.turns, &scratch);
        ok = try_scratch(order, request, log, finding, true, &best, error);
        if (ok && is_part && asked_of(finding, &best)->hi != 0)
            ok = try_scratch(order, request, log, finding, false, &best, error);
    }
    finding->found = best.turns.reason == NULL;
    free(finding->reason);
    finding->reason = finding->found ? NULL : sites_explain(log, best.turns.reason);
    if (ok && finding->found && !request->silent)
        by_state_print(stdout, log, finding, &best.turns);
    tell_proofs(request, log, &best.proofs);
    turns_free(&best.turns);
    ok = ok &&
         (finding->found ||
          error_set(error, DDPRUN_EXIT_FAILURE, "ranks cannot take turns by state: %s", finding->reason)) &&
         (request->unproved || is_proved(&best.proofs, error));
    return write_plan(request, log, finding, &best.proofs, error) && ok;
}

/* Reports a plan by state, where there is none by gradients. False: there is none either, and the error has both
 * reasons, or a run failed. */
static bool
report_instead(const struct scout_order *order, const struct request *request, const struct scout_log *log,
               struct scout_finding *finding, struct error *error)
{
    struct error other = {0};
    snprintf(finding->instead_of, sizeof(finding->instead_of), "%.500s", error->text);
    bool ok = report_by_state(order, request, log, finding, &other);
    /* what is found of gradients is no reason where more was found by state */
    bool is_one =
        strcmp(finding->instead_of, other.text) == 0 || strstr(finding->instead_of, "no gradients found") != NULL;
    if (!ok && other.exit_code == DDPRUN_EXIT_FAILURE && !is_one)
        return error_set(error, DDPRUN_EXIT_FAILURE,
                         "not possible by gradients: %.500s\n  not possible by state: %.500s", finding->instead_of,
                         other.text);
    if (!ok && (other.exit_code == DDPRUN_EXIT_FAILURE || is_one)) /* else --per-rank names what gradients ask about */
        *error = other;
    return ok;
}

/* Whether the host reads figures there: numbers, counts, and what it copies. Running statistics are none of these. */
static bool
has_figures(const struct scout_log *log, const struct scout_tensor *tensor)
{
    return tensor->role == ROLE_STATISTICS &&
           (tensor->type == SCOUT_INTEGER || tensor->hi - tensor->lo <= ELEMENT_BYTES ||
            scout_is_read_by_host(log, tensor));
}

/* A launch after the place where gradients are averaged, by which nothing has changed in any recorded step; the end of
 * the step: there is none. It may write a figure in another one, of which most drop it by gradients. */
static uint32_t
find_idle(const struct scout_log *log, const struct scout_finding *finding)
{
    uint32_t at = finding->group_count > 0 ? finding->groups[0].before : finding->first + finding->period;
    for (; at < finding->first + finding->period; ++at) {
        bool is_idle = log->ops[at].kind == SCOUT_LAUNCH && !log->ops[at].answers;
        for (uint32_t op = at; op < finding->end && is_idle; op += finding->period)
            is_idle = scout_writes_nothing(log->ops[op].effect);
        if (is_idle)
            break;
    }
    return at;
}

/* Whether by gradients a rank would show figures of its own batches alone, in memory that it has for itself; the
 * error says which. */
static bool
has_own_figures(const struct scout_log *log, const struct scout_finding *finding, struct error *error)
{
    char place[64], name[SCOUT_NAME_BYTES];
    uint32_t idle = find_idle(log, finding);
    bool is_idle = idle < finding->first + finding->period;
    const struct scout_tensor *shown = FIND(it, finding->tensors, finding->tensor_count, has_figures(log, it));
    OWNED char *text = shown != NULL ? sites_explain(log, scout_tensor_place(shown, place)) : NULL;
    if (text != NULL)
        error_set(error, DDPRUN_EXIT_FAILURE,
                  "only the host reads %s: by gradients each rank's value would be of its own batches; --by gradients "
                  "accepts "
                  "this",
                  text);
    else if (is_idle)
        error_set(error, DDPRUN_EXIT_FAILURE,
                  "%s, after the update, changed nothing in the recorded steps: if it changes a figure in other steps, "
                  "most of these changes would be left out; --by gradients accepts this",
                  scout_op_name(log, &log->ops[idle], name));
    return text != NULL || is_idle;
}

/* Stands beside what is found, and in the reason of a refusal. */
static void
tell(struct scout_finding *finding, char *text)
{
    OWNED char *reason = finding->reason;
    finding->reason = reason != NULL ? xasprintf("%s; %s", reason, text) : NULL;
    note_take(finding, text);
}

/* What ended a run when it was made again, and the first launch that failed by itself. */
static void
tell_failures(const struct scout_outcome *outcome, const struct scout_log *log, struct scout_finding *finding)
{
    char name[SCOUT_NAME_BYTES], place[256];
    const struct scout_op *op =
        FIND(it, log->ops, log->op_count,
             it->effect != NULL && strcmp(scout_log_name(log, it->effect->why), SCOUT_FAILED) == 0);
    if (outcome->left_out[0] != '\0')
        tell(finding, xasprintf("%s: the last of %u runs leaves that out", outcome->left_out, outcome->runs));
    struct sites *sites = sites_open(log);
    if (op != NULL)
        tell(finding, xasprintf("%s (%s) computes nothing: %s", scout_op_name(log, op, name),
                                sites_text(sites, op->site, place, sizeof(place)), SCOUT_FAILED));
    sites_close(sites);
}

/* Copies to the host that are left out of what repeats. */
static void
tell_varying_reads(const struct scout_outcome *outcome, const struct scout_log *log, struct scout_finding *finding)
{
    const struct scout_progress *progress = &outcome->progress;
    char place[256], more[64] = "";
    if (progress->read_places == 0)
        return;
    if (progress->read_places > 1)
        snprintf(more, sizeof(more), ", and from %u more places", progress->read_places - 1);
    struct sites *sites = sites_open(log);
    finding->varying_reads = xasprintf("%s%s", sites_text(sites, progress->read_site, place, sizeof(place)), more);
    sites_close(sites);
    note_add(finding, "copies to the host at %s differ from step to step: scout leaves them out of the step",
             finding->varying_reads);
}

/* Prints roles. False: they do not suffice for what is asked for. */
static bool
show_roles(const struct request *request, const struct scout_log *log, struct scout_finding *finding,
           struct error *error)
{
    bool is_patched = true;
    bool is_asked = request->per_rank == NULL || scout_finding_name(finding, request->per_rank, request->prove);
    finding->for_lines = request->per_rank == NULL && !request->prove && request->json == NULL;
    explain(log, &finding->reason);
    for (uint32_t i = 0; i < finding->note_count; ++i)
        explain(log, &finding->notes[i]);
    if ((finding->found || finding->is_open) && !request->silent)
        is_patched = scout_print(stdout, log, finding, request->patch, request->verbose, error);
    if (!is_asked)
        return error_set(error, request->either ? DDPRUN_EXIT_FAILURE : DDPRUN_EXIT_USAGE, SCOUT_UNASKED,
                         request->per_rank);
    if (!finding->found)
        return error_set(error, DDPRUN_EXIT_FAILURE, "%s%s",
                         finding->is_open ? "" : "no gradients found: ", finding->reason);
    return is_patched && (!request->either || !has_own_figures(log, finding, error));
}

/* Proves roles, if that is asked for. What is trained is no rank's own, also unproved. False, with the error. */
static bool
prove_roles(const struct scout_order *order, const struct request *request, const struct scout_log *log,
            const struct scout_finding *finding, struct scout_proofs *proofs, struct error *error)
{
    bool ok = !request->prove || proofs->played != NULL || scout_prove(order, log, finding, proofs, error);
    tell_proofs(request, log, proofs);
    return ok && ((request->unproved && proofs_missing(proofs) != &proofs->own) || is_proved(proofs, error));
}

/* Takes what is asked about first as scratch: a launch that gets one pointer to a struct of scratch seems to read
 * all of it, also what an earlier step has left. It is scratch if ranks that take turns, and have what their own
 * last step has left, do what one process does. False, with the error: a run failed. */
static bool
try_without_suspects(const struct scout_order *order, const struct request *request, const struct scout_log *log,
                     struct scout_finding *finding, struct scout_proofs *proofs, struct error *error)
{
    struct scout_finding other;
    if (!finding->is_open || !request->prove || request->per_rank != NULL)
        return true;
    scout_find(log, finding, &other);
    bool ok = !other.found || scout_prove(order, log, &other, proofs, error);
    if (ok && other.found && proofs->turns.end == PROOF_PASSED && proofs_missing(proofs) == NULL) {
        other.varying_reads = finding->varying_reads;
        finding->varying_reads = NULL;
        scout_finding_free(finding);
        *finding = other;
        return true;
    }
    json_object_put(proofs->played);
    *proofs = (struct scout_proofs){0};
    scout_finding_free(&other);
    return ok;
}

/* Of a program that updates in place, for its patch: the ranks' parameters are averaged. */
static void
take_in_place(const struct request *request, const struct scout_log *log, struct scout_finding *finding)
{
    struct scout_finding other;
    bool is_asked = request->patch != NULL && !request->prove && request->json == NULL && request->per_rank == NULL;
    if (!is_asked || finding->found || finding->is_open || log->annotation_count > 0)
        return;
    if (!scout_find_in_place(log, finding, &other)) {
        scout_finding_free(&other);
        return;
    }
    scout_finding_free(finding);
    *finding = other;
}

/* Prints what was found, proves it, and writes the plan. False, with the error: there is nothing, or a run failed. */
static bool
report_findings(const struct scout_order *order, const struct request *request, const struct scout_log *log,
                struct scout_finding *finding, struct error *error)
{
    struct scout_proofs proofs = {0};
    if (request->by == PLAN_BY_STATE)
        return report_by_state(order, request, log, finding, error);
    take_in_place(request, log, finding);
    bool ok = try_without_suspects(order, request, log, finding, &proofs, error) &&
              show_roles(request, log, finding, error) && prove_roles(order, request, log, finding, &proofs, error);
    if (ok || !request->either || error->exit_code != DDPRUN_EXIT_FAILURE)
        return write_plan(request, log, finding, &proofs, error) && ok;
    json_object_put(proofs.played);
    return report_instead(order, request, log, finding, error);
}

/* Of a program that is to get lines: what its ranks do otherwise because of the date. */
static void
compare_dates(const struct scout_order *order, const struct scout_outcome *outcome, const struct request *request,
              const struct scout_log *log, struct scout_finding *finding)
{
    const bool has_lines = finding->found || finding->is_open;
    if (has_lines && request->patch != NULL && !request->prove && log->annotation_count == 0)
        dates_compare(order, outcome->progress.readings, log, finding);
}

/* Reads the recording, finds the roles, and reports them with their proofs. False: the recording cannot be used, or a
 * proof could not run. */
static bool
look(const struct scout_outcome *outcome, const struct scout_order *order, const struct request *request,
     struct error *error)
{
    struct scout_log log;
    const char *why;
    if (!scout_log_open(outcome->log, &log, &why))
        return error_set(error, DDPRUN_EXIT_FAILURE, "cannot read the recording: %s", why);
    bool ok = log.has_end || outcome->refused || outcome->unlike ||
              error_set(error, DDPRUN_EXIT_FAILURE, "the recording is incomplete; make room in TMPDIR");
    if (ok) {
        struct scout_finding finding;
        scout_find(&log, NULL, &finding);
        tell_failures(outcome, &log, &finding);
        tell_varying_reads(outcome, &log, &finding);
        compare_dates(order, outcome, request, &log, &finding);
        ok = report_findings(order, request, &log, &finding, error);
        scout_finding_free(&finding);
    }
    scout_log_free(&log);
    return ok;
}

/* The plan of a program that ended before all was recorded, as one does whose launch fails when it is made again: the
 * reason, and what was recorded. */
static void
write_refusal(const struct scout_outcome *outcome, const struct request *request, struct error *error)
{
    struct scout_log log;
    struct scout_finding finding = {.reason = error->text};
    struct error other;
    const char *why;
    if (request->json == NULL || outcome->signal != 0 || !scout_log_open(outcome->log, &log, &why))
        return;
    if (!plan_write(request->json, request->program, &log, &finding, &(struct scout_proofs){0}, &other))
        *error = other;
    scout_log_free(&log);
}

/* The command to try where no plan is possible, unless the reason names an option: annotations. */
static void
add_command(const struct request *request, struct error *error)
{
    if (!request->either || error->exit_code != DDPRUN_EXIT_FAILURE || strstr(error->text, " --") != NULL)
        return;
    size_t used = strlen(error->text), room = sizeof(error->text) - used;
    int more = snprintf(error->text + used, room, "\n  for annotations instead of a plan: ddprun scout");
    for (char *const *word = request->program; *word != NULL && more > 0 && (size_t)more < room; ++word) {
        used += (size_t)more;
        room -= (size_t)more;
        more = snprintf(error->text + used, room, " %s", *word);
    }
}

/* Everything from the program's start to its plan. False, with the error that is to be reported. */
static bool
scout(const struct scout_order *order, const struct request *request, struct error *error)
{
    struct scout_outcome outcome = {0};
    bool ran = scout_run_make(order, &outcome, error), ok = ran && scout_run_judge(order, &outcome, error);
    if (ran && !ok)
        write_refusal(&outcome, request, error);
    bool is_known = ok && look(&outcome, order, request, error);
    if (ok && !is_known)
        add_command(request, error);
    free(outcome.log);
    return is_known;
}

bool
scout_make_plan(struct scout_order *order, const char *path, const char *per_rank, unsigned by, bool unproved,
                struct error *error)
{
    const struct request request = {.json = path,
                                    .per_rank = per_rank,
                                    .by = by,
                                    .either = by == 0 && !unproved,
                                    .prove = true,
                                    .unproved = unproved,
                                    .silent = true,
                                    .program = order->program};
    order->steps = DEFAULT_STEPS;
    return scout(order, &request, error);
}

/* The command `ddprun scout`; returns its exit code. */
static int
run_scout(const struct command *command, const struct options *options)
{
    struct request request = {.steps = DEFAULT_STEPS, .timeout_s = SCOUT_TIMEOUT_S};
    struct error error;
    struct job_folder folder = {.fd = -1};
    struct scout_order order = {.options = options};
    char **program;
    int exit_code;
    if (!command_begin(command, options->program, &request, &program, &exit_code))
        return exit_code;
    inner_run_block_signals(&order.old_mask);
    request.program = program;
    request.verbose = request.verbose || options->verbose;
    bool ok = refuse(options, &request, &error) && job_folder_make(&folder, &error);
    if (ok) {
        order.program = request.program;
        order.folder = folder.path;
        order.steps = request.steps;
        order.timeout_s = request.timeout_s;
        ok = scout(&order, &request, &error);
        job_folder_remove(&folder);
    }
    return command_end(ok, &error);
}

const struct command scout_command = {
    .name = "scout",
    .brief = "find the annotations that a program needs",
    .starts_ranks = true,
    .usage = "Usage: ddprun [options] scout [options] program [arguments...]\n\n"
             "Runs the program in one process and repeats each launch with other inputs, to find\n"
             "which memory depends on which. The program needs no annotations. Its own results\n"
             "stay as they are.\n",
    .notes = "Exit codes: 0: found; 1: the program cannot be followed, no gradients are found, or\n"
             "a proof has failed, with the reason; 2: wrong options.\n",
    .wants = "program",
    .example = "ddprun scout ./train",
    .rows = rows,
    .run = run_scout,
};
