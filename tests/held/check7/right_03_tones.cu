// Classifies chords from their spectrum. Weights change inside backward (momentum SGD, no gradient in memory).
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>
#include "ddprun.h"

namespace nn {

inline void must(cudaError_t e) { if (e != cudaSuccess) { std::fprintf(stderr, "%s\n", cudaGetErrorString(e)); std::exit(1); } }

__global__ void affine(const float *x, const int *rows, const float *w, float *y, int in, int out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * out) return;
    int s = i / out, o = i % out;
    const float *v = x + (rows ? rows[s] : s) * in;
    float a = w[out * in + o];
    for (int k = 0; k < in; ++k) a += w[o * in + k] * v[k];
    y[i] = a;
}
__global__ void relu(float *y, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n && y[i] < 0) y[i] = 0; }
__global__ void relu_back(const float *w, const float *dy, const float *y, float *dx, int in, int out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * in) return;
    float a = 0;
    for (int o = 0; o < out; ++o) a += w[o * in + i % in] * dy[i / in * out + o];
    dx[i] = y[i] > 0 ? a : 0;
}
__global__ void learn(float *w, float *vel, const float *x, const int *rows, const float *dy, int in, int out, int n, float lr, float mu)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= out * (in + 1)) return;
    int o = i < out * in ? i / in : i - out * in;
    float g = 0;
    for (int s = 0; s < n; ++s) g += dy[s * out + o] * (i < out * in ? x[(rows ? rows[s] : s) * in + i % in] : 1.0f);
    vel[i] = mu * vel[i] + g + 1e-4f * w[i];
    w[i] -= lr * vel[i];
}
__global__ void cross_entropy(const float *z, const int *label, const int *rows, float *dz, float *loss, int k, int n)
{
    int s = blockIdx.x * blockDim.x + threadIdx.x;
    if (s >= n) return;
    float top = z[s * k], sum = 0;
    for (int c = 1; c < k; ++c) top = fmaxf(top, z[s * k + c]);
    for (int c = 0; c < k; ++c) sum += expf(z[s * k + c] - top);
    int y = label[rows[s]];
    for (int c = 0; c < k; ++c) dz[s * k + c] = (expf(z[s * k + c] - top) / sum - (c == y)) / n;
    loss[s] = top + logf(sum) - z[s * k + y];
}

struct Layer {
    int in, out, n;
    float *w, *vel;
    Layer(int i, int o, unsigned seed) : in(i), out(o), n(o * (i + 1))
    {
        std::vector<float> h(n, 0.0f);
        for (int k = 0; k < out * in; ++k) {
            seed = seed * 1103515245u + 12345u;
            h[k] = ((seed >> 9) % 10000 / 5000.0f - 1.0f) / std::sqrt((float)in);
        }
        must(cudaMalloc(&w, n * 4));
        must(cudaMalloc(&vel, n * 4));
        must(cudaMemset(vel, 0, n * 4));
        must(cudaMemcpy(w, h.data(), n * 4, cudaMemcpyHostToDevice));
        DDP_PARAMETER(w, n, DDP_FLOAT32);
    }
    void forward(const float *x, const int *rows, float *y, int b) const { affine<<<(b * out + 63) / 64, 64>>>(x, rows, w, y, in, out, b); }
    void backward(const float *dy, const float *y, float *dx, int b) const { relu_back<<<(b * in + 63) / 64, 64>>>(w, dy, y, dx, in, out, b); }
    void update(const float *x, const int *rows, const float *dy, int b, float lr) { learn<<<(n + 63) / 64, 64>>>(w, vel, x, rows, dy, in, out, b, lr, 0.9f); }
};

} // namespace nn

int main(int argc, char **argv)
{
    using nn::must;
    const int bins = 24, hid = 30, kinds = 6, total = 320, batch = 40;
    std::vector<float> x(total * bins);
    std::vector<int> y(total), order(total);
    unsigned s = 4;
    auto rnd = [&s] { s ^= s << 13; s ^= s >> 17; s ^= s << 5; return (s >> 8) / 16777216.0f; };
    for (int i = 0; i < total; ++i) {
        y[i] = (int)(rnd() * kinds);
        int root = (int)(rnd() * 6);
        for (int b = 0; b < bins; ++b) {
            int off = (b - root + bins) % 12;
            x[i * bins + b] = 0.5f * rnd() + (off == 0 || off == 2 + y[i] || off == 5 + y[i] ? 0.8f : 0.0f);
        }
        order[i] = i;
    }
    float *dx, *h, *z, *dz, *dh, *loss;
    int *dy, *rows;
    must(cudaMalloc(&dx, x.size() * 4)); must(cudaMalloc(&dy, total * 4)); must(cudaMalloc(&rows, batch * 4));
    must(cudaMalloc(&h, batch * hid * 4)); must(cudaMalloc(&dh, batch * hid * 4));
    must(cudaMalloc(&z, batch * kinds * 4)); must(cudaMalloc(&dz, batch * kinds * 4)); must(cudaMalloc(&loss, batch * 4));
    must(cudaMemcpy(dx, x.data(), x.size() * 4, cudaMemcpyHostToDevice));
    must(cudaMemcpy(dy, y.data(), total * 4, cudaMemcpyHostToDevice));
    nn::Layer one(bins, hid, 71), two(hid, kinds, 72);

    const int world = DDP_WORLD_SIZE(), me = DDP_RANK();
    for (int epoch = 0; epoch < 8; ++epoch) {
        for (int i = total - 1; i > 0; --i) std::swap(order[i], order[(int)(rnd() * (i + 1))]);
        float shown = 0;
        for (int b = 0; b < total; b += batch) {
            std::vector<int> mine;
            for (int i = me; i < batch; i += world) mine.push_back(order[b + i]);
            int n = (int)mine.size();
            must(cudaMemcpy(rows, mine.data(), n * 4, cudaMemcpyHostToDevice));
            one.forward(dx, rows, h, n);
            nn::relu<<<(n * hid + 63) / 64, 64>>>(h, n * hid);
            two.forward(h, nullptr, z, n);
            nn::cross_entropy<<<1, 64>>>(z, dy, rows, dz, loss, kinds, n);
            two.backward(dz, h, dh, n);
            two.update(h, nullptr, dz, n, 0.1f);
            one.update(dx, rows, dh, n, 0.1f);
            DDP_STEP_PARAMETERS(0);
            std::vector<float> hl(n);
            must(cudaMemcpy(hl.data(), loss, n * 4, cudaMemcpyDeviceToHost));
            for (float l : hl) shown += l / n / (total / batch);
        }
        if (me == 0) std::printf("epoch %d: %.4f\n", epoch, shown);
    }
    std::vector<float> a(one.n), c(two.n);
    must(cudaMemcpy(a.data(), one.w, one.n * 4, cudaMemcpyDeviceToHost));
    must(cudaMemcpy(c.data(), two.w, two.n * 4, cudaMemcpyDeviceToHost));
    if (argc > 1 && me == 0) {
        std::FILE *f = std::fopen(argv[1], "wb");
        std::fwrite(a.data(), 4, a.size(), f);
        std::fwrite(c.data(), 4, c.size(), f);
        std::fclose(f);
    }
    return 0;
}
