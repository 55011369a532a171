/*
 * check.c - `ddprun check`: which runs there are, in which order, and what becomes of what they find (check.h).
 *
 * Two runs: one rank, which writes the reference; N ranks, each with a date of its own. Where these are not equal, one
 * rank again, and from a start one unit in the last place away (floor.c); then at most three more, and two with other
 * dates if the program reads the date. With --reference FILE they may be two commands; the first then makes all runs of
 * one rank, and also finds out which unannotated memory lasts. If one process does not repeat itself, and reads the
 * date, all are made once more, with a date that stands still.
 */
#include "tools/check/command/check.h"

#include "base/clock.h"
#include "launcher/options/option_table.h"
#include "launcher/output/whole_file.h"
#include "launcher/start/environment.h"
#include "launcher/start/spawn.h"
#include "tools/check/command/place_question.h"
#include "tools/check/command/session.h"
#include "tools/check/unannotated/unannotated.h"
#include "tools/common/each.h"
#include "tools/common/inner_run.h"
#include "tools/common/owned.h"
#include "tools/common/tool_options.h"

#include <math.h>

enum { MOST_EXTRA_RUNS = 2 + CHECK_REPEATS };

/* ---- the ranks ---- */

/* Whether all ranks can be started, as far as their ddprun can say: before one rank has run in vain. */
static bool
rehearse_program(struct check *check, struct error *error)
{
    struct check_order order = session_order_ranks(check, "rehearsal", "all ranks");
    struct check_outcome outcome;
    order.dry = true;
    if (check->in_cluster || check->only_writes)
        return true;
    if (!check_run_make(&check->place, &order, &outcome, error))
        return false;
    bool ok =
        (outcome.exit_code == 0 && outcome.signal == 0) || session_explain(check, &order, &outcome, NULL, false, error);
    free(outcome.results);
    return ok;
}

/* Frees the rows of all ranks of a run; NULL is none. */
static void
free_ranked(struct check_rows **ranked, int count)
{
    for (int r = 0; *ranked != NULL && r < count; ++r)
        check_rows_free(&(*ranked)[r]);
    free(*ranked);
    *ranked = NULL;
}

static void
free_repeats(struct check_evidence *evidence)
{
    for (int i = 0; i < CHECK_REPEATS; ++i)
        free_ranked(&evidence->repeats[i], evidence->ranks);
}

/* ---- the run that is judged ---- */

static bool
run_and_look(struct check *check, struct check_order *order, struct error *error)
{
    order->lists_files = !check->evidence.by_plan; /* a rank above 0 has a folder of its own by plan */
    OWNED char *files = check_run_files(&check->place, order);
    check->ranked_name = order->name;
    bool ok = session_run_ranks(check, order, &check->evidence.ranked, &check->evidence.ranks, error);
    if (files != NULL && ok)
        check->evidence.written = written_find(files, check->evidence.ranks);
    if (files != NULL)
        job_folder_clear(files); /* it may be as large as what the program saves */
    return ok;
}

static bool
run_judged_again(struct check *check, struct error *error)
{
    struct check_evidence *evidence = &check->evidence;
    OWNED char *title = xasprintf("%d ranks", check->ranks);
    struct check_order order = session_order_ranks(check, "ranks-again", title);
    free_ranked(&evidence->ranked, evidence->ranks);
    written_free(&evidence->written);
    evidence->stopped[0] = '\0';
    check->has_failed = false;
    return run_and_look(check, &order, error);
}

/* The runs that have waited. One process that does not repeat the bits of its updates shows that ranks need not,
 * either: they run once more, and compare updates by that. */
static bool
run_floor(struct check *check, struct error *error)
{
    const double units = check_evidence_units(&check->evidence);
    check->floor_waits = false;
    if (!session_run_floor(check, error))
        return false;
    return check_evidence_units(&check->evidence) == units || run_judged_again(check, error);
}

/* The ranks that are judged. A program that tests its own results may find them wrong where they are the reference's;
 * then its steps begin from its own. */
