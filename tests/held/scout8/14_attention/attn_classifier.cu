// A single head self attention encoder with mean pooling that classifies token sequences.
// Task: which of the special tokens occurs most often.
#include <cuda_runtime.h>
#include <cublas_v2.h>
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#define CUDA_CHECK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { fprintf(stderr, "CUDA %s:%d %s\n", __FILE__, __LINE__, cudaGetErrorString(e_)); abort(); } } while (0)
#define CUBLAS_CHECK(x) do { cublasStatus_t s_ = (x); if (s_ != CUBLAS_STATUS_SUCCESS) { fprintf(stderr, "cuBLAS %s:%d %d\n", __FILE__, __LINE__, (int)s_); abort(); } } while (0)

namespace cfg {
constexpr int vocab = 20;
constexpr int seq = 12;
constexpr int dim = 16;
constexpr int classes = 4;
constexpr int batch = 64;
constexpr int steps = 160;
constexpr int warmup = 20;
constexpr float peak_lr = 1e-2f;
constexpr float clip = 1.0f;
}

struct CudaDeleter { void operator()(void *p) const { cudaFree(p); } };
template <typename T> using dev_ptr = std::unique_ptr<T[], CudaDeleter>;
template <typename T> dev_ptr<T> dev_alloc(size_t n)
{
    void *p;
    CUDA_CHECK(cudaMalloc(&p, n * sizeof(T)));
    CUDA_CHECK(cudaMemset(p, 0, n * sizeof(T)));
    return dev_ptr<T>(static_cast<T *>(p));
}

struct Parameter {
    std::string name;
    size_t n;
    dev_ptr<float> value, grad, m, v;
    Parameter(std::string name, size_t n, float scale, uint32_t &seed) : name(std::move(name)), n(n), value(dev_alloc<float>(n)), grad(dev_alloc<float>(n)), m(dev_alloc<float>(n)), v(dev_alloc<float>(n))
    {
        std::vector<float> h(n);
        for (auto &x : h) {
            seed = seed * 1664525u + 1013904223u;
            x = ((seed >> 8) / 16777216.0f * 2 - 1) * scale;
        }
        CUDA_CHECK(cudaMemcpy(value.get(), h.data(), n * sizeof(float), cudaMemcpyHostToDevice));
    }
};

__global__ void embed(const int *tok, const float *E, const float *P, float *x, int n, int seq, int dim)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n * dim) x[i] = E[tok[i / dim] * dim + i % dim] + P[(i / dim) % seq * dim + i % dim];
}
__global__ void embed_back(const int *tok, const float *dx, float *dE, float *dP, int n, int seq, int dim)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n * dim) {
        atomicAdd(&dE[tok[i / dim] * dim + i % dim], dx[i]);
        atomicAdd(&dP[(i / dim) % seq * dim + i % dim], dx[i]);
    }
}
__global__ void softmax_rows(float *s, int rows, int cols)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    float *p = s + r * cols, mx = -FLT_MAX, sum = 0;
    for (int c = 0; c < cols; ++c) mx = fmaxf(mx, p[c]);
    for (int c = 0; c < cols; ++c) sum += p[c] = expf(p[c] - mx);
    for (int c = 0; c < cols; ++c) p[c] /= sum;
}
__global__ void softmax_rows_back(const float *p, float *d, int rows, int cols)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    float dot = 0;
    for (int c = 0; c < cols; ++c) dot += p[r * cols + c] * d[r * cols + c];
    for (int c = 0; c < cols; ++c) d[r * cols + c] = p[r * cols + c] * (d[r * cols + c] - dot);
}
__global__ void pool(const float *x, const float *o, float *h, int B, int T, int D)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= B * D) return;
    float s = 0;
    for (int t = 0; t < T; ++t) s += x[(i / D * T + t) * D + i % D] + o[(i / D * T + t) * D + i % D];
    h[i] = s / T;
}
__global__ void pool_back(const float *dh, float *dx, float *dout, int B, int T, int D)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < B * T * D) dx[i] = dout[i] = dh[i / (T * D) * D + i % D] / T;
}
__global__ void xent(const float *prob, const int *y, float *d, float *loss, int *correct, int B, int C)
{
    int b = blockIdx.x * blockDim.x + threadIdx.x;
    if (b >= B) return;
    int best = 0;
    for (int c = 0; c < C; ++c) {
        d[b * C + c] = (prob[b * C + c] - (c == y[b])) / B;
        if (prob[b * C + c] > prob[b * C + best]) best = c;
    }
    atomicAdd(loss, -logf(prob[b * C + y[b]] + 1e-9f) / B);
    if (best == y[b]) atomicAdd(correct, 1);
}
__global__ void sumsq(const float *g, int n, float *out)
{
    __shared__ float buf[128];
    float s = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) s += g[i] * g[i];
    buf[threadIdx.x] = s;
    __syncthreads();
    for (int k = blockDim.x / 2; k > 0; k /= 2) {
        if (threadIdx.x < k) buf[threadIdx.x] += buf[threadIdx.x + k];
        __syncthreads();
    }
    if (threadIdx.x == 0) atomicAdd(out, buf[0]);
}
__global__ void adam(float *w, const float *g, float *m, float *v, int n, float lr, float c1, float c2, const float *norm2, float clip)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float scale = fminf(1.f, clip / (sqrtf(*norm2) + 1e-6f));
    float d = g[i] * scale;
    m[i] = 0.9f * m[i] + 0.1f * d;
    v[i] = 0.98f * v[i] + 0.02f * d * d;
    w[i] -= lr * (m[i] / c1) / (sqrtf(v[i] / c2) + 1e-8f);
}

