// Regression with a three-layer network, cuBLAS for the products, Adam.
#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

static void checkCuda(cudaError_t e, int line) {
    if (e != cudaSuccess) { fprintf(stderr, "cuda: %s (line %d)\n", cudaGetErrorString(e), line); exit(1); }
}
static void checkBlas(cublasStatus_t s, int line) {
    if (s != CUBLAS_STATUS_SUCCESS) { fprintf(stderr, "cublas: %d (line %d)\n", (int)s, line); exit(1); }
}
#define CU(x) checkCuda((x), __LINE__)
#define CB(x) checkBlas((x), __LINE__)

class DeviceBuffer {
public:
    explicit DeviceBuffer(size_t n) : n_(n) {
        CU(cudaMalloc(&p_, n * sizeof(float)));
        CU(cudaMemset(p_, 0, n * sizeof(float)));
    }
    ~DeviceBuffer() { cudaFree(p_); }
    DeviceBuffer(const DeviceBuffer&) = delete;
    DeviceBuffer& operator=(const DeviceBuffer&) = delete;
    float* get() const { return p_; }
    size_t size() const { return n_; }
    void copyFrom(const float* h, size_t n) { assert(n <= n_); CU(cudaMemcpy(p_, h, n * sizeof(float), cudaMemcpyHostToDevice)); }
    void copyTo(float* h, size_t n) const { assert(n <= n_); CU(cudaMemcpy(h, p_, n * sizeof(float), cudaMemcpyDeviceToHost)); }
private:
    float* p_ = nullptr;
    size_t n_;
};
using Buf = std::unique_ptr<DeviceBuffer>;
static Buf make(size_t n) { return Buf(new DeviceBuffer(n)); }

__global__ void addBias(float* y, const float* b, int rows, int total) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < total) y[i] += b[i % rows];
}
__global__ void tanhInPlace(float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = tanhf(y[i]);
}
__global__ void tanhGrad(float* dy, const float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) dy[i] *= 1.f - y[i] * y[i];
}
__global__ void mseGrad(const float* pred, const float* target, float* d, float scale, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) d[i] = scale * (pred[i] - target[i]);
}
__global__ void fill(float* p, float v, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) p[i] = v;
}
__global__ void adamKernel(float* w, const float* g, float* m, float* v, float lr, float c1, float c2, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    m[i] = 0.9f * m[i] + 0.1f * g[i];
    v[i] = 0.999f * v[i] + 0.001f * g[i] * g[i];
    w[i] -= lr * (m[i] / c1) / (sqrtf(v[i] / c2) + 1e-8f);
}
static int grid(int n) { return (n + 255) / 256; }

// y = W x + b; column-major, one sample a column.
class Dense {
public:
    Dense(cublasHandle_t h, int in, int out, int maxBatch, bool act, std::mt19937& rng)
        : h_(h), in_(in), out_(out), act_(act), W(make(in * out)), b(make(out)), dW(make(in * out)), db(make(out)),
          mW(make(in * out)), vW(make(in * out)), mb(make(out)), vb(make(out)),
          y(make(out * maxBatch)), dx(make(in * maxBatch)), ones(make(maxBatch)) {
        std::normal_distribution<float> nd(0.f, std::sqrt(1.f / in));
        std::vector<float> w(in * out);
        for (auto& x : w) x = nd(rng);
        W->copyFrom(w.data(), w.size());
        fill<<<grid(maxBatch), 256>>>(ones->get(), 1.f, maxBatch);
    }
    const float* forward(const float* x, int batch) {
        x_ = x;
        const float one = 1.f, zero = 0.f;
        CB(cublasSgemm(h_, CUBLAS_OP_N, CUBLAS_OP_N, out_, batch, in_, &one, W->get(), out_, x, in_, &zero, y->get(), out_));
        addBias<<<grid(out_ * batch), 256>>>(y->get(), b->get(), out_, out_ * batch);
        if (act_) tanhInPlace<<<grid(out_ * batch), 256>>>(y->get(), out_ * batch);
        return y->get();
    }
    float* backward(float* dy, int batch, bool needInput) {
        const float one = 1.f, zero = 0.f;
        if (act_) tanhGrad<<<grid(out_ * batch), 256>>>(dy, y->get(), out_ * batch);
        CB(cublasSgemm(h_, CUBLAS_OP_N, CUBLAS_OP_T, out_, in_, batch, &one, dy, out_, x_, in_, &zero, dW->get(), out_));
        CB(cublasSgemv(h_, CUBLAS_OP_N, out_, batch, &one, dy, out_, ones->get(), 1, &zero, db->get(), 1));
        if (!needInput) return nullptr;
        CB(cublasSgemm(h_, CUBLAS_OP_T, CUBLAS_OP_N, in_, batch, out_, &one, W->get(), out_, dy, out_, &zero, dx->get(), in_));
        return dx->get();
    }
    void adam(float lr, int t) {
        float c1 = 1.f - std::pow(0.9f, t), c2 = 1.f - std::pow(0.999f, t);
        adamKernel<<<grid(W->size()), 256>>>(W->get(), dW->get(), mW->get(), vW->get(), lr, c1, c2, (int)W->size());
        adamKernel<<<grid(b->size()), 256>>>(b->get(), db->get(), mb->get(), vb->get(), lr, c1, c2, (int)b->size());
    }
private:
    cublasHandle_t h_;
    int in_, out_;
    bool act_;
    const float* x_ = nullptr;
    Buf W, b, dW, db, mW, vW, mb, vb, y, dx, ones;
};

