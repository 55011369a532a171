// One transformer block that learns to continue a text, letter by letter. Layer norm before attention and before the
// feed forward part; AdamW with warm-up.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>
#include <cuda_runtime.h>

static const int B = 20, T = 12, C = 16, HEADS = 2, F = 40, STEPS = 70;

struct Tensor {
    const char *name;
    int size;
    float *w, *g, *m, *v;
};
static std::vector<Tensor> tensors;
enum { TOK, POS, LN1, QKV, PROJ, LN2, UP, UPB, DOWN, DOWNB, HEAD };

#define LAUNCH(k, n, ...) k<<<((n) + 127) / 128, 128>>>(__VA_ARGS__)

static void gpu(cudaError_t e) {
    if (e != cudaSuccess) {
        fprintf(stderr, "CUDA: %s\n", cudaGetErrorString(e));
        exit(1);
    }
}

static float *buffer(size_t n) {
    float *p;
    gpu(cudaMalloc(&p, n * sizeof(float)));
    gpu(cudaMemset(p, 0, n * sizeof(float)));
    return p;
}

static unsigned long long lcg = 88172645463325252ull;
static unsigned roll() {
    lcg = lcg * 6364136223846793005ull + 1442695040888963407ull;
    return (unsigned)(lcg >> 33);
}

static void tensor(const char *name, int size, float scale, float fill = 0.f) {
    Tensor t{name, size, buffer(size), buffer(size), buffer(size), buffer(size)};
    std::vector<float> h(size, fill);
    if (scale > 0.f)
        for (float &x : h) x = scale * ((roll() % 2001) / 1000.f - 1.f);
    gpu(cudaMemcpy(t.w, h.data(), size * sizeof(float), cudaMemcpyHostToDevice));
    tensors.push_back(t);
}

