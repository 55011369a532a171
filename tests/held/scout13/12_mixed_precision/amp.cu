// Mixed precision: fp16 activations and weight copies, fp32 master weights and gradients, dynamic loss scale.
#include <cublas_v2.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#define CUDA_CHECK(x) do { cudaError_t s = (x); if (s != cudaSuccess) { fprintf(stderr, "CUDA %s at %d\n", cudaGetErrorString(s), __LINE__); exit(1); } } while (0)
#define CUBLAS_CHECK(x) do { cublasStatus_t s = (x); if (s != CUBLAS_STATUS_SUCCESS) { fprintf(stderr, "cuBLAS %d at %d\n", (int)s, __LINE__); exit(1); } } while (0)

struct FullyConnected {
    int in, out;
    float *master, *grad, *momentum;  // fp32 [in x out], row major
    half *weight;                     // fp16 copy
    half *output, *delta;
};

template <typename T> T *alloc(size_t n) {
    T *p;
    CUDA_CHECK(cudaMalloc(&p, n * sizeof(T)));
    CUDA_CHECK(cudaMemset(p, 0, n * sizeof(T)));
    return p;
}

__global__ void to_half(const float *a, half *b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) b[i] = __float2half(a[i]);
}

__global__ void relu(half *a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && __half2float(a[i]) < 0.f) a[i] = __float2half(0.f);
}

__global__ void relu_backward(half *d, const half *a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && __half2float(a[i]) <= 0.f) d[i] = __float2half(0.f);
}

__global__ void cross_entropy(const half *logits, const int *label, half *delta, float *loss, int n, int classes, float scale) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float top = -1e30f, sum = 0.f;
    for (int c = 0; c < classes; ++c) top = fmaxf(top, __half2float(logits[i * classes + c]));
    for (int c = 0; c < classes; ++c) sum += expf(__half2float(logits[i * classes + c]) - top);
    for (int c = 0; c < classes; ++c) {
        float p = expf(__half2float(logits[i * classes + c]) - top) / sum;
        delta[i * classes + c] = __float2half((p - (c == label[i] ? 1.f : 0.f)) * scale / n);
    }
    loss[i] = top + logf(sum) - __half2float(logits[i * classes + label[i]]);
}

__global__ void find_overflow(const float *g, int n, int *flag) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && !isfinite(g[i])) *flag = 1;
}

__global__ void master_step(float *w, half *w16, const float *g, float *m, int n, float lr, float inv_scale) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    m[i] = 0.9f * m[i] + g[i] * inv_scale;
    w[i] -= lr * m[i];
    w16[i] = __float2half(w[i]);
}

static inline int nb(int n) { return (n + 127) / 128; }

