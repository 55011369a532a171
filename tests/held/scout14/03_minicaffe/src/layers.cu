#include "layers.h"

#include <cmath>

static BlobPtr gaussian(int n, int c, int h, int w, float deviation, std::mt19937 &rng)
{
    auto b = std::make_shared<Blob>(n, c, h, w);
    std::normal_distribution<float> normal(0.f, deviation);
    std::vector<float> v(b->count());
    for (float &x : v) x = normal(rng);
    b->fill(v);
    return b;
}

__global__ void convForward(const float *x, const float *w, const float *b, float *y, int total, int ci, int co, int h, int wd)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= total) return;
    int px = i % wd, py = i / wd % h, o = i / (wd * h) % co, n = i / (wd * h * co);
    float s = b[o];
    for (int c = 0; c < ci; ++c)
        for (int ky = -1; ky <= 1; ++ky)
            for (int kx = -1; kx <= 1; ++kx) {
                int yy = py + ky, xx = px + kx;
                if (yy >= 0 && yy < h && xx >= 0 && xx < wd)
                    s += x[((n * ci + c) * h + yy) * wd + xx] * w[((o * ci + c) * 3 + ky + 1) * 3 + kx + 1];
            }
    y[i] = s > 0.f ? s : 0.f;
}

__global__ void reluBackward(const float *y, float *dy, int total)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < total && y[i] <= 0.f) dy[i] = 0.f;
}

__global__ void convWeights(const float *x, const float *dy, float *dw, float *db, int num, int ci, int co, int h, int wd)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= co * ci * 9) return;
    int kx = i % 3 - 1, ky = i / 3 % 3 - 1, c = i / 9 % ci, o = i / (9 * ci);
    float s = 0.f, sb = 0.f;
    for (int n = 0; n < num; ++n)
        for (int py = 0; py < h; ++py)
            for (int px = 0; px < wd; ++px) {
                float d = dy[((n * co + o) * h + py) * wd + px];
                int yy = py + ky, xx = px + kx;
                if (yy >= 0 && yy < h && xx >= 0 && xx < wd) s += d * x[((n * ci + c) * h + yy) * wd + xx];
                sb += d;
            }
    dw[i] = s;
    if (i % (ci * 9) == 0) db[o] = sb;
}

__global__ void convInput(const float *w, const float *dy, float *dx, int total, int ci, int co, int h, int wd)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= total) return;
    int px = i % wd, py = i / wd % h, c = i / (wd * h) % ci, n = i / (wd * h * ci);
    float s = 0.f;
    for (int o = 0; o < co; ++o)
        for (int ky = -1; ky <= 1; ++ky)
            for (int kx = -1; kx <= 1; ++kx) {
                int yy = py - ky, xx = px - kx;
                if (yy >= 0 && yy < h && xx >= 0 && xx < wd)
                    s += dy[((n * co + o) * h + yy) * wd + xx] * w[((o * ci + c) * 3 + ky + 1) * 3 + kx + 1];
            }
    dx[i] = s;
}

BlobPtr Convolution::setUp(BlobPtr bottom)
{
    bottom_ = bottom;
    int ci = bottom->channels;
    params = {gaussian(filters_, ci, 3, 3, std::sqrt(2.f / (9 * ci)), rng_), std::make_shared<Blob>(1, filters_, 1, 1)};
    return top_ = std::make_shared<Blob>(bottom->num, filters_, bottom->height, bottom->width);
}

void Convolution::forward()
{
    convForward<<<blocks(top_->count()), 128>>>(bottom_->data(), params[0]->data(), params[1]->data(), top_->data(), top_->count(),
                                                bottom_->channels, filters_, top_->height, top_->width);
}

void Convolution::backward()
{
    reluBackward<<<blocks(top_->count()), 128>>>(top_->data(), top_->diff(), top_->count());
    convWeights<<<blocks(params[0]->count()), 128>>>(bottom_->data(), top_->diff(), params[0]->diff(), params[1]->diff(), top_->num,
                                                     bottom_->channels, filters_, top_->height, top_->width);
    convInput<<<blocks(bottom_->count()), 128>>>(params[0]->data(), top_->diff(), bottom_->diff(), bottom_->count(), bottom_->channels,
                                                 filters_, top_->height, top_->width);
}

__global__ void poolForward(const float *x, float *y, int *which, int total, int h, int wd)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= total) return;
    int px = i % wd, py = i / wd % h, plane = i / (wd * h);
    int best = (plane * 2 * h + 2 * py) * 2 * wd + 2 * px, corner = best;
    for (int k = 1; k < 4; ++k) {
        int j = corner + k / 2 * 2 * wd + k % 2;
        if (x[j] > x[best]) best = j;
    }
    y[i] = x[best];
    which[i] = best;
}

