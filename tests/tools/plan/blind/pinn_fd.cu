// Physics-informed net 1-20-1 for u'' = -pi^2 sin(pi x), u(0)=u(1)=0; u'' by central differences of the net itself;
// RMSprop. Truth: gradients (truth_step over one gradient vector). Batches: 60 (batches of 16 collocation points, drawn
// on the device by a hash of the step).
#include "truth.h"
#include <math.h>
#include <stdint.h>
#include <stdio.h>

namespace
{
const int M = 20;           // hidden units
const int NPAR = 3 * M + 1; // w, b, v, c
const int NC = 16;          // collocation points
const int NX = 3 * NC + 2;  // x-h, x, x+h for each, and both ends
const float STEP_H = 0.1f;
const float PI = 3.14159265f;
const float BC = 40.f;

__device__ float
rand01(uint32_t a, uint32_t b)
{
    uint64_t z = ((uint64_t)a << 32 | b) + 0x9E3779B97F4A7C15ull;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return (uint32_t)((z ^ (z >> 31)) >> 40) / 16777216.f;
}

__global__ void
sample_points(float *x, uint32_t step)
{
    const int i = threadIdx.x;
    const float c = STEP_H + (1 - 2 * STEP_H) * rand01(step, i);
    x[3 * i] = c - STEP_H;
    x[3 * i + 1] = c;
    x[3 * i + 2] = c + STEP_H;
    if (i == 0) {
        x[3 * NC] = 0;
        x[3 * NC + 1] = 1;
    }
}

__global__ void
evaluate(const float *th, const float *x, float *act, float *u, int n)
{
    const int s = blockIdx.x, j = threadIdx.x;
    __shared__ float part[M];
    if (s >= n)
        return;
    const float a = tanhf(th[j] * x[s] + th[M + j]);
    act[s * M + j] = a;
    part[j] = a * th[2 * M + j];
    __syncthreads();
    if (j == 0) {
        float t = th[3 * M];
        for (int k = 0; k < M; k++)
            t += part[k];
        u[s] = t;
    }
}

// residual at each point and its derivative with respect to the three values of u
__global__ void
residual(const float *x, const float *u, float *du, float *loss)
{
    __shared__ float sq[NC];
    const int i = threadIdx.x;
    const float inv = 1 / (STEP_H * STEP_H);
    const float r = (u[3 * i] - 2 * u[3 * i + 1] + u[3 * i + 2]) * inv + PI * PI * sinf(PI * x[3 * i + 1]);
    const float d = 2 * r / NC;
    du[3 * i] = d * inv;
    du[3 * i + 1] = -2 * d * inv;
    du[3 * i + 2] = d * inv;
    sq[i] = r * r;
    __syncthreads();
    if (i < 2)
        du[3 * NC + i] = 2 * BC * u[3 * NC + i];
    if (i == 0) {
        float t = 0;
        for (int k = 0; k < NC; k++)
            t += sq[k];
        loss[0] = t / NC;
        loss[1] = BC * (u[3 * NC] * u[3 * NC] + u[3 * NC + 1] * u[3 * NC + 1]);
    }
}

__global__ void
backprop(const float *th, const float *x, const float *act, const float *du, float *grad)
{
    const int j = threadIdx.x;
    float gw = 0, gb = 0, gv = 0, gc = 0;
    for (int s = 0; s < NX; s++) {
        const float a = act[s * M + j], d = du[s] * th[2 * M + j] * (1 - a * a);
        gw += d * x[s];
        gb += d;
        gv += du[s] * a;
        gc += du[s];
    }
    grad[j] = gw;
    grad[M + j] = gb;
    grad[2 * M + j] = gv;
    if (j == 0)
        grad[3 * M] = gc;
}

__global__ void
rmsprop(float *th, const float *grad, float *ms, float lr)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < NPAR) {
        ms[i] = 0.9f * ms[i] + 0.1f * grad[i] * grad[i];
        th[i] -= lr * grad[i] / (sqrtf(ms[i]) + 1e-6f);
    }
}

void
die_on(cudaError_t e)
{
    if (e) {
        fprintf(stderr, "%s\n", cudaGetErrorString(e));
        exit(1);
    }
}
} // namespace

int
main()
{
    float *th, *grad, *ms, *x, *act, *u, *du, *loss, host[NPAR];
    die_on(cudaMalloc(&th, NPAR * sizeof *th));
    die_on(cudaMalloc(&grad, NPAR * sizeof *grad));
    die_on(cudaMalloc(&ms, NPAR * sizeof *ms));
    die_on(cudaMalloc(&x, NX * sizeof *x));
    die_on(cudaMalloc(&act, NX * M * sizeof *act));
    die_on(cudaMalloc(&u, NX * sizeof *u));
    die_on(cudaMalloc(&du, NX * sizeof *du));
    die_on(cudaMalloc(&loss, 2 * sizeof *loss));
    srand(3);
    for (int j = 0; j < M; j++) {
        host[j] = 3 * (2.f * rand() / RAND_MAX - 1);
        host[M + j] = -host[j] * (float)rand() / RAND_MAX; // kink within (0, 1)
        host[2 * M + j] = 0.4f * (2.f * rand() / RAND_MAX - 1);
    }
    host[3 * M] = 0;
    die_on(cudaMemcpy(th, host, sizeof host, cudaMemcpyHostToDevice));
    die_on(cudaMemset(ms, 0, NPAR * sizeof *ms));

    double avg = 0;
    for (int step = 0; step < 60; step++) {
        sample_points<<<1, NC>>>(x, step);
        evaluate<<<NX, M>>>(th, x, act, u, NX);
        residual<<<1, NC>>>(x, u, du, loss);
        backprop<<<1, M>>>(th, x, act, du, grad);
        if (truth_step({{grad, NPAR}}))
            rmsprop<<<2, 32>>>(th, grad, ms, 0.012f);
        float l[2];
        die_on(cudaMemcpy(l, loss, sizeof l, cudaMemcpyDeviceToHost));
        avg = step ? 0.8 * avg + 0.2 * (l[0] + l[1]) : l[0] + l[1];
        if (step % 5 == 0)
            printf("step %2d: residual %9.5f boundary %8.5f smoothed %9.5f\n", step, l[0], l[1], avg);
    }
    // table of the solution
    float grid[11], hu[11], worst = 0;
    for (int i = 0; i <= 10; i++)
        grid[i] = i / 10.f;
    die_on(cudaMemcpy(x, grid, sizeof grid, cudaMemcpyHostToDevice));
    evaluate<<<11, M>>>(th, x, act, u, 11);
    die_on(cudaMemcpy(hu, u, sizeof hu, cudaMemcpyDeviceToHost));
    for (int i = 0; i <= 10; i++) {
        printf("x %.1f u %.5f exact %.5f\n", grid[i], hu[i], sinf(PI * grid[i]));
        worst = fmaxf(worst, fabsf(hu[i] - sinf(PI * grid[i])));
    }
    printf("largest error %.5f\n", worst);
    truth_dump({{th, NPAR}});
    cudaFree(th);
    cudaFree(grad);
    cudaFree(ms);
    cudaFree(x);
    cudaFree(act);
    cudaFree(u);
    cudaFree(du);
    cudaFree(loss);
    return 0;
}
