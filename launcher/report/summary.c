/*
 * summary.c - see summary.h.
 */
#include "launcher/report/summary.h"

#include "base/protocol.h"
#include "launcher/common/xcalloc.h"
#include "launcher/options/option_table.h"
#include "launcher/output/whole_file.h"
#include "launcher/report/closing.h"
#include "launcher/watch/nonfinite.h"
#include "launcher/watch/pace.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void
add_number(struct json_object *object, const char *name, uint64_t value)
{
    json_object_object_add(object, name, json_object_new_uint64(value));
}

/* How many bytes the sequence of UTF-8 at `text` has; 0: invalid UTF-8 (RFC 3629, section 4). */
static size_t
sequence_at(const unsigned char *text)
{
    unsigned char first = text[0], low = 0x80, high = 0xbf;
    size_t more = first < 0x80 ? 0 : first >= 0xc2 && first <= 0xdf ? 1 : (first & 0xf0) == 0xe0 ? 2 : 3;
    if ((first >= 0x80 && first < 0xc2) || first > 0xf4)
        return 0;
    low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : low;
    high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : high;
    for (size_t i = 1; i <= more; ++i, low = 0x80, high = 0xbf) {
        if (text[i] < low || text[i] > high) /* the end of the text too */
            return 0;
    }
    return 1 + more;
}

/* JSON is UTF-8; a rank's words may be anything, and cut anywhere. */
static struct json_object *
new_string(const char *text)
{
    char *copy = xstrdup(text);
    for (char *at = copy; *at != '\0';) {
        size_t bytes = sequence_at((const unsigned char *)at);
        if (bytes == 0)
            *at = '?';
        at += bytes > 0 ? bytes : 1;
    }
    struct json_object *string = json_object_new_string(copy);
    free(copy);
    return string;
}

static void
add_text(struct json_object *object, const char *name, const char *text)
{
    json_object_object_add(object, name, text != NULL && text[0] != '\0' ? new_string(text) : NULL);
}

/* JSON has no infinities and no NaN: these are null. */
static void
add_real(struct json_object *object, const char *name, double value)
{
    json_object_object_add(object, name, isfinite(value) ? json_object_new_double(value) : NULL);
}

/* What was measured, with five digits, and as a number with a fraction also if that is 0. */
static void
add_measured(struct json_object *object, const char *name, double value)
{
    char text[32];
    snprintf(text, sizeof(text), "%.5g", value);
    if (strpbrk(text, ".e") == NULL)
        snprintf(text + strlen(text), sizeof(text) - strlen(text), ".0");
    json_object_object_add(object, name, isfinite(value) ? json_object_new_double_s(value, text) : NULL);
}

static double
ms_of(uint64_t ns, bool known)
{
    return known ? (double)ns * 1e-6 : NAN;
}

/* One rank: where it was, how far it came, how it ended. */
static struct json_object *
describe_rank(const struct rank_view *rank, int number)
{
    struct json_object *object = json_object_new_object();
    bool exited = rank->ended && rank->signal == 0;
    const char *name = rank->signal != 0 ? sigabbrev_np(rank->signal) : NULL;
    add_number(object, "rank", (uint64_t)number);
    add_text(object, "host", rank->host);
    json_object_object_add(object, "pid", rank->pid > 0 ? json_object_new_int(rank->pid) : NULL);
    add_text(object, "gpu", rank->gpu);
    add_number(object, "steps", rank->step);
    add_measured(object, "waited_ms", ms_of(rank->exposed_ns, rank->exposed_count > 0));
    json_object_object_add(object, "exit_code", exited ? json_object_new_int(rank->exit_code) : NULL);
    add_text(object, "signal", name);
    return object;
}

static struct json_object *
describe_means(const struct rank_view *rank)
{
    struct json_object *means = json_object_new_array();
    for (unsigned i = 0; i < rank->mean_count; ++i) {
        struct json_object *mean = json_object_new_object();
        add_text(mean, "name", rank->means[i].name);
        add_text(mean, "place", rank->means[i].place);
        add_number(mean, "step", rank->means[i].step);
        add_real(mean, "value", rank->means[i].value);
        json_object_array_add(means, mean);
    }
    return means;
}

