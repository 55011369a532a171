/*
 * weights.cu - a trainer whose ranks have shares of unequal size, which it weighs by DDP_WEIGHT, in the
 * frame of exact.h.
 *
 * Item i of a batch has the gradient i + 1, and a rank's gradient is the mean over its share. Modes: uneven: other
 * shares in every step; equal: shares of one size zero: the last rank has no item in every third step; its gradients
 * then hold NaN, and it runs no kernel on them sometimes: DDP_WEIGHT in every fifth step only, the others have equal
 * shares accumulate: two passes, a call for each; groups: the last layer is a group of its own graph: the step is
 * captured; other-launch: and DDP_WEIGHT says something else before a launch late: DDP_WEIGHT stands after backward,
 * from the tenth step on; idle: as zero, in each step; above: count exceeds total; alone: count is less than total on
 * all ranks sum, total: the last rank's count or total is too large from the tenth step on missing: the last rank does
 * not call it from the tenth step on; never: it never does; shards: besides, DDP_SHARD is given 48 instead of 96 items
 * on the last rank from the tenth step on; shards-evaluated: it is given 96, and on rank 0 also what that evaluates on;
 * shards-ahead: a thread calls it, a batch further ahead on each rank
 */
enum { LAYERS = 4, COUNT = 1024, STEPS = 30, WRONG_FROM = 9 };
#include "exact.h"

#include <thread>

/* ---- shares ---- */

struct share {
    int first, count, total;
};

static int
items_of(int rank, int step)
{
    bool fixed = is_mode("equal") || (is_mode("sometimes") && step % 5 != 0) || (is_mode("late") && step < WRONG_FROM);
    if ((is_mode("idle") || (is_mode("zero") && step % 3 == 1)) && rank == DDP_WORLD_SIZE() - 1 && rank > 0)
        return 0;
    int number = is_mode("graph") || is_mode("other-launch") ? 0 : step;
    return fixed ? 3 : 1 + (rank * 3 + number) % 4;
}

static struct share
share_of(int rank, int step)
{
    struct share share = {0, items_of(rank, step), 0};
    for (int r = 0; r < DDP_WORLD_SIZE(); ++r) {
        share.first += r < rank ? items_of(r, step) : 0;
        share.total += items_of(r, step);
    }
    return share;
}

/* The sum of the gradients of items first to first + count - 1. */
static float
sum_of(int first, int count)
{
    return (float)count * (float)(2 * first + count + 1) / 2.0f;
}

static void
weigh(const struct share *share, int step)
{
    bool last = is_last_rank(), wrong = last && step >= WRONG_FROM;
    int count = share->count, total = share->total;
    if ((is_mode("sometimes") && step % 5 != 0) || (is_mode("late") && step < WRONG_FROM))
        return;
    if ((is_mode("missing") && wrong) || (is_mode("never") && last))
        return;
    if (is_mode("sum") && wrong)
        ++count;
    if ((is_mode("total") && wrong) || is_mode("alone"))
        ++total;
    DDP_WEIGHT(is_mode("above") ? total + 1 : count, total);
}

/* ---- a step ---- */

static void
backward(float value)
{
    for (int l = LAYERS - 1; l >= 0; --l)
        add<<<BLOCKS, THREADS, 0, stream>>>(gradients[l], value);
}

/* DDP_SHARD, whose shares are not used. */
static void
share_out(size_t total)
{
    size_t first, count;
    DDP_SHARD(total, &first, &count);
}

static void
share_out_batch(int step)
{
    size_t batch = step % 7 == 6 ? 37 : 96; /* the last of an epoch is smaller */
    if (strncmp(mode, "shards", 6) != 0)
        return;
    if (is_mode("shards-ahead")) {
        std::thread([step] { share_out((step + DDP_RANK()) % 2 == 0 ? 37 : 96); }).join();
        return;
    }
    bool evaluates = is_mode("shards-evaluated") && DDP_RANK() == 0;
    if (evaluates && step % 3 == 0)
        share_out(1000);
    share_out(is_mode("shards") && is_last_rank() && step >= WRONG_FROM ? batch / 2 : batch);
    if (evaluates && step % 5 == 0)
        share_out(2000);
}

/* The step's forward and backward passes; returns the mean over all items of all ranks. */
static double
work_through(int step)
{
    int passes = is_mode("accumulate") ? 2 : 1, count = 0, total = 0;
    double mean = 0;
    for (int pass = 0; pass < passes; ++pass) {
        count += share_of(DDP_RANK(), step + pass).count;
        total += share_of(DDP_RANK(), step + pass).total;
    }
    for (int pass = 0; pass < passes; ++pass) {
        struct share share = share_of(DDP_RANK(), step + pass);
        mean += (double)sum_of(0, share.total) / total;
        if (!is_mode("late"))
            weigh(&share, step);
        if (count > 0) /* else NaN remains */
            backward(sum_of(share.first, share.count) / (float)count);
        if (is_mode("late"))
            weigh(&share, step);
    }
    return mean;
}

static void
optimize(void)
{
    DDP_STEP(stream);
    if (is_mode("groups"))
        DDP_STEP_GROUP(1, stream);
    for (int l = 0; l < LAYERS; ++l)
        update<<<BLOCKS, THREADS, 0, stream>>>(weights[l], gradients[l]);
}

/* Zeros for the next step, or NaN where this rank will have no items in it. */
static void
prepare_gradients(int step)
{
    bool idle = share_of(DDP_RANK(), step).count == 0;
    for (int l = 0; l < LAYERS; ++l)
        CHECK(cudaMemsetAsync(gradients[l], idle ? 0xff : 0, BYTES, stream));
}

static void
train_directly(void)
{
    for (int step = 0; step < STEPS; ++step) {
        share_out_batch(step);
        expect(0.5 * work_through(step));
        optimize();
        prepare_gradients(step + 1);
    }
}

static void
train_in_graph(void)
{
    static double mean;
    struct share share = share_of(DDP_RANK(), 0);
    cudaGraphExec_t launched = graph_make(stream, [] {
        mean = work_through(0);
        optimize();
        prepare_gradients(0);
    });
    for (int step = 0; step < STEPS; ++step) {
        if (is_mode("other-launch") && step == WRONG_FROM)
            DDP_WEIGHT(share.count, share.total + 1);
        else if (step % 2 == 0) /* the same as captured, of twice as many */
            DDP_WEIGHT(2 * share.count, 2 * share.total);
        CHECK(cudaGraphLaunch(launched, stream));
        expect(0.5 * mean);
    }
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaGraphExecDestroy(launched));
}

/* ---- all of it ---- */

static void
create(void)
{
    layers_create();
    prepare_gradients(0);
    CHECK(cudaDeviceSynchronize());
    annotate_parameters();
    for (int l = 0; l < LAYERS; ++l) {
        DDP_GRADIENT_GROUP(is_mode("groups") && l == LAYERS - 1 ? 1 : 0);
        DDP_GRADIENT(gradients[l], COUNT, DDP_FLOAT32);
    }
}

int
main(int argc, char **argv)
{
    take_mode(argc, argv, "uneven");
    create();
    if (is_mode("graph") || is_mode("other-launch"))
        train_in_graph();
    else
        train_directly();
    return weights_are_right(1e-5) ? 0 : 1;
}