// tok has T + 1 letters a row: inputs are the first T, targets the last T
__global__ void embed(const int *tok, const float *te, const float *pe, float *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * C) return;
    int c = i % C, r = i / C, t = r % T, b = r / T;
    x[i] = te[tok[b * (T + 1) + t] * C + c] + pe[t * C + c];
}
__global__ void embed_back(const int *tok, const float *dx, float *dte, float *dpe, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * C) return;
    int c = i % C, r = i / C, t = r % T, b = r / T;
    atomicAdd(dte + tok[b * (T + 1) + t] * C + c, dx[i]);
    atomicAdd(dpe + t * C + c, dx[i]);
}
__global__ void norm(const float *x, const float *gain, float *xhat, float *y, float *rstd, int n) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= n) return;
    float mean = 0.f, var = 0.f;
    for (int c = 0; c < C; ++c) mean += x[r * C + c] / C;
    for (int c = 0; c < C; ++c) var += (x[r * C + c] - mean) * (x[r * C + c] - mean) / C;
    rstd[r] = rsqrtf(var + 1e-5f);
    for (int c = 0; c < C; ++c) {
        xhat[r * C + c] = (x[r * C + c] - mean) * rstd[r];
        y[r * C + c] = xhat[r * C + c] * gain[c];
    }
}
// adds to dx, which holds the gradient of the residual path
__global__ void norm_back(const float *dy, const float *xhat, const float *rstd, const float *gain, float *dgain, float *dx, int n) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= n) return;
    float a = 0.f, b = 0.f;
    for (int c = 0; c < C; ++c) {
        float d = dy[r * C + c] * gain[c];
        a += d / C;
        b += d * xhat[r * C + c] / C;
        atomicAdd(dgain + c, dy[r * C + c] * xhat[r * C + c]);
    }
    for (int c = 0; c < C; ++c) dx[r * C + c] += (dy[r * C + c] * gain[c] - a - xhat[r * C + c] * b) * rstd[r];
}
// y = x W + bias + skip, the last two if not null
__global__ void mul(const float *x, const float *w, const float *bias, const float *skip, float *y, int n, int in, int out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * out) return;
    int r = i / out, o = i % out;
    float s = (bias ? bias[o] : 0.f) + (skip ? skip[i] : 0.f);
    for (int k = 0; k < in; ++k) s += x[r * in + k] * w[k * out + o];
    y[i] = s;
}
__global__ void mul_back(const float *dy, const float *w, float *dx, int n, int in, int out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * in) return;
    int r = i / in, k = i % in;
    float s = 0.f;
    for (int o = 0; o < out; ++o) s += dy[r * out + o] * w[k * out + o];
    dx[i] = s;
}
__global__ void mul_grad(const float *x, const float *dy, float *dw, float *db, int n, int in, int out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= in * out) return;
    int k = i / out, o = i % out;
    float s = 0.f, sb = 0.f;
    for (int r = 0; r < n; ++r) {
        s += x[r * in + k] * dy[r * out + o];
        sb += dy[r * out + o];
    }
    dw[i] = s;
    if (db && k == 0) db[o] = sb;
}
// one thread for each head and row of queries
__global__ void attention(const float *qkv, float *att, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * HEADS) return;
    const int D = C / HEADS, h = i % HEADS, r = i / HEADS, t = r % T, first = r - t;
    float *a = att + i * T, z = 0.f;
    for (int s = 0; s <= t; ++s) {
        float dot = 0.f;
        for (int d = 0; d < D; ++d) dot += qkv[r * 3 * C + h * D + d] * qkv[(first + s) * 3 * C + C + h * D + d];
        z += a[s] = expf(dot * rsqrtf((float)D));
    }
    for (int s = 0; s <= t; ++s) a[s] /= z;
    for (int d = 0; d < D; ++d) {
        float sum = 0.f;
        for (int s = 0; s <= t; ++s) sum += a[s] * qkv[(first + s) * 3 * C + 2 * C + h * D + d];
        y[r * C + h * D + d] = sum;
    }
}
__global__ void attention_back(const float *qkv, const float *att, const float *dy, float *dqkv, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * HEADS) return;
    const int D = C / HEADS, h = i % HEADS, r = i / HEADS, t = r % T, first = r - t;
    const float *a = att + i * T, *d = dy + r * C + h * D;
    float da[T], sum = 0.f;
    for (int s = 0; s <= t; ++s) {
        da[s] = 0.f;
        for (int e = 0; e < D; ++e) {
            da[s] += d[e] * qkv[(first + s) * 3 * C + 2 * C + h * D + e];
            atomicAdd(dqkv + (first + s) * 3 * C + 2 * C + h * D + e, a[s] * d[e]);
        }
        sum += a[s] * da[s];
    }
    for (int s = 0; s <= t; ++s) {
        float ds = a[s] * (da[s] - sum) * rsqrtf((float)D);
        for (int e = 0; e < D; ++e) {
            atomicAdd(dqkv + r * 3 * C + h * D + e, ds * qkv[(first + s) * 3 * C + C + h * D + e]);
            atomicAdd(dqkv + (first + s) * 3 * C + C + h * D + e, ds * qkv[r * 3 * C + h * D + e]);
        }
    }
}
__global__ void gelu(const float *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] / (1.f + expf(-1.702f * x[i]));
}
__global__ void gelu_back(const float *x, float *d, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float s = 1.f / (1.f + expf(-1.702f * x[i]));
    d[i] *= s + 1.702f * x[i] * s * (1.f - s);
}
__global__ void cross_entropy(const float *logits, const int *tok, float *d, float *loss, int n, int vocab) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= n) return;
    const int want = tok[r / T * (T + 1) + r % T + 1];
    float hi = -1e30f, z = 0.f;
    for (int o = 0; o < vocab; ++o) hi = fmaxf(hi, logits[r * vocab + o]);
    for (int o = 0; o < vocab; ++o) z += expf(logits[r * vocab + o] - hi);
    for (int o = 0; o < vocab; ++o) d[r * vocab + o] = (expf(logits[r * vocab + o] - hi) / z - (o == want)) / n;
    atomicAdd(loss, (logf(z) + hi - logits[r * vocab + want]) / n);
}
__global__ void adamw(float *w, const float *g, float *m, float *v, int n, float lr, float decay, float c1, float c2) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    m[i] = 0.9f * m[i] + 0.1f * g[i];
    v[i] = 0.99f * v[i] + 0.01f * g[i] * g[i];
    w[i] -= lr * (m[i] / c1 / (sqrtf(v[i] / c2) + 1e-8f) + decay * w[i]);
}

