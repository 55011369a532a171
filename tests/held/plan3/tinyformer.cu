// tinyformer.cu - two transformer blocks (pre-layernorm, causal attention) learn
// noisy sequences in which the token two places back decides.  Matrix products by cuBLAS, AdamW with
// linear warm-up and cosine decay, gradients clipped by their global norm.
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

static void check(cudaError_t e, const char *what) {
    if (e != cudaSuccess) { std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(e)); std::exit(1); }
}
constexpr int V = 11, T = 10, B = 6, D = 16, F = 32, N = B * T;

class Context {
public:
    cublasHandle_t blas;
    Context() { if (cublasCreate(&blas) != CUBLAS_STATUS_SUCCESS) std::exit(1); }
    ~Context() { cublasDestroy(blas); }
    // row-major C[m,n] = op(A) op(B) + beta C
    void mm(bool ta, bool tb, int m, int n, int k, const float *A, const float *Bm, float *C, float beta = 0) const {
        const float one = 1;
        cublasSgemm(blas, tb ? CUBLAS_OP_T : CUBLAS_OP_N, ta ? CUBLAS_OP_T : CUBLAS_OP_N, n, m, k, &one,
                    Bm, tb ? k : n, A, ta ? m : k, &beta, C, n);
    }
};

__global__ void k_bias(float *y, const float *b, int rows, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < rows * n) y[i] += b[i % n];
}
__global__ void k_bias_grad(const float *dy, float *db, int rows, int n) {
    int j = blockIdx.x * blockDim.x + threadIdx.x; if (j >= n) return;
    float s = 0; for (int r = 0; r < rows; ++r) s += dy[r * n + j];
    db[j] += s;
}
__global__ void k_add(float *y, const float *x, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] += x[i]; }
__global__ void k_gelu(const float *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = x[i] / (1 + expf(-1.702f * x[i]));
}
__global__ void k_gelu_back(const float *x, float *d, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= n) return;
    float s = 1 / (1 + expf(-1.702f * x[i])); d[i] *= s + 1.702f * x[i] * s * (1 - s);
}
__global__ void k_ln(const float *x, const float *w, const float *b, float *y, float *xhat, float *rstd) {
    int r = blockIdx.x * blockDim.x + threadIdx.x; if (r >= N) return;
    float m = 0, v = 0;
    for (int j = 0; j < D; ++j) m += x[r * D + j] / D;
    for (int j = 0; j < D; ++j) { float c = x[r * D + j] - m; v += c * c / D; }
    float s = rsqrtf(v + 1e-5f); rstd[r] = s;
    for (int j = 0; j < D; ++j) { float h = (x[r * D + j] - m) * s; xhat[r * D + j] = h; y[r * D + j] = h * w[j] + b[j]; }
}
__global__ void k_ln_back(const float *dy, const float *w, const float *xhat, const float *rstd, float *dx, float *dw, float *db) {
    int r = blockIdx.x * blockDim.x + threadIdx.x; if (r >= N) return;
    float a = 0, c = 0;
    for (int j = 0; j < D; ++j) { float g = dy[r * D + j] * w[j]; a += g / D; c += g * xhat[r * D + j] / D; }
    for (int j = 0; j < D; ++j) {
        float g = dy[r * D + j], h = xhat[r * D + j];
        dx[r * D + j] += rstd[r] * (g * w[j] - a - h * c);      // adds to the residual path
        atomicAdd(dw + j, g * h); atomicAdd(db + j, g);
    }
}
// attention of one position per thread; qkv row = [q | k | v]
__global__ void k_attn(const float *qkv, float *prob, float *out) {
    int r = blockIdx.x * blockDim.x + threadIdx.x; if (r >= N) return;
    int b = r / T, t = r % T; float *p = prob + r * T, mx = -1e30f, s = 0;
    for (int u = 0; u <= t; ++u) {
        float a = 0; for (int j = 0; j < D; ++j) a += qkv[r * 3 * D + j] * qkv[(b * T + u) * 3 * D + D + j];
        p[u] = a * rsqrtf((float)D); mx = fmaxf(mx, p[u]);
    }
    for (int u = 0; u <= t; ++u) { p[u] = expf(p[u] - mx); s += p[u]; }
    for (int j = 0; j < D; ++j) out[r * D + j] = 0;
    for (int u = 0; u <= t; ++u) {
        p[u] /= s; for (int j = 0; j < D; ++j) out[r * D + j] += p[u] * qkv[(b * T + u) * 3 * D + 2 * D + j];
    }
}
__global__ void k_attn_back(const float *qkv, const float *prob, const float *dout, float *dqkv) {   // one sequence per thread
    int b = blockIdx.x * blockDim.x + threadIdx.x; if (b >= B) return;
    for (int i = 0; i < T * 3 * D; ++i) dqkv[b * T * 3 * D + i] = 0;
    for (int t = 0; t < T; ++t) {
        int r = b * T + t; float dp[T], dot = 0;
        for (int u = 0; u <= t; ++u) {
            int c = b * T + u; dp[u] = 0;
            for (int j = 0; j < D; ++j) {
                dp[u] += dout[r * D + j] * qkv[c * 3 * D + 2 * D + j];
                dqkv[c * 3 * D + 2 * D + j] += prob[r * T + u] * dout[r * D + j];
            }
            dot += dp[u] * prob[r * T + u];
        }
        for (int u = 0; u <= t; ++u) {
            int c = b * T + u; float ds = prob[r * T + u] * (dp[u] - dot) * rsqrtf((float)D);
            for (int j = 0; j < D; ++j) {
                dqkv[r * 3 * D + j] += ds * qkv[c * 3 * D + D + j];
                dqkv[c * 3 * D + D + j] += ds * qkv[r * 3 * D + j];
            }
        }
    }
}
__global__ void k_embed(const int *tok, const float *e, const float *pos, float *x) {
    int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < N * D) x[i] = e[tok[i / D] * D + i % D] + pos[(i / D) % T * D + i % D];
}
__global__ void k_embed_back(const int *tok, const float *dx, float *de, float *dpos) {
    int i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= N * D) return;
    atomicAdd(de + tok[i / D] * D + i % D, dx[i]); atomicAdd(dpos + (i / D) % T * D + i % D, dx[i]);
}
__global__ void k_xent(float *logit, const int *y, float *loss) {     // logits become their gradient
    int r = blockIdx.x * blockDim.x + threadIdx.x; if (r >= N) return;
    float *l = logit + r * V, m = -1e30f, s = 0;
    for (int v = 0; v < V; ++v) m = fmaxf(m, l[v]);
    for (int v = 0; v < V; ++v) s += expf(l[v] - m);
    atomicAdd(loss, (logf(s) + m - l[y[r]]) / N);
    for (int v = 0; v < V; ++v) l[v] = (expf(l[v] - m) / s - (v == y[r])) / N;
}
__global__ void k_adamw(float *w, const float *g, float *m, float *v, int n, float lr, float scale, float c1, float c2) {
    int i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= n) return;
    float x = g[i] * scale;
    m[i] = 0.9f * m[i] + 0.1f * x; v[i] = 0.98f * v[i] + 0.02f * x * x;
    w[i] -= lr * (m[i] / c1 / (sqrtf(v[i] / c2) + 1e-6f) + 0.02f * w[i]);
}
static inline int blocks(int n) { return (n + 63) / 64; }
static float *dalloc(int n) {
    float *p; check(cudaMalloc(&p, n * sizeof(float)), "cudaMalloc"); check(cudaMemset(p, 0, n * sizeof(float)), "memset"); return p;
}

