// Multinomial logistic regression with cuBLAS. Column major: one sample is one column of X.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>
#include <cublas_v2.h>
#include <cuda_runtime.h>

#define CUDA_OK(x)                                                    \
    if (cudaError_t e = (x)) {                                        \
        std::fprintf(stderr, "%d: %s\n", __LINE__, cudaGetErrorString(e)); \
        std::exit(1);                                                 \
    }
#define BLAS_OK(x)                                              \
    if (cublasStatus_t s = (x)) {                               \
        std::fprintf(stderr, "%d: cublas %d\n", __LINE__, (int)s); \
        std::exit(1);                                           \
    }

// scores (k x n) become probabilities minus the one-hot labels
__global__ void softmaxMinusOneHot(float *scores, const float *bias, const unsigned char *label, float *nll, int k, int n) {
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    if (j >= n) return;
    float *s = scores + j * k;
    float hi = -INFINITY, z = 0;
    for (int c = 0; c < k; c++) {
        s[c] += bias[c];
        hi = fmaxf(hi, s[c]);
    }
    for (int c = 0; c < k; c++) z += expf(s[c] - hi);
    nll[j] = hi + logf(z) - s[label[j]];
    for (int c = 0; c < k; c++) s[c] = expf(s[c] - hi) / z - (label[j] == c ? 1.f : 0.f);
}

template <typename T> T *toDevice(const std::vector<T> &v) {
    T *p;
    CUDA_OK(cudaMalloc(&p, v.size() * sizeof(T)));
    CUDA_OK(cudaMemcpy(p, v.data(), v.size() * sizeof(T), cudaMemcpyHostToDevice));
    return p;
}

int main(int argc, char **argv) {
    const int N = 720, D = 28, K = 7, B = 60;
    const int iterations = argc > 1 ? std::atoi(argv[1]) : 144;
    const float decay = 1e-3f;

    std::mt19937 rng(5);
    std::normal_distribution<float> gauss(0.f, 1.f);
    std::vector<float> centre(D * K), X(D * N);
    std::vector<unsigned char> Y(N);
    for (auto &c : centre) c = 0.6f * gauss(rng);
    for (int i = 0; i < N; i++) {
        Y[i] = rng() % K;
        for (int d = 0; d < D; d++) X[i * D + d] = centre[Y[i] * D + d] + gauss(rng);
    }

    float *dX = toDevice(X);
    unsigned char *dY = toDevice(Y);
    float *W = toDevice(std::vector<float>(K * D, 0.f));
    float *b = toDevice(std::vector<float>(K, 0.f));
    float *gW = toDevice(std::vector<float>(K * D));
    float *gb = toDevice(std::vector<float>(K));
    float *S = toDevice(std::vector<float>(K * B));
    float *ones = toDevice(std::vector<float>(B, 1.f));
    float *nll = toDevice(std::vector<float>(B));

    cublasHandle_t blas;
    BLAS_OK(cublasCreate(&blas));
    const float one = 1.f, zero = 0.f;
    float running = 0;

    for (int it = 0; it < iterations; it++) {
        const int start = (it * B) % N;
        const float *x = dX + start * D;

        BLAS_OK(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, K, B, D, &one, W, K, x, D, &zero, S, K));
        softmaxMinusOneHot<<<(B + 31) / 32, 32>>>(S, b, dY + start, nll, K, B);
        BLAS_OK(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_T, K, D, B, &one, S, K, x, D, &zero, gW, K));
        BLAS_OK(cublasSgemv(blas, CUBLAS_OP_N, K, B, &one, S, K, ones, 1, &zero, gb, 1));

        const float rate = 0.8f / (1.f + it / 60.f);
        const float shrink = 1.f - rate * decay, step = -rate / B;
        BLAS_OK(cublasSscal(blas, K * D, &shrink, W, 1));
        BLAS_OK(cublasSaxpy(blas, K * D, &step, gW, 1, W, 1));
        BLAS_OK(cublasSaxpy(blas, K, &step, gb, 1, b, 1));

        float sum;
        BLAS_OK(cublasSdot(blas, B, nll, 1, ones, 1, &sum));
        running += sum / B;
        if ((it + 1) % 12 == 0) {
            std::printf("iteration %3d  rate %.3f  nll %.4f\n", it + 1, rate, running / 12);
            running = 0;
        }
    }

    cublasDestroy(blas);
    for (void *p : {(void *)dX, (void *)dY, (void *)W, (void *)b, (void *)gW, (void *)gb, (void *)S, (void *)ones, (void *)nll}) cudaFree(p);
    return 0;
}
