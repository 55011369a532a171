// One self-attention head over short token sequences, mean pooled and
// classified: does the sequence contain token A before token B?
#include <cmath>
#include <cstdio>
#include <memory>
#include <random>
#include <vector>
#include <cuda_runtime.h>

constexpr int V = 16, L = 10, D = 16, C = 2;

struct CudaDeleter {
    void operator()(void *p) const { cudaFree(p); }
};
template <typename T>
using DevPtr = std::unique_ptr<T[], CudaDeleter>;

template <typename T>
DevPtr<T> makeDev(size_t n)
{
    T *p = nullptr;
    cudaMalloc(&p, n * sizeof(T));
    cudaMemset(p, 0, n * sizeof(T));
    return DevPtr<T>(p);
}

struct Parameter {
    size_t n;
    DevPtr<float> w, g, m, v;
    Parameter(size_t count, float sd, std::mt19937 &rng)
        : n(count), w(makeDev<float>(n)), g(makeDev<float>(n)), m(makeDev<float>(n)), v(makeDev<float>(n))
    {
        std::normal_distribution<float> nd(0.f, sd);
        std::vector<float> h(n);
        for (auto &e : h) e = nd(rng);
        cudaMemcpy(w.get(), h.data(), n * sizeof(float), cudaMemcpyHostToDevice);
    }
};
using ParamRef = std::shared_ptr<Parameter>;

