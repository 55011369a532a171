/*
 * turns_refused.cu - what ddprun must refuse of a program that takes turns, one MODE for each: the job ends by a line
 * that names both places.
 */
#include "turns.h"

#include <pthread.h>

enum { BATCHES = 28, LEFT_OUT = 4 };

/* What a mode does in place of, or beside, an ordinary batch. */
static int batch_now;

static void
ordinary_batch(void)
{
    forward_and_backward(0);
    (void)step();
    update_all();
}

MODE("mean", mean_inside)
{
    float loss = 0;
    DDP_TURN_BEGIN();
    forward_and_backward(0);
    DDP_MEAN(&loss);
    (void)step();
}

MODE("reduce", reduce_inside)
{
    DDP_TURN_BEGIN();
    forward_and_backward(0);
    DDP_REDUCE(delta, 4, DDP_FLOAT32, DDP_OP_SUM, stream);
    (void)step();
}

/* Both are right: the values are there. */
MODE("mean-after", mean_after)
{
    float loss = 1;
    DDP_TURN_BEGIN();
    ordinary_batch();
    if (DDP_TURN_UPDATES())
        DDP_MEAN(&loss);
    DDP_TURN_END();
    if (batch_now + 1 == BATCHES)
        DDP_MEAN(&loss);
}

MODE("shard", with_shard)
{
    size_t first, count;
    DDP_TURN_BEGIN();
    ordinary_batch();
    DDP_TURN_END();
    DDP_SHARD(8, &first, &count);
}

MODE("weight", with_weight)
{
    DDP_WEIGHT(4, 8);
    DDP_TURN_BEGIN();
    ordinary_batch();
}

MODE("behind", step_behind)
{
    {
        DDP_TURN_BEGIN();
        forward_and_backward(0);
    }
    (void)step();
}

MODE("outside", step_outside)
{
    if (batch_now == LEFT_OUT)
        return ordinary_batch();
    DDP_TURN_BEGIN();
    ordinary_batch();
}

MODE("two-lines", passes_of_two_lines)
{
    {
        DDP_TURN_BEGIN();
        forward_and_backward(1);
    }
    DDP_TURN_BEGIN();
    ordinary_batch();
}

MODE("nested", region_in_region)
{
    DDP_TURN_BEGIN();
    {
        DDP_TURN_BEGIN();
        ordinary_batch();
    }
}

MODE("no-end", open_without_end)
{
    DDP_TURN_OPEN();
    ordinary_batch();
    if (batch_now + 1 < BATCHES)
        DDP_TURN_END();
}

MODE("no-begin", end_without_begin)
{
    ordinary_batch();
    DDP_TURN_END();
}

MODE("twice", two_steps)
{
    DDP_TURN_BEGIN();
    ordinary_batch();
    (void)step();
}

MODE("captured", captured_step)
{
    DDP_TURN_BEGIN();
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    ordinary_batch();
}

MODE("graph", graph_with_step)
{
    static cudaGraphExec_t made;
    if (made == NULL)
        made = graph_make(stream, ordinary_batch);
    DDP_TURN_BEGIN();
    CHECK(cudaGraphLaunch(made, stream));
    DDP_TURN_END();
}

/* A function for two nets. */
static void
train_group(int group)
{
    DDP_TURN_BEGIN();
    forward_and_backward(0);
    (void)step_group(group);
    update_group(group);
}

MODE("groups", groups_of_one_line)
{
    train_group(0);
    train_group(1);
}

/* Rank 1's batch has a result that it does not like. */
MODE("left-out", left_by_own_result)
{
    DDP_TURN_BEGIN();
    forward_and_backward(0);
    if (batch_now == LEFT_OUT && DDP_RANK() == 1) {
        DDP_TURN_END();
        return;
    }
    (void)step();
    update_all();
}

/* The same, before the batch's region. */
MODE("skipped", left_before_region)
{
    if (batch_now == LEFT_OUT && DDP_RANK() == 1)
        return;
    DDP_TURN_BEGIN();
    ordinary_batch();
}

/* Rank 1 has had enough before a round that is not complete. */
MODE("stops", stop_by_own_result)
{
    DDP_TURN_BEGIN();
    ordinary_batch();
    if (batch_now + 2 == BATCHES && DDP_RANK() == 1)
        batch_now = BATCHES;
}

/* The host makes the update, in each batch. */
MODE("host", update_on_host)
{
    static float weights[INPUTS * HIDDEN], gradient[INPUTS * HIDDEN];
    const tensor *one = &tensors[0];
    const size_t bytes = one->count * sizeof(float);
    if (batch_now == 0)
        CHECK(cudaMemcpy(weights, one->weight, bytes, cudaMemcpyDeviceToHost));
    DDP_TURN_BEGIN();
    forward_and_backward(0);
    (void)step();
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaMemcpy(gradient, one->gradient, bytes, cudaMemcpyDeviceToHost));
    for (int i = 0; i < one->count; ++i)
        weights[i] -= RATE * gradient[i];
    CHECK(cudaMemcpy(one->weight, weights, bytes, cudaMemcpyHostToDevice));
}

/* ---- what is reported, and does not end the job ---- */

/* The host counts batches for a rate that falls with the updates. */
MODE("counts", count_in_each_batch)
{
    static int updates;
    DDP_TURN_BEGIN();
    forward_and_backward(0);
    (void)step();
    ++updates;
    for (const tensor &one : tensors)
        descend<<<blocks_for(one.count), THREADS, 0, stream>>>(one.weight, one.gradient, one.count,
                                                               RATE / (float)updates);
}

/* Right: the host counts updates. */
MODE("guards", count_updates)
{
    static int updates;
    DDP_TURN_BEGIN();
    forward_and_backward(0);
    (void)step();
    for (const tensor &one : tensors)
        descend<<<blocks_for(one.count), THREADS, 0, stream>>>(one.weight, one.gradient, one.count,
                                                               RATE / (float)(1 + updates));
    updates += DDP_TURN_UPDATES();
}

/* Ranks shuffle by other seeds. */
MODE("seeds", other_data_on_each_rank)
{
    load(BATCHES * DDP_RANK() + batch_now, x, target);
    DDP_TURN_BEGIN();
    ordinary_batch();
}

/* All batches are one. */
MODE("full", full_batch)
{
    load(0, x, target);
    DDP_TURN_BEGIN();
    ordinary_batch();
}

static void *
step_of_thread(void *)
{
    (void)step();
    return NULL;
}

MODE("thread", step_of_other_thread)
{
    pthread_t thread;
    DDP_TURN_BEGIN();
    forward_and_backward(0);
    CHECK(pthread_create(&thread, NULL, step_of_thread, NULL));
    CHECK(pthread_join(thread, NULL));
}

int
main(int argc, char **argv)
{
    mode = argc > 1 ? argv[1] : "";
    auto train = mode_of<void(void)>::given();
    REQUIRE(train != NULL);
    net_create(is_mode("groups"), true);
    for (batch_now = 0; batch_now < BATCHES; ++batch_now) {
        if (!is_one_of({"seeds", "full"}))
            load(batch_now, x, target);
        train();
    }
    CHECK(cudaDeviceSynchronize());
    return 0;
}
