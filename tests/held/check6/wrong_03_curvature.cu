// A two-layer classifier trained with layer-wise preconditioning: each layer's gradient is multiplied by the inverse of
// the running covariance of the layer's inputs (FOOF). cuBLAS, row-major through swapped operands.
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <algorithm>
#include <vector>
#include "ddprun.h"

static void ok(cudaError_t e, int line)
{
    if (e != cudaSuccess) {
        fprintf(stderr, "line %d: %s\n", line, cudaGetErrorString(e));
        exit(2);
    }
}
#define OK(x) ok((x), __LINE__)

enum { IN = 20, HID = 24, OUT = 6, BATCH = 48, DATA = 768 };

static unsigned rng = 2463534242u;
static float rnd()
{
    rng ^= rng << 13; rng ^= rng >> 17; rng ^= rng << 5;
    return (rng >> 8) / 8388608.0f - 1.0f;
}

static cublasHandle_t blas;

// C[m,n] = alpha op(A) op(B) + beta C, all row-major
static void gemm(bool ta, bool tb, int m, int n, int k, float alpha, const float *a, int lda, const float *b, int ldb,
                 float beta, float *c)
{
    if (cublasSgemm(blas, tb ? CUBLAS_OP_T : CUBLAS_OP_N, ta ? CUBLAS_OP_T : CUBLAS_OP_N, n, m, k, &alpha, b, ldb, a,
                    lda, &beta, c, n) != CUBLAS_STATUS_SUCCESS) {
        fprintf(stderr, "cublasSgemm failed\n");
        exit(3);
    }
}

__global__ void relu(float *x, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = fmaxf(x[i], 0.f);
}
__global__ void relu_back(float *d, const float *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && y[i] <= 0.f) d[i] = 0.f;
}
__global__ void softmax_loss(const float *z, const int *y, float *d, float *loss, int rows)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    float top = z[r * OUT], s = 0.f;
    for (int c = 1; c < OUT; ++c) top = fmaxf(top, z[r * OUT + c]);
    for (int c = 0; c < OUT; ++c) s += expf(z[r * OUT + c] - top);
    for (int c = 0; c < OUT; ++c)
        d[r * OUT + c] = (expf(z[r * OUT + c] - top) / s - (c == y[r])) / rows;
    loss[r] = logf(s) + top - z[r * OUT + y[r]];
}

static float *alloc(size_t n)
{
    float *p;
    OK(cudaMalloc((void **)&p, n * sizeof(float)));
    OK(cudaMemset(p, 0, n * sizeof(float)));
    return p;
}

// Gauss-Jordan with a symmetric positive definite matrix
static void invert(std::vector<double> a, int n, std::vector<float> &inverse)
{
    std::vector<double> b(n * n, 0.0);
    for (int i = 0; i < n; ++i) b[i * n + i] = 1.0;
    for (int p = 0; p < n; ++p) {
        double q = 1.0 / a[p * n + p];
        for (int j = 0; j < n; ++j) { a[p * n + j] *= q; b[p * n + j] *= q; }
        for (int i = 0; i < n; ++i) {
            if (i == p) continue;
            double f = a[i * n + p];
            for (int j = 0; j < n; ++j) { a[i * n + j] -= f * a[p * n + j]; b[i * n + j] -= f * b[p * n + j]; }
        }
    }
    inverse.assign(b.begin(), b.end());
}

struct Layer {
    int in, out;
    float *w, *dw, *cov, *inv, *step, *y;

