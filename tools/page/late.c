/*
 * late.c - for which rank the others waited, in which part of its steps it takes longer, and in which steps most.
 */
#include "tools/page/report.h"

#include "launcher/common/xcalloc.h"
#include "tools/common/owned.h"

#include <math.h>

enum { WORST_STEPS = 5 };

/* ---- in which part ---- */

/* How much longer than in the mean of the other ranks; NAN: not known. */
struct longer {
    double host_us, loader_us, copies_us;           /* on the host; the last two are in the first */
    double before_us, device_copies_us, forward_us; /* on the device, likewise */
    double backward_us;
};

static void
add_rank(struct longer *sum, const struct rank_facts *rank, double times)
{
    sum->host_us += times * rank->host_us;
    sum->loader_us += times * rank->host.loader_us;
    sum->copies_us += times * rank->host.copies_us;
    sum->before_us += times * rank->before_us;
    sum->device_copies_us += times * rank->device.copies_us;
    sum->forward_us += times * rank->device.forward_us;
    sum->backward_us += times * rank->backward_us;
}

static struct longer
find_longer(const struct facts *facts, const struct rank_facts *late)
{
    struct longer longer = {0};
    double others = (double)facts->rank_count - 1;
    FOR_EACH(rank, facts->ranks, facts->rank_count)
        add_rank(&longer, rank, rank == late ? 1 : -1 / others);
    return longer;
}

/* A part that takes longer, and where to look; as in the sentence of late_describe(). */
struct cause {
    double longer_us;
    const char *what, *where, *look;
};

/* The largest that is at least `least_us`; NULL: none is, or none is known. */
static const struct cause *
find_cause(const struct cause *causes, size_t count, double least_us)
{
    const struct cause *found = NULL;
    FOR_EACH(cause, causes, count) {
        if (cause->longer_us >= least_us && (found == NULL || cause->longer_us > found->longer_us))
            found = cause;
    }
    return found;
}

#define SHARE_AND_CLOCK "its share of the batch and its GPU's clock"

/* A part of the host's time, or all of it. The host's time says most: where a host waits for its device, all hosts take
 * as long, and this part decides nothing. */
static struct cause
host_cause(const struct longer *longer, double least_us)
{
    const struct cause parts[] = {
        {longer->loader_us, "Its loader", "", "how it reads and prepares data, and at other programs on its host"},
        {longer->copies_us, "Its copying of the batch to the device", "",
         "the size of its batch, and at other programs on its host"}};
    const struct cause *part = find_cause(parts, sizeof(parts) / sizeof(parts[0]), least_us);
    if (part != NULL)
        return *part;
    return (struct cause){longer->host_us, "Its program", " from one DDP_STEP to the next call of it",
                          "its data loader, its copies, and other programs on its host"};
}

/* A part of the device's time before backward, or all of it. */
static struct cause
before_cause(const struct longer *longer, double least_us)
{
    const struct cause parts[] = {{longer->forward_us, "Its forward pass", "", SHARE_AND_CLOCK},
                                  {longer->device_copies_us, "Its copying of the batch to the device", "",
                                   "the size of its batch, and at the load of its host"}};
    const struct cause *part = find_cause(parts, sizeof(parts) / sizeof(parts[0]), least_us);
    if (part != NULL)
        return *part;
    return (struct cause){longer->before_us, "Before backward it", "",
                          "its data loader, its copies, its forward pass and the load of its host"};
}

static struct cause
device_cause(const struct longer *longer, double least_us)
{
    const struct cause backward = {longer->backward_us, "Its backward", "", SHARE_AND_CLOCK};
    return longer->before_us > longer->backward_us ? before_cause(longer, least_us) : backward;
}

/* A cause explains half of the delay at least. */
const char *
late_describe(const struct facts *facts, char text[LATE_TEXT_BYTES])
{
    char time[FIGURE_BYTES], rest[80] = "", other[FIGURE_BYTES];
    const struct rank_facts *late = &facts->ranks[facts->waited.straggler];
    struct longer longer = find_longer(facts, late);
    double least_us = late->kept_us / 2;
    struct cause cause = longer.host_us > least_us ? host_cause(&longer, least_us) : device_cause(&longer, least_us);
    if (!(cause.longer_us >= least_us)) {
        snprintf(text, LATE_TEXT_BYTES,
                 ". Which part of its steps takes longer is not known: look at the load of its host, its data "
                 "loader, " SHARE_AND_CLOCK);
        return text;
    }
    if (late->kept_us - cause.longer_us > 0.1 * late->kept_us)
        snprintf(rest, sizeof(rest), "; the cause of the other %s is not known",
                 figure_time(late->kept_us - cause.longer_us, other));
    snprintf(text, LATE_TEXT_BYTES, ". %s takes %s longer%s%s: look at %s", cause.what,
             figure_time(cause.longer_us, time), cause.where, rest, cause.look);
    return text;
}

/* ---- in which steps ---- */

static double
gap_of(const struct step_facts *step)
{
    double gap_us = last_rank_gap(&step->last);
    return isfinite(gap_us) ? gap_us : 0;
}

static int
by_gap(const void *first, const void *other)
{
    double a = gap_of(*(const struct step_facts *const *)first), b = gap_of(*(const struct step_facts *const *)other);
    return (a < b) - (a > b);
}

void
section_late(struct json_object *report, const struct facts *facts)
{
    int straggler = facts->waited.straggler;
    OWNED const struct step_facts **worst = xcalloc(facts->step_count + 1, sizeof(*worst));
    size_t count = 0;
    if (facts->world < 2 || !facts->waited.matters)
        return;
    FOR_EACH(step, facts->steps, facts->step_count) {
        bool is_its = straggler < 0 ? step->last.rank >= 0 : step->last.rank == straggler;
        if (step->counts && is_its && gap_of(step) > 0)
            worst[count++] = step;
    }
    if (count == 0)
        return;
    SORT(worst, count, by_gap);
    struct table table = report_table(
        report_section(report, "late", "Worst waits", "Steps in which a rank came latest after the rank before it."),
        "The longest waits", "",
        "Step:count|Rank:count|Later by:time|Before backward:time|Backward:time|Host, DDP_STEP to DDP_STEP:time",
        WORST_STEPS);
    report_sentence(table.object, "notes",
                    "Times are of the rank that came last: on its device before and during backward, and on its host "
                    "from the return of one DDP_STEP to the call of the next.");
    for (size_t i = 0; i < count; ++i) {
        const struct rank_facts *rank = &facts->ranks[worst[i]->last.rank];
        const struct trace_step *own = facts_step_of(rank, worst[i]->number);
        report_row(&table, ROW({(double)worst[i]->number}, {rank->run->rank}, {gap_of(worst[i])},
                               {own->backward_us - own->begin_us}, {-own->backward_us},
                               {facts_host_us(rank, worst[i]->number)}));
    }
}
