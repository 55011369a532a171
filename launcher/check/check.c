/*
 * check.c - `ddprun check`: which runs there are, in which order, and what becomes of what they find (check.h).
 *
 * Four runs: one rank, which writes the reference; one rank again; one rank from a start that is one unit in the last
 * place away; N ranks. At most two more where those differ, which the verdict asks for. With --reference FILE the first
 * three and the fourth may be two commands.
 */
#include "launcher/check/check.h"

#include "base/check/element.h"
#include "base/check/reference.h"
#include "base/message.h"
#include "base/protocol.h"
#include "launcher/check/run.h"
#include "launcher/check/show.h"
#include "launcher/check/turns.h"
#include "launcher/check/words.h"
#include "launcher/memory.h"
#include "launcher/options/host_list.h"
#include "launcher/output/output.h"
#include "launcher/printed.h"
#include "launcher/start/environment.h"
#include "launcher/start/job_folder.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DEFAULT_STEPS = 3, DEFAULT_RANKS = 2, MOST_EXTRA_RUNS = 2, MOST_TURNS = 16 };

struct check {
    const struct options *options;
    struct check_place place;
    struct job_folder folder;
    char **alone;       /* the program and its arguments in runs of one rank */
    char *reference;    /* absolute */
    bool has_reference; /* it was written before */
    bool only_writes;   /* -n 1 --reference */
    bool in_cluster;    /* another launcher has started this process, and others like it */
    int cluster_rank;
    int ranks; /* 0: as the other launcher says */
    unsigned steps;
    int runs_made, runs_planned;
    struct check_evidence evidence;
    char *ranked_results; /* of the run that is checked */
};

/* Why the check ends before its verdict. */
static bool
fail(struct problem *problem, int exit_code, const char *text)
{
    return problem_set(problem, exit_code, "%s", text);
}

/* ---- what was asked for ---- */

static bool
find_ranks(struct check *check, struct problem *problem)
{
    const struct options *options = check->options;
    const char *rank = getenv("PMIX_RANK");
    check->in_cluster = rank != NULL && getenv("PMIX_NAMESPACE") != NULL && getenv(DDPRUN_ENV_JOB_DIR) == NULL;
    check->cluster_rank = check->in_cluster ? atoi(rank) : 0;
    check->ranks = options->rank_count;
    if (check->in_cluster && options->check.reference == NULL)
        return fail(
            problem, DDPRUN_EXIT_USAGE,
            "another launcher has started the ranks, and ddprun check cannot start them again; first write what "
            "one rank computes: ddprun check -n 1 --reference FILE PROGRAM, then start ddprun check --reference "
            "FILE PROGRAM by srun or mpirun");
    if (check->in_cluster && check->ranks != 0 && check->ranks != 1)
        return fail(problem, DDPRUN_EXIT_USAGE,
                    "-n was given to ddprun check, which another launcher has started; the number of ranks is that "
                    "launcher's: leave -n out");
    if (check->in_cluster && check->ranks == 0)
        return true;
    check->in_cluster = false;
    struct host_list list = {0};
    if (options->hosts != NULL && !host_list_take(options->hosts, &list, problem))
        return false;
    if (check->ranks == 0)
        check->ranks = options->hosts != NULL ? list.ranks : DEFAULT_RANKS;
    host_list_free(&list);
    check->only_writes = check->ranks == 1 && options->check.reference != NULL;
    if (check->ranks == 1 && !check->only_writes)
        return fail(problem, DDPRUN_EXIT_USAGE,
                    "-n 1 compares one rank with itself; give -n 2 or more, or --reference FILE to write what one rank "
                    "computes");
    return true;
}

static bool
refuse_others(const struct check *check, struct problem *problem)
{
    const struct options *options = check->options;
    if (options->max_restarts != 0)
        return fail(problem, DDPRUN_EXIT_USAGE, "--max-restarts and check contradict each other; leave one out");
    if (options->dry_run)
        return fail(problem, DDPRUN_EXIT_USAGE, "--dry-run and check contradict each other; leave one out");
    if (options->trace_dir != NULL)
        return fail(problem, DDPRUN_EXIT_USAGE, "--trace and check contradict each other; leave one out");
    if (strcmp(options->program[0], "check") == 0 || strcmp(options->program[0], "doctor") == 0)
        return problem_set(problem, DDPRUN_EXIT_USAGE,
                           "check wants a program, and %s is a word of ddprun; a program of that "
                           "name is ./%s",
                           options->program[0], options->program[0]);
    return true;
}

