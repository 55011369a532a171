/*
 * timeline.c - one step of the run: what the device of each rank did, bucket by bucket, on one clock.
 */
#include "tools/page/html.h"
#include "tools/page/sections.h"
#include "tools/trace/read.h"

#include <math.h>

enum {
    MOST_LANES = 8,
    MOST_BUCKETS = 128, /* of a rank */
    MOST_ROWS = 4,      /* of a rank's trainer: one for each group; and of its collectives: one for each communicator */
    NAME_HEIGHT = 18,
    BAR_HEIGHT = 16,
    ROW_GAP = 6,
    LANE_GAP = 14,
    AXIS_HEIGHT = 24,
    WIDE_ENOUGH = 4 /* percent: for a bucket's number */
};

/* The picture of a step. */
struct picture {
    FILE *out;
    const struct facts *facts;
    uint64_t step;
    size_t lanes;
    unsigned groups, rows;    /* of a lane: of the trainer, one for each group, and of the collectives */
    int64_t begin_ns, end_ns; /* of the common clock */
    int y;                    /* where the next lane begins */
};

static int64_t
time_of(const struct rank_facts *rank, const struct trace_step *step, double us)
{
    return clock_common(rank->clock, step->boundary_ns + (int64_t)(us * 1e3));
}

static double
percent(const struct picture *picture, int64_t ns)
{
    double part = (double)(ns - picture->begin_ns) / (double)(picture->end_ns - picture->begin_ns);
    return 100 * fmin(fmax(part, 0), 1);
}

static double
begin_us(const struct trace_step *step)
{
    return !isnan(step->begin_us) ? step->begin_us : !isnan(step->backward_us) ? step->backward_us : 0;
}

/* ---- which step ---- */

/* The one whose duration and exposed part are nearest to the medians, of those that these are of, and that are as the
 * last ones: with their plan, and with overlap unless that was switched off; of others if there is none. */
static const struct step_facts *
choose_step(const struct facts *facts)
{
    const struct step_facts *chosen = NULL;
    double best = INFINITY;
    bool overlaps = facts->overlap == NULL || facts->overlap->overlaps;
    for (size_t i = 0; i < facts->step_count; ++i) {
        const struct step_facts *step = &facts->steps[i];
        bool old = facts->plan != NULL && step->number <= facts->plan->after_step;
        double distance = isnan(step->middle_us) ? 1e15 : fabs(step->middle_us - facts->step_us);
        distance += isnan(facts->exposed_us) ? 0 : fabs(step->last.waited - facts->exposed_us);
        distance += step->counts ? 0 : 1e14;
        distance += (old ? 1e16 : 0) + (step->overlapped == overlaps ? 0 : 1e17) + (step->control ? 1e18 : 0);
        if (distance < best) {
            best = distance;
            chosen = step;
        }
    }
    return chosen;
}

/* Without a common clock ranks cannot stand in one picture. */
static size_t
lanes_of(const struct facts *facts)
{
    for (size_t r = 0; r < facts->rank_count; ++r) {
        if (facts->ranks[r].clock->error_ns == INT64_MAX)
            return 1;
    }
    return facts->rank_count < MOST_LANES ? facts->rank_count : MOST_LANES;
}

static void
find_extent(struct picture *picture)
{
    picture->begin_ns = INT64_MAX;
    picture->end_ns = INT64_MIN;
    picture->rows = 1;
    picture->groups = picture->facts->group_count < MOST_ROWS ? (unsigned)picture->facts->group_count : MOST_ROWS;
    for (size_t r = 0; r < picture->lanes; ++r) {
        const struct rank_facts *rank = &picture->facts->ranks[r];
        const struct trace_step *step = facts_step_of(rank, picture->step);
        int64_t begin_ns = time_of(rank, step, begin_us(step)), end_ns = time_of(rank, step, step->released_us);
        for (size_t k = 0; k < step->bucket_count; ++k) {
            const struct trace_bucket *bucket = &step->buckets[k];
            int64_t done_ns = isnan(bucket->end_us) ? end_ns : time_of(rank, step, bucket->end_us);
            end_ns = done_ns > end_ns ? done_ns : end_ns;
            if (bucket->communicator >= picture->rows)
                picture->rows = bucket->communicator < MOST_ROWS ? bucket->communicator + 1 : MOST_ROWS;
        }
        picture->begin_ns = begin_ns < picture->begin_ns ? begin_ns : picture->begin_ns;
        picture->end_ns = end_ns > picture->end_ns ? end_ns : picture->end_ns;
    }
    if (picture->end_ns <= picture->begin_ns)
        picture->end_ns = picture->begin_ns + 1;
}

