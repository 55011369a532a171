// Fully connected regression network with cuBLAS. Row-major matrices, which cuBLAS sees transposed.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include <cublas_v2.h>
#include <cuda_runtime.h>

#define checkCuda(x)                                                                                      \
    if ((x) != cudaSuccess) {                                                                             \
        throw std::runtime_error(std::string("cuda: ") + cudaGetErrorString(cudaGetLastError()) + #x);    \
    }
#define checkCublas(x)                                             \
    if ((x) != CUBLAS_STATUS_SUCCESS) {                            \
        throw std::runtime_error(std::string("cublas: ") + #x);    \
    }

struct Config {
    int batchSize = 128;
    int steps = 150;
    float learningRate = 0.05f;
    float momentum = 0.9f;
    int logEvery = 25;
};

__global__ void addBiasTanh(float *y, const float *b, int rows, int cols, bool act)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < rows * cols) {
        float v = y[i] + b[i % cols];
        y[i] = act ? tanhf(v) : v;
    }
}

__global__ void tanhBackward(float *dy, const float *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        dy[i] *= 1.0f - y[i] * y[i];
}

__global__ void mseBackward(float *dy, const float *y, const float *t, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        dy[i] = y[i] - t[i];
}

__global__ void fill(float *p, float v, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        p[i] = v;
}

class Linear {
public:
    Linear(cublasHandle_t h, int in, int out, int maxBatch, bool act, std::mt19937 &rng)
        : handle(h), in(in), out(out), act(act)
    {
        checkCuda(cudaMalloc(&W, in * out * sizeof(float)));
        checkCuda(cudaMalloc(&b, out * sizeof(float)));
        checkCuda(cudaMalloc(&dW, in * out * sizeof(float)));
        checkCuda(cudaMalloc(&db, out * sizeof(float)));
        checkCuda(cudaMalloc(&vW, in * out * sizeof(float)));
        checkCuda(cudaMalloc(&vb, out * sizeof(float)));
        checkCuda(cudaMalloc(&Y, maxBatch * out * sizeof(float)));
        checkCuda(cudaMalloc(&dX, maxBatch * in * sizeof(float)));
        checkCuda(cudaMalloc(&ones, maxBatch * sizeof(float)));
        fill<<<(maxBatch + 127) / 128, 128>>>(ones, 1.0f, maxBatch);
        std::uniform_real_distribution<float> dist(-1.0f, 1.0f);
        std::vector<float> w(in * out);
        float r = std::sqrt(3.0f / in);
        for (auto &x : w)
            x = dist(rng) * r;
        checkCuda(cudaMemcpy(W, w.data(), w.size() * sizeof(float), cudaMemcpyHostToDevice));
        checkCuda(cudaMemset(b, 0, out * sizeof(float)));
        checkCuda(cudaMemset(vW, 0, in * out * sizeof(float)));
        checkCuda(cudaMemset(vb, 0, out * sizeof(float)));
    }
    ~Linear()
    {
        for (float *p : {W, b, dW, db, vW, vb, Y, dX, ones})
            cudaFree(p);
    }
    Linear(const Linear &) = delete;
    Linear &operator=(const Linear &) = delete;

    const float *forward(const float *x, int n)
    {
        X = x;
        const float one = 1.0f, zero = 0.0f;
        checkCublas(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, out, n, in, &one, W, out, x, in, &zero, Y, out));
        addBiasTanh<<<(n * out + 127) / 128, 128>>>(Y, b, n, out, act);
        return Y;
    }

    // dy is overwritten
    float *backward(float *dy, int n, bool needInput)
    {
        const float scale = 1.0f / n, one = 1.0f, zero = 0.0f;
        if (act)
            tanhBackward<<<(n * out + 127) / 128, 128>>>(dy, Y, n * out);
        checkCublas(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_T, out, in, n, &scale, dy, out, X, in, &zero, dW, out));
        checkCublas(cublasSgemv(handle, CUBLAS_OP_N, out, n, &scale, dy, out, ones, 1, &zero, db, 1));
        if (needInput)
            checkCublas(cublasSgemm(handle, CUBLAS_OP_T, CUBLAS_OP_N, in, n, out, &one, W, out, dy, out, &zero, dX, in));
        return dX;
    }

    void step(float lr, float mu)
    {
        update(W, dW, vW, in * out, lr, mu);
        update(b, db, vb, out, lr, mu);
    }

