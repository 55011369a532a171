// Multi-layer perceptron on cuBLAS; every dense layer owns its Adam state.
#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#define CUDA_CALL(x) do { cudaError_t e = (x); if (e != cudaSuccess) { \
    std::cerr << "CUDA: " << cudaGetErrorString(e) << " line " << __LINE__ << std::endl; std::exit(1); } } while (0)
#define CUBLAS_CALL(x) do { if ((x) != CUBLAS_STATUS_SUCCESS) { \
    std::cerr << "cuBLAS failure line " << __LINE__ << std::endl; std::exit(1); } } while (0)

class CublasHandle {
public:
    CublasHandle() { CUBLAS_CALL(cublasCreate(&h_)); }
    ~CublasHandle() { cublasDestroy(h_); }
    CublasHandle(const CublasHandle &) = delete;
    CublasHandle &operator=(const CublasHandle &) = delete;
    operator cublasHandle_t() const { return h_; }
private:
    cublasHandle_t h_;
};

class DeviceBuffer {
public:
    explicit DeviceBuffer(size_t n) : n_(n) {
        CUDA_CALL(cudaMalloc(reinterpret_cast<void **>(&p_), n * sizeof(float)));
        CUDA_CALL(cudaMemset(p_, 0, n * sizeof(float)));
    }
    ~DeviceBuffer() { cudaFree(p_); }
    DeviceBuffer(const DeviceBuffer &) = delete;
    DeviceBuffer &operator=(const DeviceBuffer &) = delete;
    float *get() { return p_; }
    size_t size() const { return n_; }
    void upload(const float *h) { CUDA_CALL(cudaMemcpy(p_, h, n_ * sizeof(float), cudaMemcpyHostToDevice)); }
    void download(float *h) const { CUDA_CALL(cudaMemcpy(h, p_, n_ * sizeof(float), cudaMemcpyDeviceToHost)); }
private:
    float *p_ = nullptr;
    size_t n_;
};

__global__ void addBias(float *y, const float *b, int out, int batch) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < out * batch) y[i] += b[i % out];
}
__global__ void leakyForward(const float *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] > 0.f ? x[i] : 0.01f * x[i];
}
__global__ void leakyBackward(const float *x, const float *dy, float *dx, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) dx[i] = x[i] > 0.f ? dy[i] : 0.01f * dy[i];
}
__global__ void adamStep(float *w, const float *g, float *m, float *v, int n, float lr, float c1, float c2) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    m[i] = 0.9f * m[i] + 0.1f * g[i];
    v[i] = 0.999f * v[i] + 0.001f * g[i] * g[i];
    w[i] -= lr * (m[i] / c1) / (sqrtf(v[i] / c2) + 1e-8f);
}
__global__ void mseGrad(const float *y, const float *t, float *dy, float *sq, int n, float scale) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float d = y[i] - t[i];
    sq[i] = d * d;
    dy[i] = scale * d;
}
__global__ void fillOnes(float *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = 1.f;
}

static inline int grid(size_t n) { return static_cast<int>((n + 63) / 64); }

class Layer {
public:
    virtual ~Layer() = default;
    virtual float *forward(float *x) = 0;
    virtual float *backward(float *dy) = 0;
    virtual void step(float) {}
    virtual void save(std::ofstream &) const {}
};

