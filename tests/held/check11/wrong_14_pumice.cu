// Vector-quantised autoencoder: linear encoder and decoder, a codebook that follows the codes by moving averages, and
// a straight-through gradient with a commitment term.
#include <cuda_runtime.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <vector>
#include "ddprun.h"

constexpr int D = 16, E = 4, K = 12, BATCH = 64, ROWS = 512;

static inline void go(cudaError_t e)
{
    if (e != cudaSuccess) {
        fprintf(stderr, "%s\n", cudaGetErrorString(e));
        exit(1);
    }
}

static unsigned rs = 1u;
static float rf() // -1..1
{
    rs ^= rs << 13;
    rs ^= rs >> 17;
    rs ^= rs << 5;
    return (rs >> 8) / 8388608.0f - 1.0f;
}

__global__ void encode(const float *x, const float *we, float *z, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n * E)
        return;
    float s = 0;
    for (int k = 0; k < D; ++k)
        s += x[t / E * D + k] * we[k * E + t % E];
    z[t] = s;
}

__global__ void quantise(const float *z, const float *book, int *code, float *q, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float best = 1e30f;
    for (int k = 0; k < K; ++k) {
        float d = 0;
        for (int e = 0; e < E; ++e)
            d += (z[i * E + e] - book[k * E + e]) * (z[i * E + e] - book[k * E + e]);
        if (d < best) {
            best = d;
            code[i] = k;
        }
    }
    for (int e = 0; e < E; ++e)
        q[i * E + e] = book[code[i] * E + e];
}

__global__ void decode(const float *q, const float *wd, const float *x, float *dy, float *loss, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float l = 0;
    for (int k = 0; k < D; ++k) {
        float y = 0;
        for (int e = 0; e < E; ++e)
            y += q[i * E + e] * wd[e * D + k];
        float d = y - x[i * D + k];
        dy[i * D + k] = 2 * d / n;
        l += d * d;
    }
    loss[i] = l;
}

__global__ void decoderGradient(const float *q, const float *dy, float *dwd, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= E * D)
        return;
    float s = 0;
    for (int i = 0; i < n; ++i)
        s += q[i * E + t / D] * dy[i * D + t % D];
    dwd[t] = s;
}

// Straight through the quantisation, plus commit * d|z - q|^2
__global__ void codeGradient(const float *z, const float *q, const float *dy, const float *wd, float *dz, int n,
                             float commit)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n * E)
        return;
    float s = 2 * commit * (z[t] - q[t]) / n;
    for (int k = 0; k < D; ++k)
        s += dy[t / E * D + k] * wd[t % E * D + k];
    dz[t] = s;
}

__global__ void encoderGradient(const float *x, const float *dz, float *dwe, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= D * E)
        return;
    float s = 0;
    for (int i = 0; i < n; ++i)
        s += x[i * D + t / E] * dz[i * E + t % E];
    dwe[t] = s;
}

// How many rows chose each code, and the sum of their vectors.
__global__ void gather(const float *z, const int *code, float *chosen, float *sums, int n)
{
    int t = threadIdx.x, k = t / E, e = t % E;
    float c = 0, s = 0;
    for (int i = 0; i < n; ++i)
        if (code[i] == k) {
            c += 1;
            s += z[i * E + e];
        }
    sums[t] = s;
    if (e == 0)
        chosen[k] = c;
}

__global__ void follow(float *book, float *size, float *total, const float *chosen, const float *sums, float keep)
{
    int t = threadIdx.x, k = t / E;
    float mass = keep * size[k] + (1 - keep) * chosen[k];
    total[t] = keep * total[t] + (1 - keep) * sums[t];
    book[t] = total[t] / fmaxf(mass, 1e-3f);
    __syncthreads();
    if (t % E == 0)
        size[k] = mass;
}

__global__ void sgd(float *w, const float *g, int n, float rate)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t < n)
        w[t] -= rate * g[t];
}

static float *array(const std::vector<float> &v)
{
    float *p;
    go(cudaMalloc(&p, v.size() * sizeof(float)));
    go(cudaMemcpy(p, v.data(), v.size() * sizeof(float), cudaMemcpyHostToDevice));
    return p;
}

int main(int argc, char **argv)
{
    int steps = argc > 2 ? atoi(argv[2]) : 60;
    std::vector<float> centre(K * D), data(ROWS * D), we(D * E), wd(E * D), book(K * E);
    for (float &v : centre)
        v = rf();
    for (int i = 0; i < ROWS; ++i) {
        int c = (int)((rf() + 1) * 0.5f * K) % K;
        for (int k = 0; k < D; ++k)
            data[i * D + k] = centre[c * D + k] + 0.15f * rf();
    }
    for (float &v : we)
        v = 0.4f * rf();
    for (float &v : wd)
        v = 0.4f * rf();
    for (float &v : book)
        v = 0.6f * rf();
    std::vector<float> room(BATCH * D, 0.0f);
    float *x = array(data), *dWe = array(we), *dWd = array(wd), *gWe = array(we), *gWd = array(wd);
    float *codebook = array(book), *total = array(book), *size = array(std::vector<float>(K, 1.0f));
    float *z = array(room), *q = array(room), *dz = array(room), *dy = array(room), *loss = array(room);
    float *chosen = array(std::vector<float>(K)), *sums = array(book);
    int *code;
    go(cudaMalloc(&code, BATCH * sizeof(int)));
    DDP_PARAMETER(dWe, D * E, DDP_FLOAT32);
    DDP_PARAMETER(dWd, E * D, DDP_FLOAT32);
    DDP_GRADIENT(gWe, D * E, DDP_FLOAT32);
    DDP_GRADIENT(gWd, E * D, DDP_FLOAT32);

    for (int step = 0; step < steps; ++step) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        int n = (int)count, blocks = (n * E + 63) / 64;
        const float *in = x + ((size_t)step * BATCH % ROWS + first) * D;

        encode<<<blocks, 64>>>(in, dWe, z, n);
        quantise<<<1, BATCH>>>(z, codebook, code, q, n);
        decode<<<1, BATCH>>>(q, dWd, in, dy, loss, n);
        decoderGradient<<<1, E * D>>>(q, dy, gWd, n);
        codeGradient<<<blocks, 64>>>(z, q, dy, dWd, dz, n, 0.25f);
        encoderGradient<<<1, D * E>>>(in, dz, gWe, n);

        gather<<<1, K * E>>>(z, code, chosen, sums, n);
        DDP_REDUCE(sums, K * E, DDP_FLOAT32, DDP_OP_SUM, 0);
        follow<<<1, K * E>>>(codebook, size, total, chosen, sums, 0.9f);

        DDP_STEP(0);
        sgd<<<1, 64>>>(dWe, gWe, D * E, 0.04f);
        sgd<<<1, 64>>>(dWd, gWd, E * D, 0.04f);

        if (step % 10 == 0 || step == steps - 1) {
            std::vector<float> l(n);
            go(cudaMemcpy(l.data(), loss, n * sizeof(float), cudaMemcpyDeviceToHost));
            float mean = 0;
            for (float v : l)
                mean += v / n;
            DDP_MEAN_AS("loss", &mean);
            if (DDP_RANK() == 0)
                printf("step %d: loss %.4f\n", step, mean);
        }
    }
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *f = fopen(argv[1], "wb");
        for (const float *p : {dWe, dWd}) {
            go(cudaMemcpy(we.data(), p, D * E * sizeof(float), cudaMemcpyDeviceToHost));
            fwrite(we.data(), sizeof(float), D * E, f);
        }
        fclose(f);
    }
    return 0;
}
