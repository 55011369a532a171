#include "nn/check.h"
#include "nn/nn.h"
#include <cmath>

namespace nn {
namespace {

__global__ void linear_fwd(const float *x, const float *w, const float *b, float *y, int n, int in, int out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n * out) {
        float s = b[i % out];
        for (int k = 0; k < in; ++k)
            s += x[i / out * in + k] * w[i % out * in + k];
        y[i] = s;
    }
}
__global__ void linear_bwd_w(const float *x, const float *dy, float *dw, float *db, int n, int in, int out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < in * out) {
        float s = 0, sb = 0;
        for (int r = 0; r < n; ++r) {
            s += dy[r * out + i / in] * x[r * in + i % in];
            sb += dy[r * out + i / in];
        }
        dw[i] += s;
        if (i % in == 0)
            db[i / in] += sb;
    }
}
__global__ void linear_bwd_x(const float *w, const float *dy, float *dx, int n, int in, int out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n * in) {
        float s = 0;
        for (int o = 0; o < out; ++o)
            s += dy[i / in * out + o] * w[o * in + i % in];
        dx[i] = s;
    }
}
__global__ void elu_fwd(const float *x, float *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = x[i] > 0 ? x[i] : expf(x[i]) - 1;
}
__global__ void elu_bwd(const float *y, const float *dy, float *dx, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        dx[i] = y[i] > 0 ? dy[i] : dy[i] * (y[i] + 1);
}

} // namespace

Linear::Linear(int in, int out, std::mt19937 &rng) : weight_(make_tensor({out, in}, true)), bias_(make_tensor({out}, true))
{
    std::uniform_real_distribution<float> u(-std::sqrt(3.0f / in), std::sqrt(3.0f / in));
    std::vector<float> w(weight_->numel());
    for (auto &v : w)
        v = u(rng);
    weight_->from_host(w);
}

TensorPtr Linear::forward(const TensorPtr &x)
{
    x_ = x;
    int n = x->shape()[0], in = weight_->shape()[1], out = weight_->shape()[0];
    if (!y_ || y_->shape()[0] != n)
        y_ = make_tensor({n, out}, true);
    linear_fwd<<<grid(y_->numel()), 128>>>(x->data(), weight_->data(), bias_->data(), y_->data(), n, in, out);
    return y_;
}

void Linear::backward()
{
    int n = x_->shape()[0], in = weight_->shape()[1], out = weight_->shape()[0];
    linear_bwd_w<<<grid(weight_->numel()), 128>>>(x_->data(), y_->grad(), weight_->grad(), bias_->grad(), n, in, out);
    if (x_->grad())
        linear_bwd_x<<<grid(x_->numel()), 128>>>(weight_->data(), y_->grad(), x_->grad(), n, in, out);
}

TensorPtr ELU::forward(const TensorPtr &x)
{
    x_ = x;
    if (!y_ || y_->shape() != x->shape())
        y_ = make_tensor(x->shape(), true);
    elu_fwd<<<grid(x->numel()), 128>>>(x->data(), y_->data(), static_cast<int>(x->numel()));
    return y_;
}
void ELU::backward()
{
    elu_bwd<<<grid(y_->numel()), 128>>>(y_->data(), y_->grad(), x_->grad(), static_cast<int>(y_->numel()));
}

TensorPtr Sequential::forward(const TensorPtr &x)
{
    TensorPtr t = x;
    for (auto &m : modules_)
        t = m->forward(t);
    return t;
}
void Sequential::backward()
{
    for (auto it = modules_.rbegin(); it != modules_.rend(); ++it)
        (*it)->backward();
}
std::vector<TensorPtr> Sequential::parameters()
{
    std::vector<TensorPtr> all;
    for (auto &m : modules_)
        for (auto &p : m->parameters())
            all.push_back(p);
    return all;
}

} // namespace nn
