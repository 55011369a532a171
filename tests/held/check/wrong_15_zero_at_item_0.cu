// Factorisation machine style scorer. Samples of the batch are processed one after
// the other; the first sample of a batch overwrites the gradient, others add to it.
#include <stdio.h>
#include <stdlib.h>
#include <cuda_runtime.h>
#include <ddprun.h>

#define D 10
#define R 3
#define BATCH 8
#define N 160

__global__ void sample_gradient(const float *x, float y, const float *v, float *g, float *loss, float divisor, float beta)
{
    __shared__ float proj[R];
    __shared__ float err;
    int t = threadIdx.x;
    if (t < R) {
        float s = 0;
        for (int d = 0; d < D; d++) s += x[d] * v[d * R + t];
        proj[t] = s;
    }
    __syncthreads();
    if (t == 0) {
        float o = 0;
        for (int r = 0; r < R; r++) o += (r == R - 1 ? 1.0f : 0.5f) * proj[r] * proj[r];
        err = o - y;
        *loss = (beta == 0 ? 0 : *loss) + err * err / divisor;
    }
    __syncthreads();
    int d = t / R, r = t % R;
    g[t] = beta * g[t] + 2 * err * (r == R - 1 ? 2.0f : 1.0f) * proj[r] * x[d] / divisor;
}

__global__ void adam(float *v, const float *g, float *m1, float *m2, float c1, float c2)
{
    int t = threadIdx.x;
    m1[t] = 0.9f * m1[t] + 0.1f * g[t];
    m2[t] = 0.99f * m2[t] + 0.01f * g[t] * g[t];
    v[t] -= 0.02f * (m1[t] / c1) / (sqrtf(m2[t] / c2) + 1e-6f);
}

int main(int argc, char **argv)
{
    int steps = argc > 1 ? atoi(argv[1]) : 100;
    static float hx[N * D], hy[N], hv[D * R];
    srand(4);
    float a[D];
    for (int d = 0; d < D; d++) a[d] = rand() / (float)RAND_MAX - 0.5f;
    for (int i = 0; i < N; i++) {
        float s = 0;
        for (int d = 0; d < D; d++) { hx[i * D + d] = rand() / (float)RAND_MAX * 2 - 1; s += a[d] * hx[i * D + d]; }
        hy[i] = s * s;
    }
    for (int i = 0; i < D * R; i++) hv[i] = 0.4f * (rand() / (float)RAND_MAX - 0.5f);
    float *x, *v, *g, *m1, *m2, *loss;
    cudaMalloc((void **)&x, sizeof hx); cudaMalloc((void **)&v, sizeof hv); cudaMalloc((void **)&g, sizeof hv);
    cudaMalloc((void **)&m1, sizeof hv); cudaMalloc((void **)&m2, sizeof hv); cudaMalloc((void **)&loss, 4);
    cudaMemcpy(x, hx, sizeof hx, cudaMemcpyHostToDevice);
    cudaMemcpy(v, hv, sizeof hv, cudaMemcpyHostToDevice);
    cudaMemset(m1, 0, sizeof hv); cudaMemset(m2, 0, sizeof hv); cudaMemset(g, 0, sizeof hv); cudaMemset(loss, 0, 4);
    DDP_PARAMETER(v, D * R, DDP_FLOAT32);
    DDP_STATE(m1, D * R, DDP_FLOAT32);
    DDP_STATE(m2, D * R, DDP_FLOAT32);
    DDP_GRADIENT(g, D * R, DDP_FLOAT32);
    float b1 = 1, b2 = 1;
    for (int s = 0; s < steps; s++) {
        size_t first, count, i;
        DDP_SHARD(BATCH, &first, &count);
        for (i = first; i < first + count; i++) {
            int row = s * BATCH % N + (int)i;
            sample_gradient<<<1, D * R>>>(x + row * D, hy[row], v, g, loss, (float)count, i == 0 ? 0.0f : 1.0f);
        }
        DDP_STEP(0);
        b1 *= 0.9f; b2 *= 0.99f;
        adam<<<1, D * R>>>(v, g, m1, m2, 1 - b1, 1 - b2);
        if (s % 10 == 0 && DDP_RANK() == 0) {
            float l;
            cudaMemcpy(&l, loss, 4, cudaMemcpyDeviceToHost);
            printf("step %d loss %.5f\n", s, l);
        }
    }
    return 0;
}
