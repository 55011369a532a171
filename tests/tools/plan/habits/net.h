/*
 * net.h - what updates.cu, data.cu and reads.cu share: a net of two layers with the kernels of its passes, its data,
 * and the table of habits. Written as public single-GPU programs are, without annotations.
 *
 *     updates HABIT [--steps N] [--save FILE] [--oracle RANKS | --oracle-gradients RANKS]
 */
#ifndef TESTS_TOOLS_PLAN_HABITS_NET_H
#define TESTS_TOOLS_PLAN_HABITS_NET_H

#include "oracle.h"
#include "tests/trainer_options.h"

#include <math.h>

enum { BATCH = 16, INPUTS = 48, HIDDEN = 40, CLASSES = 10, TENSORS = 4, BATCHES = 20, TEST = 64, BLOCK = 64 };
enum { SAMPLES = BATCHES * BATCH };

#define INDEX             ((int)(blockIdx.x * blockDim.x + threadIdx.x))
#define RUN(kernel, many) kernel<<<((many) + BLOCK - 1) / BLOCK, BLOCK>>>

static int steps = 60;
static float rate = 0.1f;

/* Weights and biases of the first layer, then of the second. */
static const char *const tensor_name[TENSORS] = {"w1", "b1", "w2", "b2"};
static const int tensor_count[TENSORS] = {INPUTS * HIDDEN, HIDDEN, HIDDEN *CLASSES, CLASSES};
static float *w[TENSORS], *g[TENSORS];
static float *x, *h, *y, *delta, *below, *losses, *loss;
static int *labels;
static float host_x[SAMPLES + TEST][INPUTS];
static int host_labels[SAMPLES + TEST];

/* ---- kernels ---- */

template <typename W>
__global__ void
dense(float *to, const float *from, const W *weights, const W *bias, int rows, int in, int out, bool bends)
{
    int row = INDEX / out, k = INDEX % out;
    if (row >= rows)
        return;
    float sum = bias != NULL ? (float)bias[k] : 0.0f;
    for (int i = 0; i < in; ++i)
        sum += from[row * in + i] * (float)weights[i * out + k];
    to[row * out + k] = bends ? tanhf(sum) : sum;
}

/* Cross-entropy of each row, and `scale` times its derivative by the row's logits. */
__global__ void
softmax(float *delta, float *losses, const float *y, const int *labels, int rows, float scale)
{
    int row = INDEX;
    if (row >= rows)
        return;
    float most = y[row * CLASSES], sum = 0;
    for (int k = 1; k < CLASSES; ++k)
        most = fmaxf(most, y[row * CLASSES + k]);
    for (int k = 0; k < CLASSES; ++k)
        sum += expf(y[row * CLASSES + k] - most);
    for (int k = 0; k < CLASSES; ++k)
        delta[row * CLASSES + k] = scale * (expf(y[row * CLASSES + k] - most) / sum - (k == labels[row])) / rows;
    losses[row] = logf(sum) + most - y[row * CLASSES + labels[row]];
}

__global__ void
mean(float *to, const float *from, int count)
{
    float sum = 0;
    for (int i = 0; i < count; ++i)
        sum += from[i];
    *to = sum / count;
}

template <typename W>
__global__ void
propagate(float *to, const float *delta, const W *weights, const float *value, int rows, int in, int out)
{
    int row = INDEX / in, i = INDEX % in;
    if (row >= rows)
        return;
    float sum = 0;
    for (int k = 0; k < out; ++k)
        sum += delta[row * out + k] * (float)weights[i * out + k];
    to[row * in + i] = sum * (1 - value[row * in + i] * value[row * in + i]);
}

/* Without `from`: of a bias. */
template <typename G>
__global__ void
gradient(G *to, const float *from, const float *delta, int rows, int in, int out)
{
    int i = INDEX / out, k = INDEX % out;
    if (i >= in)
        return;
    float sum = 0;
    for (int row = 0; row < rows; ++row)
        sum += (from != NULL ? from[row * in + i] : 1.0f) * delta[row * out + k];
    to[i * out + k] = (G)sum;
}

__global__ void
sgd(float *weights, const float *gradient, float rate, int count)
{
    if (INDEX < count)
        weights[INDEX] -= rate * gradient[INDEX];
}

/* ---- memory ---- */

static void *
allocate_by_itself(size_t bytes)
{
    void *memory;
    CHECK(cudaMalloc(&memory, bytes));
    return memory;
}

static void *(*allocate)(size_t bytes) = allocate_by_itself;

static float
random_number(void)
{
    static unsigned state = 1;
    state = state * 1664525u + 1013904223u;
    return (float)(state >> 8) / (1 << 24);
}

/* Random numbers of this spread around zero. */
static float *
floats(int count, float spread)
{
    std::vector<float> host((size_t)count);
    for (float &value : host)
        value = spread > 0 ? spread * (random_number() - 0.5f) : 0.0f;
    float *memory = (float *)allocate((size_t)count * sizeof(float));
    CHECK(cudaMemcpy(memory, host.data(), (size_t)count * sizeof(float), cudaMemcpyHostToDevice));
    return memory;
}

