/* Tags the words of sentences of different lengths; padding does not count. Class scores from a window of three words. */
#include <cuda_runtime.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "ddprun.h"

#define WORDS 50
#define TAGS 5
#define PAD (-1)
#define LEN 10
#define BATCH 14
#define SENT 210
#define NPAR (3 * (WORDS + 1) * TAGS)

#define A(x) do { if ((x) != cudaSuccess) { fprintf(stderr, "cuda failed, line %d\n", __LINE__); exit(1); } } while (0)

__device__ int word_at(const int *w, int pos, int off)
{
    int p = pos % LEN + off;
    if (p < 0 || p >= LEN || w[pos + off] == PAD) return WORDS;
    return w[pos + off];
}

__global__ void scores(const int *w, const int *tag, const float *par, const float *drop, float *dz, float *loss, int n, float scale)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    loss[i] = 0;
    for (int t = 0; t < TAGS; ++t) dz[i * TAGS + t] = 0;
    if (w[i] == PAD) return;
    float z[TAGS], top = -1e30f, sum = 0;
    for (int t = 0; t < TAGS; ++t) {
        z[t] = 0;
        for (int o = 0; o < 3; ++o) z[t] += par[(o * (WORDS + 1) + word_at(w, i, o - 1)) * TAGS + t] * drop[i * 3 + o];
        top = fmaxf(top, z[t]);
    }
    for (int t = 0; t < TAGS; ++t) sum += expf(z[t] - top);
    for (int t = 0; t < TAGS; ++t) dz[i * TAGS + t] = (expf(z[t] - top) / sum - (t == tag[i])) * scale;
    loss[i] = top + logf(sum) - z[tag[i]];
}

__global__ void slopes(const int *w, const float *dz, const float *drop, const float *par, float *g, float decay, int n)
{
    int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= NPAR) return;
    int t = k % TAGS, word = k / TAGS % (WORDS + 1), o = k / TAGS / (WORDS + 1);
    float a = 0;
    for (int i = 0; i < n; ++i)
        if (w[i] != PAD && word_at(w, i, o - 1) == word) a += dz[i * TAGS + t] * drop[i * 3 + o];
    g[k] = a + decay * par[k];
}

__global__ void norm2(const float *g, float *out)
{
    __shared__ float part[128];
    float a = 0;
    for (int k = threadIdx.x; k < NPAR; k += 128) a += g[k] * g[k];
    part[threadIdx.x] = a;
    __syncthreads();
    for (int half = 64; half > 0; half /= 2) {
        if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) *out = part[0];
}

__global__ void rms_step(float *par, const float *g, float *ms, const float *n2, float lr)
{
    int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= NPAR) return;
    float c = g[k] * fminf(1.0f, 0.1f / (sqrtf(*n2) + 1e-8f));
    ms[k] = 0.95f * ms[k] + 0.05f * c * c;
    par[k] -= lr * c / (sqrtf(ms[k]) + 1e-3f);
}

static unsigned code(unsigned a, unsigned b)
{
    unsigned h = a * 2654435761u + b * 40503u + 97u;
    h ^= h >> 13; h *= 0x5bd1e995u; h ^= h >> 15; h *= 0x27d4eb2du;
    return h ^ (h >> 16);
}

int main(int argc, char **argv)
{
    static int word[SENT * LEN], tag[SENT * LEN], valid[SENT];
    static float par[NPAR], drop[BATCH * LEN * 3], hl[BATCH * LEN];
    for (int s = 0; s < SENT; ++s) {
        valid[s] = 2 + code(s, 1) % (LEN - 1);
        for (int p = 0; p < LEN; ++p) word[s * LEN + p] = p < valid[s] ? (int)(code(s, 100 + p) % WORDS) : PAD;
        for (int p = 0; p < LEN; ++p) {
            int left = p > 0 ? word[s * LEN + p - 1] : 7;
            tag[s * LEN + p] = p < valid[s] ? (word[s * LEN + p] % 3 + (left > 25 ? 2 : 0)) % TAGS : 0;
        }
    }
    for (int k = 0; k < NPAR; ++k) par[k] = (code(k, 5) % 1000 / 1000.0f - 0.5f) * 0.2f;
    int *dw, *dt;
    float *dp, *g, *ms, *dd, *dz, *loss, *n2;
    A(cudaMalloc((void **)&dw, sizeof word)); A(cudaMalloc((void **)&dt, sizeof tag));
    A(cudaMalloc((void **)&dp, sizeof par)); A(cudaMalloc((void **)&g, sizeof par)); A(cudaMalloc((void **)&ms, sizeof par));
    A(cudaMalloc((void **)&dd, sizeof drop)); A(cudaMalloc((void **)&dz, BATCH * LEN * TAGS * 4));
    A(cudaMalloc((void **)&loss, sizeof hl)); A(cudaMalloc((void **)&n2, 4));
    A(cudaMemcpy(dw, word, sizeof word, cudaMemcpyHostToDevice));
    A(cudaMemcpy(dt, tag, sizeof tag, cudaMemcpyHostToDevice));
    A(cudaMemcpy(dp, par, sizeof par, cudaMemcpyHostToDevice));
    A(cudaMemset(ms, 0, sizeof par));
    DDP_PARAMETER(dp, NPAR, DDP_FLOAT32);
    DDP_GRADIENT(g, NPAR, DDP_FLOAT32);

    for (int it = 0; it < 75; ++it) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        size_t base = (size_t)it * BATCH % SENT, at = base + first, all = 0, mine = 0;
        for (size_t s = 0; s < BATCH; ++s) {
            all += valid[base + s];
            if (s >= first && s < first + count) mine += valid[base + s];
        }
        DDP_WEIGHT(mine, all);
        int n = (int)count * LEN;
        for (int i = 0; i < n * 3; ++i) drop[i] = code(it + 1000, (unsigned)(at * LEN * 3) + i) % 10 < 9 ? 1 / 0.9f : 0.0f;
        A(cudaMemcpy(dd, drop, n * 3 * sizeof(float), cudaMemcpyHostToDevice));
        scores<<<(n + 63) / 64, 64>>>(dw + at * LEN, dt + at * LEN, dp, dd, dz, loss, n, 1.0f / mine);
        slopes<<<(NPAR + 127) / 128, 128>>>(dw + at * LEN, dz, dd, dp, g, 1e-3f, n);
        DDP_STEP(0);
        norm2<<<1, 128>>>(g, n2);
        rms_step<<<(NPAR + 127) / 128, 128>>>(dp, g, ms, n2, 0.03f);
        if (it % 25 == 0 || it == 74) {
            float m = 0;
            A(cudaMemcpy(hl, loss, n * sizeof(float), cudaMemcpyDeviceToHost));
            for (int i = 0; i < n; ++i) m += hl[i] / mine;
            if (DDP_RANK() == 0) printf("%d: %.4f\n", it, m);
        }
    }
    A(cudaMemcpy(par, dp, sizeof par, cudaMemcpyDeviceToHost));
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *f = fopen(argv[1], "wb");
        fwrite(par, sizeof par, 1, f);
        fclose(f);
    }
    return 0;
}
