#pragma once
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <vector>

#define CUDA_CALL(x) do { cudaError_t err = (x); if (err != cudaSuccess) { \
    std::fprintf(stderr, "CUDA error %s at %s:%d\n", cudaGetErrorString(err), __FILE__, __LINE__); std::exit(EXIT_FAILURE); } } while (0)
#define CUBLAS_CALL(x) do { if ((x) != CUBLAS_STATUS_SUCCESS) { \
    std::fprintf(stderr, "cuBLAS error at %s:%d\n", __FILE__, __LINE__); std::exit(EXIT_FAILURE); } } while (0)

// One LSTM layer with a linear read-out of the last state, column-major as cuBLAS likes it.
//   gates (4H x B) = W (4H x D) x (D x B) + U (4H x H) h (H x B) + b
struct LstmNet {
    int D, H, B, T;
    cublasHandle_t blas;

    // one arena for weights, one for gradients, in the order W U b V c
    float *weights, *grads;
    size_t nW, nU, nb, nV, nTotal;
    float *W, *U, *b, *V, *c;
    float *dW, *dU, *db, *dV, *dc;

    float *gates, *h, *cell, *dgates, *dh, *dcell, *pred, *dpred, *ones;

    LstmNet(int D, int H, int B, int T);
    ~LstmNet();
    void forward(const float *x);                    // x: T matrices D x B
    void loss_grad(const float *target, float *loss);
    void backward(const float *x);
};

__global__ void k_add_bias(float *g, const float *b, int rows, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) g[i] += b[i % rows];
}

__global__ void k_cell(float *g, const float *cprev, float *c, float *h, int H, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int b = i / H, j = i % H;
    float *q = g + b * 4 * H;
    float in = 1 / (1 + expf(-q[j])), fo = 1 / (1 + expf(-q[H + j])), ou = 1 / (1 + expf(-q[2 * H + j])), ca = tanhf(q[3 * H + j]);
    q[j] = in; q[H + j] = fo; q[2 * H + j] = ou; q[3 * H + j] = ca;
    c[i] = fo * cprev[i] + in * ca;
    h[i] = ou * tanhf(c[i]);
}

__global__ void k_cell_back(const float *g, const float *cprev, const float *c, const float *dh, float *dc, float *dg, int H, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int b = i / H, j = i % H;
    const float *q = g + b * 4 * H;
    float *e = dg + b * 4 * H;
    float in = q[j], fo = q[H + j], ou = q[2 * H + j], ca = q[3 * H + j], tc = tanhf(c[i]);
    float d = dc[i] + dh[i] * ou * (1 - tc * tc);
    e[j] = d * ca * in * (1 - in);
    e[H + j] = d * cprev[i] * fo * (1 - fo);
    e[2 * H + j] = dh[i] * tc * ou * (1 - ou);
    e[3 * H + j] = d * in * (1 - ca * ca);
    dc[i] = d * fo;
}

__global__ void k_mse(float *pred, const float *c, const float *target, float *dpred, float *loss, int n)
{
    extern __shared__ float s[];
    int i = threadIdx.x;
    float e = pred[i] + c[0] - target[i];
    dpred[i] = 2.0f * e / n;
    s[i] = e * e;
    __syncthreads();
    if (i == 0) {
        float t = 0;
        for (int k = 0; k < n; k++) t += s[k];
        *loss = t / n;
    }
}

__global__ void k_fill(float *x, float v, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = v;
}