class Store {                        // all parameters and gradients, handed out by position
public:
    std::vector<float> init; float *w = nullptr, *g = nullptr;
    int reserve(int n, float scale, float centre = 0) {
        int at = (int)init.size(); std::normal_distribution<float> d(0, 1);
        for (int i = 0; i < n; ++i) init.push_back(centre + scale * d(rng));
        return at;
    }
    void upload() {
        w = dalloc(size()); g = dalloc(size());
        check(cudaMemcpy(w, init.data(), size() * sizeof(float), cudaMemcpyHostToDevice), "upload");
    }
    int size() const { return (int)init.size(); }
private:
    std::mt19937 rng{7};
};
class Linear {
    Store &s; int in, out, W, b;
public:
    Linear(Store &s, int in, int out) : s(s), in(in), out(out), W(s.reserve(in * out, 0.8f / std::sqrt((float)in))), b(s.reserve(out, 0)) {}
    void forward(const Context &c, const float *x, float *y) const {
        c.mm(false, false, N, out, in, x, s.w + W, y); k_bias<<<blocks(N * out), 64>>>(y, s.w + b, N, out);
    }
    void backward(const Context &c, const float *x, const float *dy, float *dx) const {
        c.mm(true, false, in, out, N, x, dy, s.g + W, 1); k_bias_grad<<<1, 64>>>(dy, s.g + b, N, out);
        c.mm(false, true, N, in, out, dy, s.w + W, dx);
    }
};
class LayerNorm {
    Store &s; int w, b; float *xhat = dalloc(N * D), *rstd = dalloc(N);
public:
    explicit LayerNorm(Store &s) : s(s), w(s.reserve(D, 0, 1)), b(s.reserve(D, 0)) {}
    void forward(const float *x, float *y) const { k_ln<<<blocks(N), 64>>>(x, s.w + w, s.w + b, y, xhat, rstd); }
    void backward(const float *dy, float *dx) const { k_ln_back<<<blocks(N), 64>>>(dy, s.w + w, xhat, rstd, dx, s.g + w, s.g + b); }
};
class Block {
    LayerNorm n1, n2; Linear qkv, proj, up, down;
    float *a = dalloc(N * D), *q = dalloc(N * 3 * D), *p = dalloc(N * T), *o = dalloc(N * D), *t = dalloc(N * D),
          *c = dalloc(N * D), *u = dalloc(N * F), *h = dalloc(N * F), *dq = dalloc(N * 3 * D), *dh = dalloc(N * F);
public:
    explicit Block(Store &s) : n1(s), n2(s), qkv(s, D, 3 * D), proj(s, D, D), up(s, D, F), down(s, F, D) {}
    void forward(const Context &cx, float *x) const {           // x is the residual stream, changed in place
        n1.forward(x, a); qkv.forward(cx, a, q); k_attn<<<blocks(N), 64>>>(q, p, o);
        proj.forward(cx, o, t); k_add<<<blocks(N * D), 64>>>(x, t, N * D);
        n2.forward(x, c); up.forward(cx, c, u); k_gelu<<<blocks(N * F), 64>>>(u, h, N * F);
        down.forward(cx, h, t); k_add<<<blocks(N * D), 64>>>(x, t, N * D);
    }
    void backward(const Context &cx, float *dx) const {
        down.backward(cx, h, dx, dh); k_gelu_back<<<blocks(N * F), 64>>>(u, dh, N * F);
        up.backward(cx, c, dh, t); n2.backward(t, dx);
        proj.backward(cx, o, dx, t); k_attn_back<<<1, B>>>(q, p, t, dq);
        qkv.backward(cx, a, dq, t); n1.backward(t, dx);
    }
};
class Model {
    Store &s; int emb, pos; Block b1, b2; LayerNorm fin; Linear head;
    float *x = dalloc(N * D), *y = dalloc(N * D), *dx = dalloc(N * D), *logit = dalloc(N * V), *loss = dalloc(1);
public:
    explicit Model(Store &s) : s(s), emb(s.reserve(V * D, 0.5f)), pos(s.reserve(T * D, 0.2f)), b1(s), b2(s), fin(s), head(s, D, V) {}
    void gradients(const Context &c, const int *tok, const int *target) {
        check(cudaMemset(s.g, 0, s.size() * sizeof(float)), "zero"); check(cudaMemset(loss, 0, sizeof(float)), "zero");
        k_embed<<<blocks(N * D), 64>>>(tok, s.w + emb, s.w + pos, x);
        b1.forward(c, x); b2.forward(c, x); fin.forward(x, y); head.forward(c, y, logit);
        k_xent<<<blocks(N), 64>>>(logit, target, loss);
        head.backward(c, y, logit, y); check(cudaMemset(dx, 0, N * D * sizeof(float)), "zero");
        fin.backward(y, dx); b2.backward(c, dx); b1.backward(c, dx);
        k_embed_back<<<blocks(N * D), 64>>>(tok, dx, s.g + emb, s.g + pos);
    }
    float lastLoss() const { float l; check(cudaMemcpy(&l, loss, sizeof l, cudaMemcpyDeviceToHost), "loss"); return l; }
};
class AdamW {
    Store &s; float *m, *v; int t = 0; float lr = 0;
public:
    explicit AdamW(Store &s) : s(s), m(dalloc(s.size())), v(dalloc(s.size())) {}
    float rate() const { return lr; }
    float step(const Context &c) {                              // returns the gradients' norm
        float norm; cublasSnrm2(c.blas, s.size(), s.g, 1, &norm);
        float scale = norm > 0.5f ? 0.5f / norm : 1.f;
        ++t;
        lr = 0.01f * (t <= 12 ? t / 12.f : 0.1f + 0.45f * (1 + std::cos(3.14159265f * std::fmin(1.f, (t - 12) / 150.f))));
        k_adamw<<<blocks(s.size()), 64>>>(s.w, s.g, m, v, s.size(), lr, scale, 1 - std::pow(0.9f, t), 1 - std::pow(0.98f, t));
        return norm;
    }
};

