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
 * to two ranks, the job ends; what one rank shares out besides, to evaluate, is its own. Compared by the same messages:
 * at the first step, and then where parameters are.
 *
 * weight_add() and weight_note_shard() are called in any thread, the others at boundaries.
 */
#include "interpose/engine/memory/memory.h"

#include "base/message.h"

#include <unistd.h>

/* What DDP_SHARD was given in the interval of its last calls. */
enum { SHARD_TOTALS = 4, MANY_TOTALS = -1 };
struct shard_calls {
    uint64_t step;                /* that the interval belongs to, from 1; 0: there were no calls */
    int64_t totals[SHARD_TOTALS]; /* the different ones, 0 where there are no more; the first is MANY_TOTALS: they are
                                     too many */
};

/* What a rank says to the others. */
struct said {
    struct weight weight;
    struct shard_calls shards;
};

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
    bool shards_in_use;    /* some rank has called DDP_SHARD before the first step: the same on all ranks */
    bool uneven_reported;  /* that shares are uneven */
    uint64_t right_step;   /* the last step that was compared: a later one is sent when that was right; 0: none */
    struct gathered words; /* struct said of each rank */
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
    engine_lock();
    weights.site = *site;
    for (int g = 0; g < GROUPS_AT_MOST; ++g) {
        memory_state.groups[g].weight.count += count;
        memory_state.groups[g].weight.total += total;
        ++memory_state.groups[g].weighed;
    }
    engine_unlock();
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

/* What is compared at a step: a copy, as the program goes on; and the places for messages. */
struct compared {
    uint64_t number; /* of the step, from 1 */
    uint64_t right;  /* the last step before it that was compared, or 0 */
    struct said mine;
    char what[200];  /* "DDP_WEIGHT (train.cu:12)" */
    char shard[200]; /* "DDP_SHARD (train.cu:10)" */
};

static void
name_call(char name[200], const char *macro, const struct ddp_site *site)
{
    if (site->file != NULL)
        snprintf(name, 200, "%s (%.150s:%d)", macro, file_name_of(site->file), site->line);
    else
        snprintf(name, 200, "%s", macro);
}

static struct compared
describe(const struct weight *mine)
{
    struct compared compared = {
        .number = engine_state.boundary_count + 1, .right = weights.right_step, .mine = {.weight = *mine}};
    engine_lock();
    if (weights.shard_thread == gettid()) /* the one that calls DDP_STEP */
        compared.mine.shards = weights.shards;
    name_call(compared.what, "DDP_WEIGHT", &weights.site);
    name_call(compared.shard, "DDP_SHARD", &weights.last_shard);
    engine_unlock();
    return compared;
}

/* False with the reason if the weights of all ranks cannot be right. */
static bool
judge_weights(const struct said *all, const struct compared *step, char why[512])
{
    uint64_t sum = 0, total = all[0].weight.total;
    unsigned long long number = step->number;
    for (int r = 0; r < engine_state.rendezvous.world_size; ++r) {
        uint64_t theirs = all[r].weight.total;
        sum += all[r].weight.count;
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
    if (sum == total)
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

/* False with the reason if the calls of all ranks are not of one batch. A rank without calls in the same step has none
 * to compare: what is shared out once, or on one rank, is. */
static bool
judge_shards(const struct said *all, const struct compared *step, char why[512])
{
    const struct shard_calls *zero = &all[0].shards;
    for (int r = 1; r < engine_state.rendezvous.world_size; ++r) {
        const struct shard_calls *theirs = &all[r].shards;
        if (zero->step == 0 || theirs->step != zero->step || have_common_total(zero, theirs))
            continue;
        snprintf(why, 512,
                 "%s: before step %llu rank 0 shares out %lld items and rank %d shares out %lld; it is the number of "
                 "items of all ranks together, the same on each",
                 step->shard, (unsigned long long)zero->step, (long long)zero->totals[0], r,
                 (long long)theirs->totals[0]);
        return false;
    }
    return true;
}

/* ---- by a message ---- */

static void
compare_now(const struct weight *mine, bool captured)
{
    char why[512];
    struct control_messages all;
    const struct compared step = describe(mine);
    exchange_in_step(captured ? "a captured DDP_STEP (check of DDP_WEIGHT)" : "DDP_STEP (check of DDP_WEIGHT)",
                     &step.mine, sizeof(step.mine), &all);
    struct said *theirs = engine_calloc((size_t)all.count, sizeof(*theirs));
    bool before = weights.in_use || weights.shards_in_use;
    for (int r = 0; r < all.count; ++r) {
        memcpy(&theirs[r], all.messages[r], sizeof(*theirs));
        weights.in_use = weights.in_use || theirs[r].weight.total > 0;
        weights.shards_in_use = weights.shards_in_use || theirs[r].shards.step > 0;
    }
    control_free_messages(&all);
    if (!judge_weights(theirs, &step, why) || !judge_shards(theirs, &step, why))
        stop_job("%s", why);
    free(theirs);
    if (!before && (weights.in_use || weights.shards_in_use))
        gather_prepare(&weights.words, sizeof(struct said) / sizeof(uint64_t));
}

/* ---- in the order of the communication stream ---- */

static void CUDA_CB
store_mine(void *data)
{
    const struct compared *step = data;
    memcpy(weights.words.mine, &step->mine, sizeof(step->mine));
}

static void CUDA_CB
compare_received(void *data)
{
    char why[512];
    struct compared *step = data;
    const struct said *all = (const struct said *)weights.words.all;
    if (!judge_weights(all, step, why) || !judge_shards(all, step, why))
        stop_job_soon_by(RANK_SAYS_ALL, step->right + 1, "%s", why);
    free(step);
    judgement_ends(JUDGED_IN_NEXT);
}

void
weight_compare(const struct weight *weight, bool shards)
{
    if (!weights.in_use && !(shards && weights.shards_in_use))
        return;
    struct compared *step = engine_calloc(1, sizeof(*step));
    *step = describe(weight);
    weights.right_step = step->number;
    judgement_begins(JUDGED_IN_NEXT);
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
            "%s:%d: %zu items do not divide evenly among %zu ranks: shares differ by one item, and the mean over ranks "
            "is not the mean over items. Use a batch that %zu divides, or DDP_WEIGHT(count, total)",
            site->file, site->line, total, world, world);
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
    if (uneven > 0 && mine.total == 0 && !weights.uneven_reported) {
        weights.uneven_reported = true;
        say_uneven(uneven, &site);
    }
    if (all_ask || (mine.total > 0 && !weights.in_use))
        compare_now(&mine, captured);
}

void
weight_refuse_share(const struct group *group)
{
    struct weight mine = weight_of(group);
    if (mine.count != mine.total)
        stop_job("%s: %llu of %llu items, and there is one rank only: its count is the total", describe(&mine).what,
                 (unsigned long long)mine.count, (unsigned long long)mine.total);
}

void
weight_refuse_launch(const struct group *group, const struct weight *captured, const struct ddp_site *site)
{
    struct weight mine = weight_of(group);
    if (mine.total > 0 && weight_factor(&mine) != weight_factor(captured))
        stop_job(
            "%s: %llu of %llu items before the launch of a graph with DDP_STEP (%s:%d), which was captured with %llu "
            "of %llu; a graph keeps the weight of its capture: capture one for each share",
            describe(&mine).what, (unsigned long long)mine.count, (unsigned long long)mine.total, site->file,
            site->line, (unsigned long long)captured->count, (unsigned long long)captured->total);
}
