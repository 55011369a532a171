/*
 * forgotten.cu - programs that train a tensor which is annotated as nothing, because it was forgotten or has moved, and
 * programs that look alike and are right. `forgotten MODE [STEPS]`: the table below has the modes. Four weights with
 * their gradients go towards a rank's own targets; gradients are the mean of what ranks want.
 */
#include "common.h"

#include <cublas_v2.h>

enum { TENSORS = 4, MOVED_AT = 12, AFTER = -1, THREADS = 32, ARENA = 1 << 20 };
enum update { SGD, CLEARS, MOMENTUM, ADAM, IN_STRUCT, SAXPY, AXPY };
enum memory { OWN, IN_ARENA, ASYNC };
enum { NONE = 0, ONE = 2, SMALL = 8, ALL = 15 };

static const size_t sizes[TENSORS] = {4096, 1000, 512, 10};

static const struct mode {
    const char *name;
    enum update update;
    enum memory memory;
    unsigned forgotten;            /* mask: never annotated */
    unsigned weights, gradients;   /* masks: they move at MOVED_AT, and nothing is annotated again */
    bool frees, again, weight_too; /* the old memory is freed; all is annotated again; only the weight is annotated */
    const char *habit;             /* what else the program does */
} modes[] = {
    /* wrong */
    {"moved", SGD, OWN, NONE, ALL, ALL},
    {"moved-one", SGD, OWN, NONE, ONE, ONE},
    {"moved-small", SGD, OWN, NONE, SMALL, SMALL},
    {"moved-freed", SGD, OWN, NONE, ONE, ONE, true},
    {"moved-weights", SGD, OWN, NONE, ONE, NONE},
    {"moved-weights-freed", SGD, OWN, NONE, ONE, NONE, true},
    {"moved-gradients", SGD, OWN, NONE, NONE, ONE},
    {"moved-adam", ADAM, OWN, NONE, ONE, ONE},
    {"moved-in-arena", SGD, IN_ARENA, NONE, ONE, ONE},
    {"moved-async", CLEARS, ASYNC, NONE, ONE, ONE},
    {"forgotten", SGD, OWN, ONE, NONE, NONE},
    {"forgotten-small", SGD, OWN, SMALL, NONE, NONE},
    {"forgotten-clears", CLEARS, OWN, ONE, NONE, NONE},
    {"forgotten-momentum", MOMENTUM, OWN, ONE, NONE, NONE},
    {"forgotten-adam", ADAM, OWN, ONE, NONE, NONE},
    {"forgotten-struct", IN_STRUCT, OWN, ONE, NONE, NONE},
    {"forgotten-saxpy", SAXPY, OWN, ONE, NONE, NONE},
    {"forgotten-axpy", AXPY, OWN, ONE, NONE, NONE},
    {"forgotten-in-arena", ADAM, IN_ARENA, ONE, NONE, NONE},
    {"second", SGD, OWN, NONE, ALL, ALL, false, false, false, "second"},
    {"forgotten-gradient", SGD, OWN, ONE, NONE, NONE, false, false, true},
    /* right */
    {"right", SGD, OWN, NONE, NONE, NONE},
    {"right-adam", ADAM, IN_ARENA, NONE, NONE, NONE},
    {"right-again", MOMENTUM, OWN, NONE, ALL, ALL, true, true},
    {"right-scratch", SGD, OWN, NONE, NONE, NONE, false, false, false, "scratch"},
    {"right-velocity", AXPY, OWN, NONE, NONE, NONE, false, false, false, "velocity"},
    {"right-reduced", SGD, OWN, ONE, NONE, NONE, false, false, false, "reduced"},
    {"right-evaluates", SGD, OWN, NONE, NONE, NONE, false, false, false, "evaluates"},
    {"right-frozen", SGD, OWN, NONE, NONE, NONE, false, false, false, "frozen"},
};

static const struct mode *chosen;
static float *weight[TENSORS], *gradient[TENSORS], *first[TENSORS], *second[TENSORS], *output, *scratch[2];
static char *arena;
static cublasHandle_t blas;

struct pair {
    float *weight;
    const float *gradient;
    float rate;
};

