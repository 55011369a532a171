/*
 * A small network u(t) learns the decay of a charge from noisy measurements and from the law u' = -1.5 u. The law is
 * evaluated at fixed points of time.
 *
 * The measurements are divided among the ranks; the law's points are not: every rank evaluates all of them, divides by
 * their number, and adds the result to its gradient. Each rank so adds the same numbers, and the mean of equal numbers
 * is that number: the mean gradient is that of all measurements plus that of the law, as in one process.
 */
#include <cuda_runtime.h>
#include <ddprun.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { NEURONS = 12, MEASURED = 36, SETS = 3, LAW = 20, TURNS = 20, P = 3 * NEURONS };

/* u(t) = sum of c tanh(a t + b) */
struct net {
    float a[NEURONS], b[NEURONS], c[NEURONS];
};

struct measurement {
    float t, u;
};

static int
failed(cudaError_t e)
{
    if (e != cudaSuccess)
        fprintf(stderr, "decay: %s\n", cudaGetErrorString(e));
    return e != cudaSuccess;
}

__device__ static void
evaluate(const struct net *n, float t, float *u, float *du)
{
    *u = *du = 0;
    for (int k = 0; k < NEURONS; ++k) {
        float h = tanhf(n->a[k] * t + n->b[k]);
        *u += n->c[k] * h;
        *du += n->c[k] * n->a[k] * (1 - h * h);
    }
}

/* A thread for each neuron; weight is 2 / (number of measurements here). */
__global__ void
fit_measurements(struct net *g, const struct net *n, const struct measurement *m, int count, float weight)
{
    int k = threadIdx.x;
    float ga = 0, gb = 0, gc = 0;
    for (int i = 0; i < count; ++i) {
        float u, du, t = m[i].t, h = tanhf(n->a[k] * t + n->b[k]), slope = n->c[k] * (1 - h * h);
        evaluate(n, t, &u, &du);
        float e = weight * (u - m[i].u);
        ga += e * slope * t;
        gb += e * slope;
        gc += e * h;
    }
    g->a[k] = ga;
    g->b[k] = gb;
    g->c[k] = gc;
}

/* Adds the gradient of weight / 2 * (u' + 1.5 u)^2, summed over the points of the law. */
__global__ void
obey_law(struct net *g, const struct net *n, float weight)
{
    int k = threadIdx.x;
    for (int i = 0; i < LAW; ++i) {
        float u, du, t = 2.0f * i / (LAW - 1), h = tanhf(n->a[k] * t + n->b[k]), s = 1 - h * h;
        evaluate(n, t, &u, &du);
        float r = weight * (du + 1.5f * u);
        float by_angle = n->c[k] * (n->a[k] * -2 * h * s + 1.5f * s); /* of the residual, by a t + b */
        g->a[k] += r * (by_angle * t + n->c[k] * s);
        g->b[k] += r * by_angle;
        g->c[k] += r * (n->a[k] * s + 1.5f * h);
    }
}

__global__ void
errors(const struct net *n, const struct measurement *m, float *e, int count)
{
    int i = threadIdx.x;
    float u, du;
    if (i < count) {
        evaluate(n, m[i].t, &u, &du);
        e[i] = (u - m[i].u) * (u - m[i].u);
    }
}

__global__ void
nesterov(float *w, float *v, const float *g, float rate)
{
    int i = threadIdx.x;
    v[i] = 0.8f * v[i] + g[i];
    w[i] -= rate * (g[i] + 0.8f * v[i]);
}

int
main(void)
{
    static struct measurement data[MEASURED * SETS];
    struct net start;
    unsigned s = 3;
    for (int i = 0; i < MEASURED * SETS; ++i) {
        s = s * 1664525u + 1013904223u;
        data[i].t = (float)(s >> 16) / 32768.0f;
        s = s * 1664525u + 1013904223u;
        data[i].u = 2.0f * expf(-1.5f * data[i].t) + 0.1f * ((float)(s >> 16) / 65536.0f - 0.5f);
    }
    for (int k = 0; k < NEURONS; ++k) {
        start.a[k] = cosf(5.0f * k + 1);
        start.b[k] = sinf(3.0f * k);
        start.c[k] = 0.3f * cosf(2.0f * k);
    }

    struct net *net, *gradient;
    struct measurement *here;
    float *velocity, *e, host[MEASURED];
    if (failed(cudaMalloc((void **)&net, sizeof *net)) || failed(cudaMalloc((void **)&gradient, sizeof *gradient)) ||
        failed(cudaMalloc((void **)&velocity, sizeof *net)) || failed(cudaMalloc((void **)&e, sizeof host)) ||
        failed(cudaMalloc((void **)&here, MEASURED * sizeof *here)) || failed(cudaMemset(velocity, 0, sizeof *net)) ||
        failed(cudaMemcpy(net, &start, sizeof start, cudaMemcpyHostToDevice)))
        return 1;
    DDP_PARAMETER(net, P, DDP_FLOAT32);
    DDP_STATE(velocity, P, DDP_FLOAT32);
    DDP_GRADIENT(gradient, P, DDP_FLOAT32);
    size_t first, count;
    DDP_SHARD(MEASURED, &first, &count);
    for (int turn = 0; turn < TURNS; ++turn) {
        if (failed(cudaMemcpy(here, data + turn % SETS * MEASURED + first, count * sizeof *here, cudaMemcpyHostToDevice)))
            return 1;
        errors<<<1, MEASURED>>>(net, here, e, (int)count);
        fit_measurements<<<1, NEURONS>>>(gradient, net, here, (int)count, 2.0f / count);
        obey_law<<<1, NEURONS>>>(gradient, net, 0.05f / LAW);
        DDP_STEP(0);
        nesterov<<<1, P>>>((float *)net, velocity, (const float *)gradient, 0.02f);
        if (failed(cudaMemcpy(host, e, count * sizeof(float), cudaMemcpyDeviceToHost)))
            return 1;
        float mean = 0;
        for (size_t i = 0; i < count; ++i)
            mean += host[i] / count;
        DDP_MEAN(&mean);
        if (DDP_RANK() == 0)
            printf("turn %2d: %.5f\n", turn, mean);
    }
    return 0;
}
