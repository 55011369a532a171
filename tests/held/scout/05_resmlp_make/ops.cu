#include "ops.h"
#include <cuda_runtime.h>

static cublasHandle_t blas;
static const float kOne = 1.0f, kZero = 0.0f;
#define LAUNCH(n) ((n) + 255) / 256, 256

void ops_init() { cublasCreate(&blas); }
void ops_shutdown() { cublasDestroy(blas); }

__global__ static void bias_kernel(float *y, const float *b, int total, int cols)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < total) y[i] += b[i % cols];
}

__global__ static void colsum_kernel(const float *g, float *out, int rows, int cols)
{
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c < cols) {
        float s = 0;
        for (int r = 0; r < rows; r++) s += g[r * cols + c];
        out[c] = s;
    }
}

void linear_forward(const Tensor &x, const Tensor &w, const Tensor &b, Tensor &y)
{
    cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, w.cols, x.rows, w.rows, &kOne, w.data, w.cols, x.data, x.cols,
                &kZero, y.data, y.cols);
    bias_kernel<<<LAUNCH(y.size())>>>(y.data, b.data, y.size(), y.cols);
}

void linear_backward(Tensor &x, Tensor &w, Tensor &b, const Tensor &y, bool want_dx)
{
    cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_T, w.cols, w.rows, x.rows, &kOne, y.grad, y.cols, x.data, x.cols,
                &kZero, w.grad, w.cols);
    colsum_kernel<<<LAUNCH(b.cols)>>>(y.grad, b.grad, y.rows, y.cols);
    if (want_dx)
        cublasSgemm(blas, CUBLAS_OP_T, CUBLAS_OP_N, w.rows, x.rows, w.cols, &kOne, w.data, w.cols, y.grad, y.cols,
                    &kOne, x.grad, x.cols);
}

__global__ static void relu_kernel(const float *x, float *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = fmaxf(x[i], 0.0f);
}
__global__ static void relu_back_kernel(const float *y, const float *gy, float *gx, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) gx[i] += y[i] > 0 ? gy[i] : 0.0f;
}
void relu_forward(const Tensor &x, Tensor &y) { relu_kernel<<<LAUNCH(y.size())>>>(x.data, y.data, y.size()); }
void relu_backward(Tensor &x, const Tensor &y)
{
    relu_back_kernel<<<LAUNCH(y.size())>>>(y.data, y.grad, x.grad, y.size());
}

__global__ static void add_kernel(const float *a, const float *b, float *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a[i] + b[i];
}
void add_forward(const Tensor &a, const Tensor &b, Tensor &y)
{
    add_kernel<<<LAUNCH(y.size())>>>(a.data, b.data, y.data, y.size());
}

__global__ static void xent_kernel(const float *z, const int *label, float *g, float *loss, int rows, int cols)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    z += r * cols;
    g += r * cols;
    float m = z[0], s = 0;
    for (int c = 1; c < cols; c++) m = fmaxf(m, z[c]);
    for (int c = 0; c < cols; c++) s += expf(z[c] - m);
    for (int c = 0; c < cols; c++) {
        float p = expf(z[c] - m) / s;
        g[c] = (p - (c == label[r])) / rows;
    }
    loss[r] = m + logf(s) - z[label[r]];
}
void softmax_xent(Tensor &logits, const int *labels, float *losses)
{
    xent_kernel<<<LAUNCH(logits.rows)>>>(logits.data, labels, logits.grad, losses, logits.rows, logits.cols);
}

void zero_grad(Tensor &t) { cudaMemset(t.grad, 0, t.size() * sizeof(float)); }

__global__ static void sgd_kernel(float *p, const float *g, int n, float lr)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) p[i] -= lr * g[i];
}
void sgd_update(Tensor &p, float lr) { sgd_kernel<<<LAUNCH(p.size())>>>(p.data, p.grad, p.size(), lr); }
