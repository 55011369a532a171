#include "layer.h"
#include <cstdlib>
#include <vector>

const int IMG = 14, K = 5, MAPS = 6, CONV = IMG - K + 1, POOLED = CONV / 2;

Layer::Layer(int M, int N, int O, int batch) : M(M), N(N), O(O)
{
    std::vector<float> h_bias(N), h_weight(M * N);
    for (int i = 0; i < N; ++i) {
        h_bias[i] = 0.2f * (0.5f - float(rand()) / float(RAND_MAX));
        for (int j = 0; j < M; ++j)
            h_weight[i * M + j] = 0.4f * (0.5f - float(rand()) / float(RAND_MAX));
    }
    cudaMalloc(&output, sizeof(float) * O * batch);
    cudaMalloc(&preact, sizeof(float) * O * batch);
    cudaMalloc(&d_output, sizeof(float) * O * batch);
    cudaMalloc(&d_preact, sizeof(float) * O * batch);
    bias = weight = d_bias = d_weight = nullptr;
    if (M * N > 0) {
        cudaMalloc(&bias, sizeof(float) * N);
        cudaMalloc(&weight, sizeof(float) * M * N);
        cudaMalloc(&d_bias, sizeof(float) * N);
        cudaMalloc(&d_weight, sizeof(float) * M * N);
        cudaMemcpy(bias, h_bias.data(), sizeof(float) * N, cudaMemcpyHostToDevice);
        cudaMemcpy(weight, h_weight.data(), sizeof(float) * M * N, cudaMemcpyHostToDevice);
    }
}

Layer::~Layer()
{
    cudaFree(output);
    cudaFree(preact);
    cudaFree(bias);
    cudaFree(weight);
    cudaFree(d_output);
    cudaFree(d_preact);
    cudaFree(d_weight);
    cudaFree(d_bias);
}

__global__ void k_conv(const float *in, const float *w, const float *b, float *pre, float *out, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    int per = MAPS * CONV * CONV;
    if (t >= n * per) return;
    int img = t / per, m = t % per / (CONV * CONV), y = t % (CONV * CONV) / CONV, x = t % CONV;
    float s = b[m];
    for (int i = 0; i < K; ++i)
        for (int j = 0; j < K; ++j)
            s += w[m * K * K + i * K + j] * in[img * IMG * IMG + (y + i) * IMG + x + j];
    pre[t] = s;
    out[t] = s > 0.f ? s : 0.01f * s;
}

__global__ void k_pool(const float *in, float *out, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    int per = MAPS * POOLED * POOLED;
    if (t >= n * per) return;
    int im = t / (POOLED * POOLED), y = t % (POOLED * POOLED) / POOLED, x = t % POOLED;
    const float *p = in + im * CONV * CONV + 2 * y * CONV + 2 * x;
    out[t] = 0.25f * (p[0] + p[1] + p[CONV] + p[CONV + 1]);
}

__global__ void k_fc(const float *in, int in_size, const float *w, const float *b, float *pre, int outs, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n * outs) return;
    int img = t / outs, o = t % outs;
    float s = b[o];
    for (int i = 0; i < in_size; ++i) s += w[o * in_size + i] * in[img * in_size + i];
    pre[t] = s;
}

__global__ void k_softmax(const float *pre, float *out, int outs, int n)
{
    int img = blockIdx.x * blockDim.x + threadIdx.x;
    if (img >= n) return;
    float m = -1e30f, z = 0;
    for (int o = 0; o < outs; ++o) m = fmaxf(m, pre[img * outs + o]);
    for (int o = 0; o < outs; ++o) z += expf(pre[img * outs + o] - m);
    for (int o = 0; o < outs; ++o) out[img * outs + o] = expf(pre[img * outs + o] - m) / z;
}

__global__ void k_make_error(const float *out, const unsigned *labels, float *d_pre, float *err, int outs, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n * outs) return;
    int img = t / outs, o = t % outs;
    d_pre[t] = (labels[img] == o ? 1.0f : 0.0f) - out[t];
    if (labels[img] == o) err[img] = -logf(out[t] + 1e-10f);
}

