/*
 * weights.c - DDP_WEIGHT: ranks whose shares of a batch are of unequal size contribute to the mean accordingly.
 *
 * A rank multiplies its gradients by its share times the number of ranks before they are sent (comm/wire.c), so that
 * the mean over ranks is the mean over items. It knows its own weight only; whether the weights of all ranks fit
 * together is compared by a message in the first step that has one, and from then on after each step, in the order of
 * the communication stream: the host waits for nothing, and a step whose weights do not fit ends the job soon. What is
 * captured is compared when it is captured.
 *
 * And DDP_SHARD: the number of items to share out is the same on all ranks. Where no total of a step's calls is common
 * to two ranks, the job ends; what one rank shares out besides, to evaluate, is its own. Compared at the first step by
 * that message, and then where parameters are.
 *
 * weight_add() and weight_note_shard() are called in any thread, the others at boundaries.
 */
#include "interpose/engine/memory/memory.h"

#include "base/message.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What DDP_SHARD was given in the interval of its last calls. */
enum { SHARD_TOTALS = 4, MANY_TOTALS = -1 };
struct shard_calls {
    uint64_t step;                /* that the interval belongs to, from 1; 0: there were no calls */
    int64_t totals[SHARD_TOTALS]; /* the different ones, 0 where there are no more; the first is MANY_TOTALS: they are
                                     too many */
};
enum { SHARD_WORDS = sizeof(struct shard_calls) / sizeof(uint64_t) };

static struct {
    /* guarded by the engine's lock */
    struct ddp_site site;       /* of the last DDP_WEIGHT; file NULL: there was none */
    size_t shard_total;         /* items of an uneven DDP_SHARD since the last boundary; 0: none */
    struct ddp_site shard_site; /* of it */
    struct shard_calls shards;
    struct ddp_site last_shard; /* of these */
    pid_t shard_thread; /* which made them: one that loads batches ahead makes them in other intervals on each rank */

    /* the issuer's */
    bool in_use;           /* some rank has called DDP_WEIGHT: the same on all ranks */
    bool said;             /* that shares are uneven */
    struct gathered words; /* count and total of each rank */
    bool shards_in_use;    /* some rank has called DDP_SHARD before the first step: the same on all ranks */
    struct gathered shard_words;
} weights;

/* ---- what the program says ---- */

