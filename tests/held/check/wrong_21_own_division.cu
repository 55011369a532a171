// Poisson regression; the share of a rank is computed by hand.
#include <cuda_runtime.h>
#include <ddprun.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define D 8
#define BATCH 25
#define N 500

static unsigned s0 = 9;
static double rnd() { s0 = s0 * 1664525u + 1013904223u; return (s0 >> 8) / 16777216.0; }

__global__ void poisson_grad(const float *x, const float *y, const float *w, float *g, float *nll, int n)
{
    float s = 0, l = 0;
    for (int r = 0; r < n; r++) {
        float eta = 0;
        for (int d = 0; d < D; d++) eta += w[d] * x[r * D + d];
        s += (expf(eta) - y[r]) * x[r * D + threadIdx.x];
        l += expf(eta) - y[r] * eta;
    }
    g[threadIdx.x] = s / n;
    if (threadIdx.x == 0) *nll = l / n;
}

__global__ void step_kernel(float *w, float *vel, const float *g)
{
    int i = threadIdx.x;
    vel[i] = 0.5f * vel[i] - 0.1f * g[i];
    w[i] += vel[i];
}

int main(int argc, char **argv)
{
    int steps = argc > 1 ? atoi(argv[1]) : 60;
    float *x, *y, *w, *vel, *g, *nll, h[N * D], hy[N];
    for (int i = 0; i < N; i++) {
        double eta = 0.3;
        h[i * D] = 1;
        for (int d = 1; d < D; d++) eta += (h[i * D + d] = rnd() * 2 - 1) * (d % 2 ? 0.8 : -0.6);
        double p = 1, lim = exp(-exp(eta));
        for (hy[i] = -1; p > lim; hy[i]++) p *= rnd() + 1e-9;
    }
    cudaMalloc(&x, sizeof h); cudaMalloc(&y, sizeof hy); cudaMalloc(&w, D * 4); cudaMalloc(&vel, D * 4);
    cudaMalloc(&g, D * 4); cudaMalloc(&nll, 4);
    cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
    cudaMemcpy(y, hy, sizeof hy, cudaMemcpyHostToDevice);
    cudaMemset(w, 0, D * 4);
    cudaMemset(vel, 0, D * 4);
    DDP_PARAMETER(w, D, DDP_FLOAT32);
    DDP_STATE(vel, D, DDP_FLOAT32);
    DDP_GRADIENT(g, D, DDP_FLOAT32);
    const int per_rank = BATCH / DDP_WORLD_SIZE();
    const int offset = DDP_RANK() * per_rank;
    for (int s = 0; s < steps; s++) {
        int at = s * BATCH % N + offset;
        poisson_grad<<<1, D>>>(x + at * D, y + at, w, g, nll, per_rank);
        DDP_STEP(0);
        step_kernel<<<1, D>>>(w, vel, g);
        if (s % 20 == 19) {
            float l;
            cudaMemcpy(&l, nll, 4, cudaMemcpyDeviceToHost);
            DDP_MEAN(&l);
            if (DDP_RANK() == 0) printf("step %d nll %.4f\n", s + 1, l);
        }
    }
    return 0;
}
