/* Classifier of noisy 6x6 shapes that learns from the hardest quarter of a batch only. C, two layers, ReLU. */
#include <cuda_runtime.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "ddprun.h"

#define PIX 36
#define HID 18
#define CLS 4
#define BATCH 64
#define IMAGES 512
#define HARD_PART 4

struct model {
    float *w1, *w2, *g1, *g2, *m1, *m2;
};

static void die_if(int bad, const char *text)
{
    if (bad) {
        fprintf(stderr, "shapes: %s\n", text);
        exit(1);
    }
}

static float *dalloc(int n, float scale, unsigned *seed)
{
    float *p, *h = (float *)malloc(n * sizeof(float));
    for (int i = 0; i < n; ++i) {
        *seed = *seed * 69069u + 1u;
        h[i] = scale * ((*seed >> 8) / 8388608.0f - 1.0f);
    }
    die_if(cudaMalloc(&p, n * sizeof(float)) != cudaSuccess, "no memory");
    die_if(cudaMemcpy(p, h, n * sizeof(float), cudaMemcpyHostToDevice) != cudaSuccess, "copy");
    free(h);
    return p;
}

__global__ void forward(const float *x, const int *label, struct model m, float *h, float *p, float *loss, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float z[CLS], s = 0;
    for (int j = 0; j < HID; ++j) {
        float a = 0;
        for (int k = 0; k < PIX; ++k)
            a += x[i * PIX + k] * m.w1[k * HID + j];
        h[i * HID + j] = a > 0 ? a : 0;
    }
    for (int c = 0; c < CLS; ++c) {
        z[c] = 0;
        for (int j = 0; j < HID; ++j)
            z[c] += h[i * HID + j] * m.w2[j * CLS + c];
    }
    for (int c = 0; c < CLS; ++c)
        s += expf(z[c]);
    for (int c = 0; c < CLS; ++c)
        p[i * CLS + c] = expf(z[c]) / s;
    loss[i] = logf(s) - z[label[i]];
}

__global__ void output_error(float *p, const int *label, const float *use, int n)
{
    int id = blockIdx.x * blockDim.x + threadIdx.x;
    if (id < n * CLS)
        p[id] = (p[id] - (label[id / CLS] == id % CLS)) * use[id / CLS];
}

__global__ void backward2(const float *h, const float *e, float *g2, int n)
{
    int id = threadIdx.x;
    if (id >= HID * CLS)
        return;
    float s = 0;
    for (int i = 0; i < n; ++i)
        s += h[i * HID + id / CLS] * e[i * CLS + id % CLS];
    g2[id] = s;
}

__global__ void backward1(const float *x, const float *h, const float *e, struct model m, int n)
{
    int id = blockIdx.x * blockDim.x + threadIdx.x;
    if (id >= PIX * HID)
        return;
    int j = id % HID;
    float s = 0;
    for (int i = 0; i < n; ++i) {
        if (h[i * HID + j] <= 0)
            continue;
        float d = 0;
        for (int c = 0; c < CLS; ++c)
            d += e[i * CLS + c] * m.w2[j * CLS + c];
        s += d * x[i * PIX + id / HID];
    }
    m.g1[id] = s;
}

__global__ void sgd(float *w, const float *g, float *mom, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        mom[i] = 0.9f * mom[i] + g[i];
        w[i] -= 0.03f * (mom[i] + 1e-4f * w[i]);
    }
}

static float pictures[IMAGES * PIX], losses[BATCH], use[BATCH];
static int labels[IMAGES], order[BATCH];

static int harder(const void *a, const void *b)
{
    float x = losses[*(const int *)a], y = losses[*(const int *)b];
    return x < y ? 1 : x > y ? -1 : *(const int *)a - *(const int *)b;
}

