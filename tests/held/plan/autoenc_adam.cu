// Autoencoder 32-12-32 with Adam.  One flat parameter buffer, one flat gradient
// buffer, and the layers are offsets into them.  Products with cuBLAS (column major,
// a batch is one column for each example).
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>
#ifdef ORACLE
#include "oracle.h"
#endif

#define CHECK_CUDA(expr) if (cudaError_t e = (expr); e != cudaSuccess) { fprintf(stderr, "%s failed: %s\n", #expr, cudaGetErrorString(e)); std::exit(2); }
#define CHECK_BLAS(expr) if ((expr) != CUBLAS_STATUS_SUCCESS) { fprintf(stderr, "%s failed\n", #expr); std::exit(3); }

namespace {
constexpr int D = 32, Z = 12, NB = 48;
constexpr int oW1 = 0, oB1 = oW1 + Z * D, oW2 = oB1 + Z, oB2 = oW2 + D * Z, NPAR = oB2 + D;

template <class F>
__global__ void apply(int n, F f) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) f(i);
}
struct BiasTanh { float* a; const float* b; int rows; __device__ void operator()(int i) const { a[i] = tanhf(a[i] + b[i % rows]); } };
struct BiasOnly { float* a; const float* b; int rows; __device__ void operator()(int i) const { a[i] += b[i % rows]; } };
struct Diff {
    const float *out, *x; float *d, *sq; float scale;
    __device__ void operator()(int i) const { float e = out[i] - x[i]; d[i] = scale * e; sq[i] = e * e; }
};
struct TanhGrad { float* d; const float* a; __device__ void operator()(int i) const { d[i] *= 1.f - a[i] * a[i]; } };
struct Adam {
    float *w, *m, *v; const float* g; float lr, b1, b2, b1t, b2t;
    __device__ void operator()(int i) const {
        m[i] = b1 * m[i] + (1 - b1) * g[i];
        v[i] = b2 * v[i] + (1 - b2) * g[i] * g[i];
        float mh = m[i] / (1 - b1t), vh = v[i] / (1 - b2t);
        w[i] -= lr * mh / (sqrtf(vh) + 1e-8f);
    }
};
template <class F> void launch(int n, F f) { apply<<<(n + 127) / 128, 128>>>(n, f); }
float* alloc(int n) { float* p; CHECK_CUDA(cudaMalloc(&p, sizeof(float) * n)); CHECK_CUDA(cudaMemset(p, 0, sizeof(float) * n)); return p; }
}

