#include "nn.h"
#include <cmath>
#include <cuda_runtime.h>

namespace nn {

__global__ void xentKernel(const float *z, const int *y, float *g, float *loss, int B, int C)
{
    int n = blockIdx.x * blockDim.x + threadIdx.x;
    if (n >= B) return;
    float mx = z[n * C];
    for (int c = 1; c < C; ++c) mx = fmaxf(mx, z[n * C + c]);
    float s = 0;
    for (int c = 0; c < C; ++c) s += expf(z[n * C + c] - mx);
    for (int c = 0; c < C; ++c) g[n * C + c] = (expf(z[n * C + c] - mx) / s - (y[n] == c ? 1.f : 0.f)) / B;
    atomicAdd(loss, (logf(s) + mx - z[n * C + y[n]]) / B);
}

float crossEntropy(const float *z, const int *y, float *g, int B, int C)
{
    static float *d_loss = nullptr;
    if (!d_loss) cudaMalloc((void **)&d_loss, sizeof(float));
    cudaMemset(d_loss, 0, sizeof(float));
    xentKernel<<<(B + 63) / 64, 64>>>(z, y, g, d_loss, B, C);
    float h;
    cudaMemcpy(&h, d_loss, sizeof(float), cudaMemcpyDeviceToHost);
    return h;
}

__global__ void adamKernel(float *w, const float *g, float *m, float *v, int n, float step, float b1, float b2)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    m[i] += (1 - b1) * (g[i] - m[i]);
    v[i] += (1 - b2) * (g[i] * g[i] - v[i]);
    w[i] -= step * m[i] / (sqrtf(v[i]) + 1e-8f);
}

Adam::Adam(const std::vector<Parameter> &p, float lr, float b1, float b2) : params_(p), lr_(lr), beta1_(b1), beta2_(b2), t_(0)
{
    for (auto &q : params_) {
        float *a, *b;
        cudaMalloc((void **)&a, sizeof(float) * q.count);
        cudaMalloc((void **)&b, sizeof(float) * q.count);
        cudaMemset(a, 0, sizeof(float) * q.count);
        cudaMemset(b, 0, sizeof(float) * q.count);
        m_.push_back(a);
        v_.push_back(b);
    }
}

Adam::~Adam()
{
    for (float *p : m_) cudaFree(p);
    for (float *p : v_) cudaFree(p);
}

void Adam::zeroGrad()
{
    for (auto &p : params_) cudaMemset(p.gradient, 0, sizeof(float) * p.count);
}

void Adam::step()
{
    ++t_;
    float s = lr_ * sqrtf(1 - powf(beta2_, t_)) / (1 - powf(beta1_, t_));
    for (size_t i = 0; i < params_.size(); ++i) {
        Parameter &p = params_[i];
        adamKernel<<<(p.count + 127) / 128, 128>>>(p.value, p.gradient, m_[i], v_[i], p.count, s, beta1_, beta2_);
    }
}

}  // namespace nn