int main() {
    const int BATCH = 64, FEATURES = 32, CLASSES = 8, SAMPLES = 768, STEPS = 48;
    std::mt19937 rng(42);
    std::normal_distribution<float> normal;

    std::vector<float> centers(CLASSES * FEATURES);
    for (auto &c : centers) c = 0.5f * normal(rng);
    std::vector<half> xs(SAMPLES * FEATURES);
    std::vector<int> ys(SAMPLES);
    for (int i = 0; i < SAMPLES; ++i) {
        ys[i] = rng() % CLASSES;
        for (int f = 0; f < FEATURES; ++f) {
            float v = centers[ys[i] * FEATURES + f] + 0.8f * normal(rng);
            if (f == FEATURES - 1) v = 1.f;  // takes the place of a bias
            xs[i * FEATURES + f] = __float2half(v);
        }
    }

    std::array<FullyConnected, 2> fc;
    int dims[] = {FEATURES, 48, CLASSES};
    for (int l = 0; l < 2; ++l) {
        FullyConnected &f = fc[l];
        f.in = dims[l];
        f.out = dims[l + 1];
        int n = f.in * f.out;
        f.master = alloc<float>(n);
        f.grad = alloc<float>(n);
        f.momentum = alloc<float>(n);
        f.weight = alloc<half>(n);
        f.output = alloc<half>(BATCH * f.out);
        f.delta = alloc<half>(BATCH * f.out);
        std::vector<float> w(n);
        for (auto &v : w) v = normal(rng) * std::sqrt(1.f / f.in);
        CUDA_CHECK(cudaMemcpy(f.master, w.data(), n * sizeof(float), cudaMemcpyHostToDevice));
        to_half<<<nb(n), 128>>>(f.master, f.weight, n);
    }
    half *x = alloc<half>(BATCH * FEATURES);
    int *y = alloc<int>(BATCH), *overflow = alloc<int>(1);
    float *loss = alloc<float>(BATCH);
    std::vector<float> h_loss(BATCH);

    cublasHandle_t blas;
    CUBLAS_CHECK(cublasCreate(&blas));
    const float one = 1.f, zero = 0.f;
    float scale = 1024.f;
    int good = 0;

    for (int step = 0; step < STEPS; ++step) {
        const int first = (step * BATCH) % SAMPLES;
        CUDA_CHECK(cudaMemcpyAsync(x, xs.data() + first * FEATURES, BATCH * FEATURES * sizeof(half), cudaMemcpyHostToDevice));
        CUDA_CHECK(cudaMemcpyAsync(y, ys.data() + first, BATCH * sizeof(int), cudaMemcpyHostToDevice));

        const half *in = x;
        for (int l = 0; l < 2; ++l) {
            CUBLAS_CHECK(cublasGemmEx(blas, CUBLAS_OP_N, CUBLAS_OP_N, fc[l].out, BATCH, fc[l].in, &one, fc[l].weight, CUDA_R_16F,
                                      fc[l].out, in, CUDA_R_16F, fc[l].in, &zero, fc[l].output, CUDA_R_16F, fc[l].out,
                                      CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
            if (l == 0) relu<<<nb(BATCH * fc[l].out), 128>>>(fc[l].output, BATCH * fc[l].out);
            in = fc[l].output;
        }
        cross_entropy<<<nb(BATCH), 128>>>(fc[1].output, y, fc[1].delta, loss, BATCH, CLASSES, scale);

        CUBLAS_CHECK(cublasGemmEx(blas, CUBLAS_OP_N, CUBLAS_OP_T, fc[1].out, fc[1].in, BATCH, &one, fc[1].delta, CUDA_R_16F,
                                  fc[1].out, fc[0].output, CUDA_R_16F, fc[1].in, &zero, fc[1].grad, CUDA_R_32F, fc[1].out,
                                  CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
        CUBLAS_CHECK(cublasGemmEx(blas, CUBLAS_OP_T, CUBLAS_OP_N, fc[1].in, BATCH, fc[1].out, &one, fc[1].weight, CUDA_R_16F,
                                  fc[1].out, fc[1].delta, CUDA_R_16F, fc[1].out, &zero, fc[0].delta, CUDA_R_16F, fc[1].in,
                                  CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
        relu_backward<<<nb(BATCH * fc[0].out), 128>>>(fc[0].delta, fc[0].output, BATCH * fc[0].out);
        CUBLAS_CHECK(cublasGemmEx(blas, CUBLAS_OP_N, CUBLAS_OP_T, fc[0].out, fc[0].in, BATCH, &one, fc[0].delta, CUDA_R_16F,
                                  fc[0].out, x, CUDA_R_16F, fc[0].in, &zero, fc[0].grad, CUDA_R_32F, fc[0].out,
                                  CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));

        int bad = 0;
        CUDA_CHECK(cudaMemset(overflow, 0, sizeof(int)));
        for (auto &f : fc) find_overflow<<<nb(f.in * f.out), 128>>>(f.grad, f.in * f.out, overflow);
        CUDA_CHECK(cudaMemcpy(&bad, overflow, sizeof(int), cudaMemcpyDeviceToHost));
        if (bad) {
            scale *= 0.5f;
            good = 0;
            printf("step %d: overflow, scale is now %.0f\n", step, scale);
            continue;
        }
        for (auto &f : fc)
            master_step<<<nb(f.in * f.out), 128>>>(f.master, f.weight, f.grad, f.momentum, f.in * f.out, 0.05f, 1.f / scale);
        if (++good % 20 == 0) scale *= 2.f;

        if (step % 8 == 0 || step == STEPS - 1) {
            CUDA_CHECK(cudaMemcpy(h_loss.data(), loss, BATCH * sizeof(float), cudaMemcpyDeviceToHost));
            float mean = 0.f;
            for (float l : h_loss) mean += l;
            printf("step %d loss %.4f scale %.0f\n", step, mean / BATCH, scale);
        }
    }
    CUBLAS_CHECK(cublasDestroy(blas));
    return 0;
}