__global__ void embed(const int *tok, const float *te, const float *pe, float *x)
{
    int s = blockIdx.x, d = threadIdx.x;
    for (int t = 0; t < L; ++t) x[(s * L + t) * D + d] = te[tok[s * L + t] * D + d] + pe[t * D + d];
}
__global__ void embedGrad(const int *tok, const float *dx, float *gte, float *gpe, int n)
{
    int t = blockIdx.x, d = threadIdx.x;
    float s = 0;
    for (int b = 0; b < n; ++b) {
        float g = dx[(b * L + t) * D + d];
        s += g;
        atomicAdd(&gte[tok[b * L + t] * D + d], g);
    }
    gpe[t * D + d] = s;
}
// rows x D times D x D
__global__ void project(const float *x, const float *w, float *y)
{
    int r = blockIdx.x, d = threadIdx.x;
    float s = 0;
    for (int k = 0; k < D; ++k) s += x[r * D + k] * w[k * D + d];
    y[r * D + d] = s;
}
__global__ void projectGrad(const float *x, const float *dy, float *gw, int rows)
{
    int k = blockIdx.x, d = threadIdx.x;
    float s = 0;
    for (int r = 0; r < rows; ++r) s += x[r * D + k] * dy[r * D + d];
    gw[k * D + d] = s;
}
__global__ void projectBack(const float *dq, const float *wq, const float *dk, const float *wk, const float *dv,
                            const float *wv, float *dx)
{
    int r = blockIdx.x, k = threadIdx.x;
    float s = 0;
    for (int d = 0; d < D; ++d)
        s += dq[r * D + d] * wq[k * D + d] + dk[r * D + d] * wk[k * D + d] + dv[r * D + d] * wv[k * D + d];
    dx[r * D + k] = s;
}
// one block per sequence: attention matrix, pooled output
__global__ void attend(const float *q, const float *k, const float *v, float *att, float *pool)
{
    int s = blockIdx.x, i = threadIdx.x;
    float *a = att + s * L * L + i * L;
    if (i < L) {
        float mx = -1e9f, sum = 0;
        for (int j = 0; j < L; ++j) {
            float z = 0;
            for (int d = 0; d < D; ++d) z += q[(s * L + i) * D + d] * k[(s * L + j) * D + d];
            a[j] = z * rsqrtf((float)D);
            mx = fmaxf(mx, a[j]);
        }
        for (int j = 0; j < L; ++j) { a[j] = expf(a[j] - mx); sum += a[j]; }
        for (int j = 0; j < L; ++j) a[j] /= sum;
    }
    __syncthreads();
    float o = 0;
    for (int r = 0; r < L; ++r)
        for (int j = 0; j < L; ++j) o += att[s * L * L + r * L + j] * v[(s * L + j) * D + i];
    pool[s * D + i] = o / L;
}
__global__ void attendGrad(const float *q, const float *k, const float *v, const float *att, const float *dpool,
                           float *dq, float *dk, float *dv)
{
    __shared__ float ds[L][L];
    int s = blockIdx.x, t = threadIdx.x;
    const float *a = att + s * L * L;
    if (t < L) {
        float da[L], dot = 0;
        for (int j = 0; j < L; ++j) {
            da[j] = 0;
            for (int d = 0; d < D; ++d) da[j] += dpool[s * D + d] / L * v[(s * L + j) * D + d];
            dot += da[j] * a[t * L + j];
        }
        for (int j = 0; j < L; ++j) ds[t][j] = a[t * L + j] * (da[j] - dot) * rsqrtf((float)D);
    }
    __syncthreads();
    for (int i = 0; i < L; ++i) {
        float sq = 0, sk = 0, sv = 0;
        for (int j = 0; j < L; ++j) {
            sq += ds[i][j] * k[(s * L + j) * D + t];
            sk += ds[j][i] * q[(s * L + j) * D + t];
            sv += a[j * L + i] * dpool[s * D + t] / L;
        }
        dq[(s * L + i) * D + t] = sq;
        dk[(s * L + i) * D + t] = sk;
        dv[(s * L + i) * D + t] = sv;
    }
}
__global__ void head(const float *pool, const float *w, const int *y, float *dlog, float *dpool, float *loss, int *ok, int n)
{
    int s = blockIdx.x * blockDim.x + threadIdx.x;
    if (s >= n) return;
    float z[C] = {0, 0};
    for (int d = 0; d < D; ++d) for (int c = 0; c < C; ++c) z[c] += pool[s * D + d] * w[d * C + c];
    float p1 = 1.f / (1.f + expf(z[0] - z[1])), p[C] = {1.f - p1, p1};
    for (int c = 0; c < C; ++c) dlog[s * C + c] = (p[c] - (y[s] == c)) / n;
    for (int d = 0; d < D; ++d) dpool[s * D + d] = dlog[s * C] * w[d * C] + dlog[s * C + 1] * w[d * C + 1];
    atomicAdd(loss, -logf(p[y[s]] + 1e-9f) / n);
    if ((z[1] > z[0]) == y[s]) atomicAdd(ok, 1);
}
__global__ void headGrad(const float *pool, const float *dlog, float *gw, int n)
{
    int d = threadIdx.x, c = blockIdx.x;
    float s = 0;
    for (int b = 0; b < n; ++b) s += pool[b * D + d] * dlog[b * C + c];
    gw[d * C + c] = s;
}
__global__ void adamKernel(float *w, const float *g, float *m, float *v, int n, float lr, float c1, float c2)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    m[i] += 0.1f * (g[i] - m[i]);
    v[i] += 0.01f * (g[i] * g[i] - v[i]);
    w[i] -= lr * (m[i] / c1) / (sqrtf(v[i] / c2) + 1e-8f);
}

