// Two-tower retrieval: users and items are embedded, the other items of the batch
// are the negatives of a user. Written with cuBLAS and column-major matrices.
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <ddprun.h>
#include <stdio.h>
#include <stdlib.h>
#include <vector>

static const int F = 16, E = 8, B = 24, N = 480;
static unsigned long long state = 42;
static float uniform() { state = state * 6364136223846793005ULL + 1442695040888963407ULL; return (float)((state >> 40) / 16777216.0) * 2 - 1; }

// scores: n x n, column j holds the scores of user j against all items
__global__ void softmax_columns(float *scores, float *loss, int n)
{
    int j = threadIdx.x;
    if (j >= n) return;
    float z = 0, m = scores[j * n];
    for (int i = 0; i < n; i++) m = max(m, scores[j * n + i]);
    for (int i = 0; i < n; i++) z += expf(scores[j * n + i] - m);
    loss[j] = logf(z) + m - scores[j * n + j];
    for (int i = 0; i < n; i++) scores[j * n + i] = (expf(scores[j * n + i] - m) / z - (i == j)) / n;
}

__global__ void adagrad(float *w, const float *g, float *h, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    h[i] += g[i] * g[i];
    w[i] -= 0.1f * g[i] / (sqrtf(h[i]) + 1e-6f);
}

class Tower {
public:
    float *w, *g, *h, *out, *dout;
    Tower() {
        cudaMalloc(&w, F * E * 4); cudaMalloc(&g, F * E * 4); cudaMalloc(&h, F * E * 4);
        cudaMalloc(&out, E * B * 4); cudaMalloc(&dout, E * B * 4);
        std::vector<float> init(F * E);
        for (auto &v : init) v = 0.4f * uniform();
        cudaMemcpy(w, init.data(), F * E * 4, cudaMemcpyHostToDevice);
        cudaMemset(h, 0, F * E * 4);
        DDP_PARAMETER(w, F * E, DDP_FLOAT32);
        DDP_GRADIENT(g, F * E, DDP_FLOAT32);
    }
    void forward(cublasHandle_t b, const float *x, int n) {
        float one = 1, zero = 0;
        cublasSgemm(b, CUBLAS_OP_N, CUBLAS_OP_N, E, n, F, &one, w, E, x, F, &zero, out, E);
    }
    void backward(cublasHandle_t b, const float *x, int n) {
        float one = 1, zero = 0;
        cublasSgemm(b, CUBLAS_OP_N, CUBLAS_OP_T, E, F, n, &one, dout, E, x, F, &zero, g, E);
    }
    void update() { adagrad<<<2, 64>>>(w, g, h, F * E); }
};

int main(int argc, char **argv)
{
    int steps = argc > 1 ? atoi(argv[1]) : 60;
    std::vector<float> u(F * N), v(F * N);
    for (int i = 0; i < F * N; i++) { u[i] = uniform(); v[i] = u[i ^ 1] + 0.3f * uniform(); }
    float *du, *dv, *scores, *loss;
    cudaMalloc(&du, F * N * 4); cudaMalloc(&dv, F * N * 4);
    cudaMalloc(&scores, B * B * 4); cudaMalloc(&loss, B * 4);
    cudaMemcpy(du, u.data(), F * N * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(dv, v.data(), F * N * 4, cudaMemcpyHostToDevice);
    cublasHandle_t blas;
    cublasCreate(&blas);
    Tower user, item;
    float one = 1, zero = 0;
    for (int s = 0; s < steps; s++) {
        size_t first, count;
        DDP_SHARD(B, &first, &count);
        int n = (int)count;
        size_t col = (size_t)(s % (N / B)) * B + first;
        user.forward(blas, du + col * F, n);
        item.forward(blas, dv + col * F, n);
        cublasSgemm(blas, CUBLAS_OP_T, CUBLAS_OP_N, n, n, E, &one, item.out, E, user.out, E, &zero, scores, n);
        softmax_columns<<<1, B>>>(scores, loss, n);
        cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, E, n, n, &one, item.out, E, scores, n, &zero, user.dout, E);
        cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_T, E, n, n, &one, user.out, E, scores, n, &zero, item.dout, E);
        user.backward(blas, du + col * F, n);
        item.backward(blas, dv + col * F, n);
        DDP_STEP(0);
        user.update();
        item.update();
        if (s % 20 == 0 || s == steps - 1) {
            float l[B], sum = 0;
            cudaMemcpy(l, loss, n * 4, cudaMemcpyDeviceToHost);
            for (int i = 0; i < n; i++) sum += l[i];
            if (DDP_RANK() == 0) printf("step %d: loss %.4f\n", s, sum / n);
        }
    }
    cublasDestroy(blas);
    return 0;
}
