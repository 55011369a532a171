// Tagger for padded sequences: window of embeddings, linear tags, loss over the tokens that are not padding.
#include <cuda_runtime.h>
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <vector>
#include "ddprun.h"

constexpr int V = 40, E = 10, T = 14, TAGS = 5, SEQS = 24, CORPUS = 480, W = 3;
constexpr int N_EMB = V * E, N_OUT = W * E * TAGS + TAGS;

class Rng {
    unsigned a = 123456789u, b = 362436069u, c = 521288629u;
public:
    unsigned bits() { unsigned t; a ^= a << 16; a ^= a >> 5; a ^= a << 1; t = a; a = b; b = c; c = t ^ a ^ b; return c; }
    int below(int n) { return (int)(bits() % (unsigned)n); }
    float sym() { return bits() / 2147483648.0f - 1.0f; }
};

__device__ int word_at(const int *tok, int s, int t) { return t < 0 || t >= T ? 0 : tok[s * T + t]; }

__global__ void tag_forward(const float *emb, const float *out, const int *tok, const int *tag, float *dz, float *nll, int seqs)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= seqs * T) return;
    int s = i / T, t = i % T;
    float z[TAGS], top = -1e30f, sum = 0;
    nll[i] = 0;
    for (int g = 0; g < TAGS; ++g) dz[i * TAGS + g] = 0;
    if (tok[i] == 0) return;
    for (int g = 0; g < TAGS; ++g) {
        z[g] = out[W * E * TAGS + g];
        for (int w = 0; w < W; ++w) {
            const float *e = emb + word_at(tok, s, t + w - 1) * E;
            for (int k = 0; k < E; ++k) z[g] += e[k] * out[(w * E + k) * TAGS + g];
        }
        top = fmaxf(top, z[g]);
    }
    for (int g = 0; g < TAGS; ++g) sum += expf(z[g] - top);
    for (int g = 0; g < TAGS; ++g) dz[i * TAGS + g] = expf(z[g] - top) / sum - (g == tag[i]);
    nll[i] = logf(sum) + top - z[tag[i]];
}

__global__ void output_gradient(const float *emb, const int *tok, const float *dz, float *g, int seqs, float scale)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= N_OUT) return;
    float a = 0;
    int gtag = i % TAGS, w = i / TAGS / E, k = i / TAGS % E;
    for (int p = 0; p < seqs * T; ++p) {
        float in = i < W * E * TAGS ? emb[word_at(tok, p / T, p % T + w - 1) * E + k] : 1.0f;
        a += in * dz[p * TAGS + (i < W * E * TAGS ? gtag : i - W * E * TAGS)];
    }
    g[i] = a * scale;
}

__global__ void embedding_gradient(const float *out, const int *tok, const float *dz, float *g, int seqs, float scale)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= N_EMB) return;
    int word = i / E, k = i % E;
    float a = 0;
    for (int p = 0; p < seqs * T; ++p)
        for (int w = 0; w < W; ++w)
            if (word_at(tok, p / T, p % T + w - 1) == word)
                for (int t = 0; t < TAGS; ++t) a += dz[p * TAGS + t] * out[(w * E + k) * TAGS + t];
    g[i] = word == 0 ? 0.0f : a * scale;
}

__global__ void sgd_decay(float *w, const float *g, int n, float rate, float decay)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) w[i] -= rate * (g[i] + decay * w[i]);
}

