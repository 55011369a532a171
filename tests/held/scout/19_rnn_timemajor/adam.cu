#include "rnn.h"
#include <cmath>
#include <cuda_runtime.h>

__global__ void addSquares(const float *g, int n, float *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(out, g[i] * g[i]);
}

__global__ void adam(float *w, const float *g, float *m, float *v, int n, float shrink, float rate, float c1, float c2)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float d = g[i] * shrink;
    m[i] = 0.9f * m[i] + 0.1f * d;
    v[i] = 0.999f * v[i] + 0.001f * d * d;
    w[i] -= rate * (m[i] / c1) / (sqrtf(v[i] / c2) + 1e-8f);
}

AdamClip::AdamClip(std::vector<Slot> &slots, float rate, float maxNorm)
    : slots_(slots), norm2_(deviceArray(1)), rate_(rate), maxNorm_(maxNorm)
{
    for (Slot &s : slots_) {
        m_.push_back(deviceArray(s.size));
        v_.push_back(deviceArray(s.size));
    }
}

AdamClip::~AdamClip()
{
    for (float *p : m_) cudaFree(p);
    for (float *p : v_) cudaFree(p);
    cudaFree(norm2_);
}

// clips by the norm of the whole gradient, then one step of Adam
void AdamClip::apply()
{
    ++t_;
    cudaMemset(norm2_, 0, sizeof(float));
    for (Slot &s : slots_) addSquares<<<(s.size + 127) / 128, 128>>>(s.grad, s.size, norm2_);
    float n2;
    cudaMemcpy(&n2, norm2_, sizeof(float), cudaMemcpyDeviceToHost);
    float norm = std::sqrt(n2), shrink = norm > maxNorm_ ? maxNorm_ / norm : 1.0f;
    float c1 = 1 - std::pow(0.9f, t_), c2 = 1 - std::pow(0.999f, t_);
    for (size_t i = 0; i < slots_.size(); ++i) {
        Slot &s = slots_[i];
        adam<<<(s.size + 127) / 128, 128>>>(s.weight, s.grad, m_[i], v_[i], s.size, shrink, rate_, c1, c2);
    }
}
