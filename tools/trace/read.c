/* read.c - see read.h. */
#include "tools/trace/read.h"

#include "base/printable.h"
#include "base/protocol.h"
#include "tools/common/direct.h"
#include "tools/common/grown.h"

#include <json-c/json.h>

#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <stdarg.h>
#include <sys/stat.h>

enum { DEEPEST = 8, MOST_REMARKS = 20 };

static void __attribute__((format(printf, 2, 3))) remark(struct trace *trace, const char *format, ...)
{
    char text[512];
    va_list arguments;
    if (trace->remark_count == MOST_REMARKS)
        return;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    printable_make(text, "");
    *GROWN(trace->remarks, trace->remark_count) = xstrdup(text);
}

/* ---- fields of a line ---- */

static bool
get(json_object *line, const char *key, enum json_type type, json_object **value_p)
{
    return json_object_object_get_ex(line, key, value_p) && json_object_is_type(*value_p, type);
}

static int64_t
whole(json_object *line, const char *key, int64_t absent)
{
    json_object *value;
    return get(line, key, json_type_int, &value) ? json_object_get_int64(value) : absent;
}

/* Not negative. */
static uint64_t
count_of(json_object *line, const char *key)
{
    int64_t value = whole(line, key, 0);
    return value > 0 ? (uint64_t)value : 0;
}

/* A time: nanoseconds of some clock, of which sums cannot overflow; 0: there is none. */
static int64_t
time_of(json_object *line, const char *key)
{
    int64_t ns = whole(line, key, 0);
    return ns > 0 && ns < INT64_C(1) << 61 ? ns : 0;
}

double
facts_number(json_object *object, const char *name)
{
    json_object *found;
    bool is_number = get(object, name, json_type_double, &found) || get(object, name, json_type_int, &found);
    double value = is_number ? json_object_get_double(found) : NAN;
    return isfinite(value) ? value : NAN;
}

/* Of at most a year of microseconds. */
static double
number(json_object *line, const char *key)
{
    double found = facts_number(line, key);
    return fabs(found) < 3.2e13 ? found : NAN;
}

static bool
truth(json_object *line, const char *key)
{
    json_object *value;
    return get(line, key, json_type_boolean, &value) && json_object_get_boolean(value);
}

const char *
facts_string(json_object *object, const char *name)
{
    json_object *found;
    return get(object, name, json_type_string, &found) ? json_object_get_string(found) : "";
}

/* Cut where it is too long. */
static void
text(json_object *line, const char *key, char *to, size_t bytes)
{
    snprintf(to, bytes, "%s", facts_string(line, key));
    printable_make(to, "");
}

static size_t
list(json_object *line, const char *key, json_object **list_p)
{
    return get(line, key, json_type_array, list_p) ? json_object_array_length(*list_p) : 0;
}

static int
group_of(json_object *line)
{
    int64_t group = whole(line, "group", 0);
    return group >= 0 && group < TRACE_GROUPS ? (int)group : -1;
}

static struct trace_totals
totals_of(json_object *line)
{
    return (struct trace_totals){facts_number(line, "launches_total"), facts_number(line, "saved_ns")};
}

/* ---- lines ---- */

