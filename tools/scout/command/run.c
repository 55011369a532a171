/* run.c - see run.h. */
#include "tools/scout/command/run.h"

#include "base/clock.h"
#include "launcher/start/environment.h"
#include "tools/check/format/run.h"
#include "tools/common/direct.h"
#include "tools/common/inner_run.h"
#include "tools/sandbox/files.h"
#include "tools/scout/command/analysis/finding.h"
#include "tools/scout/command/report/lines.h"
#include "tools/scout/format/log.h"

#include <sys/mman.h>

enum {
    DEFAULT_PERIODS = 3, /* two that can be compared, wherever in a period the recording begins */
    TRIAL_LIMIT_S = 60,  /* of one repetition */
    DAY_S = 86400,
    OTHER_DATE_S = 100000, /* later than the date of the other runs */
};

/* ddprun's options for an inner run. The caller owns the words. */
static struct word_list
options_of(const struct scout_child *child)
{
    struct word_list words = {0};
    word_list_add(&words, xasprintf("--ranks=%d", child->ranks));
    if (child->ranks > 1)
        word_list_add(&words, xstrdup("--check-every=0")); /* ranks are compared by the proof */
    if (child->silent)
        word_list_add(&words, xstrdup("--output=none"));
    word_list_add(&words, xstrdup("--hang-timeout=1000000")); /* whose warning does not come either */
    word_list_add(&words, xstrdup("--unannotated"));
    word_list_add(&words, xstrdup("--nnodes=1")); /* whatever launcher has started this ddprun */
    return words;
}

const char *const scout_sets[] = {"plan",         "by",      "yes",      "slow",        "unproved",
                                  "max-restarts", "trace",   "progress", "metrics",     "summary-json",
                                  "page",         "verbose", "quiet",    "stop-on-nan", NULL};

pid_t
scout_child_start(const struct scout_order *order, const struct scout_child *child)
{
    static char date[64];
    const char *given = child->date != NULL ? child->date : getenv(FILES_ENV_DATE);
    if (date[0] == '\0') /* all runs, and those of other scouts of the day, draw the same */
        snprintf(date, sizeof(date), "%lld000000 0", (long long)time(NULL) / DAY_S * DAY_S);
    static unsigned runs;
    bool is_own = order->silent && getenv(DDPRUN_ENV_CHECK_FILES) == NULL;
    char files[PATH_MAX]; /* what a run writes that no user has started is discarded */
    snprintf(files, sizeof(files), "%s/files.%u", order->folder, runs++);
    const char *environment[][2] = {{child->variable, child->value},
                                    {FILES_ENV_DATE, given != NULL ? given : date},
                                    {is_own ? DDPRUN_ENV_CHECK_FILES : NULL, files},
                                    {NULL, NULL}};
    return inner_run_start(&(struct inner_start){.options = order->options,
                                                 .sets = scout_sets,
                                                 .words = options_of(child),
                                                 .summary = child->summary,
                                                 .program = order->program,
                                                 .errors = child->errors,
                                                 .environment = environment,
                                                 .old_mask = &order->old_mask});
}

/* Shows on the terminal how far the recording is. */
static void
show_progress(const struct scout_progress *progress)
{
    if (atomic_load(&progress->stage) == SCOUT_STAGE_DEEP)
        inner_run_show("scout: %llu of %llu operations, %llu repetitions; now %.60s",
                       (unsigned long long)atomic_load(&progress->deep),
                       (unsigned long long)atomic_load(&progress->wanted),
                       (unsigned long long)atomic_load(&progress->tests), progress->kernel);
    else
        inner_run_show("scout: %llu operations so far, and none repeat yet",
                       (unsigned long long)atomic_load(&progress->operations));
}

/* What the last periods that were recorded are. */
static enum scout_answer
judge_recording(const char *path)
{
    struct scout_log log;
    struct scout_finding finding;
    const char *why;
    if (!scout_log_open(path, &log, &why))
        return SCOUT_ANSWER_STEP;
    scout_find(&log, NULL, &finding);
    enum scout_answer answer = finding.feeds_back ? SCOUT_ANSWER_STEP : SCOUT_ANSWER_NO_STEP;
    if (finding.feeds_back && finding.is_unlike)
        answer = SCOUT_ANSWER_UNLIKE;
    scout_finding_free(&finding);
    scout_log_free(&log);
    return answer;
}

