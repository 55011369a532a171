/* chrome.c - see read.h. */
#include "tools/trace/step_table.h"

#include "launcher/common/xcalloc.h"

#include <json-c/json.h>

#include <math.h>

/* Tracks of a process, as they are shown from above: of the trainer and of collectives one for each group, for groups
 * may step on streams of their own; and what the host does. */
enum {
    TRACK_TRAINER = 1,
    TRACK_COLLECTIVES = TRACK_TRAINER + TRACE_GROUPS,
    TRACK_HOST = TRACK_COLLECTIVES + TRACE_GROUPS,
    TRACK_RANKS,
    TRACK_GRAPHS,
    TRACKS
};

/* One rank's run on its way to the file. */
struct writing {
    FILE *out;
    const struct trace *trace;
    int64_t origin_ns; /* of the common clock */
    const struct trace_run *run;
    const struct run_clock *clock;
    unsigned batches;        /* of a step: more than one where ranks take turns */
    int64_t ends_ns[TRACKS]; /* of each track: when the last slice ended */
};

static void
put_text(FILE *out, const char *text)
{
    json_object *value = json_object_new_string(text);
    fputs(json_object_to_json_string_ext(value, JSON_C_TO_STRING_PLAIN), out);
    json_object_put(value);
}

/* ---- events ---- */

static double
us(const struct writing *w, int64_t common_ns)
{
    return (double)(common_ns - w->origin_ns) / 1e3;
}

static int64_t
after_boundary(const struct writing *w, const struct trace_step *step, double us)
{
    return clock_common(w->clock, step->boundary_ns + (int64_t)(us * 1e3));
}

static void
begin_event(const struct writing *w, const char *phase, unsigned track, const char *name, int64_t at_ns)
{
    fprintf(w->out, ",\n{\"ph\":\"%s\",\"pid\":%d,\"tid\":%u,\"ts\":%.3f,\"name\":", phase, w->run->rank, track,
            us(w, at_ns));
    put_text(w->out, name);
}

/* A slice; its "args" may follow, and a brace. False: there is none, for nothing of it is left. */
static bool
begin_slice(struct writing *w, unsigned track, const char *name, int64_t begin_ns, int64_t end_ns)
{
    begin_ns = begin_ns > w->ends_ns[track] ? begin_ns : w->ends_ns[track];
    if (end_ns <= begin_ns)
        return false;
    w->ends_ns[track] = end_ns;
    begin_event(w, "X", track, name, begin_ns);
    fprintf(w->out, ",\"dur\":%.3f", us(w, end_ns) - us(w, begin_ns));
    return true;
}

/* Inside the slice of the track that was written last. */
static void
inner_slice(const struct writing *w, unsigned track, const char *name, int64_t begin_ns, int64_t end_ns)
{
    if (end_ns <= begin_ns)
        return;
    begin_event(w, "X", track, name, begin_ns);
    fprintf(w->out, ",\"dur\":%.3f}", us(w, end_ns) - us(w, begin_ns));
}

static void
name_track(const struct writing *w, unsigned track, const char *name)
{
    fprintf(w->out,
            ",\n{\"ph\":\"M\",\"pid\":%d,\"tid\":%u,\"name\":\"thread_name\",\"args\":{\"name\":\"%s\"}}"
            ",\n{\"ph\":\"M\",\"pid\":%d,\"tid\":%u,\"name\":\"thread_sort_index\",\"args\":{\"sort_index\":%u}}",
            w->run->rank, track, name, w->run->rank, track, track);
}

/* ---- a rank ---- */

static void
put_names(const struct writing *w)
{
    unsigned groups = 1;
    bool graphs = ANY(step, w->run->steps, w->run->step_count, step->in_graph);
    FOR_EACH(step, w->run->steps, w->run->step_count)
        groups = (unsigned)step->group >= groups ? (unsigned)step->group + 1 : groups;
    char *name = xasprintf("rank %d (%s)", w->run->rank, w->run->host);
    fprintf(w->out, ",\n{\"ph\":\"M\",\"pid\":%d,\"name\":\"process_name\",\"args\":{\"name\":", w->run->rank);
    put_text(w->out, name);
    fprintf(w->out, "}},\n{\"ph\":\"M\",\"pid\":%d,\"name\":\"process_sort_index\",\"args\":{\"sort_index\":%d}}",
            w->run->rank, w->run->rank);
    free(name);
    const struct {
        unsigned first, count;
        const char *name; /* where there are several, with a number after it */
    } tracks[] = {{TRACK_TRAINER, groups, groups == 1 ? "trainer (device)" : "trainer (device), group"},
                  {TRACK_COLLECTIVES, groups, groups == 1 ? "collectives" : "collectives, group"},
                  {TRACK_HOST, 1, "DDP_STEP (host)"},
                  {TRACK_RANKS, 1, "waits for ranks (host)"},
                  {TRACK_GRAPHS, graphs, "steps in CUDA graphs (host)"}};
    for (size_t t = 0; t < sizeof(tracks) / sizeof(tracks[0]); ++t) {
        for (unsigned i = 0; i < tracks[t].count; ++i) {
            name = tracks[t].count == 1 ? xstrdup(tracks[t].name) : xasprintf("%s %u", tracks[t].name, i);
            name_track(w, tracks[t].first + i, name);
            free(name);
        }
    }
}

