/* command.c - see request.h. */
#include "tools/predict/request.h"

#include "base/clock.h"
#include "base/message.h"
#include "base/protocol.h"
#include "launcher/start/environment.h"
#include "launcher/start/job_folder.h"
#include "tools/common/inner_run.h"
#include "tools/common/owned.h"
#include "tools/common/tool_options.h"
#include "tools/predict/model.h"

static bool
refuse(const struct options *options, struct error *error)
{
    if (options->rank_count > 0 && !options->ranks_by_setting)
        return error_set(error, DDPRUN_EXIT_USAGE,
                         "-n before predict has no effect; put it after predict: ddprun predict -n %d,... program",
                         options->rank_count);
    if (getenv("PMIX_RANK") != NULL && getenv("PMIX_NAMESPACE") != NULL && getenv(DDPRUN_ENV_JOB_DIR) == NULL)
        return error_set(error, DDPRUN_EXIT_USAGE,
                         "ddprun predict starts its own ranks, but another launcher has started several of it: start "
                         "it once, without srun or mpirun, in a shell of the allocation");
    static const char *const refused[] = {"dry-run", NULL};
    return options_refuse(options_set(options, refused), "predict", error);
}

/* ---- a run of the program for some steps, by a ddprun of its own, for its trace ---- */
/*
 * One rank alone averages nothing, and its trace has no steps: in a rehearsal (DDPRUN_ENV_REHEARSAL) it does all that
 * one of several does, with itself.
 */

/* One rank with a link, or else two; DDP_SHARD gives each the share that it has among `shares` ranks. Borrowed. */
struct rehearsal {
    const struct options *options;
    const struct predict_request *request;
    unsigned shares;
    const char *folder; /* for the trace and what the program prints; the caller removes it */
    const char *trace;  /* in it */
    sigset_t old_mask;  /* of inner_run_block_signals() */
};

/* Of ddprun's options those whose value in the runs is given here. */
static const char *const given_here[] = {"bucket-mb",    "no-overlap",     "plan",     "unproved", "max-restarts",
                                         "trace",        "output",         "progress", "metrics",  "page",
                                         "summary-json", "failure-report", "verbose",  "quiet",    NULL};

enum { STEPS_FOR_TIMES = 40 };

static int
ranks_of(const struct rehearsal *rehearsal)
{
    return rehearsal->request->has_link ? 1 : 2;
}

/* In the rehearsal's folder; `outputs` is one, for what ranks print. */
struct run_files {
    const char *summary, *log, *outputs;
};

static pid_t
start(const struct rehearsal *rehearsal, const struct run_files *files)
{
    struct word_list words = {0};
    char shares[16];
    snprintf(shares, sizeof(shares), "%u", rehearsal->shares);
    word_list_add(&words, xasprintf("--ranks=%d", ranks_of(rehearsal)));
    word_list_add(&words, xasprintf("--trace=%s", rehearsal->trace));
    word_list_add(&words, xasprintf("--output=files=%s", files->outputs));
    const char *environment[][2] = {{DDPRUN_ENV_REHEARSAL, shares}, {NULL, NULL}};
    return inner_run_start(&(struct inner_start){.options = rehearsal->options,
                                                 .sets = given_here,
                                                 .one_rank = ranks_of(rehearsal) == 1,
                                                 .words = words,
                                                 .summary = files->summary,
                                                 .program = rehearsal->request->program,
                                                 .errors = files->log,
                                                 .output = true,
                                                 .environment = environment,
                                                 .old_mask = &rehearsal->old_mask});
}

/* The trace of rank 0, as far as it has been read. */
struct follower {
    FILE *file;
    char *line;
    size_t room;
    unsigned steps;
    int64_t first_ms; /* when the first was seen */
    bool has_times;
};

static void
follow_trace(struct follower *follower, const char *trace)
{
    OWNED char *path = xasprintf("%s/rank-0.jsonl", trace);
    if (follower->file == NULL)
        follower->file = fopen(path, "re");
    if (follower->file == NULL)
        return;
    clearerr(follower->file);
    while (getline(&follower->line, &follower->room, follower->file) > 0) {
        follower->steps += strncmp(follower->line, "{\"step\":", 8) == 0;
        follower->has_times = follower->has_times || strncmp(follower->line, "{\"ready\":", 9) == 0;
    }
    if (follower->first_ms == 0 && follower->steps > 0)
        follower->first_ms = clock_now_ms();
}