LstmNet::LstmNet(int D_, int H_, int B_, int T_) : D(D_), H(H_), B(B_), T(T_)
{
    CUBLAS_CALL(cublasCreate(&blas));
    nW = 4 * H * D; nU = 4 * H * H; nb = 4 * H; nV = H;
    nTotal = nW + nU + nb + nV + 1;
    CUDA_CALL(cudaMalloc(&weights, nTotal * sizeof(float)));
    CUDA_CALL(cudaMalloc(&grads, nTotal * sizeof(float)));
    W = weights; U = W + nW; b = U + nU; V = b + nb; c = V + nV;
    dW = grads; dU = dW + nW; db = dU + nU; dV = db + nb; dc = dV + nV;
    std::vector<float> init(nTotal, 0.f);
    std::srand(17);
    for (size_t i = 0; i < nTotal - 1; i++)
        if (i < nW + nU || i >= nW + nU + nb) init[i] = (std::rand() / (float)RAND_MAX - 0.5f) * 2 / std::sqrt((float)H);
    for (int j = 0; j < H; j++) init[nW + nU + H + j] = 1.f;    // forget gates open
    CUDA_CALL(cudaMemcpy(weights, init.data(), nTotal * sizeof(float), cudaMemcpyHostToDevice));
    CUDA_CALL(cudaMalloc(&gates, T * 4 * H * B * sizeof(float)));
    CUDA_CALL(cudaMalloc(&h, (T + 1) * H * B * sizeof(float)));
    CUDA_CALL(cudaMalloc(&cell, (T + 1) * H * B * sizeof(float)));
    CUDA_CALL(cudaMalloc(&dgates, 4 * H * B * sizeof(float)));
    CUDA_CALL(cudaMalloc(&dh, H * B * sizeof(float)));
    CUDA_CALL(cudaMalloc(&dcell, H * B * sizeof(float)));
    CUDA_CALL(cudaMalloc(&pred, B * sizeof(float)));
    CUDA_CALL(cudaMalloc(&dpred, B * sizeof(float)));
    CUDA_CALL(cudaMalloc(&ones, B * sizeof(float)));
    k_fill<<<(B + 63) / 64, 64>>>(ones, 1.f, B);
}

LstmNet::~LstmNet()
{
    for (float *p : { weights, grads, gates, h, cell, dgates, dh, dcell, pred, dpred, ones }) cudaFree(p);
    cublasDestroy(blas);
}

void LstmNet::forward(const float *x)
{
    const float one = 1.f, zero = 0.f;
    const int n = H * B, ng = 4 * H * B;
    CUDA_CALL(cudaMemset(h, 0, n * sizeof(float)));
    CUDA_CALL(cudaMemset(cell, 0, n * sizeof(float)));
    for (int t = 0; t < T; t++) {
        float *g = gates + t * ng;
        CUBLAS_CALL(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, 4 * H, B, D, &one, W, 4 * H, x + t * D * B, D, &zero, g, 4 * H));
        CUBLAS_CALL(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, 4 * H, B, H, &one, U, 4 * H, h + t * n, H, &one, g, 4 * H));
        k_add_bias<<<(ng + 127) / 128, 128>>>(g, b, 4 * H, ng);
        k_cell<<<(n + 127) / 128, 128>>>(g, cell + t * n, cell + (t + 1) * n, h + (t + 1) * n, H, n);
    }
    CUBLAS_CALL(cublasSgemv(blas, CUBLAS_OP_T, H, B, &one, h + T * n, H, V, 1, &zero, pred, 1));
}

void LstmNet::loss_grad(const float *target, float *loss)
{
    k_mse<<<1, B, B * sizeof(float)>>>(pred, c, target, dpred, loss, B);
}

void LstmNet::backward(const float *x)
{
    const float one = 1.f, zero = 0.f;
    const int n = H * B, ng = 4 * H * B;
    CUDA_CALL(cudaMemset(grads, 0, nTotal * sizeof(float)));
    CUBLAS_CALL(cublasSgemv(blas, CUBLAS_OP_N, H, B, &one, h + T * n, H, dpred, 1, &one, dV, 1));
    CUBLAS_CALL(cublasSgemv(blas, CUBLAS_OP_N, 1, B, &one, dpred, 1, ones, 1, &one, dc, 1));
    CUBLAS_CALL(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, H, B, 1, &one, V, H, dpred, 1, &zero, dh, H));
    CUDA_CALL(cudaMemset(dcell, 0, n * sizeof(float)));
    for (int t = T - 1; t >= 0; t--) {
        k_cell_back<<<(n + 127) / 128, 128>>>(gates + t * ng, cell + t * n, cell + (t + 1) * n, dh, dcell, dgates, H, n);
        CUBLAS_CALL(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_T, 4 * H, D, B, &one, dgates, 4 * H, x + t * D * B, D, &one, dW, 4 * H));
        CUBLAS_CALL(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_T, 4 * H, H, B, &one, dgates, 4 * H, h + t * n, H, &one, dU, 4 * H));
        CUBLAS_CALL(cublasSgemv(blas, CUBLAS_OP_N, 4 * H, B, &one, dgates, 4 * H, ones, 1, &one, db, 1));
        CUBLAS_CALL(cublasSgemm(blas, CUBLAS_OP_T, CUBLAS_OP_N, H, B, 4 * H, &one, U, 4 * H, dgates, 4 * H, &zero, dh, H));
    }
}
