// Multiclass linear SVM (Weston-Watkins hinge) with L2 regularisation, as in the first assignment of CS231n. Bias trick.
#include <iostream>
#include <fstream>
#include <vector>
#include <random>
#include <numeric>
#include <algorithm>
#include <cuda_runtime.h>

#define gpuErrchk(ans) { gpuAssert((ans), __FILE__, __LINE__); }
inline void gpuAssert(cudaError_t code, const char *file, int line)
{
    if (code != cudaSuccess) {
        std::cerr << "GPUassert: " << cudaGetErrorString(code) << " " << file << " " << line << std::endl;
        exit(code);
    }
}

__global__ void scoresKernel(const float *X, const float *W, float *S, int D, int C)
{
    int i = blockIdx.x, c = threadIdx.x;
    float s = 0.f;
    for (int d = 0; d < D; d++) s += X[i * D + d] * W[d * C + c];
    S[i * C + c] = s;
}

// turns the scores into dL/dscores; losses per example
__global__ void hingeKernel(float *S, const int *y, float *L, int N, int C)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= N) return;
    float *s = S + i * C, correct = s[y[i]], l = 0.f;
    int violated = 0;
    for (int c = 0; c < C; c++) {
        if (c == y[i]) continue;
        float margin = s[c] - correct + 1.f;
        if (margin > 0) { l += margin; violated++; s[c] = 1.f; } else s[c] = 0.f;
    }
    s[y[i]] = -(float)violated;
    L[i] = l;
}

__global__ void gradKernel(const float *X, const float *S, const float *W, float *dW, int N, int D, int C, float reg)
{
    int d = blockIdx.x, c = threadIdx.x;
    float g = 0.f;
    for (int i = 0; i < N; i++) g += X[i * D + d] * S[i * C + c];
    dW[d * C + c] = g / N + 2.f * reg * W[d * C + c];
}

__global__ void momentumKernel(float *W, float *V, const float *dW, int n, float lr, float mu)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        V[i] = mu * V[i] - lr * dW[i];
        W[i] += V[i];
    }
}

class LinearSVM {
public:
    LinearSVM(int dim, int classes, float reg) : D(dim), C(classes), reg(reg)
    {
        gpuErrchk(cudaMalloc(&W, D * C * sizeof(float)));
        gpuErrchk(cudaMalloc(&V, D * C * sizeof(float)));
        gpuErrchk(cudaMalloc(&dW, D * C * sizeof(float)));
        std::mt19937 rng(0);
        std::normal_distribution<float> n(0.f, 0.001f);
        std::vector<float> w(D * C);
        for (auto &v : w) v = n(rng);
        gpuErrchk(cudaMemcpy(W, w.data(), w.size() * sizeof(float), cudaMemcpyHostToDevice));
        gpuErrchk(cudaMemset(V, 0, D * C * sizeof(float)));
    }
    ~LinearSVM() { cudaFree(W); cudaFree(V); cudaFree(dW); }

    std::vector<float> train(const std::vector<float> &X, const std::vector<int> &y, int iters, int batch_size, float lr)
    {
        int num = (int)y.size();
        std::vector<float> history, Xb(batch_size * D), L(batch_size);
        std::vector<int> yb(batch_size);
        float *dX, *dS, *dL;
        int *dy;
        gpuErrchk(cudaMalloc(&dX, batch_size * D * sizeof(float)));
        gpuErrchk(cudaMalloc(&dy, batch_size * sizeof(int)));
        gpuErrchk(cudaMalloc(&dS, batch_size * C * sizeof(float)));
        gpuErrchk(cudaMalloc(&dL, batch_size * sizeof(float)));
        std::mt19937 rng(1);
        for (int it = 0; it < iters; it++) {
            for (int i = 0; i < batch_size; i++) {          // sample with replacement
                int k = rng() % num;
                std::copy(X.begin() + k * D, X.begin() + (k + 1) * D, Xb.begin() + i * D);
                yb[i] = y[k];
            }
            gpuErrchk(cudaMemcpy(dX, Xb.data(), Xb.size() * sizeof(float), cudaMemcpyHostToDevice));
            gpuErrchk(cudaMemcpy(dy, yb.data(), yb.size() * sizeof(int), cudaMemcpyHostToDevice));
            scoresKernel<<<batch_size, C>>>(dX, W, dS, D, C);
            hingeKernel<<<(batch_size + 63) / 64, 64>>>(dS, dy, dL, batch_size, C);
            gradKernel<<<D, C>>>(dX, dS, W, dW, batch_size, D, C, reg);
            momentumKernel<<<(D * C + 255) / 256, 256>>>(W, V, dW, D * C, lr, 0.9f);
            gpuErrchk(cudaGetLastError());
            gpuErrchk(cudaMemcpy(L.data(), dL, L.size() * sizeof(float), cudaMemcpyDeviceToHost));
            history.push_back(std::accumulate(L.begin(), L.end(), 0.f) / batch_size);
            if (it % 25 == 0) std::cout << "iteration " << it << " / " << iters << ": loss " << history.back() << std::endl;
        }
        cudaFree(dX); cudaFree(dy); cudaFree(dS); cudaFree(dL);
        return history;
    }

    std::vector<int> predict(const std::vector<float> &X)
    {
        int n = (int)X.size() / D;
        float *dX, *dS;
        gpuErrchk(cudaMalloc(&dX, X.size() * sizeof(float)));
        gpuErrchk(cudaMalloc(&dS, n * C * sizeof(float)));
        gpuErrchk(cudaMemcpy(dX, X.data(), X.size() * sizeof(float), cudaMemcpyHostToDevice));
        scoresKernel<<<n, C>>>(dX, W, dS, D, C);
        std::vector<float> s(n * C);
        gpuErrchk(cudaMemcpy(s.data(), dS, s.size() * sizeof(float), cudaMemcpyDeviceToHost));
        std::vector<int> p(n);
        for (int i = 0; i < n; i++) p[i] = int(std::max_element(s.begin() + i * C, s.begin() + (i + 1) * C) - (s.begin() + i * C));
        cudaFree(dX); cudaFree(dS);
        return p;
    }

private:
    int D, C;
    float reg, *W, *V, *dW;
};

int main()
{
    const int D = 101, C = 10, N = 2000, NT = 400;
    std::mt19937 rng(10);
    std::normal_distribution<float> n(0.f, 1.f);
    std::vector<float> centre(C * D);
    for (auto &v : centre) v = 0.5f * n(rng);
    std::vector<float> X(N * D), Xt(NT * D);
    std::vector<int> y(N), yt(NT);
    auto fill = [&](std::vector<float> &x, std::vector<int> &l) {
        for (size_t i = 0; i < l.size(); i++) {
            l[i] = rng() % C;
            for (int d = 0; d < D; d++) x[i * D + d] = d == D - 1 ? 1.f : centre[l[i] * D + d] + n(rng);
        }
    };
    fill(X, y);
    fill(Xt, yt);

    LinearSVM svm(D, C, 1e-3f);
    auto h = svm.train(X, y, 150, 128, 2e-3f);
    std::cout << "last loss " << h.back() << std::endl;
    auto p = svm.predict(Xt);
    int ok = 0;
    for (int i = 0; i < NT; i++) ok += p[i] == yt[i];
    std::cout << "test accuracy " << (float)ok / NT << std::endl;
}
