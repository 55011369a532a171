/*
 * table.c - see request.h.
 */
#include "tools/predict/request.h"

#include "base/protocol.h"
#include "tools/predict/model.h"

#include <math.h>
#include <stdio.h>

#define WORTH_IT 0.5 /* of what so many ranks could do */

/* One way to use more ranks. */
struct scaling {
    const char *name;
    struct prediction rows[PREDICT_MOST_COUNTS];
    double items[PREDICT_MOST_COUNTS]; /* of a step, on all ranks; 0: not known */
    double speed_up[PREDICT_MOST_COUNTS];
    size_t count;
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

static bool
find_kept(const struct forecasts *forecasts, struct scaling *scaling, struct error *error)
{
    const struct predict_request *request = forecasts->request;
    const struct model *model = forecasts->kept;
    scaling->name = "kept";
    for (size_t i = 0; i < request->count_count; ++i) {
        unsigned ranks = request->counts[i];
        if (!predict(forecasts, model, ranks, &scaling->rows[i], error))
            return false;
        scaling->items[i] = model->items / forecasts->shares * ranks;
        scaling->speed_up[i] = alone_us(model) / scaling->rows[i].step_us * ranks;
        scaling->count = i + 1;
    }
    return true;
}

/* Speed-up is over one rank that has the whole batch. Rows that were not looked at are left out. */
static bool
find_shared(const struct forecasts *forecasts, struct scaling *scaling, struct error *error)
{
    const struct predict_request *request = forecasts->request;
    const struct model *whole = forecasts->kept;
    scaling->name = "shared out";
    if (whole == NULL || whole->batch == 0 || forecasts->shares > 1)
        return true;
    for (size_t i = 0; i < request->count_count; ++i) {
        const struct model *model = request->counts[i] == 1 ? whole : forecasts->shared[i];
        size_t at = scaling->count;
        if (model == NULL)
            continue;
        if (!predict(forecasts, model, request->counts[i], &scaling->rows[at], error))
            return false;
        scaling->items[at] = whole->items;
        scaling->speed_up[at] = alone_us(whole) / scaling->rows[at].step_us;
        scaling->rows[at].efficiency = scaling->speed_up[at] / request->counts[i];
        ++scaling->count;
    }
    return true;
}

/* ---- what is printed ---- */

static void
print_rows(const struct scaling *scaling)
{
    printf("%8s %12s %12s %10s %12s %10s %12s\n", "ranks", "step ms", "exposed ms", "steps/s", "items/s", "speed-up",
           "efficiency");
    for (size_t i = 0; i < scaling->count; ++i) {
        const struct prediction *row = &scaling->rows[i];
        char items[32] = "-";
        if (scaling->items[i] > 0.0)
            snprintf(items, sizeof(items), "%.1f", scaling->items[i] * 1e6 / row->step_us);
        printf("%8u %12.3f %12.3f %10.2f %12s %10.2f %12.3f\n", row->ranks, row->step_us / 1e3, row->exposed_us / 1e3,
               1e6 / row->step_us, items, scaling->speed_up[i], row->efficiency);
    }
}

/* The greatest number of ranks that bring half of what they could, and what the next one would. */
static void
print_worth(const struct scaling *scaling)
{
    size_t best = SIZE_MAX, next = SIZE_MAX;
    for (size_t i = 0; i < scaling->count; ++i) {
        const struct prediction *row = &scaling->rows[i];
        if (row->ranks > 1 && row->efficiency >= WORTH_IT &&
            (best == SIZE_MAX || row->ranks > scaling->rows[best].ranks))
            best = i;
    }
    for (size_t i = 0; i < scaling->count; ++i) {
        unsigned ranks = scaling->rows[i].ranks, least = best == SIZE_MAX ? 1 : scaling->rows[best].ranks;
        if (ranks > least && (next == SIZE_MAX || ranks < scaling->rows[next].ranks))
            next = i;
    }
    if (best != SIZE_MAX)
        printf("With the batch %s, up to %u ranks are worth it: %.2f times as many items per second as one rank, at an "
               "efficiency of %.0f %%.",
               scaling->name, scaling->rows[best].ranks, scaling->speed_up[best],
               100.0 * scaling->rows[best].efficiency);
    else if (next != SIZE_MAX)
        printf("With the batch %s, none of these numbers of ranks is worth it.", scaling->name);
    if (next != SIZE_MAX)
        printf(" %u ranks: %.2f times, at %.0f %%.", scaling->rows[next].ranks, scaling->speed_up[next],
               100.0 * scaling->rows[next].efficiency);
    if (best != SIZE_MAX || next != SIZE_MAX)
        printf("\n");
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
print_assumptions(const struct forecasts *forecasts)
{
    const struct model *model = forecasts->kept;
    printf(
        "\nAssumptions:\n"
        "- without averaging a step takes %.3f ms: median of %zu steps of %u rank%s (%s); with the batch kept, each\n"
        "  rank has a batch as large as it has here; all are equally fast%s.\n"
        "- each rank has a GPU of its own, and as many CPU cores as a rank had here; with fewer it is slower.\n"
        "- gradients: %zu, of %.2f MB; %s.\n",
        alone_us(model) / 1e3, model->step_count, model->ranks, model->ranks == 1 ? "" : "s", model->of_rank[0].host,
        model->straggler != NULL ? ": the straggler in the trace is left out" : "", model->gradient_count,
        (double)model->bytes / 1e6,
        !model->overlapped       ? "steps do not overlap here: all of them are sent after backward"
        : model->ready_by_bucket ? "when each is ready is known of buckets, and spread over their gradients by bytes"
                                 : "when each is ready is measured");
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
    else if (model_batch(forecasts->kept) == 0)
        printf(
            "The program does not share out a batch by DDP_SHARD, or not always the same: each rank has one as large\n"
            "as here.\n\n");
}

bool
table_print(const struct forecasts *forecasts, struct error *error)
{
    static struct scaling shared, kept; /* large */
    if (!find_shared(forecasts, &shared, error) || !find_kept(forecasts, &kept, error))
        return false;
    if (shared.count > 0) {
        printf("The batch shared out, as ddprun -n does it: %llu items for all ranks together (DDP_SHARD)\n",
               (unsigned long long)model_batch(forecasts->kept));
        print_rows(&shared);
        printf("\nThe batch kept: as many items for each rank\n");
    } else {
        print_unshared(forecasts);
    }
    print_rows(&kept);
    printf("\n");
    print_worth(&shared);
    print_worth(&kept);
    print_assumptions(forecasts);
    if (forecasts->request->folder != NULL || shared.count == 0)
        print_losses(forecasts->kept);
    return true;
}
