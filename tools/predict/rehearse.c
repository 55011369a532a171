/*
 * rehearse.c - see request.h.
 *
 * One rank alone averages nothing, and its trace has no steps: in a rehearsal (DDPRUN_ENV_REHEARSAL) it does all that
 * one of several does, with itself.
 */
#include "tools/predict/request.h"

#include "base/clock.h"
#include "base/message.h"
#include "base/protocol.h"
#include "launcher/start/environment.h"
#include "tools/common/inner_run.h"
#include "tools/common/owned.h"
#include "tools/common/tool_options.h"

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

/* ---- the command ---- */

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

/* ---- its steps ---- */

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

/* ---- its end ---- */

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

bool
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
