/*
 * public.h - what public_nets.cu, public_updates.cu and public_memory.cu share: a net of two layers with the kernels of
 * its forward and backward pass, data that can be learnt, and the memory of both. For these programs only, each of
 * which is one file of CUDA.
 */
#ifndef DDPRUN_TESTS_TOOLS_SCOUT_PUBLIC_H
#define DDPRUN_TESTS_TOOLS_SCOUT_PUBLIC_H

#include "tests/tools/frame.h"
#include "tests/tools/scout/layers.h"

#include <utility>

enum { BATCH = 16, INPUTS = 24, HIDDEN = 32, OUTPUTS = 8, TENSORS = 4, STEPS = 48, BLOCK = 64, RESIDENT = 12 };

#define RUN(kernel, many) kernel<<<((many) + BLOCK - 1) / BLOCK, BLOCK>>>

static const float rate = 0.05f;

/* Weights and biases of the first layer, then of the second. */
static const int tensor_count[TENSORS] = {INPUTS * HIDDEN, HIDDEN, HIDDEN *OUTPUTS, OUTPUTS};
static float *w[TENSORS], *g[TENSORS], *const no_bias = NULL;
static float *x, *wanted, *h, *y, *delta, *below; /* of the batch, as all activations */

ELEMENTWISE(square_delta, (float *to, const float *from, const float *target, int count), count,
            to[i] = from[i] - target[i])

/* A weight and its gradient, both annotated. */
static void
create_pair(float **weights, float **gradient, int count)
{
    *weights = floats(count, 0.5f);
    *gradient = floats(count, 0);
    DDP_PARAMETER(*weights, count, DDP_FLOAT32);
    DDP_GRADIENT(*gradient, count, DDP_FLOAT32);
}

static void
create_activations(void)
{
    x = floats(BATCH * INPUTS, 0);
    wanted = floats(BATCH * OUTPUTS, 0);
    h = floats(BATCH * HIDDEN, 0);
    y = floats(BATCH * OUTPUTS, 0);
    delta = floats(BATCH * OUTPUTS, 0);
    below = floats(BATCH * HIDDEN, 0);
}

static void
create_net(void)
{
    create_activations();
    for (int t = 0; t < TENSORS; ++t)
        create_pair(&w[t], &g[t], tensor_count[t]);
}

static void
draw_batch(float *to_x, float *to_wanted)
{
    for (int row = 0; row < BATCH; ++row) {
        int kind = (int)(random_number() * OUTPUTS);
        for (int i = 0; i < INPUTS; ++i)
            to_x[row * INPUTS + i] = (i % OUTPUTS == kind ? 1.0f : 0.0f) + 0.3f * random_number();
        for (int k = 0; k < OUTPUTS; ++k)
            to_wanted[row * OUTPUTS + k] = k == kind ? 1.0f : 0.0f;
    }
}

/* The first rows of a batch. */
static void
load_rows(int rows)
{
    static float host_x[BATCH * INPUTS], host_wanted[BATCH * OUTPUTS];
    draw_batch(host_x, host_wanted);
    CHECK(cudaMemcpy(x, host_x, (size_t)rows * INPUTS * sizeof(float), cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(wanted, host_wanted, (size_t)rows * OUTPUTS * sizeof(float), cudaMemcpyHostToDevice));
}

static void
load(void)
{
    load_rows(BATCH);
}

static void
forward_rows(int rows)
{
    RUN(dense, rows * HIDDEN)(h, x, w[0], w[1], rows, INPUTS, HIDDEN, HIDDEN, BENT);
    RUN(dense, rows * OUTPUTS)(y, h, w[2], w[3], rows, HIDDEN, OUTPUTS, OUTPUTS, STRAIGHT);
}

static void
forward(void)
{
    forward_rows(BATCH);
}

/* What the gradient of tensor t is computed from: a bias has no input. */
static void
compute_gradient(float *to, int t, int rows, bool adds)
{
    int in = t == 0 ? INPUTS : t == 2 ? HIDDEN : 1, out = t < 2 ? HIDDEN : OUTPUTS;
    RUN(gradient_of, in * out)
    (to, t == 0 ? x : t == 2 ? h : NULL, t < 2 ? below : delta, rows, in, out, out, adds);
}

static void
compute_gradients(int rows, bool adds)
{
    for (int t = 0; t < TENSORS; ++t)
        compute_gradient(g[t], t, rows, adds);
}

static void
compute_deltas(int rows)
{
    RUN(square_delta, rows * OUTPUTS)(delta, y, wanted, rows * OUTPUTS);
    RUN(delta_below, rows * HIDDEN)(below, delta, w[2], h, rows, HIDDEN, OUTPUTS, OUTPUTS);
}

static void
backward(bool adds)
{
    compute_deltas(BATCH);
    compute_gradients(BATCH, adds);
}

static void
descend_all(void)
{
    for (int t = 0; t < TENSORS; ++t)
        RUN(descend, tensor_count[t])(w[t], g[t], rate, tensor_count[t]);
}

/* A step on the `rows` items that x and wanted have. */
static void
train_on_rows(int rows)
{
    forward_rows(rows);
    compute_deltas(rows);
    compute_gradients(rows, false);
    DDP_STEP(0);
    descend_all();
}

static void
train_on_batch(void)
{
    train_on_rows(BATCH);
}

/* ---- data that lie on the device ---- */

static float *all_x, *all_wanted;

static void
upload_resident(void)
{
    static float host_x[RESIDENT][BATCH * INPUTS], host_wanted[RESIDENT][BATCH * OUTPUTS];
    for (int i = 0; i < RESIDENT; ++i)
        draw_batch(host_x[i], host_wanted[i]);
    all_x = floats(RESIDENT * BATCH * INPUTS, 0);
    all_wanted = floats(RESIDENT * BATCH * OUTPUTS, 0);
    CHECK(cudaMemcpy(all_x, host_x, sizeof(host_x), cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(all_wanted, host_wanted, sizeof(host_wanted), cudaMemcpyHostToDevice));
}

ELEMENTWISE(take_batch, (float *to, const float *all, int number, int count), count, to[i] = all[number * count + i])

/* Brings batch `number` to x and wanted, by a kernel. */
static void
take_resident(int number)
{
    RUN(take_batch, BATCH * INPUTS)(x, all_x, number, BATCH * INPUTS);
    RUN(take_batch, BATCH * OUTPUTS)(wanted, all_wanted, number, BATCH * OUTPUTS);
}

/* ---- habits ---- */

/* HABIT(name, function) { ... } is one; the command line names it. */
struct habit {
    const char *name;
    void (*train)(void);
    const habit *next;
    habit(const char *of, void (*by)(void));
};
static const habit *habits;

inline habit::habit(const char *of, void (*by)(void)) : name(of), train(by), next(habits)
{
    habits = this;
}

#define HABIT(name, function)                            \
    static void function(void);                          \
    static const habit habit_##function(name, function); \
    static void function(void)

static inline int
run_habit(const char *name)
{
    for (const habit *one = habits; one != NULL; one = one->next)
        if (strcmp(one->name, name) == 0) {
            one->train();
            CHECK(cudaDeviceSynchronize());
            return 0;
        }
    fprintf(stderr, "name one of the habits that the head of the file lists\n");
    return 2;
}

#endif
