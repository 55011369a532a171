// Predicts the next character of short words from the two characters before it. Words are padded to one length;
// the padding does not count. Words of a batch come longest first. AdamW.
#include <cuda_runtime.h>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>
#include "ddprun.h"

static const int V = 20, E = 8, H = 32, T = 10, BATCH = 24, WORDS = 480, PAD = 0;

#define CU(x)                                                                        \
    if (cudaError_t e_ = (x)) {                                                      \
        std::fprintf(stderr, "%d: %s\n", __LINE__, cudaGetErrorString(e_));          \
        std::exit(1);                                                                \
    }

struct Lcg {
    unsigned s;
    unsigned draw() { return (s = s * 1103515245u + 12345u) >> 12; }
    float real() { return (draw() & 0xfffff) / 1048576.0f; }
};

// Parameter tensors with their gradients and moments.
struct Tensor {
    float *p, *g, *m, *v;
    int n;
    Tensor(int count, float scale, Lcg &r) : n(count)
    {
        std::vector<float> host(n);
        for (auto &h : host)
            h = scale * (2 * r.real() - 1);
        for (float **q : {&p, &g, &m, &v}) {
            CU(cudaMalloc(q, n * sizeof(float)));
            CU(cudaMemset(*q, 0, n * sizeof(float)));
        }
        CU(cudaMemcpy(p, host.data(), n * sizeof(float), cudaMemcpyHostToDevice));
        DDP_PARAMETER(p, n, DDP_FLOAT32);
        DDP_STATE(m, n, DDP_FLOAT32);
        DDP_STATE(v, n, DDP_FLOAT32);
        DDP_GRADIENT(g, n, DDP_FLOAT32);
    }
};

__device__ int charAt(const int *tok, int word, int pos) { return pos < 0 ? PAD : tok[word * T + pos]; }

// hidden[row][j], row = word * T + position of the character to predict
__global__ void forwardHidden(const int *tok, const float *emb, const float *w, const float *b, float *hid, int rows)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= rows * H)
        return;
    int row = t / H, j = t % H, word = row / T, pos = row % T;
    float s = b[j];
    for (int c = 0; c < 2; ++c) {
        const float *e = emb + charAt(tok, word, pos - 1 - c) * E;
        for (int k = 0; k < E; ++k)
            s += e[k] * w[(c * E + k) * H + j];
    }
    hid[t] = tanhf(s);
}

__global__ void forwardLoss(const int *tok, const float *hid, const float *w, const float *b, float *dz, float *loss,
                            int rows, float scale)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows)
        return;
    int want = tok[row];
    float z[V], top = -1e30f, sum = 0;
    for (int c = 0; c < V; ++c) {
        z[c] = b[c];
        for (int j = 0; j < H; ++j)
            z[c] += hid[row * H + j] * w[j * V + c];
        top = fmaxf(top, z[c]);
    }
    for (int c = 0; c < V; ++c)
        sum += expf(z[c] - top);
    float keep = want == PAD ? 0.0f : scale;
    loss[row] = keep * (logf(sum) + top - z[want]);
    for (int c = 0; c < V; ++c)
        dz[row * V + c] = keep * (expf(z[c] - top) / sum - (c == want));
}

__global__ void backwardOut(const float *hid, const float *dz, float *dw, float *db, int rows)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= (H + 1) * V)
        return;
    int j = t / V, c = t % V;
    float s = 0;
    for (int r = 0; r < rows; ++r)
        s += (j < H ? hid[r * H + j] : 1.0f) * dz[r * V + c];
    (j < H ? dw : db - H * V)[t] = s;
}

__global__ void backwardHidden(const float *hid, const float *dz, const float *w, float *dhid, int rows)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= rows * H)
        return;
    float s = 0;
    for (int c = 0; c < V; ++c)
        s += dz[(t / H) * V + c] * w[(t % H) * V + c];
    dhid[t] = s * (1 - hid[t] * hid[t]);
}

__global__ void backwardIn(const int *tok, const float *emb, const float *dhid, float *dw, float *db, int rows)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= (2 * E + 1) * H)
        return;
    int k = t / H, j = t % H;
    float s = 0;
    for (int r = 0; r < rows; ++r)
        s += (k < 2 * E ? emb[charAt(tok, r / T, r % T - 1 - k / E) * E + k % E] : 1.0f) * dhid[r * H + j];
    (k < 2 * E ? dw : db - 2 * E * H)[t] = s;
}

__global__ void backwardEmb(const int *tok, const float *w, const float *dhid, float *demb, int rows)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= V * E)
        return;
    float s = 0;
    for (int r = 0; r < rows; ++r)
        for (int c = 0; c < 2; ++c)
            if (charAt(tok, r / T, r % T - 1 - c) == t / E)
                for (int j = 0; j < H; ++j)
                    s += dhid[r * H + j] * w[(c * E + t % E) * H + j];
    demb[t] = s;
}

