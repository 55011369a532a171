// One-layer net in cuBLAS; the update is the gemm of the backward pass itself, so
// there are no gradient buffers.
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <ddprun.h>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

constexpr int IN = 16, OUT = 4, BATCH = 32, DATA = 512;

// out and target: OUT x n, column-major
__global__ void subtract(float *out, const float *target, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n * OUT) out[i] -= target[i];
}

int main(int argc, char **argv)
{
    int steps = argc > 1 ? atoi(argv[1]) : 60;
    const float rate = 0.2f, one = 1, zero = 0;
    std::minstd_rand rng(4);
    std::normal_distribution<float> nd;
    std::vector<float> x(IN * DATA), t(OUT * DATA, 0.f), w(OUT * IN), truth(OUT * IN);
    for (auto &v : truth) v = nd(rng);
    for (auto &v : w) v = 0.1f * nd(rng);
    for (auto &v : x) v = nd(rng);
    for (int c = 0; c < DATA; ++c)
        for (int o = 0; o < OUT; ++o) {
            for (int i = 0; i < IN; ++i) t[c * OUT + o] += truth[i * OUT + o] * x[c * IN + i];
            t[c * OUT + o] += 0.1f * nd(rng);
        }
    float *dx, *dt, *dw, *out;
    cudaMalloc(&dx, x.size() * 4); cudaMalloc(&dt, t.size() * 4);
    cudaMalloc(&dw, w.size() * 4); cudaMalloc(&out, OUT * BATCH * 4);
    cublasHandle_t h;
    cublasCreate(&h);
    cublasSetVector(x.size(), 4, x.data(), 1, dx, 1);
    cublasSetVector(t.size(), 4, t.data(), 1, dt, 1);
    cublasSetVector(w.size(), 4, w.data(), 1, dw, 1);
    DDP_PARAMETER(dw, OUT * IN, DDP_FLOAT32);
    for (int s = 0; s < steps; ++s) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        int n = (int)count;
        size_t col = s * BATCH % DATA + first;
        cublasSgemm(h, CUBLAS_OP_N, CUBLAS_OP_N, OUT, n, IN, &one, dw, OUT, dx + col * IN, IN, &zero, out, OUT);
        subtract<<<2, 64>>>(out, dt + col * OUT, n);
        const float alpha = -rate / BATCH;
        cublasSgemm(h, CUBLAS_OP_N, CUBLAS_OP_T, OUT, IN, n, &alpha, out, OUT, dx + col * IN, IN, &one, dw, OUT);
        DDP_STEP_PARAMETERS(0);
        if (s % 20 == 0 || s + 1 == steps) {
            float norm;
            cublasSnrm2(h, n * OUT, out, 1, &norm);
            float loss = norm * norm / n;
            DDP_MEAN(&loss);
            if (DDP_RANK() == 0) printf("step %d loss %.4f\n", s, loss);
        }
    }
    cublasDestroy(h);
    return 0;
}