/* An absolute path for a file that need not exist. */
static char *
absolute(const char *path)
{
    char *here = path[0] == '/' ? NULL : getcwd(NULL, 0);
    char *whole = here != NULL ? memory_format("%s/%s", here, path) : memory_copy(path);
    free(here);
    return whole;
}

/* The file of --reference, if there is one already, must be a reference; nothing else is ever replaced. */
static bool
look_at_reference(struct check *check, struct problem *problem)
{
    const char *file = check->options->check.reference;
    struct reference_reader reader;
    const char *why;
    if (file == NULL)
        return true;
    check->reference = absolute(file);
    if (access(check->reference, F_OK) != 0 && !check->in_cluster)
        return true;
    if (!reference_open(check->reference, &reader, &why))
        return problem_set(problem, DDPRUN_EXIT_USAGE,
                           "cannot use %s, in --reference: %s; write it with ddprun check -n 1 "
                           "--reference",
                           file, why);
    unsigned steps = reader.header.steps;
    reference_free(&reader);
    check->has_reference = !check->only_writes;
    if (check->has_reference && check->options->check.steps != 0 && check->options->check.steps != steps)
        return problem_set(problem, DDPRUN_EXIT_USAGE,
                           "%s, in --reference, has %u steps, and --steps asks for %u; leave "
                           "--steps out, or write it again",
                           file, steps, check->options->check.steps);
    if (check->has_reference)
        check->steps = steps;
    return true;
}

static bool
prepare_kept_files(const struct check *check, struct problem *problem)
{
    const char *dir = check->options->check.keep_files;
    if (dir == NULL)
        return true;
    if (!output_prepare_folder(dir, "--keep-files", false, problem))
        return false;
    DIR *folder = opendir(dir);
    struct dirent *entry = NULL;
    while (folder != NULL && (entry = readdir(folder)) != NULL &&
           (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)) {
    }
    bool empty = folder != NULL && entry == NULL;
    if (folder != NULL)
        closedir(folder);
    return empty ||
           problem_set(problem, DDPRUN_EXIT_USAGE, "%s, in --keep-files, is not empty; name a new folder", dir);
}

static bool
prepare(struct check *check, struct problem *problem)
{
    const struct options *options = check->options;
    check->steps = options->check.steps != 0 ? options->check.steps : DEFAULT_STEPS;
    if (!find_ranks(check, problem) || !refuse_others(check, problem) || !look_at_reference(check, problem) ||
        !prepare_kept_files(check, problem) || !job_folder_make(&check->folder, problem))
        return false;
    check->alone = options->check.alone != NULL ? words_split(options->program[0], options->check.alone, problem)
                                                : environment_copy(options->program);
    if (check->alone == NULL)
        return false;
    if (check->reference == NULL)
        check->reference = memory_format("%s/reference", check->folder.path);
    check->place.options = options;
    check->place.folder = check->folder.path;
    check->place.results = check->in_cluster ? check->reference : NULL;
    check->place.step_limit_s = options->timeout_s;
    check->runs_planned = check->has_reference ? 1 : check->only_writes ? 3 : 4;
    check->evidence.steps = check->steps;
    check->evidence.tolerance = options->check.tolerance;
    check->evidence.floor_factor = options->check.floor_factor;
    check->evidence.sums = options->reduction == DDPRUN_REDUCE_SUM;
    static const int wire_types[] = {[DDPRUN_COMPRESS_NONE] = 0,
                                     [DDPRUN_COMPRESS_FP16] = ELEMENT_FLOAT16,
                                     [DDPRUN_COMPRESS_BF16] = ELEMENT_BFLOAT16};
    check->evidence.wire_type = wire_types[options->compression];
    return true;
}

/* ---- a run, and why it may end the check ---- */

static struct check_order
new_order(const struct check *check, const char *name, const char *title, enum check_mode mode)
{
    struct check_order order = {.name = name,
                                .title = title,
                                .ranks = 1,
                                .arguments = check->alone,
                                .run = {.mode = mode, .steps = check->steps, .sample = check->options->check.sample}};
    snprintf(order.run.reference, sizeof(order.run.reference), "%s", check->reference);
    return order;
}

/* What the engine of a rank has refused, or NULL. */
static const struct check_row *
find_stop(const struct check_rows *rows)
{
    return check_rows_find(rows, CHECK_ROW_STOPPED);
}