static int64_t
clamp(int64_t ns, int64_t least_ns, int64_t most_ns)
{
    return ns < least_ns ? least_ns : ns > most_ns ? most_ns : ns;
}

static void
put_bucket(struct writing *w, const struct trace_step *step, const struct trace_bucket *bucket)
{
    char name[32];
    snprintf(name, sizeof(name), "bucket %u", bucket->number);
    if (isnan(bucket->begin_us) || isnan(bucket->end_us) ||
        !begin_slice(w, TRACK_COLLECTIVES + (unsigned)step->group, name, after_boundary(w, step, bucket->begin_us),
                     after_boundary(w, step, bucket->end_us)))
        return;
    fprintf(w->out,
            ",\"args\":{\"step\":%" PRIu64 ",\"group\":%d,\"bytes\":%" PRIu64 ",\"early\":%s,\"path\":", step->number,
            step->group, bucket->bytes, bucket->early ? "true" : "false");
    put_text(w->out, bucket->path);
    fputs(",\"type\":", w->out);
    put_text(w->out, bucket->type);
    fputs("}}", w->out);
}

/* What is known of a step in a graph is when the host launched it, which may be far ahead of the device: it is shown up
 * to the next launch. */
static void
put_graph_step(struct writing *w, const struct trace_step *step, const struct trace_step *next)
{
    int64_t begin_ns = clock_common(w->clock, step->entered_ns);
    int64_t end_ns = next != NULL && next->entered_ns > 0 ? clock_common(w->clock, next->entered_ns) : begin_ns + 1000;
    if (step->entered_ns > 0 && begin_slice(w, TRACK_GRAPHS, "step in a CUDA graph, as launched", begin_ns, end_ns))
        fprintf(w->out, ",\"args\":{\"step\":%" PRIu64 "}}", step->number);
}

/* All steps have one name, and so one colour in a viewer, which takes it from the name; which one it is is an argument.
 * Where ranks take turns, it is a round. */
static void
put_step(struct writing *w, const struct trace_step *step)
{
    unsigned track = TRACK_TRAINER + (unsigned)step->group;
    uint64_t first = (step->number - 1) * w->batches + 1;
    int64_t boundary_ns = after_boundary(w, step, 0), released_ns = after_boundary(w, step, step->released_us);
    int64_t backward_ns = isnan(step->backward_us) ? boundary_ns : after_boundary(w, step, step->backward_us);
    int64_t begin_ns = isnan(step->begin_us) ? backward_ns : after_boundary(w, step, step->begin_us);
    begin_ns = begin_ns > w->ends_ns[track] ? begin_ns : w->ends_ns[track];
    if (!begin_slice(w, track, w->batches > 1 ? "round" : "step", begin_ns, released_ns))
        return;
    struct last_rank last = waits_of(w->trace, w->run, step);
    fprintf(w->out, ",\"args\":{\"step\":%" PRIu64 ",\"group\":%d,\"overlapped\":%s,\"control\":%s,\"waited_us\":%.3f",
            step->number, step->group, step->overlapped ? "true" : "false", step->control ? "true" : "false",
            fmax(step->released_us, 0));
    if (w->batches > 1)
        fprintf(w->out, ",\"first_batch\":%" PRIu64 ",\"last_batch\":%" PRIu64 ",\"own_batch\":%" PRIu64, first,
                first + w->batches - 1, first + (unsigned)w->run->rank);
    if (last.rank >= 0)
        fprintf(w->out, ",\"exposed_us\":%.3f,\"waiting_us\":%.3f,\"waited_for_rank\":%d", last.waited,
                fmax(step->released_us, 0) - last.waited, last.rank);
    fputs("}}", w->out);
    boundary_ns = clamp(boundary_ns, begin_ns, released_ns);
    backward_ns = clamp(backward_ns, begin_ns, boundary_ns);
    int64_t came_ns = last.rank < 0 ? boundary_ns : after_boundary(w, step, step->released_us - last.waited);
    came_ns = clamp(came_ns, boundary_ns, released_ns);
    inner_slice(w, track, "backward", backward_ns, boundary_ns);
    inner_slice(w, track, "waits for other ranks", boundary_ns, came_ns);
    inner_slice(w, track, last.rank < 0 ? "waits for averages" : "exposed communication", came_ns, released_ns);
    for (size_t k = 0; k < step->bucket_count; ++k)
        put_bucket(w, step, &step->buckets[k]);
    if (step->entered_ns > 0 && begin_slice(w, TRACK_HOST, "DDP_STEP", clock_common(w->clock, step->entered_ns),
                                            clock_common(w->clock, step->left_ns)))
        fprintf(w->out, ",\"args\":{\"step\":%" PRIu64 ",\"group\":%d}}", step->number, step->group);
}

