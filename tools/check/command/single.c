/*
 * single.c - the runs of one rank: the reference, what repeating it and rounding make of it, and those that tell causes
 * apart (session.h).
 */
#include "tools/check/command/session.h"

#include "base/message.h"
#include "base/protocol.h"
#include "launcher/common/xcalloc.h"
#include "launcher/start/environment.h"
#include "tools/check/command/check.h"
#include "tools/check/format/reference.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- a run, and why it may end the check ---- */

struct check_order
session_order(const struct check *check, const char *name, const char *title, enum check_mode mode)
{
    struct check_order order = {.name = name,
                                .title = title,
                                .ranks = check->evidence.grows ? check->ranks : 1,
                                .arguments = check->alone,
                                .turns = check->evidence.by_plan ? check->ranks : 0,
                                .run = {.mode = mode,
                                        .steps = check->steps,
                                        .sample = check_options.sample,
                                        .forced = !check->is_free,
                                        .by_plan = check->evidence.by_plan}};
    snprintf(order.run.reference, sizeof(order.run.reference), "%s", check->reference);
    return order;
}

/* A run that did not reach its end. `all`: rows of its ranks. False always. */
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
    if (stop != NULL)
        return error_set(error, DDPRUN_EXIT_USAGE, "%.1000s (in the run of %s)", stop->text, order->title);
    if (outcome->late)
        return error_set(error, DDPRUN_EXIT_USAGE,
                         "the run of %s has not reached %s DDP_STEP in %u s; annotate the program (man "
                         "ddprun.h), or raise --timeout",
                         order->title, any_step ? "its next" : "a", check->place.step_limit_s);
    if (!outcome->program_failed)
        return error_set(error, code == DDPRUN_EXIT_NOT_RUN ? code : DDPRUN_EXIT_USAGE, "%s",
                         outcome->reason[0] != '\0' ? outcome->reason : "a run of the check could not be made");
    bool ours = code == DDPRUN_EXIT_FAILURE || code == CHECK_EXIT_NOT_COMPARABLE;
    return error_set(error, ours ? CHECK_EXIT_PROGRAM_FAILED : code,
                     "the run of %s failed by itself, with exit code %d: %.900s", order->title, code,
                     outcome->reason[0] != '\0' ? outcome->reason : "no reason is known");
}

bool
session_start(struct check *check, const struct check_order *order, struct check_outcome *outcome, struct error *error)
{
    ++check->runs_made;
    bool told = !check->options->quiet && check->cluster_rank == 0 && !order->untold;
    if (told && check->runs_made <= check->runs_planned)
        message_line("check: run %d of %d: %s", check->runs_made, check->runs_planned, order->title);
    else if (told)
        message_line("check: a further run: %s", order->title);
    return check_run_make(&check->place, order, outcome, error);
}

void
session_free_outcome(struct check_outcome *outcome)
{
    free(outcome->results);
    outcome->results = NULL;
}

bool
session_run_alone(struct check *check, const struct check_order *order, struct check_rows *rows, struct error *error)
{
    struct check_outcome outcome;
    if (!session_start(check, order, &outcome, error))
        return false;
    size_t before = rows->count;
    check_rows_append(rows, outcome.results, 0);
    const struct check_rows mine = {rows->rows + before, rows->count - before};
    const struct check_row *end = check_rows_find(&mine, CHECK_ROW_END), *row = NULL;
    bool any_step = check_rows_find(&mine, CHECK_ROW_STEP) != NULL;
    /* What comes after the last step, a script's next command for instance, does not count. */
    unsigned wanted = order->run.chooses_steps ? 1 : order->run.steps;
    bool complete = end != NULL && end->step >= wanted;
    bool ok = (outcome.exit_code == 0 || complete) && outcome.signal == 0;
    if (!ok) {
        (void)session_explain(check, order, &outcome, check_rows_find(&mine, CHECK_ROW_STOPPED), any_step, error);
    } else if (!any_step) {
        size_t gradients = 0;
        for (; (row = check_rows_next(&mine, CHECK_ROW_UNSTEPPED, row)) != NULL; ++gradients) {
        }
        ok = check->evidence.by_plan ? error_set(error, DDPRUN_EXIT_USAGE,
                                                 "the program ended without a round of its plan; give it more to do")
             : gradients > 0
                 ? error_set(
                       error, DDPRUN_EXIT_USAGE,
                       "the program ended without a DDP_STEP: there is nothing to compare; %zu gradient%s annotated: "
                       "call DDP_STEP between backward and the update",
                       gradients, gradients == 1 ? " is" : "s are")
                 : error_set(error, DDPRUN_EXIT_USAGE,
                             "the program ended without a DDP_STEP: there is nothing to compare, for no gradient is "
                             "annotated, and what DDP_REDUCE finds is compared by itself only where one rank calls it, "
                             "too; annotate the program (man ddprun.h), or look for a problem with ddprun doctor");
    } else if (!complete) {
        ok = error_set(error, DDPRUN_EXIT_USAGE,
                       "the program made %u %s%s in the run of %s, and %u are to be compared; give it more to do, or "
                       "check fewer with --steps",
                       end != NULL ? end->step : 0, check->evidence.by_plan ? "round" : "step",
                       end != NULL && end->step == 1 ? "" : "s", order->title, order->run.steps);
    } else if (order->run.chooses_steps) {
        check->steps = check->evidence.steps = end->step;
    }
    session_free_outcome(&outcome);
    return ok;
}