static void
take_step(struct trace_run *run, json_object *line)
{
    json_object *buckets;
    size_t count = list(line, "buckets", &buckets);
    struct trace_step step = {.number = count_of(line, "step"),
                              .group = group_of(line),
                              .overlapped = truth(line, "overlapped"),
                              .in_graph = whole(line, "graph", -1) >= 0,
                              .control = truth(line, "control"),
                              .boundary_ns = time_of(line, "boundary_ns"),
                              .error_ns = time_of(line, "error_ns"),
                              .entered_ns = time_of(line, "entered_ns"),
                              .left_ns = time_of(line, "left_ns"),
                              .begin_us = number(line, "interval_us"),
                              .backward_us = number(line, "backward_us"),
                              .released_us = number(line, "released_us"),
                              .copies_begin_us = number(line, "copies_begin_us"),
                              .copies_end_us = number(line, "copies_end_us"),
                              .host = {number(line, "host_other_us"), number(line, "host_loader_us"),
                                       number(line, "host_copies_us"), number(line, "host_forward_us")},
                              .launches = facts_number(line, "launches"),
                              .totals = totals_of(line),
                              .predicted_us = number(line, "predicted_us"),
                              .bound_us = number(line, "bound_us")};
    if (step.group < 0 || (!step.in_graph && (step.boundary_ns <= 0 || isnan(step.released_us))))
        return;
    for (size_t k = 0; k < count; ++k) {
        json_object *entry = json_object_array_get_idx(buckets, k);
        struct trace_bucket *bucket = GROWN(step.buckets, step.bucket_count);
        bucket->number = (unsigned)count_of(entry, "bucket");
        bucket->early = truth(entry, "early");
        bucket->ready_us = number(entry, "ready_us");
        bucket->begin_us = number(entry, "begin_us");
        bucket->end_us = number(entry, "end_us");
        bucket->bytes = count_of(entry, "bytes");
        text(entry, "path", bucket->path, sizeof(bucket->path));
        text(entry, "type", bucket->type, sizeof(bucket->type));
    }
    *GROWN(run->steps, run->step_count) = step;
}

static void
take_tensors(struct trace_run *run, int group, json_object *line)
{
    json_object *tensors;
    size_t count = list(line, "tensors", &tensors);
    for (size_t i = run->tensor_counts[group]; i < count; ++i) {
        json_object *entry = json_object_array_get_idx(tensors, i);
        struct trace_tensor *tensor = GROWN(run->tensors[group], run->tensor_counts[group]);
        text(entry, "name", tensor->name, sizeof(tensor->name));
        text(entry, "place", tensor->place, sizeof(tensor->place));
        text(entry, "type", tensor->type, sizeof(tensor->type));
        tensor->elements = count_of(entry, "elements");
        tensor->bytes = count_of(entry, "bytes");
    }
}

/* Tensors that one line annotates by one name, as those of an array of layers, have the number of the call in their
 * place: "mlp.cu:62", "mlp.cu:62, call 2". */
static void
number_calls(struct trace_tensor *tensors, size_t count)
{
    enum { MOST = 1024 };                                  /* of them comparisons are quick */
    for (size_t i = count <= MOST ? count : 0; i-- > 0;) { /* from the end: places before it are as they were */
        size_t call = 1;
        for (size_t k = 0; k < i; ++k)
            call += strcmp(tensors[i].name, tensors[k].name) == 0 && strcmp(tensors[i].place, tensors[k].place) == 0;
        if (call > 1)
            printable_append(tensors[i].place, sizeof(tensors[i].place), ", call %zu", call);
    }
}

static void
take_plan(struct trace_run *run, json_object *line)
{
    json_object *buckets, *members;
    int group = group_of(line);
    if (group < 0)
        return;
    take_tensors(run, group, line);
    struct trace_plan plan = {.group = group, .after_step = count_of(line, "after_step")};
    size_t count = list(line, "buckets", &buckets);
    for (size_t k = 0; k < count; ++k) {
        size_t member_count = list(json_object_array_get_idx(buckets, k), "tensors", &members), unused = k;
        size_t *numbers = xcalloc(member_count + 1, sizeof(*numbers));
        for (size_t i = 0; i < member_count; ++i)
            numbers[i] = (size_t)json_object_get_uint64(json_object_array_get_idx(members, i));
        *GROWN(plan.member_counts, unused) = member_count;
        *GROWN(plan.members, plan.bucket_count) = numbers;
    }
    *GROWN(run->plans, run->plan_count) = plan;
}

static void
take_trial(struct trace_run *run, json_object *line)
{
    struct trace_trial trial = {.group = group_of(line),
                                .after_step = count_of(line, "after_step"),
                                .slowed_us = number(line, "slowed_us"),
                                .overlapped_us = number(line, "overlapped_us"),
                                .apart_us = number(line, "apart_us")};
    if (trial.group >= 0)
        *GROWN(run->trials, run->trial_count) = trial;
}

static void
take_overlap(struct trace_run *run, json_object *line)
{
    struct trace_overlap overlap = {
        .group = group_of(line), .after_step = count_of(line, "after_step"), .overlaps = truth(line, "overlap")};
    if (overlap.group >= 0)
        *GROWN(run->overlaps, run->overlap_count) = overlap;
}