int main(int argc, char **argv)
{
    int steps = argc > 2 ? atoi(argv[2]) : 60;
    Rng rng;
    std::vector<int> tok(CORPUS * T, 0), tag(CORPUS * T, 0);
    for (int s = 0; s < CORPUS; ++s) {
        int len = 3 + rng.below(T - 3);
        for (int t = 0; t < len; ++t) tok[s * T + t] = 1 + rng.below(V - 1);
        for (int t = 0; t < len; ++t) {
            int left = t ? tok[s * T + t - 1] : 0;
            tag[s * T + t] = rng.below(10) == 0 ? rng.below(TAGS) : (tok[s * T + t] % TAGS + (left % 4 == 1)) % TAGS;
        }
    }
    std::vector<float> he(N_EMB), ho(N_OUT, 0.0f);
    for (int i = E; i < N_EMB; ++i) he[i] = rng.sym();
    for (int i = 0; i < W * E * TAGS; ++i) ho[i] = 0.3f * rng.sym();

    float *emb, *out, *g_emb, *g_out, *dz, *nll;
    int *dtok, *dtag;
    cudaMalloc(&emb, N_EMB * 4); cudaMalloc(&out, N_OUT * 4);
    cudaMalloc(&g_emb, N_EMB * 4); cudaMalloc(&g_out, N_OUT * 4);
    cudaMalloc(&dz, SEQS * T * TAGS * 4); cudaMalloc(&nll, SEQS * T * 4);
    cudaMalloc(&dtok, tok.size() * 4); cudaMalloc(&dtag, tag.size() * 4);
    cudaMemcpy(emb, he.data(), N_EMB * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(out, ho.data(), N_OUT * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(dtok, tok.data(), tok.size() * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(dtag, tag.data(), tag.size() * 4, cudaMemcpyHostToDevice);
    DDP_PARAMETER(emb, N_EMB, DDP_FLOAT32);
    DDP_PARAMETER(out, N_OUT, DDP_FLOAT32);
    DDP_GRADIENT(g_emb, N_EMB, DDP_FLOAT32);
    DDP_GRADIENT(g_out, N_OUT, DDP_FLOAT32);

    std::vector<float> l(SEQS * T);
    for (int step = 0; step < steps; ++step) {
        size_t first, count;
        DDP_SHARD(SEQS, &first, &count);
        const int seqs = (int)count, at = step * SEQS % CORPUS + (int)first;
        int valid = 0;
        for (int p = at * T; p < (at + seqs) * T; ++p) valid += tok[p] != 0;
        DDP_REDUCE(&valid, 1, DDP_INT32, DDP_OP_SUM, 0);
        const int *bt = dtok + at * T, *bg = dtag + at * T;
        tag_forward<<<(seqs * T + 31) / 32, 32>>>(emb, out, bt, bg, dz, nll, seqs);
        output_gradient<<<(N_OUT + 31) / 32, 32>>>(emb, bt, dz, g_out, seqs, 1.0f / valid);
        embedding_gradient<<<(N_EMB + 31) / 32, 32>>>(out, bt, dz, g_emb, seqs, 1.0f / valid);
        DDP_STEP(0);
        sgd_decay<<<(N_EMB + 31) / 32, 32>>>(emb, g_emb, N_EMB, 1.5f, 1e-4f);
        sgd_decay<<<(N_OUT + 31) / 32, 32>>>(out, g_out, N_OUT, 1.5f, 1e-4f);
        if (step % 10 == 0 || step == steps - 1) {
            cudaMemcpy(l.data(), nll, seqs * T * 4, cudaMemcpyDeviceToHost);
            float sum = 0;
            for (int p = 0; p < seqs * T; ++p) sum += l[p];
            DDP_REDUCE(&sum, 1, DDP_FLOAT32, DDP_OP_SUM, 0);
            if (DDP_RANK() == 0) printf("step %d: %.4f per token\n", step, sum / valid);
        }
    }
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *f = fopen(argv[1], "w");
        cudaMemcpy(he.data(), emb, N_EMB * 4, cudaMemcpyDeviceToHost);
        cudaMemcpy(ho.data(), out, N_OUT * 4, cudaMemcpyDeviceToHost);
        for (float e : he) fprintf(f, "%.9g\n", e);
        for (float e : ho) fprintf(f, "%.9g\n", e);
        fclose(f);
    }
    return 0;
}
