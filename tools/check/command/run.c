/* run.c - see session.h. */
#include "tools/check/command/session.h"

#include "base/clock.h"
#include "launcher/start/environment.h"
#include "tools/check/command/check.h"
#include "tools/common/direct.h"
#include "tools/common/inner_run.h"
#include "tools/common/owned.h"
#include "tools/common/tool_options.h"
#include "tools/plan/format/play.h"
#include "tools/sandbox/files.h"

#include <json-c/json.h>
#include <sys/stat.h>

/* ---- its command ---- */

/* ddprun's options for an inner run, as the order asks. The caller owns the words. */
static struct word_list
options_of(const struct check_place *place, const struct check_order *order)
{
    struct word_list words = {0};
    unsigned hang_s = place->step_limit_s < 122 ? place->step_limit_s - place->step_limit_s / 8 : 120;
    if (place->options->hang_timeout_s == OPTIONS_DEFAULT_HANG_TIMEOUT_S) /* of two limits, the one that names places */
        word_list_add(&words, xasprintf("--hang-timeout=%u", hang_s > 0 ? hang_s : 1));
    if (order->ranks > 0)
        word_list_add(&words, xasprintf("--ranks=%d", order->ranks));
    if (order->plain)
        word_list_add(&words, xstrdup("--no-overlap"));
    if (order->dry)
        word_list_add(&words, xstrdup("--dry-run"));
    if (!place->options->verbose)
        word_list_add(&words, xasprintf("--output=files=%s/%s.output", place->folder, order->name));
    return words;
}

/* ---- its process ---- */

char *
check_run_files(const struct check_place *place, const struct check_order *order)
{
    bool is_here = place->shared == NULL && order->lists_files;
    return is_here ? xasprintf("%s/%s.files", place->folder, order->name) : NULL;
}

/* Starts an inner ddprun for the order, with the paths of its settings, its summary and its log of errors. Returns its
 * process id; 0 or less: it could not be started. */
static pid_t
start_run(const struct check_place *place, const struct check_order *order, const char *settings, const char *summary,
          const char *log)
{
    char date[64], turns[16];
    OWNED char *written = check_run_files(place, order);
    snprintf(date, sizeof(date), "%lld %d %d", (long long)place->date_us, order->ahead, place->date_stands);
    snprintf(turns, sizeof(turns), "%d", order->turns);
    const char *environment[5][2] = {{DDPRUN_ENV_CHECK_RUN, settings}, {FILES_ENV_DATE, date}};
    size_t count = 2;
    if (order->turns > 0)
        memcpy(environment[count++], (const char *[]){DDPRUN_ENV_PLAN_TURNS, turns}, sizeof(*environment));
    if (written != NULL)
        memcpy(environment[count++], (const char *[]){DDPRUN_ENV_CHECK_FILES, written}, sizeof(*environment));
    return inner_run_start(&(struct inner_start){.options = place->options,
                                                 .sets = check_sets,
                                                 .one_rank = order->ranks == 1,
                                                 .words = options_of(place, order),
                                                 .summary = summary,
                                                 .program = order->arguments,
                                                 .errors = place->options->verbose && !order->dry ? NULL : log,
                                                 .output = true,
                                                 .environment = environment,
                                                 .old_mask = &place->old_mask});
}

/* Rows so far of the first rank that is here; they grow with each step. */
static off_t
rows_bytes(const char *results)
{
    char path[PATH_MAX];
    struct stat file;
    snprintf(path, sizeof(path), "%s-0", results);
    return stat(path, &file) == 0 ? file.st_size : 0;
}

/* The step of the last of these rows; 0: of no step. */
static uint32_t
read_step(const char *results, off_t bytes)
{
    char path[PATH_MAX];
    struct check_row last;
    const off_t count = bytes / (off_t)sizeof(last);
    snprintf(path, sizeof(path), "%s-0", results);
    OWNED_FD int fd = open_direct(path, O_RDONLY | O_CLOEXEC, 0);
    const bool is_read =
        count > 0 && fd >= 0 && direct_read(fd, &last, sizeof(last), (count - 1) * (off_t)sizeof(last));
    return is_read ? last.step : 0;
}

enum { LOOK_EACH_MS = 100 };

/* What is compared, and how far it is. `step`: the last one that is known. */
static void
show_course(const struct check_place *place, const struct check_order *order, uint32_t step)
{
    const long long passed_s = (clock_now_ms() - place->begin_ms) / 1000;
    char at[64] = "before the first step", *total = at;
    if (step > 0)
        total += snprintf(at, sizeof(at), "step %u", step);
    if (step > 0 && !order->run.chooses_steps)
        snprintf(total, sizeof(at) - (size_t)(total - at), " of %u", order->run.steps);
    inner_run_show("check: %s, %s, %lld s: %s", order->number, at, passed_s, order->title);
}