private:
    void update(float *w, float *g, float *v, int n, float lr, float mu)
    {
        const float one = 1.0f, minusLr = -lr;
        checkCublas(cublasSscal(handle, n, &mu, v, 1));
        checkCublas(cublasSaxpy(handle, n, &minusLr, g, 1, v, 1));
        checkCublas(cublasSaxpy(handle, n, &one, v, 1, w, 1));
    }

    cublasHandle_t handle;
    int in, out;
    bool act;
    float *W, *b, *dW, *db, *vW, *vb, *Y, *dX, *ones;
    const float *X = nullptr;
};

class Network {
public:
    Network(const std::vector<int> &sizes, int maxBatch, unsigned seed) : outputs(sizes.back())
    {
        checkCublas(cublasCreate(&handle));
        std::mt19937 rng(seed);
        for (size_t i = 0; i + 1 < sizes.size(); ++i)
            layers.emplace_back(new Linear(handle, sizes[i], sizes[i + 1], maxBatch, i + 2 < sizes.size(), rng));
        checkCuda(cudaMalloc(&delta, maxBatch * outputs * sizeof(float)));
    }
    ~Network()
    {
        layers.clear();
        cudaFree(delta);
        cublasDestroy(handle);
    }

    // returns the mean squared error over the batch
    float train(const float *x, const float *t, int n, const Config &cfg)
    {
        const float *y = x;
        for (auto &l : layers)
            y = l->forward(y, n);
        mseBackward<<<(n * outputs + 127) / 128, 128>>>(delta, y, t, n * outputs);
        float norm;
        checkCublas(cublasSnrm2(handle, n * outputs, delta, 1, &norm));
        float *d = delta;
        for (int i = (int)layers.size() - 1; i >= 0; --i)
            d = layers[i]->backward(d, n, i > 0);
        for (auto &l : layers)
            l->step(cfg.learningRate, cfg.momentum);
        return norm * norm / n;
    }

private:
    int outputs;
    cublasHandle_t handle;
    std::vector<std::unique_ptr<Linear>> layers;
    float *delta;
};

int main()
{
    Config cfg;
    const int D = 8, K = 2;
    Network net({D, 64, 48, K}, cfg.batchSize, 5);

    float *d_x, *d_t;
    checkCuda(cudaMalloc(&d_x, cfg.batchSize * D * sizeof(float)));
    checkCuda(cudaMalloc(&d_t, cfg.batchSize * K * sizeof(float)));

    std::mt19937 rng(99);
    std::uniform_real_distribution<float> u(-1.0f, 1.0f);
    std::vector<float> x(cfg.batchSize * D), t(cfg.batchSize * K);
    float smooth = 0.0f;
    for (int step = 1; step <= cfg.steps; ++step) {
        // fresh samples of the target function
        for (int i = 0; i < cfg.batchSize; ++i) {
            float *r = &x[i * D];
            for (int j = 0; j < D; ++j)
                r[j] = u(rng);
            t[i * K] = std::sin(2.0f * r[0]) + r[1] * r[2];
            t[i * K + 1] = 0.5f * (r[3] - r[4]) + r[5] * r[5];
        }
        checkCuda(cudaMemcpy(d_x, x.data(), x.size() * sizeof(float), cudaMemcpyHostToDevice));
        checkCuda(cudaMemcpy(d_t, t.data(), t.size() * sizeof(float), cudaMemcpyHostToDevice));
        float loss = net.train(d_x, d_t, cfg.batchSize, cfg);
        smooth = step == 1 ? loss : 0.9f * smooth + 0.1f * loss;
        if (step == 1 || step % cfg.logEvery == 0)
            std::cout << "step " << step << " loss " << loss << " smoothed " << smooth << std::endl;
    }
    cudaFree(d_x);
    cudaFree(d_t);
    return 0;
}