// Matrices are column-major: activations are (features x batch), W is (out x in).
class Dense : public Layer {
public:
    Dense(cublasHandle_t h, int in, int out, int batch, std::mt19937 &rng)
        : h_(h), in_(in), out_(out), batch_(batch), W_(in * out), b_(out), dW_(in * out), db_(out), mW_(in * out),
          vW_(in * out), mb_(out), vb_(out), y_(out * batch), dx_(in * batch), ones_(batch) {
        std::vector<float> w(in * out);
        const float lim = std::sqrt(6.f / (in + out));
        for (auto &x : w) x = lim * (2.f * static_cast<float>(rng() / 4294967296.0) - 1.f);
        W_.upload(w.data());
        fillOnes<<<grid(batch), 64>>>(ones_.get(), batch);
    }
    float *forward(float *x) override {
        x_ = x;
        const float one = 1.f, zero = 0.f;
        CUBLAS_CALL(cublasSgemm(h_, CUBLAS_OP_N, CUBLAS_OP_N, out_, batch_, in_, &one, W_.get(), out_, x, in_, &zero,
                                y_.get(), out_));
        addBias<<<grid(y_.size()), 64>>>(y_.get(), b_.get(), out_, batch_);
        return y_.get();
    }
    float *backward(float *dy) override {
        const float one = 1.f, zero = 0.f;
        CUBLAS_CALL(cublasSgemm(h_, CUBLAS_OP_N, CUBLAS_OP_T, out_, in_, batch_, &one, dy, out_, x_, in_, &zero,
                                dW_.get(), out_));
        CUBLAS_CALL(cublasSgemv(h_, CUBLAS_OP_N, out_, batch_, &one, dy, out_, ones_.get(), 1, &zero, db_.get(), 1));
        CUBLAS_CALL(cublasSgemm(h_, CUBLAS_OP_T, CUBLAS_OP_N, in_, batch_, out_, &one, W_.get(), out_, dy, out_, &zero,
                                dx_.get(), in_));
        return dx_.get();
    }
    void step(float lr) override {
        ++t_;
        const float c1 = 1.f - std::pow(0.9f, t_), c2 = 1.f - std::pow(0.999f, t_);
        adamStep<<<grid(W_.size()), 64>>>(W_.get(), dW_.get(), mW_.get(), vW_.get(), in_ * out_, lr, c1, c2);
        adamStep<<<grid(b_.size()), 64>>>(b_.get(), db_.get(), mb_.get(), vb_.get(), out_, lr, c1, c2);
    }
    void save(std::ofstream &f) const override {
        for (const DeviceBuffer *d : {&W_, &b_}) {
            std::vector<float> h(d->size());
            d->download(h.data());
            f.write(reinterpret_cast<const char *>(h.data()), h.size() * sizeof(float));
        }
    }
private:
    cublasHandle_t h_;
    int in_, out_, batch_, t_ = 0;
    float *x_ = nullptr;
    DeviceBuffer W_, b_, dW_, db_, mW_, vW_, mb_, vb_, y_, dx_, ones_;
};

class LeakyReLU : public Layer {
public:
    explicit LeakyReLU(int n) : n_(n), y_(n), dx_(n) {}
    float *forward(float *x) override {
        x_ = x;
        leakyForward<<<grid(n_), 64>>>(x, y_.get(), n_);
        return y_.get();
    }
    float *backward(float *dy) override {
        leakyBackward<<<grid(n_), 64>>>(x_, dy, dx_.get(), n_);
        return dx_.get();
    }
private:
    int n_;
    float *x_ = nullptr;
    DeviceBuffer y_, dx_;
};

int main(int argc, char **argv) {
    const std::string path = argc > 1 ? argv[1] : "weights.bin";
    const int nIn = 6, nOut = 2, batch = 32, samples = 512, epochs = 6;
    std::mt19937 rng(42);
    std::uniform_real_distribution<float> uni(-1.f, 1.f);
    std::vector<float> X(samples * nIn), T(samples * nOut);
    for (int s = 0; s < samples; ++s) {
        float *x = &X[s * nIn];
        for (int i = 0; i < nIn; ++i) x[i] = uni(rng);
        T[s * nOut] = std::sin(2.f * x[0]) + x[1] * x[2];
        T[s * nOut + 1] = x[3] - x[4] * x[5];
    }
    CublasHandle handle;
    std::vector<std::unique_ptr<Layer>> net;
    net.emplace_back(new Dense(handle, nIn, 24, batch, rng));
    net.emplace_back(new LeakyReLU(24 * batch));
    net.emplace_back(new Dense(handle, 24, 24, batch, rng));
    net.emplace_back(new LeakyReLU(24 * batch));
    net.emplace_back(new Dense(handle, 24, nOut, batch, rng));

    DeviceBuffer x(batch * nIn), t(batch * nOut), dy(batch * nOut), sq(batch * nOut);
    for (int e = 0; e < epochs; ++e) {
        double total = 0.0;
        for (int s = 0; s < samples; s += batch) {
            x.upload(&X[s * nIn]);
            t.upload(&T[s * nOut]);
            float *y = x.get();
            for (auto &l : net) y = l->forward(y);
            mseGrad<<<grid(dy.size()), 64>>>(y, t.get(), dy.get(), sq.get(), batch * nOut, 2.f / (batch * nOut));
            float *g = dy.get();
            for (auto it = net.rbegin(); it != net.rend(); ++it) g = (*it)->backward(g);
            for (auto &l : net) l->step(0.01f);
            float sum = 0.f;
            CUBLAS_CALL(cublasSasum(handle, batch * nOut, sq.get(), 1, &sum));
            total += sum / (batch * nOut);
        }
        std::cout << "epoch " << e + 1 << " mse " << std::fixed << std::setprecision(5) << total / (samples / batch)
                  << "\n";
    }
    std::ofstream f(path, std::ios::binary);
    for (auto &l : net) l->save(f);
    return f ? 0 : 1;
}
