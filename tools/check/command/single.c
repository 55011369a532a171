/*
 * single.c - the runs of one rank: the reference, what repeating it and rounding make of it, and those that tell causes
 * apart (session.h).
 */
#include "tools/check/command/session.h"

#include "launcher/start/environment.h"
#include "tools/check/command/check.h"
#include "tools/check/format/reference.h"
#include "tools/common/owned.h"

/* ---- a run, and why it may end the check ---- */

struct check_order
session_order(const struct check *check, const char *name, const char *title, enum check_mode mode)
{
    struct check_order order = {.name = name,
                                .title = title,
                                .ranks = 1,
                                .arguments = check->alone,
                                .turns = check->evidence.by_plan ? check->ranks : 0,
                                .run = {.mode = mode,
                                        .steps = check->steps,
                                        .turns = (uint32_t)check->ranks,
                                        .knows_turns = check->knows_turns,
                                        .answers_one = check->answers_one,
                                        .forced = !check->is_free,
                                        .units = check_evidence_units(&check->evidence)}};
    snprintf(order.run.reference, sizeof(order.run.reference), "%s", check->reference);
    snprintf(order.run.calls, sizeof(order.run.calls), "%s/calls", check->place.folder);
    return order;
}

struct check_order
session_order_ranks(const struct check *check, const char *name, const char *title)
{
    struct check_order order = session_order(check, name, title, CHECK_COMPARES);
    order.ranks = check->in_cluster ? 0 : check->ranks;
    order.run.answers_one = false;
    order.turns = 0;
    order.ahead = check->ahead;
    order.arguments = check->options->program;
    return order;
}

bool
session_explain(const struct check *check, const struct check_order *order, const struct check_outcome *outcome,
                const struct check_row *stop, bool any_step, struct error *error)
{
    int code = outcome->exit_code;
    if (outcome->program_failed && outcome->signal == 0 && stop == NULL)
        check_run_show(&check->place, order);
    if (outcome->signal != 0)
        return error_set(error, 128 + outcome->signal, "check ended by signal %d, in the run of %s", outcome->signal,
                         order->title);
    if (stop != NULL && stop->value == CHECK_EXIT_NOT_COMPARABLE)
        return error_set(error, CHECK_EXIT_NOT_COMPARABLE, "%.1000s", stop->text);
    if (stop != NULL)
        return error_set(error, DDPRUN_EXIT_USAGE, "%.1000s (in the run of %s)", stop->text, order->title);
    if (outcome->late)
        return error_set(error, DDPRUN_EXIT_USAGE,
                         "the run of %s has not reached %s DDP_STEP in %u s; annotate the program (man ddprun.h), or "
                         "raise --timeout",
                         order->title, any_step ? "its next" : "a", check->place.step_limit_s);
    if (!outcome->program_failed && outcome->reason[0] == '\0')
        return error_set(error, DDPRUN_EXIT_USAGE,
                         "in %.300s is no report of the run of %s; make room there, or set TMPDIR", check->folder.path,
                         order->title);
    if (!outcome->program_failed)
        return error_set(error, code == DDPRUN_EXIT_NOT_RUN ? code : DDPRUN_EXIT_USAGE, "%s", outcome->reason);
    bool ours = code == DDPRUN_EXIT_FAILURE || code == CHECK_EXIT_NOT_COMPARABLE;
    return error_set(error, ours ? CHECK_EXIT_PROGRAM_FAILED : code,
                     "the program failed by itself, with exit code %d, in the run of %s: %.900s", code, order->title,
                     outcome->reason[0] != '\0' ? outcome->reason : "no reason is known");
}

bool
session_start(struct check *check, const struct check_order *order, struct check_outcome *outcome, struct error *error)
{
    ++check->runs_made;
    const bool is_planned = check->runs_made <= check->runs_planned;
    const bool is_told = !check->options->quiet && check->cluster_rank == 0;
    OWNED char *number =
        is_planned ? xasprintf("run %d of %d", check->runs_made, check->runs_planned) : xstrdup("a further run");
    if (is_told && !order->untold)
        message_line("check: %s: %s", number, order->title);
    struct check_order numbered = *order;
    /* With --verbose, ranks write to the same terminal. */
    numbered.number = is_told && !check->options->verbose ? number : NULL;
    return check_run_make(&check->place, &numbered, outcome, error);
}

