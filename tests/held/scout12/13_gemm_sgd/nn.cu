// Regression network 10-32-32-1 with cuBLAS; the update is the gemm itself: W <- W - (lr/m) * delta * a^T
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <cublas_v2.h>
#include <cuda_runtime.h>

const int L = 3;
const int dims[L + 1] = { 10, 32, 32, 1 };
const int m = 64;             // mini batch
const int samples = 3200;
const int epochs = 4;

__global__ void addBiasTanh(float *z, const float *b, int rows, int n, bool act)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float v = z[i] + b[i % rows];
        z[i] = act ? tanhf(v) : v;
    }
}

__global__ void outputDelta(const float *a, const float *y, float *d, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) d[i] = a[i] - y[i];
}

__global__ void timesDerivative(float *d, const float *a, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) d[i] *= 1 - a[i] * a[i];
}

__global__ void fill(float *p, float v, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) p[i] = v;
}

int main()
{
    srand48(8);
    std::vector<float> X(samples * dims[0]), Y(samples);
    for (int i = 0; i < samples; i++) {
        float *x = &X[i * dims[0]];
        for (int k = 0; k < dims[0]; k++) x[k] = drand48() * 2 - 1;
        Y[i] = sinf(2 * x[0]) + x[1] * x[2] - 0.5f * x[3] * x[3] + 0.3f * x[4];
    }
    float *dX, *dY;
    cudaMalloc(&dX, X.size() * sizeof(float));
    cudaMalloc(&dY, Y.size() * sizeof(float));
    cudaMemcpy(dX, X.data(), X.size() * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(dY, Y.data(), Y.size() * sizeof(float), cudaMemcpyHostToDevice);

    float *W[L], *b[L], *A[L + 1], *D[L + 1], *ones;
    for (int l = 0; l < L; l++) {
        int n = dims[l + 1] * dims[l];
        cudaMalloc(&W[l], n * sizeof(float));
        cudaMalloc(&b[l], dims[l + 1] * sizeof(float));
        cudaMalloc(&A[l + 1], dims[l + 1] * m * sizeof(float));
        cudaMalloc(&D[l + 1], dims[l + 1] * m * sizeof(float));
        std::vector<float> h(n);
        for (float &v : h) v = (drand48() * 2 - 1) * sqrt(6.0 / (dims[l] + dims[l + 1]));
        cudaMemcpy(W[l], h.data(), n * sizeof(float), cudaMemcpyHostToDevice);
        fill<<<1, 64>>>(b[l], 0.0f, dims[l + 1]);
    }
    cudaMalloc(&ones, m * sizeof(float));
    fill<<<1, m>>>(ones, 1.0f, m);

    cublasHandle_t cublas;
    cublasCreate(&cublas);
    const float one = 1, zero = 0;
    float rate = 0.5f;
    for (int e = 0; e < epochs; e++) {
        float sse = 0;
        for (int s = 0; s < samples; s += m) {
            A[0] = dX + s * dims[0];
            for (int l = 0; l < L; l++) {
                int o = dims[l + 1], n = o * m;
                cublasSgemm(cublas, CUBLAS_OP_N, CUBLAS_OP_N, o, m, dims[l], &one, W[l], o, A[l], dims[l], &zero, A[l + 1], o);
                addBiasTanh<<<(n + 127) / 128, 128>>>(A[l + 1], b[l], o, n, l < L - 1);
            }
            outputDelta<<<1, m>>>(A[L], dY + s, D[L], m);
            float norm;
            cublasSnrm2(cublas, m, D[L], 1, &norm);
            sse += norm * norm;
            const float step = -rate / m;
            for (int l = L - 1; l >= 0; l--) {
                int o = dims[l + 1], i = dims[l];
                if (l > 0) {
                    cublasSgemm(cublas, CUBLAS_OP_T, CUBLAS_OP_N, i, m, o, &one, W[l], o, D[l + 1], o, &zero, D[l], i);
                    timesDerivative<<<(i * m + 127) / 128, 128>>>(D[l], A[l], i * m);
                }
                cublasSgemm(cublas, CUBLAS_OP_N, CUBLAS_OP_T, o, i, m, &step, D[l + 1], o, A[l], i, &one, W[l], o);
                cublasSgemv(cublas, CUBLAS_OP_N, o, m, &step, D[l + 1], o, ones, 1, &one, b[l], 1);
            }
        }
        printf("epoch %d: mse %f\n", e, sse / samples);
        rate *= 0.9f;
    }
    cublasDestroy(cublas);
    return 0;
}