/* Answers the recorder, which waits. */
static void
answer_recorder(struct scout_progress *progress, struct scout_outcome *outcome)
{
    uint32_t asked = atomic_load(&progress->asked);
    if (asked == atomic_load(&progress->answered))
        return;
    enum scout_answer answer = judge_recording(outcome->log);
    outcome->refused = outcome->refused || answer == SCOUT_ANSWER_NO_STEP;
    outcome->unlike = outcome->unlike || answer == SCOUT_ANSWER_UNLIKE;
    atomic_store(&progress->answer, answer);
    atomic_store(&progress->answered, asked);
}

/* Stays with the run until it has ended: asks it to end when it, and those before it, take too long. */
static void
attend_program(const struct scout_order *order, struct scout_progress *progress, pid_t pid, int64_t begin_ms,
               struct scout_outcome *outcome)
{
    struct inner_run run = {.pid = pid, .begin_ms = begin_ms};
    int64_t repeat_limit_ms =
        (int64_t)(order->timeout_s / 2 < TRIAL_LIMIT_S ? order->timeout_s / 2 : TRIAL_LIMIT_S) * 1000;
    while (inner_run_goes_on(&run)) {
        int64_t repeat_ms = (int64_t)atomic_load(&progress->repeat_ms);
        bool over = atomic_load(&progress->stage) == SCOUT_STAGE_OVER;
        if (over)
            inner_run_show(NULL);
        else
            show_progress(progress);
        answer_recorder(progress, outcome);
        if (over && order->steps != 0 && inner_run_is_late(&run, order->timeout_s))
            inner_run_end(&run); /* it was to end by itself */
        if (over || run.asked_ms != 0)
            continue;
        outcome->hung = repeat_ms != 0 && clock_now_ms() - repeat_ms > repeat_limit_ms;
        outcome->late = !outcome->hung && inner_run_is_late(&run, order->timeout_s);
        if (outcome->hung || outcome->late)
            inner_run_end(&run);
    }
    inner_run_show(NULL);
    outcome->exit_code = run.code;
    outcome->signal = run.signal;
}

/* What the program wrote to stderr, without lines of its ddprun. */
static void
show_errors(const char *path)
{
    static const char ours[] = "ddprun: ";
    OWNED char *line = NULL;
    size_t room = 0;
    FILE *file = fopen(path, "re");
    while (file != NULL && getline(&line, &room, file) > 0) {
        if (strncmp(line, ours, strlen(ours)) != 0)
            fputs(line, stderr);
    }
    if (file != NULL)
        fclose(file);
}

/* One run of the program with the recorder in it, to its end; what came of it is in *outcome. False: it could not be
 * started. */
static bool
make_run(const struct scout_order *order, const struct scout_child *child, const struct scout_run_settings *settings,
         int64_t begin_ms, struct scout_outcome *outcome)
{
    outcome->runs += 1;
    outcome->hung = outcome->late = outcome->refused = outcome->unlike = false;
    (void)unlink(outcome->log); /* whose it was, and who could read it */
    (void)unlink(settings->progress);
    struct scout_progress *progress = direct_map(settings->progress, sizeof(*progress), true);
    pid_t pid = progress != NULL && direct_save(child->value, settings, sizeof(*settings))
                    ? scout_child_start(order, child)
                    : -1;
    if (pid > 0) {
        attend_program(order, progress, pid, begin_ms, outcome);
        memcpy(&outcome->progress, progress, sizeof(*progress));
        inner_run_reason(child->summary, outcome->reason, sizeof(outcome->reason));
        bool is_fault = progress->repeat_ms != 0 && outcome->signal == 0 && !outcome->late &&
                        (outcome->hung || outcome->exit_code != 0);
        outcome->failed = is_fault ? progress->launch : (struct scout_left_out){0};
        outcome->failed.hung = outcome->hung;
        if (!order->silent && !is_fault && !outcome->late && outcome->signal == 0)
            show_errors(child->errors);
    }
    if (progress != NULL)
        munmap(progress, sizeof(*progress));
    return pid > 0;
}

