#include "rnn.h"
#include <cmath>
#include <cuda_runtime.h>

float *deviceArray(int n)
{
    float *p = nullptr;
    cudaMalloc((void **)&p, n * sizeof(float));
    cudaMemset(p, 0, n * sizeof(float));
    return p;
}

// hidden state of one time step for all rows of the batch
__global__ void stepForward(const float *x, const float *hPrev, const float *wx, const float *wh, const float *b,
                            float *h, int in, int hid)
{
    int r = blockIdx.x, j = threadIdx.x;
    float s = b[j];
    for (int i = 0; i < in; ++i) s += x[r * in + i] * wx[i * hid + j];
    for (int i = 0; i < hid; ++i) s += hPrev[r * hid + i] * wh[i * hid + j];
    h[r * hid + j] = tanhf(s);
}

__global__ void readout(const float *h, const float *t, const float *wy, const float *by, float *y, float *dy, float *err,
                        int hid, int out, int total)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= total) return;
    int row = i / out, o = i % out;
    float s = by[o];
    for (int j = 0; j < hid; ++j) s += h[row * hid + j] * wy[j * out + o];
    y[i] = s;
    float e = s - t[i];
    err[i] = e * e;
    dy[i] = 2 * e / total;
}

// dh holds what comes back from the next step; turned into the gradient before tanh
__global__ void stepBackward(const float *dy, const float *h, const float *wy, float *dh, int hid, int out)
{
    int r = blockIdx.x, j = threadIdx.x;
    float s = dh[r * hid + j];
    for (int o = 0; o < out; ++o) s += dy[r * out + o] * wy[j * out + o];
    float v = h[r * hid + j];
    dh[r * hid + j] = s * (1 - v * v);
}

// g += a^T d over the rows
__global__ void outerAdd(const float *a, const float *d, float *g, int rows)
{
    int i = blockIdx.x, j = threadIdx.x, p = gridDim.x, q = blockDim.x;
    float s = 0;
    for (int r = 0; r < rows; ++r) s += a[r * p + i] * d[r * q + j];
    g[i * q + j] += s;
}

__global__ void columnAdd(const float *d, float *g, int rows)
{
    int j = threadIdx.x;
    float s = 0;
    for (int r = 0; r < rows; ++r) s += d[r * blockDim.x + j];
    g[j] += s;
}

__global__ void carry(const float *d, const float *wh, float *prev)
{
    int r = blockIdx.x, i = threadIdx.x, hid = blockDim.x;
    float s = 0;
    for (int j = 0; j < hid; ++j) s += d[r * hid + j] * wh[i * hid + j];
    prev[r * hid + i] = s;
}

float *Rnn::param(const char *name, int size, float range)
{
    std::vector<float> h(size);
    for (float &v : h) {
        state_ = state_ * 22695477u + 1u;
        v = range * ((state_ >> 8) / 8388608.0f - 1.0f);
    }
    Slot s = {name, deviceArray(size), deviceArray(size), size};
    cudaMemcpy(s.weight, h.data(), size * sizeof(float), cudaMemcpyHostToDevice);
    slots_.push_back(s);
    return s.weight;
}

Rnn::Rnn(const Shape &s, unsigned seed) : s_(s), state_(seed)
{
    wx_ = param("wx", s.input * s.hidden, 0.6f);
    wh_ = param("wh", s.hidden * s.hidden, std::sqrt(3.0f / s.hidden) * 0.9f);
    bh_ = param("bh", s.hidden, 0);
    wy_ = param("wy", s.hidden * s.output, 0.3f);
    by_ = param("by", s.output, 0);
    x_ = deviceArray(s.steps * s.batch * s.input);
    t_ = deviceArray(s.steps * s.batch * s.output);
    h_ = deviceArray((s.steps + 1) * s.batch * s.hidden);  // slice 0 stays zero
    y_ = deviceArray(s.steps * s.batch * s.output);
    dy_ = deviceArray(s.steps * s.batch * s.output);
    err_ = deviceArray(s.steps * s.batch * s.output);
    dh_ = deviceArray(2 * s.batch * s.hidden);
}

Rnn::~Rnn()
{
    for (Slot &s : slots_) {
        cudaFree(s.weight);
        cudaFree(s.grad);
    }
    for (float *p : {x_, t_, h_, y_, dy_, dh_, err_}) cudaFree(p);
}

float Rnn::gradients(const float *x, const float *target)
{
    const int T = s_.steps, B = s_.batch, I = s_.input, H = s_.hidden, O = s_.output;
    cudaMemcpy(x_, x, T * B * I * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(t_, target, T * B * O * sizeof(float), cudaMemcpyHostToDevice);

    for (int t = 0; t < T; ++t)
        stepForward<<<B, H>>>(x_ + t * B * I, h_ + t * B * H, wx_, wh_, bh_, h_ + (t + 1) * B * H, I, H);
    const int total = T * B * O;
    readout<<<(total + 127) / 128, 128>>>(h_ + B * H, t_, wy_, by_, y_, dy_, err_, H, O, total);

    for (Slot &s : slots_) cudaMemset(s.grad, 0, s.size * sizeof(float));
    float *gwx = slots_[0].grad, *gwh = slots_[1].grad, *gbh = slots_[2].grad, *gwy = slots_[3].grad, *gby = slots_[4].grad;
    float *now = dh_, *before = dh_ + B * H;
    cudaMemset(now, 0, B * H * sizeof(float));
    for (int t = T - 1; t >= 0; --t) {
        stepBackward<<<B, H>>>(dy_ + t * B * O, h_ + (t + 1) * B * H, wy_, now, H, O);
        outerAdd<<<H, O>>>(h_ + (t + 1) * B * H, dy_ + t * B * O, gwy, B);
        columnAdd<<<1, O>>>(dy_ + t * B * O, gby, B);
        outerAdd<<<I, H>>>(x_ + t * B * I, now, gwx, B);
        outerAdd<<<H, H>>>(h_ + t * B * H, now, gwh, B);
        columnAdd<<<1, H>>>(now, gbh, B);
        carry<<<B, H>>>(now, wh_, before);
        float *swap = now;
        now = before;
        before = swap;
    }

    std::vector<float> e(total);
    cudaMemcpy(e.data(), err_, total * sizeof(float), cudaMemcpyDeviceToHost);
    double sum = 0;
    for (float v : e) sum += v;
    return sum / total;
}
