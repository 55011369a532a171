/*
 * net.h - the net of habits.cu: its memory, its batches, its forward and backward pass and its update, each as the
 * habit has it. Of habits.cu, which is one file of CUDA.
 */
#ifndef TESTS_TOOLS_PLAN_HABITS_NET_H
#define TESTS_TOOLS_PLAN_HABITS_NET_H

#include "kernels.h"
#include "tests/tools/plan/program.h"

#include <cublas_v2.h>

enum { TENSORS = 4, SAMPLES = BATCHES * BATCH, TEST = 3 * BATCH, RING = 4 };

static int rows = BATCH;
static float rate = 0.1f, scale = 1; /* of the update, of the loss */
static float host_x[SAMPLES + TEST][INPUTS], host_y[BATCH][CLASSES];
static int host_labels[SAMPLES + TEST];

/* Weights and biases of the first layer, then of the second. */
static const int counts[TENSORS] = {INPUTS * HIDDEN, HIDDEN, HIDDEN *CLASSES, CLASSES};
static float *w[TENSORS], *g[TENSORS], *state[TENSORS], *scales[TENSORS];
static __half *half_w[TENSORS], *half_g[TENSORS];
static int8_t *moments[TENSORS];
static float *x, *h, *y, *delta, *below, *losses, *loss, *batch_statistics;
static int *labels;
/* What single habits have beside. */
static float *more, *of_more, *side, *other, *history, *next_x, *all_x, *pinned_x;
static int *found, *counter, *order, *all_labels, *next_labels, *pinned_labels;
static unsigned *states;
static curandState *generators;
static cublasHandle_t blas;
static cudaStream_t copies;

static bool
is_early(void)
{
    return begins("early") || is("least-loss");
}

static bool
updates_in_backward(void)
{
    return is("in-backward") || is("refused-copy") || is("item-losses") || is("ends-reset-state") || is("ends-free") ||
           is("ends-tail");
}

/* ---- memory ---- */

static void *
allocate(size_t bytes)
{
    static char *arena;
    static size_t used;
    void *memory;
    if (is("arena")) {
        if (arena == NULL)
            CHECK(cudaMalloc(&arena, 1 << 20));
        memory = arena + used;
        used += (bytes + 255) / 256 * 256;
    } else {
        CHECK(is("managed") ? cudaMallocManaged(&memory, bytes) : cudaMalloc(&memory, bytes));
    }
    return memory;
}

template <typename T>
static T *
to_device(const T *host, int count)
{
    T *memory = (T *)allocate((size_t)count * sizeof(T));
    CHECK(cudaMemcpy(memory, host, (size_t)count * sizeof(T), cudaMemcpyHostToDevice));
    return memory;
}

template <typename T>
static T
from_device(const T *memory)
{
    T value;
    CHECK(cudaMemcpy(&value, memory, sizeof(value), cudaMemcpyDeviceToHost));
    return value;
}

template <typename T>
static T *
zeros(int count)
{
    const std::vector<T> host((size_t)count);
    return to_device(host.data(), count);
}

static void
create_weights(float **weights, float **gradient, int count)
{
    std::vector<float> host((size_t)count);
    for (float &value : host)
        value = 0.4f * (random_number() - 0.5f);
    *weights = to_device(host.data(), count);
    keep("weights", *weights, count);
    *gradient = zeros<float>(count);
    keep("gradient", *gradient, count, GRADIENT);
}

static void
create_data(void)
{
    int host_order[SAMPLES];
    unsigned host_states[BATCH * INPUTS];
    for (int i = 0; i < SAMPLES + TEST; ++i) {
        host_labels[i] = (int)(random_number() * CLASSES);
        for (int k = 0; k < INPUTS; ++k)
            host_x[i][k] = (k % CLASSES == host_labels[i] ? 0.6f : 0.0f) + random_number() - 0.5f;
    }
    for (int i = 0; i < SAMPLES; ++i)
        host_order[i] = i;
    for (unsigned &value : host_states)
        value = (unsigned)(random_number() * 4e9f);
    if (is("noise") || is("shuffle-device"))
        states = to_device(host_states, BATCH * INPUTS);
    if (is("counter"))
        counter = zeros<int>(1);
    if (!is("counter") && !begins("shuffle"))
        return;
    order = to_device(host_order, SAMPLES);
    all_x = to_device(host_x[0], SAMPLES * INPUTS);
    all_labels = to_device(host_labels, SAMPLES);
}

