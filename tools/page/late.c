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
    double host_us, before_us, backward_us;
};

static struct longer
find_longer(const struct facts *facts, const struct rank_facts *late)
{
    struct longer others = {0};
    double count = (double)facts->rank_count - 1;
    FOR_EACH(rank, facts->ranks, facts->rank_count) {
        if (rank == late)
            continue;
        others.host_us += rank->host_us / count;
        others.before_us += rank->before_us / count;
        others.backward_us += rank->backward_us / count;
    }
    return (struct longer){late->host_us - others.host_us, late->before_us - others.before_us,
                           late->backward_us - others.backward_us};
}

/* The host's time says most: where a host waits for its device, all hosts take as long, and this part decides nothing.
 */
const char *
late_describe(const struct facts *facts, char text[LATE_TEXT_BYTES])
{
    char time[FIGURE_BYTES];
    const struct rank_facts *late = &facts->ranks[facts->waited.straggler];
    struct longer longer = find_longer(facts, late);
    double most_us = fmax(longer.before_us, longer.backward_us);
    if (longer.host_us > late->kept_us / 2)
        snprintf(text, LATE_TEXT_BYTES,
                 ". Its program takes %s longer from one DDP_STEP to the next call of it: look at its data loader, its "
                 "copies, and other programs on its host",
                 figure_time(longer.host_us, time));
    else if (isnan(most_us) || most_us < late->kept_us / 2)
        snprintf(text, LATE_TEXT_BYTES,
                 ": the load of its host, its data loader, its share of the batch, its GPU's clock");
    else if (longer.backward_us >= longer.before_us)
        snprintf(text, LATE_TEXT_BYTES,
                 ". Its backward takes %s longer: look at its share of the batch and its GPU's clock",
                 figure_time(longer.backward_us, time));
    else
        snprintf(text, LATE_TEXT_BYTES,
                 ". Before backward it takes %s longer: look at its data loader, its copies, its forward pass and the "
                 "load of its host",
                 figure_time(longer.before_us, time));
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
