// Deep MLP regressor: GELU-like activation, AdamW, warmup and cosine decay, clipping by global norm.
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <utility>
#include <vector>

#define CHECK(x)                                                                   \
    do {                                                                           \
        auto status = (x);                                                         \
        if ((int)status != 0) {                                                    \
            std::fprintf(stderr, "%s failed (%d)\n", #x, (int)status);             \
            std::exit(1);                                                          \
        }                                                                          \
    } while (0)

struct TrainOptions {
    int batchSize = 58;
    int steps = 60;
    int warmup = 10;
    float maxRate = 0.01f;
    float weightDecay = 0.02f;
    float clip = 1.0f;
};

class Tensor {
public:
    explicit Tensor(size_t n) : n_(n) {
        CHECK(cudaMalloc(&p_, n * sizeof(float)));
        CHECK(cudaMemset(p_, 0, n * sizeof(float)));
    }
    Tensor(Tensor &&o) noexcept : n_(o.n_), p_(std::exchange(o.p_, nullptr)) {}
    Tensor &operator=(Tensor &&) = delete;
    ~Tensor() { cudaFree(p_); }
    void upload(const float *src, size_t n) { CHECK(cudaMemcpy(p_, src, n * sizeof(float), cudaMemcpyHostToDevice)); }
    float *get() { return p_; }
    const float *get() const { return p_; }
    int size() const { return (int)n_; }

private:
    size_t n_;
    float *p_ = nullptr;
};

struct Param {
    Tensor value, grad, m, v;
    bool decay;
    Param(size_t n, bool decay) : value(n), grad(n), m(n), v(n), decay(decay) {}
};

struct Block {
    int in, out;
    Param weight, bias;
    Tensor pre, act, dpre, dact;
    Block(int in, int out, int batch)
        : in(in), out(out), weight(in * out, true), bias(out, false), pre(batch * out), act(batch * out), dpre(batch * out),
          dact(batch * out) {}
};

__global__ void swishForward(const float *b, float *pre, float *act, int n, int out, bool linear) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * out) return;
    float v = pre[i] += b[i % out];
    act[i] = linear ? v : v / (1.f + expf(-1.702f * v));
}
__global__ void swishBackward(const float *pre, const float *dact, float *dpre, int count, bool linear) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    float s = 1.f / (1.f + expf(-1.702f * pre[i]));
    dpre[i] = dact[i] * (linear ? 1.f : s + 1.702f * pre[i] * s * (1.f - s));
}
__global__ void mseLoss(const float *y, const float *t, float *dy, float *loss, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float e = y[i] - t[i];
    loss[i] = e * e / n;
    dy[i] = 2.f * e / n;
}
__global__ void biasGrad(const float *dpre, float *gb, int n, int out) {
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= out) return;
    float s = 0.f;
    for (int r = 0; r < n; ++r) s += dpre[r * out + c];
    gb[c] = s;
}
__global__ void adamw(float *w, const float *g, float *m, float *v, int n, float lr, float scale, float decay, int t) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float gi = g[i] * scale;
    m[i] = 0.9f * m[i] + 0.1f * gi;
    v[i] = 0.98f * v[i] + 0.02f * gi * gi;
    float mh = m[i] / (1.f - powf(0.9f, t)), vh = v[i] / (1.f - powf(0.98f, t));
    w[i] = w[i] * (1.f - lr * decay) - lr * mh / (sqrtf(vh) + 1e-8f);
}
static int blocks(int n) { return (n + 255) / 256; }

class Trainer {
public:
    Trainer(const std::vector<int> &dims, TrainOptions opt) : opt_(opt), loss_(opt.batchSize) {
        CHECK(cublasCreate(&blas_));
        std::mt19937 rng(15);
        for (size_t i = 0; i + 1 < dims.size(); ++i) {
            blocks_.emplace_back(dims[i], dims[i + 1], opt.batchSize);
            std::normal_distribution<float> d(0.f, std::sqrt(1.6f / dims[i]));
            std::vector<float> h(dims[i] * dims[i + 1]);
            for (float &v : h) v = d(rng);
            blocks_.back().weight.value.upload(h.data(), h.size());
        }
        for (auto &b : blocks_) {
            params_.push_back(&b.weight);
            params_.push_back(&b.bias);
        }
    }
    ~Trainer() { cublasDestroy(blas_); }