/* A run of one rank, of its rank 0 if it has several, to its end, whose rows are appended. */
static bool
run_alone(struct check *check, const struct check_order *order, struct check_rows *rows, struct error *error)
{
    struct check_outcome outcome;
    if (!session_start(check, order, &outcome, error))
        return false;
    size_t before = rows->count;
    check_rows_append(rows, outcome.results, 0);
    const struct check_rows mine = {rows->rows + before, rows->count - before};
    const struct check_row *end = check_rows_find(&mine, CHECK_ROW_END);
    bool any_step = check_rows_find(&mine, CHECK_ROW_STEP) != NULL;
    /* What comes after the last step, a script's next command for instance, does not count. */
    bool is_first = order->run.mode == CHECK_WRITES;
    unsigned wanted = is_first ? 1 : order->run.steps;
    bool complete = end != NULL && end->step >= wanted;
    bool ok = (outcome.exit_code == 0 || complete) && outcome.signal == 0;
    if (!ok) {
        (void)session_explain(check, order, &outcome, check_rows_find(&mine, CHECK_ROW_STOPPED), any_step, error);
    } else if (!any_step) {
        ok = error_set(error, DDPRUN_EXIT_USAGE,
                       check->evidence.by_plan
                           ? "the program ended before a round of its plan; let it make more steps"
                           : "the program ended without a DDP_STEP: there is nothing to compare; call DDP_STEP between "
                             "backward and the update, and see ddprun scout for annotations");
    } else if (!complete) {
        ok = error_set(error, DDPRUN_EXIT_USAGE,
                       "the program made %u %s%s in the run of %s, and %u are to be compared; let it make more steps, "
                       "or check fewer with --steps",
                       end != NULL ? end->step : 0, check->evidence.by_plan ? "round" : "step",
                       end != NULL && end->step == 1 ? "" : "s", order->title, order->run.steps);
    } else if (is_first) {
        if (!order->run.chooses_steps && end->step < check->steps)
            message_line("check: --steps asks for %u steps, and the program ends after %u: these are compared",
                         check->steps, end->step);
        check->steps = check->evidence.steps = end->step;
    }
    free(outcome.results);
    return ok;
}

/* ---- runs behind the first ---- */

static const struct {
    const char *name, *what;
    size_t rows; /* where they are in struct check_evidence */
} runs[SESSION_RUNS] = {
    [SESSION_AGAIN] = {"again", "a second time", offsetof(struct check_evidence, again)},
    [SESSION_PERTURBED] = {"perturbed", "with parameters changed by one unit in the last place",
                           offsetof(struct check_evidence, perturbed)},
    [SESSION_BLIND] = {.rows = offsetof(struct check_evidence, blind)},
    [SESSION_ALONE] = {.rows = offsetof(struct check_evidence, alone)},
    [SESSION_PROBE] = {"probe", "with changes to unannotated memory", offsetof(struct check_evidence, probe)},
    [SESSION_SCALED] = {"scaled", "with other results of DDP_REDUCE in the first round",
                        offsetof(struct check_evidence, scaled)},
    [SESSION_FAR] = {"far", "with very different parameters", offsetof(struct check_evidence, far)},
    [SESSION_NUDGED] = {"nudged", "with parameters and data of each step changed by one unit in the last place",
                        offsetof(struct check_evidence, nudged)},
};

struct check_rows *
session_rows(struct check *check, enum session_run which)
{
    return (struct check_rows *)((char *)&check->evidence + runs[which].rows);
}

bool
session_run(struct check *check, enum session_run which, double factor, struct error *error)
{
    struct check_evidence *evidence = &check->evidence;
    bool scales = which == SESSION_SCALED && !check_evidence_in_rounds(evidence), is_far = which == SESSION_FAR,
         is_nudged = which == SESSION_NUDGED, is_perturbed = which == SESSION_PERTURBED;
    OWNED char *title = scales ? xasprintf("one process, with %.4g times the gradients", factor)
                               : xasprintf("one process, %s", runs[which].what);
    OWNED char *name = xasprintf("%s-%u", runs[which].name, evidence->nudged_runs += is_nudged);
    struct check_order order = session_order(check, name, title, CHECK_COMPARES);
    order.run.perturbed = is_perturbed || is_far || is_nudged;
    order.run.forced = order.run.forced && !is_perturbed && !is_far;
    order.run.is_far = is_far;
    order.run.nudge = is_nudged ? evidence->nudged_runs : 0;
    order.run.factor = factor;
    order.run.probes = which == SESSION_PROBE;
    order.untold = is_nudged && evidence->nudged_runs > 1;
    return run_alone(check, &order, session_rows(check, which), error);
}

bool
session_run_floor(struct check *check, struct error *error)
{
    return session_run(check, SESSION_AGAIN, 0, error) && session_run(check, SESSION_PERTURBED, 0, error);
}

/* ---- the reference ---- */

/* Adds to the file of the reference what the two other runs have found, and puts it in its place. False, with the
 * error: it cannot be written. */
