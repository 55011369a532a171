#include "layers.h"
#include <cmath>

static void he_init(Parameter &p, int fan_in, std::mt19937 &rng)
{
    std::normal_distribution<float> d(0.f, std::sqrt(2.f / fan_in));
    std::vector<float> h(p.value.size());
    for (auto &v : h) v = d(rng);
    p.value.upload(h.data(), h.size());
}

static int blocks(int n) { return (n + 127) / 128; }

__global__ void conv_fwd(const float *x, const float *w, const float *b, float *y, int n, int ci, int co, int s, int os)
{
    int id = blockIdx.x * blockDim.x + threadIdx.x;
    if (id >= n * co * os * os) return;
    int c = id % os, r = id / os % os, o = id / (os * os) % co, i = id / (os * os * co);
    float acc = b[o];
    for (int k = 0; k < ci; ++k)
        for (int dr = 0; dr < 3; ++dr)
            for (int dc = 0; dc < 3; ++dc)
                acc += x[((i * ci + k) * s + r + dr) * s + c + dc] * w[((o * ci + k) * 3 + dr) * 3 + dc];
    y[id] = fmaxf(acc, 0.f);
}

__global__ void relu_bwd(const float *dy, const float *y, float *dz, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) dz[i] = y[i] > 0.f ? dy[i] : 0.f;
}

__global__ void conv_bwd_w(const float *x, const float *dz, float *dw, float *db, int n, int ci, int co, int s, int os)
{
    int id = blockIdx.x * blockDim.x + threadIdx.x;
    if (id < co * ci * 9) {
        int dc = id % 3, dr = id / 3 % 3, k = id / 9 % ci, o = id / (9 * ci);
        float acc = 0.f;
        for (int i = 0; i < n; ++i)
            for (int r = 0; r < os; ++r)
                for (int c = 0; c < os; ++c)
                    acc += x[((i * ci + k) * s + r + dr) * s + c + dc] * dz[((i * co + o) * os + r) * os + c];
        dw[id] = acc;
    } else if (id < co * ci * 9 + co) {
        int o = id - co * ci * 9;
        float acc = 0.f;
        for (int i = 0; i < n; ++i)
            for (int p = 0; p < os * os; ++p) acc += dz[(i * co + o) * os * os + p];
        db[o] = acc;
    }
}

__global__ void conv_bwd_x(const float *w, const float *dz, float *dx, int n, int ci, int co, int s, int os)
{
    int id = blockIdx.x * blockDim.x + threadIdx.x;
    if (id >= n * ci * s * s) return;
    int c = id % s, r = id / s % s, k = id / (s * s) % ci, i = id / (s * s * ci);
    float acc = 0.f;
    for (int o = 0; o < co; ++o)
        for (int dr = 0; dr < 3; ++dr)
            for (int dc = 0; dc < 3; ++dc) {
                int rr = r - dr, cc = c - dc;
                if (rr >= 0 && rr < os && cc >= 0 && cc < os)
                    acc += dz[((i * co + o) * os + rr) * os + cc] * w[((o * ci + k) * 3 + dr) * 3 + dc];
            }
    dx[id] = acc;
}

Conv3x3::Conv3x3(int maxBatch, int cin, int cout, int side, std::mt19937 &rng)
    : cin_(cin), cout_(cout), side_(side), oside_(side - 2), weight_(cout * cin * 9), bias_(cout),
      out_(maxBatch * cout * oside_ * oside_), dx_(maxBatch * cin * side * side), dz_(out_.size())
{
    he_init(weight_, cin * 9, rng);
}

const float *Conv3x3::forward(const float *x, int n)
{
    x_ = x;
    conv_fwd<<<blocks(n * cout_ * oside_ * oside_), 128>>>(x, weight_.value.data(), bias_.value.data(), out_.data(), n,
                                                            cin_, cout_, side_, oside_);
    return out_.data();
}

