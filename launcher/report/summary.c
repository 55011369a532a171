/* summary.c - see summary.h. */
#include "launcher/report/summary.h"

#include "base/clock.h"
#include "base/message.h"
#include "base/printable.h"
#include "base/protocol.h"
#include "launcher/common/xcalloc.h"
#include "launcher/options/option_table.h"
#include "launcher/output/whole_file.h"
#include "launcher/report/closing.h"
#include "launcher/watch/pace.h"
#include "launcher/watch/verdict.h"

#include <errno.h>
#include <fcntl.h>
#include <json-c/json.h>
#include <math.h>
#include <signal.h>
#include <sys/stat.h>
#include <time.h>

enum { TIME_BYTES = 32 };

static void
add_count(struct json_object *object, const char *name, uint64_t value)
{
    json_object_object_add(object, name, json_object_new_uint64(value));
}

/* JSON is UTF-8, and escapes controls; a rank's words may be anything, and cut anywhere. */
static struct json_object *
new_string(const char *text)
{
    static const char controls[] = "\001\002\003\004\005\006\a\b\t\n\v\f\r\016\017\020\021\022\023\024\025\026\027\030"
                                   "\031\032\033\034\035\036\037\177";
    char *copy = xstrdup(text);
    printable_make(copy, controls);
    struct json_object *string = json_object_new_string(copy);
    free(copy);
    return string;
}

static void
add_text(struct json_object *object, const char *name, const char *text)
{
    json_object_object_add(object, name, text != NULL && text[0] != '\0' ? new_string(text) : NULL);
}

/* What was measured, with more digits than other outputs print, as a number with a fraction also if it is 0. */
static void
add_real(struct json_object *object, const char *name, double value)
{
    char text[32];
    snprintf(text, sizeof(text), "%.7g", value);
    if (strpbrk(text, ".e") == NULL)
        snprintf(text + strlen(text), sizeof(text) - strlen(text), ".0");
    json_object_object_add(object, name, isfinite(value) ? json_object_new_double_s(value, text) : NULL);
}

static void
add_some(struct json_object *object, const char *name, uint64_t value)
{
    json_object_object_add(object, name, value > 0 ? json_object_new_uint64(value) : NULL);
}

static void
add_index(struct json_object *object, const char *name, int value)
{
    json_object_object_add(object, name, value >= 0 ? json_object_new_int(value) : NULL);
}

static void
add_ns(struct json_object *object, const char *name, uint64_t value)
{
    add_real(object, name, value != UINT64_MAX ? (double)value * 1e-6 : NAN);
}

/* Why ddprun has killed it after a signal. */
static const char *
killed_text(unsigned why)
{
    static const char *const texts[] = {
        [RANK_KILLED_NOT] = NULL, [RANK_KILLED_WAITING] = "waiting", [RANK_KILLED_LATE] = "grace"};
    return why < sizeof(texts) / sizeof(texts[0]) ? texts[why] : NULL;
}

/* One rank: where it was, how far it came, what it waited, how it ended. */
static struct json_object *
describe_rank(const struct rank_view *rank, int number, const struct pace *pace, const struct rank_waits *waits)
{
    double waiting_ns = pace->waiting_ns != UINT64_MAX ? waits->sum / (double)pace->sums.count : NAN;
    double step_ns = (double)rank->timed_ns / (double)rank->timed_steps; /* by the device, as in pace.c */
    bool is_timed = rank->timed_steps > 0 && 2 * rank->timed_steps + rank->training_step >= rank->step;
    struct json_object *object = json_object_new_object();
    add_count(object, "rank", (uint64_t)number);
    add_text(object, "host", rank->host);
    add_some(object, "pid", rank->pid > 0 ? (uint64_t)rank->pid : 0);
    add_text(object, "gpu", rank->gpu);
    add_count(object, "steps", rank->step);
    add_ns(object, "step_ms", is_timed ? (uint64_t)llround(step_ns) : UINT64_MAX);
    add_real(object, "waited_ms", (pace->waited.exposed + waiting_ns) * 1e-6);
    add_real(object, "waiting_ms", waiting_ns * 1e-6);
    add_count(object, "last_steps", waits->last_count);
    add_index(object, "exit_code", rank->ended && rank->signal == 0 ? rank->exit_code : -1);
    add_text(object, "signal", rank->signal != 0 ? sigabbrev_np(rank->signal) : NULL);
    add_text(object, "killed", killed_text(rank->killed));
    add_text(object, "crash_place", rank->crash_place);
    add_text(object, "last_line", rank->last_line);
    return object;
}

