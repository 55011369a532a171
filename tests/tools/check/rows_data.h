/*
 * rows_data.h - options of rows.cu, and the data set that it trains on: ITEMS records of an image and a label, made
 * from their numbers, in an order that is shuffled anew in each epoch.
 */
#ifndef TESTS_TOOLS_CHECK_ROWS_DATA_H
#define TESTS_TOOLS_CHECK_ROWS_DATA_H

#include "rows_kernels.h"

#include <ddprun.h>
#include <fcntl.h>
#include <math.h>
#include <random>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { ITEMS = 96, BATCH = 24, LONG_EPOCH = 93, LIST = 8 };

/* ---- options ---- */

static struct {
    int steps, micro, warmup, count;
    float rate;
    const char *optimizer, *names[LIST];
} options = {.steps = 66, .micro = 1, .warmup = 0, .count = 0, .rate = 0.1f, .optimizer = "sgd", .names = {}};

/* rows.cu and this file say at each of them what it is. */
static const char mistakes[] =
    " first_ignored first_in_floats labels_not_moved moved_by_one shuffle_by_rank drop_last "
    "augment_from_shuffle wrong_labels clock_seconds clock_micro clock_nano random_device urandom "
    "getrandom valid_of_share divisor_whole_batch uneven_unweighted step_before_last_micro step_skipped "
    "group_never_stepped divided_behind_step half_gradients gradient_unwritten realloc_freed realloc_kept "
    "nan_on_ranks nan_everywhere nan_and_inf clip_before_step bias_device bias_managed bias_host "
    "rate_times_n rate_on_rank_1 local_second_moment average_before_step decay_on_rank_0 second_update "
    "loss_scale_by_rank plateau_by_rank stop_by_rank second_reduce reduce_mean synced_count ";

static const char habits[] =
    " valid_weighted two_steps zero_head augment_by_rank augment_by_item augment_all momentum_in_gradient "
    "frozen dropout_by_rank evaluation uneven_weighted flat two_streams graph amp bf16_weights "
    "bf16_copies two_groups group_turns clip checkpoint_on_0 checkpoint_by_all kmeans clock_log "
    "clock_weights clock_shared managed_bias host_bias average own_average own_norm reduced_norm decay "
    "plateau stop realloc no_sync records device_data copy_each prefetch strided state rate_decays zeroed "
    "shuffle_each_step synced_mean shard_micro padded zero_bias ";

static bool
is(const char *name)
{
    for (int i = 0; i < options.count; ++i)
        if (strcmp(options.names[i], name) == 0)
            return true;
    return false;
}

static void
options_fail(const char *word)
{
    fprintf(stderr, "rows: %s: invalid option or value\nmistakes:%s\nhabits:%s\n", word, mistakes, habits);
    exit(2);
}

static void
options_name(const char *names, const char *name)
{
    char word[40];
    snprintf(word, sizeof(word), " %s ", name);
    if (strstr(names, word) == NULL || options.count == LIST)
        options_fail(name);
    options.names[options.count++] = name;
}

static void
options_parse(int argc, char **argv)
{
    for (int i = 1; i + 1 < argc; i += 2) {
        const char *word = argv[i], *value = argv[i + 1];
        if (strcmp(word, "--rate") == 0)
            options.rate = (float)atof(value);
        else if (strcmp(word, "--steps") == 0)
            options.steps = atoi(value);
        else if (strcmp(word, "--micro") == 0)
            options.micro = atoi(value);
        else if (strcmp(word, "--warmup") == 0)
            options.warmup = atoi(value);
        else if (strcmp(word, "--optimizer") == 0)
            options.optimizer = value;
        else if (strcmp(word, "--mistake") == 0)
            options_name(mistakes, value);
        else if (strcmp(word, "--habit") == 0)
            options_name(habits, value);
        else
            options_fail(word);
    }
    if (argc % 2 == 0)
        options_fail(argv[argc - 1]);
}

/* ---- numbers ---- */

/* In [0, 1). */
static float
noise(unsigned salt, unsigned number)
{
    unsigned x = (salt + 217u) * 2654435761u + number * 40503u + 12345u;
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    x *= 0x846ca68bu;
    x ^= x >> 16;
    return (float)(x & 0xffffu) / 65536.0f;
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
    unsigned seed = 5;
    struct timeval micro;
    struct timespec nano;
    /* Mistakes: each rank starts at another time, and draws other random bytes. */
    if (is("clock_seconds")) {
        seed = (unsigned)time(NULL);
    } else if (is("clock_micro")) {
        gettimeofday(&micro, NULL);
        seed = (unsigned)(micro.tv_sec * 1000 + micro.tv_usec / 1000);
    } else if (is("clock_nano")) {
        clock_gettime(CLOCK_REALTIME, &nano);
        seed = (unsigned)nano.tv_nsec;
    } else if (is("random_device")) {
        seed = std::random_device()();
    } else if (is("urandom")) {
        int file = open("/dev/urandom", O_RDONLY);
        if (file < 0 || read(file, &seed, sizeof(seed)) != (ssize_t)sizeof(seed))
            exit(1);
        close(file);
    } else if (is("getrandom")) {
        if (getrandom(&seed, sizeof(seed), 0) != (ssize_t)sizeof(seed))
            exit(1);
    } else if (is("clock_shared")) { /* right: all ranks take the largest */
        seed = (unsigned)time(NULL);
        DDP_REDUCE(&seed, 1, DDP_UINT32, DDP_OP_MAX, 0);
    }
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
    int items = uneven ? LONG_EPOCH : ITEMS, steps = ITEMS / BATCH, at = each ? 0 : step % steps * BATCH;
    if (at == 0) {
        for (int i = 0; i < items; ++i)
            all[i] = i;
        for (int i = items - 1; i > 0; --i) {
            int other = (int)(draw() % (unsigned)(i + 1)), item = all[i];
            all[i] = all[other];
            all[other] = item;
        }
    }
    int count = at + BATCH <= items ? BATCH : items - at;
    for (int i = 0; i < count; ++i)
        order[i] = all[at + i];
    return count;
}

#endif
