// Two-layer perceptron on a noisy two-class spiral-like set, cuBLAS, plain SGD.
// Prints the training loss of each batch and a validation pass after each epoch.
#include <cuda_runtime.h>
#include <cublas_v2.h>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>
#ifdef ORACLE
#include "oracle.h"
#endif

static void check(cudaError_t e, const char* what) {
    if (e != cudaSuccess) throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(e));
}

class DeviceArray {
public:
    explicit DeviceArray(size_t n) : n_(n) { check(cudaMalloc(&p_, n * sizeof(float)), "cudaMalloc"); }
    ~DeviceArray() { cudaFree(p_); }
    DeviceArray(const DeviceArray&) = delete;
    float* get() { return p_; }
    size_t size() const { return n_; }
    void upload(const float* h, size_t n) { check(cudaMemcpy(p_, h, n * sizeof(float), cudaMemcpyHostToDevice), "upload"); }
    std::vector<float> download() const {
        std::vector<float> v(n_);
        check(cudaMemcpy(v.data(), p_, n_ * sizeof(float), cudaMemcpyDeviceToHost), "download");
        return v;
    }
private:
    float* p_ = nullptr;
    size_t n_;
};

__global__ void biasRelu(float* a, const float* b, int width, int n, bool relu) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = a[i] + b[i % width];
    a[i] = relu ? fmaxf(v, 0.f) : v;
}
__global__ void reluBack(float* d, const float* a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && a[i] <= 0.f) d[i] = 0.f;
}
// softmax cross entropy, one thread for each row
__global__ void xent(const float* z, const int* y, float* dz, float* loss, int rows, int k) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    const float* zr = z + r * k;
    float m = zr[0];
    for (int j = 1; j < k; ++j) m = fmaxf(m, zr[j]);
    float s = 0;
    for (int j = 0; j < k; ++j) s += expf(zr[j] - m);
    loss[r] = logf(s) - (zr[y[r]] - m);
    for (int j = 0; j < k; ++j) dz[r * k + j] = (expf(zr[j] - m) / s - (j == y[r])) / rows;
}
__global__ void colSum(const float* d, float* g, int width, int rows) {
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= width) return;
    float s = 0;
    for (int r = 0; r < rows; ++r) s += d[r * width + c];
    g[c] = s;
}
__global__ void sgd(float* w, const float* g, float lr, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) w[i] -= lr * g[i];
}
static int blocks(int n) { return (n + 127) / 128; }

constexpr int IN = 16, HID = 48, OUT = 4, BATCH = 64;