static struct json_object *
describe_means(const struct rank_view *rank)
{
    struct json_object *means = json_object_new_array();
    for (unsigned i = 0; i < rank->mean_count; ++i) {
        struct json_object *mean = json_object_new_object();
        double value = rank->means[i].value;
        add_text(mean, "name", rank->means[i].name);
        add_text(mean, "place", rank->means[i].place);
        add_count(mean, "step", rank->means[i].step);
        json_object_object_add(mean, "value",
                               isfinite(value) ? json_object_new_double(value) : NULL); /* JSON has no infinities */
        json_object_array_add(means, mean);
    }
    return means;
}

/* The first infinite element or NaN, if parameters have kept it, or the job has failed. */
static struct json_object *
describe_nonfinite(const struct summary *summary)
{
    struct nonfinite_first first = nonfinite_first(summary->ranks, summary->rank_count);
    char text[NONFINITE_TEXT_BYTES];
    if (!nonfinite_text(summary->ranks, summary->rank_count, summary->exit_code != 0, text))
        return NULL;
    struct json_object *object = json_object_new_object();
    add_index(object, "rank", first.rank);
    add_index(object, "ranks", first.ranks);
    add_count(object, "step", summary->ranks[first.rank].nonfinite_step);
    add_text(object, "what", summary->ranks[first.rank].nonfinite_what);
    add_text(object, "text", text);
    return object;
}

/* NULL: no step was judged wrong. */
static struct json_object *
describe_last_right(const struct summary *summary)
{
    uint64_t step;
    if (!verdict_last_right(summary->ranks, summary->rank_count, &step))
        return NULL;
    return json_object_new_uint64(step);
}

/* `rank`: -1: of ddprun itself. */
static void
add_warnings(struct json_object *array, const struct warnings *warnings, int rank)
{
    for (int i = 0; i < WARNINGS_AT_MOST; ++i) {
        const struct warning *warning = &warnings->all[i];
        if (warning->count == 0)
            continue;
        struct json_object *object = json_object_new_object();
        add_text(object, "key", warning->key);
        add_index(object, "rank", rank);
        json_object_object_add(object, "step", rank >= 0 ? json_object_new_uint64(warning->step) : NULL);
        add_count(object, "count", warning->count);
        add_text(object, "text", warning->text);
        json_object_array_add(array, object);
    }
}

static uint64_t
count_of(const struct warnings *warnings)
{
    uint64_t count = 0;
    for (int i = 0; i < WARNINGS_AT_MOST; ++i)
        count += warnings->all[i].count;
    return count;
}

uint64_t
summary_nonfinite_step(const struct summary *summary)
{
    int rank = nonfinite_rank(summary->ranks, summary->rank_count, summary->exit_code > 0);
    return rank >= 0 ? summary->ranks[rank].nonfinite_step : 0;
}

uint64_t
summary_warning_count(const struct summary *summary)
{
    uint64_t count = count_of(message_warnings());
    for (int i = 0; i < summary->rank_count; ++i)
        count += count_of(&summary->ranks[i].warnings);
    return count;
}

static struct json_object *
describe_warnings(const struct summary *summary)
{
    struct json_object *array = json_object_new_array();
    for (int i = 0; i < summary->rank_count; ++i)
        add_warnings(array, &summary->ranks[i].warnings, i);
    add_warnings(array, message_warnings(), -1);
    return array;
}

