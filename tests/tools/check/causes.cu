/*
 * causes.cu - a small trainer of four tensors, whose mistakes are of one kind each: between DDP_STEP and the update, in
 * the update, in what is annotated, in what is finite. causes.sh fixes what `ddprun check` says of each.
 *
 * Without --mistake it is correct, and its options are right neighbours of the mistakes.
 */
#include "tests/trainer.h"

#include <ddprun.h>

#include <cuda_runtime.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TENSORS = 4, BATCH = 24, MOST = 96, BIAS = TENSORS - 1 };

static struct {
    int steps;
    float rate;
    bool adam, scaled, groups, idle_group, twice, overflow, waits, head;
    const char *mistake, *kind;
} options = {.steps = 20,
             .rate = 0.1f,
             .adam = false,
             .scaled = false,
             .groups = false,
             .idle_group = false,
             .twice = false,
             .overflow = false,
             .waits = false,
             .head = false,
             .mistake = "",
             .kind = "device"};

static struct tensor {
    int count;
    float *value, *gradient, *m, *v;
} tensors[TENSORS] = {{64, NULL, NULL, NULL, NULL},
                      {96, NULL, NULL, NULL, NULL},
                      {80, NULL, NULL, NULL, NULL},
                      {10, NULL, NULL, NULL, NULL}};

static bool
mistake(const char *name)
{
    return strcmp(options.mistake, name) == 0;
}

/* ---- kernels ---- */

/* The mean over `count` items of w - x, `scale` times. */
static __global__ void
backward(float *g, const float *w, const float *x, int count, float scale)
{
    int i = threadIdx.x;
    float sum = 0;
    for (int k = 0; k < count; ++k)
        sum += w[i] - x[k * MOST + i];
    g[i] = scale * sum / (float)count;
}

static __global__ void
multiply(float *g, float factor)
{
    g[threadIdx.x] *= factor;
}

static __global__ void
sgd(float *w, const float *g, float rate)
{
    w[threadIdx.x] -= rate * g[threadIdx.x];
}

static __global__ void
adam(float *w, const float *g, float *m, float *v, float rate, float correction)
{
    int i = threadIdx.x;
    m[i] = 0.9f * m[i] + 0.1f * g[i];
    v[i] = 0.99f * v[i] + 0.01f * g[i] * g[i];
    w[i] -= rate * m[i] / (sqrtf(v[i] * correction) + 1e-12f);
}

/* ---- memory ---- */

static float *
floats(const char *kind, int count)
{
    float *memory;
    size_t bytes = (size_t)count * sizeof(float);
    if (strcmp(kind, "managed") == 0)
        CHECK(cudaMallocManaged((void **)&memory, bytes));
    else if (strcmp(kind, "host") == 0)
        CHECK(cudaMallocHost((void **)&memory, bytes));
    else
        CHECK(cudaMalloc((void **)&memory, bytes));
    CHECK(cudaMemset(memory, 0, bytes));
    return memory;
}

static void
allocate(struct tensor *t, int number)
{
    const char *kind = number == BIAS ? options.kind : "device";
    float host[MOST];
    t->value = floats(kind, t->count);
    t->gradient = floats(kind, t->count);
    t->m = floats(kind, t->count);
    t->v = floats(kind, t->count);
    for (int i = 0; i < t->count; ++i)
        host[i] = 0.3f + 0.5f * (float)((i * 37 + number * 11) % 64) / 64;
    CHECK(cudaMemcpy(t->value, host, (size_t)t->count * sizeof(float), cudaMemcpyDefault));
}

static void
annotate(void)
{
    for (int i = 0; i < TENSORS; ++i) {
        /* Mistakes: one tensor is annotated neither as a parameter nor by its gradient; of another, or of all, half of
         * the gradient. */
        if (mistake("forgotten") && i == BIAS)
            continue;
        bool half = mistake("half_gradients") || (mistake("half_gradient") && i == 1);
        DDP_GRADIENT_GROUP(options.groups && i >= 2 ? 1 : 0);
        DDP_PARAMETER(tensors[i].value, tensors[i].count, DDP_FLOAT32);
        DDP_GRADIENT(tensors[i].gradient, half ? tensors[i].count / 2 : tensors[i].count, DDP_FLOAT32);
    }
    if (options.idle_group) { /* nothing is ever made of these gradients */
        DDP_GRADIENT_GROUP(2);
        DDP_GRADIENT(floats("device", 16), 16, DDP_FLOAT32);
    }
}

/* Mistake: a layer grows, and gets memory of its own, which is not annotated. */
static void
reallocate(struct tensor *t)
{
    struct tensor old = *t;
    size_t bytes = (size_t)t->count * sizeof(float);
    allocate(t, 0);
    CHECK(cudaMemcpy(t->value, old.value, bytes, cudaMemcpyDeviceToDevice));
    if (mistake("reallocated_and_freed")) {
        CHECK(cudaFree(old.value));
        CHECK(cudaFree(old.gradient));
    }
}

/* ---- the training ---- */

static float
rate_of(void)
{
    float ranks = (float)DDP_WORLD_SIZE(), rate = options.rate;
    if (mistake("rate_times_n"))
        rate *= ranks;
    if (mistake("rate_by_n"))
        rate /= ranks;
    if (mistake("rate_on_rank_1") && DDP_RANK() == 1)
        rate *= 2;
    return options.scaled ? rate / 8 : rate;
}