static const struct check_row *
find_end(const struct check_rows *rows)
{
    return check_rows_find(rows, CHECK_ROW_END);
}

/* A run that did not come to its end. `all`: rows of its ranks. False always. */
static bool
explain_failure(const struct check *check, const struct check_order *order, const struct check_outcome *outcome,
                const struct check_row *stop, bool any_step, struct problem *problem)
{
    int code = outcome->exit_code;
    if (outcome->signal != 0)
        return problem_set(problem, 128 + outcome->signal, "check ended by signal %d, in the run of %s",
                           outcome->signal, order->title);
    if (stop != NULL)
        return problem_set(problem, DDPRUN_EXIT_USAGE, "%.1000s (in the run of %s)", stop->text, order->title);
    if (outcome->late)
        return problem_set(problem, DDPRUN_EXIT_USAGE,
                           "the run of %s has not come to %s DDP_STEP in %u s; annotate the program (see "
                           "docs/annotations.md), or raise --timeout",
                           order->title, any_step ? "its next" : "a", check->place.step_limit_s);
    if (!outcome->program_failed)
        return problem_set(problem, code == DDPRUN_EXIT_NOT_RUN ? code : DDPRUN_EXIT_USAGE, "%s",
                           outcome->reason[0] != '\0' ? outcome->reason : "a run of the check could not be made");
    bool ours = code == DDPRUN_EXIT_FAILURE || code == CHECK_EXIT_NOT_COMPARABLE;
    return problem_set(problem, ours ? CHECK_EXIT_PROGRAM_FAILED : code,
                       "the run of %s failed by itself, with exit code %d: %.900s", order->title, code,
                       outcome->reason[0] != '\0' ? outcome->reason : "no reason is known");
}

static bool
start_run(struct check *check, const struct check_order *order, struct check_outcome *outcome, struct problem *problem)
{
    ++check->runs_made;
    if (!check->options->quiet && check->cluster_rank == 0)
        message_line("check: run %d of %d: %s", check->runs_made,
                     check->runs_made > check->runs_planned ? check->runs_made : check->runs_planned, order->title);
    return check_run_make(&check->place, order, outcome, problem);
}

static void
free_outcome(struct check_outcome *outcome)
{
    free(outcome->results);
    outcome->results = NULL;
}

