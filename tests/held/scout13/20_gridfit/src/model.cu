#include "model.h"
#include <cmath>
#include <random>

namespace gridfit {

namespace {

struct Corner {
    int index[4];
    float weight[4];
};

__device__ Corner locate(int level, float u, float v)
{
    const int resolution[] = {4, 8, 16};
    int base = 0;
    for (int l = 0; l < level; ++l) base += (resolution[l] + 1) * (resolution[l] + 1);
    const int r = resolution[level];
    const float x = u * r, y = v * r;
    const int ix = min((int)x, r - 1), iy = min((int)y, r - 1);
    const float fx = x - ix, fy = y - iy;
    Corner c;
    for (int k = 0; k < 4; ++k) {
        const int dx = k & 1, dy = k >> 1;
        c.index[k] = (base + (iy + dy) * (r + 1) + ix + dx) * kFeatures;
        c.weight[k] = (dx ? fx : 1 - fx) * (dy ? fy : 1 - fy);
    }
    return c;
}

struct Trace {
    float encoded[kEncoded], hidden[kHidden], out[kChannels];
};

__device__ void evaluate(const Pixel &p, const float *grid, const Mlp &m, Trace &t)
{
    for (int l = 0; l < kLevels; ++l) {
        const Corner c = locate(l, p.u, p.v);
        for (int f = 0; f < kFeatures; ++f) {
            float s = 0.f;
            for (int k = 0; k < 4; ++k) s += c.weight[k] * grid[c.index[k] + f];
            t.encoded[l * kFeatures + f] = s;
        }
    }
    for (int h = 0; h < kHidden; ++h) {
        float s = m.b1[h];
        for (int e = 0; e < kEncoded; ++e) s += t.encoded[e] * m.w1[e][h];
        t.hidden[h] = fmaxf(s, 0.f);
    }
    for (int c = 0; c < kChannels; ++c) {
        float s = m.b2[c];
        for (int h = 0; h < kHidden; ++h) s += t.hidden[h] * m.w2[h][c];
        t.out[c] = s;
    }
}

__global__ void train_kernel(const Pixel *pixels, const int *chosen, int n, const float *grid, const Mlp *mlp, float *ggrid,
                             Mlp *gmlp, float *loss)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const Pixel p = pixels[chosen[i]];
    Trace t;
    evaluate(p, grid, *mlp, t);

    float dout[kChannels], dhidden[kHidden], error = 0.f;
    for (int c = 0; c < kChannels; ++c) {
        const float e = t.out[c] - p.color[c];
        error += e * e;
        dout[c] = 2.f * e / (n * kChannels);
        atomicAdd(&gmlp->b2[c], dout[c]);
    }
    atomicAdd(loss, error);
    for (int h = 0; h < kHidden; ++h) {
        float d = 0.f;
        for (int c = 0; c < kChannels; ++c) {
            d += dout[c] * mlp->w2[h][c];
            atomicAdd(&gmlp->w2[h][c], dout[c] * t.hidden[h]);
        }
        dhidden[h] = t.hidden[h] > 0.f ? d : 0.f;
        atomicAdd(&gmlp->b1[h], dhidden[h]);
    }
    for (int e = 0; e < kEncoded; ++e) {
        float d = 0.f;
        for (int h = 0; h < kHidden; ++h) {
            d += dhidden[h] * mlp->w1[e][h];
            atomicAdd(&gmlp->w1[e][h], dhidden[h] * t.encoded[e]);
        }
        const Corner c = locate(e / kFeatures, p.u, p.v);
        for (int k = 0; k < 4; ++k) atomicAdd(&ggrid[c.index[k] + e % kFeatures], c.weight[k] * d);
    }
}

__global__ void error_kernel(const Pixel *pixels, int n, const float *grid, const Mlp *mlp, float *sum)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    Trace t;
    evaluate(pixels[i], grid, *mlp, t);
    for (int c = 0; c < kChannels; ++c) atomicAdd(sum, (t.out[c] - pixels[i].color[c]) * (t.out[c] - pixels[i].color[c]));
}

__global__ void adam_kernel(float *w, const float *g, float *m, float *v, int n, float rate, float c1, float c2)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    m[i] = 0.9f * m[i] + 0.1f * g[i];
    v[i] = 0.99f * v[i] + 0.01f * g[i] * g[i];
    w[i] -= rate * (m[i] / c1) / (sqrtf(v[i] / c2) + 1e-8f);
}

template <typename T> void optimize(Trainable<T> &t, float rate, int iteration)
{
    const int n = (int)t.floats();
    adam_kernel<<<(n + 127) / 128, 128>>>((float *)t.value.get(), (float *)t.gradient.get(), (float *)t.first.get(),
                                           (float *)t.second.get(), n, rate, 1.f - std::pow(0.9f, (float)iteration),
                                           1.f - std::pow(0.99f, (float)iteration));
}

} // namespace

Model::Model(unsigned seed)
{
    std::mt19937 rng(seed);
    std::uniform_real_distribution<float> u(-1.f, 1.f);
    std::vector<float> g(grid_size());
    for (float &x : g) x = 0.1f * u(rng);
    cudaMemcpy(grid_.value.get(), g.data(), g.size() * sizeof(float), cudaMemcpyHostToDevice);
    Mlp m = {};
    for (auto &row : m.w1)
        for (float &x : row) x = u(rng);
    for (auto &row : m.w2)
        for (float &x : row) x = 0.6f * u(rng);
    cudaMemcpy(mlp_.value.get(), &m, sizeof m, cudaMemcpyHostToDevice);
}

float Model::step(const Pixel *pixels, const int *chosen, int n, float rate)
{
    grid_.gradient.clear();
    mlp_.gradient.clear();
    loss_.clear();
    train_kernel<<<(n + 63) / 64, 64>>>(pixels, chosen, n, grid_.value.get(), mlp_.value.get(), grid_.gradient.get(),
                                         mlp_.gradient.get(), loss_.get());
    ++iteration_;
    optimize(grid_, rate, iteration_);
    optimize(mlp_, 0.5f * rate, iteration_);
    float sum;
    cudaMemcpy(&sum, loss_.get(), sizeof sum, cudaMemcpyDeviceToHost);
    return sum / (n * kChannels);
}

float Model::psnr(const Pixel *pixels, int n)
{
    loss_.clear();
    error_kernel<<<(n + 127) / 128, 128>>>(pixels, n, grid_.value.get(), mlp_.value.get(), loss_.get());
    float sum;
    cudaMemcpy(&sum, loss_.get(), sizeof sum, cudaMemcpyDeviceToHost);
    return -10.f * std::log10(sum / (n * kChannels));
}

} // namespace gridfit
