// MLP regression; the gradient of k = 2 micro-batches is added up before a step.
// Momentum, weight decay, a cosine learning-rate schedule with warm-up by epoch, and
// clipping by the global norm of the gradient (worked out on the device).
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

namespace cfg {
constexpr int in = 8, hidden = 32, micro = 24, k = 2, epochs = 10, rows = 24 * 2 * 18;
constexpr float peak = 0.08f, mu = 0.9f, decay = 1e-3f, maxnorm = 1.0f;
}
constexpr int NW1 = cfg::in * cfg::hidden, NTOT = NW1 + cfg::hidden + cfg::hidden + 1;   // W1, b1, w2, b2

class Cuda {
public:
    static void ok(cudaError_t e) { if (e != cudaSuccess) { std::fprintf(stderr, "cuda: %s\n", cudaGetErrorString(e)); std::exit(1); } }
    template <class T> static T* make(size_t n) { T* p; ok(cudaMalloc((void**)&p, n * sizeof(T))); ok(cudaMemset(p, 0, n * sizeof(T))); return p; }
};

__global__ void tanhBias(float* h, const float* b) { int i = blockIdx.x * cfg::hidden + threadIdx.x; h[i] = tanhf(h[i] + b[threadIdx.x]); }
__global__ void out(const float* h, const float* w, const float* b, const float* y, float* d, float* loss) {
    int r = threadIdx.x;
    float s = *b;
    for (int j = 0; j < cfg::hidden; ++j) s += h[r * cfg::hidden + j] * w[j];
    float e = s - y[r];
    d[r] = 2 * e / (cfg::micro * cfg::k);
    atomicAdd(loss, e * e / (cfg::micro * cfg::k));
}
__global__ void hiddenGrad(const float* h, const float* w, const float* d, float* dh) {
    int r = blockIdx.x, j = threadIdx.x, i = r * cfg::hidden + j;
    dh[i] = d[r] * w[j] * (1 - h[i] * h[i]);
}
// adds to the gradient
__global__ void smallGrads(const float* h, const float* d, const float* dh, float* gb1, float* gw2, float* gb2) {
    int j = threadIdx.x;
    float a = 0, b = 0, c = 0;
    for (int r = 0; r < cfg::micro; ++r) { a += dh[r * cfg::hidden + j]; b += d[r] * h[r * cfg::hidden + j]; c += d[r]; }
    gb1[j] += a; gw2[j] += b;
    if (j == 0) *gb2 += c;
}
__global__ void normK(const float* g, int n, float* norm) {
    __shared__ float s[128];
    float t = 0;
    for (int i = threadIdx.x; i < n; i += 128) t += g[i] * g[i];
    s[threadIdx.x] = t;
    __syncthreads();
    for (int o = 64; o; o >>= 1) { if (threadIdx.x < o) s[threadIdx.x] += s[threadIdx.x + o]; __syncthreads(); }
    if (threadIdx.x == 0) *norm = sqrtf(s[0]);
}
__global__ void clippedMomentum(float* w, float* v, const float* g, const float* norm, int n, float lr) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float c = *norm > cfg::maxnorm ? cfg::maxnorm / *norm : 1.f;
    v[i] = cfg::mu * v[i] + c * g[i] + cfg::decay * w[i];
    w[i] -= lr * v[i];
}