static bool
run_judged(struct check *check, struct check_order *order, struct error *error)
{
    if (run_and_look(check, order, error))
        return true;
    if (!check->fails_forced || check->in_cluster)
        return false;
    if (check->floor_waits && !session_run_floor(check, error))
        return false;
    check->floor_waits = false;
    message_line("check: the program fails if its steps begin from the reference; it runs once more, as with --free");
    free_ranked(&check->evidence.ranked, check->evidence.ranks);
    check->evidence.forced = order->run.forced = false;
    order->run.units = check_evidence_units(&check->evidence);
    order->name = "free"; /* the program does not see the files of the first attempt */
    check->is_free = true;
    return run_and_look(check, order, error);
}

/* ---- further runs ---- */

/* Runs all ranks once more, `plain`: without overlap, into *rows. False, with the error: the run failed. */
static bool
run_ranks_again(struct check *check, const char *name, bool plain, struct check_rows **rows, struct error *error)
{
    OWNED char *title = xasprintf("%d ranks %s", check->ranks, plain ? "without overlap" : "once more");
    struct check_order order = session_order_ranks(check, name, title);
    order.plain = plain;
    int count;
    return session_run_ranks(check, &order, rows, &count, error);
}

/* Where the next run that repeats the one that is checked belongs; NULL: there are enough. */
static struct check_rows **
next_repeat(struct check *check)
{
    struct check_rows **repeats = check->evidence.repeats;
    for (int i = 0; i < CHECK_REPEATS; ++i) {
        if (repeats[i] == NULL)
            return &repeats[i];
    }
    return NULL;
}

/* The further run that the verdict asks for first; false: none. */
static bool
run_more(struct check *check, const struct check_wishes *wishes, bool *ok, struct error *error)
{
    struct check_rows **repeat = wishes->again && !check->in_cluster ? next_repeat(check) : NULL;
    if (repeat != NULL) {
        *ok = run_ranks_again(check, "twice", check->is_plain, repeat, error);
        return true;
    }
    /* No run of one rank can be made like the others, or the others divide batches. */
    if (check->in_cluster || check->has_reference || (check->evidence.by_plan && !wishes->plain))
        return false;
    const struct check_evidence *evidence = &check->evidence;
    if (wishes->far && evidence->far.count == 0)
        *ok = session_run(check, SESSION_FAR, 0, error);
    else if (wishes->factor > 0 && evidence->scaled.count == 0)
        *ok = session_run(check, SESSION_SCALED, wishes->factor, error);
    else if (wishes->probe && evidence->probe.count == 0)
        *ok = session_run(check, SESSION_PROBE, 0, error);
    else if (wishes->nudged)
        *ok = session_run(check, SESSION_NUDGED, 0, error);
    else if (wishes->plain && check->evidence.plain == NULL)
        *ok = run_ranks_again(check, "plain", true, &check->evidence.plain, error);
    else
        return false;
    return true;
}

/* ---- the verdict ---- */

/* The search may take twice as long as all runs before it, and some seconds for annotations. */
static char *
find_unannotated(const struct check *check, const struct check_verdict *verdict)
{
    enum { TIMES = 2, LEAST_S = 5 };
    const int64_t took_s = (clock_now_ms() - check->place.begin_ms) / 1000;
    const struct unannotated_search search = {.options = check->options,
                                              .program = check->alone,
                                              .folder = check->folder.path,
                                              .old_mask = check->place.old_mask,
                                              .limit_s = TIMES * (unsigned)took_s + LEAST_S,
                                              .can_run = !check->in_cluster && !check->has_reference};
    return unannotated_find(&search, &check->evidence, verdict->facts);
}

