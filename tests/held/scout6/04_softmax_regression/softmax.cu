// Assignment 2: softmax regression on shuffled minibatches.
#include <algorithm>
#include <cmath>
#include <iomanip>
#include <iostream>
#include <numeric>
#include <random>
#include <vector>

#include "device_buffer.hpp"

struct Config {
    static constexpr int samples = 2000;
    static constexpr int features = 64;
    static constexpr int classes = 8;
    static constexpr int batchSize = 100;
    static constexpr int epochs = 6;
};

template <typename T>
__global__ void gatherRows(const T* data, const int* index, T* out, int rows, int cols)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < rows * cols)
        out[i] = data[index[i / cols] * cols + i % cols];
}

// probs = softmax(X W + b), one thread per row
template <typename T, int C>
__global__ void forwardKernel(const T* X, const T* W, const T* b, T* probs, int rows, int cols)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows)
        return;
    T z[C];
    for (int c = 0; c < C; ++c)
        z[c] = b[c];
    for (int j = 0; j < cols; ++j)
        for (int c = 0; c < C; ++c)
            z[c] += X[r * cols + j] * W[j * C + c];
    T m = z[0];
    for (int c = 1; c < C; ++c)
        m = z[c] > m ? z[c] : m;
    T sum = 0;
    for (int c = 0; c < C; ++c)
        sum += z[c] = exp(z[c] - m);
    for (int c = 0; c < C; ++c)
        probs[r * C + c] = z[c] / sum;
}

template <typename T>
__global__ void lossKernel(const T* probs, const int* labels, T* loss, T* delta, int rows, int classes)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows)
        return;
    loss[r] = -log(probs[r * classes + labels[r]] + T(1e-8));
    for (int c = 0; c < classes; ++c)
        delta[r * classes + c] = probs[r * classes + c] - (labels[r] == c ? T(1) : T(0));
}

template <typename T>
__global__ void gradKernel(const T* X, const T* delta, T* dW, T* db, int rows, int cols, int classes)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < cols * classes) {
        int j = i / classes, c = i % classes;
        T s = 0;
        for (int r = 0; r < rows; ++r)
            s += X[r * cols + j] * delta[r * classes + c];
        dW[i] = s / rows;
    }
    if (i < classes) {
        T s = 0;
        for (int r = 0; r < rows; ++r)
            s += delta[r * classes + i];
        db[i] = s / rows;
    }
}

template <typename T>
__global__ void momentumKernel(T* w, const T* g, T* v, int n, T lr, T mu)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        v[i] = mu * v[i] - lr * g[i];
        w[i] += v[i];
    }
}

inline int ceilDiv(int a, int b) { return (a + b - 1) / b; }

int main()
{
    using real = float;
    const int N = Config::samples, D = Config::features, C = Config::classes, B = Config::batchSize;

    std::mt19937 rng(7);
    std::normal_distribution<real> normal(0, 1);
    std::vector<real> centers(C * D), x(N * D);
    std::vector<int> y(N);
    for (auto& c : centers)
        c = normal(rng) * real(0.35);
    for (int i = 0; i < N; ++i) {
        y[i] = int(rng() % C);
        for (int j = 0; j < D; ++j)
            x[i * D + j] = centers[y[i] * D + j] + normal(rng);
    }

    DeviceBuffer<real> data(N * D), W(D * C), b(C), dW(D * C), db(C), vW(D * C), vb(C);
    DeviceBuffer<real> batch(B * D), probs(B * C), delta(B * C), loss(B);
    DeviceBuffer<int> labels(N), order(N), batchLabels(B);
    data.upload(x);
    labels.upload(y);
    std::vector<real> w0(D * C);
    for (auto& w : w0)
        w = normal(rng) * real(0.05);
    W.upload(w0);

    std::vector<int> perm(N);
    std::iota(perm.begin(), perm.end(), 0);
    std::cout << std::fixed << std::setprecision(5);
    for (int epoch = 0; epoch < Config::epochs; ++epoch) {
        std::shuffle(perm.begin(), perm.end(), rng);
        order.upload(perm);
        real epochLoss = 0;
        for (int it = 0; it < N / B; ++it) {
            const int* idx = order.get() + it * B;
            gatherRows<real><<<ceilDiv(B * D, 256), 256>>>(data.get(), idx, batch.get(), B, D);
            gatherRows<int><<<ceilDiv(B, 256), 256>>>(labels.get(), idx, batchLabels.get(), B, 1);
            forwardKernel<real, Config::classes><<<ceilDiv(B, 32), 32>>>(batch.get(), W.get(), b.get(), probs.get(), B, D);
            lossKernel<real><<<ceilDiv(B, 32), 32>>>(probs.get(), batchLabels.get(), loss.get(), delta.get(), B, C);
            gradKernel<real><<<ceilDiv(D * C, 128), 128>>>(batch.get(), delta.get(), dW.get(), db.get(), B, D, C);
            momentumKernel<real><<<ceilDiv(D * C, 128), 128>>>(W.get(), dW.get(), vW.get(), D * C, real(0.1), real(0.8));
            momentumKernel<real><<<1, 32>>>(b.get(), db.get(), vb.get(), C, real(0.1), real(0.8));
            for (real l : loss.download())
                epochLoss += l;
        }
        std::cout << "Epoch " << epoch << " loss = " << epochLoss / N << std::endl;
    }
    return 0;
}
