/* table.c - see request.h. */
#include "tools/predict/request.h"

#include "base/protocol.h"
#include "launcher/common/xcalloc.h"
#include "tools/common/range.h"
#include "tools/predict/model.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

#define WORTH_IT 0.5 /* of what so many ranks could do */

/* One way to use so many ranks, as each rehearsal found it. */
struct row {
    unsigned ranks;
    double items; /* of a step, on all ranks; 0: not known */
    struct range step_us, exposed_us, speed_up;
};

struct scaling {
    const char *name;
    struct row rows[PREDICT_MOST_COUNTS];
    size_t count;
};

struct table {
    struct scaling shared, kept;
    struct range alone_us; /* a step with the batch kept, and without averaging */
    unsigned rehearsals;
};

static const struct link *
link_of(const struct forecasts *forecasts)
{
    return forecasts->request->has_link ? &forecasts->request->link : NULL;
}

static bool
predict(const struct forecasts *forecasts, const struct model *model, unsigned ranks, struct prediction *row,
        struct error *error)
{
    const struct link *link = link_of(forecasts);
    if (link == NULL && ranks > 1 && model->sample_count == 0)
        return error_set(error, DDPRUN_EXIT_FAILURE,
                         "the trace does not show what an all-reduce costs: give --link BANDWIDTH,LATENCY");
    return model_predict(model, ranks, link, row) ||
           error_set(error, DDPRUN_EXIT_FAILURE, "a step of %u ranks would take longer than half an hour", ranks);
}

/* A step of one rank with the same part of the batch, and without averaging. */
static double
alone_us(const struct model *model)
{
    return model->own_us - model->slowed_us;
}

/* Takes what this rehearsal has of it. */
static void
add_row(struct scaling *scaling, const struct prediction *found, double alone_us, double times, double items)
{
    size_t i = 0;
    while (i < scaling->count && scaling->rows[i].ranks != found->ranks)
        ++i;
    struct row *row = &scaling->rows[i];
    scaling->count += i == scaling->count;
    row->ranks = found->ranks;
    row->items = items;
    range_add(&row->step_us, found->step_us, INFINITY);
    range_add(&row->exposed_us, found->exposed_us, INFINITY);
    range_add(&row->speed_up, alone_us / found->step_us * times, found->ranks);
}

/* With the batch kept, each rank has the model's batch; else its share of one, and speed-up is over one rank that has
 * the whole of it. Rows that were not looked at are left out. */
static bool
add_rows(const struct forecasts *forecasts, bool keeps, struct scaling *scaling, struct error *error)
{
    const struct predict_request *request = forecasts->request;
    const struct model *whole = forecasts->kept;
    struct prediction found;
    scaling->name = keeps ? "kept" : "shared out";
    if (!keeps && (whole->batch == 0 || forecasts->shares > 1))
        return true;
    for (size_t i = 0; i < request->count_count; ++i) {
        unsigned ranks = request->counts[i];
        const struct model *model = keeps || ranks == 1 ? whole : forecasts->shared[i];
        if (model != NULL && !predict(forecasts, model, ranks, &found, error))
            return false;
        if (model != NULL)
            add_row(scaling, &found, alone_us(whole), keeps ? ranks : 1,
                    keeps ? whole->items / forecasts->shares * ranks : whole->items);
    }
    return true;
}

static bool
is_noisy(const struct scaling *scaling)
{
    bool noisy = false;
    for (size_t i = 0; i < scaling->count; ++i)
        noisy = noisy || range_is_noisy(&scaling->rows[i].step_us) || range_is_noisy(&scaling->rows[i].speed_up);
    return noisy;
}

struct table *
table_new(void)
{
    return xcalloc(1, sizeof(struct table));
}

bool
table_add(struct table *table, const struct forecasts *forecasts, bool *more_p, struct error *error)
{
    if (!add_rows(forecasts, false, &table->shared, error) || !add_rows(forecasts, true, &table->kept, error))
        return false;
    range_add(&table->alone_us, alone_us(forecasts->kept), INFINITY);
    ++table->rehearsals;
    *more_p = table->rehearsals < RANGE_MOST_VALUES &&
              (table->rehearsals < RANGE_LEAST_VALUES || is_noisy(&table->shared) || is_noisy(&table->kept));
    return true;
}

/* ---- what is printed ---- */

/* More than its ranks could do in each rehearsal: that is no result. */
static bool
is_known(const struct row *row)
{
    return !range_is_impossible(&row->speed_up);
}