static int
lane_height(const struct picture *picture)
{
    return NAME_HEIGHT + (int)(picture->groups + picture->rows) * (BAR_HEIGHT + ROW_GAP) - ROW_GAP + LANE_GAP;
}

/* The top of a row of the lane: of a group, or behind those of a communicator. */
static int
row_top(const struct picture *picture, unsigned row)
{
    return picture->y + (int)row * (BAR_HEIGHT + ROW_GAP);
}

/* ---- a lane ---- */

static void
put_part(const struct picture *picture, unsigned row, const char *kind, const char *name, int64_t from_ns,
         int64_t to_ns)
{
    char text[FIGURE_BYTES];
    double x = percent(picture, from_ns), width = percent(picture, to_ns) - x;
    if (width > 0)
        html_put(picture->out,
                 "<rect class='%s' x='%.3f%%' y='%d' width='%.3f%%' height='%d'><title>%s: %s</title></rect>\n", kind,
                 x, row_top(picture, row), width, BAR_HEIGHT, name, figure_time((double)(to_ns - from_ns) / 1e3, text));
}

static void
put_trainer(const struct picture *picture, unsigned row, const struct rank_facts *rank, const struct trace_step *step)
{
    int64_t boundary_ns = time_of(rank, step, 0), released_ns = time_of(rank, step, step->released_us);
    int64_t begin_ns = time_of(rank, step, begin_us(step));
    int64_t backward_ns = isnan(step->backward_us) ? boundary_ns : time_of(rank, step, step->backward_us);
    put_part(picture, row, "before", "before backward", begin_ns, backward_ns);
    put_part(picture, row, "backward", "backward", backward_ns, boundary_ns);
    struct last_rank last = waits_of(picture->facts->trace, rank->run, step);
    int64_t ranks_ns = last.rank < 0 ? boundary_ns : time_of(rank, step, step->released_us - last.waited);
    put_part(picture, row, "ranks", "waits for other ranks", boundary_ns, ranks_ns);
    put_part(picture, row, "network", "exposed communication", ranks_ns, released_ns);
}

static int
bucket_top(const struct picture *picture, const struct trace_bucket *bucket)
{
    unsigned row = bucket->communicator < picture->rows ? bucket->communicator : picture->rows - 1;
    return row_top(picture, picture->groups + row);
}

/* From where its gradients were ready, in the row of its group, to where it began. */
static void
put_ready(const struct picture *picture, unsigned row, const struct rank_facts *rank, const struct trace_step *step,
          const struct trace_bucket *bucket)
{
    double ready = percent(picture, time_of(rank, step, bucket->ready_us));
    double begin = percent(picture, time_of(rank, step, bucket->begin_us));
    int y = row_top(picture, row) + BAR_HEIGHT;
    html_put(picture->out,
             "<line class='ready' x1='%.3f%%' y1='%d' x2='%.3f%%' y2='%d'/><circle class='dot' cx='%.3f%%' "
             "cy='%d' r='2'/>\n",
             ready, y, begin, bucket_top(picture, bucket), ready, y);
}

