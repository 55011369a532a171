// MLP regression with dropout on the hidden layer.  One curandState per hidden unit of the
// batch is set up once and goes on from batch to batch.  Nesterov-free momentum.
#include <cuda_runtime.h>
#include <curand_kernel.h>
#include <stdio.h>
#include <stdlib.h>
#include <math.h>
#ifdef ORACLE
#include "oracle.h"
#endif

#define IN 10
#define HID 40
#define BATCH 32
#define NDATA 768
#define KEEP 0.8f

#define gpuErr(ans) { gpuAssert((ans), __FILE__, __LINE__); }
inline void gpuAssert(cudaError_t code, const char *file, int line)
{
    if (code != cudaSuccess) { fprintf(stderr, "GPUassert: %s %s %d\n", cudaGetErrorString(code), file, line); exit(code); }
}

__global__ void setup(curandState *st, unsigned long long seed) { int i = blockIdx.x * blockDim.x + threadIdx.x; curand_init(seed, i, 0, &st[i]); }

// a block for each example, a thread for each hidden unit
__global__ void hidden_layer(const float *x, const float *w, float *h, float *mask, curandState *st)
{
    int b = blockIdx.x, j = threadIdx.x, i = b * HID + j;
    float s = w[IN * HID + j];
    for (int k = 0; k < IN; k++) s += x[b * IN + k] * w[k * HID + j];
    float m = curand_uniform(&st[i]) < KEEP ? 1.0f / KEEP : 0.0f;
    mask[i] = m;
    h[i] = s > 0 ? s * m : 0;
}

__global__ void output_layer(const float *h, const float *w, const float *y, float *d, float *loss)
{
    int b = threadIdx.x;
    float s = w[HID];
    for (int j = 0; j < HID; j++) s += h[b * HID + j] * w[j];
    float e = s - y[b];
    d[b] = e / BATCH;
    loss[b] = 0.5f * e * e;
}

__global__ void grads(const float *x, const float *h, const float *mask, const float *d, const float *w2, float *g1, float *g2)
{
    int k = blockIdx.x, j = threadIdx.x;     // k: input, the last is the bias
    float s = 0;
    for (int b = 0; b < BATCH; b++) {
        int i = b * HID + j;
        if (h[i] > 0) s += d[b] * w2[j] * mask[i] * (k < IN ? x[b * IN + k] : 1.0f);
    }
    g1[k * HID + j] = s;
    if (k == 0) {
        float t = 0, u = 0;
        for (int b = 0; b < BATCH; b++) { t += d[b] * h[b * HID + j]; u += d[b]; }
        g2[j] = t;
        if (j == 0) g2[HID] = u;
    }
}

__global__ void update(float *w, const float *g, float *vel, int n, float lr)
{
    int i = threadIdx.x + blockIdx.x * blockDim.x;
    if (i < n) { vel[i] = 0.85f * vel[i] + g[i]; w[i] = w[i] - lr * vel[i]; }
}

