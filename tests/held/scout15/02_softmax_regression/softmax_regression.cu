// Multinomial logistic regression on the GPU with cuBLAS.
// The whole training set is uploaded once; minibatches are windows into it.
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#define CUDA_CHECK(e)                                                                    \
    if ((e) != cudaSuccess) {                                                            \
        fprintf(stderr, "CUDA error at %s:%d\n", __FILE__, __LINE__);                    \
        exit(EXIT_FAILURE);                                                              \
    }
#define CUBLAS_CHECK(e)                                                                  \
    if ((e) != CUBLAS_STATUS_SUCCESS) {                                                  \
        fprintf(stderr, "cuBLAS error at %s:%d\n", __FILE__, __LINE__);                  \
        exit(EXIT_FAILURE);                                                              \
    }

struct Config {
    int samples = 960;
    int features = 30;
    int classes = 5;
    int batch_size = 48;
    int epochs = 3;
    float learning_rate = 0.3f;
};

// Turns scores into probabilities minus one-hot labels, one thread a sample.
__global__ void softmax_error(float *scores, const int *labels, float *nll, int n, int classes) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float *row = scores + i * classes;
    float top = row[0];
    for (int c = 1; c < classes; c++) top = fmaxf(top, row[c]);
    float sum = 0.f;
    for (int c = 0; c < classes; c++) {
        row[c] = expf(row[c] - top);
        sum += row[c];
    }
    for (int c = 0; c < classes; c++) row[c] /= sum;
    nll[i] = -logf(row[labels[i]]);
    row[labels[i]] -= 1.f;
}

int main() {
    Config cfg;
    const int D = cfg.features, K = cfg.classes;
    std::mt19937 rng(7);
    std::normal_distribution<float> gauss(0.f, 1.f);
    std::vector<float> centers(K * D), X(cfg.samples * D);
    std::vector<int> Y(cfg.samples);
    for (auto &c : centers) c = 0.5f * gauss(rng);
    for (int i = 0; i < cfg.samples; i++) {
        Y[i] = rng() % K;
        for (int j = 0; j < D; j++) X[i * D + j] = centers[Y[i] * D + j] + gauss(rng);
    }

    float *d_X, *d_W, *d_grad, *d_scores, *d_nll;
    int *d_Y;
    CUDA_CHECK(cudaMalloc(&d_X, X.size() * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&d_Y, Y.size() * sizeof(int)));
    CUDA_CHECK(cudaMalloc(&d_W, D * K * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&d_grad, D * K * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&d_scores, cfg.batch_size * K * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&d_nll, cfg.batch_size * sizeof(float)));
    CUDA_CHECK(cudaMemcpy(d_X, X.data(), X.size() * sizeof(float), cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemcpy(d_Y, Y.data(), Y.size() * sizeof(int), cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemset(d_W, 0, D * K * sizeof(float)));

    cublasHandle_t handle;
    CUBLAS_CHECK(cublasCreate(&handle));
    const float one = 1.f, zero = 0.f;
    const int num_batches = cfg.samples / cfg.batch_size;

    for (int epoch = 0; epoch < cfg.epochs; epoch++) {
        float epoch_loss = 0.f;
        for (int b = 0; b < num_batches; b++) {
            const float *x = d_X + b * cfg.batch_size * D;
            const int *y = d_Y + b * cfg.batch_size;
            CUBLAS_CHECK(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, K, cfg.batch_size, D, &one, d_W, K, x, D, &zero,
                                     d_scores, K));
            softmax_error<<<(cfg.batch_size + 31) / 32, 32>>>(d_scores, y, d_nll, cfg.batch_size, K);
            CUDA_CHECK(cudaGetLastError());
            CUBLAS_CHECK(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_T, K, D, cfg.batch_size, &one, d_scores, K, x, D, &zero,
                                     d_grad, K));
            float step = -cfg.learning_rate / cfg.batch_size;
            CUBLAS_CHECK(cublasSaxpy(handle, D * K, &step, d_grad, 1, d_W, 1));

            float total = 0.f;
            CUBLAS_CHECK(cublasSasum(handle, cfg.batch_size, d_nll, 1, &total));
            epoch_loss += total / cfg.batch_size;
        }
        printf("epoch %d  loss %.5f\n", epoch, epoch_loss / num_batches);
    }

    std::vector<float> W(D * K);
    CUDA_CHECK(cudaMemcpy(W.data(), d_W, W.size() * sizeof(float), cudaMemcpyDeviceToHost));
    int right = 0;
    for (int i = 0; i < cfg.samples; i++) {
        int best = 0;
        float best_score = -1e30f;
        for (int c = 0; c < K; c++) {
            float s = 0.f;
            for (int j = 0; j < D; j++) s += X[i * D + j] * W[j * K + c];
            if (s > best_score) best_score = s, best = c;
        }
        right += best == Y[i];
    }
    printf("training accuracy %.3f\n", (double)right / cfg.samples);
    cublasDestroy(handle);
    cudaFree(d_X); cudaFree(d_Y); cudaFree(d_W); cudaFree(d_grad); cudaFree(d_scores); cudaFree(d_nll);
    return 0;
}
