// Linear multi-class SVM (one-vs-rest, hinge loss, L2) by mini-batch SGD.
// usage: ./train [batch size] [epochs] [lambda]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <numeric>
#include <vector>
#include <cuda_runtime.h>

using namespace std;

static const int D = 100;
static const int K = 5;
static const int N = 1950;

struct Lcg {
    unsigned long long s;
    explicit Lcg(unsigned long long seed) : s(seed) {}
    float next() {
        s = s * 6364136223846793005ULL + 1442695040888963407ULL;
        return (float)((s >> 40) & 0xffffff) / (float)0x1000000;
    }
    float gauss() {
        float a = 0;
        for (int i = 0; i < 12; i++) a += next();
        return a - 6.0f;
    }
};

// margins[i*K+k] holds -y if the margin is violated, else 0
__global__ void svm_margins(const float* x, const int* label, const float* w, const float* b,
                            float* margins, float* loss, int n) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n * K) return;
    int i = t / K, k = t % K;
    float s = b[k];
    for (int j = 0; j < D; j++) s += w[k * D + j] * x[i * D + j];
    float y = label[i] == k ? 1.0f : -1.0f;
    float h = 1.0f - y * s;
    margins[t] = h > 0 ? -y : 0;
    if (h > 0) atomicAdd(loss, h);
}

__global__ void svm_grad(const float* x, const float* margins, float* gw, float* gb, int n) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t < K * D) {
        int k = t / D, j = t % D;
        float s = 0;
        for (int i = 0; i < n; i++) s += margins[i * K + k] * x[i * D + j];
        gw[t] = s / n;
    }
    if (t < K) {
        float s = 0;
        for (int i = 0; i < n; i++) s += margins[i * K + t];
        gb[t] = s / n;
    }
}

__global__ void svm_update(float* w, float* b, const float* gw, const float* gb, float lr, float lambda) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t < K * D) w[t] -= lr * (gw[t] + lambda * w[t]);
    if (t < K) b[t] -= lr * gb[t];
}

__global__ void svm_predict(const float* x, const int* label, const float* w, const float* b, int* correct, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int best = 0;
    float bs = -1e30f;
    for (int k = 0; k < K; k++) {
        float s = b[k];
        for (int j = 0; j < D; j++) s += w[k * D + j] * x[i * D + j];
        if (s > bs) { bs = s; best = k; }
    }
    if (best == label[i]) atomicAdd(correct, 1);
}

template <typename T>
T* toDevice(const vector<T>& v) {
    T* p = nullptr;
    cudaMalloc(&p, v.size() * sizeof(T));
    cudaMemcpy(p, v.data(), v.size() * sizeof(T), cudaMemcpyHostToDevice);
    return p;
}

int main(int argc, char** argv) {
    int batchSize = argc > 1 ? atoi(argv[1]) : 100;
    int epochs = argc > 2 ? atoi(argv[2]) : 6;
    float lambda = argc > 3 ? atof(argv[3]) : 1e-3f;

    Lcg rng(2021);
    vector<float> centers(K * D);
    for (auto& c : centers) c = 0.35f * rng.gauss();
    vector<float> X(N * D);
    vector<int> Y(N);
    for (int i = 0; i < N; i++) {
        Y[i] = (int)(rng.next() * K);
        for (int j = 0; j < D; j++) X[i * D + j] = centers[Y[i] * D + j] + rng.gauss();
    }

    float* dX = toDevice(X);
    int* dY = toDevice(Y);
    float* w = toDevice(vector<float>(K * D, 0.0f));
    float* b = toDevice(vector<float>(K, 0.0f));
    float *gw, *gb, *margins, *loss;
    int* correct;
    cudaMalloc(&gw, K * D * sizeof(float));
    cudaMalloc(&gb, K * sizeof(float));
    cudaMalloc(&margins, batchSize * K * sizeof(float));
    cudaMalloc(&loss, sizeof(float));
    cudaMalloc(&correct, sizeof(int));

    int t = 0;
    for (int e = 0; e < epochs; e++) {
        cudaMemset(loss, 0, sizeof(float));
        for (int start = 0; start < N; start += batchSize) {
            int n = min(batchSize, N - start);   // last batch is smaller
            float lr = 0.05f / (1.0f + 0.01f * t++);
            svm_margins<<<(n * K + 255) / 256, 256>>>(dX + start * D, dY + start, w, b, margins, loss, n);
            svm_grad<<<(K * D + 255) / 256, 256>>>(dX + start * D, margins, gw, gb, n);
            svm_update<<<(K * D + 255) / 256, 256>>>(w, b, gw, gb, lr, lambda);
        }
        float h;
        int c;
        cudaMemcpy(&h, loss, sizeof(float), cudaMemcpyDeviceToHost);
        cudaMemset(correct, 0, sizeof(int));
        svm_predict<<<(N + 255) / 256, 256>>>(dX, dY, w, b, correct, N);
        cudaMemcpy(&c, correct, sizeof(int), cudaMemcpyDeviceToHost);
        cout << "epoch " << e << " hinge " << h / N << " accuracy " << 100.0 * c / N << "%" << endl;
    }

    for (void* p : {(void*)dX, (void*)dY, (void*)w, (void*)b, (void*)gw, (void*)gb, (void*)margins, (void*)loss,
                    (void*)correct})
        cudaFree(p);
    return 0;
}