static void
create_activations(void)
{
    int rows = TEST; /* the largest batch */
    for (int i = 0; i < SAMPLES + TEST; ++i) {
        host_labels[i] = (int)(random_number() * CLASSES);
        for (int k = 0; k < INPUTS; ++k)
            host_x[i][k] = (k % CLASSES == host_labels[i] ? 0.6f : 0.0f) + random_number() - 0.5f;
    }
    x = floats(rows * INPUTS, 0);
    h = floats(rows * HIDDEN, 0);
    y = floats(rows * CLASSES, 0);
    delta = floats(rows * CLASSES, 0);
    below = floats(rows * HIDDEN, 0);
    losses = floats(rows, 0);
    loss = floats(1, 0);
    labels = (int *)allocate((size_t)rows * sizeof(int));
}

/* `has_gradients`: the program has all gradients in front of its update, and asks update_due(). */
static void
create_net(bool has_gradients)
{
    create_activations();
    for (int t = 0; t < TENSORS; ++t) {
        w[t] = floats(tensor_count[t], 0.4f);
        keep(tensor_name[t], w[t], tensor_count[t]);
        if (!has_gradients)
            continue;
        g[t] = floats(tensor_count[t], 0);
        keep("gradient", g[t], tensor_count[t], GRADIENT);
    }
}

/* ---- passes ---- */

static void
load_rows(int first, int rows)
{
    CHECK(cudaMemcpy(x, host_x[first], (size_t)rows * sizeof(host_x[0]), cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(labels, host_labels + first, (size_t)rows * sizeof(int), cudaMemcpyHostToDevice));
}

static void
load(int step)
{
    load_rows(step % BATCHES * BATCH, BATCH);
}

static void
hidden(int rows)
{
    RUN(dense, rows * HIDDEN)(h, x, w[0], w[1], rows, INPUTS, HIDDEN, true);
}

static void
output(int rows)
{
    RUN(dense, rows * CLASSES)(y, h, w[2], w[3], rows, HIDDEN, CLASSES, false);
    RUN(softmax, rows)(delta, losses, y, labels, rows, 1.0f);
    mean<<<1, 1>>>(loss, losses, rows);
}

static void
forward(int rows)
{
    hidden(rows);
    output(rows);
}

/* The gradient of tensor t. */
static void
backward_tensor(float *to, int t, int rows)
{
    int in = t == 0 ? INPUTS : t == 2 ? HIDDEN : 1, out = t < 2 ? HIDDEN : CLASSES;
    RUN(gradient, in * out)(to, t == 0 ? x : t == 2 ? h : NULL, t < 2 ? below : delta, rows, in, out);
}

static void
backward_below(int rows)
{
    RUN(propagate, rows * HIDDEN)(below, delta, w[2], h, rows, HIDDEN, CLASSES);
}

static void
backward(int rows)
{
    backward_below(rows);
    for (int t = TENSORS - 1; t >= 0; --t)
        backward_tensor(g[t], t, rows);
}

static void
sgd_tensor(int t, const float *gradient)
{
    RUN(sgd, tensor_count[t])(w[t], gradient, rate, tensor_count[t]);
}

static void
update(void)
{
    if (update_due())
        for (int t = 0; t < TENSORS; ++t)
            sgd_tensor(t, g[t]);
}

static float
read_loss(void)
{
    float value;
    CHECK(cudaMemcpy(&value, loss, sizeof(value), cudaMemcpyDeviceToHost));
    return value;
}

static void
print_loss(int step, float value)
{
    printf("step %d loss %.6f\n", step, value);
}

/* Loss and hits of what the training has not seen. */
static void
validate(void)
{
    static float host_y[TEST][CLASSES];
    int hits = 0;
    load_rows(SAMPLES, TEST);
    forward(TEST);
    CHECK(cudaMemcpy(host_y, y, sizeof(host_y), cudaMemcpyDeviceToHost));
    for (int row = 0; row < TEST; ++row) {
        int best = 0;
        for (int k = 1; k < CLASSES; ++k)
            best = host_y[row][k] > host_y[row][best] ? k : best;
        hits += best == host_labels[SAMPLES + row];
    }
    printf("validation loss %.6f hits %d of %d\n", read_loss(), hits, TEST);
}

/* ---- the program ---- */

struct habit {
    const char *name;
    void (*train)(void);
};

template <size_t N>
static int
run_habit(const struct habit (&habits)[N], int argc, char **argv)
{
    const char *path = NULL;
    int by_gradients = 0;
    take_options(
        argc, argv, 2,
        {{"--steps", &steps}, {"--save", &path}, {"--oracle", &oracle.ranks}, {"--oracle-gradients", &by_gradients}});
    oracle.by_gradients = by_gradients > 0;
    oracle.ranks = by_gradients > 0 ? by_gradients : oracle.ranks;
    for (const struct habit &habit : habits)
        if (argc > 1 && strcmp(habit.name, argv[1]) == 0) {
            habit.train();
            save(path);
            return 0;
        }
    for (const struct habit &habit : habits)
        printf("%s\n", habit.name);
    return 2;
}

#endif