/* As the closing lines say it. */
static void
add_pace(struct json_object *object, const struct summary *summary)
{
    struct pace pace = pace_of(summary->ranks, summary->rank_count);
    bool known = pace.count > 0;
    add_measured(object, "steps_per_second", pace.steps_per_s > 0.0 ? pace.steps_per_s : NAN);
    add_measured(object, "items_per_second", pace.items_per_s > 0.0 ? pace.items_per_s : NAN);
    add_measured(object, "exposed_ms", ms_of(pace.exposed_ns, known));
    add_measured(object, "exposed_bound_ms", ms_of(pace.bound_ns, known && pace.bound_ns != UINT64_MAX));
    uint64_t planned_ns = summary->ranks[0].exposed_planned_ns;
    add_measured(object, "exposed_planned_ms", ms_of(planned_ns, known && planned_ns != UINT64_MAX));
    add_measured(object, "slowed_ms", ms_of(summary->ranks[0].slowed_ns, summary->ranks[0].trial_count > 0));
    add_measured(object, "waiting_ms", ms_of(pace.waiting_ns, pace.waiting_ns != UINT64_MAX));
    json_object_object_add(object, "waited_for", pace.straggler >= 0 ? json_object_new_int(pace.straggler) : NULL);
    add_number(object, "measured_steps", pace.count);
    json_object_object_add(object, "first_measured",
                           pace.first_step > 0 ? json_object_new_uint64(pace.first_step) : NULL);
    json_object_object_add(object, "last_measured",
                           pace.first_step > 0 ? json_object_new_uint64(pace.last_step) : NULL);
}

/* The first infinite element or NaN, if parameters have kept it, or the job has failed. */
static struct json_object *
describe_nonfinite(const struct summary *summary)
{
    struct nonfinite_first first = nonfinite_first(summary->ranks, summary->rank_count);
    if (first.rank < 0 || !(first.stays || summary->exit_code != 0))
        return NULL;
    struct json_object *object = json_object_new_object();
    json_object_object_add(object, "rank", json_object_new_int(first.rank));
    json_object_object_add(object, "ranks", json_object_new_int(first.ranks));
    add_number(object, "step", summary->ranks[first.rank].nonfinite_step);
    add_text(object, "what", summary->ranks[first.rank].nonfinite_what);
    return object;
}

/* That all ranks have made. */
static uint64_t
least_steps(const struct summary *summary)
{
    uint64_t steps = summary->ranks[0].step;
    for (int i = 1; i < summary->rank_count; ++i)
        steps = summary->ranks[i].step < steps ? summary->ranks[i].step : steps;
    return steps;
}

static struct json_object *
describe_attempt(const struct summary *summary)
{
    char reason[200] = "";
    struct json_object *attempt = json_object_new_object();
    if (summary->reason != NULL)
        snprintf(reason, sizeof(reason), "%.*s", (int)strcspn(summary->reason, "\n"), summary->reason);
    json_object_object_add(attempt, "exit_code", json_object_new_int(summary->exit_code));
    add_text(attempt, "reason", reason);
    add_measured(attempt, "seconds", summary->seconds);
    add_number(attempt, "steps", least_steps(summary));
    return attempt;
}

enum { ATTEMPTS_KEPT = 100 };

static struct json_object *
describe_attempts(const struct summary *summary)
{
    struct json_object *all = summary->attempts != NULL ? json_tokener_parse(summary->attempts) : NULL;
    if (all == NULL || !json_object_is_type(all, json_type_array)) {
        json_object_put(all);
        all = json_object_new_array();
    }
    if (summary->rank_count > 0)
        json_object_array_add(all, describe_attempt(summary));
    size_t count = json_object_array_length(all);
    if (count > ATTEMPTS_KEPT)
        json_object_array_del_idx(all, 0, count - ATTEMPTS_KEPT);
    return all;
}