int main(int argc, char** argv) {
    using namespace cfg;
    std::mt19937 rng(321);
    std::uniform_real_distribution<float> u(-1, 1);
    std::vector<float> X(rows * in), Y(rows), W(NTOT, 0.f);
    for (int i = 0; i < rows; ++i) {
        float* x = &X[i * in];
        for (int j = 0; j < in; ++j) x[j] = u(rng);
        Y[i] = 2 * std::sin(2 * x[0] + x[1]) + 1.5f * x[2] * x[3] - x[4] + 0.1f * u(rng);
    }
    for (int i = 0; i < NW1; ++i) W[i] = 0.5f * u(rng);
    for (int i = 0; i < hidden; ++i) W[NW1 + hidden + i] = 0.3f * u(rng);
    float *w = Cuda::make<float>(NTOT), *g = Cuda::make<float>(NTOT), *v = Cuda::make<float>(NTOT);
    float *dX = Cuda::make<float>(rows * in), *dY = Cuda::make<float>(rows), *h = Cuda::make<float>(micro * hidden), *dh = Cuda::make<float>(micro * hidden);
    float *d = Cuda::make<float>(micro), *norm = Cuda::make<float>(1), *loss = Cuda::make<float>(1);
    Cuda::ok(cudaMemcpy(w, W.data(), NTOT * sizeof(float), cudaMemcpyHostToDevice));
    Cuda::ok(cudaMemcpy(dX, X.data(), X.size() * sizeof(float), cudaMemcpyHostToDevice));
    Cuda::ok(cudaMemcpy(dY, Y.data(), Y.size() * sizeof(float), cudaMemcpyHostToDevice));
#ifdef ORACLE
    oracle::state(w, NTOT); oracle::state(v, NTOT); oracle::grad(g, NTOT);   // a batch here is the k micro-batches of one step
#endif
    cublasHandle_t cb;
    cublasCreate(&cb);
    const float one = 1, zero = 0;
    int step = 0;
    for (int e = 0; e < epochs; ++e) {
        float lr = e < 2 ? peak * (e + 1) / 2 : 0.5f * peak * (1 + std::cos(3.14159265f * (e - 2) / (epochs - 2)));
        float mean = 0, n, l;
        for (int b = 0; b < rows / (micro * k); ++b, ++step) {
            cudaMemsetAsync(g, 0, NTOT * sizeof(float));
            cudaMemsetAsync(loss, 0, sizeof(float));
#ifdef ORACLE
            oracle::begin();
#endif
            for (int m = 0; m < k; ++m) {
                const float *x = dX + (b * k + m) * micro * in, *y = dY + (b * k + m) * micro;
                cublasSgemm(cb, CUBLAS_OP_N, CUBLAS_OP_N, hidden, micro, in, &one, w, hidden, x, in, &zero, h, hidden);
                tanhBias<<<micro, hidden>>>(h, w + NW1);
                out<<<1, micro>>>(h, w + NW1 + hidden, w + NTOT - 1, y, d, loss);
                hiddenGrad<<<micro, hidden>>>(h, w + NW1 + hidden, d, dh);
                cublasSgemm(cb, CUBLAS_OP_N, CUBLAS_OP_T, hidden, in, micro, &one, dh, hidden, x, in, &one, g, hidden);
                smallGrads<<<1, hidden>>>(h, d, dh, g + NW1, g + NW1 + hidden, g + NTOT - 1);
            }
#ifdef ORACLE
            if (oracle::ready())
#endif
            {
                normK<<<1, 128>>>(g, NTOT, norm);
                clippedMomentum<<<(NTOT + 127) / 128, 128>>>(w, v, g, norm, NTOT, lr);
            }
#ifdef ORACLE
            oracle::end();
#endif
            Cuda::ok(cudaMemcpy(&l, loss, sizeof l, cudaMemcpyDeviceToHost));
            mean += l * micro * k / rows;
            if (step % 10 == 0) {
                Cuda::ok(cudaMemcpy(&n, norm, sizeof n, cudaMemcpyDeviceToHost));
                std::printf("step %d loss %.5f |g| %.4f lr %.4f\n", step, l, n, lr);
            }
        }
        std::printf("epoch %d loss %.5f\n", e, mean);
    }
#ifdef ORACLE
    oracle::boundary();
#endif
    Cuda::ok(cudaMemcpy(W.data(), w, NTOT * sizeof(float), cudaMemcpyDeviceToHost));
    std::FILE* f = std::fopen(argc > 1 ? argv[1] : "model.bin", "wb");
    if (!f) return 1;
    std::fwrite(W.data(), sizeof(float), NTOT, f);
    std::fclose(f);
    cublasDestroy(cb);
}
