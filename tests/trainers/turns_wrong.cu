/*
 * turns_wrong.cu - what a program with turns may do wrong, and what it may do: one MODE for each. What is wrong trains,
 * or reports, something else than one process with the same rounds; `ddprun check` names it.
 *
 *     turns_wrong MODE [--batches N]
 */
#include "turns.h"

#include <curand.h>

enum {
    PART = ITEMS * INPUTS,
    DRAWN = 1 << 16 /* states are written seldom */,
    LATEST = 5,
    PASSES = 4,
    VALIDATES = 8,
    STOPS = 18 /* rank 0 has another turn */
};

/* A recurrent state, which each batch continues. */
STATIC_ELEMENTWISE(cell, (float *x, float *state, int count), count, x[i] = state[i] = 0.5f * state[i] + x[i])
/* A generator for each item: the next number decides which inputs are dropped. */
STATIC_ELEMENTWISE(draw_mask, (float *x, unsigned *states, int count), count,
                   states[i] = states[i] * 1664525u + 1013904223u + (unsigned)i;
                   x[i] = states[i] >> 31 != 0 ? x[i] : 0)
/* The batch whose number is on the device. */
STATIC_ELEMENTWISE(choose, (float *x, const float *all, const int *number, int count), count,
                   x[i] = all[number[0] % LATEST * count + i])
STATIC_ELEMENTWISE(count_up, (int *number, int count), count, number[i] += 1)
/* Batch normalisation: the batch's own mean, and the running one for later. */
STATIC_ELEMENTWISE(batch_normalise, (float *x, float *running, int inputs), inputs, float mean = 0;
                   for (int item = 0; item < ITEMS; ++item) mean += x[item * inputs + i] / ITEMS;
                   running[i] = 0.9f * running[i] + 0.1f * mean;
                   for (int item = 0; item < ITEMS; ++item) x[item * inputs + i] -= mean)
STATIC_ELEMENTWISE(multiply, (float *values, const float *by, int count), count, values[i] *= by[i])
STATIC_ELEMENTWISE(follow, (float *average, const float *weight, int count), count,
                   average[i] = 0.9f * average[i] + 0.1f * weight[i])
STATIC_ELEMENTWISE(scale, (float *values, float factor, int count), count, values[i] *= factor)
STATIC_ELEMENTWISE(decay, (float *weight, int count), count, weight[i] *= 0.99f)
STATIC_ELEMENTWISE(add_loss, (float *sum, const float *delta, int count), count,
                   for (int k = 0; k < ITEMS * OUTPUTS; ++k) sum[i] += delta[k] * delta[k])

static float *state, *running, *sum;
static float host_output[ITEMS * OUTPUTS], loss;

static void
train_batch(void)
{
    forward_and_backward(0);
    if (step())
        update_all();
}

