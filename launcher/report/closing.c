/* closing.c - see closing.h. */
#include "launcher/report/closing.h"

#include "base/printable.h"
#include "launcher/watch/pace.h"
#include "launcher/watch/verdict.h"

#include <inttypes.h>

enum { LINE_BYTES = 640, TEXT_BYTES = CLOSING_BYTES_TEXT };

static const char *
plural(uint64_t count)
{
    return count == 1 ? "" : "s";
}

const char *
closing_bytes_text(uint64_t bytes, char text[CLOSING_BYTES_TEXT])
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    size_t unit = 0;
    for (; value >= 1024.0 && unit < 4; ++unit)
        value /= 1024.0;
    snprintf(text, CLOSING_BYTES_TEXT, unit == 0 ? "%.0f %s" : "%.1f %s", value, units[unit]);
    return text;
}

/* What a step waits for: the network, and another rank; and what collectives cost beside that. */
static void
close_exposed(const struct rank_view *ranks, int count, void (*say)(const char *format, ...))
{
    struct pace pace = pace_of(ranks, count, NULL);
    char line[LINE_BYTES] = "", ms[32], waiting[WAITING_TEXT_BYTES];
    if (pace.sums.count == 0)
        return;
    printable_append(line, LINE_BYTES, "exposed communication: %s ms per step (mean of %" PRIu64 " measured step%s)",
                     waiting_ms_text((double)pace.exposed_ns * 1e-6, ms), pace.sums.count, plural(pace.sums.count));
    if (ranks[0].exposed_bound_ns != UINT64_MAX)
        printable_append(line, LINE_BYTES, "; estimated lower bound for any bucket layout: %s ms",
                         waiting_ms_text((double)ranks[0].exposed_bound_ns * 1e-6, ms));
    if (ranks[0].overlap_off_step > 0)
        printable_append(line, LINE_BYTES,
                         "; overlap is off from step %" PRIu64 " on, because steps are shorter without it",
                         ranks[0].overlap_off_step + 1);
    else if (pace.slowed_ns > 0 && pace.slowed_ns != UINT64_MAX)
        printable_append(
            line, LINE_BYTES,
            "; kernels slowed by all-reduces: %s ms per step more (measured against steps without overlap)",
            waiting_ms_text((double)pace.slowed_ns * 1e-6, ms));
    if (pace.waited.matters)
        printable_append(line, LINE_BYTES, "; %s", waiting_text(&pace.waited, 1e6, waiting));
    say("%s", line);
}

/* "6 gradients", "no gradients at the end (DDP_FORGET)", "4 parameters", "6 gradients and 2 parameters" */
static void
averaged_text(const struct rank_view *rank, char text[2 * TEXT_BYTES])
{
    const uint64_t parameters = rank->averaged_parameter_count, states = rank->averaged_state_count;
    const struct {
        uint64_t count;
        const char *name;
    } kinds[] = {{rank->gradient_count - parameters - states, "gradient"},
                 {parameters, rank->batch_count > 0 ? "state tensor" : "parameter"},
                 {states, "state"}};
    text[0] = '\0';
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); ++i) {
        if (kinds[i].count > 0)
            printable_append(text, 2 * TEXT_BYTES, "%s%" PRIu64 " %s%s", text[0] != '\0' ? " and " : "", kinds[i].count,
                             kinds[i].name, plural(kinds[i].count));
    }
    if (rank->gradient_count == 0)
        printable_append(text, 2 * TEXT_BYTES, "no gradients%s",
                         rank->gradient_elements > 0 ? " at the end (DDP_FORGET)" : "");
}

/* "1440 calls of DDP_REDUCE, 12.5 MiB in all". */
static const char *
reduces_text(const struct rank_view *rank, char text[2 * TEXT_BYTES])
{
    char size[TEXT_BYTES];
    snprintf(text, 2 * TEXT_BYTES, "%" PRIu64 " call%s of DDP_REDUCE, %s in all", rank->reduce_count,
             plural(rank->reduce_count), closing_bytes_text(rank->reduce_bytes, size));
    return text;
}

/* With turns: what a step is. */
static void
append_turns(const struct rank_view *rank, int count, char text[2 * TEXT_BYTES])
{
    const uint64_t all = rank->turn_operations + rank->turn_left_out;
    printable_append(text, 2 * TEXT_BYTES, " (each a round of %d of %" PRIu64 " batches in turns", count,
                     rank->turn_batches);
    if (all > 0)
        printable_append(text, 2 * TEXT_BYTES, ", in which rank 0 made %.0f %% of the device's operations",
                         100.0 * (double)rank->turn_operations / (double)all);
    printable_append(text, 2 * TEXT_BYTES, ")");
}

