/* table.c - see request.h. */
#include "tools/predict/request.h"

#include "base/protocol.h"
#include "tools/predict/model.h"

#define WORTH_IT 0.5 /* of what so many ranks could do */

/* One way to use so many ranks. Speed-up is over one rank, as it is computed. */
struct row {
    struct prediction found;
    double items; /* of a step, on all ranks; 0: not known */
    double speed_up, low, high;
    bool is_impossible; /* it is more than the ranks */
    bool varies;        /* so it is, or the run's steps vary too much for a speed-up; */
    bool is_noisy;      /* and none of this number of ranks was measured */
};

struct scaling {
    const char *name;
    struct row rows[PREDICT_MOST_COUNTS];
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
    if (model_predict(model, ranks, link, row))
        return true;
    if (link == NULL && ranks > 1 && model->sample_count == 0)
        return error_set(
            error, DDPRUN_EXIT_FAILURE,
            "no time of an all-reduce is known: give --link BANDWIDTH,LATENCY; a run measures it if the gradients have "
            "at least 256 KiB and --bucket-mb is not given");
    return error_set(error, DDPRUN_EXIT_FAILURE, "a step of %u ranks would take longer than half an hour", ranks);
}

static void
add_row(struct scaling *scaling, const struct prediction *found, double alone_us, double times, double items,
        bool is_noisy)
{
    double least_us = alone_us * times / found->ranks * (1 - 1e-9); /* of a step, but for rounding */
    bool is_impossible = found->step_us < least_us;
    is_noisy = is_noisy || found->high_us < least_us;
    scaling->rows[scaling->count++] = (struct row){.found = *found,
                                                   .items = items,
                                                   .speed_up = alone_us / found->step_us * times,
                                                   .low = alone_us / found->high_us * times,
                                                   .high = alone_us / found->low_us * times,
                                                   .is_impossible = is_impossible,
                                                   .varies = is_noisy || is_impossible,
                                                   .is_noisy = is_noisy && !found->is_measured};
}

/* With the batch kept, each rank has the model's batch; else its share of one, and speed-up is over one rank that has
 * the whole of it. Rows that were not looked at are left out. */
static bool
add_rows(const struct forecasts *forecasts, bool keeps, struct scaling *scaling, struct error *error)
{
    const struct predict_request *request = forecasts->request;
    const struct model *whole = forecasts->kept;
    struct prediction found;
    scaling->name = keeps ? "Weak scaling" : "Strong scaling";
    if (!keeps && (whole->batch == 0 || forecasts->shares > 1))
        return true;
    for (size_t i = 0; i < request->count_count; ++i) {
        unsigned ranks = request->counts[i];
        const struct model *model = keeps || ranks == 1 ? whole : forecasts->shared[i];
        if (model != NULL && !predict(forecasts, model, ranks, &found, error))
            return false;
        if (model == NULL)
            continue;
        add_row(scaling, &found, whole->alone_us, keeps ? ranks : 1,
                keeps ? whole->items / forecasts->shares * ranks : whole->items,
                model_is_noisy(model) || model_is_noisy(whole));
    }
    return true;
}

/* ---- what is printed ---- */

static double
efficiency_of(const struct row *row)
{
    return row->speed_up / row->found.ranks;
}

/* Why a row cannot be true. */
static void
print_reason(const struct row *row)
{
    if (row->is_impossible)
        printf("%8s   a speed-up of %.3f on %u ranks is impossible: %s\n", "", row->speed_up, row->found.ranks,
               "the measured times are too noisy, or smaller batches are faster for each item");
    if (row->found.exposed_us < -0.5)
        printf("%8s   exposed communication below 0 is impossible: %s\n", "",
               "the measured times of all-reduces are too noisy");
}

static void
print_rows(const struct scaling *scaling)
{
    printf("%8s %12s %12s %10s %12s %10s %12s %20s\n", "ranks", "step ms", "exposed ms", "steps/s", "items/s",
           "speed-up", "efficiency", "range of step ms");
    FOR_EACH(row, scaling->rows, scaling->count) {
        const struct prediction *found = &row->found;
        char items[32] = "-", range[64], times[32] = "-", each[32] = "-";
        snprintf(range, sizeof(range), "%.3f-%.3f", found->low_us / 1e3, found->high_us / 1e3);
        if (row->is_noisy) {
            printf("%8u   too noisy to predict: a step may take up to %.3f ms\n", found->ranks, found->high_us / 1e3);
            print_reason(row);
            continue;
        }
        if (row->items > 0.0)
            snprintf(items, sizeof(items), "%.1f", row->items * 1e6 / found->step_us);
        if (!row->varies) {
            snprintf(times, sizeof(times), "%.2f", row->speed_up);
            snprintf(each, sizeof(each), "%.3f", efficiency_of(row));
        }
        printf("%8u %12.3f %12.3f %10.2f %12s %10s %12s %20s\n", found->ranks, found->step_us / 1e3,
               found->exposed_us / 1e3, 1e6 / found->step_us, items, times, each, range);
        print_reason(row);
    }
}

/* The greatest number of ranks that bring half of what they could. */
static void
print_worth(const struct scaling *scaling)
{
    const struct row *best = NULL;
    bool any = false;
    FOR_EACH(row, scaling->rows, scaling->count) {
        bool counts = row->found.ranks > 1 && !row->varies;
        any = any || counts;
        if (counts && efficiency_of(row) >= WORTH_IT && (best == NULL || row->found.ranks > best->found.ranks))
            best = row;
    }
    if (best != NULL)
        printf(
            "%s: the efficiency is at least %.0f %% up to %u ranks: %.2f times the items per second of one rank (%.2f "
            "to %.2f).\n",
            scaling->name, 100.0 * WORTH_IT, best->found.ranks, best->speed_up, best->low, best->high);
    else if (any)
        printf("%s: the efficiency is below %.0f %% in all rows.\n", scaling->name, 100.0 * WORTH_IT);
}