int main() {
    std::string text, letters;
    const char *words[] = {"the ", "cat ", "sat ", "on ", "a ", "mat. ", "dog ", "ran ", "to ", "hill. "};
    while (text.size() < 1500) text += words[roll() % 10];
    for (char c : text)
        if (letters.find(c) == std::string::npos) letters += c;
    const int V = letters.size(), n = B * T;

    tensor("token", V * C, 0.1f); tensor("position", T * C, 0.1f); tensor("norm1", C, 0.f, 1.f); tensor("qkv", C * 3 * C, 0.3f);
    tensor("proj", C * C, 0.3f); tensor("norm2", C, 0.f, 1.f); tensor("up", C * F, 0.3f); tensor("up bias", F, 0.f);
    tensor("down", F * C, 0.2f); tensor("down bias", C, 0.f); tensor("head", C * V, 0.3f);
    auto W = [](int i) { return tensors[i].w; };
    auto G = [](int i) { return tensors[i].g; };

    float *x = buffer(n * C), *hat1 = buffer(n * C), *ln1 = buffer(n * C), *r1 = buffer(n), *qkv = buffer(n * 3 * C), *att = buffer(n * HEADS * T);
    float *mix = buffer(n * C), *x2 = buffer(n * C), *hat2 = buffer(n * C), *ln2 = buffer(n * C), *r2 = buffer(n), *up = buffer(n * F), *act = buffer(n * F);
    float *x3 = buffer(n * C), *logits = buffer(n * V), *dlogits = buffer(n * V), *dx = buffer(n * C), *dact = buffer(n * F), *dln = buffer(n * C);
    float *dqkv = buffer(n * 3 * C), *loss = buffer(1);
    int *tok;
    gpu(cudaMalloc(&tok, B * (T + 1) * sizeof(int)));
    std::vector<int> batch(B * (T + 1));

    for (int step = 1; step <= STEPS; ++step) {
        for (int b = 0; b < B; ++b) {
            size_t at = roll() % (text.size() - T - 1);
            for (int t = 0; t <= T; ++t) batch[b * (T + 1) + t] = letters.find(text[at + t]);
        }
        gpu(cudaMemcpy(tok, batch.data(), batch.size() * sizeof(int), cudaMemcpyHostToDevice));
        for (int i : {(int)TOK, (int)POS, (int)LN1, (int)LN2}) gpu(cudaMemset(G(i), 0, tensors[i].size * sizeof(float)));
        gpu(cudaMemset(dqkv, 0, n * 3 * C * sizeof(float)));
        gpu(cudaMemset(loss, 0, sizeof(float)));

        LAUNCH(embed, n * C, tok, W(TOK), W(POS), x, n);
        LAUNCH(norm, n, x, W(LN1), hat1, ln1, r1, n);
        LAUNCH(mul, n * 3 * C, ln1, W(QKV), nullptr, nullptr, qkv, n, C, 3 * C);
        LAUNCH(attention, n * HEADS, qkv, att, mix, n);
        LAUNCH(mul, n * C, mix, W(PROJ), nullptr, x, x2, n, C, C);
        LAUNCH(norm, n, x2, W(LN2), hat2, ln2, r2, n);
        LAUNCH(mul, n * F, ln2, W(UP), W(UPB), nullptr, up, n, C, F);
        LAUNCH(gelu, n * F, up, act, n * F);
        LAUNCH(mul, n * C, act, W(DOWN), W(DOWNB), x2, x3, n, F, C);
        LAUNCH(mul, n * V, x3, W(HEAD), nullptr, nullptr, logits, n, C, V);
        LAUNCH(cross_entropy, n, logits, tok, dlogits, loss, n, V);

        LAUNCH(mul_grad, C * V, x3, dlogits, G(HEAD), nullptr, n, C, V);
        LAUNCH(mul_back, n * C, dlogits, W(HEAD), dx, n, C, V);
        LAUNCH(mul_grad, F * C, act, dx, G(DOWN), G(DOWNB), n, F, C);
        LAUNCH(mul_back, n * F, dx, W(DOWN), dact, n, F, C);
        LAUNCH(gelu_back, n * F, up, dact, n * F);
        LAUNCH(mul_grad, C * F, ln2, dact, G(UP), G(UPB), n, C, F);
        LAUNCH(mul_back, n * C, dact, W(UP), dln, n, C, F);
        LAUNCH(norm_back, n, dln, hat2, r2, W(LN2), G(LN2), dx, n);
        LAUNCH(mul_grad, C * C, mix, dx, G(PROJ), nullptr, n, C, C);
        LAUNCH(mul_back, n * C, dx, W(PROJ), dln, n, C, C);
        LAUNCH(attention_back, n * HEADS, qkv, att, dln, dqkv, n);
        LAUNCH(mul_grad, C * 3 * C, ln1, dqkv, G(QKV), nullptr, n, C, 3 * C);
        LAUNCH(mul_back, n * C, dqkv, W(QKV), dln, n, C, 3 * C);
        LAUNCH(norm_back, n, dln, hat1, r1, W(LN1), G(LN1), dx, n);
        LAUNCH(embed_back, n * C, tok, dx, G(TOK), G(POS), n);

        const float lr = 0.01f * (step < 10 ? step / 10.f : 1.f);
        const float c1 = 1.f - powf(0.9f, step), c2 = 1.f - powf(0.99f, step);
        for (Tensor &t : tensors) {
            const bool matrix = strstr(t.name, "bias") == nullptr && strstr(t.name, "norm") == nullptr;
            LAUNCH(adamw, t.size, t.w, t.g, t.m, t.v, t.size, lr, matrix ? 0.01f : 0.f, c1, c2);
        }
        if (step % 10 == 0 || step == 1) {
            float h;
            gpu(cudaMemcpy(&h, loss, sizeof h, cudaMemcpyDeviceToHost));
            printf("step %3d  loss %.4f  lr %.4f\n", step, h, lr);
        }
    }
    return 0;
}