static void
take_costs(struct trace_run *run, json_object *line)
{
    json_object *sizes;
    size_t count = list(line, "all_reduce_ns", &sizes);
    run->cost_count = 0;
    for (size_t i = 0; i < count; ++i) {
        json_object *entry = json_object_array_get_idx(sizes, i);
        if (!json_object_is_type(entry, json_type_array) || json_object_array_length(entry) != 2)
            continue;
        int64_t bytes = json_object_get_int64(json_object_array_get_idx(entry, 0));
        int64_t ns = json_object_get_int64(json_object_array_get_idx(entry, 1));
        bool rises = run->cost_count == 0 || (uint64_t)bytes > run->costs[run->cost_count - 1].bytes;
        if (bytes >= 0 && ns > 0 && rises)
            *GROWN(run->costs, run->cost_count) = (struct trace_cost){(uint64_t)bytes, ns};
    }
}

static void
take_exchange(struct trace_run *run, json_object *line)
{
    struct trace_exchange exchange = {
        .number = count_of(line, "exchange"), .begin_ns = time_of(line, "begin_ns"), .end_ns = time_of(line, "end_ns")};
    text(line, "about", exchange.about, sizeof(exchange.about));
    if (exchange.begin_ns > 0 && exchange.end_ns >= exchange.begin_ns)
        *GROWN(run->exchanges, run->exchange_count) = exchange;
}

static void
take_warning(struct trace_run *run, json_object *line)
{
    struct trace_warning warning = {.after_step = count_of(line, "after_step"), .at_ns = time_of(line, "at_ns")};
    text(line, "warning", warning.key, sizeof(warning.key));
    text(line, "text", warning.text, sizeof(warning.text));
    if (warning.at_ns > 0)
        *GROWN(run->warnings, run->warning_count) = warning;
}

static void
take_mean(struct trace_run *run, json_object *line)
{
    struct trace_mean mean = {.after_step = count_of(line, "after_step"), .value = number(line, "value")};
    text(line, "mean", mean.name, sizeof(mean.name));
    text(line, "place", mean.place, sizeof(mean.place));
    *GROWN(run->means, run->mean_count) = mean;
}

static void
take_head(struct trace *trace, int rank, const char *name, json_object *line)
{
    int64_t world = whole(line, "world", 0);
    struct trace_run run = {.job = whole(line, "job", 0),
                            .rank = rank,
                            .world = world > 0 && world <= TRACE_MOST_RANKS ? (int)world : rank + 1,
                            .at_ns = time_of(line, "at_ns"),
                            .unix_ns = time_of(line, "unix_ns"),
                            .totals = {NAN, NAN},
                            .worked_ns = NAN};
    text(line, "host", run.host, sizeof(run.host));
    run.bucket_bytes = count_of(line, "bucket_bytes");
    if (whole(line, "rank", rank) != rank)
        remark(trace, "%s is the trace of rank %lld: was it renamed?", name, (long long)whole(line, "rank", rank));
    bool is_later = trace->run_count == 0 || run.job > trace->job;
    trace->world = is_later ? run.world : trace->world;
    trace->job = is_later ? run.job : trace->job;
    *GROWN(trace->runs, trace->run_count) = run;
}

static void
take_summary(struct trace_run *run, json_object *line)
{
    json_object_put(run->told);
    run->told = json_object_get(line);
    if (!get(line, "summary", json_type_object, &run->summary))
        run->summary = NULL;
}

static void
take_end(struct trace_run *run, json_object *line)
{
    run->ended = true;
    run->totals = totals_of(line);
    run->worked_ns = time_of(line, "worked_ns") > 0 ? (double)time_of(line, "worked_ns") : NAN;
}

