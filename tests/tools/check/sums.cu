/*
 * sums.cu - programs that train nothing, or something besides: what DDP_REDUCE finds is all that a check sees of them.
 * The first argument says which, the option --mistake what is wrong with it. Run by the scripts of this folder.
 *
 * means      items are added and counted, and each round moves them by their mean; mistakes: forgotten_sum,
 *            forgotten_count, mean_of_sums, same_items, overlapping_items, nothing_shared, seed_by_rank,
 *            late (in round 5)
 * chaos      the same, by a map in which an error of rounding doubles from round to round
 * local      the mean of each rank's items, summed and divided by the number of ranks
 * totals     each round adds up items of its own: no result depends on an earlier one; mistake: forgotten_count
 * least      as means, after the smallest share was agreed on
 * timed      as means; the longest time of a round is found, too
 * clock      as means, of items that the clock seeds
 * guarded    as means, and only several ranks call DDP_REDUCE
 * prepared   128 rounds, then a training whose gradients are annotated when they are over
 * largest    a training; the largest of the ranks' sums is found, too
 * shown      a training; the mean of its loss is found, as a sum that is divided; mistakes of a training:
 *            forgotten_step, rate_by_rank
 */
#include "tests/lib/elementwise.h"
#include "tests/tools/frame.h"

enum { COUNT = 16, ITEMS = 48, ROUNDS = 40 };

/* ---- kernels ---- */

/* Items from `first` on that are above the centre; with `chaos` each counts as much as the centre. */
static __global__ void
add_up(float *sums, int *counts, const float *centre, unsigned seed, int first, int count, bool chaos)
{
    int i = threadIdx.x;
    sums[i] = 0;
    counts[i] = 0;
    for (int k = first; k < first + count; ++k) {
        float item = (float)((unsigned)(k * 7919 + i * 104729) * (seed + 1) % 10007) / 10007;
        if (item < centre[i] && !chaos)
            continue;
        sums[i] += chaos ? item * centre[i] : item;
        ++counts[i];
    }
}

/* Toward half of the mean, so that the next round counts others; with `chaos` where an error doubles. */
static __global__ void
move_centre(float *centre, const float *sums, const int *counts, bool chaos)
{
    int i = threadIdx.x;
    float mean = counts[i] > 0 ? sums[i] / (float)counts[i] : 0.9f, u = fminf(fmaxf(centre[i], 0), 1);
    centre[i] = chaos ? 3.9f * u * (1 - u) + 0.5f * (mean - 0.5f * u) : 0.5f * centre[i] + 0.3f * mean;
}

ELEMENTWISE_OF_ALL(gradient, (float *g, const float *w, const float *sums, int count),
                   g[i] = w[i] - sums[i] / (float)count)
ELEMENTWISE_OF_ALL(sgd, (float *w, const float *g, float rate), w[i] -= rate * g[i])

static struct {
    float *centre, *sums;
    int *counts;
    unsigned seed;
    size_t first, count;
} own;

/* ---- rounds ---- */

static void
share_out(void)
{
    DDP_SHARD(ITEMS, &own.first, &own.count);
    if (is("nothing_shared") || is("same_items"))
        own.first = 0;
    if (is("nothing_shared"))
        own.count = ITEMS;
    if (is("overlapping_items") && DDP_RANK() == 1)
        own.first -= 4;
    if (is("seed_by_rank"))
        own.seed = (unsigned)DDP_RANK();
    if (is("clock")) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        own.seed = (unsigned)(now.tv_nsec / 1000);
    }
}

static void
time_round(void)
{
    static struct timespec before;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    double ms = (double)(now.tv_sec - before.tv_sec) * 1e3 + (double)(now.tv_nsec - before.tv_nsec) * 1e-6;
    before = now;
    DDP_REDUCE(&ms, 1, DDP_FLOAT64, DDP_OP_MAX, 0);
}

