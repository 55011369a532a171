/*
 * habits.cu HABIT - a net of two layers that is trained without annotations, as a public single-GPU program would do
 * that has this habit. Without a word it prints all of them.
 *
 *     habits HABIT [options of program.h]
 */
#include "kernels.h"
#include "tests/tools/plan/program.h"

#include <cublas_v2.h>

static const char *const habits[] = {
    /* The first thirteen have no place where all gradients could be averaged: their oracle is always by state. */
    "in-backward",      "item-losses",    "two-optimizers", "allocated",    "one-buffer",
    "gemm-update",      "delta-rule",     "device-weight",  "counts",       "counts-late",
    "ends-reset-state", "ends-free",      "ends-tail",      "clip",         "ema",
    "rmsprop",          "moments8",       "half",           "half-scaling", "dead-bias",
    "target",           "batch-norm",     "dropout",        "noise",        "rnn",
    "counter",          "shuffle-device", "shuffle-host",   "prefetch",     "copy-stream",
    "last-batch",       "host-softmax",   "host-loss",      "sums",         "history",
    "late-loss",        "plateau",        "batch-hits",     "validation",   "test-pass",
    "checkpoint",       "leak",           "arena",          "managed",      "ring",
    "sums-loss",        "sums-hits",      "sums-worst",     "early-first",  "least-loss",
    "early-shown",      "ends-reset",     "ragged",         "item-hits"};
enum { FUSED = 13, TENSORS = 4, SAMPLES = BATCHES * BATCH, TEST = 3 * BATCH, RING = 4 };

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
static float *more, *of_more, *side, *other, *next_x, *all_x, *pinned_x;
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
    return is("in-backward") || is("item-losses") || is("ends-reset-state") || is("ends-free") || is("ends-tail");
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
    if (is("batch-norm"))
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
    if (is("batch-norm"))
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
    bool bends = !is("rnn") && !is("batch-norm");
    if (begins("half"))
        RUN(dense, rows * HIDDEN)(h, x, half_w[0], half_w[1], rows, INPUTS, HIDDEN, HIDDEN, BENT);
    else
        RUN(dense, rows * HIDDEN)(h, x, w[0], w[1], rows, INPUTS, HIDDEN, HIDDEN, bends);
    if (is("rnn"))
        RUN(add_recurrent, rows * HIDDEN)(h, side, more, rows);
    if (is("dropout"))
        RUN(drop, rows * HIDDEN)(h, other, generators, rows * HIDDEN);
    if (!is("batch-norm"))
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
    if (is("batch-norm"))
        RUN(normalise_backward, HIDDEN)(below, of_more, other, batch_statistics, more, rows);
}

/* Rows of all matrices are columns to cuBLAS. */
static void
descend_by_gemm(float *weights, const float *from, const float *error, int in, int out)
{
    const float one = 1, minus = -rate;
    CHECK(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_T, out, in, rows, &minus, error, out, from, in, &one, weights, out));
}

