/*
 * conv_data.h - options of conv.cu, and the data set that it trains on: ITEMS images with a token and a label each,
 * made from their numbers, in an order that is shuffled anew in each epoch.
 */
#ifndef TESTS_TOOLS_CHECK_CONV_DATA_H
#define TESTS_TOOLS_CHECK_CONV_DATA_H

#include "conv_kernels.h"
#include "tests/tools/frame.h"

enum { ITEMS = 240 };

/* ---- options ---- */

struct options {
    int steps;
    int batch;       /* items in a step, of all ranks together */
    int local_batch; /* or, if it is not 0, of each rank */
    unsigned seed;
    float rate;
    float clip;       /* gradients are scaled down to this norm where they are; 0: never */
    float norm;       /* gradients are scaled down to this norm where the optimizer uses them; 0: never */
    float loss_scale; /* gradients are that many times too large until they were averaged */
    bool dropout, batchnorm, copy, seed_by_rank, clock_seed, split_data, quiet;
    const char *save;       /* or NULL; "%d" becomes the rank */
    const char *checkpoint; /* or NULL: rank 0 writes it after every second step */
    const char *resume;     /* or NULL: a checkpoint to begin with */
};

static struct options options = {.steps = 12, .batch = 24, .seed = 1, .rate = 0.1f, .loss_scale = 1.0f};

/* conv.cu says at each of them what it is. */
static const char mistakes[] =
    " forgotten_gradient forgotten_parameter half_both embedding_rows step_missing step_before_forward "
    "step_mid_backward "
    "step_behind_optimizer clip_before_step norm_before_step own_loss own_count mean_on_0 sum_with_mean rate_by_rank "
    "drop_last_on_rank_1 no_share unequal_shares overlapping_shares momentum_rank0 annotated_before_init "
    "copy_of_weight ";

static const struct option option_table[] = {
    {"--steps", 'i', &options.steps},
    {"--batch", 'i', &options.batch},
    {"--local-batch", 'i', &options.local_batch},
    {"--seed", 'u', &options.seed},
    {"--rate", 'f', &options.rate},
    {"--clip", 'f', &options.clip},
    {"--norm", 'f', &options.norm},
    {"--loss-scale", 'f', &options.loss_scale},
    {"--dropout", 'b', &options.dropout},
    {"--batchnorm", 'b', &options.batchnorm},
    {"--copy", 'b', &options.copy},
    {"--seed-by-rank", 'b', &options.seed_by_rank},
    {"--clock-seed", 'b', &options.clock_seed},
    {"--split-data", 'b', &options.split_data},
    {"--quiet", 'b', &options.quiet},
    {"--save", 's', &options.save},
    {"--checkpoint", 's', &options.checkpoint},
    {"--resume", 's', &options.resume},
};

static void
options_parse(int argc, char **argv)
{
    options_take(argc, argv, option_table, mistakes);
    if (options.local_batch > 0)
        options.batch = options.local_batch * DDP_WORLD_SIZE();
    if (options.steps < 1 || options.batch < DDP_WORLD_SIZE() || options.batch > ITEMS) {
        fprintf(stderr, "conv: --steps or --batch is out of range for %d ranks\n", DDP_WORLD_SIZE());
        exit(2);
    }
}

/* ---- the data set ---- */

/* In [-1, 1). */
static float
noise(unsigned salt, unsigned number)
{
    return 2 * hashed_float(217 + salt, number) - 1;
}

static int
item_label(int item)
{
    return (int)((noise(1, (unsigned)item) + 1.0f) * 0.5f * (float)CLASSES);
}

/* The last two tokens are special ones, as of a beginning and an end: many items have them. */
static int
item_token(int item)
{
    int other = (int)((noise(2, (unsigned)item) + 1.0f) * 4.0f);
    return item % 6 == 0 ? TOKENS - 1 - item / 6 % 2 : (item_label(item) * 4 + other % 4) % (TOKENS - 2);
}

static void
item_image(int item, float *pixels)
{
    for (int i = 0; i < PIXELS; ++i)
        pixels[i] = noise(3, (unsigned)(item_label(item) * PIXELS + i)) + noise(4, (unsigned)(item * PIXELS + i));
}

/* The data set's order in an epoch, of `count` items from `first` on. */
static void
shuffle(int *order, int first, int count, unsigned seed, int epoch)
{
    unsigned long long state = seed * 0x9e3779b97f4a7c15ull + (unsigned long long)epoch;
    for (int i = 0; i < count; ++i)
        order[i] = first + i;
    for (int i = count - 1; i > 0; --i) {
        state = state * 6364136223846793005ull + 1442695040888963407ull;
        int other = (int)((state >> 33) % (unsigned)(i + 1)), item = order[i];
        order[i] = order[other];
        order[other] = item;
    }
}

#endif
