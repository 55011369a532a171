// Denoising autoencoder: pixels are dropped at random, the network restores them. cuBLAS, column major, RMSprop.
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <cassert>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

struct Matrix {
    int rows = 0, cols = 0;   // column major; a column is a sample
    float *d = nullptr;
    Matrix() {}
    Matrix(int r, int c) : rows(r), cols(c) {
        cudaError_t e = cudaMalloc((void **)&d, sizeof(float) * r * c);
        assert(e == cudaSuccess);
        (void)e;
        cudaMemset(d, 0, sizeof(float) * r * c);
    }
    int size() const { return rows * cols; }
};

static cublasHandle_t handle;

// C = alpha * op(A) op(B) + beta * C
static void gemm(const Matrix &A, bool ta, const Matrix &B, bool tb, Matrix &C, float alpha, float beta) {
    int m = C.rows, n = C.cols, k = ta ? A.rows : A.cols;
    cublasStatus_t s = cublasSgemm(handle, ta ? CUBLAS_OP_T : CUBLAS_OP_N, tb ? CUBLAS_OP_T : CUBLAS_OP_N, m, n, k, &alpha,
                                   A.d, A.rows, B.d, B.rows, &beta, C.d, C.rows);
    if (s != CUBLAS_STATUS_SUCCESS) { fprintf(stderr, "gemm: %d\n", (int)s); exit(1); }
}

__host__ __device__ static inline unsigned hash32(unsigned x) {
    x ^= x >> 16; x *= 0x7feb352du;
    x ^= x >> 15; x *= 0x846ca68bu;
    return x ^ (x >> 16);
}

__global__ void corrupt(const float *x, float *y, int n, unsigned seed, float keep) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = (hash32(seed ^ hash32(i)) & 0xffffff) * (1.f / 16777216.f) < keep ? x[i] : 0.f;
}

__global__ void bias_act(float *z, const float *b, int rows, int n, int sigmoid) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float v = z[i] + b[i % rows];
        z[i] = sigmoid ? 1.f / (1.f + expf(-v)) : tanhf(v);
    }
}

__global__ void output_delta(const float *y, const float *x, float *delta, float *err, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float e = y[i] - x[i];
        err[i] = e;
        delta[i] = e * y[i] * (1.f - y[i]);
    }
}

__global__ void tanh_delta(float *delta, const float *h, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) delta[i] *= 1.f - h[i] * h[i];
}

__global__ void rmsprop(float *w, const float *g, float *ms, int n, float lr) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        ms[i] = 0.9f * ms[i] + 0.1f * g[i] * g[i];
        w[i] -= lr * g[i] * rsqrtf(ms[i] + 1e-8f);
    }
}

struct Weights {
    Matrix value, grad, cache;
    Weights(int r, int c) : value(r, c), grad(r, c), cache(r, c) {}
    void init(float a) {
        std::vector<float> h(value.size());
        for (auto &v : h) v = a * (2.f * rand() / RAND_MAX - 1.f);
        cudaMemcpy(value.d, h.data(), sizeof(float) * h.size(), cudaMemcpyHostToDevice);
    }
    void update(float lr) {
        rmsprop<<<(value.size() + 127) / 128, 128>>>(value.d, grad.d, cache.d, value.size(), lr);
    }
};

#define LAUNCH(n) ((n) + 127) / 128, 128

int main() {
    const int pixels = 64, hidden = 20, batch = 32, samples = 512, steps = 56;
    srand(12);
    cublasCreate(&handle);

    // smooth pictures: a few Gaussian blobs
    std::vector<float> pictures(samples * pixels);
    for (int s = 0; s < samples; ++s) {
        float cx = 7.f * rand() / RAND_MAX, cy = 7.f * rand() / RAND_MAX, w = 1.f + 2.f * rand() / RAND_MAX;
        for (int p = 0; p < pixels; ++p) {
            float dx = p % 8 - cx, dy = p / 8 - cy;
            pictures[s * pixels + p] = expf(-(dx * dx + dy * dy) / (2 * w * w));
        }
    }
    Matrix data(pixels, samples);
    cudaMemcpy(data.d, pictures.data(), sizeof(float) * data.size(), cudaMemcpyHostToDevice);

    Weights W1(hidden, pixels), b1(hidden, 1), W2(pixels, hidden), b2(pixels, 1);
    W1.init(sqrtf(6.f / (hidden + pixels)));
    W2.init(sqrtf(6.f / (hidden + pixels)));
    Matrix noisy(pixels, batch), h(hidden, batch), y(pixels, batch), dy(pixels, batch), dh(hidden, batch), err(pixels, batch);
    Matrix ones(batch, 1);
    std::vector<float> one(batch, 1.f);
    cudaMemcpy(ones.d, one.data(), sizeof(float) * batch, cudaMemcpyHostToDevice);

    for (int step = 0; step < steps; ++step) {
        Matrix x;   // a view
        x.rows = pixels;
        x.cols = batch;
        x.d = data.d + (size_t)(step * batch % samples) * pixels;

        corrupt<<<LAUNCH(x.size())>>>(x.d, noisy.d, x.size(), 1234u + step, 0.8f);
        gemm(W1.value, false, noisy, false, h, 1.f, 0.f);
        bias_act<<<LAUNCH(h.size())>>>(h.d, b1.value.d, hidden, h.size(), 0);
        gemm(W2.value, false, h, false, y, 1.f, 0.f);
        bias_act<<<LAUNCH(y.size())>>>(y.d, b2.value.d, pixels, y.size(), 1);

        output_delta<<<LAUNCH(y.size())>>>(y.d, x.d, dy.d, err.d, y.size());
        gemm(W2.value, true, dy, false, dh, 1.f, 0.f);
        tanh_delta<<<LAUNCH(dh.size())>>>(dh.d, h.d, dh.size());
        const float mean = 1.f / batch;
        gemm(dy, false, h, true, W2.grad, mean, 0.f);
        gemm(dy, false, ones, false, b2.grad, mean, 0.f);
        gemm(dh, false, noisy, true, W1.grad, mean, 0.f);
        gemm(dh, false, ones, false, b1.grad, mean, 0.f);

        W1.update(0.01f);
        b1.update(0.01f);
        W2.update(0.01f);
        b2.update(0.01f);

        if (step % 8 == 0 || step + 1 == steps) {
            float sq;
            cublasSdot(handle, err.size(), err.d, 1, err.d, 1, &sq);
            printf("step %2d  reconstruction error %.5f\n", step, sq / batch);
        }
    }
    cublasDestroy(handle);
    return 0;
}