/* The batch's loss, on the host. */
static void
read_loss(void)
{
    square_sum<<<1, 1, 0, stream>>>(sum, delta, ITEMS * OUTPUTS, 0);
    CHECK(cudaMemcpyAsync(&loss, sum, sizeof(loss), cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
}

/* ---- wrong ---- */

MODE("hidden", train_recurrent, int batches)
{
    for (int batch = 0; batch < batches; ++batch) {
        load(batch, x, target);
        DDP_TURN_BEGIN();
        cell<<<blocks_for(PART), THREADS, 0, stream>>>(x, state, PART);
        train_batch();
    }
}

MODE("random", train_with_masks, int batches)
{
    unsigned *states = (unsigned *)device_floats(PART);
    for (int batch = 0; batch < batches; ++batch) {
        load(batch, x, target);
        DDP_TURN_BEGIN();
        draw_mask<<<blocks_for(PART), THREADS, 0, stream>>>(x, states, PART);
        train_batch();
    }
}

MODE("counter", train_by_counter, int batches)
{
    float *all = device_floats(LATEST * PART);
    int *number = (int *)device_floats(1);
    for (int batch = 0; batch < LATEST; ++batch)
        load(batch, all + batch * PART, target);
    for (int batch = 0; batch < batches; ++batch) {
        DDP_TURN_BEGIN();
        choose<<<blocks_for(PART), THREADS, 0, stream>>>(x, all, number, PART);
        count_up<<<1, 1, 0, stream>>>(number, 1);
        train_batch();
    }
}

/* The next batch lies in memory of the device, from which this batch's region copies it. */
MODE("prefetch", train_prefetching, int batches)
{
    float *inputs[2] = {x, device_floats(PART)}, *staged = device_floats(PART);
    load(0, inputs[0], target);
    for (int batch = 0; batch < batches; ++batch) {
        load(batch + 1, staged, target);
        x = inputs[batch % 2];
        DDP_TURN_BEGIN();
        CHECK(cudaMemcpyAsync(inputs[(batch + 1) % 2], staged, PART * sizeof(float), cudaMemcpyDeviceToDevice, stream));
        train_batch();
    }
}

static void
train_normalised(int batches)
{
    for (int batch = 0; batch < batches; ++batch) {
        load(batch, x, target);
        DDP_TURN_BEGIN();
        batch_normalise<<<blocks_for(INPUTS), THREADS, 0, stream>>>(x, running, INPUTS);
        train_batch();
    }
}

MODE("statistics", train_with_statistics, int batches)
{
    train_normalised(batches);
}

/* DDP_STEP averages over the turns, and the program computes with their number once more: `factor` goes to the
 * gradients, `rate` to the update. */
static void
train_with_size(int batches, float (*factor)(void), float (*rate)(void))
{
    for (int batch = 0; batch < batches; ++batch) {
        load(batch, x, target);
        DDP_TURN_BEGIN();
        forward_and_backward(0);
        for (const tensor &one : tensors)
            scale<<<blocks_for(one.count), THREADS, 0, stream>>>(one.gradient, factor(), one.count);
        if (!step())
            continue;
        for (const tensor &one : tensors)
            descend<<<blocks_for(one.count), THREADS, 0, stream>>>(one.weight, one.gradient, one.count, rate());
    }
}

static float
one(void)
{
    return 1;
}

static float
plain_rate(void)
{
    return RATE;
}

MODE("divides", train_with_divided_rate, int batches)
{
    train_with_size(batches, one, [] { return RATE / DDP_WORLD_SIZE(); });
}

MODE("shrinks", train_with_divided_gradients, int batches)
{
    train_with_size(
        batches, [] { return 1.0f / DDP_WORLD_SIZE(); }, plain_rate);
}

/* A round has N batches, and a larger rate is a choice. */
MODE("scales", train_with_larger_rate, int batches)
{
    train_with_size(batches, one, [] { return RATE * DDP_WORLD_SIZE(); });
}

/* Each third batch is not averaged. */
MODE("skips", train_without_step, int batches)
{
    for (int batch = 0; batch < batches; ++batch) {
        load(batch, x, target);
        DDP_TURN_BEGIN();
        clear_gradients();
        forward_and_backward(1);
        if (batch % 3 == 2 || step())
            update_all();
    }
}

/* A batch has parts, and a rank computes some of them, although turns divide the batches already. */
MODE("strides", train_by_strides, int batches)
{
    float *parts = device_floats(PASSES * PART);
    for (int batch = 0; batch < batches; ++batch) {
        for (int pass = 0; pass < PASSES; ++pass)
            load(pass, parts + pass * PART, target);
        DDP_TURN_BEGIN();
        clear_gradients();
        for (int pass = DDP_RANK(); pass < PASSES; pass += DDP_WORLD_SIZE()) {
            x = parts + pass * PART;
            forward_and_backward(1);
        }
        if (step())
            update_all();
    }
}

/* The update's rate depends on the number of updates, which the host counts in each batch. */
MODE("rate", train_with_rate, int batches)
{
    int updates = 0;
    for (int batch = 0; batch < batches; ++batch) {
        load(batch, x, target);
        DDP_TURN_BEGIN();
        forward_and_backward(0);
        (void)step();
        ++updates;
        for (const tensor &one : tensors)
            descend<<<blocks_for(one.count), THREADS, 0, stream>>>(one.weight, one.gradient, one.count,
                                                                   RATE / sqrtf((float)updates));
    }
}

/* The host counts right outputs of each batch, also where another rank computes them. */
static float
count_right(void)
{
    int right = 0;
    CHECK(cudaMemcpyAsync(host_output, output, sizeof(host_output), cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    for (int i = 0; i < ITEMS * OUTPUTS; ++i)
        right += (host_output[i] > 0) == (host_target[i] > 0);
    return (float)right / (ITEMS * OUTPUTS);
}

MODE("metric", train_with_metric, int batches)
{
    float right = 0;
    for (int batch = 0; batch < batches; ++batch) {
        load(batch, x, target);
        DDP_TURN_BEGIN();
        train_batch();
        right += count_right();
    }
    DDP_MEAN(&right);
}

MODE("stop", train_until_good, int batches)
{
    for (int batch = 0; batch < batches; ++batch) {
        load(batch, x, target);
        DDP_TURN_BEGIN();
        forward_and_backward(0);
        read_loss();
        if (step())
            update_all();
        if (batch >= STOPS && loss < 1e9f)
            break;
    }
}

/* The validation stands in the region: after a DDP_STEP without effect it is left out. */
MODE("validates", train_and_validate, int batches)
{
    for (int batch = 0; batch < batches; ++batch) {
        load(batch, x, target);
        DDP_TURN_BEGIN();
        train_batch();
        if (batch % VALIDATES != 1)
            continue;
        load(-1, x, target);
        forward();
        read_loss();
    }
}

/* The last batch leaves its region open. */
MODE("open", train_without_end, int batches)
{
    for (int batch = 0; batch < batches; ++batch) {
        load(batch, x, target);
        DDP_TURN_OPEN();
        train_batch();
        if (batch + 1 == batches)
            break;
        DDP_TURN_END();
    }
    load(-1, x, target);
    forward();
    read_loss();
}

/* Numbers of cuRAND's generator: its states are on the device. */
static void
train_with_generator(int batches, bool before)
{
    curandGenerator_t generator;
    float *numbers = device_floats(DRAWN);
    CHECK(curandCreateGenerator(&generator, CURAND_RNG_PSEUDO_XORWOW));
    CHECK(curandSetStream(generator, stream));
    CHECK(curandSetPseudoRandomGeneratorSeed(generator, 5));
    for (int batch = 0; batch < batches; ++batch) {
        load(batch, x, target);
        if (before)
            CHECK(curandGenerateUniform(generator, numbers, DRAWN));
        DDP_TURN_BEGIN();
        if (!before)
            CHECK(curandGenerateUniform(generator, numbers, DRAWN));
        multiply<<<blocks_for(PART), THREADS, 0, stream>>>(x, numbers, PART);
        train_batch();
    }
    CHECK(cudaStreamSynchronize(stream));
    CHECK(curandDestroyGenerator(generator));
}

MODE("generator", train_by_generator, int batches)
{
    train_with_generator(batches, false);
}

/* Each batch is all of the data. */
MODE("whole", train_on_everything, int batches)
{
    load(0, x, target);
    for (int batch = 0; batch < batches; ++batch) {
        DDP_TURN_BEGIN();
        train_batch();
    }
}

/* The host takes a step in an environment: the model's output chooses among its actions, and the state that follows is
 * the next batch. */
static int
choose_action(void)
{
    int best = 0;
    CHECK(cudaMemcpyAsync(host_output, output, sizeof(host_output), cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    for (int i = 1; i < OUTPUTS; ++i)
        best = host_output[i] > host_output[best] ? i : best;
    return best;
}

MODE("acts", train_while_acting, int batches)
{
    int place = 0;
    for (int batch = 0; batch < batches; ++batch) {
        load(place, x, target);
        DDP_TURN_BEGIN();
        train_batch();
        place = 3 * place % 1000 + choose_action();
    }
}

/* A moving average of the weights, after each batch. */
MODE("follows", train_followed, int batches)
{
    float *averages[TENSORS];
    for (int t = 0; t < TENSORS; ++t)
        averages[t] = device_floats(tensors[t].count);
    for (int batch = 0; batch < batches; ++batch) {
        load(batch, x, target);
        DDP_TURN_BEGIN();
        train_batch();
        DDP_TURN_END();
        for (int t = 0; t < TENSORS; ++t)
            follow<<<blocks_for(tensors[t].count), THREADS, 0, stream>>>(averages[t], tensors[t].weight,
                                                                         tensors[t].count);
    }
}

/* Weights are made smaller after each batch. */
MODE("decays", train_decaying, int batches)
{
    for (int batch = 0; batch < batches; ++batch) {
        load(batch, x, target);
        DDP_TURN_BEGIN();
        train_batch();
        DDP_TURN_END();
        for (const tensor &one : tensors)
            decay<<<blocks_for(one.count), THREADS, 0, stream>>>(one.weight, one.count);
    }
}

/* ---- right ---- */

MODE("generates", train_after_generator, int batches)
{
    train_with_generator(batches, true);
}

MODE("buffer", train_with_buffer, int batches)
{
    DDP_BUFFER(running, INPUTS, DDP_FLOAT32);
    train_normalised(batches);
}

/* Each batch's loss is printed, and counts where it is the rank's own. */
MODE("prints", train_and_print, int batches)
{
    float all = 0;
    for (int batch = 0; batch < batches; ++batch) {
        load(batch, x, target);
        DDP_TURN_BEGIN();
        forward_and_backward(0);
        read_loss();
        printf("loss %g\n", loss);
        if (DDP_TURN_MINE())
            all += loss;
        if (step())
            update_all();
    }
    DDP_MEAN(&all);
}

/* All ranks stop by the mean of their last losses. */
MODE("agrees", train_until_agreed, int batches)
{
    float mean = 1e9f;
    for (int batch = 0; batch < batches && mean > 1e-9f; ++batch) {
        load(batch, x, target);
        DDP_TURN_BEGIN();
        forward_and_backward(0);
        read_loss();
        if (step())
            update_all();
        if (!DDP_TURN_UPDATES())
            continue;
        mean = loss;
        DDP_MEAN(&mean);
    }
}

/* The device adds losses up, and ranks add up their sums. */
MODE("sums", train_and_sum, int batches)
{
    for (int batch = 0; batch < batches; ++batch) {
        load(batch, x, target);
        DDP_TURN_BEGIN();
        forward_and_backward(0);
        add_loss<<<1, 1, 0, stream>>>(sum, delta, 1);
        if (step())
            update_all();
    }
    DDP_REDUCE(sum, 1, DDP_FLOAT32, DDP_OP_SUM, stream);
}

/* The same, where the first batch's region annotates, as the lines of ddprun scout may do. */
MODE("sums-late", train_and_sum_late, int batches)
{
    for (int batch = 0; batch < batches; ++batch) {
        load(batch, x, target);
        DDP_TURN_BEGIN();
        forward_and_backward(0);
        add_loss<<<1, 1, 0, stream>>>(sum, delta, 1);
        if (batch == 0)
            net_annotate(true);
        if (step())
            update_all();
    }
    DDP_REDUCE(sum, 1, DDP_FLOAT32, DDP_OP_SUM, stream);
}

int
main(int argc, char **argv)
{
    int batches = 41;
    mode = argc > 1 ? argv[1] : "hidden";
    take_options(argc, argv, 2, {{"--batches", &batches}});
    auto train = mode_of<void(int)>::given();
    REQUIRE(train != NULL);
    net_allocate(false);
    if (!is_mode("sums-late"))
        net_annotate(true);
    state = device_floats(PART);
    running = device_floats(INPUTS);
    sum = device_floats(1);
    train(batches);
    CHECK(cudaDeviceSynchronize());
    return 0;
}
