#include "nn/check.h"
#include "nn/nn.h"

namespace nn {

static __global__ void nll_kernel(const float *logits, const int *labels, float *nll, int n, int k)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    const float *z = logits + i * k;
    float m = z[0], s = 0;
    for (int c = 1; c < k; ++c)
        m = fmaxf(m, z[c]);
    for (int c = 0; c < k; ++c)
        s += expf(z[c] - m);
    nll[i] = m + logf(s) - z[labels[i]];
}
static __global__ void nll_grad_kernel(const float *logits, const int *labels, float *grad, int n, int k)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    const float *z = logits + i * k;
    float m = z[0], s = 0;
    for (int c = 1; c < k; ++c)
        m = fmaxf(m, z[c]);
    for (int c = 0; c < k; ++c)
        s += expf(z[c] - m);
    float scale = 1.0f / n;
    for (int c = 0; c < k; ++c)
        grad[i * k + c] = scale * (expf(z[c] - m) / s - (c == labels[i] ? 1.0f : 0.0f));
}

float CrossEntropyLoss::forward(const TensorPtr &logits, const std::vector<int> &labels)
{
    int n = logits->shape()[0], k = logits->shape()[1];
    if (labels.size() > capacity_) {
        cudaFree(labels_);
        capacity_ = labels.size();
        NN_CHECK(cudaMalloc(&labels_, capacity_ * sizeof(int)));
    }
    NN_CHECK(cudaMemcpy(labels_, labels.data(), labels.size() * sizeof(int), cudaMemcpyHostToDevice));
    logits_ = logits;
    nll_ = make_tensor({n});
    nll_kernel<<<grid(n), 128>>>(logits->data(), labels_, nll_->data(), n, k);
    float sum = 0;
    for (float v : nll_->to_host())
        sum += v;
    return sum / n;
}

void CrossEntropyLoss::backward()
{
    int n = logits_->shape()[0], k = logits_->shape()[1];
    nll_grad_kernel<<<grid(n), 128>>>(logits_->data(), labels_, logits_->grad(), n, k);
}

CrossEntropyLoss::~CrossEntropyLoss()
{
    cudaFree(labels_);
}

} // namespace nn