static uint32_t data_seed = 77;
static uint32_t next_u32() { data_seed = data_seed * 1664525u + 1013904223u; return data_seed >> 8; }

class Classifier {
    static constexpr int B = cfg::batch, T = cfg::seq, D = cfg::dim, C = cfg::classes, N = B * T;
    uint32_t seed = 5;
    cublasHandle_t blas;
    std::vector<std::unique_ptr<Parameter>> params;
    Parameter *E, *P, *Wq, *Wk, *Wv, *Wc;
    dev_ptr<float> x = dev_alloc<float>(N * D), q = dev_alloc<float>(N * D), k = dev_alloc<float>(N * D), v = dev_alloc<float>(N * D);
    dev_ptr<float> a = dev_alloc<float>(N * T), o = dev_alloc<float>(N * D), h = dev_alloc<float>(B * D), p = dev_alloc<float>(B * C);
    dev_ptr<float> dx = dev_alloc<float>(N * D), dq = dev_alloc<float>(N * D), dk = dev_alloc<float>(N * D), dv = dev_alloc<float>(N * D);
    dev_ptr<float> da = dev_alloc<float>(N * T), dout = dev_alloc<float>(N * D), dh = dev_alloc<float>(B * D), dp = dev_alloc<float>(B * C);
    dev_ptr<float> stats = dev_alloc<float>(2);
    dev_ptr<int> tok = dev_alloc<int>(N), label = dev_alloc<int>(B), correct = dev_alloc<int>(1);

    Parameter *make(const char *name, size_t n, float scale)
    {
        params.emplace_back(new Parameter(name, n, scale, seed));
        return params.back().get();
    }
    // row major: out[r, c] = alpha * sum_k A[r, k] B[k, c] (+ beta * out), each possibly transposed
    void mm(bool ta, bool tb, int r, int c, int kk, float alpha, const float *A, int lda, const float *Bm, int ldb, float beta, float *out,
            long long sA = 0, long long sB = 0, long long sC = 0, int count = 1)
    {
        CUBLAS_CHECK(cublasSgemmStridedBatched(blas, tb ? CUBLAS_OP_T : CUBLAS_OP_N, ta ? CUBLAS_OP_T : CUBLAS_OP_N, c, r, kk, &alpha, Bm, ldb, sB, A, lda,
                                               sA, &beta, out, c, sC, count));
    }

public:
    Classifier()
    {
        CUBLAS_CHECK(cublasCreate(&blas));
        float s = 1.0f / std::sqrt((float)D);
        E = make("embedding", cfg::vocab * D, 1.0f);
        P = make("position", T * D, 0.1f);
        Wq = make("query", D * D, s);
        Wk = make("key", D * D, s);
        Wv = make("value", D * D, s);
        Wc = make("classifier", D * C, s);
    }
    ~Classifier() { cublasDestroy(blas); }

    void forward(const std::vector<int> &tokens, const std::vector<int> &labels)
    {
        CUDA_CHECK(cudaMemcpy(tok.get(), tokens.data(), N * sizeof(int), cudaMemcpyHostToDevice));
        CUDA_CHECK(cudaMemcpy(label.get(), labels.data(), B * sizeof(int), cudaMemcpyHostToDevice));
        CUDA_CHECK(cudaMemset(stats.get(), 0, 2 * sizeof(float)));
        CUDA_CHECK(cudaMemset(correct.get(), 0, sizeof(int)));
        embed<<<(N * D + 127) / 128, 128>>>(tok.get(), E->value.get(), P->value.get(), x.get(), N, T, D);
        mm(false, false, N, D, D, 1, x.get(), D, Wq->value.get(), D, 0, q.get());
        mm(false, false, N, D, D, 1, x.get(), D, Wk->value.get(), D, 0, k.get());
        mm(false, false, N, D, D, 1, x.get(), D, Wv->value.get(), D, 0, v.get());
        mm(false, true, T, T, D, 1 / std::sqrt((float)D), q.get(), D, k.get(), D, 0, a.get(), T * D, T * D, T * T, B);
        softmax_rows<<<(N + 127) / 128, 128>>>(a.get(), N, T);
        mm(false, false, T, D, T, 1, a.get(), T, v.get(), D, 0, o.get(), T * T, T * D, T * D, B);
        pool<<<(B * D + 127) / 128, 128>>>(x.get(), o.get(), h.get(), B, T, D);
        mm(false, false, B, C, D, 1, h.get(), D, Wc->value.get(), C, 0, p.get());
        softmax_rows<<<1, B>>>(p.get(), B, C);
        xent<<<1, B>>>(p.get(), label.get(), dp.get(), stats.get(), correct.get(), B, C);
    }