/* Prints the verdict, its notes and its table, and writes --json. Returns the exit code of ddprun check. */
static int
show_verdict(const struct check *check, const struct check_verdict *verdict)
{
    static const int codes[] = {
        [CHECK_EQUAL] = 0, [CHECK_DIFFERENT] = DDPRUN_EXIT_FAILURE, [CHECK_NOT_COMPARABLE] = CHECK_EXIT_NOT_COMPARABLE};
    int code = codes[verdict->result];
    const char *json = check_options.json;
    check_print_verdict(stdout, &check->evidence, verdict, !check->in_cluster && tool_wants_colour());
    by_plan_print(stdout, check, verdict);
    printed_show(stdout, check, verdict);
    fflush(stdout); /* scouting takes seconds */
    OWNED char *annotations =
        verdict->result == CHECK_EQUAL && !check->evidence.by_plan ? find_unannotated(check, verdict) : NULL;
    fputs(annotations != NULL ? annotations : "", stdout);
    if (annotations != NULL && strstr(annotations, "missing: ") != NULL)
        puts("what to do: annotate what is missing, or move DDP_STEP, and check again: steps that were not compared "
             "may differ");
    else if (verdict->result == CHECK_EQUAL && !check->options->quiet)
        printf("next: ddprun -n N %s%s%s%s%s\n", check->evidence.by_plan ? "--plan " : "",
               check->evidence.by_plan ? check->options->plan : "", check->evidence.by_plan ? " " : "",
               check->options->program[0], check->options->program[1] != NULL ? " ..." : "");
    if (!check->options->quiet)
        check_print_table(stdout, &check->evidence, verdict, check->options->verbose);
    bool printed = close_stdout(stdout) == 0;
    bool written = !printed || json == NULL || check_write_json(json, &check->evidence, verdict, annotations, code);
    if (!written)
        message_line("cannot write %s, in --json: %s; the verdict is printed above", json, file_why(errno));
    return (printed && written) || code != 0 ? code : DDPRUN_EXIT_USAGE;
}

/* From all runs so far. */
static void
judge(struct check *check, struct check_verdict *verdict, struct check_wishes *wishes)
{
    struct check_facts *facts = &check->facts;
    check_facts_free(facts);
    check_facts_find(&check->evidence, facts);
    if (facts->carried.frames != NULL)
        (void)place_name(facts->carried.frames, facts->carried.place, sizeof(facts->carried.place));
    verdict_judge(facts, verdict);
    verdict_wish(facts, verdict, wishes);
}

/* The verdict of a plan that the proofs refuse: no other run is made. */
static int
show_refused(struct check *check)
{
    struct check_verdict verdict;
    struct check_wishes wishes;
    judge(check, &verdict, &wishes);
    return show_verdict(check, &verdict);
}

/* The run that may make the verdict equal by itself: whether the update sees a factor of all gradients, and whether
 * what the host copies depends on the parameters. SESSION_RUNS: there is none. */
static enum session_run
find_deciding(const struct check_verdict *verdict, const struct check_wishes *wishes)
{
    if (verdict->cause == CAUSE_SCALE && wishes->factor > 0)
        return SESSION_SCALED;
    if (verdict->cause == CAUSE_CARRIED && wishes->far)
        return SESSION_FAR;
    return SESSION_RUNS;
}

/* Makes the runs that have waited, if the verdict needs them. */
static bool
settle_floor(struct check *check, struct check_verdict *verdict, struct check_wishes *wishes, struct error *error)
{
    const enum session_run deciding = find_deciding(verdict, wishes);
    if (deciding != SESSION_RUNS) {
        const double factor = deciding == SESSION_SCALED ? wishes->factor : 0;
        const bool is_made = session_run(check, deciding, factor, error);
        if (!is_made && error->exit_code > 128) /* a signal asked for the end */
            return false;
        if (is_made)
            judge(check, verdict, wishes);
        else
            check_rows_free(session_rows(check, deciding)); /* as if it had not been tried */
    }
    if (!floor_is_needed(check, verdict))
        return true;
    if (!run_floor(check, error))
        return false;
    judge(check, verdict, wishes);
    return true;
}

/* The verdict on the runs so far; as long as it wishes for further ones, these are made and judged, too. False: a
 * signal ended check. */
static bool
judge_runs(struct check *check, struct check_verdict *verdict, struct error *error)
{
    struct check_wishes wishes;
    bool ok = true;
    readings_describe(&check->evidence);
    judge(check, verdict, &wishes);
    if (check->floor_waits && !settle_floor(check, verdict, &wishes, error))
        return false;
    for (unsigned others = 0, nudged = 0;
         (others < MOST_EXTRA_RUNS || wishes.nudged) && run_more(check, &wishes, &ok, error);
         others += check->evidence.nudged_runs == nudged, nudged = check->evidence.nudged_runs) {
        if (!ok && error->exit_code > 128) /* a signal asked for the end */
            return false;
        if (!ok) { /* what is known without it stands */
            message_line("%s; the verdict is given without this run", error->text);
            return true;
        }
        judge(check, verdict, &wishes);
    }
    return true;
}