static void
backward_tensor(int t)
{
    int in = t == 0 ? INPUTS : t == 2 ? HIDDEN : 1, out = t < 2 ? HIDDEN : CLASSES;
    const float *from = t == 0 ? x : t == 2 ? h : NULL, *error = t < 2 ? below : delta;
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
    int more_count = is("rnn") ? HIDDEN * HIDDEN : is("batch-norm") ? HIDDEN : CLASSES;
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

/* ---- what the host reads ---- */

/* Sums of an epoch on the device. */
static void
add_and_print(int step)
{
    if (is("sums-worst")) /* the first steps alone have one that is worse than all before */
        find_worst<<<1, 1>>>(side, losses, rows);
    else
        add_up<<<1, 1>>>(is("sums-hits") ? NULL : side, is("sums-loss") ? NULL : found, losses, y, labels, rows);
    if (step % BATCHES != BATCHES - 1)
        return;
    if (!is("sums-hits"))
        printf("epoch %d loss %.6f\n", step / BATCHES, from_device(side) / (is("sums-worst") ? 1 : SAMPLES));
    if (!is("sums-loss") && !is("sums-worst"))
        printf("epoch %d hits %d of %d\n", step / BATCHES, from_device(found), SAMPLES);
    if (!is("sums-worst"))
        CHECK(cudaMemset(side, 0, sizeof(float)));
    CHECK(cudaMemset(found, 0, sizeof(int)));
}

/* The rate falls where four losses in a row are no better than the best. */
static void
slow_down(float value)
{
    static float best = 1e9f;
    static int bad;
    bad = value < best ? 0 : bad + 1;
    best = fminf(best, value);
    rate *= bad == 4 ? 0.9f : 1.0f;
    bad %= 4;
}

/* The scale grows after 20 steps without an overflow. */
static void
scale_loss(void)
{
    static int good;
    bool overflows = from_device(found) != 0;
    good = overflows ? 0 : good + 1;
    scale *= overflows ? 0.25f : good % 20 == 0 ? 4.0f : 1.0f;
}

static void
print_figures(int step)
{
    float value;
    if (is("history"))
        note<<<1, 1>>>(other, loss, step);
    if (is("ring"))
        note<<<1, 1>>>(side, loss, step % RING);
    if (begins("sums"))
        add_and_print(step);
    if (is_early()) /* only the first steps change it */
        find_worst<<<1, 1>>>(side, losses, !is("least-loss") && step > 1 ? 0 : rows);
    if (is("early-shown"))
        printf("step %d side %.6f\n", step, from_device(side));
    if (is("history") || is("ring") || begins("sums") || is_early() || is("host-softmax") || is("late-loss"))
        return;
    if (is("managed"))
        CHECK(cudaDeviceSynchronize());
    if (is("host-loss"))
        CHECK(cudaMemcpy(host_y, y, sizeof(host_y), cudaMemcpyDeviceToHost));
    if (is("item-losses")) /* as many bytes as labels come */
        CHECK(cudaMemcpy(host_y, losses, BATCH * sizeof(float), cudaMemcpyDeviceToHost));
    value = is("item-losses") ? host_y[0][0]
            : is("host-loss") ? host_softmax(step)
            : is("managed")   ? *loss
                              : from_device(loss);
    printf("step %d loss %.6f rate %g scale %g\n", step, value, rate, scale);
    if (is("plateau"))
        slow_down(value);
    if (is("half-scaling"))
        scale_loss();
}

/* Weights go to the host; how large they are is printed. */
static void
checkpoint(void)
{
    static float host[INPUTS * HIDDEN];
    double sum = 0;
    CHECK(cudaMemcpy(host, w[0], sizeof(host), cudaMemcpyDeviceToHost));
    for (float value : host)
        sum += fabs(value);
    printf("checkpoint weights %.6f\n", sum);
}

/* ---- the program ---- */

/* The hits of the batch that has just been computed. */
static int
hits(int first)
{
    int sum = 0;
    CHECK(cudaMemcpy(host_y, y, sizeof(host_y), cudaMemcpyDeviceToHost));
    for (int row = 0; row < BATCH; ++row) {
        int best = 0;
        for (int k = 1; k < CLASSES; ++k)
            best = host_y[row][k] > host_y[row][best] ? k : best;
        sum += best == host_labels[first + row];
    }
    return sum;
}

static void
train(void)
{
    for (int step = 0; turn(step, steps); ++step) {
        if (is("late-loss") && step > 0)
            printf("step %d loss %.6f\n", step - 1, from_device(loss));
        if (is("leak"))
            y = zeros<float>(BATCH * CLASSES);
        load(step);
        hidden();
        output();
        if (is("ends-free") && step == steps - 2)
            return;
        judge(step);
        if (is("item-hits")) /* which nothing reads */
            RUN(note_hits, rows)(found, y, labels, rows);
        backward();
        if (update_due())
            update();
        print_figures(step);
        if (is("ends-tail")) { /* a prediction by the new weights */
            copy_rows(step % BATCHES * BATCH);
            hidden();
            output();
        }
        if (begins("sums") && step % BATCHES == BATCHES - 1)
            border();
        if (is("target") && step % 50 == 49) {
            border();
            for (int t = 0; t < TENSORS; ++t)
                CHECK(cudaMemcpy(state[t], w[t], counts[t] * sizeof(float), cudaMemcpyDeviceToDevice));
        }
        if (is("checkpoint") && step % 25 == 24) {
            border();
            checkpoint();
        }
        if (is("batch-hits") && step % 16 == 14) {
            CHECK(cudaMemset(other, 0, sizeof(float)));
            CHECK(cudaMemset(found, 0, sizeof(int)));
            RUN(add_up, 1)(other, found, losses, y, labels, rows);
            printf("step %d losses %.6f hits %d\n", step, from_device(other), from_device(found));
        }
        if ((is("validation") && step % 16 == 14) || (is("test-pass") && step == steps - 1)) {
            int sum = 0;
            border();
            for (int first = SAMPLES; first < SAMPLES + TEST; first += BATCH) {
                copy_rows(first);
                hidden();
                output();
                sum += hits(first);
            }
            printf("validation hits %d of %d\n", sum, TEST);
        }
    }
    if (is_early())
        printf("side %.6f\n", from_device(side));
    for (int step = 0; step < RING && is("ring"); ++step)
        printf("ring %d loss %.6f\n", step, from_device(side + step));
    for (int step = 0; step < steps && is("history"); ++step)
        printf("step %d loss %.6f\n", step, from_device(other + step));
}

/* Another net: its weights stand in a struct, behind a count of hits, which depends on data and on weights, and a count
 * of steps. "counts-late": no batch has a hit before the 40th. */
static void
train_counts(void)
{
    struct counted *net = zeros<struct counted>(1), last;
    float *batch = zeros<float>(COUNTED * COUNTED), *gradient = zeros<float>(COUNTED), host[COUNTED * COUNTED];
    keep("weights", (float *)((char *)net + offsetof(struct counted, weights)), COUNTED);
    for (int step = 0; turn(step, steps); ++step) {
        for (float &value : host)
            value = random_number() - (is("counts-late") && step < 40 ? 1.0f : 0.5f);
        CHECK(cudaMemcpy(batch, host, sizeof(host), cudaMemcpyHostToDevice));
        RUN(counted_gradient, COUNTED)(gradient, batch, net);
        RUN(counted_update, COUNTED)(net, gradient);
    }
    border();
    last = from_device(net);
    printf("hits %d steps %d weight %.6f\n", last.hits, last.steps, last.weights[5]);
}

/* The program gives back what it has, in the middle of a round: all of it, and saves nothing; or its first weights, in
 * the middle of a batch, and saves the others. */
static int
end_early(void)
{
    puts("end");
    if (!is("ends-free")) {
        CHECK(cudaDeviceReset());
        return fclose(fopen(path, "w"));
    }
    CHECK(cudaFree(w[0]));
    oracle.arrays.erase(oracle.arrays.begin());
    oracle.open = false; /* of this batch nothing counts */
    save(path);
    return 0;
}

int
main(int argc, char **argv)
{
    program_take(argc, argv, habits);
    for (int i = 0; i < FUSED; ++i)
        oracle.by_gradients = oracle.by_gradients && !is(habits[i]);
    if (begins("counts")) {
        train_counts();
        save(path);
        return 0;
    }
    create();
    if (is("device-weight") && oracle.ranks > 0)
        keep_device_bias();
    train();
    if (is("device-weight") && oracle.ranks == 0)
        keep_device_bias();
    if (begins("ends") && !is("ends-tail"))
        return end_early();
    save(path);
    return 0;
}