    void backward()
    {
        for (auto &w : params) CUDA_CHECK(cudaMemsetAsync(w->grad.get(), 0, w->n * sizeof(float)));
        const float sc = 1 / std::sqrt((float)D);
        mm(true, false, D, C, B, 1, h.get(), D, dp.get(), C, 1, Wc->grad.get());
        mm(false, true, B, D, C, 1, dp.get(), C, Wc->value.get(), C, 0, dh.get());
        pool_back<<<(N * D + 127) / 128, 128>>>(dh.get(), dx.get(), dout.get(), B, T, D);
        mm(false, true, T, T, D, 1, dout.get(), D, v.get(), D, 0, da.get(), T * D, T * D, T * T, B);
        mm(true, false, T, D, T, 1, a.get(), T, dout.get(), D, 0, dv.get(), T * T, T * D, T * D, B);
        softmax_rows_back<<<(N + 127) / 128, 128>>>(a.get(), da.get(), N, T);
        mm(false, false, T, D, T, sc, da.get(), T, k.get(), D, 0, dq.get(), T * T, T * D, T * D, B);
        mm(true, false, T, D, T, sc, da.get(), T, q.get(), D, 0, dk.get(), T * T, T * D, T * D, B);
        mm(true, false, D, D, N, 1, x.get(), D, dq.get(), D, 1, Wq->grad.get());
        mm(true, false, D, D, N, 1, x.get(), D, dk.get(), D, 1, Wk->grad.get());
        mm(true, false, D, D, N, 1, x.get(), D, dv.get(), D, 1, Wv->grad.get());
        mm(false, true, N, D, D, 1, dq.get(), D, Wq->value.get(), D, 1, dx.get());
        mm(false, true, N, D, D, 1, dk.get(), D, Wk->value.get(), D, 1, dx.get());
        mm(false, true, N, D, D, 1, dv.get(), D, Wv->value.get(), D, 1, dx.get());
        embed_back<<<(N * D + 127) / 128, 128>>>(tok.get(), dx.get(), E->grad.get(), P->grad.get(), N, T, D);
    }

    void update(int t, float lr)
    {
        for (auto &w : params) sumsq<<<1, 128>>>(w->grad.get(), w->n, stats.get() + 1);
        for (auto &w : params)
            adam<<<(w->n + 127) / 128, 128>>>(w->value.get(), w->grad.get(), w->m.get(), w->v.get(), w->n, lr, 1 - std::pow(0.9f, t), 1 - std::pow(0.98f, t),
                                              stats.get() + 1, cfg::clip);
    }

    void report(int step, float lr)
    {
        float s[2];
        int c;
        CUDA_CHECK(cudaMemcpy(s, stats.get(), sizeof s, cudaMemcpyDeviceToHost));
        CUDA_CHECK(cudaMemcpy(&c, correct.get(), sizeof c, cudaMemcpyDeviceToHost));
        printf("step %3d | loss %.4f | acc %.3f | grad norm %.3f | lr %.2e\n", step, s[0], c / (float)B, std::sqrt(s[1]), lr);
    }
};

static void make_batch(std::vector<int> &tokens, std::vector<int> &labels)
{
    for (int b = 0; b < cfg::batch; ++b) {
        int count[cfg::classes] = {0};
        for (int t = 0; t < cfg::seq; ++t) {
            int w = next_u32() % cfg::vocab;
            if (next_u32() % 3 == 0) w = next_u32() % cfg::classes;
            tokens[b * cfg::seq + t] = w;
            if (w < cfg::classes) count[w]++;
        }
        int best = 0;
        for (int c = 1; c < cfg::classes; ++c)
            if (count[c] > count[best]) best = c;
        labels[b] = best;
    }
}

int main()
{
    Classifier model;
    std::vector<int> tokens(cfg::batch * cfg::seq), labels(cfg::batch);
    for (int step = 1; step <= cfg::steps; ++step) {
        float lr = step <= cfg::warmup ? cfg::peak_lr * step / cfg::warmup
                                       : 0.5f * cfg::peak_lr * (1 + std::cos(3.14159265f * (step - cfg::warmup) / (cfg::steps - cfg::warmup)));
        make_batch(tokens, labels);
        model.forward(tokens, labels);
        model.backward();
        model.update(step, lr);
        if (step % 16 == 0 || step == 1) model.report(step, lr);
    }
    return 0;
}