static void
create_prefetch(void)
{
    CHECK(cudaStreamCreate(&copies));
    CHECK(cudaMallocHost(&pinned_x, sizeof(host_x)));
    CHECK(cudaMallocHost(&pinned_labels, sizeof(host_labels)));
    memcpy(pinned_x, host_x, sizeof(host_x));
    memcpy(pinned_labels, host_labels, sizeof(host_labels));
    next_x = to_device(host_x[0], BATCH * INPUTS);
    next_labels = to_device(host_labels, BATCH);
}

static void
create_half(int t)
{
    std::vector<float> host((size_t)counts[t]);
    CHECK(cudaMemcpy(host.data(), w[t], host.size() * sizeof(float), cudaMemcpyDeviceToHost));
    const std::vector<__half> halves(host.begin(), host.end());
    half_w[t] = to_device(halves.data(), counts[t]);
    half_g[t] = zeros<__half>(counts[t]);
    keep("half", half_w[t], counts[t]);
    keep("gradient", half_g[t], counts[t], GRADIENT);
}

static void
create_tensor(int t)
{
    enum array_class each = oracle.by_gradients ? STATE : OWN;
    create_weights(&w[t], &g[t], counts[t]);
    if (is("ema") || is("rmsprop") || is("target") || is("two-optimizers")) {
        state[t] = zeros<float>(counts[t]);
        keep("state", state[t], counts[t]);
    }
    if (is("moments8")) {
        moments[t] = zeros<int8_t>(counts[t]);
        scales[t] = zeros<float>(counts[t] / BLOCK + 1);
        keep("moments", moments[t], counts[t], each);
        keep("scales", scales[t], counts[t] / BLOCK + 1, each);
    }
    if (begins("half"))
        create_half(t);
}

/* What is one more tensor, or is kept beside the tensors. */
static void
create_more(void)
{
    const std::vector<float> ones(BATCH, 1), closed(CLASSES, -1);
    if (is("rnn"))
        create_weights(&more, &of_more, HIDDEN * HIDDEN);
    if (begins("batch-norm"))
        create_weights(&more, &of_more, HIDDEN);
    if (is("dead-bias")) {
        create_weights(&more, &of_more, CLASSES);
        CHECK(cudaMemcpy(more, closed.data(), CLASSES * sizeof(float), cudaMemcpyHostToDevice));
    }
    side = is("gemm-update") ? to_device(ones.data(), BATCH)
                             : zeros<float>(is("ring")                       ? RING
                                            : is("sums-worst") || is_early() ? 1
                                                                             : BATCH * HIDDEN);
    other = zeros<float>(BATCH * HIDDEN > steps ? BATCH * HIDDEN : steps);
    found = zeros<int>(is("item-hits") ? TEST : 1);
    if (is("rnn"))
        keep("hidden", side, BATCH * HIDDEN, OWN);
    if (is("batch-norm-read"))
        history = zeros<float>(steps);
    if (begins("batch-norm"))
        keep("running", side, 2 * HIDDEN, RUNNING);
    if (is("gemm-update"))
        CHECK(cublasCreate(&blas));
    if (is("prefetch") || is("copy-stream"))
        create_prefetch();
    if (is("dropout")) {
        generators = (curandState *)allocate(BATCH * HIDDEN * sizeof(*generators));
        RUN(seed, BATCH * HIDDEN)(generators, BATCH * HIDDEN);
    }
    scale = is("half") ? 1024.0f : is("half-scaling") ? 65536.0f : 1.0f;
}

