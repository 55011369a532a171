/* Tide heights from harmonic features: a small tanh network, root mean square error as the loss, Adam. Plain C style. */
#include <cuda_runtime.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "ddprun.h"

#define NF   12
#define NH   32
#define NB   40
#define NDAT 800
#define NP   (NF * NH + NH + NH + 1)

static unsigned int lcg_state = 77u;
static float frand(void)
{
    lcg_state = lcg_state * 1664525u + 1013904223u;
    return (float)(lcg_state >> 8) / 16777216.0f - 0.5f;
}

/* theta: NF*NH input weights, NH input biases, NH output weights, output bias */
__global__ void forward(const float *theta, const float *x, float *act, float *pred, int n)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= n) return;
    const float *w = theta, *b = theta + NF * NH, *v = b + NH;
    float p = v[NH];
    for (int j = 0; j < NH; ++j) {
        float a = b[j];
        for (int k = 0; k < NF; ++k) a += x[r * NF + k] * w[k * NH + j];
        act[r * NH + j] = tanhf(a);
        p += act[r * NH + j] * v[j];
    }
    pred[r] = p;
}

__global__ void squared_error(const float *pred, const float *t, float *sse, int n)
{
    if (blockIdx.x || threadIdx.x) return;
    float s = 0;
    for (int r = 0; r < n; ++r) s += (pred[r] - t[r]) * (pred[r] - t[r]);
    *sse = s;
}

__global__ void loss_gradient(const float *pred, const float *t, const float *sse, float *dpred, int n)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= n) return;
    float rmse = sqrtf(*sse / n + 1e-12f);
    dpred[r] = (pred[r] - t[r]) / (n * rmse);
}

__global__ void backward(const float *theta, const float *x, const float *act, const float *dpred, float *g, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= NP) return;
    const float *v = theta + NF * NH + NH;
    float s = 0;
    for (int r = 0; r < n; ++r) {
        if (i < NF * NH + NH) {
            int j = i < NF * NH ? i % NH : i - NF * NH;
            float a = act[r * NH + j];
            float d = dpred[r] * v[j] * (1 - a * a);
            s += i < NF * NH ? d * x[r * NF + i / NH] : d;
        } else if (i < NP - 1) {
            s += dpred[r] * act[r * NH + i - NF * NH - NH];
        } else {
            s += dpred[r];
        }
    }
    g[i] = s;
}

__global__ void adam(float *theta, const float *g, float *m, float *v, float rate, float c1, float c2)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= NP) return;
    m[i] = 0.9f * m[i] + 0.1f * g[i];
    v[i] = 0.99f * v[i] + 0.01f * g[i] * g[i];
    theta[i] -= rate * (m[i] / c1) / (sqrtf(v[i] / c2) + 1e-3f);
}

int main(int argc, char **argv)
{
    static float x[NDAT * NF], t[NDAT], host[NP];
    int steps = argc > 2 ? atoi(argv[2]) : 60;
    for (int i = 0; i < NDAT; ++i) {
        float hour = 1000.0f * (frand() + 0.5f);
        for (int k = 0; k < NF; ++k)
            x[i * NF + k] = k % 2 ? cosf(hour * (0.05f + 0.031f * (k / 2))) : sinf(hour * (0.05f + 0.031f * (k / 2)));
        t[i] = 1.5f * x[i * NF] - x[i * NF + 3] * x[i * NF + 4] + 0.8f * x[i * NF + 9];
        if (frand() > 0.4f) t[i] += 3.0f * frand(); /* storm surge */
    }
    for (int i = 0; i < NP; ++i) host[i] = 0.6f * frand();

    float *theta, *grad, *m, *v, *dx, *dt, *act, *pred, *dpred, *sse;
    cudaMalloc((void **)&theta, sizeof host);
    cudaMalloc((void **)&grad, sizeof host);
    cudaMalloc((void **)&m, sizeof host);
    cudaMalloc((void **)&v, sizeof host);
    cudaMalloc((void **)&dx, sizeof x);
    cudaMalloc((void **)&dt, sizeof t);
    cudaMalloc((void **)&act, NB * NH * sizeof(float));
    cudaMalloc((void **)&pred, NB * sizeof(float));
    cudaMalloc((void **)&dpred, NB * sizeof(float));
    cudaMalloc((void **)&sse, sizeof(float));
    cudaMemcpy(theta, host, sizeof host, cudaMemcpyHostToDevice);
    cudaMemcpy(dx, x, sizeof x, cudaMemcpyHostToDevice);
    cudaMemcpy(dt, t, sizeof t, cudaMemcpyHostToDevice);
    cudaMemset(m, 0, sizeof host);
    cudaMemset(v, 0, sizeof host);
    DDP_PARAMETER(theta, NP, DDP_FLOAT32);
    DDP_GRADIENT(grad, NP, DDP_FLOAT32);
    DDP_STATE(m, NP, DDP_FLOAT32);
    DDP_STATE(v, NP, DDP_FLOAT32);

    for (int s = 0; s < steps; ++s) {
        size_t first, count;
        DDP_SHARD(NB, &first, &count);
        int n = (int)count;
        const float *bx = dx + ((s * NB) % NDAT + first) * NF;
        const float *bt = dt + (s * NB) % NDAT + first;
        forward<<<(n + 31) / 32, 32>>>(theta, bx, act, pred, n);
        squared_error<<<1, 1>>>(pred, bt, sse, n);
        loss_gradient<<<(n + 31) / 32, 32>>>(pred, bt, sse, dpred, n);
        backward<<<(NP + 63) / 64, 64>>>(theta, bx, act, dpred, grad, n);
        DDP_STEP(0);
        adam<<<(NP + 63) / 64, 64>>>(theta, grad, m, v, 0.01f, 1 - powf(0.9f, s + 1), 1 - powf(0.99f, s + 1));
        if (s % 10 == 0 || s == steps - 1) {
            float e;
            cudaMemcpy(&e, sse, sizeof e, cudaMemcpyDeviceToHost);
            e /= n;
            DDP_MEAN(&e);
            printf("step %3d  mse %.4f\n", s, e);
        }
    }
    cudaMemcpy(host, theta, sizeof host, cudaMemcpyDeviceToHost);
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *f = fopen(argv[1], "w");
        for (int i = 0; i < NP; ++i) fprintf(f, "%.9g\n", host[i]);
        fclose(f);
    }
    return 0;
}
