#include "nn/nn.h"
#include <cmath>
#include <numeric>

namespace nn {

static const int TPB = 128;
static int grid(int n) { return (n + TPB - 1) / TPB; }

Activation::Activation(int r, int c) : rows(r), cols(c), data(std::make_shared<Buffer>(r * c)), grad(std::make_shared<Buffer>(r * c)) {}

void Module::prepare(const ActivationPtr &x, int cols)
{
    in_ = x;
    if (!out_ || out_->rows != x->rows) out_ = std::make_shared<Activation>(x->rows, cols);
}

// ---- Linear

__global__ void linear_forward(const float *x, const float *w, const float *b, float *y, int rows, int in, int out, bool relu)
{
    int id = blockIdx.x * blockDim.x + threadIdx.x;
    if (id >= rows * out) return;
    int r = id / out, c = id % out;
    float s = b[c];
    for (int k = 0; k < in; k++) s += x[r * in + k] * w[c * in + k];
    y[id] = relu && s < 0.f ? 0.01f * s : s;
}

// one block per weight row; the bias is handled by thread 0
__global__ void linear_backward_params(const float *x, const float *dy, float *dw, float *db, int rows, int in, int out)
{
    int c = blockIdx.x;
    for (int k = threadIdx.x; k < in; k += blockDim.x) {
        float s = 0.f;
        for (int r = 0; r < rows; r++) s += dy[r * out + c] * x[r * in + k];
        dw[c * in + k] += s;
    }
    if (threadIdx.x == 0)
        for (int r = 0; r < rows; r++) db[c] += dy[r * out + c];
}

__global__ void linear_backward_input(const float *dy, const float *w, float *dx, int rows, int in, int out)
{
    int id = blockIdx.x * blockDim.x + threadIdx.x;
    if (id >= rows * in) return;
    int r = id / in, k = id % in;
    float s = 0.f;
    for (int c = 0; c < out; c++) s += dy[r * out + c] * w[c * in + k];
    dx[id] = s;
}

__global__ void leaky_backward(const float *y, float *dy, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && y[i] < 0.f) dy[i] *= 0.01f;
}

static Param make_param(const std::string &name, int n)
{
    return Param{name, std::make_shared<Buffer>(n), std::make_shared<Buffer>(n)};
}

Linear::Linear(int in, int out, bool relu, std::mt19937 &rng)
    : nin_(in), nout_(out), relu_(relu), weight_(make_param("weight", in * out)), bias_(make_param("bias", out))
{
    std::uniform_real_distribution<float> u(-1.f, 1.f);
    std::vector<float> h(in * out);
    for (auto &v : h) v = u(rng) * std::sqrt(6.f / in) * 0.7f;
    weight_.data->write(h.data(), in * out);
}

ActivationPtr Linear::forward(const ActivationPtr &x)
{
    prepare(x, nout_);
    linear_forward<<<grid(x->rows * nout_), TPB>>>(x->data->ptr(), weight_.data->ptr(), bias_.data->ptr(), out_->data->ptr(),
                                                   x->rows, nin_, nout_, relu_);
    return out_;
}

void Linear::backward()
{
    if (relu_) leaky_backward<<<grid(out_->data->count()), TPB>>>(out_->data->ptr(), out_->grad->ptr(), out_->data->count());
    linear_backward_params<<<nout_, 32>>>(in_->data->ptr(), out_->grad->ptr(), weight_.grad->ptr(), bias_.grad->ptr(),
                                          in_->rows, nin_, nout_);
    linear_backward_input<<<grid(in_->rows * nin_), TPB>>>(out_->grad->ptr(), weight_.data->ptr(), in_->grad->ptr(),
                                                           in_->rows, nin_, nout_);
}

void Linear::collect(std::vector<Param> &p)
{
    p.push_back(weight_);
    p.push_back(bias_);
}

// ---- Dropout. The mask is a function of the call and the element, so it need not be stored.

__device__ bool kept(unsigned key, unsigned i, float rate)
{
    unsigned h = key * 2654435761u + i * 40503u;
    h ^= h >> 15; h *= 2246822519u;
    h ^= h >> 13; h *= 3266489917u;
    h ^= h >> 16;
    return h * (1.f / 4294967296.f) >= rate;
}

__global__ void dropout_apply(const float *src, float *dst, int n, unsigned key, float rate)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) dst[i] = kept(key, i, rate) ? src[i] / (1.f - rate) : 0.f;
}

ActivationPtr Dropout::forward(const ActivationPtr &x)
{
    if (!training_) return x;
    prepare(x, x->cols);
    ++calls_;
    dropout_apply<<<grid(x->data->count()), TPB>>>(x->data->ptr(), out_->data->ptr(), x->data->count(), seed_ + calls_, rate_);
    return out_;
}

void Dropout::backward()
{
    dropout_apply<<<grid(in_->data->count()), TPB>>>(out_->grad->ptr(), in_->grad->ptr(), in_->data->count(), seed_ + calls_, rate_);
}

// ---- Sequential

ActivationPtr Sequential::forward(ActivationPtr x)
{
    for (auto &m : modules_) x = m->forward(x);
    return x;
}

void Sequential::backward()
{
    for (auto it = modules_.rbegin(); it != modules_.rend(); ++it) (*it)->backward();
}

void Sequential::train(bool on)
{
    for (auto &m : modules_) m->train(on);
}

std::vector<Param> Sequential::params()
{
    std::vector<Param> p;
    for (auto &m : modules_) m->collect(p);
    return p;
}

// ---- loss

__global__ void bce_kernel(const float *z, const float *t, float *dz, float *loss, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float p = 1.f / (1.f + expf(-z[i]));
    dz[i] = (p - t[i]) / n;
    loss[i] = fmaxf(z[i], 0.f) - z[i] * t[i] + log1pf(expf(-fabsf(z[i])));
}

float bce_with_logits(const ActivationPtr &logits, const Buffer &target)
{
    const int n = logits->rows;
    Buffer loss(n);
    bce_kernel<<<grid(n), TPB>>>(logits->data->ptr(), target.ptr(), logits->grad->ptr(), loss.ptr(), n);
    std::vector<float> h(n);
    loss.read(h.data(), n);
    return std::accumulate(h.begin(), h.end(), 0.f) / n;
}

} // namespace nn