/* By the first of these members that it has. */
static void
take_line(struct trace_run *run, json_object *line)
{
    static const struct {
        const char *member;
        void (*take)(struct trace_run *run, json_object *line);
    } lines[] = {{"step", take_step},       {"plan", take_plan},           {"trial", take_trial},
                 {"overlap", take_overlap}, {"all_reduce_ns", take_costs}, {"exchange", take_exchange},
                 {"mean", take_mean},       {"warning", take_warning},     {"end", take_end},
                 {"summary", take_summary}};
    size_t i = 0;
    while (i < sizeof(lines) / sizeof(lines[0]) && !json_object_object_get_ex(line, lines[i].member, NULL))
        ++i;
    if (i < sizeof(lines) / sizeof(lines[0]))
        lines[i].take(run, line);
}

/* ---- a file ---- */

/* One line, which has a newline after it; NULL: it is not an object. */
static json_object *
parse(const char *line, size_t bytes)
{
    struct json_tokener *tokener = json_tokener_new_ex(DEEPEST);
    json_object *object =
        tokener != NULL && bytes < INT32_MAX ? json_tokener_parse_ex(tokener, line, (int)bytes) : NULL;
    if (tokener != NULL)
        json_tokener_free(tokener);
    if (object != NULL && !json_object_is_type(object, json_type_object)) {
        json_object_put(object);
        return NULL;
    }
    return object;
}

void
trace_take_file(struct trace *trace, int rank, const char *name, const char *text, size_t bytes)
{
    size_t before = trace->run_count, line_number = 0;
    const char *end = text + bytes;
    for (const char *line = text, *next; line < end; line = next) {
        const char *newline = memchr(line, '\n', (size_t)(end - line));
        next = newline != NULL ? newline + 1 : end;
        ++line_number;
        json_object *object = newline != NULL ? parse(line, (size_t)(newline - line)) : NULL;
        int64_t version = object != NULL ? whole(object, "ddprun_trace", -1) : -1;
        if (object == NULL) {
            remark(trace, "%s: line %zu is cut or is not JSON; only the lines before it are shown", name, line_number);
            if (trace->run_count > before)
                trace->runs[trace->run_count - 1].cut = true;
            return;
        }
        if (version >= 0 && version != TRACE_VERSION)
            remark(trace, "%s has version %lld, and this ddprun reads version %d; the file is ignored", name,
                   (long long)version, TRACE_VERSION);
        else if (version >= 0)
            take_head(trace, rank, name, object);
        else if (trace->run_count > before)
            take_line(&trace->runs[trace->run_count - 1], object);
        else
            remark(trace, "%s does not begin like a trace; the file is ignored", name);
        json_object_put(object);
        if (version >= 0 ? version != TRACE_VERSION : trace->run_count == before)
            return;
    }
}

/* All that is in it now; *bytes_p of them, malloc'ed. NULL with errno. It may still grow: a mapping could shrink. */
static char *
contents(int fd, size_t *bytes_p)
{
    struct stat file;
    if (fd < 0 || fstat(fd, &file) != 0)
        return NULL;
    *bytes_p = (size_t)file.st_size;
    errno = EINVAL;
    OWNED char *all = S_ISREG(file.st_mode) ? xcalloc(1, *bytes_p + 1) : NULL;
    return all != NULL && direct_read(fd, all, *bytes_p, 0) ? HANDED_ON(all) : NULL;
}

static void
read_file(int folder, struct trace *trace, int rank)
{
    char name[32];
    size_t bytes;
    snprintf(name, sizeof(name), "rank-%d.jsonl", rank);
    OWNED_FD int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    OWNED char *all = contents(fd, &bytes);
    if (all == NULL)
        remark(trace, "%s cannot be read: %s", name, strerror(errno));
    else if (bytes == 0)
        remark(trace, "%s is empty", name);
    else
        trace_take_file(trace, rank, name, all, bytes);
}

/* ---- the folder ---- */

/* The rank of a file of this name; -1: it is another one. */
static int
rank_of(const char *name)
{
    int rank, used = 0;
    char again[32];
    if (sscanf(name, "rank-%6d.jsonl%n", &rank, &used) != 1 || used == 0 || name[used] != '\0' || rank < 0 ||
        rank >= TRACE_MOST_RANKS)
        return -1;
    snprintf(again, sizeof(again), "rank-%d.jsonl", rank);
    return strcmp(again, name) == 0 ? rank : -1;
}

COMPARES(by_rank, struct trace_run, COMPARE(a, b, rank, COMPARE(a, b, job, 0)))

