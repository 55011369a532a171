/*
 * weights.c - DDP_WEIGHT: ranks whose shares of a batch are of unequal size contribute to the mean accordingly.
 *
 * A rank multiplies its gradients by its share times the number of ranks before they are sent (comm/wire.c), so that
 * the mean over ranks is the mean over items. It knows its own weight only; whether the weights of all ranks fit
 * together is compared by a message in the first step that has one, and from then on after each step, in the order of
 * the communication stream: the host waits for nothing, and a step whose weights do not fit ends the job soon. What is
 * captured is compared when it is captured.
 *
 * weight_add() and weight_note_shard() are called in any thread, the others at boundaries.
 */
#include "interpose/engine/memory/memory.h"

#include "base/message.h"
#include "base/mutant.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
    /* guarded by the engine's lock */
    struct ddp_site site;       /* of the last DDP_WEIGHT; file NULL: there was none */
    size_t shard_total;         /* items of an uneven DDP_SHARD since the last boundary; 0: none */
    struct ddp_site shard_site; /* of it */

    /* the issuer's */
    bool in_use;           /* some rank has called DDP_WEIGHT: the same on all ranks */
    bool said;             /* that shares are uneven */
    struct gathered words; /* count and total of each rank */
} weights;

/* ---- what the program says ---- */

void
weight_add(size_t count, size_t total, const struct ddp_site *site)
{
    if (engine_state.options.reduction == DDPRUN_REDUCE_SUM)
        stop_job("DDP_WEIGHT (%s:%d) with --reduce sum: a sum over all items has no weights; leave out one of the two",
                 site->file, site->line);
    if (engine_state.options.sync_every > 0)
        stop_job("DDP_WEIGHT (%s:%d) with --sync-every: averages of parameters are not weighted; leave out one of the "
                 "two",
                 site->file, site->line);
    if (total == 0 || count > total)
        stop_job("DDP_WEIGHT (%s:%d): %zu of %zu items; the count is that of this rank, the total that of all ranks",
                 site->file, site->line, count, total);
    bool too_late = false;
    engine_lock();
    weights.site = *site;
    for (int g = 0; g < GROUPS_AT_MOST; ++g) {
        too_late = too_late || memory_state.groups[g].early_buckets > 0;
        memory_state.groups[g].weight.count += count;
        memory_state.groups[g].weight.total += total;
    }
    engine_unlock();
    if (too_late)
        stop_job(
            "DDP_WEIGHT (%s:%d): gradients of this step have been averaged already, without it; call it before the "
            "backward pass",
            site->file, site->line);
}

void
weight_note_shard(size_t total, const struct ddp_site *site)
{
    engine_lock();
    weights.shard_total = total;
    weights.shard_site = *site;
    engine_unlock();
}

/* ---- the factor ---- */

double
weight_factor(const struct weight *weight)
{
    uint64_t world = (uint64_t)engine_state.rendezvous.world_size;
    bool is_mean = weight->total % world == 0 && weight->total / world == weight->count;
    if (weight->total == 0 || is_mean || MUTANT(WEIGHT_IGNORED))
        return 1;
    return (double)weight->count * (double)world / (double)weight->total;
}

struct weight
weight_of(const struct group *group)
{
    engine_lock();
    struct weight weight = group->weight;
    engine_unlock();
    return weight;
}

/* ---- do the weights of all ranks fit together? ---- */

/* Which step is compared; the place for messages. */
struct compared_step {
    uint64_t number; /* from 1 */
    struct weight mine;
    char what[200]; /* "DDP_WEIGHT (train.cu:12)" */
};

static struct compared_step
describe_step(const struct weight *mine)
{
    struct compared_step step = {.number = engine_state.boundary_count + 1, .mine = *mine, .what = "DDP_WEIGHT"};
    engine_lock();
    if (weights.site.file != NULL)
        snprintf(step.what, sizeof(step.what), "DDP_WEIGHT (%.150s:%d)", weights.site.file, weights.site.line);
    engine_unlock();
    return step;
}

/* Of count and total of each rank: false with the reason if they cannot be right. */
static bool
judge_weights(const uint64_t *words, const struct compared_step *step, char why[512])
{
    uint64_t sum = 0, total = words[1];
    unsigned long long number = step->number;
    for (int r = 0; r < engine_state.rendezvous.world_size && !MUTANT(WEIGHTS_UNCOMPARED); ++r) {
        uint64_t theirs = words[2 * r + 1];
        sum += words[2 * r];
        if (theirs == total)
            continue;
        if (theirs == 0 || total == 0)
            snprintf(why, 512,
                     "%s: before step %llu rank %d called it and rank %d did not: all ranks must call it before "
                     "the same steps",
                     step->what, number, theirs == 0 ? 0 : r, theirs == 0 ? r : 0);
        else
            snprintf(why, 512,
                     "%s: in step %llu the total is %llu on rank 0 and %llu on rank %d; it is the number of items "
                     "of all ranks together, the same on each",
                     step->what, number, (unsigned long long)total, (unsigned long long)theirs, r);
        return false;
    }
    bool some_only = engine_state.shard_world != (uint64_t)engine_state.rendezvous.world_size; /* a rehearsal */
    if (sum == total || some_only || MUTANT(WEIGHTS_UNCOMPARED))
        return true;
    snprintf(why, 512,
             "%s: in step %llu the counts of all ranks add up to %llu, and the total is %llu; every item must be in "
             "the share of one rank",
             step->what, number, (unsigned long long)sum, (unsigned long long)total);
    return false;
}

