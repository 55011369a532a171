/*
 * data.cu HABIT - how public programs bring batches, and what their passes carry from batch to batch. See net.h, and
 * the table at the end.
 */
#include "net.h"

#include <algorithm>
#include <curand_kernel.h>

/* A step on the batch that lies in x and labels. */
static void
train_on_batch(int step, int rows)
{
    forward(rows);
    backward(rows);
    print_loss(step, read_loss());
    update();
}

/* ---- random states on the device ---- */

__global__ void
seed(curandState *states, int count)
{
    if (INDEX < count)
        curand_init(7, (unsigned long long)INDEX, 0, &states[INDEX]);
}

__global__ void
drop(float *values, float *mask, curandState *states, int count)
{
    if (INDEX >= count)
        return;
    mask[INDEX] = curand_uniform(&states[INDEX]) < 0.8f ? 1.25f : 0.0f;
    values[INDEX] *= mask[INDEX];
}

__global__ void
multiply(float *values, const float *by, int count)
{
    if (INDEX < count)
        values[INDEX] *= by[INDEX];
}

static void
train_dropout(void)
{
    curandState *states;
    create_net(true);
    float *mask = floats(BATCH * HIDDEN, 0);
    CHECK(cudaMalloc(&states, BATCH * HIDDEN * sizeof(*states)));
    RUN(seed, BATCH * HIDDEN)(states, BATCH * HIDDEN);
    for (int step = 0; turn(step, steps); ++step) {
        load(step);
        hidden(BATCH);
        RUN(drop, BATCH * HIDDEN)(h, mask, states, BATCH * HIDDEN);
        output(BATCH);
        backward_below(BATCH);
        RUN(multiply, BATCH * HIDDEN)(below, mask, BATCH * HIDDEN);
        for (int t = 0; t < TENSORS; ++t)
            backward_tensor(g[t], t, BATCH);
        print_loss(step, read_loss());
        update();
    }
}

__global__ void
add_noise(float *values, unsigned *states, int count)
{
    if (INDEX >= count)
        return;
    states[INDEX] = states[INDEX] * 1664525u + 1013904223u;
    values[INDEX] += 0.4f * ((float)(states[INDEX] >> 8) / (1 << 24) - 0.5f);
}

/* Random states that the host has drawn. */
static unsigned *
create_states(int count)
{
    std::vector<unsigned> host((size_t)count);
    for (unsigned &state : host)
        state = (unsigned)(random_number() * 4e9f);
    unsigned *states = (unsigned *)allocate(host.size() * sizeof(unsigned));
    CHECK(cudaMemcpy(states, host.data(), host.size() * sizeof(unsigned), cudaMemcpyHostToDevice));
    return states;
}

static void
train_noise(void)
{
    create_net(true);
    unsigned *states = create_states(BATCH * INPUTS);
    for (int step = 0; turn(step, steps); ++step) {
        load(step);
        RUN(add_noise, BATCH * INPUTS)(x, states, BATCH * INPUTS);
        train_on_batch(step, BATCH);
    }
}

/* ---- data that lie on the device ---- */

static float *all_x;
static int *all_labels, *order;

/* Brings row order[first + i] to row i; `first` is counted in batches, on the device or by the host. */
__global__ void
gather(float *x, int *labels, const float *all_x, const int *all_labels, const int *order, const int *counter,
       int batch)
{
    int row = INDEX / INPUTS, from = ((counter != NULL ? *counter : batch) % BATCHES) * BATCH + row;
    if (row >= BATCH)
        return;
    from = order[from];
    x[INDEX] = all_x[from * INPUTS + INDEX % INPUTS];
    if (INDEX % INPUTS == 0)
        labels[row] = all_labels[from];
}

