/*
 * rows_data.h - options of rows.cu, and the data set that it trains on: ITEMS records of an image and a label, made
 * from their numbers, in an order that is shuffled anew in each epoch.
 */
#ifndef TESTS_TOOLS_CHECK_ROWS_DATA_H
#define TESTS_TOOLS_CHECK_ROWS_DATA_H

#include "rows_kernels.h"

enum { ITEMS = 96, MOST_BATCH = 48, LONG_EPOCH = 93 };

/* ---- options ---- */

static struct {
    int steps, micro, warmup;
    int batch;       /* records of a step, of all ranks together */
    int local_batch; /* or, if it is not 0, of each rank */
    float rate;
    float bound;      /* of the norm, for clipping */
    float loss_scale; /* gradients are that many times too large until they were averaged */
    const char *optimizer;
    const char *save;       /* or NULL; "%d" becomes the rank */
    const char *checkpoint; /* or NULL: rank 0 writes it after every second step */
    const char *resume;     /* or NULL: a checkpoint to begin with */
} options = {.steps = 66, .micro = 1, .batch = 24, .rate = 0.1f, .bound = 0.9f, .loss_scale = 1, .optimizer = "sgd"};

static const std::vector<option_row> option_table = {
    {"--steps", &options.steps},
    {"--micro", &options.micro},
    {"--warmup", &options.warmup},
    {"--batch", &options.batch},
    {"--rate", &options.rate},
    {"--local-batch", &options.local_batch},
    {"--bound", &options.bound},
    {"--loss-scale", &options.loss_scale},
    {"--optimizer", &options.optimizer},
    {"--save", &options.save},
    {"--checkpoint", &options.checkpoint},
    {"--resume", &options.resume},
};

/* rows.cu and this file say at each of them what it is. */
static const char mistakes_and_habits[] =
    " first_ignored first_in_floats labels_not_moved moved_by_one shuffle_by_rank drop_last "
    "augment_from_shuffle wrong_labels clock_seconds valid_of_share divisor_whole_batch uneven_unweighted "
    "step_before_last_micro step_skipped "
    "group_never_stepped divided_behind_step half_gradients gradient_unwritten realloc_freed realloc_kept "
    "nan_on_ranks nan_everywhere nan_and_inf clip_before_step bias_device bias_managed bias_host "
    "rate_times_n rate_by_rank local_second_moment average_before_step decay_on_rank_0 second_update "
    "loss_scale_by_rank plateau_by_rank stop_by_rank synced_count rate_by_n "
    "one_divided_behind_step "
    "divided_behind_step_on_rank_1 second_update_once two_updates stops_on_rank_1 bias_pinned half_gradient "
    "forgotten_gradient forgotten_parameter half_both fewer_rows step_missing step_before_forward step_mid_backward "
    "step_behind_optimizer norm_before_step own_loss own_count mean_on_0 sum_with_mean drop_last_on_rank_1 no_share "
    "unequal_shares overlapping_shares momentum_rank0 resume_rank0 swapped annotated_before_init copy_of_weight "
    "report copy seed_by_rank batchnorm split_data "
    "statistics trained_statistics unwritten_statistics zeroed_statistics "
    "valid_weighted two_steps zero_head augment_by_rank augment_by_item augment_all momentum_in_gradient "
    "frozen dropout_by_rank evaluation uneven_weighted flat two_streams graph amp bf16_weights "
    "bf16_copies two_groups group_turns clip checkpoint_by_all clock_log "
    "clock_weights clock_shared managed_bias host_bias average own_average own_norm reduced_norm decay "
    "plateau stop realloc no_sync records device_data copy_each prefetch strided state rate_decays zeroed "
    "shuffle_each_step synced_mean shard_micro padded zero_bias waits twice pinned_bias idle_group idle "
    "loss_in_gradient scaled "
    "probe probe_after thrice late_bias realloc_each bias_divided prints prints_on_0 printed_twice_divided ";

static void
options_parse(int argc, char **argv)
{
    options_take(argc, argv, option_table, mistakes_and_habits);
    if (options.local_batch > 0)
        options.batch = options.local_batch * DDP_WORLD_SIZE();
    if (options.steps < 1 || options.batch < DDP_WORLD_SIZE() || options.batch > MOST_BATCH) {
        fprintf(stderr, "rows: --steps or --batch is out of range for %d ranks\n", DDP_WORLD_SIZE());
        exit(2);
    }
}

/* ---- numbers ---- */

/* In [0, 1). */
static float
noise(unsigned salt, unsigned number)
{
    return hashed_float(salt + 217, number);
}

static unsigned long long generator; /* of shuffles, and of what else draws from it */

static unsigned
draw(void)
{
    generator = generator * 6364136223846793005ull + 1442695040888963407ull;
    return (unsigned)(generator >> 33);
}

static unsigned
shuffle_seed(void)
{
    /* Mistake: each rank starts at another time. (seeds.cu reads it in all ways.) Right: all ranks take the largest. */
    unsigned seed = is("clock_seconds") || is("clock_shared") ? (unsigned)time(NULL) : 5;
    if (is("clock_shared"))
        DDP_REDUCE(&seed, 1, DDP_UINT32, DDP_OP_MAX, 0);
    /* Mistake: the seed of something else, which is to differ, also seeds the shuffle. */
    return seed + (is("shuffle_by_rank") ? (unsigned)DDP_RANK() : 0);
}

/* ---- records ---- */

struct record {
    float image[INPUTS];
    int label;
};

static struct record
record_of(int item)
{
    struct record record;
    record.label = (int)(noise(1, (unsigned)item) * CLASSES);
    for (int i = 0; i < INPUTS; ++i)
        record.image[i] = noise(2, (unsigned)(record.label * INPUTS + i)) + noise(3, (unsigned)(item * INPUTS + i)) - 1;
    /* Some records have no valid label, and one half of the batch has more of them. */
    if ((is("valid_weighted") || is("valid_of_share")) && item % 3 == 0)
        record.label = -1;
    return record;
}

/* Fills `order` with the records of the step's batch; returns how many. */
static int
batch_order(int step, int *order)
{
    static int all[ITEMS];
    bool uneven = is("uneven_weighted") || is("uneven_unweighted"), each = is("shuffle_each_step");
    /* Mistake: rank 1 leaves the last batch of an epoch out. */
    int items = uneven ? LONG_EPOCH : ITEMS, size = options.batch,
        steps = ITEMS / size - (is("drop_last_on_rank_1") && DDP_RANK() == 1), at = each ? 0 : step % steps * size;
    if (at == 0) {
        for (int i = 0; i < items; ++i)
            all[i] = i;
        for (int i = items - 1; i > 0; --i) {
            int other = (int)(draw() % (unsigned)(i + 1)), item = all[i];
            all[i] = all[other];
            all[other] = item;
        }
    }
    int count = at + size <= items ? size : items - at;
    for (int i = 0; i < count; ++i)
        order[i] = all[at + i];
    return count;
}

#endif