/* A process that has just begun is interrupted less often than others on a busy machine. */
enum { LEAST_MS = 1000 };

/* Until its end. Returns whether it was asked to end after its steps. */
static bool
attend(const struct rehearsal *rehearsal, struct inner_run *run)
{
    const unsigned steps = rehearsal->request->steps;
    struct follower follower = {0};
    bool is_complete = false;
    while (inner_run_goes_on(run)) {
        follow_trace(&follower, rehearsal->trace);
        inner_run_show("predict: step %u of %u", follower.steps < steps ? follower.steps : steps, steps);
        if (run->asked_ms == 0)
            is_complete = follower.steps >= steps + (follower.has_times ? 0 : STEPS_FOR_TIMES) &&
                          clock_now_ms() - follower.first_ms >= LEAST_MS;
        if (is_complete)
            inner_run_end(run);
    }
    inner_run_show(NULL);
    if (follower.file != NULL)
        fclose(follower.file);
    free(follower.line);
    return is_complete;
}

/* Shows the program's own last words, and takes over why its ddprun says that it ended. */
static bool
explain(const struct rehearsal *rehearsal, const struct run_files *files, int code, struct error *error)
{
    char reason[1200];
    inner_run_reason(files->summary, reason, sizeof(reason));
    inner_log_read(files->log, reason, sizeof(reason));
    int ranks = ranks_of(rehearsal);
    bool shown = false;
    for (int r = 0; r < ranks && !shown; ++r) { /* the one that failed has perhaps ended the others before they spoke */
        OWNED char *errors = xasprintf("%s/rank-%d.err", files->outputs, r);
        shown = inner_log_show_end(errors);
    }
    bool wants_gpus = ranks > 1 && code == DDPRUN_EXIT_USAGE && strstr(reason, "GPU") != NULL;
    return error_set(error, code == DDPRUN_EXIT_NOT_RUN ? DDPRUN_EXIT_NOT_RUN : DDPRUN_EXIT_FAILURE,
                     "the program cannot be run on %d rank%s: %s%s", ranks, ranks == 1 ? "" : "s",
                     reason[0] != '\0' ? reason : "no reason is known",
                     wants_gpus ? "; for one GPU give --link BANDWIDTH,LATENCY" : "");
}

/* Returns when the program has made its steps, or has ended. Error: it failed by itself, took too long, or a signal
 * asked for the end (exit code 128 + signal). */
static bool
rehearse(const struct rehearsal *rehearsal, struct error *error)
{
    OWNED char *summary = xasprintf("%s/summary.json", rehearsal->folder);
    OWNED char *log = xasprintf("%s/log", rehearsal->folder), *outputs = xasprintf("%s/output", rehearsal->folder);
    const struct run_files files = {summary, log, outputs};
    struct inner_run run = {.pid = start(rehearsal, &files), .begin_ms = clock_now_ms()};
    if (run.pid <= 0)
        return error_set(error, DDPRUN_EXIT_FAILURE, "cannot start the program: %s", strerror(errno));
    bool is_complete = attend(rehearsal, &run);
    if (run.signal != 0)
        return error_set(error, 128 + run.signal, "predict ended by signal %d", run.signal);
    return is_complete || run.code == 0 || explain(rehearsal, &files, run.code, error);
}

/* ---- where the trace comes from ---- */

/* A model of the trace in `folder`, or NULL with the error. Remarks on the trace are printed if the user has named it.
 */
static struct model *
model_from(const char *folder, const struct predict_request *request, struct error *error)
{
    struct trace trace = {0};
    char why[200];
    struct model *model = NULL;
    bool ok = trace_read(folder, &trace, error);
    if (ok)
        model = model_of_trace(&trace, why, sizeof(why));
    if (ok && model == NULL && request->folder != NULL)
        error_set(error, DDPRUN_EXIT_FAILURE, "the trace in %s has no usable steps: %s", folder, why);
    else if (ok && model == NULL)
        error_set(error, DDPRUN_EXIT_FAILURE, "the program's steps cannot be measured: %s", why);
    for (size_t i = 0; model != NULL && request->folder != NULL && i < trace.remark_count; ++i)
        message_line("predict: %s", trace.remarks[i]);
    trace_free(&trace);
    return model;
}

static bool
predict_from(const struct predict_request *request, struct error *error)
{
    struct model *model = model_from(request->folder, request, error);
    struct forecasts forecasts = {.request = request, .kept = model, .shares = model != NULL ? model->ranks : 1};
    bool ok = model != NULL && table_print(&forecasts, error);
    model_free(model);
    return ok;
}

