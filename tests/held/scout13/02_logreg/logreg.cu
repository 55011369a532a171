/*
 * Logistic regression, binary, with L2. The data set stays on the device; X is row major [samples x features].
 * cuBLAS does X*w and X^T*e.
 */
#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <cmath>
#include <iostream>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#define CUDA(x) do { if ((x) != cudaSuccess) throw std::runtime_error(std::string("cuda: ") + #x); } while (0)
#define BLAS(x) do { if ((x) != CUBLAS_STATUS_SUCCESS) throw std::runtime_error(std::string("cublas: ") + #x); } while (0)

__global__ void residual(const float *score, const float *bias, const float *y, float *e, float *loss, int n)
{
    const int i = threadIdx.x + blockIdx.x * blockDim.x;
    if (i < n) {
        const float s = score[i] + *bias;
        const float p = 1.0f / (1.0f + expf(-s));
        e[i] = p - y[i];
        loss[i] = fmaxf(s, 0.0f) - s * y[i] + log1pf(expf(-fabsf(s)));
    }
}

class LogisticRegression
{
public:
    struct Options {
        int batch = 64;
        int epochs = 5;
        float rate = 0.5f;
        float l2 = 1e-3f;
    };

    LogisticRegression(int features, const Options &opt) : m_features(features), m_opt(opt)
    {
        BLAS(cublasCreate(&m_blas));
        CUDA(cudaMalloc(&m_w, features * sizeof(float)));
        CUDA(cudaMalloc(&m_b, sizeof(float)));
        CUDA(cudaMalloc(&m_gw, features * sizeof(float)));
        CUDA(cudaMalloc(&m_gb, sizeof(float)));
        CUDA(cudaMalloc(&m_score, opt.batch * sizeof(float)));
        CUDA(cudaMalloc(&m_err, opt.batch * sizeof(float)));
        CUDA(cudaMalloc(&m_loss, opt.batch * sizeof(float)));
        CUDA(cudaMalloc(&m_ones, opt.batch * sizeof(float)));
        CUDA(cudaMemset(m_w, 0, features * sizeof(float)));
        CUDA(cudaMemset(m_b, 0, sizeof(float)));
        std::vector<float> ones(opt.batch, 1.0f);
        CUDA(cudaMemcpy(m_ones, ones.data(), opt.batch * sizeof(float), cudaMemcpyHostToDevice));
    }

    ~LogisticRegression()
    {
        for (float *p : {m_w, m_b, m_gw, m_gb, m_score, m_err, m_loss, m_ones})
            cudaFree(p);
        cublasDestroy(m_blas);
    }

    LogisticRegression(const LogisticRegression &) = delete;
    LogisticRegression &operator=(const LogisticRegression &) = delete;

    void fit(const float *X, const float *y, int samples)
    {
        const int steps = samples / m_opt.batch;
        for (int epoch = 1; epoch <= m_opt.epochs; ++epoch) {
            float epochLoss = 0.0f;
            for (int s = 0; s < steps; ++s) {
                const std::size_t first = static_cast<std::size_t>(s) * m_opt.batch;
                epochLoss += step(X + first * m_features, y + first, m_opt.batch);
            }
            std::cout << "epoch " << epoch << "  loss " << epochLoss / steps << std::endl;
        }
    }

    std::vector<float> weights() const
    {
        std::vector<float> w(m_features);
        CUDA(cudaMemcpy(w.data(), m_w, m_features * sizeof(float), cudaMemcpyDeviceToHost));
        return w;
    }

private:
    float step(const float *X, const float *y, int n)
    {
        const float one = 1.0f, zero = 0.0f, mean = 1.0f / n, decay = m_opt.l2, minusRate = -m_opt.rate;
        const int d = m_features;
        // row major X is column major X^T (d x n)
        BLAS(cublasSgemv(m_blas, CUBLAS_OP_T, d, n, &one, X, d, m_w, 1, &zero, m_score, 1));
        residual<<<(n + 31) / 32, 32>>>(m_score, m_b, y, m_err, m_loss, n);
        BLAS(cublasSgemv(m_blas, CUBLAS_OP_N, d, n, &mean, X, d, m_err, 1, &zero, m_gw, 1));
        BLAS(cublasSgemv(m_blas, CUBLAS_OP_T, n, 1, &mean, m_err, n, m_ones, 1, &zero, m_gb, 1));
        BLAS(cublasSaxpy(m_blas, d, &decay, m_w, 1, m_gw, 1));
        BLAS(cublasSaxpy(m_blas, d, &minusRate, m_gw, 1, m_w, 1));
        BLAS(cublasSaxpy(m_blas, 1, &minusRate, m_gb, 1, m_b, 1));
        float sum = 0.0f;
        BLAS(cublasSasum(m_blas, n, m_loss, 1, &sum));
        return sum / n;
    }

    int m_features;
    Options m_opt;
    cublasHandle_t m_blas = nullptr;
    float *m_w = nullptr, *m_b = nullptr, *m_gw = nullptr, *m_gb = nullptr;
    float *m_score = nullptr, *m_err = nullptr, *m_loss = nullptr, *m_ones = nullptr;
};

int main(int argc, char **argv)
try {
    LogisticRegression::Options opt;
    if (argc > 1) opt.epochs = std::stoi(argv[1]);
    const int samples = 640, features = 54;

    std::mt19937 gen(2024);
    std::normal_distribution<float> normal;
    std::vector<float> truth(features), X(samples * features), y(samples);
    for (auto &t : truth) t = normal(gen);
    for (int i = 0; i < samples; ++i) {
        float s = 0.3f;
        for (int k = 0; k < features; ++k) {
            X[i * features + k] = normal(gen);
            s += X[i * features + k] * truth[k];
        }
        y[i] = s + 0.5f * normal(gen) > 0.0f ? 1.0f : 0.0f;
    }

    float *dX, *dy;
    CUDA(cudaMalloc(&dX, X.size() * sizeof(float)));
    CUDA(cudaMalloc(&dy, y.size() * sizeof(float)));
    CUDA(cudaMemcpy(dX, X.data(), X.size() * sizeof(float), cudaMemcpyHostToDevice));
    CUDA(cudaMemcpy(dy, y.data(), y.size() * sizeof(float), cudaMemcpyHostToDevice));

    LogisticRegression model(features, opt);
    model.fit(dX, dy, samples);

    const auto w = model.weights();
    float dot = 0.0f, a = 0.0f, b = 0.0f;
    for (int k = 0; k < features; ++k) {
        dot += w[k] * truth[k];
        a += w[k] * w[k];
        b += truth[k] * truth[k];
    }
    std::cout << "cosine to the true weights " << dot / std::sqrt(a * b) << std::endl;
    cudaFree(dX);
    cudaFree(dy);
    return 0;
} catch (const std::exception &e) {
    std::cerr << e.what() << std::endl;
    return 1;
}
