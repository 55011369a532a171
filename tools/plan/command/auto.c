/*
 * auto.c - see auto.h.
 *
 *     a plan is kept, and was proved for this build, these arguments and files         it is used
 *     else                                                          the program is scouted, and its plan proved
 *
 * Then a rehearsal, unless one with as many ranks and the same options is kept with the plan: N ranks train for some
 * rounds, and one process for as many batches, several times by turns.
 */
#include "tools/plan/command/auto.h"

#include "base/message.h"
#include "base/protocol.h"
#include "launcher/common/xcalloc.h"
#include "launcher/start/job_folder.h"
#include "tools/check/format/run.h"
#include "tools/common/inner_run.h"
#include "tools/common/tool_options.h"
#include "tools/plan/format/play_json.h"
#include "tools/scout/command/proofs/prove.h"
#include "tools/scout/command/scout.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const double LEAST_TIMES = 1.2; /* as fast as one process, where ranks wait for each other */

struct auto_run {
    const struct options *options;
    const struct auto_job *job;
    struct scout_order order;
    struct plan_cache cache;
    struct json_object *plan;
    bool is_new;     /* it is to be kept */
    bool is_refused; /* by the rehearsal: ranks cannot follow it */
};

/* One line, read byte by byte, for what follows is the program's. */
static bool
ask_user(struct error *error)
{
    char answer = '\0', next = '\0';
    message_text("ddprun: train like this? [y/N] ");
    if (read(STDIN_FILENO, &answer, 1) == 1)
        for (next = answer; next != '\n' && read(STDIN_FILENO, &next, 1) == 1;)
            ;
    return answer == 'y' || answer == 'Y' ||
           error_set(error, DDPRUN_EXIT_FAILURE, "nothing is started: not answered with y");
}

/* ---- the plan ---- */

/* A plan that was made with --unproved is for that alone, and one with --per-rank for the same list. */
static bool
is_allowed(const struct auto_run *run)
{
    bool is_wanted = run->options->by == 0 || plan_file_is_by_state(run->plan) == (run->options->by == PLAN_BY_STATE);
    const char *list = run->job->per_rank != NULL ? run->job->per_rank : "";
    is_wanted = is_wanted && strcmp(play_text(run->plan, "per_rank"), list) == 0;
    return is_wanted &&
           (run->options->unproved || !json_object_get_boolean(json_object_object_get(run->plan, "unproved")));
}

/* A plan that is kept. run->plan: NULL if none fits. */
static bool
find_kept_plan(struct auto_run *run, struct error *error)
{
    bool ok = plan_cache_find(&run->cache, &run->plan, error);
    if (ok && run->plan != NULL && !is_allowed(run)) {
        json_object_put(run->plan);
        run->plan = NULL;
    }
    return ok;
}

/* `instead_of`: why by gradients it cannot be; NULL: both ways are tried, but for what --by says. */
static bool
make(struct auto_run *run, const char *instead_of, struct error *error)
{
    unsigned by = instead_of != NULL ? PLAN_BY_STATE : run->options->by;
    bool unproved = run->options->unproved;
    char *path = xasprintf("%s/plan.json", run->order.folder), *play = xasprintf("%s/plan.play", run->order.folder);
    message_line("plan: %s is scouted%s, and what is found is proved", run->job->program,
                 instead_of != NULL ? " by state" : "");
    bool ok = scout_make_plan(&run->order, path, run->job->per_rank, by, unproved, error) &&
              plan_file_prepare(path, unproved, false, play, error);
    if (ok) {
        run->plan = json_object_from_file(path);
        if (run->plan != NULL && run->job->per_rank != NULL)
            play_put_text(run->plan, "per_rank", run->job->per_rank);
        if (run->plan != NULL && instead_of != NULL)
            play_put_text(run->plan, "by_state_for", instead_of);
        if (run->plan != NULL && unproved)
            json_object_object_add(run->plan, "unproved", json_object_new_boolean(true));
        ok = run->plan != NULL || error_set(error, DDPRUN_EXIT_FAILURE, "cannot read %s; make room there", path);
        run->is_new = true;
    }
    free(path);
    free(play);
    return ok;
}

/* ---- the forecast ---- */

/* What a forecast depends on: ranks, and all options that they are given. */
static char *
conditions_of(const struct auto_run *run)
{
    struct word_list words = {0};
    options_hand_on_but(run->options, scout_sets, false, &words);
    char *text = xasprintf("%d ranks, pairs", run->job->ranks);
    for (size_t i = 0; words.list != NULL && words.list[i] != NULL; ++i) {
        char *longer = xasprintf("%s %s", text, words.list[i]);
        free(text);
        text = longer;
    }
    words_free(words.list);
    return text;
}

static bool
forecast(struct auto_run *run, struct error *error)
{
    struct rehearsal rehearsal;
    char *conditions = conditions_of(run);
    bool ok = true;
    if (strcmp(play_text(json_object_object_get(run->plan, "forecast"), "conditions"), conditions) != 0) {
        message_line("plan: a rehearsal of %d ranks and of one process, by turns", run->job->ranks);
        ok = scout_rehearse(&run->order, json_object_object_get(run->plan, "turns"), &rehearsal, error) &&
             (rehearsal.why[0] == '\0' ||
              error_set(error, DDPRUN_EXIT_FAILURE, "in the rehearsal of the plan: %s", rehearsal.why));
        run->is_refused = !ok && rehearsal.why[0] != '\0';
        struct json_object *member = ok ? json_object_new_object() : NULL;
        if (ok) {
            play_put_text(member, "conditions", conditions);
            play_put_number(member, "ranks", run->job->ranks);
            play_put_number(member, "round_ns", rehearsal.round_ns);
            play_put_number(member, "period_ns", rehearsal.period_ns);
            play_put_number(member, "pairs", rehearsal.count);
            play_put_number(member, "low", rehearsal.low);
            play_put_number(member, "high", rehearsal.high);
            json_object_object_add(member, "noisy", json_object_new_boolean(rehearsal.is_noisy));
            json_object_object_add(run->plan, "forecast", member);
            run->is_new = true;
        }
    }
    free(conditions);
    return ok;
}