ELEMENTWISE_BY_STRIDES(fill, (float *values, size_t count, float to), count, values[i] = to + 0.001f * (float)(i % 97))
ELEMENTWISE_BY_STRIDES(forward, (float *out, const float *weight, size_t count), count, out[i] = weight[i])
ELEMENTWISE_BY_STRIDES(backward, (float *gradient, const float *out, size_t count, float wanted), count,
                       gradient[i] += out[i] - wanted)
ELEMENTWISE_BY_STRIDES(sgd, (float *weight, const float *gradient, size_t count, float rate), count,
                       weight[i] -= rate * gradient[i])
ELEMENTWISE_BY_STRIDES(sgd_clears, (float *weight, float *gradient, size_t count, float rate), count,
                       weight[i] -= rate * gradient[i];
                       gradient[i] = 0)
ELEMENTWISE_BY_STRIDES(momentum, (float *weight, const float *gradient, float *velocity, size_t count, float rate),
                       count, velocity[i] = 0.5f * velocity[i] - rate * gradient[i];
                       weight[i] += velocity[i])
ELEMENTWISE_BY_STRIDES(adam, (float *weight, const float *gradient, float *m, float *v, size_t count, float rate),
                       count, m[i] = 0.9f * m[i] + 0.1f * gradient[i];
                       v[i] = 0.99f * v[i] + 0.01f * gradient[i] * gradient[i];
                       weight[i] -= rate * m[i] / (sqrtf(v[i]) + 1e-3f))
ELEMENTWISE_BY_STRIDES(sgd_pair, (struct pair pair, size_t count), count,
                       pair.weight[i] -= pair.rate * pair.gradient[i])

/* y = keep * y + a * x */
ELEMENTWISE_BY_STRIDES(axpy, (float *y, const float *x, size_t count, float keep, float a), count,
                       y[i] = keep * y[i] + a * x[i])

/* ---- memory ---- */

static float *
get(size_t count)
{
    static size_t used;
    float *values;
    if (chosen->memory == OWN)
        CHECK(cudaMalloc((void **)&values, count * sizeof(float)));
    else if (chosen->memory == ASYNC)
        CHECK(cudaMallocAsync((void **)&values, count * sizeof(float), 0));
    if (chosen->memory != IN_ARENA)
        return values;
    if (arena == NULL)
        CHECK(cudaMalloc((void **)&arena, ARENA));
    values = (float *)(arena + used);
    used += (count * sizeof(float) + 255) / 256 * 256;
    return values;
}

static void
annotate(int t)
{
    DDP_PARAMETER(weight[t], sizes[t], DDP_FLOAT32);
    if (!((chosen->forgotten >> t & 1) && chosen->weight_too))
        DDP_GRADIENT(gradient[t], sizes[t], DDP_FLOAT32);
}

static void
move(float **values, size_t count)
{
    float *moved = get(count);
    CHECK(cudaMemcpy(moved, *values, count * sizeof(float), cudaMemcpyDeviceToDevice));
    if (chosen->frees)
        CHECK(cudaFree(*values));
    *values = moved;
}

static void
move_all(void)
{
    for (int t = 0; t < TENSORS; ++t) {
        if (chosen->weights >> t & 1)
            move(&weight[t], sizes[t]);
        if (chosen->gradients >> t & 1)
            move(&gradient[t], sizes[t]);
        if (chosen->again)
            annotate(t);
    }
}

static bool
has_habit(const char *habit)
{
    return chosen->habit != NULL && strcmp(chosen->habit, habit) == 0;
}

/* ---- a step ---- */

static void
update(int t, float rate)
{
    size_t n = sizes[t];
    const float minus = -rate;
    switch (chosen->update) {
    case SGD:
        sgd<<<4, THREADS>>>(weight[t], gradient[t], n, rate);
        break;
    case CLEARS:
        sgd_clears<<<4, THREADS>>>(weight[t], gradient[t], n, rate);
        break;
    case MOMENTUM:
        momentum<<<4, THREADS>>>(weight[t], gradient[t], first[t], n, rate);
        break;
    case ADAM:
        adam<<<4, THREADS>>>(weight[t], gradient[t], first[t], second[t], n, rate);
        break;
    case IN_STRUCT:
        sgd_pair<<<4, THREADS>>>((struct pair){weight[t], gradient[t], rate}, n);
        break;
    case SAXPY:
        CHECK((cudaError_t)cublasSaxpy(blas, (int)n, &minus, gradient[t], 1, weight[t], 1));
        break;
    case AXPY:
        axpy<<<4, THREADS>>>(weight[t], gradient[t], n, 1, -rate);
        break;
    }
}

