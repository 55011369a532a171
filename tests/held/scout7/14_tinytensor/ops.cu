#include "tensor.h"

namespace tt {

static const float ONE = 1.f, ZERO = 0.f;

// row-major C = A B is column-major C^T = B^T A^T
TensorPtr matmul(TensorPtr a, TensorPtr b)
{
    auto c = make(a->rows, b->cols, true);
    int m = a->rows, k = a->cols, n = b->cols;
    cublasSgemm(blas(), CUBLAS_OP_N, CUBLAS_OP_N, n, m, k, &ONE, b->data, n, a->data, k, &ZERO, c->data, n);
    c->inputs = { a, b };
    c->backwardFn = [m, k, n](Tensor &self) {
        Tensor &a = *self.inputs[0], &b = *self.inputs[1];
        if (a.requiresGrad)
            cublasSgemm(blas(), CUBLAS_OP_T, CUBLAS_OP_N, k, m, n, &ONE, b.data, n, self.gradient(), n, &ONE, a.gradient(), k);
        if (b.requiresGrad)
            cublasSgemm(blas(), CUBLAS_OP_N, CUBLAS_OP_T, n, k, m, &ONE, self.gradient(), n, a.data, k, &ONE, b.gradient(), n);
    };
    return c;
}

__global__ void biasForward(const float *a, const float *b, float *c, int n, int cols)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i % cols];
}

__global__ void biasBackward(const float *g, float *ga, float *gb, int rows, int cols)
{
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    if (j >= cols) return;
    float s = 0;
    for (int r = 0; r < rows; ++r) {
        s += g[r * cols + j];
        ga[r * cols + j] += g[r * cols + j];
    }
    gb[j] += s;
}

TensorPtr addBias(TensorPtr a, TensorPtr b)
{
    auto c = make(a->rows, a->cols, true);
    biasForward<<<(c->size() + 255) / 256, 256>>>(a->data, b->data, c->data, c->size(), c->cols);
    c->inputs = { a, b };
    c->backwardFn = [](Tensor &self) {
        biasBackward<<<(self.cols + 31) / 32, 32>>>(self.gradient(), self.inputs[0]->gradient(), self.inputs[1]->gradient(), self.rows, self.cols);
    };
    return c;
}

__global__ void geluForward(const float *a, float *c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] / (1.f + expf(-1.702f * a[i]));
}

__global__ void geluBackward(const float *a, const float *g, float *ga, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float s = 1.f / (1.f + expf(-1.702f * a[i]));
    ga[i] += g[i] * (s + a[i] * 1.702f * s * (1.f - s));
}

TensorPtr gelu(TensorPtr a)
{
    auto c = make(a->rows, a->cols, true);
    geluForward<<<(c->size() + 255) / 256, 256>>>(a->data, c->data, c->size());
    c->inputs = { a };
    c->backwardFn = [](Tensor &self) {
        Tensor &a = *self.inputs[0];
        geluBackward<<<(a.size() + 255) / 256, 256>>>(a.data, self.gradient(), a.gradient(), a.size());
    };
    return c;
}

__global__ void mseForward(const float *p, const float *t, float *loss, int n)
{
    __shared__ float sh[128];
    float s = 0;
    for (int i = threadIdx.x; i < n; i += 128) s += (p[i] - t[i]) * (p[i] - t[i]);
    sh[threadIdx.x] = s;
    __syncthreads();
    for (int k = 64; k; k /= 2) {
        if (threadIdx.x < k) sh[threadIdx.x] += sh[threadIdx.x + k];
        __syncthreads();
    }
    if (!threadIdx.x) *loss = sh[0] / n;
}

__global__ void mseBackward(const float *p, const float *t, const float *g, float *gp, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) gp[i] += *g * 2.f * (p[i] - t[i]) / n;
}

TensorPtr mseLoss(TensorPtr p, TensorPtr t)
{
    auto l = make(1, 1, true);
    mseForward<<<1, 128>>>(p->data, t->data, l->data, p->size());
    l->inputs = { p, t };
    l->backwardFn = [](Tensor &self) {
        Tensor &p = *self.inputs[0];
        mseBackward<<<(p.size() + 255) / 256, 256>>>(p.data, self.inputs[1]->data, self.gradient(), p.gradient(), p.size());
    };
    return l;
}

} // namespace tt