int main(int argc, char **argv)
{
    unsigned seed = 5u;
    int steps = argc > 2 ? atoi(argv[2]) : 70, *dlabel;
    for (int i = 0; i < IMAGES; ++i) {
        labels[i] = i % CLS;
        for (int k = 0; k < PIX; ++k) {
            int r = k / 6, c = k % 6;
            int on = labels[i] == 0 ? r == 2 : labels[i] == 1 ? c == 3 : labels[i] == 2 ? r == c : r == 0 || r == 5 || c == 0 || c == 5;
            seed = seed * 69069u + 1u;
            pictures[i * PIX + k] = (float)on - 0.2f + 1.2f * ((seed >> 8) / 8388608.0f - 1.0f);
        }
    }
    struct model m;
    m.w1 = dalloc(PIX * HID, 0.2f, &seed);
    m.w2 = dalloc(HID * CLS, 0.3f, &seed);
    m.g1 = dalloc(PIX * HID, 0, &seed);
    m.g2 = dalloc(HID * CLS, 0, &seed);
    m.m1 = dalloc(PIX * HID, 0, &seed);
    m.m2 = dalloc(HID * CLS, 0, &seed);
    float *x = dalloc(BATCH * PIX, 0, &seed), *h = dalloc(BATCH * HID, 0, &seed), *p = dalloc(BATCH * CLS, 0, &seed);
    float *dloss = dalloc(BATCH, 0, &seed), *duse = dalloc(BATCH, 0, &seed);
    die_if(cudaMalloc(&dlabel, BATCH * sizeof(int)) != cudaSuccess, "no memory");
    DDP_PARAMETER(m.w1, PIX * HID, DDP_FLOAT32);
    DDP_PARAMETER(m.w2, HID * CLS, DDP_FLOAT32);
    DDP_GRADIENT(m.g1, PIX * HID, DDP_FLOAT32);
    DDP_GRADIENT(m.g2, HID * CLS, DDP_FLOAT32);

    for (int step = 0; step < steps; ++step) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        int at = step * BATCH % IMAGES + (int)first, n = (int)count;
        cudaMemcpy(x, pictures + at * PIX, n * PIX * sizeof(float), cudaMemcpyHostToDevice);
        cudaMemcpy(dlabel, labels + at, n * sizeof(int), cudaMemcpyHostToDevice);
        forward<<<1, BATCH>>>(x, dlabel, m, h, p, dloss, n);
        cudaMemcpy(losses, dloss, n * sizeof(float), cudaMemcpyDeviceToHost);
        int hard = n / HARD_PART;
        for (int i = 0; i < n; ++i)
            order[i] = i, use[i] = 0;
        qsort(order, n, sizeof(int), harder);
        for (int i = 0; i < hard; ++i)
            use[order[i]] = 1.0f / hard;
        cudaMemcpy(duse, use, n * sizeof(float), cudaMemcpyHostToDevice);
        output_error<<<(n * CLS + 63) / 64, 64>>>(p, dlabel, duse, n);
        backward2<<<1, 128>>>(h, p, m.g2, n);
        backward1<<<(PIX * HID + 63) / 64, 64>>>(x, h, p, m, n);
        DDP_STEP(0);
        sgd<<<(PIX * HID + 63) / 64, 64>>>(m.w1, m.g1, m.m1, PIX * HID);
        sgd<<<2, 64>>>(m.w2, m.g2, m.m2, HID * CLS);
        float mean = 0;
        for (int i = 0; i < n; ++i)
            mean += losses[i] / n;
        DDP_MEAN_AS("loss", &mean);
        if (step % 10 == 0 && DDP_RANK() == 0)
            printf("step %d loss %.4f\n", step, mean);
    }
    if (argc > 1 && DDP_RANK() == 0) {
        static float out[PIX * HID + HID * CLS];
        cudaMemcpy(out, m.w1, PIX * HID * sizeof(float), cudaMemcpyDeviceToHost);
        cudaMemcpy(out + PIX * HID, m.w2, HID * CLS * sizeof(float), cudaMemcpyDeviceToHost);
        FILE *f = fopen(argv[1], "wb");
        fwrite(out, sizeof out, 1, f);
        fclose(f);
    }
    die_if(cudaDeviceSynchronize() != cudaSuccess, "device");
    return 0;
}