/* ---- dates ---- */

/* A run of the ranks with dates of the order, `ahead`: its rows, or NULL where there is none. */
static bool
run_dated(struct check *check, int ahead, struct check_rows **rows, struct error *error)
{
    struct check_order order = session_order_ranks(check, ahead == 0 ? "dated" : "behind",
                                                   ahead == 0 ? "all ranks, with one date and the same random bytes"
                                                              : "all ranks, with dates in reverse order");
    int count = 0;
    order.ahead = ahead;
    order.plain = check->is_plain;
    *rows = NULL;
    bool made = session_run_ranks(check, &order, rows, &count, error);
    if (!made)
        free_ranked(rows, count);
    return made || error->exit_code <= 128; /* a signal asked for the end */
}

static bool
is_right(const struct check *check, struct check_rows *rows)
{
    return rows != NULL && check_facts_are_right(&check->evidence, rows);
}

/* The rows are judged from now on, which are of ranks with such dates. */
static bool
judge_instead(struct check *check, struct check_rows *rows, int ahead, struct check_verdict *verdict,
              struct error *error)
{
    struct check_evidence *evidence = &check->evidence;
    free_ranked(&evidence->ranked, evidence->ranks);
    free_ranked(&evidence->plain, evidence->ranks);
    free_repeats(evidence);
    evidence->ranked = rows;
    check->ahead = ahead;
    return judge_runs(check, verdict, error);
}

/* Whether with one date another tensor differs first, or in another step: then dates explain what differed first,
 * and not that. */
static bool
differs_otherwise(const struct check *check, const struct check_verdict *verdict, struct check_rows *same)
{
    struct check_evidence evidence = check->evidence;
    struct check_facts facts;
    evidence.ranked = same;
    check_facts_find(&evidence, &facts);
    const struct check_item *now = facts.first.item, *then = verdict->first;
    bool is_other = now != NULL && then != NULL &&
                    (!check_same_tensor(&now->tensor, &then->tensor) || now->made_in_step != then->made_in_step);
    check_facts_free(&facts);
    return is_other;
}

/* Ranks that agree on the highest date have another one than one process; not if rank 0's is the highest. */
static bool
judge_reverse(struct check *check, struct check_verdict *verdict, struct error *error)
{
    struct check_rows *reverse = NULL;
    bool ok = run_dated(check, -1, &reverse, error);
    if (ok && is_right(check, reverse))
        return judge_instead(check, reverse, -1, verdict, error);
    free_ranked(&reverse, check->evidence.ranks);
    verdict_say_seeded(verdict, true);
    return ok;
}

/* In training each rank has a clock and random bytes of its own, and so it has in the run that is judged. A shuffle
 * that is seeded by them is one shuffle if all have the same. What differs with one date, too, is the verdict, and what
 * dates explain is a further cause. */
static bool
judge_dates(struct check *check, struct check_verdict *verdict, struct error *error)
{
    struct check_evidence *evidence = &check->evidence;
    struct check_rows *same = NULL;
    if (verdict->result != CHECK_DIFFERENT || evidence->readings == 0 || check->ahead == 0)
        return true;
    bool ok = run_dated(check, 0, &same, error);
    if (ok && is_right(check, same)) {
        ok = judge_reverse(check, verdict, error);
    } else if (ok && same != NULL && differs_otherwise(check, verdict, same)) {
        struct check_verdict seeded = *verdict;
        verdict_say_seeded(&seeded, false);
        ok = judge_instead(check, same, 0, verdict, error);
        verdict_add(verdict, &seeded);
        return ok;
    }
    free_ranked(&same, evidence->ranks);
    return ok;
}

/* ---- all of it ---- */