__global__ void adamw(float *p, float *m, float *v, const float *g, int n, float lr, float c1, float c2)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    m[i] = 0.9f * m[i] + 0.1f * g[i];
    v[i] = 0.98f * v[i] + 0.02f * g[i] * g[i];
    p[i] -= lr * (m[i] / c1 / (sqrtf(v[i] / c2) + 1e-6f) + 0.01f * p[i]);
}

static int grid(int n) { return (n + 63) / 64; }

int main(int argc, char **argv)
{
    int steps = argc > 2 ? std::atoi(argv[2]) : 60;
    // Words: vowels (1..5) and consonants take turns, with favourite followers; 2 to 9 characters and an end mark.
    Lcg r{777};
    std::vector<std::vector<int>> words(WORDS);
    for (auto &w : words) {
        int length = 2 + r.draw() % 8, last = 6 + r.draw() % 13;
        for (int i = 0; i < length; ++i) {
            w.push_back(last);
            last = last > 5 ? 1 + (last + r.draw() % 2) % 5 : 6 + (last * 3 + r.draw() % 3) % 13;
        }
        w.push_back(V - 1);
    }
    for (int b = 0; b < WORDS; b += BATCH)
        std::stable_sort(words.begin() + b, words.begin() + b + BATCH,
                         [](const std::vector<int> &a, const std::vector<int> &c) { return a.size() > c.size(); });

    Tensor emb(V * E, 0.5f, r), w1(2 * E * H, 0.3f, r), b1(H, 0, r), w2(H * V, 0.2f, r), b2(V, 0, r);
    std::vector<Tensor *> all{&emb, &w1, &b1, &w2, &b2};
    int *tok;
    float *hid, *dhid, *dz, *loss;
    CU(cudaMalloc(&tok, BATCH * T * sizeof(int)));
    CU(cudaMalloc(&hid, BATCH * T * H * sizeof(float)));
    CU(cudaMalloc(&dhid, BATCH * T * H * sizeof(float)));
    CU(cudaMalloc(&dz, BATCH * T * V * sizeof(float)));
    CU(cudaMalloc(&loss, BATCH * T * sizeof(float)));

    for (int step = 0; step < steps; ++step) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        int rows = (int)count * T, real = 0;
        std::vector<int> host(rows, PAD);
        for (size_t i = 0; i < count; ++i) {
            const auto &w = words[(size_t)step * BATCH % WORDS + first + i];
            std::copy(w.begin(), w.end(), host.begin() + i * T);
            real += (int)w.size();
        }
        CU(cudaMemcpy(tok, host.data(), rows * sizeof(int), cudaMemcpyHostToDevice));

        float scale = 1.0f / real;
        forwardHidden<<<grid(rows * H), 64>>>(tok, emb.p, w1.p, b1.p, hid, rows);
        forwardLoss<<<grid(rows), 64>>>(tok, hid, w2.p, b2.p, dz, loss, rows, scale);
        backwardOut<<<grid((H + 1) * V), 64>>>(hid, dz, w2.g, b2.g, rows);
        backwardHidden<<<grid(rows * H), 64>>>(hid, dz, w2.p, dhid, rows);
        backwardIn<<<grid((2 * E + 1) * H), 64>>>(tok, emb.p, dhid, w1.g, b1.g, rows);
        backwardEmb<<<grid(V * E), 64>>>(tok, w1.p, dhid, emb.g, rows);
        DDP_STEP(0);
        for (Tensor *t : all)
            adamw<<<grid(t->n), 64>>>(t->p, t->m, t->v, t->g, t->n, 0.01f, 1 - powf(0.9f, step + 1.0f),
                                      1 - powf(0.98f, step + 1.0f));

        if (step % 10 == 0 || step + 1 == steps) {
            std::vector<float> l(rows);
            CU(cudaMemcpy(l.data(), loss, rows * sizeof(float), cudaMemcpyDeviceToHost));
            float total = 0;
            for (float x : l)
                total += x;
            DDP_MEAN(&total);
            if (DDP_RANK() == 0)
                std::printf("%d: loss per character %.4f\n", step, total);
        }
    }
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *f = std::fopen(argv[1], "wb");
        for (Tensor *t : all) {
            std::vector<float> out(t->n);
            CU(cudaMemcpy(out.data(), t->p, t->n * sizeof(float), cudaMemcpyDeviceToHost));
            std::fwrite(out.data(), sizeof(float), t->n, f);
        }
        std::fclose(f);
    }
    return 0;
}