static void
say_rehearsal(const struct rehearsal *rehearsal)
{
    if (rehearsal->options->quiet)
        return;
    if (rehearsal->shares == 1)
        message_line("predict: runs the program for %u steps on %s", rehearsal->request->steps,
                     rehearsal->request->has_link ? "one rank" : "two ranks");
    else
        message_line("predict: runs the program with the share of the batch for %u ranks", rehearsal->shares);
}

/* The program's model where DDP_SHARD gives the share of one of so many ranks. Once more where no step counts. */
static struct model *
rehearse_share(struct rehearsal *rehearsal, unsigned shares, struct error *error)
{
    struct model *model = NULL;
    bool ran = true;
    rehearsal->shares = shares;
    say_rehearsal(rehearsal);
    for (int attempt = 0; attempt < 2 && ran && model == NULL; ++attempt) {
        OWNED char *trace = xasprintf("%s/trace-%u-%d", rehearsal->folder, shares, attempt);
        rehearsal->trace = trace;
        ran = rehearse(rehearsal, error);
        model = ran ? model_from(trace, rehearsal->request, error) : NULL;
    }
    return model;
}

/* Once with the whole batch, and where the program shares it out and an all-reduce has a cost, once for each number of
 * ranks that it is enough for. */
static bool
rehearse_all(struct rehearsal *rehearsal, struct forecasts *forecasts, struct error *error)
{
    const struct predict_request *request = rehearsal->request;
    forecasts->kept = rehearse_share(rehearsal, 1, error);
    bool ok = forecasts->kept != NULL, has_cost = request->has_link || (ok && forecasts->kept->sample_count > 0);
    for (size_t i = 0; ok && has_cost && i < request->count_count; ++i) {
        unsigned ranks = request->counts[i];
        if (ranks < 2 || ranks > forecasts->kept->batch)
            continue;
        forecasts->shared[i] = rehearse_share(rehearsal, ranks, error);
        ok = forecasts->shared[i] != NULL;
    }
    return ok;
}

static bool
predict_by_run(const struct options *options, const struct predict_request *request, struct error *error)
{
    struct job_folder folder = {.fd = -1};
    struct rehearsal rehearsal = {.options = options, .request = request};
    struct forecasts forecasts = {.request = request, .shares = 1};
    inner_run_block_signals(&rehearsal.old_mask);
    if (!job_folder_make(&folder, error))
        return false;
    rehearsal.folder = folder.path;
    bool ok = rehearse_all(&rehearsal, &forecasts, error) && table_print(&forecasts, error);
    for (size_t i = 0; i < request->count_count; ++i)
        model_free(forecasts.shared[i]);
    model_free(forecasts.kept);
    job_folder_remove(&folder);
    return ok;
}

static int
run_predict(const struct command *command, const struct options *options)
{
    struct predict_request request = predict_usual();
    struct error error;
    char **words;
    int exit_code;
    if (!command_begin(command, options->program, &request, &words, &exit_code))
        return exit_code;
    predict_take_program(&request, words);
    bool ok = refuse(options, &error) &&
              (request.folder != NULL ? predict_from(&request, &error) : predict_by_run(options, &request, &error));
    return command_end(ok, &error);
}

const struct command predict_command = {
    .name = "predict",
    .brief = "predict step time and efficiency on other numbers of ranks",
    .starts_ranks = true,
    .usage = "Usage: ddprun [options] predict [options] program [arguments...]\n"
             "       ddprun predict [options] DIR\n\n"
             "Predicts the step time on other numbers of ranks. It runs the program for some steps\n"
             "on two ranks, to measure when gradients are ready and the time of an all-reduce; with\n"
             "--link it needs one rank and one GPU. If the program calls DDP_SHARD, it is run again\n"
             "with the share of the batch for each number of ranks. With DIR no program runs: the\n"
             "times are those of the trace that ddprun --trace DIR wrote. Prints one table with the\n"
             "batch divided among ranks, one with the same batch on each, and the assumptions.\n",
    .notes = "Exit codes: 0: printed; 1: the program failed, neither it nor the trace has steps,\n"
             "or they vary too much for any prediction (the reason is printed); 2: wrong options.\n",
    .wants = "program",
    .example = "ddprun predict -n 2,4,8 ./train",
    .rows = predict_rows,
    .run = run_predict,
};
