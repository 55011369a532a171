#include "rnn.h"
#include <cuda_runtime.h>

void Parameter::init(int n, float scale, unsigned &seed)
{
    size = n;
    std::vector<float> h(n);
    for (auto &v : h) {
        seed = seed * 1103515245u + 12345u;
        v = scale * (((seed >> 9) & 0x7fff) / 16384.0f - 1.0f);
    }
    cudaMalloc(&data, n * sizeof(float));
    cudaMalloc(&grad, n * sizeof(float));
    cudaMalloc(&cache, n * sizeof(float));
    cudaMemcpy(data, h.data(), n * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemset(cache, 0, n * sizeof(float));
}
void Parameter::release()
{
    cudaFree(data);
    cudaFree(grad);
    cudaFree(cache);
}

__global__ void cell(const float *x, const float *hprev, float *hnext, const float *Wx, const float *Wh, const float *b, int H)
{
    int j = threadIdx.x, s = blockIdx.x;
    float z = b[j] + x[s] * Wx[j];
    for (int k = 0; k < H; k++)
        z += hprev[s * H + k] * Wh[k * H + j];
    hnext[s * H + j] = tanhf(z);
}
__global__ void readout(const float *h, const float *Wy, const float *by, float *y, int batch, int H)
{
    int s = blockIdx.x * blockDim.x + threadIdx.x;
    if (s >= batch)
        return;
    float v = by[0];
    for (int k = 0; k < H; k++)
        v += h[s * H + k] * Wy[k];
    y[s] = v;
}
__global__ void mse(const float *y, const float *t, float *dy, float *sq, int batch)
{
    int s = blockIdx.x * blockDim.x + threadIdx.x;
    if (s < batch) {
        float e = y[s] - t[s];
        dy[s] = 2.0f * e / batch;
        sq[s] = e * e;
    }
}
__global__ void readout_back(const float *h, const float *Wy, const float *dy, float *dWy, float *dby, float *dh, int batch, int H)
{
    int k = threadIdx.x;
    float a = 0, ab = 0;
    for (int s = 0; s < batch; s++) {
        a += h[s * H + k] * dy[s];
        ab += dy[s];
        dh[s * H + k] = dy[s] * Wy[k];
    }
    dWy[k] += a;
    if (k == 0)
        dby[0] += ab;
}
__global__ void tanh_back(const float *h, const float *dh, float *dz, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        dz[i] = dh[i] * (1 - h[i] * h[i]);
}
__global__ void cell_back_w(const float *x, const float *hprev, const float *dz, float *dWx, float *dWh, float *db, int batch, int H)
{
    int j = threadIdx.x, k = blockIdx.x;
    float a = 0, ax = 0, ab = 0;
    for (int s = 0; s < batch; s++) {
        float d = dz[s * H + j];
        a += hprev[s * H + k] * d;
        ax += x[s] * d;
        ab += d;
    }
    dWh[k * H + j] += a;
    if (k == 0) {
        dWx[j] += ax;
        db[j] += ab;
    }
}
__global__ void cell_back_h(const float *Wh, const float *dz, float *dh, int H)
{
    int k = threadIdx.x, s = blockIdx.x;
    float a = 0;
    for (int j = 0; j < H; j++)
        a += Wh[k * H + j] * dz[s * H + j];
    dh[s * H + k] = a;
}

RNN::RNN(int hidden, int seq_len, int max_batch, unsigned seed) : H(hidden), T(seq_len), maxB(max_batch)
{
    Wx.init(H, 0.5f, seed);
    Wh.init(H * H, 0.15f, seed);
    b.init(H, 0.0f, seed);
    Wy.init(H, 0.3f, seed);
    by.init(1, 0.0f, seed);
    cudaMalloc(&h, (size_t)(T + 1) * maxB * H * sizeof(float));
    cudaMalloc(&dh, maxB * H * sizeof(float));
    cudaMalloc(&dz, maxB * H * sizeof(float));
    cudaMalloc(&y, maxB * sizeof(float));
    cudaMalloc(&dy, maxB * sizeof(float));
    cudaMalloc(&sq, maxB * sizeof(float));
    cudaMemset(h, 0, maxB * H * sizeof(float));
}
RNN::~RNN()
{
    for (auto *p : parameters())
        p->release();
    for (float *p : {h, dh, dz, y, dy, sq})
        cudaFree(p);
}

void RNN::forward(const float *x, int batch)
{
    for (int t = 0; t < T; t++)
        cell<<<batch, H>>>(x + t * batch, h + t * maxB * H, h + (t + 1) * maxB * H, Wx.data, Wh.data, b.data, H);
    readout<<<(batch + 63) / 64, 64>>>(h + T * maxB * H, Wy.data, by.data, y, batch, H);
}

float RNN::loss(const float *target, int batch)
{
    mse<<<(batch + 63) / 64, 64>>>(y, target, dy, sq, batch);
    std::vector<float> host(batch);
    cudaMemcpy(host.data(), sq, batch * sizeof(float), cudaMemcpyDeviceToHost);
    float s = 0;
    for (float v : host)
        s += v;
    return s / batch;
}

void RNN::backward(const float *x, int batch)
{
    readout_back<<<1, H>>>(h + T * maxB * H, Wy.data, dy, Wy.grad, by.grad, dh, batch, H);
    for (int t = T - 1; t >= 0; t--) {
        tanh_back<<<(batch * H + 127) / 128, 128>>>(h + (t + 1) * maxB * H, dh, dz, batch * H);
        cell_back_w<<<H, H>>>(x + t * batch, h + t * maxB * H, dz, Wx.grad, Wh.grad, b.grad, batch, H);
        cell_back_h<<<batch, H>>>(Wh.data, dz, dh, H);
    }
}

void RNN::zero_grad()
{
    for (auto *p : parameters())
        cudaMemset(p->grad, 0, p->size * sizeof(float));
}