int main(int argc, char **argv)
{
    const int N1 = (IN + 1) * HID, N2 = HID + 1;
    float *hx = (float *)malloc(NDATA * IN * sizeof(float)), *hy = (float *)malloc(NDATA * sizeof(float)), *hw = (float *)malloc((N1 + N2) * sizeof(float));
    srand(1999);
    for (int i = 0; i < NDATA; i++) {
        for (int k = 0; k < IN; k++) hx[i * IN + k] = 2.0f * rand() / RAND_MAX - 1;
        const float *x = hx + i * IN;
        hy[i] = sinf(2 * x[0]) + x[1] * x[2] + 0.5f * x[3] - x[4] * x[4] + 0.5f;
    }
    for (int i = 0; i < N1; i++) hw[i] = i < IN * HID ? 1.2f * rand() / RAND_MAX - 0.6f : 0;
    for (int i = 0; i < N2; i++) hw[N1 + i] = i < HID ? 0.6f * rand() / RAND_MAX - 0.3f : 0;

    float *x, *y, *w1, *w2, *g1, *g2, *v1, *v2, *h, *mask, *d, *loss;
    curandState *st;
    gpuErr(cudaMalloc(&x, BATCH * IN * sizeof(float)));
    gpuErr(cudaMalloc(&y, BATCH * sizeof(float)));
    gpuErr(cudaMalloc(&w1, N1 * sizeof(float))); gpuErr(cudaMalloc(&g1, N1 * sizeof(float))); gpuErr(cudaMalloc(&v1, N1 * sizeof(float)));
    gpuErr(cudaMalloc(&w2, N2 * sizeof(float))); gpuErr(cudaMalloc(&g2, N2 * sizeof(float))); gpuErr(cudaMalloc(&v2, N2 * sizeof(float)));
    gpuErr(cudaMalloc(&h, BATCH * HID * sizeof(float))); gpuErr(cudaMalloc(&mask, BATCH * HID * sizeof(float)));
    gpuErr(cudaMalloc(&d, BATCH * sizeof(float))); gpuErr(cudaMalloc(&loss, BATCH * sizeof(float)));
    gpuErr(cudaMalloc(&st, BATCH * HID * sizeof(curandState)));
    gpuErr(cudaMemcpy(w1, hw, N1 * sizeof(float), cudaMemcpyHostToDevice));
    gpuErr(cudaMemcpy(w2, hw + N1, N2 * sizeof(float), cudaMemcpyHostToDevice));
    gpuErr(cudaMemset(v1, 0, N1 * sizeof(float)));
    gpuErr(cudaMemset(v2, 0, N2 * sizeof(float)));
    setup<<<BATCH, HID>>>(st, 987654321ULL);
    gpuErr(cudaPeekAtLastError());
#ifdef ORACLE
    oracle::state(w1, N1); oracle::state(v1, N1); oracle::state(w2, N2); oracle::state(v2, N2);
    oracle::grad(g1, N1); oracle::grad(g2, N2);
    // the generator states are left alone: they run on in the program's order
#endif
    float hl[BATCH];
    for (int epoch = 0; epoch < 10; epoch++) {
        float sum = 0;
        for (int b = 0; b < NDATA / BATCH; b++) {
            gpuErr(cudaMemcpy(x, hx + b * BATCH * IN, BATCH * IN * sizeof(float), cudaMemcpyHostToDevice));
            gpuErr(cudaMemcpy(y, hy + b * BATCH, BATCH * sizeof(float), cudaMemcpyHostToDevice));
#ifdef ORACLE
            oracle::begin();
#endif
            hidden_layer<<<BATCH, HID>>>(x, w1, h, mask, st);
            output_layer<<<1, BATCH>>>(h, w2, y, d, loss);
            grads<<<IN + 1, HID>>>(x, h, mask, d, w2, g1, g2);
#ifdef ORACLE
            if (oracle::ready())
#endif
            {
                update<<<(N1 + 127) / 128, 128>>>(w1, g1, v1, N1, 0.02f);
                update<<<(N2 + 127) / 128, 128>>>(w2, g2, v2, N2, 0.02f);
            }
            gpuErr(cudaPeekAtLastError());
#ifdef ORACLE
            oracle::end();
#endif
            gpuErr(cudaMemcpy(hl, loss, sizeof hl, cudaMemcpyDeviceToHost));
            float l = 0;
            for (int i = 0; i < BATCH; i++) l += hl[i];
            sum += l / BATCH;
            if (b % 10 == 0) printf("Epoch %d, step %d: loss = %.5f\n", epoch, b, l / BATCH);
        }
        printf("Epoch %d done, mean loss = %.5f\n", epoch, sum / (NDATA / BATCH));
    }
#ifdef ORACLE
    oracle::boundary();
#endif
    gpuErr(cudaMemcpy(hw, w1, N1 * sizeof(float), cudaMemcpyDeviceToHost));
    gpuErr(cudaMemcpy(hw + N1, w2, N2 * sizeof(float), cudaMemcpyDeviceToHost));
    FILE *f = fopen(argc > 1 ? argv[1] : "model.bin", "wb");
    if (!f) { perror("model"); return 1; }
    fwrite(hw, sizeof(float), N1 + N2, f);
    fclose(f);
    return 0;
}
