// Autoencoder 64 - 32 - 8 - 32 - 64 with cuBLAS and Adam. Column-major: one sample a column.
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#define CUDA(x) do { if ((x) != cudaSuccess) { fprintf(stderr, "cuda failed: line %d\n", __LINE__); exit(1); } } while (0)
#define CUBLAS(x) do { if ((x) != CUBLAS_STATUS_SUCCESS) { fprintf(stderr, "cublas failed: line %d\n", __LINE__); exit(1); } } while (0)

const int NLAYERS = 4;
const int DIMS[NLAYERS + 1] = { 64, 32, 8, 32, 64 };
const int NTRAIN = 1024;

struct Layer {
    int in, out;
    float *W, *b;         // out x in, out
    float *dW, *db;
    float *mW, *vW, *mb, *vb;
    float *a, *delta;     // out x batch
};

__global__ void bias_tanh(float *z, const float *b, int rows, int n, bool linear)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = z[i] + b[i % rows];
    z[i] = linear ? v : tanhf(v);
}

__global__ void output_delta(const float *a, const float *x, float *delta, float *sq, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float d = a[i] - x[i];
    delta[i] = d;
    sq[i] = 0.5f * d * d;
}

__global__ void tanh_grad(const float *a, float *delta, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) delta[i] *= 1.f - a[i] * a[i];
}

__global__ void fill(float *p, float v, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) p[i] = v;
}

__global__ void adam(float *w, const float *g, float *m, float *v, float lr, int t, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    m[i] = 0.9f * m[i] + 0.1f * g[i];
    v[i] = 0.999f * v[i] + 0.001f * g[i] * g[i];
    float mh = m[i] / (1.f - powf(0.9f, t)), vh = v[i] / (1.f - powf(0.999f, t));
    w[i] -= lr * mh / (sqrtf(vh) + 1e-7f);
}

static int grid(int n) { return (n + 255) / 256; }

static float *zeros(size_t n)
{
    float *p;
    CUDA(cudaMalloc(&p, n * sizeof(float)));
    CUDA(cudaMemset(p, 0, n * sizeof(float)));
    return p;
}

int main(int argc, char **argv)
{
    int batch = argc > 1 ? atoi(argv[1]) : 128;
    int epochs = argc > 2 ? atoi(argv[2]) : 12;
    cublasHandle_t handle;
    CUBLAS(cublasCreate(&handle));

    std::mt19937 rng(3);
    std::normal_distribution<float> normal;
    std::vector<float> basis(5 * 64), data((size_t)NTRAIN * 64);
    for (auto &x : basis) x = normal(rng);
    for (int s = 0; s < NTRAIN; s++) {
        float c[5];
        for (float &x : c) x = normal(rng) * 0.4f;
        for (int j = 0; j < 64; j++) {
            float v = 0;
            for (int k = 0; k < 5; k++) v += c[k] * basis[k * 64 + j];
            data[(size_t)s * 64 + j] = tanhf(v);
        }
    }
    float *d_data = zeros(data.size());
    CUDA(cudaMemcpy(d_data, data.data(), data.size() * sizeof(float), cudaMemcpyHostToDevice));

    Layer L[NLAYERS];
    for (int l = 0; l < NLAYERS; l++) {
        L[l].in = DIMS[l];
        L[l].out = DIMS[l + 1];
        int nw = L[l].in * L[l].out, nb = L[l].out;
        std::vector<float> w(nw);
        for (auto &x : w) x = normal(rng) / sqrtf((float)L[l].in);
        L[l].W = zeros(nw);
        CUDA(cudaMemcpy(L[l].W, w.data(), nw * sizeof(float), cudaMemcpyHostToDevice));
        L[l].b = zeros(nb);
        L[l].dW = zeros(nw);
        L[l].db = zeros(nb);
        L[l].mW = zeros(nw);
        L[l].vW = zeros(nw);
        L[l].mb = zeros(nb);
        L[l].vb = zeros(nb);
        L[l].a = zeros((size_t)nb * batch);
        L[l].delta = zeros((size_t)nb * batch);
    }
    float *ones = zeros(batch), *sq = zeros((size_t)64 * batch);
    fill<<<grid(batch), 256>>>(ones, 1.f, batch);

    const float one = 1.f, zero = 0.f, inv = 1.f / batch;
    int t = 0;
    for (int epoch = 0; epoch < epochs; epoch++) {
        float loss = 0;
        int nb = NTRAIN / batch;
        for (int k = 0; k < nb; k++) {
            const float *x = d_data + (size_t)k * batch * 64;
            const float *in = x;
            for (int l = 0; l < NLAYERS; l++) {
                CUBLAS(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, L[l].out, batch, L[l].in, &one, L[l].W, L[l].out, in, L[l].in, &zero, L[l].a, L[l].out));
                bias_tanh<<<grid(L[l].out * batch), 256>>>(L[l].a, L[l].b, L[l].out, L[l].out * batch, l == NLAYERS - 1);
                in = L[l].a;
            }
            output_delta<<<grid(64 * batch), 256>>>(L[NLAYERS - 1].a, x, L[NLAYERS - 1].delta, sq, 64 * batch);
            for (int l = NLAYERS - 1; l >= 0; l--) {
                const float *prev = l ? L[l - 1].a : x;
                CUBLAS(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_T, L[l].out, L[l].in, batch, &inv, L[l].delta, L[l].out, prev, L[l].in, &zero, L[l].dW, L[l].out));
                CUBLAS(cublasSgemv(handle, CUBLAS_OP_N, L[l].out, batch, &inv, L[l].delta, L[l].out, ones, 1, &zero, L[l].db, 1));
                if (l > 0) {
                    CUBLAS(cublasSgemm(handle, CUBLAS_OP_T, CUBLAS_OP_N, L[l].in, batch, L[l].out, &one, L[l].W, L[l].out, L[l].delta, L[l].out, &zero, L[l - 1].delta, L[l].in));
                    tanh_grad<<<grid(L[l].in * batch), 256>>>(L[l - 1].a, L[l - 1].delta, L[l].in * batch);
                }
            }
            t++;
            for (int l = 0; l < NLAYERS; l++) {
                adam<<<grid(L[l].in * L[l].out), 256>>>(L[l].W, L[l].dW, L[l].mW, L[l].vW, 0.004f, t, L[l].in * L[l].out);
                adam<<<grid(L[l].out), 256>>>(L[l].b, L[l].db, L[l].mb, L[l].vb, 0.004f, t, L[l].out);
            }
            float s;
            CUBLAS(cublasSasum(handle, 64 * batch, sq, 1, &s));
            loss += s / batch;
        }
        printf("epoch %d reconstruction loss %.4f\n", epoch, loss / nb);
    }
    cublasDestroy(handle);
    return 0;
}