int main()
{
    const int bs = 64, pool_size = 1024, steps = 160, warmup = 16;
    std::mt19937 rng(1706);
    std::vector<int> tok(pool_size * L), lab(pool_size);
    for (int s = 0; s < pool_size; ++s) {
        for (int t = 0; t < L; ++t) tok[s * L + t] = 2 + rng() % (V - 2);
        int i = rng() % L, j = rng() % (L - 1);
        if (j >= i) ++j;
        tok[s * L + i] = 0;
        tok[s * L + j] = 1;
        lab[s] = i < j;
    }
    auto te = std::make_shared<Parameter>(V * D, 0.5f, rng), pe = std::make_shared<Parameter>(L * D, 0.5f, rng);
    auto wq = std::make_shared<Parameter>(D * D, 0.25f, rng), wk = std::make_shared<Parameter>(D * D, 0.25f, rng);
    auto wv = std::make_shared<Parameter>(D * D, 0.25f, rng), wo = std::make_shared<Parameter>(D * C, 0.25f, rng);
    std::vector<ParamRef> model = {te, pe, wq, wk, wv, wo};

    auto dtok = makeDev<int>(tok.size()), dlab = makeDev<int>(lab.size()), ok = makeDev<int>(1);
    cudaMemcpy(dtok.get(), tok.data(), tok.size() * sizeof(int), cudaMemcpyHostToDevice);
    cudaMemcpy(dlab.get(), lab.data(), lab.size() * sizeof(int), cudaMemcpyHostToDevice);
    const int rows = bs * L;
    auto x = makeDev<float>(rows * D), q = makeDev<float>(rows * D), k = makeDev<float>(rows * D), v = makeDev<float>(rows * D);
    auto dx = makeDev<float>(rows * D), dq = makeDev<float>(rows * D), dk = makeDev<float>(rows * D), dv = makeDev<float>(rows * D);
    auto att = makeDev<float>(bs * L * L), pool = makeDev<float>(bs * D), dpool = makeDev<float>(bs * D);
    auto dlog = makeDev<float>(bs * C), loss = makeDev<float>(1);

    for (int step = 1; step <= steps; ++step) {
        const int first = ((step - 1) * bs) % pool_size;
        const int *bt = dtok.get() + first * L, *by = dlab.get() + first;
        cudaMemset(loss.get(), 0, sizeof(float));
        cudaMemset(ok.get(), 0, sizeof(int));
        cudaMemset(te->g.get(), 0, te->n * sizeof(float));
        embed<<<bs, D>>>(bt, te->w.get(), pe->w.get(), x.get());
        project<<<rows, D>>>(x.get(), wq->w.get(), q.get());
        project<<<rows, D>>>(x.get(), wk->w.get(), k.get());
        project<<<rows, D>>>(x.get(), wv->w.get(), v.get());
        attend<<<bs, D>>>(q.get(), k.get(), v.get(), att.get(), pool.get());
        head<<<(bs + 31) / 32, 32>>>(pool.get(), wo->w.get(), by, dlog.get(), dpool.get(), loss.get(), ok.get(), bs);
        headGrad<<<C, D>>>(pool.get(), dlog.get(), wo->g.get(), bs);
        attendGrad<<<bs, D>>>(q.get(), k.get(), v.get(), att.get(), dpool.get(), dq.get(), dk.get(), dv.get());
        projectGrad<<<D, D>>>(x.get(), dq.get(), wq->g.get(), rows);
        projectGrad<<<D, D>>>(x.get(), dk.get(), wk->g.get(), rows);
        projectGrad<<<D, D>>>(x.get(), dv.get(), wv->g.get(), rows);
        projectBack<<<rows, D>>>(dq.get(), wq->w.get(), dk.get(), wk->w.get(), dv.get(), wv->w.get(), dx.get());
        embedGrad<<<L, D>>>(bt, dx.get(), te->g.get(), pe->g.get(), bs);

        float lr = 0.01f * std::fmin(1.f, step / (float)warmup) * std::sqrt(std::fmin(1.f, 60.f / step));
        for (auto &p : model)
            adamKernel<<<(p->n + 63) / 64, 64>>>(p->w.get(), p->g.get(), p->m.get(), p->v.get(), p->n, lr,
                                                 1.f - std::pow(0.9f, step), 1.f - std::pow(0.99f, step));
        if (step % 16 == 0) {
            float hl;
            int hk;
            cudaMemcpy(&hl, loss.get(), sizeof(hl), cudaMemcpyDeviceToHost);
            cudaMemcpy(&hk, ok.get(), sizeof(hk), cudaMemcpyDeviceToHost);
            std::printf("step %3d  lr %.5f  loss %.5f  acc %.3f\n", step, lr, hl, hk / (float)bs);
        }
    }
}
