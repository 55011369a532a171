// Regression on a table of numbers: two hidden layers with GELU, AdamW, cosine schedule.
// The table is on the device; a batch is gathered by random row numbers.
#include "adamw.h"
#include "array.h"
#include <algorithm>
#include <cstdio>
#include <cublas_v2.h>
#include <numeric>
#include <random>

using Real = float;

__global__ void gather(const Real *table, const Real *target, const int *rows, Real *x, Real *y, int columns)
{
    const int r = blockIdx.x;
    for (int c = threadIdx.x; c < columns; c += blockDim.x) x[r * columns + c] = table[rows[r] * columns + c];
    if (threadIdx.x == 0) y[r] = target[rows[r]];
}

__global__ void bias_gelu(Real *pre, const Real *b, Real *act, int n, int width)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const Real z = pre[i] + b[i % width];
    pre[i] = z;
    act[i] = 0.5f * z * (1.f + erff(z * 0.70710678f));
}

__global__ void gelu_grad(Real *d, const Real *pre, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const Real z = pre[i];
    d[i] *= 0.5f * (1.f + erff(z * 0.70710678f)) + z * 0.39894228f * expf(-0.5f * z * z);
}

__global__ void huber(const Real *out, const Real *b, const Real *y, Real *d, Real *loss, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const Real e = out[i] + b[0] - y[i], a = fabsf(e);
    loss[i] = a < 1.f ? 0.5f * e * e : a - 0.5f;
    d[i] = fminf(fmaxf(e, -1.f), 1.f);
}

class Network {
public:
    Network(cublasHandle_t blas, int in, int width, int rows, std::mt19937 &rng) : blas_(blas), rows_(rows), ones_(std::vector<Real>(rows, 1.f))
    {
        int dims[] = {in, width, width, 1};
        for (int l = 0; l < 3; ++l) {
            std::normal_distribution<Real> d(0.f, std::sqrt(2.f / dims[l]));
            std::vector<Real> w(dims[l] * dims[l + 1]);
            for (auto &v : w) v = d(rng);
            layer_.push_back({dims[l], dims[l + 1], Array<Real>(w), Array<Real>(dims[l + 1]), Array<Real>(w.size()),
                              Array<Real>(dims[l + 1]), Array<Real>(rows * dims[l + 1]), Array<Real>(rows * dims[l + 1]),
                              Array<Real>(rows * dims[l + 1])});
        }
        loss_ = Array<Real>(rows);
    }

    Real forward(const Real *x, const Real *y, int n)
    {
        for (auto &l : layer_) {
            // row major y = x W, W [in x out]
            mul(CUBLAS_OP_N, CUBLAS_OP_N, l.out, n, l.in, 1.f, l.w.get(), l.out, x, l.in, l.pre.get(), l.out);
            if (l.out > 1) bias_gelu<<<(n * l.out + 63) / 64, 64>>>(l.pre.get(), l.b.get(), l.act.get(), n * l.out, l.out);
            x = l.act.get();
        }
        auto &top = layer_.back();
        huber<<<(n + 31) / 32, 32>>>(top.pre.get(), top.b.get(), y, top.delta.get(), loss_.get(), n);
        auto h = loss_.host();
        return std::accumulate(h.begin(), h.begin() + n, 0.f) / n;
    }

    void backward(const Real *x, int n)
    {
        for (int i = int(layer_.size()) - 1; i >= 0; --i) {
            auto &l = layer_[i];
            const Real *below = i ? layer_[i - 1].act.get() : x;
            const Real inv = 1.f / n;
            mul(CUBLAS_OP_N, CUBLAS_OP_T, l.out, l.in, n, inv, l.delta.get(), l.out, below, l.in, l.gw.get(), l.out);
            mul(CUBLAS_OP_N, CUBLAS_OP_N, l.out, 1, n, inv, l.delta.get(), l.out, ones_.get(), n, l.gb.get(), l.out);
            if (i == 0) break;
            auto &down = layer_[i - 1];
            mul(CUBLAS_OP_T, CUBLAS_OP_N, l.in, n, l.out, 1.f, l.w.get(), l.out, l.delta.get(), l.out, down.delta.get(), l.in);
            gelu_grad<<<(n * l.in + 63) / 64, 64>>>(down.delta.get(), down.pre.get(), n * l.in);
        }
    }

    void track(AdamW<Real> &opt, Real decay)
    {
        for (auto &l : layer_) {
            opt.track(l.w, l.gw, decay);
            opt.track(l.b, l.gb, 0.f);
        }
    }

private:
    struct Layer {
        int in, out;
        Array<Real> w, b, gw, gb, pre, act, delta;
    };
    void mul(cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k, Real alpha, const Real *a, int lda, const Real *b,
             int ldb, Real *c, int ldc)
    {
        const Real zero = 0.f;
        if (cublasSgemm(blas_, ta, tb, m, n, k, &alpha, a, lda, b, ldb, &zero, c, ldc) != CUBLAS_STATUS_SUCCESS)
            throw std::runtime_error("cublasSgemm");
    }
    cublasHandle_t blas_;
    int rows_;
    Array<Real> ones_, loss_;
    std::vector<Layer> layer_;
};

int main()
{
    const int columns = 12, trainRows = 600, validRows = 64, batch = 64, steps = 60;
    std::mt19937 rng(77);
    std::normal_distribution<Real> normal;
    std::vector<Real> table((trainRows + validRows) * columns), target(trainRows + validRows);
    for (auto &v : table) v = normal(rng);
    for (size_t r = 0; r < target.size(); ++r) {
        const Real *x = &table[r * columns];
        target[r] = x[0] * x[1] + 0.7f * x[2] - std::sin(2 * x[3]) + 0.5f * std::fabs(x[4]) + 0.05f * normal(rng);
    }
    Array<Real> dTable(table), dTarget(target), x(batch * columns), y(batch);
    Array<int> dRows(batch);

    cublasHandle_t blas;
    cublasCreate(&blas);
    Network net(blas, columns, 32, batch, rng);
    AdamW<Real> opt;
    net.track(opt, 0.02f);

    std::vector<int> all(trainRows), rows(batch);
    std::iota(all.begin(), all.end(), 0);
    const Real *validX = dTable.get() + trainRows * columns, *validY = dTarget.get() + trainRows;
    for (int step = 0; step < steps; ++step) {
        for (int i = 0; i < batch; ++i) {
            std::swap(all[i], all[i + rng() % (trainRows - i)]);
            rows[i] = all[i];
        }
        dRows.assign(rows);
        gather<<<batch, 16>>>(dTable.get(), dTarget.get(), dRows.get(), x.get(), y.get(), columns);
        const Real loss = net.forward(x.get(), y.get(), batch);
        net.backward(x.get(), batch);
        const Real lr = 0.5f * 0.02f * (1.f + std::cos(3.14159265f * step / steps));
        opt.step(lr);
        if ((step + 1) % 10 == 0)
            std::printf("step %d lr %.5f train %.4f valid %.4f\n", step + 1, lr, loss, net.forward(validX, validY, validRows));
    }
    cublasDestroy(blas);
}
