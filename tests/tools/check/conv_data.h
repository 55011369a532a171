/*
 * conv_data.h - options of conv.cu, and the data set that it trains on: ITEMS images with a token and a label each,
 * made from their numbers, in an order that is shuffled anew in each epoch.
 */
#ifndef TESTS_TOOLS_CHECK_CONV_DATA_H
#define TESTS_TOOLS_CHECK_CONV_DATA_H

#include "conv_kernels.h"

#include <ddprun.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

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
    bool dynamic;     /* the loss scale is halved, and the update left out, where a gradient leaves the range of fp16 */
    bool dropout, batchnorm, copy, seed_by_rank, clock_seed, split_data, quiet;
    const char *save;       /* or NULL; "%d" becomes the rank */
    const char *checkpoint; /* or NULL: rank 0 writes it after every second step */
    const char *resume;     /* or NULL: a checkpoint to begin with */
    const char *mistake;    /* or NULL */
};

static struct options options = {.steps = 12, .batch = 24, .seed = 1, .rate = 0.1f, .loss_scale = 1.0f};

/* conv.cu says at each of them what it is. */
static const char *const mistakes[] = {
    "forgotten_gradient",
    "forgotten_parameter",
    "forgotten_both",
    "half_gradient",
    "half_both",
    "embedding_rows",
    "step_missing",
    "step_skipped",
    "step_before_forward",
    "step_mid_backward",
    "step_behind_optimizer",
    "clip_before_step",
    "norm_before_step",
    "divisor_whole_batch",
    "sum_with_mean",
    "shuffle_seed_by_rank",
    "labels_not_moved",
    "augment_by_shuffle",
    "drop_last_on_rank_1",
    "no_share",
    "unequal_shares",
    "overlapping_shares",
    "rate_by_rank",
    "momentum_rank0",
    "annotated_before_init",
    "copy_of_weight",
    "loss_scale_host",
};

static bool
mistake(const char *name)
{
    return options.mistake != NULL && strcmp(options.mistake, name) == 0;
}

/* Which option `word` is: where its value goes, and of what kind ('i', 'u', 'f', 's', or 'b' for one without). */
struct option {
    const char *word;
    char kind;
    void *at;
};

static const struct option option_table[] = {
    {"--steps", 'i', &options.steps},
    {"--batch", 'i', &options.batch},
    {"--local-batch", 'i', &options.local_batch},
    {"--seed", 'u', &options.seed},
    {"--rate", 'f', &options.rate},
    {"--clip", 'f', &options.clip},
    {"--norm", 'f', &options.norm},
    {"--loss-scale", 'f', &options.loss_scale},
    {"--dynamic", 'b', &options.dynamic},
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
    {"--mistake", 's', &options.mistake},
};

static void
options_fail(const char *word)
{
    fprintf(stderr, "conv: %s: invalid option or value; options:", word);
    for (const struct option &option : option_table)
        fprintf(stderr, " %s", option.word);
    fprintf(stderr, "\nmistakes:");
    for (const char *name : mistakes)
        fprintf(stderr, " %s", name);
    fprintf(stderr, "\n");
    exit(2);
}

static void
option_take(const struct option *option, const char *value)
{
    switch (option->kind) {
    case 'b':
        *(bool *)option->at = true;
        break;
    case 'i':
        *(int *)option->at = atoi(value);
        break;
    case 'u':
        *(unsigned *)option->at = (unsigned)strtoul(value, NULL, 10);
        break;
    case 'f':
        *(float *)option->at = strtof(value, NULL);
        break;
    default:
        *(const char **)option->at = value;
    }
}

static void
options_parse(int argc, char **argv)
{
    for (int i = 1; i < argc; ++i) {
        const struct option *found = NULL;
        for (const struct option &option : option_table)
            if (strcmp(argv[i], option.word) == 0)
                found = &option;
        if (found == NULL || (found->kind != 'b' && i + 1 == argc))
            options_fail(argv[i]);
        option_take(found, argv[found->kind == 'b' ? i : ++i]);
    }
    bool known = options.mistake == NULL;
    for (const char *name : mistakes)
        known |= mistake(name);
    if (!known)
        options_fail(options.mistake);
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
    unsigned x = (7u * 31u + salt) * 2654435761u + number * 40503u + 12345u;
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    x *= 0x846ca68bu;
    x ^= x >> 16;
    return (float)(x & 0xffffu) / 32768.0f - 1.0f;
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