/* ---- the reference ---- */

static bool
save_floor(struct reference_writer *writer, const struct check_rows *rows, uint32_t number)
{
    struct reference_key key = {.kind = REFERENCE_FLOOR, .number = number};
    return reference_put(writer, &key, rows->rows, rows->count * sizeof(*rows->rows));
}

/* Adds to the file what the two other runs have found, and puts it in its place. */
static bool
keep_reference(struct check *check, const char *unfinished, struct error *error)
{
    struct reference_writer writer;
    struct reference_key end = {
        .kind = REFERENCE_END, .step = check->steps, .number = check_evidence_in_rounds(&check->evidence)};
    bool ok = reference_extend(unfinished, &writer) && save_floor(&writer, &check->evidence.again, 0) &&
              save_floor(&writer, &check->evidence.perturbed, 1) && save_floor(&writer, &check->evidence.alone, 2) &&
              save_floor(&writer, &check->evidence.probe, 3) && save_floor(&writer, &check->evidence.scaled, 4) &&
              save_floor(&writer, &check->evidence.far, 5) && reference_put(&writer, &end, "", 0);
    ok = reference_close(&writer) && ok && rename(unfinished, check->reference) == 0;
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
    bool ok = load_floor(&reader, 0, &check->evidence.again) && load_floor(&reader, 1, &check->evidence.perturbed) &&
              load_floor(&reader, 2, &check->evidence.alone) && load_floor(&reader, 3, &check->evidence.probe) &&
              load_floor(&reader, 4, &check->evidence.scaled) && load_floor(&reader, 5, &check->evidence.far);
    reference_free(&reader);
    const struct check_row *date = check_rows_find(&check->evidence.alone, CHECK_ROW_DATE);
    if (ok && date != NULL)
        check->place.date_us = (int64_t)date->value;
    return ok || error_set(error, DDPRUN_EXIT_USAGE, "cannot use %s, in --reference: it is damaged; write it again",
                           check->reference);
}

/* The three runs of one rank. */
bool
session_make_reference(struct check *check, struct error *error)
{
    char *scouted = check_options.scout ? scouted_write(check, error) : NULL;
    if (check_options.scout && scouted == NULL)
        return false;
    char *final = check->reference;
    bool kept = check_options.reference != NULL;
    if (kept)
        check->reference = xasprintf("%s.%d.new", final, (int)getpid());
    const char *title = check->evidence.by_plan ? "one process that plays all turns" : "one rank";
    struct check_order first = session_order(check, "one", title, CHECK_WRITES);
    snprintf(first.run.scouted, sizeof(first.run.scouted), "%s", scouted != NULL ? scouted : "");
    free(scouted);
    first.run.chooses_steps = check->chooses_steps;
    check->evidence.alone = (struct check_rows){xcalloc(1, sizeof(struct check_row)), 1};
    check->evidence.alone.rows[0] = (struct check_row){.kind = CHECK_ROW_DATE, .value = (uint64_t)check->place.date_us};
    bool ok = session_run_alone(check, &first, &check->evidence.alone, error);
    if (check->evidence.by_plan) /* the others are made where bits differ */
        return ok;
    struct check_order again = session_order(check, "again", "one rank, once more", CHECK_COMPARES);
    struct check_order perturbed =
        session_order(check, "perturbed", "one rank, from a start one unit in the last place away", CHECK_COMPARES);
    perturbed.run.perturbed = true;
    perturbed.run.forced = false;
    ok = ok && session_run_alone(check, &again, &check->evidence.again, error) &&
         session_run_alone(check, &perturbed, &check->evidence.perturbed, error) &&
         (!kept || (check_evidence_in_rounds(&check->evidence)
                        ? session_run_scaled(check, 2, error)
                        : session_run_probe(check, &(struct check_wishes){.probed_count = 0}, error) &&
                              session_run_far(check, error)));
    if (kept) {
        char *unfinished = check->reference;
        check->reference = final;
        ok = ok && keep_reference(check, unfinished, error);
        if (!ok)
            unlink(unfinished);
        free(unfinished);
    }
    return ok;
}