static void
print_link(const struct model *model, const struct link *link)
{
    if (link != NULL) {
        printf("- all-reduce: a ring of n ranks, each link %g MB/s and %g us: 2 (n - 1) latencies and\n"
               "  2 (n - 1) / n times the bytes over the bandwidth; all links are equal.\n",
               link->bytes_per_us, link->latency_us);
        return;
    }
    struct cost cost;
    if (!model_cost(model, model->ranks, NULL, &cost))
        return;
    double small_us = (double)cost_fs(&cost, 4096) / 1e9, large_us = (double)cost_fs(&cost, model->bytes) / 1e9;
    printf("- all-reduce: measured on %u ranks: %.1f us for 4 KiB, %.1f us for all %.2f MB; on n ranks a ring:\n"
           "  2 (n - 1) latencies, 2 (n - 1) / n times the bytes. All links are equal: for a job on several\n"
           "  hosts give --link.\n",
           model->ranks, small_us, large_us, (double)model->bytes / 1e6);
}

static void
print_assumptions(const struct forecasts *forecasts)
{
    const struct model *model = forecasts->kept;
    printf(
        "\nAssumptions:\n"
        "- without averaging a step takes %.3f ms: mean of all steps after start-up of %u rank%s (%s), with pauses\n"
        "  such as validation. All ranks are equally fast%s. Ranges: least and largest mean of nine parts of the run.\n"
        "- each rank has a GPU of its own, and as many CPU cores as in this run; with fewer cores it is slower.\n"
        "- gradients: %zu, of %.2f MB; %s.\n",
        model->alone_us / 1e3, model->ranks, model->ranks == 1 ? "" : "s", model->host,
        model->straggler >= 0 ? ": the straggler in the trace is left out" : "", model->gradient_count,
        (double)model->bytes / 1e6,
        model->lacks_times
            ? "their ready times were not measured: they count as sent after backward, which is the worst case"
        : !model->overlapped ? "steps do not overlap in this run: all are sent after backward"
                             : "the ready time of each is measured");
    print_link(model, link_of(forecasts));
    if (link_of(forecasts) != NULL || model->ranks < 2)
        printf("- buckets are planned for each number of ranks; one all-reduce at a time; checks cost nothing.\n");
    else
        printf("- the row of %u ranks is measured. The other rows are predicted, with buckets planned for them, and\n"
               "  corrected by the error of the prediction for the measured row.\n",
               model->ranks);
    if (model->slowed_us > 0.0)
        printf("- all-reduces during backward make a step %.3f ms longer, on every number of ranks.\n",
               model->slowed_us / 1e3);
}

static void
print_losses(const struct model *model)
{
    struct loss losses[8];
    size_t count = model_losses(model, losses, sizeof(losses) / sizeof(losses[0]));
    if (count > 0)
        printf("\nLost time per step on these %u ranks:\n", model->ranks);
    for (size_t i = 0; i < count; ++i) {
        char gain[40] = "the gain was not measured";
        if (!losses[i].unmeasured)
            snprintf(gain, sizeof(gain), "about %.3f ms of a step can be saved", losses[i].gain_us / 1e3);
        printf("- %s.\n"
               "  What may help (%s): %s.\n",
               losses[i].what, gain, losses[i].advice);
    }
}

bool
table_print(const struct forecasts *forecasts, struct error *error)
{
    struct scaling shared = {0}, kept = {0};
    if (!add_rows(forecasts, false, &shared, error) || !add_rows(forecasts, true, &kept, error))
        return false;
    if (shared.count > 0) {
        unsigned long long batch = forecasts->kept->batch;
        printf("Strong scaling: one batch of %llu items divided among the ranks (DDP_SHARD)\n", batch);
        print_rows(&shared);
        FOR_EACH(ranks, forecasts->request->counts, forecasts->request->count_count)
            if (*ranks > batch)
                printf("%8u   not predicted: the batch has fewer items than this number of ranks\n", *ranks);
        printf("\nWeak scaling: a batch of %llu items on each rank\n", batch);
    } else if (forecasts->request->folder != NULL || forecasts->kept->batch == 0) {
        printf("Weak scaling: each rank has a batch as large as in this run%s\n",
               forecasts->request->folder != NULL ? ". Strong scaling: ddprun predict PROGRAM"
                                                  : " (DDP_SHARD divides no batch of one size)");
    }
    print_rows(&kept);
    printf("\n");
    if (ANY(row, shared.rows, shared.count, row->is_noisy) || ANY(row, kept.rows, kept.count, row->is_noisy))
        printf("Repeat this on an idle machine%s.\n",
               forecasts->kept->unbound ? ", and with --bind core: unbound ranks vary more" : "");
    print_worth(&shared);
    print_worth(&kept);
    if (forecasts->kept->noise[0] != '\0')
        printf("By the gradients, %s.\n", forecasts->kept->noise);
    print_assumptions(forecasts);
    if (forecasts->request->folder != NULL || shared.count == 0)
        print_losses(forecasts->kept);
    return ANY(row, shared.rows, shared.count, !row->is_noisy) || ANY(row, kept.rows, kept.count, !row->is_noisy) ||
           error_set(error, DDPRUN_EXIT_FAILURE, "no step time was predicted: the measured steps vary too much");
}