static double
efficiency_of(const struct row *row)
{
    return range_middle(&row->speed_up) / row->ranks;
}

static void
print_rows(const struct scaling *scaling)
{
    printf("%8s %12s %12s %10s %12s %10s %12s\n", "ranks", "step ms", "exposed ms", "steps/s", "items/s", "speed-up",
           "efficiency");
    for (size_t i = 0; i < scaling->count; ++i) {
        const struct row *row = &scaling->rows[i];
        double step_us = range_middle(&row->step_us);
        char items[32] = "-", speed_up[32] = "-", efficiency[32] = "-";
        if (row->items > 0.0)
            snprintf(items, sizeof(items), "%.1f", row->items * 1e6 / step_us);
        if (is_known(row)) {
            snprintf(speed_up, sizeof(speed_up), "%.2f", range_middle(&row->speed_up));
            snprintf(efficiency, sizeof(efficiency), "%.3f", efficiency_of(row));
        }
        printf("%8u %12.3f %12.3f %10.2f %12s %10s %12s\n", row->ranks, step_us / 1e3,
               range_middle(&row->exposed_us) / 1e3, 1e6 / step_us, items, speed_up, efficiency);
    }
}

static void
print_range(const struct range *range, double unit, int digits)
{
    char text[64];
    snprintf(text, sizeof(text), "%.*f-%.*f", digits, range_low(range) / unit, digits, range_high(range) / unit);
    printf(" %20s", text);
}

/* How far rehearsals lie apart; and whether they say anything. */
static void
print_ranges(const struct scaling *scaling, unsigned rehearsals)
{
    if (scaling->count == 0)
        return;
    printf("Ranges of %u rehearsals, the batch %s\n%8s %20s %20s %20s\n", rehearsals, scaling->name, "ranks", "step ms",
           "exposed ms", "efficiency");
    for (size_t i = 0; i < scaling->count; ++i) {
        const struct row *row = &scaling->rows[i];
        printf("%8u", row->ranks);
        print_range(&row->step_us, 1e3, 3);
        print_range(&row->exposed_us, 1e3, 3);
        print_range(&row->speed_up, row->ranks, 3);
        printf("\n");
    }
    printf("\n");
}

/* The greatest number of ranks that bring half of what they could. */
static void
print_worth(const struct scaling *scaling)
{
    const struct row *best = NULL;
    bool any = false;
    for (size_t i = 0; i < scaling->count; ++i) {
        const struct row *row = &scaling->rows[i];
        bool counts = row->ranks > 1 && is_known(row);
        any = any || counts;
        if (counts && efficiency_of(row) >= WORTH_IT && (best == NULL || row->ranks > best->ranks))
            best = row;
    }
    if (best != NULL)
        printf(
            "With the batch %s, up to %u ranks are worth it: %.2f times as many items per second as one rank (%.2f to "
            "%.2f), at an efficiency of %.0f %%.\n",
            scaling->name, best->ranks, range_middle(&best->speed_up), range_low(&best->speed_up),
            range_high(&best->speed_up), 100.0 * efficiency_of(best));
    else if (any)
        printf("With the batch %s, none of these numbers of ranks is worth it.\n", scaling->name);
}

static void
print_link(const struct model *model, const struct link *link)
{
    if (link != NULL) {
        printf("- all-reduce: a ring of n ranks, each link %g MB/s and %g us: 2 (n - 1) latencies and\n"
               "  2 (n - 1) / n times the bytes over the bandwidth; the same link between all ranks.\n",
               link->bytes_per_us, link->latency_us);
        return;
    }
    struct cost cost;
    if (!model_cost(model, model->ranks, NULL, &cost))
        return;
    double small_us = (double)cost_fs(&cost, 4096) / 1e9, large_us = (double)cost_fs(&cost, model->bytes) / 1e9;
    printf("- all-reduce: %s on %u ranks: %.1f us for 4 KiB, %.1f us for all %.2f MB; on n ranks as rings\n"
           "  have it: 2 (n - 1) latencies, 2 (n - 1) / n times the bytes. The same link between all ranks: for a\n"
           "  job on several hosts give --link.\n",
           model->cost_measured ? "measured" : "fitted to the buckets' times", model->ranks, small_us, large_us,
           (double)model->bytes / 1e6);
}