    float step(const Tensor &x, const Tensor &t, int n) {
        forward(x.get(), n);
        Block &top = blocks_.back();
        mseLoss<<<blocks(n), 256>>>(top.act.get(), t.get(), top.dact.get(), loss_.get(), n);
        backward(x.get(), n);
        ++t_;
        float norm2 = 0.f, part = 0.f, loss = 0.f;
        for (Param *p : params_) {
            CHECK(cublasSdot(blas_, p->grad.size(), p->grad.get(), 1, p->grad.get(), 1, &part));
            norm2 += part;
        }
        const float scale = std::fmin(1.f, opt_.clip / (std::sqrt(norm2) + 1e-6f));
        for (Param *p : params_)
            adamw<<<blocks(p->value.size()), 256>>>(p->value.get(), p->grad.get(), p->m.get(), p->v.get(), p->value.size(), rate(),
                                                    scale, p->decay ? opt_.weightDecay : 0.f, t_);
        CHECK(cublasSasum(blas_, n, loss_.get(), 1, &loss));
        return loss;
    }
    float rate() const {
        if (t_ <= opt_.warmup) return opt_.maxRate * t_ / opt_.warmup;
        float f = (float)(t_ - opt_.warmup) / (opt_.steps - opt_.warmup);
        return 0.5f * opt_.maxRate * (1.f + std::cos(3.14159265f * f));
    }

private:
    void forward(const float *x, int n) {
        for (size_t i = 0; i < blocks_.size(); ++i) {
            Block &b = blocks_[i];
            CHECK(cublasSgemm(blas_, CUBLAS_OP_N, CUBLAS_OP_N, b.out, n, b.in, &one_, b.weight.value.get(), b.out, x, b.in, &zero_,
                              b.pre.get(), b.out));
            swishForward<<<blocks(n * b.out), 256>>>(b.bias.value.get(), b.pre.get(), b.act.get(), n, b.out, i + 1 == blocks_.size());
            x = b.act.get();
        }
    }
    void backward(const float *x, int n) {
        for (int i = (int)blocks_.size() - 1; i >= 0; --i) {
            Block &b = blocks_[i];
            const float *in = i ? blocks_[i - 1].act.get() : x;
            swishBackward<<<blocks(n * b.out), 256>>>(b.pre.get(), b.dact.get(), b.dpre.get(), n * b.out, i + 1 == (int)blocks_.size());
            CHECK(cublasSgemm(blas_, CUBLAS_OP_N, CUBLAS_OP_T, b.out, b.in, n, &one_, b.dpre.get(), b.out, in, b.in, &zero_,
                              b.weight.grad.get(), b.out));
            biasGrad<<<blocks(b.out), 256>>>(b.dpre.get(), b.bias.grad.get(), n, b.out);
            if (i)
                CHECK(cublasSgemm(blas_, CUBLAS_OP_T, CUBLAS_OP_N, b.in, n, b.out, &one_, b.weight.value.get(), b.out, b.dpre.get(),
                                  b.out, &zero_, blocks_[i - 1].dact.get(), b.in));
        }
    }
    TrainOptions opt_;
    Tensor loss_;
    std::vector<Block> blocks_;
    std::vector<Param *> params_;
    cublasHandle_t blas_;
    int t_ = 0;
    const float one_ = 1.f, zero_ = 0.f;
};

int main() {
    TrainOptions opt;
    const int features = 13, rows = 870;
    std::mt19937 rng(41);
    std::normal_distribution<float> normal;
    std::vector<float> X(rows * features), Y(rows);
    for (int i = 0; i < rows; ++i) {
        for (int k = 0; k < features; ++k) X[i * features + k] = normal(rng);
        const float *r = &X[i * features];
        Y[i] = std::tanh(r[0] + r[1]) - 0.5f * r[2] * r[3] + 0.3f * std::cos(r[4]) + 0.02f * normal(rng);
    }
    Trainer trainer({features, 28, 22, 18, 1}, opt);
    Tensor x(opt.batchSize * features), t(opt.batchSize);
    for (int s = 0; s < opt.steps; ++s) {
        const int first = s * opt.batchSize % rows;
        x.upload(&X[first * features], opt.batchSize * features);
        t.upload(&Y[first], opt.batchSize);
        float loss = trainer.step(x, t, opt.batchSize);
        if (s % 6 == 5) std::printf("step %2d  rate %.5f  loss %.5f\n", s + 1, trainer.rate(), loss);
    }
    return 0;
}
