// A small least-squares GAN on a ring of Gaussians. The critic sees, besides the point, how spread its batch is, which
// keeps the generator from collapsing.
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>
#include "ddprun.h"

enum { NOISE = 4, GH = 24, DH = 24, BATCH = 48, DIN = 3 };

__device__ __host__ inline float hash01(unsigned a, unsigned b)
{
    unsigned h = a * 0x9E3779B1u ^ (b + 0x7F4A7C15u) * 0x85EBCA77u;
    h ^= h >> 15; h *= 0x2C1B3C6Du; h ^= h >> 12; h *= 0x297A2D39u; h ^= h >> 15;
    return (h & 0xffffff) / 16777216.0f;
}

// in -> hidden (leaky relu) -> out. Layout of theta: W1 [in][hid], b1 [hid], W2 [hid][out], b2 [out].
struct Mlp {
    int in, hid, out, n;
    float *theta, *grad, *vel;
    Mlp(int in_, int hid_, int out_, unsigned seed) : in(in_), hid(hid_), out(out_), n(in_ * hid_ + hid_ + hid_ * out_ + out_)
    {
        cudaMalloc(&theta, n * sizeof(float));
        cudaMalloc(&grad, n * sizeof(float));
        cudaMalloc(&vel, n * sizeof(float));
        std::vector<float> h(n);
        for (int i = 0; i < n; ++i) h[i] = (hash01(seed, i) - 0.5f) * (i < in * hid ? 1.6f : 0.7f);
        cudaMemcpy(theta, h.data(), n * sizeof(float), cudaMemcpyHostToDevice);
        cudaMemset(vel, 0, n * sizeof(float));
        DDP_PARAMETER(theta, n, DDP_FLOAT32);
        DDP_STATE(vel, n, DDP_FLOAT32);
        DDP_GRADIENT(grad, n, DDP_FLOAT32);
    }
    void zero() { cudaMemsetAsync(grad, 0, n * sizeof(float), 0); }
};

__global__ void mlp_forward(const float *x, const float *th, float *h, float *y, int in, int hid, int out, int n)
{
    int i = threadIdx.x;
    if (i >= n) return;
    const float *b1 = th + in * hid, *w2 = b1 + hid, *b2 = w2 + hid * out;
    for (int k = 0; k < hid; ++k) {
        float s = b1[k];
        for (int j = 0; j < in; ++j) s += x[i * in + j] * th[j * hid + k];
        h[i * hid + k] = s > 0 ? s : 0.2f * s;
    }
    for (int o = 0; o < out; ++o) {
        float s = b2[o];
        for (int k = 0; k < hid; ++k) s += h[i * hid + k] * w2[k * out + o];
        y[i * out + o] = s;
    }
}
__global__ void mlp_delta(const float *dy, const float *th, const float *h, float *dh, float *dx, int in, int hid, int out, int n)
{
    int i = threadIdx.x;
    if (i >= n) return;
    const float *w2 = th + in * hid + hid;
    for (int k = 0; k < hid; ++k) {
        float s = 0;
        for (int o = 0; o < out; ++o) s += dy[i * out + o] * w2[k * out + o];
        dh[i * hid + k] = h[i * hid + k] > 0 ? s : 0.2f * s;
    }
    for (int j = 0; j < in; ++j) {
        float s = 0;
        for (int k = 0; k < hid; ++k) s += dh[i * hid + k] * th[j * hid + k];
        dx[i * in + j] = s;
    }
}
__global__ void mlp_grad(const float *x, const float *h, const float *dh, const float *dy, float *g, int in, int hid, int out, int n)
{
    int p = blockIdx.x * blockDim.x + threadIdx.x, w1 = in * hid, e1 = w1 + hid, e2 = e1 + hid * out;
    if (p >= e2 + out) return;
    float s = 0;
    for (int i = 0; i < n; ++i) {
        if (p < w1) s += x[i * in + p / hid] * dh[i * hid + p % hid];
        else if (p < e1) s += dh[i * hid + p - w1];
        else if (p < e2) s += h[i * hid + (p - e1) / out] * dy[i * out + (p - e1) % out];
        else s += dy[i * out + p - e2];
    }
    g[p] += s;
}
__global__ void draw_real(float *x, int step, int first, int n)
{
    int i = threadIdx.x;
    if (i >= n) return;
    float a = 6.2831853f * floorf(6 * hash01(2 * step, 3 * (first + i))) / 6;
    x[2 * i] = cosf(a) + 0.1f * (hash01(2 * step, 3 * (first + i) + 1) - 0.5f);
    x[2 * i + 1] = sinf(a) + 0.1f * (hash01(2 * step, 3 * (first + i) + 2) - 0.5f);
}
__global__ void draw_noise(float *z, int step, int first, int n)
{
    int i = threadIdx.x;
    if (i >= n) return;
    for (int k = 0; k < NOISE; ++k) z[i * NOISE + k] = 2 * hash01(2 * step + 1, (first + i) * NOISE + k) - 1;
}
__global__ void append_spread(const float *x, float *xs, int n)
{
    int i = threadIdx.x;
    if (i >= n) return;
    float m0 = 0, m1 = 0, v = 0;
    for (int j = 0; j < n; ++j) { m0 += x[2 * j] / n; m1 += x[2 * j + 1] / n; }
    for (int j = 0; j < n; ++j) v += ((x[2 * j] - m0) * (x[2 * j] - m0) + (x[2 * j + 1] - m1) * (x[2 * j + 1] - m1)) / n;
    xs[i * DIN] = x[2 * i];
    xs[i * DIN + 1] = x[2 * i + 1];
    xs[i * DIN + 2] = sqrtf(v + 1e-6f);
}
__global__ void ls_delta(const float *y, float target, float *dy, float *loss, int n)
{
    int i = threadIdx.x;
    if (i >= n) return;
    dy[i] = (y[i] - target) / n;
    loss[i] = 0.5f * (y[i] - target) * (y[i] - target);
}
__global__ void take_point(const float *dxs, float *dx, int n)
{
    int i = threadIdx.x;
    if (i < n) { dx[2 * i] = dxs[i * DIN]; dx[2 * i + 1] = dxs[i * DIN + 1]; }
}
__global__ void update(float *w, float *v, const float *g, float lr, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) { v[i] = 0.5f * v[i] + g[i]; w[i] -= lr * v[i]; }
}