void
weight_add(size_t count, size_t total, const struct ddp_site *site)
{
    if (engine_state.options.reduction == DDPRUN_REDUCE_SUM)
        stop_job("DDP_WEIGHT (%s:%d) with --reduce sum: a sum over all items has no weights; leave out one of the two",
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

static void
note_total(struct shard_calls *calls, int64_t total) WITH_LOCK
{
    uint64_t step = engine_state.boundary_count + 1;
    if (calls->step != step || weights.shard_thread != gettid())
        *calls = (struct shard_calls){.step = step};
    weights.shard_thread = gettid();
    int i = 0;
    while (i < SHARD_TOTALS && calls->totals[i] != 0 && calls->totals[i] != total && calls->totals[0] != MANY_TOTALS)
        ++i;
    if (i == SHARD_TOTALS)
        calls->totals[0] = MANY_TOTALS;
    else if (calls->totals[i] == 0)
        calls->totals[i] = total;
}

void
weight_note_shard(size_t total, bool is_uneven, const struct ddp_site *site)
{
    engine_lock();
    if (is_uneven) {
        weights.shard_total = total;
        weights.shard_site = *site;
    }
    if (total > 0)
        note_total(&weights.shards, (int64_t)total);
    weights.last_shard = *site;
    engine_unlock();
}

/* ---- the factor ---- */

double
weight_factor(const struct weight *weight)
{
    uint64_t world = (uint64_t)engine_state.rendezvous.world_size;
    bool is_mean = weight->total % world == 0 && weight->total / world == weight->count;
    if (weight->total == 0 || is_mean)
        return 1;
    return (double)weight->count * (double)world / (double)weight->total;
}

struct weight
weight_of(const struct group *group)
{
    return LOCKED(group->weight);
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
    for (int r = 0; r < engine_state.rendezvous.world_size; ++r) {
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
    if (sum == total || some_only)
        return true;
    snprintf(why, 512,
             "%s: in step %llu the counts of all ranks add up to %llu, and the total is %llu; every item must be in "
             "the share of one rank",
             step->what, number, (unsigned long long)sum, (unsigned long long)total);
    return false;
}

/* ---- do all ranks share out the same? ---- */

static bool
have_common_total(const struct shard_calls *a, const struct shard_calls *b)
{
    for (int i = 0; i < SHARD_TOTALS; ++i) {
        for (int j = 0; a->totals[i] != 0 && j < SHARD_TOTALS; ++j) {
            if (a->totals[i] == b->totals[j])
                return true;
        }
    }
    return a->totals[0] == MANY_TOTALS || b->totals[0] == MANY_TOTALS;
}

/* Which calls are compared: a copy, as the program goes on, and where the last one stands. */
struct compared_shards {
    struct shard_calls mine;
    char where[160];
};

static struct compared_shards
describe_shards(void)
{
    struct compared_shards compared = {.where = ""};
    engine_lock();
    if (weights.shard_thread == gettid()) /* the one that calls DDP_STEP */
        compared.mine = weights.shards;
    if (weights.last_shard.file != NULL)
        snprintf(compared.where, sizeof(compared.where), " (%.120s:%d)", file_name_of(weights.last_shard.file),
                 weights.last_shard.line);
    engine_unlock();
    return compared;
}

/* Of each rank's calls: false with the reason if they are not of one batch. A rank without calls in the same step has
 * none to compare: what is shared out once, or on one rank, is. */
static bool
judge_shards(const struct shard_calls *all, const struct compared_shards *compared, char why[512])
{
    bool some_only = engine_state.shard_world != (uint64_t)engine_state.rendezvous.world_size; /* a rehearsal */
    for (int r = 1; r < engine_state.rendezvous.world_size && !some_only; ++r) {
        if (all[0].step == 0 || all[r].step != all[0].step || have_common_total(&all[0], &all[r]))
            continue;
        snprintf(why, 512,
                 "DDP_SHARD%s: before step %llu rank 0 shares out %lld items and rank %d shares out %lld; it is the "
                 "number of items of all ranks together, the same on each",
                 compared->where, (unsigned long long)all[0].step, (long long)all[0].totals[0], r,
                 (long long)all[r].totals[0]);
        return false;
    }
    return true;
}

static void CUDA_CB
store_shards(void *data)
{
    const struct compared_shards *compared = data;
    memcpy(weights.shard_words.mine, &compared->mine, sizeof(compared->mine));
}

static void CUDA_CB
judge_received_shards(void *data)
{
    char why[512];
    struct compared_shards *compared = data;
    if (!judge_shards((const struct shard_calls *)weights.shard_words.all, compared, why))
        stop_job_soon("%s", why);
    free(compared);
}

void
weight_compare_shards(void)
{
    if (!weights.shards_in_use)
        return;
    struct compared_shards *compared = engine_calloc(1, sizeof(*compared));
    *compared = describe_shards();
    CUDA("cuLaunchHostFunc", cuLaunchHostFunc, first_stream(), store_shards, compared);
    gather_send(&weights.shard_words, "the comparison of DDP_SHARD", engine_state.boundary_count + 1,
                judge_received_shards, compared); /* which frees it */
}

/* ---- by a message ---- */

/* What each rank says. */
struct said_weight {
    uint64_t words[2]; /* count and total */
    struct shard_calls shards;
};

static void
compare_now(const struct weight *mine, bool captured)
{
    char why[512];
    struct control_messages all;
    struct compared_step step = describe_step(mine);
    struct compared_shards compared = describe_shards();
    const struct said_weight said = {{mine->count, mine->total}, compared.mine};
    exchange(captured ? "a captured DDP_STEP (check of DDP_WEIGHT)" : "DDP_STEP (check of DDP_WEIGHT)", &said,
             sizeof(said), &all);
    uint64_t *theirs = engine_calloc((size_t)all.count, sizeof(said.words));
    struct shard_calls *shards = engine_calloc((size_t)all.count, sizeof(*shards));
    bool any = false, any_shards = false;
    for (int r = 0; r < all.count; ++r) {
        const struct said_weight *of = all.messages[r];
        memcpy(theirs + 2 * r, of->words, sizeof(of->words));
        shards[r] = of->shards;
        any = any || theirs[2 * r + 1] > 0;
        any_shards = any_shards || shards[r].step > 0;
    }
    control_free_messages(&all);
    if (!judge_weights(theirs, &step, why) || !judge_shards(shards, &compared, why))
        stop_job("%s", why);
    free(theirs);
    free(shards);
    if (any && !weights.in_use)
        gather_prepare(&weights.words, 2);
    if (any_shards && !weights.shards_in_use)
        gather_prepare(&weights.shard_words, SHARD_WORDS);
    weights.in_use = weights.in_use || any;
    weights.shards_in_use = weights.shards_in_use || any_shards;
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
    CUDA("cuLaunchHostFunc", cuLaunchHostFunc, first_stream(), store_mine, step);
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
            "%s:%d: %zu items for %zu ranks: ranks from %zu on have no item, but their gradients count in the mean as "
            "much as the others'; use at least one item per rank, or weigh the shares by DDP_WEIGHT",
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