/* Where the rank warned first, by the warning's key. */
static void
put_warnings(const struct writing *w)
{
    FOR_EACH(warning, w->run->warnings, w->run->warning_count) {
        char name[WARNING_KEY_BYTES + 16];
        snprintf(name, sizeof(name), "warning: %s", warning->key);
        begin_event(w, "i", TRACK_HOST, name, clock_common(w->clock, warning->at_ns));
        fprintf(w->out, ",\"s\":\"p\",\"args\":{\"after_step\":%" PRIu64 ",\"text\":", warning->after_step);
        put_text(w->out, warning->text);
        fputs("}}", w->out);
    }
}

static void
put_run(struct writing *w)
{
    const struct trace_run *run = w->run;
    put_names(w);
    FOR_EACH(step, run->steps, run->step_count) {
        if (step->in_graph)
            put_graph_step(w, step, step + 1 < step_end ? step + 1 : NULL);
        else
            put_step(w, step);
    }
    FOR_EACH(exchange, run->exchanges, run->exchange_count) {
        if (begin_slice(w, TRACK_RANKS, exchange->about, clock_common(w->clock, exchange->begin_ns),
                        clock_common(w->clock, exchange->end_ns)))
            fputs("}", w->out);
    }
    put_warnings(w);
}

/* ---- the file ---- */

/* How many of the program's batches a step is, as the launcher's line of the same job has it; else 1. */
static unsigned
batches_per_step(const struct trace *trace, const struct trace_run *run)
{
    bool by_plan = ANY(it, trace->runs, trace->run_count,
                       it->job == run->job && facts_number(it->summary, "batches_per_step") == run->world);
    return by_plan ? (unsigned)run->world : 1;
}

static int64_t
earliest(const struct trace *trace, const struct run_clock *clocks)
{
    int64_t origin_ns = INT64_MAX;
    FOR_EACH(run, trace->runs, trace->run_count) {
        int64_t at_ns = clock_common(&clocks[NUMBER_OF(run)], run->at_ns);
        origin_ns = at_ns < origin_ns ? at_ns : origin_ns;
    }
    return origin_ns;
}

void
chrome_write(FILE *out, const struct trace *trace, const struct run_clock *clocks)
{
    int64_t origin_ns = earliest(trace, clocks);
    struct writing *w = xcalloc(1, sizeof(*w));
    fprintf(out,
            "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"writer\":\"ddprun trace\",\"world\":%d},\"traceEvents\":[\n"
            "{\"ph\":\"M\",\"pid\":%d,\"name\":\"process_labels\",\"args\":{\"labels\":\"ddprun\"}}",
            trace->world, trace->runs[0].rank);
    for (size_t i = 0; i < trace->run_count; ++i) {
        bool same_rank = i > 0 && trace->runs[i - 1].rank == trace->runs[i].rank; /* a job that began again */
        for (size_t t = 0; !same_rank && t < TRACKS; ++t)
            w->ends_ns[t] = INT64_MIN;
        w->out = out;
        w->trace = trace;
        w->origin_ns = origin_ns;
        w->run = &trace->runs[i];
        w->clock = &clocks[i];
        w->batches = batches_per_step(trace, w->run);
        put_run(w);
    }
    fputs("\n]}\n", out);
    free(w);
}