/* ---- further runs ---- */

/* One rank gets each rank's share in turn, a process for each. */
bool
session_run_turns(struct check *check, uint32_t step, struct error *error)
{
    int count = check->ranks;
    char **files = xcalloc((size_t)count + 1, sizeof(*files));
    bool ok = true;
    for (int r = 0; r < count && ok; ++r) {
        struct check_rows rows = {0};
        char *name = xasprintf("turn-%d", r);
        struct check_order order =
            session_order(check, name, "one rank, with the share of each rank in turn", CHECK_COMPARES);
        order.untold = r > 0;
        files[r] = xasprintf("%s/%s", check->folder.path, name);
        snprintf(order.run.own, sizeof(order.run.own), "%s", files[r]);
        order.run.turn = (uint32_t)r;
        order.run.turn_count = (uint32_t)count;
        order.run.steps = step;
        ok = session_run_alone(check, &order, &rows, error);
        check_rows_free(&rows);
        free(name);
    }
    if (ok && !turns_compare(check->reference, files, count, check->evidence.sums, step, &check->evidence.turns))
        ok = error_set(error, DDPRUN_EXIT_FAILURE,
                       "what one rank computed from each share cannot be read; make room, or set "
                       "TMPDIR");
    words_free(files);
    return ok;
}

bool
session_run_scaled(struct check *check, double factor, struct error *error)
{
    char *title = check_evidence_in_rounds(&check->evidence)
                      ? xstrdup("one rank, with other results of DDP_REDUCE in the first round")
                      : xasprintf("one rank, with %.4g times the gradients", factor);
    struct check_order order = session_order(check, "scaled", title, CHECK_COMPARES);
    order.run.factor = factor;
    bool ok = session_run_alone(check, &order, &check->evidence.scaled, error);
    free(title);
    return ok;
}

bool
session_run_far(struct check *check, struct error *error)
{
    struct check_order order = session_order(check, "far", "one rank, with quite other parameters", CHECK_COMPARES);
    order.run.perturbed = order.run.is_far = true;
    order.run.forced = false;
    return session_run_alone(check, &order, &check->evidence.far, error);
}

bool
session_run_nudged(struct check *check, struct error *error)
{
    char *name = xasprintf("nudged-%u", ++check->evidence.nudged_runs);
    struct check_order order =
        session_order(check, name, "one rank, each step and its data one unit in the last place away", CHECK_COMPARES);
    order.run.perturbed = true;
    order.run.nudge = check->evidence.nudged_runs;
    bool ok = session_run_alone(check, &order, &check->evidence.nudged, error);
    free(name);
    return ok;
}

bool
session_run_later(struct check *check, struct error *error)
{
    struct check_order order =
        session_order(check, "later", "one rank, with another date and other random bytes", CHECK_COMPARES);
    order.later = true;
    return session_run_alone(check, &order, &check->evidence.later, error);
}

bool
session_run_probe(struct check *check, const struct check_wishes *wishes, struct error *error)
{
    struct check_order order =
        session_order(check, "probe", "one rank, with changes to unannotated memory", CHECK_COMPARES);
    order.run.probes = true;
    order.run.probed_count = wishes->probed_count;
    memcpy(order.run.probed, wishes->probed, sizeof(order.run.probed));
    return session_run_alone(check, &order, &check->evidence.probe, error);
}