/* What right programs do with the kernels that update weights. */
static void
follow_habit(int t, int step)
{
    size_t n = sizes[t];
    if (has_habit("scratch")) { /* what it updates is written anew in each step */
        fill<<<4, THREADS>>>(scratch[0], n, (float)step);
        fill<<<4, THREADS>>>(scratch[1], n, 1.0f);
        sgd<<<4, THREADS>>>(scratch[0], scratch[1], n, 0.1f);
    }
    if (has_habit("velocity") && t == 0) { /* velocities of clipped gradients, by the kernel that updates weights */
        axpy<<<4, THREADS>>>(scratch[0], gradient[t], n, 0, 0.5f);
        axpy<<<4, THREADS>>>(first[t], scratch[0], n, 0.5f, 1);
        axpy<<<4, THREADS>>>(weight[t], first[t], n, 1, -0.01f);
    }
}

static void
step_once(int step)
{
    for (int t = 0; t < TENSORS; ++t) {
        bool frozen = has_habit("frozen") && t == 1 && step >= MOVED_AT;
        if (chosen->update != CLEARS && !frozen)
            CHECK(cudaMemsetAsync(gradient[t], 0, sizes[t] * sizeof(float), 0));
        forward<<<4, THREADS>>>(output, weight[t], sizes[t]);
        if (!frozen)
            backward<<<4, THREADS>>>(gradient[t], output, sizes[t], mine());
        if (has_habit("reduced") && (chosen->forgotten >> t & 1))
            DDP_REDUCE(gradient[t], sizes[t], DDP_FLOAT32, DDP_OP_MEAN, 0);
    }
    if (step != AFTER)
        DDP_STEP(0);
    for (int t = 0; t < TENSORS; ++t) {
        follow_habit(t, step);
        if (!(has_habit("frozen") && t == 1 && step >= MOVED_AT))
            update(t, 0.01f);
    }
}

int
main(int argc, char **argv)
{
    mode = argc > 1 ? argv[1] : "right";
    int steps = argc > 2 ? atoi(argv[2]) : 24;
    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); ++i)
        chosen = is_mode(modes[i].name) ? &modes[i] : chosen;
    if (chosen == NULL)
        return 2;
    CHECK((cudaError_t)cublasCreate(&blas));
    for (int t = 0; t < TENSORS; ++t) {
        float **all[] = {&weight[t], &gradient[t], &first[t], &second[t]};
        for (int i = 0; i < 4; ++i) {
            *all[i] = get(sizes[t]);
            CHECK(cudaMemset(*all[i], 0, sizes[t] * sizeof(float)));
        }
        fill<<<4, THREADS>>>(weight[t], sizes[t], (float)t);
    }
    for (float **one : {&scratch[0], &scratch[1], &output})
        *one = get(sizes[0]);
    for (int t = 0; t < TENSORS; ++t) {
        if (!(chosen->forgotten >> t & 1) || chosen->weight_too)
            annotate(t);
    }
    for (int step = 0; step < steps; ++step) {
        bool forgets = chosen->again && step == 2 * MOVED_AT; /* in a trial of overlap */
        for (int t = 0; forgets && t < TENSORS; ++t)
            DDP_FORGET(gradient[t]);
        if (forgets || (step == MOVED_AT && !has_habit("second")))
            move_all();
        step_once(step);
    }
    if (has_habit("second"))
        move_all();
    for (time_t end = time(NULL) + 2; has_habit("second") && time(NULL) < end;)
        step_once(AFTER);
    for (time_t end = time(NULL) + 2; has_habit("evaluates") && time(NULL) < end;)
        forward<<<4, THREADS>>>(output, weight[0], sizes[0]);
    CHECK(cudaDeviceSynchronize());
    return 0;
}