/* Groups write their steps one group after another. Of a step in a graph only its launch is known. */
static int64_t
time_of_step(const struct trace_step *step)
{
    return step->in_graph ? step->entered_ns : step->boundary_ns;
}

COMPARES(by_time, struct trace_step,
         time_of_step(a) != time_of_step(b) ? (time_of_step(a) < time_of_step(b) ? -1 : 1) : COMPARE(a, b, number, 0))

/* Files that an earlier, larger job has left there, and ranks without a file. */
static void
look_for_ranks(struct trace *trace)
{
    int missing = 0, first = -1, unended = 0, first_unended = -1;
    double code = NAN;
    for (int rank = 0; rank < trace->world; ++rank) {
        const struct trace_run *own =
            FIND(run, trace->runs, trace->run_count, run->rank == rank && (run + 1 == run_end || run[1].rank != rank));
        if (own == NULL || own->job != trace->job)
            first = missing++ == 0 ? rank : first;
        bool has_steps =
            own != NULL && (own->step_count > 0 || trace->world > 1); /* one rank writes none, nor an end */
        if (has_steps && !own->ended && !own->cut)
            first_unended = unended++ == 0 ? rank : first_unended;
        if (own != NULL && own->summary != NULL)
            code = facts_number(own->summary, "exit_code");
    }
    if (unended > 0)
        remark(trace, "the traces of %d of %d ranks have no end, the first is rank %d's: %s", unended, trace->world,
               first_unended,
               isnan(code) ? "these ranks are still running, or were killed"
               : code > 0  ? "the job failed, and these ranks crashed or were stopped"
                           : "these ranks ended without exit()");
    if (missing > 0)
        remark(trace, "%d of %d ranks have no trace of this job in the folder; the first is rank %d", missing,
               trace->world, first);
}

bool
trace_read(const char *folder, struct trace *trace, struct error *error)
{
    *trace = (struct trace){0};
    DIR *opened = opendir(folder);
    if (opened == NULL)
        return error_set(error, DDPRUN_EXIT_USAGE, "cannot read the trace in %s: %s", folder, strerror(errno));
    bool any = false;
    for (const struct dirent *entry; (entry = readdir(opened)) != NULL;) {
        int rank = rank_of(entry->d_name);
        any = any || rank >= 0;
        if (rank >= 0)
            read_file(dirfd(opened), trace, rank);
    }
    closedir(opened);
    if (!any)
        return error_set(error, DDPRUN_EXIT_FAILURE,
                         "no trace in %s: ddprun --trace %s writes rank-0.jsonl and so on there", folder, folder);
    if (trace->run_count == 0)
        return error_set(error, DDPRUN_EXIT_FAILURE, "no readable trace in %s: %s", folder,
                         trace->remark_count > 0 ? trace->remarks[0] : "all files are empty");
    SORT(trace->runs, trace->run_count, by_rank);
    FOR_EACH_MUTABLE(run, trace->runs, trace->run_count) {
        SORT(run->steps, run->step_count, by_time);
        for (int g = 0; g < TRACE_GROUPS; ++g)
            number_calls(run->tensors[g], run->tensor_counts[g]);
    }
    look_for_ranks(trace);
    return true;
}

static void
free_run(const struct trace_run *run)
{
    FOR_EACH(step, run->steps, run->step_count)
        free(step->buckets);
    FOR_EACH(plan, run->plans, run->plan_count) {
        for (size_t k = 0; k < plan->bucket_count; ++k)
            free(plan->members[k]);
        free(plan->members);
        free(plan->member_counts);
    }
    for (int g = 0; g < TRACE_GROUPS; ++g)
        free(run->tensors[g]);
#define FREE_LIST(item, items) free(run->items);
    TRACE_LISTS(FREE_LIST)
    json_object_put(run->told);
}

void
trace_free(struct trace *trace)
{
    for (size_t i = 0; i < trace->run_count; ++i)
        free_run(&trace->runs[i]);
    for (size_t i = 0; i < trace->remark_count; ++i)
        free(trace->remarks[i]);
    free(trace->runs);
    free(trace->remarks);
    *trace = (struct trace){0};
}