__global__ void k_fc_grad(const float *in, int in_size, const float *d_pre, float *dw, float *db, int outs, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= in_size * outs) return;
    int o = t / in_size, i = t % in_size;
    float s = 0, sb = 0;
    for (int img = 0; img < n; ++img) {
        s += d_pre[img * outs + o] * in[img * in_size + i];
        sb += d_pre[img * outs + o];
    }
    dw[t] = s;
    if (i == 0) db[o] = sb;
}

__global__ void k_fc_back(const float *w, const float *d_pre, float *d_in, int in_size, int outs, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n * in_size) return;
    int img = t / in_size, i = t % in_size;
    float s = 0;
    for (int o = 0; o < outs; ++o) s += w[o * in_size + i] * d_pre[img * outs + o];
    d_in[t] = s;
}

__global__ void k_pool_back(const float *d_out, const float *pre, float *d_pre, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n * MAPS * CONV * CONV) return;
    int im = t / (CONV * CONV), y = t % (CONV * CONV) / CONV, x = t % CONV;
    float g = 0.25f * d_out[im * POOLED * POOLED + (y / 2) * POOLED + x / 2];
    d_pre[t] = pre[t] > 0.f ? g : 0.01f * g;
}

// one block per weight, threads stride over images
__global__ void k_conv_grad(const float *in, const float *d_pre, float *dw, float *db, int n)
{
    __shared__ float part[32];
    int m = blockIdx.x / (K * K + 1), ij = blockIdx.x % (K * K + 1);
    float s = 0;
    for (int img = threadIdx.x; img < n; img += blockDim.x)
        for (int y = 0; y < CONV; ++y)
            for (int x = 0; x < CONV; ++x) {
                float d = d_pre[((img * MAPS + m) * CONV + y) * CONV + x];
                s += ij == K * K ? d : d * in[img * IMG * IMG + (y + ij / K) * IMG + x + ij % K];
            }
    part[threadIdx.x] = s;
    __syncthreads();
    if (threadIdx.x == 0) {
        float total = 0;
        for (int i = 0; i < blockDim.x; ++i) total += part[i];
        if (ij == K * K) db[m] = total;
        else dw[m * K * K + ij] = total;
    }
}

__global__ void k_apply_grad(float *w, const float *g, float dt, int count)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t < count) w[t] += dt * g[t];
}

static int blocks(int n) { return (n + 63) / 64; }

void conv_forward(const float *in, Layer &l, int n) { k_conv<<<blocks(n * l.O), 64>>>(in, l.weight, l.bias, l.preact, l.output, n); }
void pool_forward(const Layer &in, Layer &l, int n) { k_pool<<<blocks(n * l.O), 64>>>(in.output, l.output, n); }
void fc_forward(const float *in, int in_size, Layer &l, int n)
{
    k_fc<<<blocks(n * l.O), 64>>>(in, in_size, l.weight, l.bias, l.preact, l.O, n);
    k_softmax<<<blocks(n), 64>>>(l.preact, l.output, l.O, n);
}
void loss_grad(Layer &l, const unsigned int *labels, float *err, int n)
{
    k_make_error<<<blocks(n * l.O), 64>>>(l.output, labels, l.d_preact, err, l.O, n);
}
void fc_backward(Layer &l, const float *in, float *d_in, int in_size, int n)
{
    k_fc_grad<<<blocks(in_size * l.O), 64>>>(in, in_size, l.d_preact, l.d_weight, l.d_bias, l.O, n);
    k_fc_back<<<blocks(n * in_size), 64>>>(l.weight, l.d_preact, d_in, in_size, l.O, n);
}
void pool_backward(Layer &l, Layer &in, int n) { k_pool_back<<<blocks(n * in.O), 64>>>(l.d_output, in.preact, in.d_preact, n); }
void conv_backward(Layer &l, const float *in, int n) { k_conv_grad<<<MAPS *(K *K + 1), 32>>>(in, l.d_preact, l.d_weight, l.d_bias, n); }

// gradients are sums over the mini batch
void apply_grad(Layer &l, float dt, int n)
{
    k_apply_grad<<<blocks(l.M * l.N), 64>>>(l.weight, l.d_weight, dt / n, l.M * l.N);
    k_apply_grad<<<blocks(l.N), 64>>>(l.bias, l.d_bias, dt / n, l.N);
}
