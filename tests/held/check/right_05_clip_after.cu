// Gradient clipping by global norm on the host's decision, behind the average.
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <ddprun.h>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

const int D = 18, B = 24, N = 288;

__global__ void huge_gradient(const float *x, const float *y, const float *w, float *g, float *l, int n)
{
    int t = threadIdx.x;
    float s = 0, q = 0;
    for (int r = 0; r < n; r++) {
        float e = -y[r];
        for (int d = 0; d < D; d++) e += x[r * D + d] * w[d];
        s += 4 * e * e * e * x[r * D + t]; // fourth power loss
        q += e * e * e * e;
    }
    g[t] = s / n;
    if (t == 0) *l = q / n;
}

int main(int argc, char **argv)
{
    int steps = argc > 1 ? atoi(argv[1]) : 80;
    std::mt19937 g(1001);
    std::normal_distribution<float> nd;
    std::vector<float> x(N * D), y(N);
    for (int i = 0; i < N; i++)
        for (int d = 0; d < D; d++) y[i] += (x[i * D + d] = nd(g)) * (d % 4 - 1.5f);
    float *dx, *dy, *w, *dw, *l;
    cudaMalloc(&dx, N * D * 4); cudaMalloc(&dy, N * 4); cudaMalloc(&w, D * 4); cudaMalloc(&dw, D * 4); cudaMalloc(&l, 4);
    cudaMemcpy(dx, x.data(), N * D * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(dy, y.data(), N * 4, cudaMemcpyHostToDevice);
    cudaMemset(w, 0, D * 4);
    cublasHandle_t blas;
    cublasCreate(&blas);
    DDP_PARAMETER(w, D, DDP_FLOAT32);
    DDP_GRADIENT(dw, D, DDP_FLOAT32);
    for (int s = 0; s < steps; s++) {
        size_t first, n;
        DDP_SHARD(B, &first, &n);
        size_t at = s * B % N + first;
        huge_gradient<<<1, D>>>(dx + at * D, dy + at, w, dw, l, (int)n);
        DDP_STEP(0);
        float norm, lr;
        cublasSnrm2(blas, D, dw, 1, &norm);
        if (norm > 1.0f) {
            float shrink = 1.0f / norm;
            cublasSscal(blas, D, &shrink, dw, 1);
        }
        lr = -0.1f;
        cublasSaxpy(blas, D, &lr, dw, 1, w, 1);
        if (s % 10 == 0) {
            float h;
            cudaMemcpy(&h, l, 4, cudaMemcpyDeviceToHost);
            DDP_MEAN(&h);
            if (DDP_RANK() == 0) printf("%d: loss %.4f, norm %.3f\n", s, h, norm);
        }
    }
    cublasDestroy(blas);
    return 0;
}