static void
close_trained(const struct rank_view *ranks, int count, void (*say)(const char *format, ...))
{
    const struct rank_view *rank = &ranks[0];
    char line[LINE_BYTES] = "", reduces[2 * TEXT_BYTES];
    if (rank->generation > 0)
        printable_append(line, LINE_BYTES,
                         "%u programs trained, one after the other; the last one: ", rank->generation + 1);
    char size[TEXT_BYTES], buckets[TEXT_BYTES], averaged[2 * TEXT_BYTES], graphs[2 * TEXT_BYTES] = "";
    if (rank->bucket_count > 0)
        snprintf(buckets, sizeof(buckets), "%sin %" PRIu64 " bucket%s", rank->sums ? "summed " : "", rank->bucket_count,
                 plural(rank->bucket_count));
    else
        snprintf(buckets, sizeof(buckets), "%s in DDP_STEP", rank->sums ? "summed" : "averaged");
    if (count == 1)
        snprintf(buckets, sizeof(buckets), "not averaged, for there is one rank");
    if (rank->graph_step > 0)
        snprintf(graphs, sizeof(graphs), "%s %" PRIu64 " %s", count == 1 ? " and" : ",", rank->graph_step,
                 count == 1 ? "captured in CUDA graphs, whose launches are not counted" : "of them in CUDA graphs");
    averaged_text(rank, averaged);
    if (rank->batch_count > 0)
        snprintf(graphs, sizeof(graphs), " (each a round of %d of the program's %" PRIu64 " batches%s)", count,
                 rank->batch_count, rank->batch_count % (uint64_t)count != 0 ? ", the last one cut short" : "");
    if (rank->turn_rounds > 0 && count > 1)
        append_turns(rank, count, graphs);
    printable_append(line, LINE_BYTES, "%d rank%s, %" PRIu64 " step%s%s", count, plural((uint64_t)count), rank->step,
                     plural(rank->step), graphs);
    if (count > 1)
        printable_append(
            line, LINE_BYTES,
            ", %" PRIu64
            " of them overlapped (their all-reduces were launched during backward, those of the others at DDP_STEP)",
            verdict_least_overlapped(ranks, count));
    printable_append(line, LINE_BYTES, "; %s", averaged);
    if (rank->gradient_count > 0)
        printable_append(line, LINE_BYTES, ", %s per step, %s", closing_bytes_text(rank->gradient_bytes, size),
                         buckets);
    if (rank->reduce_count > 0 && rank->batch_count == 0) /* by a plan the program has none */
        printable_append(line, LINE_BYTES, "; %s", reduces_text(rank, reduces));
    say("%s", line);
    if (count == 1)
        return;
    close_exposed(ranks, count, say);
    bool by_plan = rank->batch_count > 0;
    char elements[2 * TEXT_BYTES + 48];
    snprintf(elements, sizeof(elements), "%" PRIu64 " elements of %s, %" PRIu64 " of gradients",
             rank->parameter_elements, by_plan ? "state" : "parameters", rank->gradient_elements);
    if (rank->noise_count > 0)
        say("%s equal on all ranks up to rounding: all ranks took rank 0's values in %" PRIu64
            " comparison%s, last after step %" PRIu64 " of %" PRIu64 "; %s",
            by_plan ? "state" : "annotated parameters", rank->noise_count, plural(rank->noise_count), rank->noise_step,
            rank->step, elements);
    else if (rank->check_count > 0 && rank->parameter_elements > 0)
        say("%s bitwise identical on all ranks%s (hash %016" PRIx64 ", compared %" PRIu64
            " time%s, last after step %" PRIu64 " of %" PRIu64 "); %s",
            by_plan ? "state" : "annotated parameters", rank->checked_step < rank->step ? " when last compared" : "",
            rank->parameter_hash, rank->check_count, plural(rank->check_count), rank->checked_step, rank->step,
            elements);
    else if (!by_plan && rank->parameter_elements == 0)
        say("parameters were not compared across ranks: the program annotates no parameter (DDP_PARAMETER)");
    else
        say("%s not compared across ranks; --check-every K compares %s every K steps",
            by_plan ? "state was" : "parameters were", by_plan ? "it" : "them");
}

void
closing_say_unaveraged(const struct rank_view *ranks, int count, void (*say)(const char *format, ...))
{
    for (int i = 0; i < count && count > 1 && verdict_most_steps(ranks, count) == 0; ++i) {
        if (!verdict_is_unaveraged(&ranks[i]))
            continue;
        if (ranks[i].changed_count > 0)
            say("nothing was averaged: parameters of rank %d changed without a DDP_STEP; call it after each backward "
                "pass, before the optimizer (man ddprun.h)",
                i);
        else
            say("nothing was averaged: rank %d launched %" PRIu64
                " kernels without an annotation; annotate the program (man ddprun.h)",
                i, ranks[i].launch_count);
        return;
    }
}

/* It has annotated its parameters, and reaches its end with them as they were: an evaluation. */
static bool
all_evaluated(const struct rank_view *ranks, int count)
{
    bool all = true;
    for (int i = 0; i < count; ++i)
        all = all && ranks[i].parameter_count > 0 && !verdict_left_unaveraged(&ranks[i]);
    return all;
}

