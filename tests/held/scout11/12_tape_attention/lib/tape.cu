#include "tape.h"
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cublas_v2.h>
#include <cuda_runtime.h>

namespace tt {

static void check(cudaError_t e)
{
    if (e != cudaSuccess) {
        std::fprintf(stderr, "tinytape: %s\n", cudaGetErrorString(e));
        std::abort();
    }
}

Storage::Storage(size_t n) : n(n)
{
    check(cudaMalloc(&ptr, n * sizeof(float)));
    check(cudaMemset(ptr, 0, n * sizeof(float)));
}
Storage::~Storage() { cudaFree(ptr); }

static int blocks(size_t n) { return (int)((n + 127) / 128); }

#define IDX(n)                                     \
    int i = blockIdx.x * blockDim.x + threadIdx.x; \
    if (i >= (n)) return

__global__ void k_bias(const float *a, const float *b, float *y, int n, int cols) { IDX(n); y[i] = a[i] + b[i % cols]; }
__global__ void k_add(float *dst, const float *src, int n) { IDX(n); dst[i] += src[i]; }
__global__ void k_colsum(const float *dy, float *db, int rows, int cols)
{
    IDX(cols);
    for (int r = 0; r < rows; ++r) db[i] += dy[r * cols + i];
}
__global__ void k_relu(const float *a, float *y, int n) { IDX(n); y[i] = a[i] > 0 ? a[i] : 0; }
__global__ void k_drelu(const float *a, const float *dy, float *da, int n) { IDX(n); if (a[i] > 0) da[i] += dy[i]; }
__global__ void k_softmax(const float *a, float *y, int rows, int cols, float scale)
{
    IDX(rows);
    float m = -1e30f, z = 0;
    for (int c = 0; c < cols; ++c) m = fmaxf(m, scale * a[i * cols + c]);
    for (int c = 0; c < cols; ++c) z += y[i * cols + c] = expf(scale * a[i * cols + c] - m);
    for (int c = 0; c < cols; ++c) y[i * cols + c] /= z;
}
__global__ void k_dsoftmax(const float *y, const float *dy, float *da, int rows, int cols, float scale)
{
    IDX(rows);
    float s = 0;
    for (int c = 0; c < cols; ++c) s += y[i * cols + c] * dy[i * cols + c];
    for (int c = 0; c < cols; ++c) da[i * cols + c] += scale * y[i * cols + c] * (dy[i * cols + c] - s);
}
__global__ void k_pool(const float *a, float *y, int n, int cols, int group)
{
    IDX(n);
    float s = 0;
    for (int g = 0; g < group; ++g) s += a[(i / cols * group + g) * cols + i % cols];
    y[i] = s / group;
}
__global__ void k_dpool(const float *dy, float *da, int n, int cols, int group) { IDX(n); da[i] += dy[i / cols / group * cols + i % cols] / group; }
__global__ void k_embed(const float *table, const float *pos, const int *ids, float *y, int n, int cols, int period)
{
    IDX(n * cols);
    int r = i / cols, c = i % cols;
    y[i] = table[ids[r] * cols + c] + pos[r % period * cols + c];
}
__global__ void k_dembed(float *dtable, float *dpos, const int *ids, const float *dy, int n, int cols, int period)
{
    IDX(n * cols);
    int r = i / cols, c = i % cols;
    atomicAdd(&dtable[ids[r] * cols + c], dy[i]);
    atomicAdd(&dpos[r % period * cols + c], dy[i]);
}
__global__ void k_ce(const float *logits, const int *labels, float *loss, int rows, int cols)
{
    IDX(rows);
    float m = -1e30f, z = 0;
    for (int c = 0; c < cols; ++c) m = fmaxf(m, logits[i * cols + c]);
    for (int c = 0; c < cols; ++c) z += expf(logits[i * cols + c] - m);
    atomicAdd(loss, (m + logf(z) - logits[i * cols + labels[i]]) / rows);
}
__global__ void k_dce(const float *logits, const int *labels, const float *dloss, float *da, int rows, int cols)
{
    IDX(rows);
    float m = -1e30f, z = 0;
    for (int c = 0; c < cols; ++c) m = fmaxf(m, logits[i * cols + c]);
    for (int c = 0; c < cols; ++c) z += expf(logits[i * cols + c] - m);
    for (int c = 0; c < cols; ++c) da[i * cols + c] += *dloss * (expf(logits[i * cols + c] - m) / z - (c == labels[i])) / rows;
}
__global__ void k_set(float *p, float v) { *p = v; }
__global__ void k_adamw(float *w, const float *g, float *m, float *v, float lr, float decay, float c1, float c2, int n)
{
    IDX(n);
    m[i] = 0.9f * m[i] + 0.1f * g[i];
    v[i] = 0.98f * v[i] + 0.02f * g[i] * g[i];
    w[i] -= lr * (m[i] / c1 / (sqrtf(v[i] / c2) + 1e-8f) + decay * w[i]);
}

Var Tape::make(int rows, int cols)
{
    auto n = std::make_shared<Node>();
    n->rows = rows;
    n->cols = cols;
    n->value = std::make_shared<Storage>(n->size());
    n->grad = std::make_shared<Storage>(n->size());
    n->requires_grad = true;
    return n;
}

Var Tape::zeros(int rows, int cols) { return make(rows, cols); }

Var Tape::parameter(int rows, int cols, float scale, unsigned &seed)
{
    Var v = make(rows, cols);
    std::vector<float> h(v->size());
    for (auto &x : h) {
        seed = seed * 1664525u + 1013904223u;
        x = scale * ((seed >> 8) / 8388608.f - 1.f);
    }
    check(cudaMemcpy(v->value->ptr, h.data(), h.size() * sizeof(float), cudaMemcpyHostToDevice));
    return v;
}

void *Tape::blas()
{
    if (!blas_) cublasCreate((cublasHandle_t *)&blas_);
    return blas_;
}

// row major C[m,n] = op(A) op(B) (+ C)
static void gemm(void *h, bool ta, bool tb, int m, int n, int k, const float *a, int lda, const float *b, int ldb, float beta, float *c, int ldc)
{
    float one = 1;
    cublasSgemm((cublasHandle_t)h, tb ? CUBLAS_OP_T : CUBLAS_OP_N, ta ? CUBLAS_OP_T : CUBLAS_OP_N, n, m, k, &one, b, ldb, a, lda, &beta, c, ldc);
}

Var Tape::matmul(Var a, Var b, bool tb) { return bmm(a, b, 0, tb); }

// group 0: one product with a shared b
Var Tape::bmm(Var a, Var b, int group, bool tb)
{
    int parts = group ? a->rows / group : 1, m = group ? group : a->rows;
    int brows = group ? group : b->rows, k = a->cols, n = tb ? brows : b->cols;
    Var y = make(a->rows, n);
    void *h = blas();
    for (int p = 0; p < parts; ++p)
        gemm(h, false, tb, m, n, k, a->value->ptr + p * m * k, k, b->value->ptr + p * brows * b->cols, b->cols, 0, y->value->ptr + p * m * n, n);
    Node *out = y.get();
    y->backward = [=] {
        for (int p = 0; p < parts; ++p) {
            const float *dy = out->grad->ptr + p * m * n, *av = a->value->ptr + p * m * k, *bv = b->value->ptr + p * brows * b->cols;
            gemm(h, false, !tb, m, k, n, dy, n, bv, b->cols, 1, a->grad->ptr + p * m * k, k);
            if (tb)
                gemm(h, true, false, n, k, m, dy, n, av, k, 1, b->grad->ptr + p * brows * b->cols, k);
            else
                gemm(h, true, false, k, n, m, av, k, dy, n, 1, b->grad->ptr + p * brows * b->cols, n);
        }
    };
    order_.push_back(y);
    return y;
}

Var Tape::add_bias(Var a, Var bias)
{
    Var y = make(a->rows, a->cols);
    int n = (int)y->size();
    k_bias<<<blocks(n), 128>>>(a->value->ptr, bias->value->ptr, y->value->ptr, n, a->cols);
    Node *out = y.get();
    y->backward = [=] {
        k_add<<<blocks(n), 128>>>(a->grad->ptr, out->grad->ptr, n);
        k_colsum<<<blocks(a->cols), 128>>>(out->grad->ptr, bias->grad->ptr, a->rows, a->cols);
    };
    order_.push_back(y);
    return y;
}

Var Tape::relu(Var a)
{
    Var y = make(a->rows, a->cols);
    int n = (int)y->size();
    k_relu<<<blocks(n), 128>>>(a->value->ptr, y->value->ptr, n);
    Node *out = y.get();
    y->backward = [=] { k_drelu<<<blocks(n), 128>>>(a->value->ptr, out->grad->ptr, a->grad->ptr, n); };
    order_.push_back(y);
    return y;
}

Var Tape::softmax_rows(Var a, float scale)
{
    Var y = make(a->rows, a->cols);
    k_softmax<<<blocks(a->rows), 128>>>(a->value->ptr, y->value->ptr, a->rows, a->cols, scale);
    Node *out = y.get();
    y->backward = [=] { k_dsoftmax<<<blocks(a->rows), 128>>>(out->value->ptr, out->grad->ptr, a->grad->ptr, a->rows, a->cols, scale); };
    order_.push_back(y);
    return y;
}

Var Tape::mean_pool(Var a, int group)
{
    Var y = make(a->rows / group, a->cols);
    int n = (int)y->size();
    k_pool<<<blocks(n), 128>>>(a->value->ptr, y->value->ptr, n, a->cols, group);
    Node *out = y.get();
    y->backward = [=] { k_dpool<<<blocks(n * group), 128>>>(out->grad->ptr, a->grad->ptr, n * group, a->cols, group); };
    order_.push_back(y);
    return y;
}

Var Tape::embedding(Var table, const int *ids, int n, int period, Var positions)
{
    Var y = make(n, table->cols);
    int cols = table->cols;
    k_embed<<<blocks(n * cols), 128>>>(table->value->ptr, positions->value->ptr, ids, y->value->ptr, n, cols, period);
    Node *out = y.get();
    y->backward = [=] { k_dembed<<<blocks(n * cols), 128>>>(table->grad->ptr, positions->grad->ptr, ids, out->grad->ptr, n, cols, period); };
    order_.push_back(y);
    return y;
}

Var Tape::cross_entropy(Var logits, const int *labels)
{
    Var y = make(1, 1);
    int rows = logits->rows, cols = logits->cols;
    k_ce<<<blocks(rows), 128>>>(logits->value->ptr, labels, y->value->ptr, rows, cols);
    Node *out = y.get();
    y->backward = [=] { k_dce<<<blocks(rows), 128>>>(logits->value->ptr, labels, out->grad->ptr, logits->grad->ptr, rows, cols); };
    order_.push_back(y);
    return y;
}

void Tape::backward(Var loss)
{
    k_set<<<1, 1>>>(loss->grad->ptr, 1.f);
    for (auto it = order_.rbegin(); it != order_.rend(); ++it) (*it)->backward();
}

void Tape::clear()
{
    order_.clear();
}

void copy_to_host(const Var &v, std::vector<float> &out)
{
    out.resize(v->size());
    check(cudaMemcpy(out.data(), v->value->ptr, out.size() * sizeof(float), cudaMemcpyDeviceToHost));
}

void Optimizer::zero_grad()
{
    for (auto &p : params_) check(cudaMemset(p->grad->ptr, 0, p->size() * sizeof(float)));
}

void AdamW::step()
{
    while (m_.size() < params_.size()) {
        m_.emplace_back(new Storage(params_[m_.size()]->size()));
        v_.emplace_back(new Storage(params_[v_.size()]->size()));
    }
    ++t_;
    float c1 = 1 - std::pow(0.9f, t_), c2 = 1 - std::pow(0.98f, t_);
    for (size_t i = 0; i < params_.size(); ++i) {
        Node &p = *params_[i];
        k_adamw<<<blocks(p.size()), 128>>>(p.value->ptr, p.grad->ptr, m_[i]->ptr, v_[i]->ptr, lr, p.rows > 1 ? decay_ : 0.f, c1, c2, (int)p.size());
    }
}

} // namespace tt
