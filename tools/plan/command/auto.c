/*
 * auto.c - see auto.h.
 *
 *     a plan is kept, and was proved for this build, these arguments, files and options         it is used
 *     else                                                          the program is scouted, and its plan proved
 *
 * Proof (d) is made with the ranks of the job, and timed.
 */
#include "tools/plan/command/auto.h"

#include "base/message.h"
#include "base/protocol.h"
#include "launcher/start/job_folder.h"
#include "tools/check/format/run.h"
#include "tools/common/inner_run.h"
#include "tools/common/owned.h"
#include "tools/common/tool_options.h"
#include "tools/plan/format/play_json.h"
#include "tools/scout/command/scout.h"

/* ---- the question ---- */

/* Asks, and reads one line byte by byte, for what follows is the program's. Whether the answer is yes. */
static bool
ask_user(struct error *error)
{
    char answer = '\0', next = '\0';
    message_text("ddprun: train like this? [y/N] ");
    if (read(STDIN_FILENO, &answer, 1) == 1)
        for (next = answer; next != '\n' && read(STDIN_FILENO, &next, 1) == 1;)
            ;
    return answer == 'y' || answer == 'Y' ||
           error_set(error, DDPRUN_EXIT_FAILURE, "nothing is started: the answer was not y");
}

/* ---- the plan ---- */

struct auto_run {
    const struct options *options;
    const struct auto_job *job;
    struct scout_order order;
    struct plan_cache cache;
    struct json_object *plan;
};

/* Scouts the program and proves a plan, into run->plan. False, with the error: there is none. */
static bool
make(struct auto_run *run, struct error *error)
{
    bool unproved = run->options->unproved;
    OWNED char *path = xasprintf("%s/plan.json", run->order.folder);
    OWNED char *play = xasprintf("%s/plan.play", run->order.folder);
    message_line("plan: %s is scouted, and the findings are proved", run->job->program);
    if (!scout_make_plan(&run->order, path, run->job->per_rank, run->options->by, unproved, error) ||
        !plan_file_prepare(path, path, unproved, false, play, error))
        return false;
    run->plan = json_object_from_file(path);
    return run->plan != NULL || error_set(error, DDPRUN_EXIT_FAILURE, "cannot read %s; make room there", path);
}

/* What a plan, its proofs and its times depend on besides the program: ranks, and options. malloc'ed. */
static char *
conditions_of(const struct auto_run *run)
{
    struct word_list words = {0};
    const struct options *options = run->options;
    options_hand_on_but(options, scout_sets, false, &words);
    char *text =
        xasprintf("%d ranks, by %d, per rank %s%s", run->job->proving, (int)options->by,
                  run->job->per_rank != NULL ? run->job->per_rank : "-", options->unproved ? ", unproved" : "");
    for (size_t i = 0; i < words.count; ++i) {
        OWNED char *before = text;
        text = xasprintf("%s %s", before, words.list[i]);
    }
    words_free(words.list);
    return text;
}

/* False, with the error: with --yes, ranks that are slower than one process are not started. */
static bool
is_fast_enough(const struct auto_run *run, struct error *error)
{
    struct play_times forecast = play_json_times(run->plan);
    const struct options *options = run->options;
    double high = forecast.high / 100.0;
    if (forecast.round_ns == 0 || high >= 1 || !options->yes || options->slow || run->job->is_restart)
        return true;
    bool waits = options->reads != PLAN_READS_OWN && preview_reads(run->plan, false) > 0;
    return error_set(error, DDPRUN_EXIT_USAGE,
                     "%d ranks are slower than one process: %.2f to %.2f times as fast%s; --slow trains all the same",
                     run->job->proving, forecast.low / 100.0, high,
                     waits ? ": they wait for results of each other's batches that the host reads; with --reads own "
                             "each rank reads its own results"
                           : "");
}

/* ---- all of it ---- */

/* Takes the program's plan from the cache, or makes it and keeps it there. False, with the error: there is none. */
static bool
prepare_auto_run(struct auto_run *run, struct error *error)
{
    sigset_t *old_mask = &run->order.old_mask;
    struct job_folder folder = {.fd = -1};
    inner_run_block_signals(old_mask);
    bool ok = job_folder_make(&folder, error);
    if (ok) {
        run->order.folder = folder.path;
        run->order.timeout_s = run->options->timeout_s;
        run->order.silent = true;
        ok = plan_cache_find(&run->cache, &run->plan, error) &&
             (run->plan != NULL || (make(run, error) && plan_cache_keep(&run->cache, run->plan, error)));
        job_folder_remove(&folder);
    }
    sigprocmask(SIG_SETMASK, old_mask, NULL);
    return ok;
}

/* Whether the user has agreed to the run, or can be asked at a terminal. False, with the error: neither. */
static bool
can_begin(const struct options *options, const struct auto_job *job, struct error *error)
{
    return options->yes || job->is_restart || (!job->in_cluster && isatty(STDIN_FILENO) && isatty(STDERR_FILENO)) ||
           error_set(error, DDPRUN_EXIT_USAGE,
                     "--plan auto asks before %s is trained, and there is no terminal to ask at; add --yes",
                     options->program[0]);
}

bool
plan_auto_may_begin(const struct options *options, const struct auto_job *job, bool *is_auto_p, struct error *error)
{
    bool is_auto = options->plan != NULL && strcmp(options->plan, "auto") == 0;
    if (!is_auto && (options->by != 0 || job->per_rank != NULL))
        return error_set(error, DDPRUN_EXIT_USAGE,
                         "%s is an option of --plan auto and of ddprun scout: a plan in a file has it already",
                         options->by != 0 ? "--by" : "--per-rank");
    if (options->plan != NULL && job->ranks < 2 && getenv(DDPRUN_ENV_CHECK_RUN) == NULL)
        return error_set(error, DDPRUN_EXIT_USAGE,
                         "--plan is for two ranks or more, and this job has one; leave --plan out, or give -n N");
    *is_auto_p = is_auto;
    return !is_auto || can_begin(options, job, error);
}

bool
plan_auto(struct options *options, const struct auto_job *job, struct error *error)
{
    struct auto_run run = {.options = options, .job = job};
    char here[PATH_MAX] = "";
    bool asks = !options->yes && !job->is_restart;
    run.order = (struct scout_order){.options = options, .program = options->program, .ranks = job->proving};
    const char *folder = getcwd(here, sizeof(here)) != NULL ? here : "";
    OWNED char *conditions = conditions_of(&run);
    bool ok = plan_cache_open(job->program, options->program, folder, job->softgpu, conditions, &run.cache, error) &&
              prepare_auto_run(&run, error);
    if (ok && (asks || (!options->quiet && !job->is_restart))) {
        message_line("plan: its file is %s", run.cache.path);
        preview_print(run.plan, job->ranks, job->proving, options->reads == PLAN_READS_OWN);
    }
    ok = ok && is_fast_enough(&run, error) && (!asks || ask_user(error));
    if (ok)
        options->plan = option_keep(options, run.cache.path);
    json_object_put(run.plan);
    plan_cache_close(&run.cache);
    return ok;
}