/* After a run that ended while a launch was made again: what is to be left out and said. False: nothing, or no more. */
static bool
leave_out(struct scout_outcome *outcome, struct scout_run_settings *settings)
{
    const struct scout_left_out *failed = &outcome->failed;
    const char *said = strstr(outcome->reason, outcome->progress.kernel);
    size_t used = strlen(outcome->left_out), i = 0;
    char text[256];
    while (i < SCOUT_LEFT_OUT_AT_MOST && settings->left_out[i].launch != 0)
        ++i;
    if (failed->launch == 0 || i == SCOUT_LEFT_OUT_AT_MOST)
        return false;
    settings->left_out[i] = *failed;
    if (said != NULL && !outcome->hung)
        snprintf(text, sizeof(text), "%.150s", said);
    else
        snprintf(text, sizeof(text), "%s %s when it was repeated with other %s", outcome->progress.kernel,
                 outcome->hung ? "did not end" : "ended the program",
                 failed->changed != SCOUT_CHANGED_INPUTS ? "integers" : "inputs");
    if (strstr(outcome->left_out, text) == NULL)
        snprintf(outcome->left_out + used, sizeof(outcome->left_out) - used, "%s%s", used > 0 ? "; " : "", text);
    return true;
}

bool
scout_run_make(const struct scout_order *order, struct scout_outcome *outcome, struct error *error)
{
    const char *kept = getenv("DDPRUN_TEST_RECORDING"); /* by tests, which read it */
    *outcome = (struct scout_outcome){.log = kept != NULL ? xstrdup(kept) : xasprintf("%s/scout.log", order->folder)};
    OWNED char *settings_path = xasprintf("%s/scout.run", order->folder),
               *summary = xasprintf("%s/scout.json", order->folder), *errors = xasprintf("%s/scout.err", order->folder);
    static struct scout_run_settings settings; /* large */
    settings = (struct scout_run_settings){.periods = order->steps > DEFAULT_PERIODS ? order->steps : DEFAULT_PERIODS,
                                           .goes_on = order->steps == 0};
    snprintf(settings.log, sizeof(settings.log), "%s", outcome->log);
    snprintf(settings.progress, sizeof(settings.progress), "%s/scout.progress", order->folder);
    const struct scout_child child = {.variable = DDPRUN_ENV_SCOUT_RUN,
                                      .value = settings_path,
                                      .ranks = 1,
                                      .silent = order->silent,
                                      .summary = summary,
                                      .errors = errors};
    int64_t begin_ms = clock_now_ms();
    bool ok;
    do
        ok = make_run(order, &child, &settings, begin_ms, outcome);
    while (ok && leave_out(outcome, &settings));
    if (!ok)
        (void)error_set(error, DDPRUN_EXIT_FAILURE,
                        "cannot start the program, in %s: %s; make room there, or set TMPDIR", order->folder,
                        strerror(errno));
    return ok;
}

bool
scout_run_again(const struct scout_order *order, const char *log, uint64_t operations, bool is_other)
{
    static struct scout_run_settings settings; /* large */
    struct scout_order quiet = *order;
    struct scout_outcome outcome = {.log = xstrdup(log)};
    OWNED char *settings_path = xasprintf("%s/again.run", order->folder),
               *summary = xasprintf("%s/again.json", order->folder), *errors = xasprintf("%s/again.err", order->folder),
               *date = xasprintf("%lld000000 0", (long long)time(NULL) / DAY_S * DAY_S + OTHER_DATE_S);
    settings = (struct scout_run_settings){.periods = DEFAULT_PERIODS, .ends_after = operations};
    snprintf(settings.log, sizeof(settings.log), "%s", log);
    snprintf(settings.progress, sizeof(settings.progress), "%s/again.progress", order->folder);
    const struct scout_child child = {.variable = DDPRUN_ENV_SCOUT_RUN,
                                      .value = settings_path,
                                      .ranks = 1,
                                      .silent = true,
                                      .summary = summary,
                                      .errors = errors,
                                      .date = is_other ? date : NULL};
    quiet.silent = true;
    bool ok = make_run(&quiet, &child, &settings, clock_now_ms(), &outcome) && outcome.exit_code == 0 &&
              outcome.progress.stage == SCOUT_STAGE_OVER;
    free(outcome.log);
    return ok;
}

/* "K (net.cu:31)" */
static void
name_call(const struct scout_log *log, struct sites *sites, uint32_t op, char *text, size_t room)
{
    char name[SCOUT_NAME_BYTES], place[128];
    snprintf(text, room, "%s (%s)", scout_op_name(log, &log->ops[op], name),
             sites_text(sites, log->ops[op].site, place, sizeof(place)));
}

