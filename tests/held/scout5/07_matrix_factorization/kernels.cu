#include "mf.h"
#include <cuda_runtime.h>

// one thread for each rating
__global__ void ratingKernel(Model m, Gradients g, const Rating *batch, int n, float reg, float *sqerr)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    Rating r = batch[i];
    const float *p = m.P + r.user * m.factors;
    const float *q = m.Q + r.item * m.factors;
    float pred = m.mu + m.bu[r.user] + m.bi[r.item];
    for (int k = 0; k < m.factors; k++)
        pred += p[k] * q[k];
    float e = r.value - pred;
    atomicAdd(sqerr, e * e);
    for (int k = 0; k < m.factors; k++) {
        atomicAdd(&g.P[r.user * m.factors + k], -e * q[k] + reg * p[k]);
        atomicAdd(&g.Q[r.item * m.factors + k], -e * p[k] + reg * q[k]);
    }
    atomicAdd(&g.bu[r.user], -e + reg * m.bu[r.user]);
    atomicAdd(&g.bi[r.item], -e + reg * m.bi[r.item]);
}

__global__ void applyKernel(float *p, const float *g, float lr, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        p[i] -= lr * g[i];
}

void launchGradients(const Model &m, const Gradients &g, const Rating *batch, int n, float reg, float *sqerr)
{
    cudaMemsetAsync(g.P, 0, sizeof(float) * m.users * m.factors);
    cudaMemsetAsync(g.Q, 0, sizeof(float) * m.items * m.factors);
    cudaMemsetAsync(g.bu, 0, sizeof(float) * m.users);
    cudaMemsetAsync(g.bi, 0, sizeof(float) * m.items);
    ratingKernel<<<(n + 63) / 64, 64>>>(m, g, batch, n, reg, sqerr);
}

static void apply(float *p, const float *g, float lr, int n)
{
    applyKernel<<<(n + 127) / 128, 128>>>(p, g, lr, n);
}

void launchApply(Model &m, const Gradients &g, float lr)
{
    apply(m.P, g.P, lr, m.users * m.factors);
    apply(m.Q, g.Q, lr, m.items * m.factors);
    apply(m.bu, g.bu, lr, m.users);
    apply(m.bi, g.bi, lr, m.items);
}