static bool
keep_reference(struct check *check, const char *final, struct error *error)
{
    struct reference_writer writer;
    struct reference_key end = {
        .kind = REFERENCE_END, .step = check->steps, .number = check_evidence_in_rounds(&check->evidence)};
    bool ok = reference_extend(check->reference, &writer);
    for (uint32_t number = 0; number < SESSION_KEPT && ok; ++number) {
        const struct reference_key key = {.kind = REFERENCE_FLOOR, .number = number};
        const struct check_rows *rows = session_rows(check, number);
        ok = reference_put(&writer, &key, rows->rows, rows->count * sizeof(*rows->rows));
    }
    ok = ok && reference_put(&writer, &end, "", 0);
    ok = reference_close(&writer) && ok && rename(check->reference, final) == 0;
    return ok || error_set(error, DDPRUN_EXIT_FAILURE, "cannot write %s, in --reference: %s; make room there",
                           check_options.reference, strerror(errno));
}

/* False: it is damaged. */
static bool
load_floor(struct reference_reader *reader, uint32_t number, struct check_rows *rows)
{
    struct reference_key key = {.kind = REFERENCE_FLOOR, .number = number};
    const struct reference_entry *entry = reference_find(reader, &key);
    if (entry == NULL || entry->record.bytes % sizeof(*rows->rows) != 0)
        return entry == NULL;
    rows->rows = xcalloc(entry->record.bytes / sizeof(*rows->rows) + 1, sizeof(*rows->rows));
    rows->count = entry->record.bytes / sizeof(*rows->rows);
    return reference_get(reader, entry, rows->rows, entry->record.bytes);
}

bool
session_load_reference(struct check *check, struct error *error)
{
    struct reference_reader reader;
    const char *why;
    if (!reference_open(check->reference, &reader, &why))
        return error_set(error, DDPRUN_EXIT_USAGE, "cannot use %s, in --reference: %s", check->reference, why);
    bool ok = true;
    for (uint32_t number = 0; number < SESSION_KEPT && ok; ++number)
        ok = load_floor(&reader, number, session_rows(check, number));
    reference_free(&reader);
    const struct check_row *date = check_rows_find(&check->evidence.alone, CHECK_ROW_DATE);
    if (ok && date != NULL)
        check->place.date_us = (int64_t)date->value;
    return ok || error_set(error, DDPRUN_EXIT_USAGE, "cannot use %s, in --reference: it is damaged; write it again",
                           check->reference);
}

/* The rows of the run that writes the reference begin with the date. */
static void
begin_rows(struct check *check)
{
    struct check_rows *rows = &check->evidence.alone;
    check_rows_free(rows);
    *rows = (struct check_rows){xcalloc(1, sizeof(struct check_row)), 1};
    rows->rows[0] = (struct check_row){.kind = CHECK_ROW_DATE, .value = (uint64_t)check->place.date_us};
}

/* The program asks for DDP_WORLD_SIZE() before the first batch of its turns (to choose a learning rate, say), when one
 * process could not know of turns: the reference is written once more, by a process that knows. */
static bool
know_turns(struct check *check, const struct check_order *first, struct error *error)
{
    if (check_rows_find(&check->evidence.alone, CHECK_ROW_ASKED_EARLY) == NULL)
        return true;
    check->knows_turns = true;
    ++check->runs_planned;
    struct check_order again = *first;
    again.name = "one-knows"; /* the program does not see the files of the first attempt */
    again.title = "one process, which knows that the program has turns";
    again.run.knows_turns = true;
    begin_rows(check);
    return run_alone(check, &again, &check->evidence.alone, error);
}

bool
session_make_reference(struct check *check, struct error *error)
{
    char *final = check->reference;
    bool kept = check_options.reference != NULL;
    if (kept)
        check->reference = xasprintf("%s.%d.new", final, (int)getpid());
    const char *title = check->evidence.by_plan ? "one process with all turns" : "one process";
    struct check_order first = session_order(check, "one", title, CHECK_WRITES);
    first.run.chooses_steps = check->chooses_steps;
    begin_rows(check);
    bool ok = run_alone(check, &first, &check->evidence.alone, error) && know_turns(check, &first, error);
    if (check->evidence.by_plan) /* the others are made where bits differ */
        return ok;
    check->floor_waits = ok && floor_may_wait(check);
    if (check->floor_waits)
        return true;
    check->runs_planned += kept ? 0 : 2;
    ok = ok && session_run_floor(check, error) &&
         (!kept || (check_evidence_in_rounds(&check->evidence)
                        ? session_run(check, SESSION_SCALED, 2, error)
                        : session_run(check, SESSION_PROBE, 0, error) && session_run(check, SESSION_FAR, 0, error)));
    if (kept) {
        ok = ok && keep_reference(check, final, error);
        if (!ok)
            unlink(check->reference);
        free(check->reference);
        check->reference = final;
    }
    return ok;
}