int main(int argc, char** argv) {
    std::mt19937 rng(99);
    std::normal_distribution<float> nd;
    // data on a curved 5-dimensional sheet in 32 dimensions
    const int N = 960;
    std::vector<float> mix(D * 5), data(N * D);
    for (float& m : mix) m = 0.6f * nd(rng);
    for (int n = 0; n < N; ++n) {
        float s[5];
        for (float& e : s) e = nd(rng);
        for (int d = 0; d < D; ++d) {
            float t = 0;
            for (int k = 0; k < 5; ++k) t += mix[d * 5 + k] * s[k];
            data[n * D + d] = std::tanh(t) + 0.02f * nd(rng);
        }
    }
    std::vector<float> init(NPAR, 0.f);
    for (int i = 0; i < Z * D; ++i) { init[oW1 + i] = nd(rng) / std::sqrt((float)D); init[oW2 + i] = nd(rng) / std::sqrt((float)Z); }

    float *par = alloc(NPAR), *grad = alloc(NPAR), *m = alloc(NPAR), *v = alloc(NPAR);
    float *x = alloc(D * NB), *h = alloc(Z * NB), *out = alloc(D * NB), *dout = alloc(D * NB), *dh = alloc(Z * NB), *sq = alloc(D * NB), *ones = alloc(NB);
    std::vector<float> one(NB, 1.f);
    CHECK_CUDA(cudaMemcpy(ones, one.data(), NB * sizeof(float), cudaMemcpyHostToDevice));
    CHECK_CUDA(cudaMemcpy(par, init.data(), NPAR * sizeof(float), cudaMemcpyHostToDevice));
#ifdef ORACLE
    oracle::state(par, NPAR); oracle::state(m, NPAR); oracle::state(v, NPAR); oracle::grad(grad, NPAR);
#endif
    cublasHandle_t bl;
    CHECK_BLAS(cublasCreate(&bl));
    const float a1 = 1, a0 = 0;
    float b1t = 1, b2t = 1;
    for (int epoch = 0; epoch < 12; ++epoch) {
        float mean = 0;
        for (int at = 0; at + NB <= N; at += NB) {
            CHECK_CUDA(cudaMemcpy(x, &data[at * D], sizeof(float) * D * NB, cudaMemcpyHostToDevice));
#ifdef ORACLE
            oracle::begin();
#endif
            CHECK_BLAS(cublasSgemm(bl, CUBLAS_OP_N, CUBLAS_OP_N, Z, NB, D, &a1, par + oW1, Z, x, D, &a0, h, Z));
            launch(Z * NB, BiasTanh{h, par + oB1, Z});
            CHECK_BLAS(cublasSgemm(bl, CUBLAS_OP_N, CUBLAS_OP_N, D, NB, Z, &a1, par + oW2, D, h, Z, &a0, out, D));
            launch(D * NB, BiasOnly{out, par + oB2, D});
            launch(D * NB, Diff{out, x, dout, sq, 2.f / (D * NB)});
            CHECK_BLAS(cublasSgemm(bl, CUBLAS_OP_N, CUBLAS_OP_T, D, Z, NB, &a1, dout, D, h, Z, &a0, grad + oW2, D));
            CHECK_BLAS(cublasSgemv(bl, CUBLAS_OP_N, D, NB, &a1, dout, D, ones, 1, &a0, grad + oB2, 1));
            CHECK_BLAS(cublasSgemm(bl, CUBLAS_OP_T, CUBLAS_OP_N, Z, NB, D, &a1, par + oW2, D, dout, D, &a0, dh, Z));
            launch(Z * NB, TanhGrad{dh, h});
            CHECK_BLAS(cublasSgemm(bl, CUBLAS_OP_N, CUBLAS_OP_T, Z, D, NB, &a1, dh, Z, x, D, &a0, grad + oW1, Z));
            CHECK_BLAS(cublasSgemv(bl, CUBLAS_OP_N, Z, NB, &a1, dh, Z, ones, 1, &a0, grad + oB1, 1));
            b1t *= 0.9f; b2t *= 0.999f;
            float u1 = b1t, u2 = b2t;
#ifdef ORACLE
            // same products, for the number of updates
            if (!oracle::box().step_program) { u1 = u2 = 1; for (int k = oracle::step(0); k > 0; --k) { u1 *= 0.9f; u2 *= 0.999f; } }
            if (oracle::ready())
#endif
            launch(NPAR, Adam{par, m, v, grad, 4e-3f, 0.9f, 0.999f, u1, u2});
#ifdef ORACLE
            oracle::end();
#endif
            float s;
            CHECK_BLAS(cublasSasum(bl, D * NB, sq, 1, &s));
            mean += s / (D * NB);
        }
        printf("epoch %2d  mse %.6f\n", epoch + 1, mean / (N / NB));
    }
#ifdef ORACLE
    oracle::boundary();
#endif
    std::vector<float> res(NPAR);
    CHECK_CUDA(cudaMemcpy(res.data(), par, NPAR * sizeof(float), cudaMemcpyDeviceToHost));
    FILE* f = std::fopen(argc > 1 ? argv[1] : "model.bin", "wb");
    if (!f) { std::perror("model"); return 1; }
    std::fwrite(res.data(), sizeof(float), NPAR, f);
    std::fclose(f);
    cublasDestroy(bl);
    for (float* p : {par, grad, m, v, x, h, out, dout, dh, sq, ones}) cudaFree(p);
}
