// 64-16-64 autoencoder on random bar images, cuBLAS for every product.
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>
#include <cublas_v2.h>
#include <cuda_runtime.h>

#define CUDA(x) do { if ((x) != cudaSuccess) { fprintf(stderr, "cuda error line %d\n", __LINE__); exit(1); } } while (0)
#define BLAS(x) do { if ((x) != CUBLAS_STATUS_SUCCESS) { fprintf(stderr, "cublas error line %d\n", __LINE__); exit(1); } } while (0)

static cublasHandle_t handle;

// row-major C[m,n] = alpha * op(A) op(B) + beta * C
static void gemm(bool ta, bool tb, int m, int n, int k, float alpha, const float *A, const float *B, float beta, float *C)
{
    BLAS(cublasSgemm(handle, tb ? CUBLAS_OP_T : CUBLAS_OP_N, ta ? CUBLAS_OP_T : CUBLAS_OP_N, n, m, k,
                     &alpha, B, tb ? k : n, A, ta ? m : k, &beta, C, n));
}

__global__ void bias_sigmoid(float *a, const float *b, int rows, int cols)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < rows * cols) a[i] = 1.f / (1.f + __expf(-(a[i] + b[i % cols])));
}
__global__ void output_error(const float *y, const float *x, float *d, float *sq, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float e = y[i] - x[i];
    sq[i] = e * e;
    d[i] = e * y[i] * (1.f - y[i]);
}
__global__ void sigmoid_error(float *d, const float *a, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) d[i] *= a[i] * (1.f - a[i]);
}
__global__ void fill(float *p, float v, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) p[i] = v;
}

static float *dalloc(size_t n)
{
    float *p;
    CUDA(cudaMalloc(&p, n * sizeof(float)));
    CUDA(cudaMemset(p, 0, n * sizeof(float)));
    return p;
}

int main()
{
    const int vis = 64, hid = 16, images = 1280, B = 128, epochs = 25;
    const float lr = 1.2f, mom = 0.9f;
    std::mt19937 rng(3);
    std::vector<float> data(images * vis, 0.05f);
    for (int i = 0; i < images; i++) {
        for (int bar = 0; bar < 2; bar++) {
            int pos = rng() % 8, dir = rng() % 2;
            for (int j = 0; j < 8; j++) data[i * vis + (dir ? pos * 8 + j : j * 8 + pos)] = 0.95f;
        }
    }
    BLAS(cublasCreate(&handle));
    float *X = dalloc(images * vis);
    CUDA(cudaMemcpy(X, data.data(), data.size() * sizeof(float), cudaMemcpyHostToDevice));

    float *We = dalloc(vis * hid), *be = dalloc(hid), *Wd = dalloc(hid * vis), *bd = dalloc(vis);
    float *dWe = dalloc(vis * hid), *dbe = dalloc(hid), *dWd = dalloc(hid * vis), *dbd = dalloc(vis);
    float *vWe = dalloc(vis * hid), *vbe = dalloc(hid), *vWd = dalloc(hid * vis), *vbd = dalloc(vis);
    float *H = dalloc(B * hid), *Y = dalloc(B * vis), *dH = dalloc(B * hid), *dY = dalloc(B * vis);
    float *sq = dalloc(B * vis), *ones = dalloc(B);
    fill<<<1, 128>>>(ones, 1.f, B);
    std::normal_distribution<float> nd(0.f, 0.25f);
    std::vector<float> init(vis * hid);
    for (float *w : {We, Wd}) {
        for (float &v : init) v = nd(rng);
        CUDA(cudaMemcpy(w, init.data(), init.size() * sizeof(float), cudaMemcpyHostToDevice));
    }

    struct { float *p, *g, *v; int n; } params[] = {
        {We, dWe, vWe, vis * hid}, {be, dbe, vbe, hid}, {Wd, dWd, vWd, hid * vis}, {bd, dbd, vbd, vis}};
    const float one = 1.f, zero = 0.f, neg_lr = -lr, inv_b = 1.f / B;

    for (int e = 0; e < epochs; e++) {
        float err = 0.f;
        for (int i = 0; i < images; i += B) {
            const float *x = X + i * vis;
            gemm(false, false, B, hid, vis, 1.f, x, We, 0.f, H);
            bias_sigmoid<<<(B * hid + 255) / 256, 256>>>(H, be, B, hid);
            gemm(false, false, B, vis, hid, 1.f, H, Wd, 0.f, Y);
            bias_sigmoid<<<(B * vis + 255) / 256, 256>>>(Y, bd, B, vis);

            output_error<<<(B * vis + 255) / 256, 256>>>(Y, x, dY, sq, B * vis);
            gemm(true, false, hid, vis, B, inv_b, H, dY, 0.f, dWd);
            BLAS(cublasSgemv(handle, CUBLAS_OP_N, vis, B, &inv_b, dY, vis, ones, 1, &zero, dbd, 1));
            gemm(false, true, B, hid, vis, 1.f, dY, Wd, 0.f, dH);
            sigmoid_error<<<(B * hid + 255) / 256, 256>>>(dH, H, B * hid);
            gemm(true, false, vis, hid, B, inv_b, x, dH, 0.f, dWe);
            BLAS(cublasSgemv(handle, CUBLAS_OP_N, hid, B, &inv_b, dH, hid, ones, 1, &zero, dbe, 1));

            for (auto &q : params) {
                BLAS(cublasSscal(handle, q.n, &mom, q.v, 1));
                BLAS(cublasSaxpy(handle, q.n, &neg_lr, q.g, 1, q.v, 1));
                BLAS(cublasSaxpy(handle, q.n, &one, q.v, 1, q.p, 1));
            }
            float s;
            BLAS(cublasSasum(handle, B * vis, sq, 1, &s));
            err += s;
        }
        if (e % 4 == 0) printf("epoch %2d  reconstruction %.5f\n", e, err / images);
    }
    cublasDestroy(handle);
    return 0;
}