/* Where steps part. False: nowhere, as far as the recording shows. */
static bool
parting_text(const char *path, char *text, size_t room)
{
    struct scout_log log;
    struct parting parting;
    char calls[3][256], read[256] = "";
    const char *why;
    if (!scout_log_open(path, &log, &why))
        return false;
    const bool is_found = parting_find(&log, &parting);
    if (is_found) {
        struct sites *sites = sites_open(&log);
        name_call(&log, sites, parting.op, calls[0], sizeof(calls[0]));
        name_call(&log, sites, parting.one, calls[1], sizeof(calls[1]));
        name_call(&log, sites, parting.other, calls[2], sizeof(calls[2]));
        if (parting.read != UINT32_MAX)
            name_call(&log, sites, parting.read, read, sizeof(read));
        snprintf(text, room,
                 "steps are of several kinds: after %s comes sometimes %s, sometimes %s%s%s; scout steps of one kind, "
                 "with a constant in place of what the host decides by, or annotate by hand",
                 calls[0], calls[1], calls[2], read[0] != '\0' ? "; the host reads results by " : "", read);
        sites_close(sites);
    }
    scout_log_free(&log);
    return is_found;
}

/* Which operation differs from step to step, if that is known, and how; else what is needed. */
static const char *
needs_text(const struct scout_outcome *outcome, char *text, size_t room)
{
    static const char *const words[] = {[SCOUT_VARIES_IN_NUMBER] = "the number of",
                                        [SCOUT_VARIES_IN_SIZE] = "the size of",
                                        [SCOUT_VARIES_IN_PLACE] = "the memory of"};
    const struct scout_progress *progress = &outcome->progress;
    struct scout_log log;
    const char *why;
    if (progress->varies == SCOUT_VARIES_NOT && parting_text(outcome->log, text, room))
        return text;
    if (progress->varies == SCOUT_VARIES_NOT || !scout_log_open(outcome->log, &log, &why))
        return "at least six steps are needed, twelve if their sizes vary, with the same launches and copies";
    struct sites *sites = sites_open(&log);
    char place[256];
    snprintf(text, room, "%s %s at %s differs from step to step; make it the same in each step",
             words[progress->varies], progress->varying,
             sites_text(sites, progress->varying_site, place, sizeof(place)));
    sites_close(sites);
    scout_log_free(&log);
    return text;
}

bool
scout_run_judge(const struct scout_order *order, const struct scout_outcome *outcome, struct error *error)
{
    int code = DDPRUN_EXIT_FAILURE;
    char needs[1536];
    if (outcome->signal != 0)
        return error_set(error, 128 + outcome->signal, "scout ended by signal %d", outcome->signal);
    if (outcome->failed.launch != 0)
        return error_set(error, code, "launches ended each of %u runs when they were repeated: %s", outcome->runs,
                         outcome->left_out);
    if ((outcome->refused || outcome->unlike) && (outcome->late || outcome->exit_code == 0))
        return true; /* what was recorded has a reason */
    if (outcome->late && outcome->progress.stage != SCOUT_STAGE_DEEP)
        return error_set(error, code,
                         "the program made %llu operations in %u s and repeated nothing three times; raise --timeout, "
                         "or give it less to do in a step",
                         (unsigned long long)outcome->progress.operations, order->timeout_s);
    if (outcome->late)
        return error_set(error, code, "recording took longer than %u s (%llu of %llu operations); raise --timeout",
                         order->timeout_s, (unsigned long long)outcome->progress.deep,
                         (unsigned long long)outcome->progress.period * DEFAULT_PERIODS);
    if (outcome->progress.stage == SCOUT_STAGE_OVER)
        return true;
    if (outcome->exit_code != 0 && outcome->reason[0] == '\0')
        return error_set(error, code, "in %.300s is no report of the program; make room there, or set TMPDIR",
                         order->folder);
    if (outcome->exit_code != 0)
        return error_set(error, outcome->exit_code == DDPRUN_EXIT_NOT_RUN ? DDPRUN_EXIT_NOT_RUN : code, "%s",
                         outcome->reason);
    if (outcome->progress.stage == SCOUT_STAGE_NONE || outcome->progress.operations == 0)
        return error_set(error, code,
                         "the program ended without a use of CUDA that ddprun can see; look for a problem with ddprun "
                         "doctor");
    if (outcome->progress.stage == SCOUT_STAGE_LIGHT)
        return error_set(error, code, "the program ended after %llu operations and repeated nothing three times: %s",
                         (unsigned long long)outcome->progress.operations, needs_text(outcome, needs, sizeof(needs)));
    return error_set(error, code,
                     "the program ended before %d periods were recorded (%llu of %llu operations); give it more steps",
                     DEFAULT_PERIODS, (unsigned long long)outcome->progress.deep,
                     (unsigned long long)outcome->progress.period * DEFAULT_PERIODS);
}