int main(int argc, char **argv)
{
    int steps = argc > 2 ? atoi(argv[2]) : 60;
    DDP_GRADIENT_GROUP(0);
    Mlp critic(DIN, DH, 1, 11);
    DDP_GRADIENT_GROUP(1);
    Mlp gen(NOISE, GH, 2, 12);
    float *pool;
    cudaMalloc(&pool, 16 * BATCH * 32 * sizeof(float));
    auto part = [&](int k) { return pool + k * BATCH * 32; };
    float *x = part(0), *xs = part(1), *z = part(2), *hg = part(3), *hd = part(4), *y = part(5), *dy = part(6), *dhd = part(7),
          *dhg = part(8), *dxs = part(9), *dx = part(10), *dz = part(11), *loss = part(12);
    std::vector<float> hl(BATCH);

    for (int step = 0; step < steps; ++step) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        int n = (int)count, at = (int)first;
        auto critic_pass = [&](const float *points, float target, bool learn) {
            append_spread<<<1, BATCH>>>(points, xs, n);
            mlp_forward<<<1, BATCH>>>(xs, critic.theta, hd, y, DIN, DH, 1, n);
            ls_delta<<<1, BATCH>>>(y, target, dy, loss, n);
            mlp_delta<<<1, BATCH>>>(dy, critic.theta, hd, dhd, dxs, DIN, DH, 1, n);
            if (learn) mlp_grad<<<(critic.n + 63) / 64, 64>>>(xs, hd, dhd, dy, critic.grad, DIN, DH, 1, n);
        };
        critic.zero();
        draw_real<<<1, BATCH>>>(x, step, at, n);
        critic_pass(x, 1.0f, true);
        draw_noise<<<1, BATCH>>>(z, step, at, n);
        mlp_forward<<<1, BATCH>>>(z, gen.theta, hg, x, NOISE, GH, 2, n);
        critic_pass(x, 0.0f, true);
        DDP_STEP_GROUP(0, 0);
        update<<<(critic.n + 63) / 64, 64>>>(critic.theta, critic.vel, critic.grad, 0.05f, critic.n);

        gen.zero();
        critic_pass(x, 1.0f, false);
        take_point<<<1, BATCH>>>(dxs, dx, n);
        mlp_delta<<<1, BATCH>>>(dx, gen.theta, hg, dhg, dz, NOISE, GH, 2, n);
        mlp_grad<<<(gen.n + 63) / 64, 64>>>(z, hg, dhg, dx, gen.grad, NOISE, GH, 2, n);
        DDP_STEP_GROUP(1, 0);
        update<<<(gen.n + 63) / 64, 64>>>(gen.theta, gen.vel, gen.grad, 0.1f, gen.n);
        if (step % 20 == 19 || step == 0) {
            cudaMemcpy(hl.data(), loss, n * sizeof(float), cudaMemcpyDeviceToHost);
            float l = 0;
            for (int i = 0; i < n; ++i) l += hl[i] / n;
            DDP_MEAN(&l);
            printf("step %d generator loss %.4f\n", step, l);
        }
    }
    std::vector<float> all(critic.n + gen.n);
    cudaMemcpy(all.data(), critic.theta, critic.n * 4, cudaMemcpyDeviceToHost);
    cudaMemcpy(all.data() + critic.n, gen.theta, gen.n * 4, cudaMemcpyDeviceToHost);
    if (argc > 1 && !DDP_RANK()) {
        FILE *f = fopen(argv[1], "wb");
        fwrite(all.data(), 4, all.size(), f);
        fclose(f);
    }
    return 0;
}