static void
compare_now(const struct weight *mine, bool captured)
{
    char why[512];
    struct control_messages all;
    struct compared_step step = describe_step(mine);
    const uint64_t words[2] = {mine->count, mine->total};
    exchange(captured ? "a DDP_STEP in a capture, where ranks compare their DDP_WEIGHT"
                      : "a DDP_STEP where ranks compare their DDP_WEIGHT",
             words, sizeof(words), &all);
    uint64_t *theirs = engine_calloc((size_t)all.count, sizeof(words));
    bool any = false;
    for (int r = 0; r < all.count; ++r) {
        memcpy(theirs + 2 * r, all.messages[r], sizeof(words));
        any = any || theirs[2 * r + 1] > 0;
    }
    control_free_messages(&all);
    if (!judge_weights(theirs, &step, why))
        stop_job("%s", why);
    free(theirs);
    if (any && !weights.in_use)
        gather_prepare(&weights.words, 2);
    weights.in_use = weights.in_use || any;
}

/* ---- in the order of the communication stream ---- */

static void CUDA_CB
store_mine(void *data)
{
    const struct compared_step *step = data;
    weights.words.mine[0] = step->mine.count;
    weights.words.mine[1] = step->mine.total;
}

static void CUDA_CB
compare_received(void *data)
{
    char why[512];
    struct compared_step *step = data;
    if (!judge_weights(weights.words.all, step, why))
        stop_job_soon("%s", why);
    free(step);
}

void
weight_compare(const struct weight *weight)
{
    if (!weights.in_use)
        return;
    struct compared_step *step = engine_calloc(1, sizeof(*step));
    *step = describe_step(weight);
    require_cuda(engine_state.driver.cuLaunchHostFunc_p(engine_state.collectives.stream, store_mine, step),
                 "cuLaunchHostFunc");
    gather_send(&weights.words, "the comparison of weights", step->number, compare_received, step); /* which frees it */
}

/* ---- boundaries ---- */

static void
say_uneven(size_t total, const struct ddp_site *site)
{
    size_t world = (size_t)engine_state.rendezvous.world_size;
    if (total < world)
        message_warning(
            "uneven_shares",
            "%s:%d: %zu items for %zu ranks: ranks from %zu on get none, and what their gradients hold then "
            "counts in the mean as much as that of the others; share out at least one item a rank, or weigh the "
            "shares by DDP_WEIGHT",
            site->file, site->line, total, world, total);
    else
        message_warning(
            "uneven_shares",
            "%s:%d: %zu items do not divide evenly among %zu ranks; shares differ by one item, so the mean over "
            "ranks is not exactly the mean over items; DDP_WEIGHT(count, total) weighs the shares",
            site->file, site->line, total, world);
}

void
weight_agree(const struct group *group, bool all_ask, bool captured)
{
    struct weight mine = weight_of(group);
    engine_lock();
    size_t uneven = weights.shard_total;
    struct ddp_site site = weights.shard_site;
    weights.shard_total = 0;
    engine_unlock();
    if (uneven > 0 && mine.total == 0 && !weights.said) {
        weights.said = true;
        say_uneven(uneven, &site);
    }
    if (all_ask || (mine.total > 0 && !weights.in_use))
        compare_now(&mine, captured);
}

void
weight_refuse_share(const struct group *group)
{
    struct weight mine = weight_of(group);
    if (mine.count != mine.total && !engine_state.takes_turn)
        stop_job("%s: %llu of %llu items, and there is one rank only: its count is the total",
                 describe_step(&mine).what, (unsigned long long)mine.count, (unsigned long long)mine.total);
}

void
weight_refuse_launch(const struct group *group, const struct weight *captured, const struct ddp_site *site)
{
    struct weight mine = weight_of(group);
    if (mine.total > 0 && weight_factor(&mine) != weight_factor(captured))
        stop_job(
            "%s: %llu of %llu items before the launch of a graph with DDP_STEP (%s:%d), which was captured with %llu "
            "of %llu; a graph keeps the weight of its capture: capture one for each share",
            describe_step(&mine).what, (unsigned long long)mine.count, (unsigned long long)mine.total, site->file,
            site->line, (unsigned long long)captured->count, (unsigned long long)captured->total);
}
