/*
 * timeline.c - one step of the run: what the device of each rank did, bucket by bucket. A table, of which page.js makes
 * a picture. Its times are those of the devices, as in all means; the last all-reduce ends on all ranks at one time,
 * and that brings their clocks together.
 */
#include "tools/page/report.h"

#include <json-c/json.h>

#include <math.h>

enum { MOST_LANES = 8, MOST_SLICES = 2000 };

/* What is added to the table: slices of one rank, in microseconds of the picture. */
struct lane {
    struct table *table;
    const struct facts *facts;
    const struct rank_facts *rank;
    const struct trace_step *shown;
    double end_us, width_us; /* in the picture: the end of the last all-reduce, and of the picture */
};

static double
begin_us(const struct trace_step *step)
{
    return !isnan(step->begin_us) ? step->begin_us : !isnan(step->backward_us) ? step->backward_us : 0;
}

/* When the last all-reduce has ended; else when the step ends. */
static double
collected_us(const struct trace_step *step)
{
    double end_us = NAN;
    FOR_EACH(bucket, step->buckets, step->bucket_count)
        end_us = fmax(end_us, bucket->end_us);
    return isnan(end_us) ? step->released_us : end_us;
}

/* The one whose duration and exposed part are nearest to the means, of those that these are of, and that are as the
 * last ones: with their plan, and with overlap unless that was switched off; of others if there is none. */
static const struct step_facts *
choose_step(const struct facts *facts)
{
    const struct step_facts *chosen = NULL;
    double best = INFINITY;
    bool overlaps = facts->overlap == NULL || facts->overlap->overlaps;
    FOR_EACH(step, facts->steps, facts->step_count) {
        bool is_usual = step->counts && step->overlapped == overlaps &&
                        (facts->plan == NULL || step->number > facts->plan->after_step);
        double distance = isnan(step->middle_us) ? 1e15 : fmax(0, fabs(step->middle_us - facts->step_us));
        distance += fmax(0, fabs(step->last.waited - facts->exposed_us)); /* of a mean that is not known: 0 */
        distance += (is_usual ? 0 : 1e16) + (step->control ? 1e17 : 0);
        if (distance < best) {
            best = distance;
            chosen = step;
        }
    }
    return chosen;
}

/* ---- a lane ---- */

/* From `begin` to `end` of the step, and when its gradients were ready; NAN: not known. */
static void
put_slice(const struct lane *lane, const char *track, const char *name, const char *part, const struct trace_step *step,
          double begin, double end, double ready, double bytes)
{
    double later_us = (double)(step->boundary_ns - lane->shown->boundary_ns) / 1e3;
    double zero_us = lane->end_us - collected_us(lane->shown) + later_us;
    if (zero_us + end >= 0 && zero_us + begin <= lane->width_us)
        report_row(lane->table, ROW({lane->rank->run->rank}, {.text = track}, {.text = name}, {.text = part},
                                    {zero_us + begin}, {end - begin}, {zero_us + ready}, {bytes}));
}

static void
put_step(const struct lane *lane, const struct trace_step *step)
{
    char track[40] = "device", name[40], group[16];
    bool many = lane->facts->group_count > 1;
    double backward_us = isnan(step->backward_us) ? 0 : step->backward_us;
    struct last_rank last = waits_of(lane->facts->trace, lane->rank->run, step);
    double ranks_us = last.rank < 0 ? 0 : step->released_us - last.waited;
    if (many)
        snprintf(track, sizeof(track), "group %d", step->group);
    snprintf(group, sizeof(group), "%d.", step->group);
    const struct {
        const char *part;
        double begin, end;
    } parts[] = {{"before backward", begin_us(step), backward_us},
                 {"backward", backward_us, 0},
                 {"waits for other ranks", 0, ranks_us},
                 {"exposed communication", ranks_us, step->released_us}};
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); ++i) {
        if (parts[i].end > parts[i].begin)
            put_slice(lane, track, "", parts[i].part, step, parts[i].begin, parts[i].end, NAN, NAN);
    }
    FOR_EACH(bucket, step->buckets, step->bucket_count) {
        snprintf(name, sizeof(name), "bucket %.*s%u", many ? (int)sizeof(group) : 0, group, bucket->number);
        if (!isnan(bucket->begin_us) && !isnan(bucket->end_us))
            put_slice(lane, "collectives", name,
                      bucket->begin_us < 0 ? "all-reduce, begun during backward" : "all-reduce, begun after backward",
                      step, bucket->begin_us, bucket->end_us, bucket->ready_us, (double)bucket->bytes);
    }
}

/* The step and, of other groups, what is in its picture. */
static void
put_lane(const struct lane *lane)
{
    put_step(lane, lane->shown);
    FOR_EACH(step, lane->rank->run->steps, lane->rank->run->step_count) {
        if (step->group != lane->shown->group && !step->in_graph)
            put_step(lane, step);
    }
}

/* ---- all of it ---- */

void
section_timeline(json_object *report, const struct facts *facts)
{
    char shortest[FIGURE_BYTES], longest[FIGURE_BYTES];
    size_t lanes = facts->rank_count < MOST_LANES ? facts->rank_count : MOST_LANES;
    double end_us = 0, after_us = 0;
    const struct step_facts *step = choose_step(facts);
    json_object *section = report_section(
        report, "timeline", "One step",
        "Each rank has two rows: its stream above, its all-reduces below. An all-reduce that is queued during backward "
        "may start after it.");
    if (step == NULL) {
        report_sentence(section, "notes", "No step has times of all ranks%s.",
                        facts->world > 1 ? "" : ": with one rank, nothing is averaged");
        return;
    }
    report_sentence(
        section, "notes",
        "Step %llu took %s on the quickest rank and %s on the slowest. The last all-reduce ends on all ranks at the "
        "same moment of the picture; exposed communication ends later, when its result is unpacked.",
        (unsigned long long)step->number, figure_time(step->least_us, shortest), figure_time(step->most_us, longest));
    if (lanes < facts->rank_count)
        report_sentence(section, "notes", "The picture shows %zu of %zu ranks.", lanes, facts->rank_count);
    struct table table =
        report_table(section, "What each device did", "timeline",
                     "Rank:count|Track|Slice|Part|Begin:time|Takes:time|Ready:time|Bytes:bytes", MOST_SLICES);
    FOR_EACH(rank, facts->ranks, lanes) {
        const struct trace_step *own = facts_step_of(rank, step->number);
        end_us = fmax(end_us, collected_us(own) - begin_us(own));
        after_us = fmax(after_us, own->released_us - collected_us(own));
    }
    FOR_EACH(rank, facts->ranks, lanes)
        put_lane(&(struct lane){&table, facts, rank, facts_step_of(rank, step->number), end_us, end_us + after_us});
}