char *
summary_attempts(const struct summary *summary)
{
    struct json_object *all = describe_attempts(summary);
    char *text = xstrdup(json_object_to_json_string_ext(all, JSON_C_TO_STRING_PLAIN));
    json_object_put(all);
    return text;
}

struct json_object *
summary_describe(const struct summary *summary)
{
    const struct rank_view *first = &summary->ranks[0];
    uint64_t steps = least_steps(summary), overlapped = first->overlapped_step;
    for (int i = 1; i < summary->rank_count; ++i) {
        overlapped = summary->ranks[i].overlapped_step < overlapped ? summary->ranks[i].overlapped_step : overlapped;
    }
    char hash[24], nccl[32];
    snprintf(hash, sizeof(hash), "%016" PRIx64, first->parameter_hash);
    bool batch = first->shard_total > 0 && first->shard_total != UINT64_MAX;

    struct json_object *object = json_object_new_object(), *each = json_object_new_array();
    json_object_object_add(object, "ddprun_version", json_object_new_string(DDPRUN_VERSION));
    add_text(object, "nccl_version", first->nccl_version != 0 ? verbose_nccl_text(first->nccl_version, nccl) : NULL);
    json_object_object_add(object, "exit_code", json_object_new_int(summary->exit_code));
    add_text(object, "reason", summary->reason);
    json_object_object_add(object, "ranks", json_object_new_int(summary->rank_count));
    add_measured(object, "seconds", summary->seconds);
    add_number(object, "restarts", summary->restarts);
    json_object_object_add(object, "attempts", describe_attempts(summary));
    add_number(object, "trainings", first->generation + (first->stage >= RANK_STAGE_RANK ? 1U : 0U));
    add_number(object, "steps", steps);
    add_number(object, "overlapped_steps", overlapped);
    json_object_object_add(object, "overlap_off_step",
                           first->overlap_off_step > 0 ? json_object_new_uint64(first->overlap_off_step) : NULL);
    add_number(object, "graph_steps", first->graph_step);
    bool turns = first->batch_count > 0;
    json_object_object_add(object, "batches", turns ? json_object_new_uint64(first->batch_count) : NULL);
    json_object_object_add(object, "batches_per_step", turns ? json_object_new_int(summary->rank_count) : NULL);
    json_object_object_add(object, "batch_per_pass", batch ? json_object_new_uint64(first->shard_total) : NULL);
    add_number(object, "gradients",
               first->gradient_count - first->averaged_parameter_count - first->averaged_state_count);
    add_number(object, "averaged_parameters", first->averaged_parameter_count);
    add_number(object, "averaged_states", first->averaged_state_count);
    add_number(object, "gradient_bytes", first->gradient_bytes);
    add_number(object, "gradient_elements", first->gradient_elements);
    add_number(object, "parameter_elements", first->parameter_elements);
    add_number(object, "buckets", first->bucket_count);
    add_number(object, "reduce_calls", first->reduce_count);
    add_number(object, "reduce_bytes", first->reduce_bytes);
    add_number(object, "frees_in_backward", first->frees_amid);
    add_number(object, "loads_in_backward", first->loads_amid);
    add_pace(object, summary);
    json_object_object_add(object, "nonfinite", describe_nonfinite(summary));
    add_number(object, "comparisons", first->check_count);
    add_text(object, "parameter_hash", first->check_count > 0 ? hash : NULL);
    json_object_object_add(object, "means", describe_means(first));
    for (int i = 0; i < summary->rank_count; ++i)
        json_object_array_add(each, describe_rank(&summary->ranks[i], i));
    json_object_object_add(object, "each_rank", each);
    return object;
}

struct side_file
summary_file(const char *path)
{
    return (struct side_file){.path = path, .option = "--summary-json", .loss = "the summary is lost"};
}

void
summary_write(struct side_file *file, const struct summary *summary)
{
    if (file->path == NULL)
        return;
    struct json_object *object = summary_describe(summary);
    char *text =
        xasprintf("%s\n", json_object_to_json_string_ext(object, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED |
                                                                     JSON_C_TO_STRING_NOSLASHESCAPE));
    side_file_write(file, text);
    free(text);
    json_object_put(object);
}

