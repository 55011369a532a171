#include "lstm.h"

#include <cmath>
#include <random>
#include <stdexcept>

static float *allocate(size_t n)
{
    float *p = nullptr;
    if (cudaMalloc(&p, n * sizeof(float)) != cudaSuccess) throw std::runtime_error("out of device memory");
    cudaMemset(p, 0, n * sizeof(float));
    return p;
}

static void ok(cublasStatus_t s)
{
    if (s != CUBLAS_STATUS_SUCCESS) throw std::runtime_error("cublas call failed");
}

__device__ inline float sigm(float v) { return 1.f / (1.f + expf(-v)); }

__global__ void cell_forward(float *gates, const float *bias, const float *c_prev, float *c, float *h, int batch, int hid)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= batch * hid) return;
    int n = i / hid, j = i % hid;
    float *g = gates + n * 4 * hid;
    float ig = sigm(g[j] + bias[j]), fg = sigm(g[hid + j] + bias[hid + j]);
    float gg = tanhf(g[2 * hid + j] + bias[2 * hid + j]), og = sigm(g[3 * hid + j] + bias[3 * hid + j]);
    c[i] = fg * c_prev[i] + ig * gg;
    h[i] = og * tanhf(c[i]);
    g[j] = ig; g[hid + j] = fg; g[2 * hid + j] = gg; g[3 * hid + j] = og;
}

__global__ void cell_backward(const float *gates, const float *c_prev, const float *c, const float *dh, float *dc, float *dgates, int batch, int hid)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= batch * hid) return;
    int n = i / hid, j = i % hid;
    const float *g = gates + n * 4 * hid;
    float ig = g[j], fg = g[hid + j], gg = g[2 * hid + j], og = g[3 * hid + j];
    float tc = tanhf(c[i]);
    float d = dc[i] + dh[i] * og * (1.f - tc * tc);
    float *o = dgates + n * 4 * hid;
    o[j] = d * gg * ig * (1.f - ig);
    o[hid + j] = d * c_prev[i] * fg * (1.f - fg);
    o[2 * hid + j] = d * ig * (1.f - gg * gg);
    o[3 * hid + j] = dh[i] * tc * og * (1.f - og);
    dc[i] = d * fg;
}

__global__ void bias_gradient(const float *d, float *g, int rows, int cols)
{
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    if (j >= cols) return;
    float s = 0.f;
    for (int r = 0; r < rows; ++r) s += d[r * cols + j];
    g[j] += s;
}

__global__ void squared_error(const float *y, const float *bias, const float *target, float *dy, float *err, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float e = y[i] + bias[0] - target[i];
    err[i] = e * e;
    dy[i] = 2.f * e / n;
}

__global__ void adam_kernel(float *w, const float *g, float *m1, float *m2, int n, float rate, float c1, float c2)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    m1[i] = 0.9f * m1[i] + 0.1f * g[i];
    m2[i] = 0.999f * m2[i] + 0.001f * g[i] * g[i];
    w[i] -= rate * (m1[i] / c1) / (sqrtf(m2[i] / c2) + 1e-8f);
}

Variable LstmRegressor::variable(int size, float spread, float fill)
{
    std::mt19937 rng(seed_++);
    std::uniform_real_distribution<float> u(-spread, spread);
    std::vector<float> host(size);
    for (float &v : host) v = fill + (spread > 0.f ? u(rng) : 0.f);
    Variable p{size, allocate(size), allocate(size), allocate(size), allocate(size)};
    cudaMemcpy(p.value, host.data(), size * sizeof(float), cudaMemcpyHostToDevice);
    return p;
}

LstmRegressor::LstmRegressor(int inputs, int hidden, int steps, int batch, unsigned seed)
    : in_(inputs), hid_(hidden), steps_(steps), batch_(batch), seed_(seed)
{
    ok(cublasCreate(&blas_));
    float a = 1.f / std::sqrt((float)hidden);
    wx_ = variable(4 * hid_ * in_, a);
    wh_ = variable(4 * hid_ * hid_, a);
    b_ = variable(4 * hid_, 0.f, 0.5f);
    wy_ = variable(hid_, a);
    by_ = variable(1, 0.f);
    all_ = {&wx_, &wh_, &b_, &wy_, &by_};
    h_ = allocate((steps + 1) * batch * hid_);
    c_ = allocate((steps + 1) * batch * hid_);
    gates_ = allocate(steps * batch * 4 * hid_);
    dgates_ = allocate(batch * 4 * hid_);
    y_ = allocate(batch); dy_ = allocate(batch); err_ = allocate(batch);
    dh_ = allocate(batch * hid_); dc_ = allocate(batch * hid_);
}