    Layer(int in_, int out_) : in(in_), out(out_)
    {
        w = alloc(in * out); dw = alloc(in * out); step = alloc(in * out);
        cov = alloc(in * in); inv = alloc(in * in);
        y = alloc(BATCH * out);
        std::vector<float> h(in * out);
        for (float &v : h) v = rnd() * sqrtf(2.0f / in);
        OK(cudaMemcpy(w, h.data(), h.size() * 4, cudaMemcpyHostToDevice));
        DDP_PARAMETER(w, in * out, DDP_FLOAT32);
        DDP_GRADIENT(dw, in * out, DDP_FLOAT32);
    }
    void forward(const float *x, int rows) { gemm(false, false, rows, out, in, 1.f, x, in, w, out, 0.f, y); }
    void backward(const float *x, const float *d, int rows, float *dx)
    {
        gemm(true, false, in, out, rows, 1.f, x, in, d, out, 0.f, dw);
        gemm(true, false, in, in, rows, 0.1f / rows, x, in, x, in, 0.9f, cov);
        if (dx) gemm(false, true, rows, in, out, 1.f, d, out, w, out, 0.f, dx);
    }
    void update(float rate, float damping)
    {
        std::vector<float> c(in * in), i;
        OK(cudaMemcpy(c.data(), cov, c.size() * 4, cudaMemcpyDeviceToHost));
        std::vector<double> a(c.begin(), c.end());
        for (int k = 0; k < in; ++k) a[k * in + k] += damping;
        invert(a, in, i);
        OK(cudaMemcpy(inv, i.data(), i.size() * 4, cudaMemcpyHostToDevice));
        gemm(false, false, in, out, in, 1.f, inv, in, dw, out, 0.f, step);
        const float minus = -rate;
        cublasSaxpy(blas, in * out, &minus, step, 1, w, 1);
    }
};

int main(int argc, char **argv)
{
    const int steps = argc > 2 ? atoi(argv[2]) : 60;
    static float x_all[DATA * IN];
    static int y_all[DATA];
    float mix[IN * IN], centre[OUT * IN];
    for (float &v : mix) v = rnd() * 0.5f;
    for (float &v : centre) v = rnd() * 1.2f;
    for (int i = 0; i < DATA; ++i) {
        float e[IN];
        y_all[i] = (int)(rng >> 7) % OUT;
        for (float &v : e) v = rnd() * 0.8f;
        for (int j = 0; j < IN; ++j) {
            float s = centre[y_all[i] * IN + j];
            for (int k = 0; k < IN; ++k) s += mix[j * IN + k] * e[k];
            x_all[i * IN + j] = s;
        }
    }
    if (cublasCreate(&blas) != CUBLAS_STATUS_SUCCESS) return 4;
    Layer a(IN, HID), b(HID, OUT);
    float *x = alloc(BATCH * IN), *d2 = alloc(BATCH * OUT), *d1 = alloc(BATCH * HID), *loss = alloc(BATCH);
    int *y;
    OK(cudaMalloc((void **)&y, BATCH * sizeof(int)));
    for (int s = 0; s < steps; ++s) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        int n = (int)count;
        size_t at = (size_t)s * BATCH % DATA + first;
        OK(cudaMemcpy(x, x_all + at * IN, n * IN * 4, cudaMemcpyHostToDevice));
        OK(cudaMemcpy(y, y_all + at, n * 4, cudaMemcpyHostToDevice));
        a.forward(x, n);
        relu<<<(n * HID + 127) / 128, 128>>>(a.y, n * HID);
        b.forward(a.y, n);
        softmax_loss<<<1, BATCH>>>(b.y, y, d2, loss, n);
        b.backward(a.y, d2, n, d1);
        relu_back<<<(n * HID + 127) / 128, 128>>>(d1, a.y, n * HID);
        a.backward(x, d1, n, NULL);
        DDP_STEP(0);
        a.update(0.05f, 0.1f);
        b.update(0.05f, 0.1f);
        float l[BATCH], sum = 0.f;
        OK(cudaMemcpy(l, loss, n * 4, cudaMemcpyDeviceToHost));
        for (int i = 0; i < n; ++i) sum += l[i];
        sum /= n;
        DDP_MEAN(&sum);
        if (DDP_RANK() == 0 && (s % 10 == 0 || s + 1 == steps)) printf("step %d: %.4f\n", s, sum);
    }
    std::vector<float> p(IN * HID + HID * OUT);
    OK(cudaMemcpy(p.data(), a.w, IN * HID * 4, cudaMemcpyDeviceToHost));
    OK(cudaMemcpy(p.data() + IN * HID, b.w, HID * OUT * 4, cudaMemcpyDeviceToHost));
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *f = fopen(argv[1], "wb");
        fwrite(p.data(), 4, p.size(), f);
        fclose(f);
    }
    cublasDestroy(blas);
    return 0;
}