static void
create_resident(void)
{
    std::vector<int> host_order(SAMPLES);
    create_net(true);
    for (int i = 0; i < SAMPLES; ++i)
        host_order[(size_t)i] = i;
    all_x = (float *)allocate(sizeof(host_x));
    all_labels = (int *)allocate(sizeof(host_labels));
    order = (int *)allocate(SAMPLES * sizeof(int));
    CHECK(cudaMemcpy(all_x, host_x, sizeof(host_x), cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(all_labels, host_labels, sizeof(host_labels), cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(order, host_order.data(), SAMPLES * sizeof(int), cudaMemcpyHostToDevice));
}

static void
take(const int *counter, int step)
{
    RUN(gather, BATCH * INPUTS)(x, labels, all_x, all_labels, order, counter, step);
}

__global__ void
advance(int *counter)
{
    ++*counter;
}

static void
train_counter(void)
{
    create_resident();
    int *counter = (int *)allocate(sizeof(int));
    CHECK(cudaMemset(counter, 0, sizeof(int)));
    for (int step = 0; turn(step, steps); ++step) {
        take(counter, 0);
        advance<<<1, 1>>>(counter);
        train_on_batch(step, BATCH);
    }
}

__global__ void
shuffle(int *order, unsigned *state, int count)
{
    for (int i = count - 1; i > 0; --i) {
        *state = *state * 1664525u + 1013904223u;
        int other = (int)((*state >> 8) % (unsigned)(i + 1)), moved = order[i];
        order[i] = order[other];
        order[other] = moved;
    }
}

static void
train_shuffle_device(void)
{
    create_resident();
    unsigned *state = create_states(1);
    for (int step = 0; turn(step, steps); ++step) {
        if (step % BATCHES == 0)
            shuffle<<<1, 1>>>(order, state, SAMPLES);
        take(NULL, step);
        train_on_batch(step, BATCH);
    }
}

static void
train_shuffle_host(void)
{
    std::vector<int> host_order(SAMPLES);
    create_resident();
    for (int i = 0; i < SAMPLES; ++i)
        host_order[(size_t)i] = i;
    for (int step = 0; turn(step, steps); ++step) {
        for (int i = SAMPLES - 1; step % BATCHES == 0 && i > 0; --i)
            std::swap(host_order[(size_t)i], host_order[(size_t)(random_number() * (float)(i + 1))]);
        if (step % BATCHES == 0)
            CHECK(cudaMemcpy(order, host_order.data(), SAMPLES * sizeof(int), cudaMemcpyHostToDevice));
        take(NULL, step);
        train_on_batch(step, BATCH);
    }
}

/* ---- copies ahead, and smaller batches ---- */

static void
train_prefetch(void)
{
    float *next_x, *pinned_x;
    int *next_labels, *pinned_labels;
    cudaStream_t copies;
    cudaEvent_t arrived;
    create_net(true);
    CHECK(cudaMallocHost(&pinned_x, sizeof(host_x)));
    CHECK(cudaMallocHost(&pinned_labels, sizeof(host_labels)));
    memcpy(pinned_x, host_x, sizeof(host_x));
    memcpy(pinned_labels, host_labels, sizeof(host_labels));
    next_x = floats(TEST * INPUTS, 0);
    CHECK(cudaMalloc(&next_labels, TEST * sizeof(int)));
    CHECK(cudaStreamCreate(&copies));
    CHECK(cudaEventCreate(&arrived));
    load(0);
    for (int step = 0; turn(step, steps); ++step) {
        int next = (step + 1) % BATCHES * BATCH;
        CHECK(cudaMemcpyAsync(next_x, pinned_x + next * INPUTS, BATCH * INPUTS * sizeof(float), cudaMemcpyHostToDevice,
                              copies));
        CHECK(cudaMemcpyAsync(next_labels, pinned_labels + next, BATCH * sizeof(int), cudaMemcpyHostToDevice, copies));
        CHECK(cudaEventRecord(arrived, copies));
        train_on_batch(step, BATCH);
        CHECK(cudaStreamWaitEvent(0, arrived, 0));
        std::swap(x, next_x);
        std::swap(labels, next_labels);
    }
}

static void
train_last_batch(void)
{
    create_net(true);
    for (int step = 0; turn(step, steps); ++step) {
        int rows = step % BATCHES == BATCHES - 1 ? 7 : BATCH;
        load_rows(step % BATCHES * BATCH, rows);
        train_on_batch(step, rows);
    }
}

/* ---- what passes carry from batch to batch ---- */

__global__ void
add_recurrent(float *to, const float *before, const float *weights, int rows)
{
    int row = INDEX / HIDDEN, k = INDEX % HIDDEN;
    float sum = 0;
    for (int i = 0; i < HIDDEN && row < rows; ++i)
        sum += before[row * HIDDEN + i] * weights[i * HIDDEN + k];
    if (row < rows)
        to[INDEX] = tanhf(to[INDEX] + sum);
}

/* The hidden vector of a batch is where the next begins; gradients end at the batch. */
static void
train_rnn(void)
{
    enum { RECURRENT = HIDDEN * HIDDEN };
    create_net(true);
    float *recurrent = floats(RECURRENT, 0.2f), *of_recurrent = floats(RECURRENT, 0), *now = h;
    float *before = floats(BATCH * HIDDEN, 0);
    keep("recurrent", recurrent, RECURRENT);
    keep("gradient", of_recurrent, RECURRENT, GRADIENT);
    keep("hidden", before, BATCH * HIDDEN, OWN);
    for (int step = 0; turn(step, steps); ++step) {
        load(step);
        RUN(dense, BATCH * HIDDEN)(now, x, w[0], w[1], BATCH, INPUTS, HIDDEN, false);
        RUN(add_recurrent, BATCH * HIDDEN)(now, before, recurrent, BATCH);
        output(BATCH);
        backward(BATCH);
        RUN(gradient, RECURRENT)(of_recurrent, before, below, BATCH, HIDDEN, HIDDEN);
        CHECK(cudaMemcpy(before, now, BATCH * HIDDEN * sizeof(float), cudaMemcpyDeviceToDevice));
        print_loss(step, read_loss());
        if (!update_due())
            continue;
        for (int t = 0; t < TENSORS; ++t)
            sgd_tensor(t, g[t]);
        RUN(sgd, RECURRENT)(recurrent, of_recurrent, rate, RECURRENT);
    }
}

/* Means and deviations of the batch, and running ones. */
__global__ void
statistics(float *means, float *deviations, float *running, const float *values, int rows)
{
    int k = INDEX;
    float sum = 0, squares = 0;
    if (k >= HIDDEN)
        return;
    for (int row = 0; row < rows; ++row)
        sum += values[row * HIDDEN + k] / rows;
    for (int row = 0; row < rows; ++row)
        squares += (values[row * HIDDEN + k] - sum) * (values[row * HIDDEN + k] - sum) / rows;
    means[k] = sum;
    deviations[k] = sqrtf(squares + 1e-3f);
    running[k] = 0.9f * running[k] + 0.1f * means[k];
    running[HIDDEN + k] = 0.9f * running[HIDDEN + k] + 0.1f * deviations[k];
}

__global__ void
normalise(float *to, float *normal, const float *means, const float *deviations, const float *scale, int rows)
{
    int k = INDEX % HIDDEN;
    if (INDEX >= rows * HIDDEN)
        return;
    normal[INDEX] = (to[INDEX] - means[k]) / deviations[k];
    to[INDEX] = tanhf(scale[k] * normal[INDEX]);
}

/* The derivative by the scale, and by what was normalised in place of `below`. */
__global__ void
normalise_backward(float *below, float *of_scale, const float *normal, const float *deviations, const float *scale,
                   int rows)
{
    int k = INDEX;
    float sum = 0, weighted = 0;
    if (k >= HIDDEN)
        return;
    for (int row = 0; row < rows; ++row) {
        sum += below[row * HIDDEN + k];
        weighted += below[row * HIDDEN + k] * normal[row * HIDDEN + k];
    }
    of_scale[k] = weighted;
    for (int i = k; i < rows * HIDDEN; i += HIDDEN)
        below[i] = scale[k] / deviations[k] * (below[i] - sum / rows - normal[i] * weighted / rows);
}

static void
train_batch_norm(void)
{
    create_net(true);
    float *means = floats(HIDDEN, 0), *deviations = floats(HIDDEN, 0), *running = floats(2 * HIDDEN, 0);
    float *normal = floats(TEST * HIDDEN, 0), *scale = floats(HIDDEN, 0.4f), *of_scale = floats(HIDDEN, 0);
    keep("running", running, 2 * HIDDEN, RUNNING);
    keep("scale", scale, HIDDEN);
    keep("gradient", of_scale, HIDDEN, GRADIENT);
    for (int step = 0; turn(step, steps); ++step) {
        load(step);
        RUN(dense, BATCH * HIDDEN)(h, x, w[0], w[1], BATCH, INPUTS, HIDDEN, false);
        RUN(statistics, HIDDEN)(means, deviations, running, h, BATCH);
        RUN(normalise, BATCH * HIDDEN)(h, normal, means, deviations, scale, BATCH);
        output(BATCH);
        backward_below(BATCH);
        RUN(normalise_backward, HIDDEN)(below, of_scale, normal, deviations, scale, BATCH);
        for (int t = 0; t < TENSORS; ++t)
            backward_tensor(g[t], t, BATCH);
        print_loss(step, read_loss());
        if (!update_due())
            continue;
        for (int t = 0; t < TENSORS; ++t)
            sgd_tensor(t, g[t]);
        RUN(sgd, HIDDEN)(scale, of_scale, rate, HIDDEN);
    }
}

int
main(int argc, char **argv)
{
    const struct habit habits[] = {{"dropout", train_dropout},           {"noise", train_noise},
                                   {"counter", train_counter},           {"shuffle-device", train_shuffle_device},
                                   {"shuffle-host", train_shuffle_host}, {"prefetch", train_prefetch},
                                   {"last-batch", train_last_batch},     {"rnn", train_rnn},
                                   {"batch-norm", train_batch_norm}};
    return run_habit(habits, argc, argv);
}