static void
create(void)
{
    create_data();
    x = zeros<float>(BATCH * INPUTS);
    labels = zeros<int>(BATCH);
    h = zeros<float>(BATCH * HIDDEN);
    y = zeros<float>(BATCH * CLASSES);
    delta = zeros<float>(BATCH * CLASSES);
    below = zeros<float>(BATCH * HIDDEN);
    losses = zeros<float>(BATCH);
    loss = zeros<float>(1);
    batch_statistics = zeros<float>(2 * HIDDEN);
    for (int t = 0; t < TENSORS; ++t)
        create_tensor(t);
    create_more();
}

static void
keep_device_bias(void)
{
    void *memory;
    CHECK(cudaGetSymbolAddress(&memory, device_bias));
    keep("device bias", (float *)memory, CLASSES);
}

/* ---- batches ---- */

static inline __attribute__((always_inline)) void
copy_rows(int first)
{
    CHECK(cudaMemcpy(x, host_x[first], (size_t)rows * sizeof(host_x[0]), cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(labels, host_labels + first, (size_t)rows * sizeof(int), cudaMemcpyHostToDevice));
}

/* The batch of this step has come while the one before was computed. */
static void
prefetch(int step)
{
    int next = (is("prefetch") ? step + 1 : step) % BATCHES * BATCH;
    CHECK(cudaStreamSynchronize(copies));
    std::swap(x, is("prefetch") ? next_x : x);
    std::swap(labels, is("prefetch") ? next_labels : labels);
    CHECK(cudaMemcpyAsync(is("prefetch") ? next_x : x, pinned_x + next * INPUTS, BATCH * sizeof(host_x[0]),
                          cudaMemcpyHostToDevice, copies));
    CHECK(cudaMemcpyAsync(is("prefetch") ? next_labels : labels, pinned_labels + next, BATCH * sizeof(int),
                          cudaMemcpyHostToDevice, copies));
}

static void
shuffle_order(void)
{
    static int host_order[SAMPLES];
    if (is("shuffle-device"))
        shuffle<<<1, 1>>>(order, states, SAMPLES);
    if (!is("shuffle-host"))
        return;
    for (int i = 0; i < SAMPLES; ++i) {
        int from = (int)(random_number() * (float)(i + 1));
        host_order[i] = host_order[from];
        host_order[from] = i;
    }
    CHECK(cudaMemcpy(order, host_order, sizeof(host_order), cudaMemcpyHostToDevice));
}

template <typename T>
static void
resize(T **memory, int count)
{
    CHECK(cudaFree(*memory));
    *memory = (T *)allocate((size_t)count * sizeof(T));
}

/* Batches of unlike sizes, each in memory of its own. */
static void
resize_batch(int step)
{
    rows = BATCH - step * 5 % 7;
    resize(&x, rows * INPUTS);
    resize(&labels, rows);
    resize(&h, rows * HIDDEN);
    resize(&y, rows * CLASSES);
    resize(&delta, rows * CLASSES);
    resize(&below, rows * HIDDEN);
    resize(&losses, rows);
}

/* Inlined, so that training and validation copy in the same function. */
static inline __attribute__((always_inline)) void
load(int step)
{
    int first = step % BATCHES * BATCH;
    if (first == 0)
        shuffle_order();
    rows = is("last-batch") && first + BATCH == SAMPLES ? 7 : BATCH;
    if (is("ragged"))
        resize_batch(step);
    if (order != NULL) {
        RUN(gather, BATCH * INPUTS)(x, labels, all_x, all_labels, order, counter, step);
    } else if (copies != NULL) {
        prefetch(step);
    } else if (is("managed")) {
        memcpy(x, host_x[first], BATCH * sizeof(host_x[0]));
        memcpy(labels, host_labels + first, BATCH * sizeof(int));
    } else {
        copy_rows(first);
    }
    if (counter != NULL)
        advance<<<1, 1>>>(counter);
    if (is("noise"))
        RUN(add_noise, BATCH * INPUTS)(x, states, BATCH * INPUTS);
}

/* ---- passes ---- */

static void
hidden(void)
{
    bool bends = !is("rnn") && !begins("batch-norm");
    if (begins("half"))
        RUN(dense, rows * HIDDEN)(h, x, half_w[0], half_w[1], rows, INPUTS, HIDDEN, HIDDEN, BENT);
    else
        RUN(dense, rows * HIDDEN)(h, x, w[0], w[1], rows, INPUTS, HIDDEN, HIDDEN, bends);
    if (is("rnn"))
        RUN(add_recurrent, rows * HIDDEN)(h, side, more, rows);
    if (is("dropout"))
        RUN(drop, rows * HIDDEN)(h, other, generators, rows * HIDDEN);
    if (!begins("batch-norm"))
        return;
    RUN(statistics, HIDDEN)(batch_statistics, side, h, rows);
    RUN(normalise_rows, rows * HIDDEN)(h, other, batch_statistics, more, rows);
}

static void
output(void)
{
    if (begins("half"))
        RUN(dense, rows * CLASSES)(y, h, half_w[2], half_w[3], rows, HIDDEN, CLASSES, CLASSES, STRAIGHT);
    else
        RUN(dense, rows * CLASSES)(y, h, w[2], w[3], rows, HIDDEN, CLASSES, CLASSES, STRAIGHT);
    if (is("device-weight"))
        RUN(add_device_bias, rows * CLASSES)(y, rows);
    if (is("dead-bias"))
        RUN(add_gate, rows * CLASSES)(y, more, rows);
}

/* The loss of host_y, which becomes delta. */
static float
host_softmax(int step)
{
    float sum_of_losses = 0;
    for (int row = 0; row < BATCH; ++row) {
        int label = host_labels[step % BATCHES * BATCH + row];
        float sum = 0;
        for (float value : host_y[row])
            sum += expf(value);
        sum_of_losses += logf(sum) - host_y[row][label];
        for (int k = 0; k < CLASSES; ++k)
            host_y[row][k] = (expf(host_y[row][k]) / sum - (k == label)) / BATCH;
    }
    return sum_of_losses / BATCH;
}

static void
judge(int step)
{
    if (is("host-softmax")) {
        CHECK(cudaMemcpy(host_y, y, sizeof(host_y), cudaMemcpyDeviceToHost));
        printf("step %d loss %.6f\n", step, host_softmax(step));
        CHECK(cudaMemcpy(delta, host_y, sizeof(host_y), cudaMemcpyHostToDevice));
        return;
    }
    if (is("target")) {
        RUN(dense, rows * HIDDEN)(below, x, state[0], state[1], rows, INPUTS, HIDDEN, HIDDEN, BENT);
        RUN(dense, rows * CLASSES)(other, below, state[2], state[3], rows, HIDDEN, CLASSES, CLASSES, STRAIGHT);
        RUN(bootstrap, rows)(delta, losses, y, other, labels, rows);
    } else {
        RUN(softmax, rows)(delta, losses, y, labels, rows, scale);
    }
    mean<<<1, 1>>>(loss, losses, rows);
}

static void
backward_below(void)
{
    if (begins("half"))
        RUN(delta_below, rows * HIDDEN)(below, delta, half_w[2], h, rows, HIDDEN, CLASSES, CLASSES);
    else
        RUN(delta_below, rows * HIDDEN)(below, delta, w[2], h, rows, HIDDEN, CLASSES, CLASSES);
    if (is("dropout"))
        RUN(multiply, rows * HIDDEN)(below, other, rows * HIDDEN);
    if (begins("batch-norm"))
        RUN(normalise_backward, HIDDEN)(below, of_more, other, batch_statistics, more, rows);
}

/* Rows of all matrices are columns to cuBLAS. */
static void
descend_by_gemm(float *weights, const float *from, const float *error, int in, int out)
{
    const float one = 1, minus = -rate;
    CHECK(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_T, out, in, rows, &minus, error, out, from, in, &one, weights, out));
}