void
summary_write_refused(const char *path, const struct error *error)
{
    struct error ignored; /* that the file cannot be written may be the very error */
    if (path == NULL || !whole_file_check(path, "--summary-json", &ignored))
        return;
    struct side_file file = summary_file(path);
    struct rank_view *no_rank = xcalloc(1, sizeof(*no_rank));
    struct summary summary = {.ranks = no_rank, .exit_code = error->exit_code, .reason = error->text};
    summary_write(&file, &summary);
    side_file_look(&file, true);
    free(no_rank);
}

/* ---- in a trace ---- */

static void
set(struct json_object *settings, const char *name, const char *value)
{
    json_object_object_add(settings, name, json_object_new_string(value));
}

/* As they were in force, wherever they came from; by the names of the options, "overlap" for "no-overlap". */
static struct json_object *
describe_settings(const struct options *options)
{
    enum { DIGITS = 6 };
    struct json_object *settings = json_object_new_object();
    for (const struct option_row *row = option_rows; row->name != NULL; ++row) {
        char text[JOB_PATH_BYTES];
        bool is_set = option_is_set(row, options);
        if ((row->flags & TRACED) == 0)
            continue;
        if (row->kind == OPTION_UNSWITCH) {
            set(settings, row->name + strlen("no-"), is_set ? "off" : "on");
        } else if (is_set || row->kind == OPTION_SWITCH) {
            option_value_text(row, options, DIGITS, text, sizeof(text));
            set(settings, row->name, text);
        } else if (row->usual != NULL) {
            set(settings, row->name, row->usual);
        }
    }
    return settings;
}

static struct json_object *
describe_arguments(char *const *words)
{
    struct json_object *arguments = json_object_new_array();
    for (; *words != NULL; ++words)
        json_object_array_add(arguments, json_object_new_string(*words));
    return arguments;
}

/* A trace that was begun since: of an attempt after a restart, the file begins with those before. */
static bool
is_of_this_job(int fd, int64_t begun_unix_ns, const struct summary *summary)
{
    enum { HEAD_BYTES = 1024 };
    char head[HEAD_BYTES] = "";
    long long unix_ns;
    ssize_t bytes = pread(fd, head, sizeof(head) - 1, 0);
    const char *time = bytes > 0 && strncmp(head, "{\"ddprun_trace\":", 16) == 0 ? strstr(head, "\"unix_ns\":") : NULL;
    if (time == NULL || sscanf(time, "\"unix_ns\":%lld", &unix_ns) != 1)
        return false;
    return summary->restarts > 0 || unix_ns >= begun_unix_ns;
}

static bool
add_line(int fd, const struct summary *summary, const struct options *options)
{
    const char *program = options->program[0], *slash = strrchr(program, '/');
    struct json_object *line = json_object_new_object();
    json_object_object_add(line, "summary", summary_describe(summary));
    json_object_object_add(line, "settings", describe_settings(options));
    set(line, "program", slash != NULL ? slash + 1 : program);
    if (options->trace_args)
        json_object_object_add(line, "arguments", describe_arguments(options->program + 1));
    char *text = xasprintf("%s\n", json_object_to_json_string_ext(line, JSON_C_TO_STRING_PLAIN));
    size_t bytes = strlen(text);
    bool written = write(fd, text, bytes) == (ssize_t)bytes;
    free(text);
    json_object_put(line);
    return written;
}

int
trace_summary_add(const void *data)
{
    const struct trace_summary *trace = data;
    struct stat file;
    char *path = xasprintf("%s/rank-0.jsonl", trace->options->job.trace_dir);
    int fd = open(path, O_RDWR | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC), cause = 0;
    if (fd >= 0 && fstat(fd, &file) == 0 && S_ISREG(file.st_mode) &&
        is_of_this_job(fd, trace->begun_unix_ns, trace->summary) && !add_line(fd, trace->summary, trace->options))
        cause = errno;
    if (fd >= 0)
        close(fd);
    free(path);
    return cause;
}