class Mlp {
public:
    Mlp(std::mt19937& rng)
        : W1(IN * HID), b1(HID), W2(HID * OUT), b2(OUT), gW1(IN * HID), gb1(HID), gW2(HID * OUT), gb2(OUT),
          x(BATCH * IN), h(BATCH * HID), z(BATCH * OUT), dz(BATCH * OUT), dh(BATCH * HID), l(BATCH) {
        check(cudaMalloc(&y, BATCH * sizeof(int)), "labels");
        cublasCreate(&cb);
        init(W1, rng, IN); init(W2, rng, HID);
        cudaMemset(b1.get(), 0, HID * 4); cudaMemset(b2.get(), 0, OUT * 4);
#ifdef ORACLE
        for (DeviceArray* p : {&W1, &b1, &W2, &b2}) oracle::state(p->get(), p->size());
        for (DeviceArray* p : {&gW1, &gb1, &gW2, &gb2}) oracle::grad(p->get(), p->size());
#endif
    }
    ~Mlp() { cublasDestroy(cb); cudaFree(y); }
    float forward(const float* hx, const int* hy, int n) {
        x.upload(hx, n * IN);
        check(cudaMemcpy(y, hy, n * sizeof(int), cudaMemcpyHostToDevice), "y");
        gemm(CUBLAS_OP_N, CUBLAS_OP_N, HID, n, IN, W1.get(), HID, x.get(), IN, h.get(), HID);
        biasRelu<<<blocks(n * HID), 128>>>(h.get(), b1.get(), HID, n * HID, true);
        gemm(CUBLAS_OP_N, CUBLAS_OP_N, OUT, n, HID, W2.get(), OUT, h.get(), HID, z.get(), OUT);
        biasRelu<<<blocks(n * OUT), 128>>>(z.get(), b2.get(), OUT, n * OUT, false);
        xent<<<blocks(n), 128>>>(z.get(), y, dz.get(), l.get(), n, OUT);
        std::vector<float> hl = l.download();
        return std::accumulate(hl.begin(), hl.begin() + n, 0.f) / n;
    }
    void backward(int n) {
        gemm(CUBLAS_OP_N, CUBLAS_OP_T, OUT, HID, n, dz.get(), OUT, h.get(), HID, gW2.get(), OUT);
        colSum<<<1, 128>>>(dz.get(), gb2.get(), OUT, n);
        gemm(CUBLAS_OP_T, CUBLAS_OP_N, HID, n, OUT, W2.get(), OUT, dz.get(), OUT, dh.get(), HID);
        reluBack<<<blocks(n * HID), 128>>>(dh.get(), h.get(), n * HID);
        gemm(CUBLAS_OP_N, CUBLAS_OP_T, HID, IN, n, dh.get(), HID, x.get(), IN, gW1.get(), HID);
        colSum<<<1, 128>>>(dh.get(), gb1.get(), HID, n);
    }
    void step(float lr) {
        sgd<<<blocks(W1.size()), 128>>>(W1.get(), gW1.get(), lr, W1.size());
        sgd<<<blocks(b1.size()), 128>>>(b1.get(), gb1.get(), lr, b1.size());
        sgd<<<blocks(W2.size()), 128>>>(W2.get(), gW2.get(), lr, W2.size());
        sgd<<<blocks(b2.size()), 128>>>(b2.get(), gb2.get(), lr, b2.size());
    }
    void save(const char* path) {
        FILE* f = fopen(path, "wb");
        if (!f) throw std::runtime_error("cannot write the model");
        for (DeviceArray* p : {&W1, &b1, &W2, &b2}) { auto v = p->download(); fwrite(v.data(), 4, v.size(), f); }
        fclose(f);
    }
private:
    void init(DeviceArray& w, std::mt19937& rng, int fan) {
        std::normal_distribution<float> d(0.f, std::sqrt(2.f / fan));
        std::vector<float> v(w.size());
        for (float& e : v) e = d(rng);
        w.upload(v.data(), v.size());
    }
    void gemm(cublasOperation_t a, cublasOperation_t b, int m, int n, int k, const float* A, int lda, const float* B, int ldb, float* C, int ldc) {
        const float one = 1, zero = 0;
        if (cublasSgemm(cb, a, b, m, n, k, &one, A, lda, B, ldb, &zero, C, ldc) != CUBLAS_STATUS_SUCCESS) throw std::runtime_error("gemm");
    }
    cublasHandle_t cb;
    DeviceArray W1, b1, W2, b2, gW1, gb1, gW2, gb2, x, h, z, dz, dh, l;
    int* y;
};

static void makeData(std::mt19937& rng, int n, std::vector<float>& X, std::vector<int>& Y) {
    static float centre[OUT][IN]; static bool made = false;
    std::normal_distribution<float> nd(0, 1);
    if (!made) { for (auto& c : centre) for (float& e : c) e = nd(rng); made = true; }
    X.resize(n * IN); Y.resize(n);
    for (int i = 0; i < n; ++i) {
        Y[i] = rng() % OUT;
        for (int j = 0; j < IN; ++j) X[i * IN + j] = centre[Y[i]][j] + 0.9f * nd(rng);
    }
}

int main(int argc, char** argv) try {
    std::mt19937 rng(1234);
    std::vector<float> tx, vx; std::vector<int> ty, vy;
    const int NT = 744, NV = 160;          // 11 batches of 64 and one of 40
    makeData(rng, NT, tx, ty); makeData(rng, NV, vx, vy);
    Mlp net(rng);
    std::vector<int> order(NT);
    std::iota(order.begin(), order.end(), 0);
    std::vector<float> bx(BATCH * IN); std::vector<int> by(BATCH);
    for (int epoch = 0; epoch < 5; ++epoch) {
        std::shuffle(order.begin(), order.end(), rng);
        for (int at = 0; at < NT; at += BATCH) {
            int n = std::min(BATCH, NT - at);
            for (int i = 0; i < n; ++i) {
                std::copy_n(&tx[order[at + i] * IN], IN, &bx[i * IN]);
                by[i] = ty[order[at + i]];
            }
#ifdef ORACLE
            oracle::begin();
#endif
            float loss = net.forward(bx.data(), by.data(), n);
            net.backward(n);
#ifdef ORACLE
            if (oracle::ready())
#endif
            net.step(0.1f);
#ifdef ORACLE
            oracle::end();
#endif
            printf("epoch %d batch %d loss %.6f\n", epoch, at / BATCH, loss);
        }
#ifdef ORACLE
        oracle::boundary();
#endif
        float v = 0;
        for (int at = 0; at < NV; at += BATCH) {
            int n = std::min(BATCH, NV - at);
            v += n * net.forward(&vx[at * IN], &vy[at], n);
        }
        printf("epoch %d validation loss %.6f\n", epoch, v / NV);
    }
    net.save(argc > 1 ? argv[1] : "model.bin");
    return 0;
} catch (const std::exception& e) { fprintf(stderr, "error: %s\n", e.what()); return 1; }