/* The gradient of tensor t, or, where the habit has none, its update. */
static void
backward_tensor(int t)
{
    const struct {
        int in, out;        /* of its layer; a bias has one input, which is 1 */
        const float *from;  /* the layer's input; NULL: a bias */
        const float *error; /* of the layer's output */
    } tensors[TENSORS] = {
        {INPUTS, HIDDEN, x, below}, {1, HIDDEN, NULL, below}, {HIDDEN, CLASSES, h, delta}, {1, CLASSES, NULL, delta}};
    const int in = tensors[t].in, out = tensors[t].out;
    const float *from = tensors[t].from, *error = tensors[t].error;
    if (is("gemm-update"))
        descend_by_gemm(w[t], from != NULL ? from : side, error, in, out);
    else if (begins("half"))
        RUN(gradient, in * out)(half_g[t], from, error, rows, in, out);
    else if (!is("delta-rule"))
        RUN(gradient, in * out)(g[t], from, error, rows, in, out);
    else if (from != NULL)
        RUN(learn, (in + 1) * out)(w[t], w[t + 1], from, error, rate, in, out);
}

static void
update_tensor(int t)
{
    int count = counts[t];
    if (is("moments8"))
        RUN(momentum_in_bytes, count / BLOCK + 1)(w[t], moments[t], scales[t], g[t], 0.05f, count);
    else if (is("rmsprop"))
        RUN(rmsprop, count)(w[t], state[t], g[t], 0.005f, count);
    else if (is("two-optimizers") && t < 2)
        RUN(descend_with_momentum, count)(w[t], g[t], state[t], 0.8f, 0.05f, count);
    else if (begins("half"))
        RUN(sgd_half, count)(w[t], half_w[t], half_g[t], rate / scale, count);
    else if (!is("gemm-update") && !is("delta-rule"))
        RUN(descend, count)(w[t], g[t], rate, count);
    if (is("ema"))
        RUN(move_average, count)(state[t], w[t], 0.95f, count);
}