int main(int argc, char** argv) {
    int batchSize = argc > 1 ? atoi(argv[1]) : 100;
    const int nIn = 8, hidden = 40, nOut = 2, nTrain = 2000, epochs = 8;

    std::mt19937 rng(2020);
    std::uniform_real_distribution<float> u(-1.f, 1.f);
    std::vector<std::vector<float>> X(nTrain, std::vector<float>(nIn)), Y(nTrain, std::vector<float>(nOut));
    for (int i = 0; i < nTrain; ++i) {
        for (auto& v : X[i]) v = u(rng);
        Y[i][0] = std::sin(2.f * X[i][0]) * X[i][1] + 0.5f * X[i][2];
        Y[i][1] = X[i][3] * X[i][4] - X[i][5];
    }

    cublasHandle_t handle;
    CB(cublasCreate(&handle));
    {
        std::vector<std::unique_ptr<Dense>> net;
        net.emplace_back(new Dense(handle, nIn, hidden, batchSize, true, rng));
        net.emplace_back(new Dense(handle, hidden, hidden, batchSize, true, rng));
        net.emplace_back(new Dense(handle, hidden, nOut, batchSize, false, rng));
        Buf input = make(nIn * batchSize), target = make(nOut * batchSize), dOut = make(nOut * batchSize);
        std::vector<float> hx, hy, pred(nOut * batchSize);

        std::vector<int> idx(nTrain);
        std::iota(idx.begin(), idx.end(), 0);
        int t = 0;
        for (int epoch = 0; epoch < epochs; ++epoch) {
            std::shuffle(idx.begin(), idx.end(), rng);
            double loss = 0;
            int batches = 0;
            for (int start = 0; start + batchSize <= nTrain; start += batchSize, ++batches) {
                hx.clear();
                hy.clear();
                for (int k = start; k < start + batchSize; ++k) {
                    hx.insert(hx.end(), X[idx[k]].begin(), X[idx[k]].end());
                    hy.insert(hy.end(), Y[idx[k]].begin(), Y[idx[k]].end());
                }
                input->copyFrom(hx.data(), hx.size());
                target->copyFrom(hy.data(), hy.size());

                const float* a = input->get();
                for (auto& l : net) a = l->forward(a, batchSize);
                mseGrad<<<grid(nOut * batchSize), 256>>>(a, target->get(), dOut->get(), 2.f / (batchSize * nOut), nOut * batchSize);
                float* d = dOut->get();
                for (int l = (int)net.size() - 1; l >= 0; --l) d = net[l]->backward(d, batchSize, l > 0);
                ++t;
                for (auto& l : net) l->adam(0.005f, t);

                CU(cudaMemcpy(pred.data(), a, pred.size() * sizeof(float), cudaMemcpyDeviceToHost));
                double mse = 0;
                for (size_t i = 0; i < pred.size(); ++i) mse += (pred[i] - hy[i]) * (pred[i] - hy[i]);
                loss += mse / pred.size();
            }
            printf("Epoch %2d: loss = %.6f\n", epoch + 1, loss / batches);
        }
    }
    CB(cublasDestroy(handle));
    return 0;
}