/* A plan by gradients that ranks cannot follow for longer than its proofs saw: by state they may. */
static bool
forecast_of_either(struct auto_run *run, struct error *error)
{
    struct error other = {0};
    bool ok = forecast(run, error);
    if (ok || !run->is_refused || run->options->by != 0 || run->options->unproved || plan_file_is_by_state(run->plan))
        return ok;
    message_line("plan: by gradients: %s", error->text);
    json_object_put(run->plan);
    run->plan = NULL;
    if (make(run, error->text, &other) && forecast(run, &other))
        return true;
    if (other.exit_code != DDPRUN_EXIT_FAILURE) {
        *error = other;
        return false;
    }
    char *first = xstrdup(error->text);
    (void)error_set(error, DDPRUN_EXIT_FAILURE, "by gradients: %.400s; by state: %.400s", first, other.text);
    free(first);
    return false;
}

/* Where ranks wait for what the host reads, they may be no faster than one process. */
static bool
is_fast_enough(const struct auto_run *run, struct error *error)
{
    struct json_object *said = json_object_object_get(run->plan, "forecast");
    double round = (double)play_number(said, "round_ns");
    double one = (double)play_number(said, "period_ns") * run->job->ranks;
    if (run->options->reads != 0 || round == 0 || one == 0 || one >= LEAST_TIMES * round ||
        preview_reads(run->plan, false) == 0)
        return true;
    (void)preview_reads(run->plan, true);
    return error_set(error, DDPRUN_EXIT_USAGE,
                     "%d ranks are %.2f times as fast as one process, for they wait for what the host reads of each "
                     "other's batches; --reads owner trains like this, and --reads own lets each rank read what it has",
                     run->job->ranks, one / round);
}

/* ---- all of it ---- */

static bool
prepare_auto_run(struct auto_run *run, struct error *error)
{
    sigset_t *old_mask = &run->order.old_mask;
    struct job_folder folder = {.fd = -1};
    inner_run_block_signals(old_mask);
    bool ok = job_folder_make(&folder, error);
    if (ok) {
        run->order.folder = folder.path;
        run->order.timeout_s = SCOUT_TIMEOUT_S;
        run->order.silent = true;
        ok = find_kept_plan(run, error) && (run->plan != NULL || make(run, NULL, error)) &&
             forecast_of_either(run, error) && is_fast_enough(run, error) &&
             (!run->is_new || plan_cache_keep(&run->cache, run->plan, error));
        job_folder_remove(&folder);
    }
    sigprocmask(SIG_SETMASK, old_mask, NULL);
    return ok;
}

static bool
can_begin(const struct options *options, const struct auto_job *job, bool asks, struct error *error)
{
    if (job->in_cluster)
        return error_set(error, DDPRUN_EXIT_USAGE,
                         "--plan auto is for one machine; make the plan on one, by ddprun scout --prove --json FILE, "
                         "and give --plan FILE");
    return !asks || (isatty(STDIN_FILENO) && isatty(STDERR_FILENO)) ||
           error_set(error, DDPRUN_EXIT_USAGE,
                     "--plan auto asks before %s is trained, and there is no terminal to ask at; add --yes",
                     options->program[0]);
}

bool
plan_auto(struct options *options, const struct auto_job *job, struct error *error)
{
    struct auto_run run = {.options = options, .job = job};
    char here[PATH_MAX] = "";
    bool asks = !options->yes && !job->is_restart;
    bool is_auto = options->plan != NULL && strcmp(options->plan, "auto") == 0;
    if (!is_auto && (options->by != 0 || job->per_rank != NULL))
        return error_set(error, DDPRUN_EXIT_USAGE,
                         "%s is an option of --plan auto, and of ddprun scout: a plan of a file has it already",
                         options->by != 0 ? "--by" : "--per-rank");
    if (options->plan == NULL)
        return true;
    if (job->ranks < 2 && getenv(DDPRUN_ENV_CHECK_RUN) == NULL)
        return error_set(error, DDPRUN_EXIT_USAGE,
                         "--plan is for two ranks or more, and this job has one; leave --plan out, or give -n N");
    if (!is_auto)
        return true;
    if (!can_begin(options, job, asks, error))
        return false;
    run.order = (struct scout_order){.options = options, .program = options->program, .ranks = job->ranks};
    const char *folder = getcwd(here, sizeof(here)) != NULL ? here : "";
    bool ok = plan_cache_open(job->program, options->program, folder, job->softgpu, &run.cache, error) &&
              prepare_auto_run(&run, error);
    if (ok && (asks || (!options->quiet && !job->is_restart))) {
        message_line("plan: kept as %s", run.cache.path);
        preview_print(run.plan, job->ranks, options->reads == PLAN_READS_OWN);
    }
    ok = ok && (!asks || ask_user(error));
    if (ok)
        options->plan = option_keep(options, run.cache.path);
    json_object_put(run.plan);
    plan_cache_close(&run.cache);
    return ok;
}