static void
compute(int step, const float *x, int count)
{
    float scale = options.scaled ? 8 : 1;
    if (options.overflow && step % 5 == 3)
        scale = INFINITY;
    if (mistake("nan_everywhere") && step >= 2)
        scale = NAN;
    if (mistake("nan_on_ranks") && step >= 2 && DDP_WORLD_SIZE() > 1)
        scale = NAN;
    for (const struct tensor &t : tensors)
        backward<<<1, t.count>>>(t.gradient, t.value, x, count, scale);
    for (int i = 0; options.waits && step < 3 && i < TENSORS; ++i) /* right: the first steps have no gradients */
        CHECK(cudaMemset(tensors[i].gradient, 0, (size_t)tensors[i].count * sizeof(float)));
    /* As with a head that begins with zeros, all gradients but the head's are zero in the first step. */
    for (int i = 0; options.head && step == 0 && i < BIAS; ++i)
        multiply<<<1, tensors[i].count>>>(tensors[i].gradient, 0);
    if (mistake("nan_and_infinity") && step >= 2) /* which of the two depends on the number of ranks */
        multiply<<<1, 1>>>(tensors[1].gradient, DDP_WORLD_SIZE() > 1 ? NAN : INFINITY);
}

static void
update(int step, float correction)
{
    for (int i = 0; i < TENSORS; ++i) {
        const struct tensor &t = tensors[i];
        /* Mistakes: the mean is divided by the number of ranks once more, of all gradients, of one, or on one rank. */
        bool divides = mistake("divided_behind_step") || (mistake("one_divided_behind_step") && i == 1) ||
                       (mistake("divided_behind_step_on_rank_1") && DDP_RANK() == 1);
        if (divides)
            multiply<<<1, t.count>>>(t.gradient, 1 / (float)DDP_WORLD_SIZE());
        else if (options.scaled) /* right: all gradients are unscaled behind DDP_STEP */
            multiply<<<1, t.count>>>(t.gradient, 1);
        if (options.adam)
            adam<<<1, t.count>>>(t.value, t.gradient, t.m, t.v, rate_of(), 1 / (1 - correction));
        else if (!(options.overflow && step % 5 == 3)) /* as a loss scaler leaves steps out */
            sgd<<<1, t.count>>>(t.value, t.gradient, rate_of());
    }
}

static void
train(float *x)
{
    static float host[BATCH * MOST];
    size_t first, count;
    DDP_SHARD(BATCH, &first, &count);
    float correction = 1;
    for (int step = 0; step < options.steps; ++step) {
        for (int k = 0; k < BATCH * MOST; ++k)
            host[k] = (float)((k * 7919 + step * 104729) % 101) / 101.0f;
        CHECK(cudaMemcpy(x, host + first * MOST, count * MOST * sizeof(float), cudaMemcpyHostToDevice));
        /* Mistake: one rank stops early. */
        if (mistake("stops_on_rank_1") && DDP_RANK() == 1 && step == 12)
            break;
        if (step == 12 && (mistake("reallocated") || mistake("reallocated_and_freed")))
            reallocate(&tensors[1]);
        compute(step, x, (int)count);
        /* Mistake: a branch that logs leaves DDP_STEP out. */
        if (!(mistake("left_out") && step % 7 == 6))
            DDP_STEP(0);
        if (options.groups && !mistake("group_unstepped"))
            DDP_STEP_GROUP(1, 0);
        correction *= 0.99f;
        update(step, correction);
        /* Mistake: another update, of this rank's own gradients, follows each. */
        if (mistake("two_updates") || (mistake("two_updates_once") && step == 5)) {
            compute(step, x, (int)count);
            update(step, correction);
        }
        if (options.twice) { /* right: another update with the same mean */
            update(step, correction);
        }
        CHECK(cudaDeviceSynchronize());
    }
}

static void
take_options(int argc, char **argv)
{
    for (int i = 1; i < argc; ++i) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(argv[i], "--adam") == 0)
            options.adam = true;
        else if (strcmp(argv[i], "--scaled") == 0)
            options.scaled = true;
        else if (strcmp(argv[i], "--groups") == 0)
            options.groups = true;
        else if (strcmp(argv[i], "--idle-group") == 0)
            options.idle_group = true;
        else if (strcmp(argv[i], "--twice") == 0)
            options.twice = true;
        else if (strcmp(argv[i], "--overflow") == 0)
            options.overflow = true;
        else if (strcmp(argv[i], "--waits") == 0)
            options.waits = true;
        else if (strcmp(argv[i], "--head") == 0)
            options.head = true;
        else if (strcmp(argv[i], "--kind") == 0 && ++i)
            options.kind = value;
        else if (strcmp(argv[i], "--rate") == 0 && ++i)
            options.rate = (float)atof(value);
        else if (strcmp(argv[i], "--steps") == 0 && ++i)
            options.steps = atoi(value);
        else if (strcmp(argv[i], "--mistake") == 0 && ++i)
            options.mistake = value;
        else
            exit(2);
    }
}

int
main(int argc, char **argv)
{
    take_options(argc, argv);
    for (int i = 0; i < TENSORS; ++i)
        allocate(&tensors[i], i);
    annotate();
    train(floats("device", BATCH * MOST));
    CHECK(cudaDeviceSynchronize());
    return 0;
}