static void
put_bucket(const struct picture *picture, unsigned row, const struct rank_facts *rank, const struct trace_step *step,
           const struct trace_bucket *bucket)
{
    char size[FIGURE_BYTES], time[FIGURE_BYTES], name[40];
    if (isnan(bucket->begin_us) || isnan(bucket->end_us))
        return;
    int64_t begin_ns = time_of(rank, step, bucket->begin_us), end_ns = time_of(rank, step, bucket->end_us);
    if (end_ns < picture->begin_ns || begin_ns > picture->end_ns) /* of a step that is there in part */
        return;
    double x = percent(picture, begin_ns), width = percent(picture, end_ns) - x;
    int y = bucket_top(picture, bucket);
    if (step->group == picture->facts->group)
        snprintf(name, sizeof(name), "%u", bucket->number);
    else
        snprintf(name, sizeof(name), "%d.%u", step->group, bucket->number);
    html_put(picture->out,
             "<rect class='%s' x='%.3f%%' y='%d' width='%.3f%%' height='%d' rx='2'><title>bucket %s: %s, "
             "%s</title></rect>\n",
             bucket->early ? "early" : "late", x, y, fmax(width, 0.15), BAR_HEIGHT, name,
             figure_bytes((double)bucket->bytes, size), figure_time(bucket->end_us - bucket->begin_us, time));
    if (width >= WIDE_ENOUGH)
        html_put(picture->out, "<text class='inside' x='%.3f%%' y='%d' text-anchor='middle'>%s</text>\n", x + width / 2,
                 y + BAR_HEIGHT - 4, name);
    if (!isnan(bucket->ready_us) && time_of(rank, step, bucket->ready_us) >= picture->begin_ns)
        put_ready(picture, row, rank, step, bucket);
}

/* Its buckets, `most` of them. */
static void
put_step(const struct picture *picture, unsigned row, const struct rank_facts *rank, const struct trace_step *step,
         size_t most)
{
    put_trainer(picture, row, rank, step);
    for (size_t k = 0; k < step->bucket_count && k < most; ++k)
        put_bucket(picture, row, rank, step, &step->buckets[k]);
}

/* Steps of another group that are in the picture. */
static void
put_others(const struct picture *picture, unsigned row, const struct rank_facts *rank, int group)
{
    size_t put = 0;
    for (size_t i = 0; i < rank->run->step_count && put < MOST_BUCKETS; ++i) {
        const struct trace_step *step = &rank->run->steps[i];
        if (step->group != group || step->in_graph || time_of(rank, step, step->released_us) <= picture->begin_ns ||
            time_of(rank, step, begin_us(step)) >= picture->end_ns)
            continue;
        put_step(picture, row, rank, step, MOST_BUCKETS - put);
        put += step->bucket_count + 1;
    }
}

static void
put_bound(const struct picture *picture, const struct rank_facts *rank, const struct trace_step *step)
{
    double bound_us = !isnan(step->bound_us) ? step->bound_us : picture->facts->bound_us;
    if (isnan(bound_us))
        return;
    double x = percent(picture, time_of(rank, step, bound_us));
    html_put(picture->out, "<line class='bound' x1='%.3f%%' x2='%.3f%%' y1='%d' y2='%d'/>\n", x, x, picture->y - 4,
             picture->y + lane_height(picture) - NAME_HEIGHT - LANE_GAP + 4);
}

static void
put_lane(struct picture *picture, const struct rank_facts *rank)
{
    const struct trace_step *step = facts_step_of(rank, picture->step);
    html_put(picture->out, "<text class='lane' x='0' y='%d'>rank %d</text>\n", picture->y + NAME_HEIGHT - 5,
             rank->run->rank);
    picture->y += NAME_HEIGHT;
    put_step(picture, 0, rank, step, MOST_BUCKETS);
    unsigned row = 1;
    for (int g = 0; g < TRACE_GROUPS && row < picture->groups; ++g) {
        if (picture->facts->group_steps[g] > 0 && g != picture->facts->group)
            put_others(picture, row++, rank, g);
    }
    put_bound(picture, rank, step);
    picture->y += lane_height(picture) - NAME_HEIGHT;
}

/* ---- the picture ---- */

static void
put_axis(const struct picture *picture, int height, bool labels)
{
    enum { TICKS_AT_LEAST = 2, MOST_TICKS = 20, END_PERCENT = 97 };
    char text[FIGURE_BYTES];
    double all_us = (double)(picture->end_ns - picture->begin_ns) / 1e3, tick_us = chart_tick(all_us, TICKS_AT_LEAST);
    for (int i = 0; i < MOST_TICKS && i * tick_us <= all_us; ++i) {
        double us = i * tick_us, x = 100 * us / all_us;
        if (!labels)
            html_put(picture->out, "<line class='grid' x1='%.3f%%' x2='%.3f%%' y1='0' y2='%d'/>\n", x, x,
                     height - AXIS_HEIGHT + 4);
        else if (x <= END_PERCENT || tick_us > all_us / 4) /* else it lies over the one before, on narrow screens */
            html_put(picture->out, "<text class='tick' x='%.3f%%' y='%d' text-anchor='%s'>%s</text>\n", x, height - 6,
                     us == 0           ? "start"
                     : x > END_PERCENT ? "end"
                                       : "middle",
                     figure_time(us, text));
    }
}