/* Stays with the run until it has ended: asks it to end when no step comes. */
static void
attend_program(const struct check_place *place, const struct check_order *order, pid_t pid,
               struct check_outcome *outcome)
{
    struct inner_run run = {.pid = pid, .begin_ms = clock_now_ms(), .look_each_ms = LOOK_EACH_MS};
    uint32_t step = 0;
    for (off_t seen = 0, bytes; inner_run_goes_on(&run); seen = bytes) {
        bytes = rows_bytes(outcome->results);
        if (bytes != seen)
            run.begin_ms = clock_now_ms();
        const uint32_t last = read_step(outcome->results, bytes);
        step = last > step ? last : step;
        if (order->number != NULL)
            show_course(place, order, step);
        if (inner_run_is_late(&run, place->step_limit_s)) {
            outcome->late = true;
            inner_run_end(&run);
        }
    }
    inner_run_show(NULL);
    outcome->exit_code = run.code;
    outcome->signal = run.signal;
}

/* ---- what it says of itself ---- */

/* Whether a rank ended by itself, and not well. ddprun ends ranks by SIGTERM and SIGKILL. */
static bool
has_failed_rank(struct json_object *ranks)
{
    for (size_t i = 0; i < json_object_array_length(ranks); ++i) {
        struct json_object *rank = json_object_array_get_idx(ranks, i), *code, *signal;
        json_object_object_get_ex(rank, "exit_code", &code);
        json_object_object_get_ex(rank, "signal", &signal);
        const char *name = signal != NULL ? json_object_get_string(signal) : NULL;
        if ((code != NULL && json_object_get_int(code) != 0) ||
            (name != NULL && strcmp(name, "KILL") != 0 && strcmp(name, "TERM") != 0))
            return true;
    }
    return false;
}

/* Whether a summary's list of warnings has this key. */
static bool
has_warning(struct json_object *warnings, const char *wanted)
{
    struct json_object *key;
    return ANY_NUMBER(i, 0, json_object_array_length(warnings),
                      json_object_object_get_ex(json_object_array_get_idx(warnings, i), "key", &key) &&
                          strcmp(json_object_get_string(key), wanted) == 0);
}

/* Takes from the inner run's summary why it ended, and what its ranks were warned of. Without a summary *outcome
 * stays. */
static void
read_summary(const char *path, struct check_outcome *outcome)
{
    struct json_object *summary = json_object_from_file(path), *member;
    if (summary == NULL)
        return;
    if (json_object_object_get_ex(summary, "reason", &member) && json_object_get_string(member) != NULL)
        snprintf(outcome->reason, sizeof(outcome->reason), "%s", json_object_get_string(member));
    if (json_object_object_get_ex(summary, "each_rank", &member))
        outcome->program_failed = has_failed_rank(member);
    if (json_object_object_get_ex(summary, "warnings", &member)) {
        outcome->is_same_data = has_warning(member, "duplicate_gradients"); /* verify/duplicate_batch.c */
        outcome->reads_stdin = has_warning(member, "stdin_read");           /* launcher/output/terminal_input.c */
    }
    if (json_object_object_get_ex(summary, "overlapped_steps", &member))
        outcome->overlapped_steps = (uint64_t)json_object_get_int64(member);
    json_object_put(summary);
}

bool
check_run_make(const struct check_place *place, const struct check_order *order, struct check_outcome *outcome,
               struct error *error)
{
    *outcome = (struct check_outcome){.exit_code = 0};
    outcome->results = place->shared != NULL ? xasprintf("%s.%s", place->shared, order->name)
                                             : xasprintf("%s/%s.rows", place->folder, order->name);
    OWNED char *settings = xasprintf("%s/%s.run", place->folder, order->name);
    OWNED char *summary = xasprintf("%s/%s.json", place->folder, order->name);
    OWNED char *log = xasprintf("%s/%s.log", place->folder, order->name);
    struct check_run run = order->run;
    snprintf(run.results, sizeof(run.results), "%s", outcome->results);
    pid_t pid = direct_save(settings, &run, sizeof(run)) ? start_run(place, order, settings, summary, log) : -1;
    if (pid > 0) {
        attend_program(place, order, pid, outcome);
        read_summary(summary, outcome);
        if (outcome->exit_code != 0)
            inner_log_read(log, outcome->reason, sizeof(outcome->reason));
    } else {
        (void)error_set(error, DDPRUN_EXIT_FAILURE,
                        "cannot start a run of the check, in %s: %s; make room there, or set TMPDIR", place->folder,
                        strerror(errno));
    }
    unlink(settings);
    unlink(summary);
    return pid > 0;
}

/* ---- after a failure ---- */

void
check_run_show(const struct check_place *place, const struct check_order *order)
{
    if (place->options->verbose)
        return;
    for (int rank = 0; rank < (order->ranks > 0 ? order->ranks : 1); ++rank) {
        OWNED char *errors = xasprintf("%s/%s.output/rank-%d.err", place->folder, order->name, rank);
        if (inner_log_show_end(errors))
            return;
    }
}