__global__ void poolBackward(const float *dy, const int *which, float *dx, int total)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < total) dx[which[i]] = dy[i];
}

BlobPtr MaxPool::setUp(BlobPtr bottom)
{
    bottom_ = bottom;
    top_ = std::make_shared<Blob>(bottom->num, bottom->channels, bottom->height / 2, bottom->width / 2);
    cudaMalloc(&which_, top_->count() * sizeof(int));
    return top_;
}

void MaxPool::forward()
{
    poolForward<<<blocks(top_->count()), 128>>>(bottom_->data(), top_->data(), which_, top_->count(), top_->height, top_->width);
}

void MaxPool::backward()
{
    cudaMemset(bottom_->diff(), 0, bottom_->count() * sizeof(float));
    poolBackward<<<blocks(top_->count()), 128>>>(top_->diff(), which_, bottom_->diff(), top_->count());
}

__global__ void ipForward(const float *x, const float *w, const float *b, float *y, int num, int in, int out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= num * out) return;
    float s = b[i % out];
    for (int k = 0; k < in; ++k) s += x[i / out * in + k] * w[i % out * in + k];
    y[i] = s;
}

__global__ void ipWeights(const float *x, const float *dy, float *dw, float *db, int num, int in, int out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= in * out) return;
    int o = i / in, k = i % in;
    float s = 0.f, sb = 0.f;
    for (int n = 0; n < num; ++n) {
        s += dy[n * out + o] * x[n * in + k];
        sb += dy[n * out + o];
    }
    dw[i] = s;
    if (k == 0) db[o] = sb;
}

__global__ void ipInput(const float *w, const float *dy, float *dx, int num, int in, int out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= num * in) return;
    float s = 0.f;
    for (int o = 0; o < out; ++o) s += dy[i / in * out + o] * w[o * in + i % in];
    dx[i] = s;
}

BlobPtr InnerProduct::setUp(BlobPtr bottom)
{
    bottom_ = bottom;
    params = {gaussian(outputs_, bottom->sample(), 1, 1, std::sqrt(1.f / bottom->sample()), rng_), std::make_shared<Blob>(1, outputs_, 1, 1)};
    return top_ = std::make_shared<Blob>(bottom->num, outputs_, 1, 1);
}

void InnerProduct::forward()
{
    ipForward<<<blocks(top_->count()), 128>>>(bottom_->data(), params[0]->data(), params[1]->data(), top_->data(), top_->num, bottom_->sample(), outputs_);
}

void InnerProduct::backward()
{
    ipWeights<<<blocks(params[0]->count()), 128>>>(bottom_->data(), top_->diff(), params[0]->diff(), params[1]->diff(), top_->num, bottom_->sample(), outputs_);
    ipInput<<<blocks(bottom_->count()), 128>>>(params[0]->data(), top_->diff(), bottom_->diff(), top_->num, bottom_->sample(), outputs_);
}

__global__ void softmaxForward(const float *x, const int *labels, float *prob, float *each, int num, int classes)
{
    int n = blockIdx.x * blockDim.x + threadIdx.x;
    if (n >= num) return;
    float m = x[n * classes], z = 0.f;
    for (int c = 1; c < classes; ++c) m = fmaxf(m, x[n * classes + c]);
    for (int c = 0; c < classes; ++c) z += prob[n * classes + c] = expf(x[n * classes + c] - m);
    for (int c = 0; c < classes; ++c) prob[n * classes + c] /= z;
    each[n] = -logf(prob[n * classes + labels[n]] + 1e-20f);
}

__global__ void softmaxBackward(const float *prob, const int *labels, float *dx, int num, int classes)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < num * classes) dx[i] = (prob[i] - (labels[i / classes] == i % classes ? 1.f : 0.f)) / num;
}

BlobPtr SoftmaxLoss::setUp(BlobPtr bottom)
{
    bottom_ = bottom;
    cudaMalloc(&labels_, bottom->num * sizeof(int));
    cudaMalloc(&each_, bottom->num * sizeof(float));
    return top_ = std::make_shared<Blob>(bottom->num, bottom->channels, 1, 1);
}

void SoftmaxLoss::forward()
{
    softmaxForward<<<blocks(top_->num), 128>>>(bottom_->data(), labels_, top_->data(), each_, top_->num, top_->channels);
}

void SoftmaxLoss::backward()
{
    softmaxBackward<<<blocks(top_->count()), 128>>>(top_->data(), labels_, bottom_->diff(), top_->num, top_->channels);
}

float SoftmaxLoss::loss()
{
    std::vector<float> host(top_->num);
    cudaMemcpy(host.data(), each_, host.size() * sizeof(float), cudaMemcpyDeviceToHost);
    float s = 0.f;
    for (float v : host) s += v;
    return s / top_->num;
}