int main(int argc, char **argv) {
    std::string save; int oracle = 0, batches = 170;
    for (int i = 1; i + 1 < argc; ++i) {
        if (!std::strcmp(argv[i], "--save")) save = argv[i + 1];
        if (!std::strcmp(argv[i], "--oracle")) oracle = std::atoi(argv[i + 1]);
        if (!std::strcmp(argv[i], "--batches")) batches = std::atoi(argv[i + 1]);
    }
    Context cx; Store store; Model model(store); store.upload(); AdamW opt(store);
    std::printf("%d parameters\n", store.size());
    int *dTok, *dTgt; check(cudaMalloc(&dTok, N * sizeof(int)), "tok"); check(cudaMalloc(&dTgt, N * sizeof(int)), "tgt");
    std::vector<int> tok(N), tgt(N); std::mt19937 data(99);
    float *sum = oracle ? dalloc(store.size()) : nullptr; int gathered = 0; float norm = 0;
    for (int b = 0; b < batches; ++b) {
        for (int i = 0; i < B; ++i) {
            int x = data() % V, y = data() % V;
            for (int t = 0; t < T; ++t) { int z = (3 * x + 5 + (data() % 8 == 0)) % V; tok[i * T + t] = y; tgt[i * T + t] = z; x = y; y = z; }
        }
        check(cudaMemcpy(dTok, tok.data(), N * sizeof(int), cudaMemcpyHostToDevice), "tok");
        check(cudaMemcpy(dTgt, tgt.data(), N * sizeof(int), cudaMemcpyHostToDevice), "tgt");
        model.gradients(cx, dTok, dTgt);
        bool update = true;
        if (oracle) {                                           // the mean of `oracle` batches, in g, before the step
            const float one = 1, inv = 1.f / oracle;
            cublasSaxpy(cx.blas, store.size(), &one, store.g, 1, sum, 1);
            if ((update = ++gathered == oracle)) {
                cublasScopy(cx.blas, store.size(), sum, 1, store.g, 1); cublasSscal(cx.blas, store.size(), &inv, store.g, 1);
                check(cudaMemset(sum, 0, store.size() * sizeof(float)), "zero"); gathered = 0;
            }
        }
        if (update) norm = opt.step(cx);
        if ((b + 1) % 10 == 0) std::printf("batch %3d  loss %.4f  |g| %.3f  lr %.5f\n", b + 1, model.lastLoss(), norm, opt.rate());
    }
    if (!save.empty()) {
        std::vector<float> w(store.size()); check(cudaMemcpy(w.data(), store.w, w.size() * sizeof(float), cudaMemcpyDeviceToHost), "download");
        FILE *f = std::fopen(save.c_str(), "w"); if (!f) return 1;
        for (float x : w) std::fprintf(f, "%.9g\n", x);
        std::fclose(f);
    }
}
