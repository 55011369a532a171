/* Cosine classifier: unit prototypes against an embedding, logits multiplied by a learned factor kept on the host. */
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <math.h>
#include "ddprun.h"

#define SAMPLES 512
#define DIM 20
#define CLASSES 8
#define BATCH 64
#define STEPS 60
#define T 64

typedef struct {
    int total, batch, at;
    float *x;
    int *label;
} loader;

static unsigned long long lcg = 31337;
static float frnd(void)
{
    lcg = lcg * 6364136223846793005ULL + 1442695040888963407ULL;
    return (float)((lcg >> 40) / 16777216.0) * 2 - 1;
}

static void loader_init(loader *l)
{
    float *hx = (float *)malloc(SAMPLES * DIM * sizeof(float)), centre[CLASSES * DIM];
    int *hl = (int *)malloc(SAMPLES * sizeof(int));
    for (int i = 0; i < CLASSES * DIM; ++i) centre[i] = frnd();
    for (int i = 0; i < SAMPLES; ++i) {
        float size = 1.0f + 0.5f * frnd();
        hl[i] = (i * 5 + i / 7) % CLASSES;
        for (int d = 0; d < DIM; ++d)
            hx[i * DIM + d] = size * (centre[hl[i] * DIM + d] + 1.3f * frnd());
    }
    l->total = SAMPLES; l->batch = BATCH; l->at = 0;
    cudaMalloc((void **)&l->x, SAMPLES * DIM * sizeof(float));
    cudaMalloc((void **)&l->label, SAMPLES * sizeof(int));
    cudaMemcpy(l->x, hx, SAMPLES * DIM * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(l->label, hl, SAMPLES * sizeof(int), cudaMemcpyHostToDevice);
    free(hx);
    free(hl);
}

static int loader_next(loader *l, const float **x, const int **label)
{
    size_t first, count;
    DDP_SHARD(l->batch, &first, &count);
    *x = l->x + (l->at + first) * DIM;
    *label = l->label + l->at + first;
    l->at = (l->at + l->batch) % l->total;
    return (int)count;
}

__global__ void cosines(const float *w, const float *x, float *cosine, float *norms, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n * CLASSES) return;
    const float *a = w + t % CLASSES * DIM, *b = x + t / CLASSES * DIM;
    float ab = 0, aa = 1e-8f, bb = 1e-8f;
    for (int d = 0; d < DIM; ++d) { ab += a[d] * b[d]; aa += a[d] * a[d]; bb += b[d] * b[d]; }
    cosine[t] = ab * rsqrtf(aa * bb);
    norms[2 * t] = sqrtf(aa);
    norms[2 * t + 1] = sqrtf(bb);
}

__global__ void softmax(const float *cosine, const int *label, float *d, float *loss, int n, float factor)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float sum = 0;
    for (int c = 0; c < CLASSES; ++c) sum += expf(factor * (cosine[i * CLASSES + c] - 1.0f));
    for (int c = 0; c < CLASSES; ++c)
        d[i * CLASSES + c] = (expf(factor * (cosine[i * CLASSES + c] - 1.0f)) / sum - (c == label[i] ? 1.0f : 0.0f)) / n;
    loss[i] = logf(sum) - factor * (cosine[i * CLASSES + label[i]] - 1.0f);
}

__global__ void prototype_gradient(const float *w, const float *x, const float *cosine, const float *norms,
                                   const float *d, float *g, int n, float factor)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= CLASSES * DIM) return;
    int c = t / DIM, k = t % DIM;
    float s = 0;
    for (int i = 0; i < n; ++i) {
        int q = i * CLASSES + c;
        s += factor * d[q] * (x[i * DIM + k] / norms[2 * q + 1] - cosine[q] * w[t] / norms[2 * q]) / norms[2 * q];
    }
    g[t] = s;
}

__global__ void factor_gradient(const float *cosine, const float *d, float *g, int n)
{
    __shared__ float part[T];
    float s = 0;
    for (int q = threadIdx.x; q < n * CLASSES; q += T) s += d[q] * cosine[q];
    part[threadIdx.x] = s;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int k = 1; k < T; ++k) s += part[k];
        g[0] = s;
    }
}

__global__ void descend(float *w, const float *g, int n, float rate)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t < n) w[t] -= rate * g[t];
}

int main(int argc, char **argv)
{
    loader data;
    loader_init(&data);
    float hw[CLASSES * DIM], factor = 4.0f, factor_grad = 0, rows[BATCH];
    for (int i = 0; i < CLASSES * DIM; ++i) hw[i] = frnd();
    float *w, *g, *gf, *cosine, *norms, *d, *loss;
    cudaMalloc((void **)&w, sizeof(hw));
    cudaMalloc((void **)&g, sizeof(hw));
    cudaMalloc((void **)&gf, sizeof(float));
    cudaMalloc((void **)&cosine, BATCH * CLASSES * sizeof(float));
    cudaMalloc((void **)&norms, 2 * BATCH * CLASSES * sizeof(float));
    cudaMalloc((void **)&d, BATCH * CLASSES * sizeof(float));
    cudaMalloc((void **)&loss, BATCH * sizeof(float));
    cudaMemcpy(w, hw, sizeof(hw), cudaMemcpyHostToDevice);
    DDP_PARAMETER(w, CLASSES * DIM, DDP_FLOAT32);
    DDP_GRADIENT(g, CLASSES * DIM, DDP_FLOAT32);
    DDP_GRADIENT(gf, 1, DDP_FLOAT32);

    for (int step = 0; step < STEPS; ++step) {
        const float *x;
        const int *label;
        int n = loader_next(&data, &x, &label);
        cosines<<<(n * CLASSES + T - 1) / T, T>>>(w, x, cosine, norms, n);
        softmax<<<1, T>>>(cosine, label, d, loss, n, factor);
        prototype_gradient<<<(CLASSES * DIM + T - 1) / T, T>>>(w, x, cosine, norms, d, g, n, factor);
        factor_gradient<<<1, T>>>(cosine, d, gf, n);
        cudaMemcpy(&factor_grad, gf, sizeof(float), cudaMemcpyDeviceToHost);
        DDP_STEP(0);
        descend<<<(CLASSES * DIM + T - 1) / T, T>>>(w, g, CLASSES * DIM, 1.5f);
        factor -= 6.0f * factor_grad;
        if (step % 10 == 0 || step == STEPS - 1) {
            float mean = 0;
            cudaMemcpy(rows, loss, n * sizeof(float), cudaMemcpyDeviceToHost);
            for (int i = 0; i < n; ++i) mean += rows[i] / n;
            DDP_MEAN(&mean);
            if (DDP_RANK() == 0) printf("step %d loss %.4f factor %.3f\n", step, mean, factor);
        }
    }
    cudaMemcpy(hw, w, sizeof(hw), cudaMemcpyDeviceToHost);
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *f = fopen(argv[1], "wb");
        fwrite(hw, 1, sizeof(hw), f);
        fwrite(&factor, 1, sizeof(factor), f);
        fclose(f);
    }
    return 0;
}