static struct json_object *
describe_attempt(const struct summary *summary)
{
    struct json_object *attempt = json_object_new_object();
    char *reason = xstrdup(summary->reason != NULL ? summary->reason : "");
    reason[strcspn(reason, "\n")] = '\0';
    add_index(attempt, "exit_code", summary->exit_code);
    add_text(attempt, "reason", reason);
    free(reason);
    add_real(attempt, "seconds", summary->seconds);
    add_count(attempt, "steps", verdict_least_steps(summary->ranks, summary->rank_count));
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

static struct json_object *
describe_ranks(const struct summary *summary)
{
    struct json_object *each = json_object_new_array();
    struct rank_waits *waits = xcalloc((size_t)summary->rank_count + 1, sizeof(*waits));
    struct pace pace = pace_of(summary->ranks, summary->rank_count, waits);
    for (int i = 0; i < summary->rank_count; ++i)
        json_object_array_add(each, describe_rank(&summary->ranks[i], i, &pace, &waits[i]));
    free(waits);
    return each;
}

static struct json_object *
describe_noise_scale(const struct noise_scale *noise)
{
    char text[NOISE_TEXT_BYTES];
    if (noise->scale <= 0)
        return NULL;
    struct json_object *object = json_object_new_object();
    add_real(object, noise->in_items ? "items" : "batches", noise->scale);
    add_real(object, "spread", noise->spread);
    add_real(object, "batch", noise->batch);
    add_text(object, "text", noise_scale_text(noise, text));
    return object;
}

static struct json_object *
describe_words(char *const *words)
{
    struct json_object *list = json_object_new_array();
    for (; *words != NULL; ++words)
        json_object_array_add(list, new_string(*words));
    return list;
}

/* Of the trainer, without its name. */
static struct json_object *
describe_arguments(char *const *program)
{
    return program != NULL ? describe_words(program + 1) : json_object_new_array();
}

/* As ISO 8601 has it, in UTC. */
static const char *
time_text(int64_t unix_ns, char text[TIME_BYTES])
{
    time_t seconds = (time_t)(unix_ns / 1000000000);
    struct tm parts;
    if (gmtime_r(&seconds, &parts) == NULL || strftime(text, TIME_BYTES, "%Y-%m-%dT%H:%M:%SZ", &parts) == 0)
        text[0] = '\0';
    return text;
}

/* The figures of base/rank_fields.def, in their order; the caller's, for json_object_put(). */
static struct json_object *
summary_describe(const struct summary *job)
{
    const struct rank_view *first = &job->ranks[0];
    struct pace pace = pace_of(job->ranks, job->rank_count, NULL);
    char hash[24], nccl[32], times[2][TIME_BYTES];
    snprintf(hash, sizeof(hash), "%016" PRIx64, first->parameter_hash);
    struct json_object *object = json_object_new_object();
#define add_part                                 json_object_object_add
#define FIGURE(kind, key, value)                 add_##kind(object, key, value);
#define REPORTED(kind, key, metric, help, value) add_##kind(object, key, value);
#define SHOWN(type, name, when, key)             add_count(object, key, first->name);
#include "base/rank_fields.def"
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
            add_text(settings, row->name + strlen("no-"), is_set ? "off" : "on");
        } else if (is_set || row->kind == OPTION_SWITCH) {
            option_value_text(row, options, DIGITS, text, sizeof(text));
            add_text(settings, row->name, text);
        } else if (row->usual != NULL) {
            add_text(settings, row->name, row->usual);
        }
    }
    return settings;
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
    char folder[JOB_PATH_BYTES];
    int64_t begun_unix_ns = clock_unix_ns() - (int64_t)(1e9 * summary->seconds);
    struct json_object *line = json_object_new_object();
    json_object_object_add(line, "summary", summary_describe(summary));
    json_object_object_add(line, "settings", describe_settings(options));
    add_text(line, "program", file_name_of(options->program[0]));
    json_object_object_add(line, "arguments", describe_words(options->program)); /* the name is the first */
    add_text(line, "folder", getcwd(folder, sizeof(folder)));
    json_object_object_add(line, "begun_unix_ns", json_object_new_int64(begun_unix_ns));
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
