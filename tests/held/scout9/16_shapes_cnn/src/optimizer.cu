#include "mininn.h"

namespace nn {

__global__ void nesterov(float *w, const float *g, float *v, int n, float lr, float mu, float decay)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        const float d = g[i] + decay * w[i];
        v[i] = mu * v[i] + d;
        w[i] -= lr * (d + mu * v[i]);
    }
}

void Parameter::allocate(int n, float stddev, std::mt19937 &rng)
{
    count = n;
    NN_CHECK(cudaMalloc(&data, sizeof(float) * n));
    NN_CHECK(cudaMalloc(&grad, sizeof(float) * n));
    std::vector<float> h(n, 0.f);
    if (stddev > 0.f) {
        std::normal_distribution<float> nd(0.f, stddev);
        for (float &x : h)
            x = nd(rng);
    }
    NN_CHECK(cudaMemcpy(data, h.data(), sizeof(float) * n, cudaMemcpyHostToDevice));
}

void Parameter::release()
{
    cudaFree(data);
    cudaFree(grad);
    data = grad = nullptr;
}

Nesterov::Nesterov(const std::vector<Parameter *> &params, float lr, float momentum, float decay)
    : params_(params), lr_(lr), momentum_(momentum), decay_(decay)
{
    for (Parameter *p : params_) {
        float *v;
        NN_CHECK(cudaMalloc(&v, sizeof(float) * p->count));
        NN_CHECK(cudaMemset(v, 0, sizeof(float) * p->count));
        velocity_.push_back(v);
    }
}

Nesterov::~Nesterov()
{
    for (float *v : velocity_)
        cudaFree(v);
}

void Nesterov::step(cudaStream_t s)
{
    for (size_t k = 0; k < params_.size(); ++k) {
        Parameter *p = params_[k];
        nesterov<<<(p->count + 127) / 128, 128, 0, s>>>(p->data, p->grad, velocity_[k], p->count, lr_, momentum_, decay_);
    }
}

} // namespace nn