/* A run of one rank to its end, whose rows are appended. */
static bool
run_alone(struct check *check, const struct check_order *order, struct check_rows *rows, struct problem *problem)
{
    struct check_outcome outcome;
    if (!start_run(check, order, &outcome, problem))
        return false;
    size_t before = rows->count;
    check_rows_append(rows, outcome.results, 0);
    const struct check_rows mine = {rows->rows + before, rows->count - before};
    const struct check_row *end = find_end(&mine);
    bool any_step = check_rows_find(&mine, CHECK_ROW_STEP) != NULL;
    /* What comes after the last step, a script's next command for instance, does not count. */
    bool complete = end != NULL && end->step >= order->run.steps;
    bool ok = (outcome.exit_code == 0 || complete) && outcome.signal == 0;
    if (!ok) {
        (void)explain_failure(check, order, &outcome, find_stop(&mine), any_step, problem);
        if (outcome.program_failed)
            check_run_show(&check->place, order);
    } else if (!any_step) {
        ok = fail(problem, DDPRUN_EXIT_USAGE,
                  "the program ended without a DDP_STEP: there is nothing to compare; annotate it (see "
                  "docs/annotations.md), or look for a problem with ddprun doctor");
    } else if (!complete) {
        ok = problem_set(
            problem, DDPRUN_EXIT_USAGE,
            "the program made %u step%s in the run of %s, and %u are to be compared; give it more to do, or "
            "check fewer with --steps",
            end != NULL ? end->step : 0, end != NULL && end->step == 1 ? "" : "s", order->title, order->run.steps);
    }
    free_outcome(&outcome);
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
keep_reference(struct check *check, const char *unfinished, struct problem *problem)
{
    struct reference_writer writer;
    struct reference_key end = {.kind = REFERENCE_END, .step = check->steps};
    bool ok = reference_extend(unfinished, &writer) && save_floor(&writer, &check->evidence.again, 0) &&
              save_floor(&writer, &check->evidence.perturbed, 1) && save_floor(&writer, &check->evidence.alone, 2) &&
              reference_put(&writer, &end, "", 0);
    ok = reference_close(&writer) && ok && rename(unfinished, check->reference) == 0;
    return ok || problem_set(problem, DDPRUN_EXIT_FAILURE, "cannot write %s, in --reference: %s; make room there",
                             check->options->check.reference, strerror(errno));
}

static void
load_floor(struct reference_reader *reader, uint32_t number, struct check_rows *rows)
{
    struct reference_key key = {.kind = REFERENCE_FLOOR, .number = number};
    const struct reference_entry *entry = reference_find(reader, &key);
    if (entry == NULL || entry->record.bytes % sizeof(*rows->rows) != 0)
        return;
    rows->rows = memory_get(entry->record.bytes / sizeof(*rows->rows) + 1, sizeof(*rows->rows));
    rows->count = entry->record.bytes / sizeof(*rows->rows);
    if (!reference_get(reader, entry, rows->rows, entry->record.bytes))
        check_rows_free(rows);
}

static bool
load_reference(struct check *check, struct problem *problem)
{
    struct reference_reader reader;
    const char *why;
    if (!reference_open(check->reference, &reader, &why))
        return problem_set(problem, DDPRUN_EXIT_USAGE, "cannot use %s, in --reference: %s", check->reference, why);
    load_floor(&reader, 0, &check->evidence.again);
    load_floor(&reader, 1, &check->evidence.perturbed);
    load_floor(&reader, 2, &check->evidence.alone);
    reference_free(&reader);
    return true;
}

/* The three runs of one rank. */
static bool
make_reference(struct check *check, struct problem *problem)
{
    char *final = check->reference;
    bool kept = check->options->check.reference != NULL;
    if (kept)
        check->reference = memory_format("%s.%d.new", final, (int)getpid());
    struct check_order first = new_order(check, "one", "one rank", CHECK_WRITES);
    struct check_order again = new_order(check, "again", "one rank, once more", CHECK_COMPARES);
    struct check_order perturbed =
        new_order(check, "perturbed", "one rank, from a start one unit in the last place away", CHECK_COMPARES);
    perturbed.run.perturbed = true;
    bool ok = run_alone(check, &first, &check->evidence.alone, problem) &&
              run_alone(check, &again, &check->evidence.again, problem) &&
              run_alone(check, &perturbed, &check->evidence.perturbed, problem);
    if (kept) {
        char *unfinished = check->reference;
        check->reference = final;
        ok = ok && keep_reference(check, unfinished, problem);
        if (!ok)
            unlink(unfinished);
        free(unfinished);
    }
    return ok;
}

/* ---- the ranks ---- */

static struct check_order
order_ranks(const struct check *check, const char *name, const char *title)
{
    struct check_order order = new_order(check, name, title, CHECK_COMPARES);
    order.ranks = check->in_cluster ? 0 : check->ranks;
    order.hosts = check->options->hosts != NULL;
    order.arguments = check->options->program;
    return order;
}

/* As many as another launcher has started: rank 0 says so in its first row of a step. 0: it came to none. */
static int
count_ranks(const char *results)
{
    struct check_rows first = {0};
    check_rows_append(&first, results, 0);
    const struct check_row *step = check_rows_find(&first, CHECK_ROW_STEP);
    int count = step != NULL ? (int)step->value : 0;
    check_rows_free(&first);
    return count;
}

static void
remove_rows(const char *results, int count)
{
    for (int rank = 0; rank < count; ++rank) {
        char *path = memory_format("%s-%d", results, rank);
        unlink(path);
        free(path);
    }
}

/* Its rows into ranked_p[*count_p]. False: it ended in a way of which there is no verdict. */
static bool
run_ranks(struct check *check, const struct check_order *order, struct check_rows **ranked_p, int *count_p,
          struct problem *problem)
{
    struct check_outcome outcome;
    if (!start_run(check, order, &outcome, problem))
        return false;
    int count = check->in_cluster ? count_ranks(outcome.results) : check->ranks;
    struct check_rows *ranked = memory_get((size_t)count + 1, sizeof(*ranked));
    const struct check_row *stop = NULL;
    bool ended = true, any_step = false;
    for (int r = 0; r < count; ++r) {
        check_rows_append(&ranked[r], outcome.results, r);
        const struct check_row *end = find_end(&ranked[r]);
        ended = ended && end != NULL && end->step >= check->steps;
        any_step = any_step || check_rows_find(&ranked[r], CHECK_ROW_STEP) != NULL;
        stop = stop == NULL ? find_stop(&ranked[r]) : stop;
    }
    if (check->in_cluster)
        remove_rows(outcome.results, count > 0 ? count : 1);
    *ranked_p = ranked;
    *count_p = count;
    check->evidence.overlapped_steps = order->plain ? check->evidence.overlapped_steps : outcome.overlapped_steps;
    bool stopped_by_ddprun =
        outcome.signal == 0 && !outcome.program_failed && (stop == NULL || stop->value == 1) && any_step && !ended;
    bool ok = true;
    if (stopped_by_ddprun || (stop != NULL && stop->value == 1 && outcome.signal == 0)) {
        snprintf(check->evidence.stopped, sizeof(check->evidence.stopped), "%s",
                 stop != NULL                ? stop->text
                 : outcome.late              ? "no step came for as long as --timeout says"
                 : outcome.reason[0] != '\0' ? outcome.reason
                                             : "a rank ended before the last step");
    } else if ((outcome.exit_code != 0 && !ended) || outcome.signal != 0 || !any_step) {
        ok = explain_failure(check, order, &outcome, stop, any_step, problem);
        if (outcome.program_failed)
            check_run_show(&check->place, order);
    }
    free_outcome(&outcome);
    return ok;
}

static void
free_ranked(struct check_rows **ranked, int count)
{
    for (int r = 0; *ranked != NULL && r < count; ++r)
        check_rows_free(&(*ranked)[r]);
    free(*ranked);
    *ranked = NULL;
}

/* ---- further runs ---- */

/* One rank gets each rank's share in turn, a process for each. */
static bool
run_turns(struct check *check, struct problem *problem)
{
    int count = check->ranks;
    char **files = memory_get((size_t)count + 1, sizeof(*files));
    bool ok = true;
    for (int r = 0; r < count && ok; ++r) {
        struct check_rows rows = {0};
        char *name = memory_format("turn-%d", r), *title = memory_format("one rank with the share of rank %d", r);
        struct check_order order = new_order(check, name, title, CHECK_WRITES);
        files[r] = memory_format("%s/%s", check->folder.path, name);
        snprintf(order.run.reference, sizeof(order.run.reference), "%s", files[r]);
        order.run.turn = (uint32_t)r;
        order.run.turn_count = (uint32_t)count;
        order.run.steps = 1;
        ok = run_alone(check, &order, &rows, problem);
        check_rows_free(&rows);
        free(name);
        free(title);
    }
    if (ok && !turns_compare(check->reference, files, count, check->evidence.sums, &check->evidence.turns))
        ok = fail(problem, DDPRUN_EXIT_FAILURE,
                  "what one rank computed from each share cannot be read; make room, or set "
                  "TMPDIR");
    environment_free(files);
    return ok;
}

static bool
run_probe(struct check *check, const struct check_wishes *wishes, struct problem *problem)
{
    struct check_order order =
        new_order(check, "probe", "one rank, with changes to unannotated memory", CHECK_COMPARES);
    order.run.probes = true;
    order.run.probed_count = wishes->probed_count;
    memcpy(order.run.probed, wishes->probed, sizeof(order.run.probed));
    return run_alone(check, &order, &check->evidence.probe, problem);
}

static bool
run_plain(struct check *check, struct problem *problem)
{
    char *title = memory_format("%d ranks without overlap", check->ranks);
    struct check_order order = order_ranks(check, "plain", title);
    order.plain = true;
    int count;
    bool ok = run_ranks(check, &order, &check->evidence.plain, &count, problem);
    free(title);
    return ok;
}

/* The further run that the verdict asks for first; false: none. */
static bool
run_more(struct check *check, const struct check_wishes *wishes, bool *ok, struct problem *problem)
{
    if (check->in_cluster || check->has_reference) /* no run of one rank can be made like the others */
        return false;
    if (wishes->probed_count > 0 && check->evidence.probe.count == 0)
        *ok = run_probe(check, wishes, problem);
    else if (wishes->turns && check->evidence.turns.count == 0 && check->ranks <= MOST_TURNS)
        *ok = run_turns(check, problem);
    else if (wishes->plain && check->evidence.plain == NULL)
        *ok = run_plain(check, problem);
    else
        return false;
    return true;
}

/* ---- the verdict ---- */

static bool
wants_colour(const struct check *check)
{
    const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");
    return !check->in_cluster && isatty(STDOUT_FILENO) && (no_color == NULL || no_color[0] == '\0') && term != NULL &&
           strcmp(term, "dumb") != 0;
}

static int
exit_code_of(const struct check_verdict *verdict)
{
    static const int codes[] = {
        [CHECK_EQUAL] = 0, [CHECK_DIFFERENT] = DDPRUN_EXIT_FAILURE, [CHECK_NOT_COMPARABLE] = CHECK_EXIT_NOT_COMPARABLE};
    return codes[verdict->result];
}

static int
show(const struct check *check, const struct check_verdict *verdict)
{
    int code = exit_code_of(verdict);
    const char *json = check->options->check.json;
    check_print_table(stdout, &check->evidence, verdict, wants_colour(check));
    if (verdict->result == CHECK_EQUAL && !check->options->quiet)
        printf("what to do: run it: ddprun -n N %s ...\n", check->options->program[0]);
    if (printed_end(stdout) != 0)
        return DDPRUN_EXIT_FAILURE;
    if (json != NULL && !check_write_json(json, &check->evidence, verdict, code)) {
        message_line("cannot write %s, in --json: %s; the verdict stands above", json, strerror(errno));
        return code != 0 ? code : DDPRUN_EXIT_FAILURE;
    }
    return code;
}

static bool
judge(struct check *check, struct check_verdict *verdict, struct problem *problem)
{
    struct check_wishes wishes;
    bool ok = true;
    check_judge(&check->evidence, verdict, &wishes);
    for (int i = 0; i < MOST_EXTRA_RUNS && run_more(check, &wishes, &ok, problem); ++i) {
        if (!ok)
            return false;
        check_verdict_free(verdict);
        check_judge(&check->evidence, verdict, &wishes);
    }
    return true;
}

/* ---- all of it ---- */

static bool
run_all(struct check *check, int *exit_code, struct problem *problem)
{
    if (check->has_reference ? !load_reference(check, problem) : !make_reference(check, problem))
        return false;
    if (check->only_writes) {
        printf("the reference is written: %s (%u steps)\nwhat to do: compare with it: ddprun check -n N --reference %s "
               "..., "
               "also under srun or mpirun\n",
               check->options->check.reference, check->steps, check->options->check.reference);
        *exit_code = printed_end(stdout);
        return true;
    }
    char *title = check->ranks > 0 ? memory_format("%d ranks", check->ranks) : memory_copy("all ranks");
    struct check_order order = order_ranks(check, "ranks", title);
    struct check_verdict verdict = {.result = CHECK_EQUAL};
    bool ok;
    if (check->cluster_rank > 0) { /* rank 0 judges, and its exit code is to be the job's */
        struct check_outcome outcome;
        ok = start_run(check, &order, &outcome, problem);
        free_outcome(&outcome);
    } else {
        ok = run_ranks(check, &order, &check->evidence.ranked, &check->evidence.ranks, problem) &&
             judge(check, &verdict, problem);
        if (ok)
            *exit_code = show(check, &verdict);
    }
    free(title);
    check_verdict_free(&verdict);
    return ok;
}

static void
block_signals(sigset_t *old)
{
    static const int signals[] = {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    struct sigaction plain = {.sa_handler = SIG_DFL};
    sigset_t blocked;
    sigemptyset(&blocked);
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); ++i)
        sigaddset(&blocked, signals[i]);
    sigaction(SIGCHLD, &plain, NULL); /* inherited as ignored, it would make exit codes vanish */
    sigprocmask(SIG_BLOCK, &blocked, old);
}

static void
free_check(struct check *check)
{
    struct check_evidence *evidence = &check->evidence;
    check_rows_free(&evidence->alone);
    check_rows_free(&evidence->again);
    check_rows_free(&evidence->perturbed);
    check_rows_free(&evidence->turns);
    check_rows_free(&evidence->probe);
    free_ranked(&evidence->ranked, evidence->ranks);
    free_ranked(&evidence->plain, evidence->ranks);
    job_folder_remove(&check->folder);
    environment_free(check->alone);
    free(check->reference);
}

int
check_command(const struct options *options)
{
    struct check check = {.options = options};
    struct problem problem;
    int exit_code = 0;
    block_signals(&check.place.old_mask);
    bool ok = prepare(&check, &problem) && run_all(&check, &exit_code, &problem);
    if (!ok) {
        if (check.cluster_rank == 0)
            message_line("%s", problem.text);
        exit_code = problem.exit_code;
    }
    free_check(&check);
    return exit_code;
}