const float *Conv3x3::backward(const float *dy, int n)
{
    int total = n * cout_ * oside_ * oside_;
    relu_bwd<<<blocks(total), 128>>>(dy, out_.data(), dz_.data(), total);
    conv_bwd_w<<<blocks(cout_ * cin_ * 9 + cout_), 128>>>(x_, dz_.data(), weight_.grad.data(), bias_.grad.data(), n, cin_,
                                                           cout_, side_, oside_);
    conv_bwd_x<<<blocks(n * cin_ * side_ * side_), 128>>>(weight_.value.data(), dz_.data(), dx_.data(), n, cin_, cout_,
                                                           side_, oside_);
    return dx_.data();
}

__global__ void linear_fwd(const float *x, const float *w, const float *b, float *y, int n, int in, int out)
{
    int id = blockIdx.x * blockDim.x + threadIdx.x;
    if (id >= n * out) return;
    int o = id % out, i = id / out;
    float acc = b[o];
    for (int k = 0; k < in; ++k) acc += x[i * in + k] * w[o * in + k];
    y[id] = acc;
}

__global__ void linear_bwd_w(const float *x, const float *dy, float *dw, float *db, int n, int in, int out)
{
    int id = blockIdx.x * blockDim.x + threadIdx.x;
    if (id >= in * out) return;
    int k = id % in, o = id / in;
    float acc = 0.f, accb = 0.f;
    for (int i = 0; i < n; ++i) {
        acc += x[i * in + k] * dy[i * out + o];
        accb += dy[i * out + o];
    }
    dw[id] = acc;
    if (k == 0) db[o] = accb;
}

__global__ void linear_bwd_x(const float *w, const float *dy, float *dx, int n, int in, int out)
{
    int id = blockIdx.x * blockDim.x + threadIdx.x;
    if (id >= n * in) return;
    int k = id % in, i = id / in;
    float acc = 0.f;
    for (int o = 0; o < out; ++o) acc += w[o * in + k] * dy[i * out + o];
    dx[id] = acc;
}

Linear::Linear(int maxBatch, int in, int out, std::mt19937 &rng)
    : in_(in), out_(out), weight_(in * out), bias_(out), y_(maxBatch * out), dx_(maxBatch * in)
{
    he_init(weight_, in, rng);
}

const float *Linear::forward(const float *x, int n)
{
    x_ = x;
    linear_fwd<<<blocks(n * out_), 128>>>(x, weight_.value.data(), bias_.value.data(), y_.data(), n, in_, out_);
    return y_.data();
}

const float *Linear::backward(const float *dy, int n)
{
    linear_bwd_w<<<blocks(in_ * out_), 128>>>(x_, dy, weight_.grad.data(), bias_.grad.data(), n, in_, out_);
    linear_bwd_x<<<blocks(n * in_), 128>>>(weight_.value.data(), dy, dx_.data(), n, in_, out_);
    return dx_.data();
}

__global__ void ce_kernel(const float *z, const int *t, float *dz, float *loss, int n, int classes)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float m = -1e30f, s = 0.f;
    for (int c = 0; c < classes; ++c) m = fmaxf(m, z[i * classes + c]);
    for (int c = 0; c < classes; ++c) s += expf(z[i * classes + c] - m);
    float inv = 1.f / n;
    for (int c = 0; c < classes; ++c)
        dz[i * classes + c] = inv * (expf(z[i * classes + c] - m) / s - (t[i] == c));
    loss[i] = m + logf(s) - z[i * classes + t[i]];
}

const float *CrossEntropy::operator()(const float *z, const int *labels, int n)
{
    ce_kernel<<<blocks(n), 128>>>(z, labels, dz_.data(), loss_.data(), n, classes_);
    return dz_.data();
}

float CrossEntropy::mean(int n) const
{
    float s = 0.f;
    for (float v : loss_.download(n)) s += v;
    return s / n;
}