LstmRegressor::~LstmRegressor()
{
    for (Variable *v : all_) { cudaFree(v->value); cudaFree(v->grad); cudaFree(v->m1); cudaFree(v->m2); }
    for (float *p : {h_, c_, gates_, dgates_, y_, dy_, err_, dh_, dc_}) cudaFree(p);
    cublasDestroy(blas_);
}

void LstmRegressor::forward(const float *x)
{
    const float one = 1.f, zero = 0.f;
    const int g4 = 4 * hid_, cell = batch_ * hid_;
    for (int t = 0; t < steps_; ++t) {
        float *g = gates_ + t * batch_ * g4;
        ok(cublasSgemm(blas_, CUBLAS_OP_T, CUBLAS_OP_N, g4, batch_, in_, &one, wx_.value, in_, x + t * in_, steps_ * in_, &zero, g, g4));
        ok(cublasSgemm(blas_, CUBLAS_OP_T, CUBLAS_OP_N, g4, batch_, hid_, &one, wh_.value, hid_, h_ + t * cell, hid_, &one, g, g4));
        cell_forward<<<(cell + 127) / 128, 128>>>(g, b_.value, c_ + t * cell, c_ + (t + 1) * cell, h_ + (t + 1) * cell, batch_, hid_);
    }
    ok(cublasSgemv(blas_, CUBLAS_OP_T, hid_, batch_, &one, h_ + steps_ * cell, hid_, wy_.value, 1, &zero, y_, 1));
}

float LstmRegressor::loss(const float *target)
{
    squared_error<<<1, 128>>>(y_, by_.value, target, dy_, err_, batch_);
    float sum = 0.f;
    ok(cublasSasum(blas_, batch_, err_, 1, &sum));
    return sum / batch_;
}

void LstmRegressor::backward(const float *x)
{
    const float one = 1.f, zero = 0.f;
    const int g4 = 4 * hid_, cell = batch_ * hid_;
    for (Variable *v : all_) cudaMemset(v->grad, 0, v->size * sizeof(float));
    ok(cublasSgemv(blas_, CUBLAS_OP_N, hid_, batch_, &one, h_ + steps_ * cell, hid_, dy_, 1, &zero, wy_.grad, 1));
    bias_gradient<<<1, 32>>>(dy_, by_.grad, batch_, 1);
    ok(cublasSgemm(blas_, CUBLAS_OP_N, CUBLAS_OP_N, hid_, batch_, 1, &one, wy_.value, hid_, dy_, 1, &zero, dh_, hid_));
    cudaMemset(dc_, 0, cell * sizeof(float));
    for (int t = steps_ - 1; t >= 0; --t) {
        cell_backward<<<(cell + 127) / 128, 128>>>(gates_ + t * batch_ * g4, c_ + t * cell, c_ + (t + 1) * cell, dh_, dc_, dgates_, batch_, hid_);
        ok(cublasSgemm(blas_, CUBLAS_OP_N, CUBLAS_OP_T, in_, g4, batch_, &one, x + t * in_, steps_ * in_, dgates_, g4, &one, wx_.grad, in_));
        ok(cublasSgemm(blas_, CUBLAS_OP_N, CUBLAS_OP_T, hid_, g4, batch_, &one, h_ + t * cell, hid_, dgates_, g4, &one, wh_.grad, hid_));
        bias_gradient<<<(g4 + 63) / 64, 64>>>(dgates_, b_.grad, batch_, g4);
        ok(cublasSgemm(blas_, CUBLAS_OP_N, CUBLAS_OP_N, hid_, batch_, g4, &one, wh_.value, hid_, dgates_, g4, &zero, dh_, hid_));
    }
}

float LstmRegressor::clip(float limit)
{
    float squares = 0.f;
    for (Variable *v : all_) {
        float s = 0.f;
        ok(cublasSdot(blas_, v->size, v->grad, 1, v->grad, 1, &s));
        squares += s;
    }
    float norm = std::sqrt(squares);
    if (norm > limit) {
        float shrink = limit / norm;
        for (Variable *v : all_) ok(cublasSscal(blas_, v->size, &shrink, v->grad, 1));
    }
    return norm;
}

void LstmRegressor::adam(float rate)
{
    ++t_;
    float c1 = 1.f - std::pow(0.9f, (float)t_), c2 = 1.f - std::pow(0.999f, (float)t_);
    for (Variable *v : all_)
        adam_kernel<<<(v->size + 127) / 128, 128>>>(v->value, v->grad, v->m1, v->m2, v->size, rate, c1, c2);
}