/* The runs of one process and of the ranks, and their verdict. */
static bool
run_and_judge(struct check *check, struct check_verdict *verdict, struct error *error)
{
    if (check->has_reference ? !session_load_reference(check, error) : !session_make_reference(check, error))
        return false;
    if (check->only_writes)
        return true;
    check->ahead = check->in_cluster || check->evidence.by_plan ? 0 : 1;
    check->evidence.one_date = check->ahead == 0;
    OWNED char *title = check->ranks > 0 ? xasprintf("%d ranks", check->ranks) : xstrdup("all ranks");
    struct check_order order = session_order_ranks(check, "ranks", title);
    if (check->cluster_rank > 0) { /* rank 0 judges, and its exit code is to be the job's */
        struct check_outcome outcome;
        bool ok = session_start(check, &order, &outcome, error);
        free(outcome.results);
        return ok;
    }
    return run_judged(check, &order, error) && by_plan_settle(check, error) && turns_run_blind(check, error) &&
           judge_runs(check, verdict, error);
}

/* Frees all that runs have left in memory. */
static void
free_runs(struct check *check)
{
    struct check_evidence *evidence = &check->evidence;
    for (int which = 0; which < SESSION_RUNS; ++which)
        check_rows_free(session_rows(check, which));
    free_ranked(&evidence->ranked, evidence->ranks);
    free_ranked(&evidence->plain, evidence->ranks);
    free_repeats(evidence);
    written_free(&evidence->written);
    check_facts_free(&check->facts);
}

/* One process does not repeat itself, and reads the date: it may take a seed from the clock after its first step. */
static bool
may_hang_on_date(const struct check *check, const struct check_verdict *verdict)
{
    const bool is_possible = !check->in_cluster && !check->evidence.by_plan && check_options.reference == NULL;
    const bool is_unrepeated = verdict->cause == CAUSE_NOT_REPEATABLE && check->facts.is_unrepeated;
    return is_possible && is_unrepeated && (check->evidence.readings & CHECK_READS_DATE) != 0;
}

/* All runs once more, from `begin`, with a date that stands still. If one process repeats itself then, these are what
 * is judged: dates explain the rest (judge_dates()). Else all is as before. */
static bool
judge_with_date_that_stands(struct check *check, const struct check *begin, struct check_verdict *verdict,
                            struct error *error)
{
    struct check first = *check;
    struct check_verdict then = *verdict, now = {.result = CHECK_EQUAL};
    char *folder = xasprintf("%s/stands", check->folder.path);
    *check = *begin;
    check->runs_made = first.runs_made;
    check->place.folder = folder;
    check->place.date_stands = true;
    if (!check->options->quiet)
        message_line("check: one process does not repeat itself, and reads the clock: all runs once more, with a clock "
                     "that stands still");
    bool ok = mkdir(folder, 0700) == 0 && run_and_judge(check, &now, error);
    if (ok && now.cause != CAUSE_NOT_REPEATABLE) {
        *verdict = now;
        struct check kept = *check;
        *check = first;
        free_runs(check);
        *check = kept;
        check->stands = folder;
        return true;
    }
    free_runs(check);
    free(folder);
    *check = first;
    *verdict = then;
    if (!ok && error->exit_code > 128) /* a signal asked for the end */
        return false;
    if (!ok)
        message_line("%s; the verdict is given without these runs", error->text);
    return true;
}

/* All runs of a check and their verdict, in the order that the head of this file lists; *exit_code is ddprun's. False:
 * the error is to be reported. */
static bool
run_all(struct check *check, int *exit_code, struct error *error)
{
    struct check_verdict verdict = {.result = CHECK_EQUAL};
    if (!rehearse_program(check, error) || !by_plan_prove(check, error))
        return false;
    if (check->evidence.refuted[0] != '\0') {
        *exit_code = show_refused(check);
        return true;
    }
    const struct check begin = *check;
    if (!run_and_judge(check, &verdict, error))
        return false;
    if (check->only_writes) {
        printf("the reference is written: %s (%u steps)\nwhat to do: compare with it: ddprun check -n N --reference %s "
               "..., also under srun or mpirun\n",
               check_options.reference, check->steps, check_options.reference);
        *exit_code = close_stdout(stdout);
        return true;
    }
    if (check->cluster_rank > 0)
        return true;
    if (may_hang_on_date(check, &verdict) && !judge_with_date_that_stands(check, &begin, &verdict, error))
        return false;
    if (!judge_dates(check, &verdict, error))
        return false;
    if (check->has_failed && verdict.result != CHECK_DIFFERENT) {
        *error = check->failure;
        return false;
    }
    bool ok = turns_judge(&check->evidence, &verdict) && turns_judge_size(check, &verdict, error) &&
              closer_look(check, &verdict, error) && closer_look_further(check, &verdict, error);
    if (ok)
        *exit_code = show_verdict(check, turns_advise(&check->evidence, &verdict));
    return ok;
}

