/* clocks.c - see read.h. */
#include "tools/trace/read.h"

#include "tools/common/grown.h"

#define WINDOW_NS INT64_C(60000000000)

/* Between what the difference is, as far as is known. */
struct bounds {
    int64_t least_ns, most_ns, begin_ns, end_ns;
    bool any;
};

static void
add_point(struct run_clock *clock, const struct bounds *bounds)
{
    int64_t width_ns = bounds->most_ns - bounds->least_ns;
    *GROWN(clock->points, clock->count) =
        (struct clock_difference){.at_ns = bounds->begin_ns + (bounds->end_ns - bounds->begin_ns) / 2,
                                  .difference_ns = bounds->least_ns + width_ns / 2,
                                  .error_ns = (width_ns < 0 ? -width_ns : width_ns) / 2}; /* negative: it has drifted */
    int64_t error_ns = clock->points[clock->count - 1].error_ns;
    clock->error_ns = clock->count == 1 || error_ns > clock->error_ns ? error_ns : clock->error_ns;
}

static struct run_clock
align(const struct trace_run *run, const struct trace_run *reference)
{
    struct run_clock clock = {.error_ns = run == reference ? 0 : INT64_MAX};
    struct bounds bounds = {.any = false};
    for (size_t i = 0, j = 0; run != reference && i < run->exchange_count && j < reference->exchange_count;) {
        const struct trace_exchange *mine = &run->exchanges[i], *theirs = &reference->exchanges[j];
        if (mine->number != theirs->number) {
            i += mine->number < theirs->number;
            j += mine->number > theirs->number;
            continue;
        }
        int64_t least_ns = mine->begin_ns - theirs->end_ns, most_ns = mine->end_ns - theirs->begin_ns;
        if (bounds.any && mine->begin_ns - bounds.begin_ns > WINDOW_NS) {
            add_point(&clock, &bounds);
            bounds.any = false;
        }
        if (!bounds.any)
            bounds = (struct bounds){least_ns, most_ns, mine->begin_ns, mine->end_ns, true};
        bounds.least_ns = least_ns > bounds.least_ns ? least_ns : bounds.least_ns;
        bounds.most_ns = most_ns < bounds.most_ns ? most_ns : bounds.most_ns;
        bounds.end_ns = mine->end_ns;
        ++i;
        ++j;
    }
    if (bounds.any)
        add_point(&clock, &bounds);
    return clock;
}

struct run_clock *
clocks_align(const struct trace *trace)
{
    struct run_clock *clocks = xcalloc(trace->run_count + 1, sizeof(*clocks));
    FOR_EACH(run, trace->runs, trace->run_count) /* beside the lowest rank's run of the same job, or itself */
        clocks[NUMBER_OF(run)] = align(run, FIND(first, trace->runs, trace->run_count, first->job == run->job));
    return clocks;
}

void
clocks_free(struct run_clock *clocks, const struct trace *trace)
{
    for (size_t i = 0; i < trace->run_count; ++i)
        free(clocks[i].points);
    free(clocks);
}

/* Between two points by a straight line, outside of them by the nearest. */
int64_t
clock_common(const struct run_clock *clock, int64_t ns)
{
    size_t next = 0;
    while (next < clock->count && clock->points[next].at_ns < ns)
        ++next;
    if (clock->count == 0)
        return ns;
    if (next == 0 || next == clock->count)
        return ns - clock->points[next == 0 ? 0 : next - 1].difference_ns;
    const struct clock_difference *before = &clock->points[next - 1], *after = &clock->points[next];
    double share = (double)(ns - before->at_ns) / (double)(after->at_ns - before->at_ns);
    return ns - before->difference_ns - (int64_t)(share * (double)(after->difference_ns - before->difference_ns));
}