void
closing_lines(const struct rank_view *ranks, int count, bool summary, void (*say)(const char *format, ...))
{
    bool used_driver = false, became_rank = verdict_any_became_rank(ranks, count);
    for (int i = 0; i < count; ++i)
        used_driver = used_driver || ranks[i].stage >= RANK_STAGE_GATE;

    char reduces[2 * TEXT_BYTES];
    if (verdict_most_steps(ranks, count) > 0) {
        if (summary)
            close_trained(ranks, count, say);
    } else if (verdict_reduces_only(&ranks[0])) {
        if (summary)
            say("%d rank%s, %s", count, plural((uint64_t)count), reduces_text(&ranks[0], reduces));
    } else if (count > 1 && (all_evaluated(ranks, count) || (ranks[0].unannotated && !summary))) {
        return;
    } else if (count > 1 && became_rank) {
        say("no rank made a step (DDP_STEP): nothing was averaged, %d ranks ran side by side", count);
    } else if (count > 1 && used_driver) {
        say("no rank used a GPU under ddprun: nothing was averaged, %d copies ran side by side", count);
    } else if (count > 1 && summary) {
        say("no rank used CUDA under ddprun: nothing was averaged, %d copies ran side by side (programs "
            "that `sudo`, a static wrapper or `env -i` starts are not seen)",
            count);
    }
}

/* ---- time ---- */

static void
say_time(const struct closing *closing, void (*say)(const char *format, ...))
{
    const struct rank_view *rank = &closing->ranks[0];
    struct pace pace = pace_of(closing->ranks, closing->rank_count, NULL);
    char line[LINE_BYTES] = "";
    printable_append(line, LINE_BYTES, "wall time %.*f s", closing->seconds < 10.0 ? 2 : 1, closing->seconds);
    if (pace.steps_per_s > 0.0)
        printable_append(line, LINE_BYTES, "; after start-up (steps %" PRIu64 " to %" PRIu64 ") %.1f %s", pace.first,
                         pace.last, pace.steps_per_s >= 1.0 ? pace.steps_per_s : 1.0 / pace.steps_per_s,
                         pace.steps_per_s >= 1.0 ? "steps/s" : "s a step");
    if (pace.items_per_s > 0.0)
        printable_append(line, LINE_BYTES, ", %.*f items/s", pace.items_per_s < 100.0 ? 1 : 0, pace.items_per_s);
    if (rank->shard_total == UINT64_MAX)
        printable_append(line, LINE_BYTES, "; no items/s: DDP_SHARD divides no batch, or batches of several sizes");
    else if (rank->shard_total > 0)
        printable_append(line, LINE_BYTES, "; DDP_SHARD divides a batch of %" PRIu64 " items", rank->shard_total);
    if (closing->restarts > 0)
        printable_append(line, LINE_BYTES, "; restarts: %u", closing->restarts);
    if (strstr(rank->gpu, "stand-in") != NULL)
        printable_append(line, LINE_BYTES, "; on the stand-in for a GPU");
    say("%s", line);
    if (closing->unbound && pace.waited.matters && pace.waited.straggler < 0) /* a straggler has a cause of its own */
        say("ranks wait for each other; --bind core gives each rank its own cores, and may shorten a step");
}

/* Of the rank with most of them: their place in the program is the same on all. */
static void
say_calls_amid(const struct closing *closing, void (*say)(const char *format, ...))
{
    const struct rank_view *most = &closing->ranks[0];
    for (int i = 1; i < closing->rank_count; ++i) {
        const struct rank_view *rank = &closing->ranks[i];
        most = rank->frees_amid + rank->loads_amid > most->frees_amid + most->loads_amid ? rank : most;
    }
    if (most->frees_amid + most->loads_amid > 0)
        say("rank %d: %" PRIu64 " frees of memory and %" PRIu64 " loads of device code in %" PRIu64
            " steps between a step's first bucket and DDP_STEP; each may wait for the other ranks: free and load "
            "outside of backward, or by cudaFreeAsync",
            (int)(most - closing->ranks), most->frees_amid, most->loads_amid, most->step);
}

void
closing_say(const struct closing *closing, void (*say)(const char *format, ...))
{
    bool trained = verdict_most_steps(closing->ranks, closing->rank_count) > 0;
    if (closing->interrupted && !trained)
        return;
    if (trained && closing->summary)
        say_time(closing, say);
    closing_lines(closing->ranks, closing->rank_count, closing->summary, say);
    if (!trained || !closing->verbose || closing->rank_count == 1)
        return;
    say_calls_amid(closing, say);
    char text[NOISE_TEXT_BYTES];
    if (closing->ranks[0].nccl_version > 0)
        say("NCCL %s", closing_nccl_text(closing->ranks[0].nccl_version, text));
    struct pace pace = pace_of(closing->ranks, closing->rank_count, NULL);
    if (pace.noise.scale > 0)
        say("%s", noise_scale_text(&pace.noise, text));
}

const char *
closing_nccl_text(unsigned version, char text[32])
{
    snprintf(text, 32, "%u.%u.%u", version / 10000, version / 100 % 100, version % 100);
    return text;
}