/* Frees all that runs have left in memory, and removes the folder of the check. */
static void
free_check(struct check *check)
{
    free_runs(check);
    free(check->stands);
    job_folder_remove(&check->folder);
    guardian_dismiss();
    words_free(check->alone);
    free(check->reference);
    free(check->proofs);
}

/* There is no verdict. */
static void
report_error(const char *json, const struct error *error)
{
    struct error ignored; /* that the file cannot be written may be the very error */
    message_line("%s", error->text);
    if (json != NULL && whole_file_check(json, "--json", &ignored) && !check_write_json_error(json, error))
        message_line("cannot write %s, in --json: %s", json, file_why(errno));
}

/* The command `ddprun check`; returns its exit code. */
static int
run_check(const struct command *command, const struct options *options)
{
    (void)command; /* options of check are among ddprun's own */
    struct check check = {.options = options, .place.begin_ms = clock_now_ms()};
    struct error error;
    int exit_code = 0;
    inner_run_block_signals(&check.place.old_mask);
    /* A reference may be as large as the model: $TMPDIR has room where $XDG_RUNTIME_DIR often is main memory. */
    unsetenv("XDG_RUNTIME_DIR");
    bool ok = session_prepare(&check, &error) && run_all(&check, &exit_code, &error);
    if (!ok) {
        if (error.exit_code == DDPRUN_EXIT_FAILURE) /* which is a difference here */
            error.exit_code = DDPRUN_EXIT_USAGE;
        if (check.cluster_rank == 0)
            report_error(check_options.json, &error);
        exit_code = error.exit_code;
    }
    free_check(&check);
    return exit_code;
}

const struct command check_command = {
    .name = "check",
    .brief = "compare N ranks with one process, tensor by tensor",
    .starts_ranks = true,
    .usage = "Usage: ddprun check [options] program [arguments...]\n\n"
             "Runs a few steps of the program in one process, and again on several ranks with the\n"
             "same batch. Compares gradients, parameters and other state of every rank with those\n"
             "of the one process. Prints whether they are equal; if not, which operation and which\n"
             "tensor differ first, and which mistake explains it. Ranks that take turns are compared\n"
             "with one process that plays all turns. Files that are written go to private folders.\n\n"
             "  ddprun check ./train                     two ranks, 64 steps\n"
             "  ddprun check -n 4 --steps 8 ./train      four ranks, eight steps\n"
             "  ddprun check --alone \"--batch 64\" ./train --batch 32\n"
             "                                           here --batch is one rank's: two of 32 make 64\n"
             "  ddprun check --plan plan.json ./train    an unannotated program, by a plan of scout\n"
             "  ddprun check -n 1 --reference ref.ddp ./train\n"
             "  srun --mpi=pmix -n 8 ddprun check --reference ref.ddp ./train\n"
             "                                           in two commands, on a cluster\n",
    .notes =
        "-n N (default 2) and most options of ddprun --help-all apply to the runs; others are\nrefused. On GPUs, two "
        "ranks need two, or --share-gpu.\n--timeout SECONDS also limits how long a run may take to its first "
        "DDP_STEP.\n\nExit codes: 0: equal; 1: different; 3: not comparable, with advice how to make "
        "them\ncomparable; 2: wrong options, no annotations, neither DDP_STEP nor DDP_REDUCE, a\nplan "
        "that does not fit. If the program fails by itself: its own\nexit code, or 4 if that is 1 or 3.\n",
    .example = "ddprun check -n 2 ./train",
    .group = GROUP_MIXED,
    .rows = option_rows,
    .reset = check_options_reset,
    .run = run_check,
};