static void
put_legend(FILE *out, bool has_bound)
{
    fputs("<div class='legend'>\n", out);
    chart_legend_of_step(out);
    chart_legend(out, "early", false, "bucket, sent during backward");
    chart_legend(out, "late", false, "bucket, sent after it");
    fputs("<span class='key'><svg class='swatch' width='12' height='12' aria-hidden='true'><circle class='dot' cx='6' "
          "cy='6' r='2.5'/></svg>gradients of a bucket are ready</span>\n",
          out);
    if (has_bound)
        chart_legend(out, "bound", true, "lower bound of any bucket layout");
    fputs("</div>\n", out);
}

static void
put_words(FILE *out, const struct facts *facts, const struct picture *picture, const struct step_facts *step)
{
    char took[FIGURE_BYTES], exposed[FIGURE_BYTES], bound[FIGURE_BYTES], promised[FIGURE_BYTES], error[FIGURE_BYTES];
    int64_t error_ns = 0;
    for (size_t r = 0; r < picture->lanes; ++r)
        error_ns = facts->ranks[r].clock->error_ns > error_ns ? facts->ranks[r].clock->error_ns : error_ns;
    html_put(out, "<p>Step %llu took %s, with %s of exposed communication.", (unsigned long long)step->number,
             figure_time(step->middle_us, took), figure_time(step->last.waited, exposed));
    if (!isnan(facts->bound_us))
        html_put(out, " Its plan of buckets predicted %s; the lower bound for any bucket layout is %s.",
                 figure_time(facts->predicted_us, promised), figure_time(facts->bound_us, bound));
    else if (facts->overlap != NULL && !facts->overlap->overlaps)
        fputs(" Overlap is off: its buckets were sent after backward.", out);
    else
        html_put(out, " Its buckets %s, so a lower bound is not known.",
                 facts->first->bucket_bytes > 0 ? "have a fixed size" : "are not planned from measured times yet");
    if (facts->group_count > 1)
        html_put(out,
                 " The first row of each rank is group %d; the other groups and the collectives follow below. Bucket "
                 "1.0 is bucket 0 of group 1.",
                 facts->group);
    if (picture->lanes > 1)
        html_put(out, " The clocks of the ranks are aligned within %s.", figure_time((double)error_ns / 1e3, error));
    if (picture->lanes < facts->rank_count)
        html_put(out, " The picture shows %zu of %zu ranks.", picture->lanes, facts->rank_count);
    fputs("</p>\n", out);
}

void
section_timeline(FILE *out, const struct facts *facts)
{
    const struct step_facts *step = choose_step(facts);
    html_section(out, "timeline", "One step",
                 "The step closest to the medians. For each rank: the trainer's stream and, below it, the all-reduce "
                 "of each bucket.");
    if (step == NULL) {
        fputs("<p>No step has times of all ranks.</p>\n"
              "</section>\n",
              out);
        return;
    }
    struct picture picture = {.out = out, .facts = facts, .step = step->number, .lanes = lanes_of(facts)};
    find_extent(&picture);
    int height = (int)picture.lanes * lane_height(&picture) + AXIS_HEIGHT;
    put_words(out, facts, &picture, step);
    put_legend(out, !isnan(facts->bound_us));
    fputs("<div class='box' tabindex='0' role='region' aria-label='Timeline'><div class='wide'>\n", out);
    chart_open(
        out, "timeline-picture", "chart", height, "Timeline of one step",
        "A lane for each rank: before backward, backward, waiting for ranks and for averages; below it the buckets' "
        "all-reduces.");
    put_axis(&picture, height, false);
    for (size_t r = 0; r < picture.lanes; ++r)
        put_lane(&picture, &facts->ranks[r]);
    put_axis(&picture, height, true);
    fputs("</svg></div></div>\n</section>\n", out);
}