static void
print_assumptions(const struct table *table, const struct forecasts *forecasts)
{
    const struct model *model = forecasts->kept;
    bool is_run = forecasts->request->folder == NULL;
    printf("\nAssumptions:\n"
           "- without averaging a step takes %.3f ms: %s of %u rank%s (%s)%s; with the batch kept, each\n"
           "  rank has a batch as large as it has here; all are equally fast%s. A job's start %s.\n"
           "- each rank has a GPU of its own, and as many CPU cores as a rank had here; with fewer it is slower.\n"
           "- gradients: %zu, of %.2f MB; %s.\n",
           range_middle(&table->alone_us) / 1e3, is_run ? "mean of all steps" : "median of the last steps",
           model->ranks, model->ranks == 1 ? "" : "s", model->host, table->rehearsals > 1 ? ", in each rehearsal" : "",
           model->straggler >= 0 ? ": the straggler in the trace is left out" : "",
           is_run ? "comes on top" : "and pauses, such as validation,\n  come on top", model->gradient_count,
           (double)model->bytes / 1e6,
           !model->overlapped       ? "steps do not overlap here: all of them are sent after backward"
           : model->ready_by_bucket ? "when each is ready is known of buckets, and spread over their gradients by bytes"
                                    : "when each is ready is measured");
    if (is_run)
        printf("- this machine has %ld cores: what more ranks than that take from each other here is not known.\n",
               sysconf(_SC_NPROCESSORS_ONLN));
    print_link(model, link_of(forecasts));
    if (link_of(forecasts) != NULL || model->ranks < 2)
        printf("- buckets are planned for each number of ranks; one all-reduce at a time; checks cost nothing.\n");
    else
        printf(
            "- %u ranks take what they took; others are predicted, with buckets planned for them, and are off by as\n"
            "  much as the prediction for these is.\n",
            model->ranks);
    if (model->slowed_us > 0.0)
        printf("- all-reduces beside backward make a step %.3f ms longer, on all numbers of ranks as here.\n",
               model->slowed_us / 1e3);
    else
        printf("- backward and all-reduces do not slow each other down more than here.\n");
}

static void
print_losses(const struct model *model)
{
    struct loss losses[8];
    size_t count = model_losses(model, losses, sizeof(losses) / sizeof(losses[0]));
    if (count > 0)
        printf("\nWhat a step loses on these %u ranks:\n", model->ranks);
    for (size_t i = 0; i < count; ++i)
        printf("- %s;\n  %s%.3f ms of a step would be saved: %s.\n", losses[i].what, losses[i].at_most ? "up to " : "",
               losses[i].gain_us / 1e3, losses[i].advice);
}

/* Why there is one table only. */
static void
print_unshared(const struct forecasts *forecasts)
{
    if (forecasts->request->folder != NULL)
        printf("A trace is of one share of the batch; with the batch shared out among other numbers of ranks: ddprun\n"
               "predict PROGRAM.\n\n");
    else if (forecasts->kept->batch == 0)
        printf(
            "The program does not share out a batch by DDP_SHARD, or not always the same: each rank has one as large\n"
            "as here.\n\n");
}

void
table_print(const struct table *table, const struct forecasts *forecasts)
{
    const struct scaling *shared = &table->shared, *kept = &table->kept;
    if (shared->count > 0) {
        printf("The batch shared out, as ddprun -n does it: %llu items for all ranks together (DDP_SHARD)\n",
               (unsigned long long)forecasts->kept->batch);
        print_rows(shared);
        printf("\nThe batch kept: as many items for each rank\n");
    } else {
        print_unshared(forecasts);
    }
    print_rows(kept);
    printf("\n");
    if (table->rehearsals > 1) {
        print_ranges(shared, table->rehearsals);
        print_ranges(kept, table->rehearsals);
        if (is_noisy(shared) || is_noisy(kept))
            printf(
                "The machine was too noisy for one value: rehearsals differ by more than a tenth. A speed-up beyond\n"
                "the number of ranks is cut to that, and left out where all rehearsals had it. Repeat this with\n"
                "nothing else running%s.\n\n",
                forecasts->kept->unbound ? ", and with --bind core: unbound ranks vary more" : "");
    } else if (forecasts->request->folder != NULL) {
        printf("A trace is one run, so these figures have no range.\n\n");
    } else {
        printf("One rehearsal took most of a minute: these figures have no range.\n\n");
    }
    print_worth(shared);
    print_worth(kept);
    print_assumptions(table, forecasts);
    if (forecasts->request->folder != NULL || shared->count == 0)
        print_losses(forecasts->kept);
}