static void
backward(void)
{
    if (is("two-optimizers")) { /* the second layer has learnt before the first is asked */
        backward_tensor(2);
        backward_tensor(3);
        update_tensor(2);
        update_tensor(3);
        output();
        judge(0);
    }
    if (!updates_in_backward())
        backward_below();
    for (int t = is("two-optimizers") ? 1 : TENSORS - 1; t >= 0; --t) {
        if (is("allocated"))
            CHECK(cudaMalloc(&g[t], (size_t)counts[t] * sizeof(float)));
        if (is("one-buffer"))
            g[t] = g[0];
        if (updates_in_backward() && t == 1)
            backward_below();
        backward_tensor(t);
        if (updates_in_backward() || is("one-buffer"))
            update_tensor(t);
    }
    if (is("rnn")) {
        RUN(gradient, HIDDEN * HIDDEN)(of_more, side, below, rows, HIDDEN, HIDDEN);
        CHECK(cudaMemcpy(side, h, BATCH * HIDDEN * sizeof(float), cudaMemcpyDeviceToDevice));
    }
    if (is("dead-bias"))
        RUN(gradient_of_gate, CLASSES)(of_more, more, delta, rows);
}

static void
update(void)
{
    int more_count = is("rnn") ? HIDDEN * HIDDEN : begins("batch-norm") ? HIDDEN : CLASSES;
    CHECK(is("clip") ? cudaMemset(side, 0, sizeof(float)) : cudaSuccess);
    for (int t = 0; is("clip") && t < TENSORS; ++t)
        add_squares<<<1, 1>>>(side, g[t], counts[t]);
    for (int t = 0; is("clip") && t < TENSORS; ++t)
        RUN(scale_to_norm, counts[t])(g[t], side, 0.3f, counts[t]);
    CHECK(begins("half") ? cudaMemset(found, 0, sizeof(int)) : cudaSuccess);
    for (int t = 0; begins("half") && t < TENSORS; ++t)
        RUN(find_overflow, counts[t])(found, half_g[t], counts[t]);
    if (begins("half") && from_device(found) != 0) {
        ++oracle.misses;
        return;
    }
    for (int t = 0; t < TENSORS && !updates_in_backward() && !is("one-buffer"); ++t)
        if (!is("two-optimizers") || t < 2)
            update_tensor(t);
    for (int t = 0; t < TENSORS && is("allocated"); ++t)
        CHECK(cudaFree(g[t]));
    if (more != NULL)
        RUN(descend, more_count)(more, of_more, rate, more_count);
    if (is("device-weight"))
        RUN(learn_device_bias, CLASSES)(delta, rate, rows);
}

#endif