static void
make_round(int round)
{
    bool reduces = !is("guarded") || DDP_WORLD_SIZE() > 1;
    unsigned seed = own.seed + (is("totals") ? (unsigned)round * 31 : 0);
    if (is("late") && round == 4 && DDP_RANK() == 1)
        seed += 1;
    add_up<<<1, COUNT>>>(own.sums, own.counts, own.centre, seed, (int)own.first, (int)own.count, is("chaos"));
    if (!is("forgotten_sum") && reduces)
        DDP_REDUCE(own.sums, COUNT, DDP_FLOAT32, is("mean_of_sums") ? DDP_OP_MEAN : DDP_OP_SUM, 0);
    if (!is("forgotten_count") && reduces)
        DDP_REDUCE(own.counts, COUNT, DDP_INT32, DDP_OP_SUM, 0);
    if (is("timed"))
        time_round();
    if (!is("totals"))
        move_centre<<<1, COUNT>>>(own.centre, own.sums, own.counts, is("chaos"));
}

/* In the host's memory. */
static void
find_local_means(void)
{
    float centre = 0.1f;
    for (int round = 0; round < ROUNDS; ++round) {
        float mean = 0;
        for (size_t k = own.first; k < own.first + own.count; ++k)
            mean += ((float)(k * 37 % 101) / 101 - centre) / (float)own.count;
        DDP_REDUCE(&mean, 1, DDP_FLOAT32, DDP_OP_SUM, 0);
        centre += 0.5f * mean / (float)DDP_WORLD_SIZE();
    }
}

static void
agree_on_least(void)
{
    long long least = (long long)own.count;
    DDP_REDUCE(&least, 1, DDP_INT64, DDP_OP_MIN, 0);
    REQUIRE(least <= (long long)own.count); /* a rank would read beyond its share */
}

/* ---- a training ---- */

static void
train(void)
{
    float *w = device_floats(COUNT), *g = device_floats(COUNT), *centre = device_floats(COUNT), host[COUNT];
    DDP_PARAMETER(w, COUNT, DDP_FLOAT32);
    DDP_GRADIENT(g, COUNT, DDP_FLOAT32);
    for (int step = 0; step < ROUNDS; ++step) {
        add_up<<<1, COUNT>>>(own.sums, own.counts, centre, (unsigned)step, (int)own.first, (int)own.count, false);
        gradient<<<1, COUNT>>>(g, w, own.sums, (int)own.count);
        if (!is("forgotten_step"))
            DDP_STEP(0);
        sgd<<<1, COUNT>>>(w, g, is("rate_by_rank") ? 0.1f * (float)(1 + DDP_RANK()) : 0.1f);
        CHECK(cudaMemcpy(host, own.sums, sizeof(host), cudaMemcpyDeviceToHost));
        float largest = host[0], loss = 1.0f + host[0] / (float)own.count;
        if (is("largest"))
            DDP_REDUCE(&largest, 1, DDP_FLOAT32, DDP_OP_MAX, 0);
        if (is("shown"))
            DDP_REDUCE(&loss, 1, DDP_FLOAT32, DDP_OP_SUM, 0);
    }
}

int
main(int argc, char **argv)
{
    float begin[COUNT];
    names_take(
        argc, argv,
        " means chaos local totals least timed clock guarded prepared largest shown forgotten_sum forgotten_count "
        "mean_of_sums "
        "same_items overlapping_items nothing_shared seed_by_rank late forgotten_step rate_by_rank ");
    own.centre = device_floats(COUNT);
    for (int i = 0; i < COUNT; ++i)
        begin[i] = 0.1f + 0.02f * (float)i;
    CHECK(cudaMemcpy(own.centre, begin, sizeof(begin), cudaMemcpyHostToDevice));
    own.sums = device_floats(COUNT);
    own.counts = (int *)device_memory(COUNT * sizeof(int));
    share_out();
    if (is("least"))
        agree_on_least();
    if (is("local"))
        find_local_means();
    bool is_training = is("prepared") || is("largest") || is("shown");
    for (int round = 0; round < (is("prepared") ? 128 : is_training || is("local") ? 0 : ROUNDS); ++round)
        make_round(round);
    if (is_training)
        train();
    CHECK(cudaDeviceSynchronize());
    return 0;
}
