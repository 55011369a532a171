// Generative adversarial network for points on a ring: two small networks with an Adam optimizer each.
#include <cmath>
#include <cstdio>
#include <cstring>
#include <random>
#include <vector>
#include <cuda_runtime.h>
#include <ddprun.h>

#ifndef MISTAKE
#define MISTAKE 0
#endif

static const int BATCH = 32, ITERATIONS = 48, REAL = 640, LATENT = 4, GH = 12, DH = 16;
static float *hidden_d, *hidden_g, *fake, *d_fake, *score, *figure;

__device__ float gauss(unsigned step, unsigned item, unsigned k)
{
    unsigned h = step * 0x9e3779b1u ^ item * 0x85ebca77u ^ (k + 1) * 0xc2b2ae3du;
    float s = 0;
    for (int i = 0; i < 4; ++i) {
        h ^= h >> 15, h *= 0x2c1b3c6du, h ^= h >> 12, h *= 0x297a2d39u, h ^= h >> 15;
        s += (h & 0xffff) / 65536.0f - 0.5f;
    }
    return 1.7f * s;
}
// one thread for each item: w holds [in][hidden], hidden biases, [hidden][out], out biases
__global__ void generate(const float *w, const float *b, float *h, float *out, int n, unsigned step, unsigned first)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= n) return;
    out[2 * r] = b[GH], out[2 * r + 1] = b[GH + 1];
    for (int j = 0; j < GH; ++j) {
        float a = b[j];
        for (int k = 0; k < LATENT; ++k) a += gauss(step, first + r, k) * w[k * GH + j];
        h[r * GH + j] = tanhf(a);
        for (int o = 0; o < 2; ++o) out[2 * r + o] += h[r * GH + j] * w[LATENT * GH + j * 2 + o];
    }
}
__global__ void generate_back(const float *w, const float *h, const float *dout, float *dw, float *db, int n, unsigned step,
                              unsigned first)
{
    int j = threadIdx.x; // a hidden unit
    if (j >= GH) return;
    for (int r = 0; r < n; ++r) {
        float v = h[r * GH + j], dh = 0;
        for (int o = 0; o < 2; ++o) {
            dh += dout[2 * r + o] * w[LATENT * GH + j * 2 + o];
            dw[LATENT * GH + j * 2 + o] += v * dout[2 * r + o];
            if (j == 0) db[GH + o] += dout[2 * r + o];
        }
        dh *= 1 - v * v, db[j] += dh;
        for (int k = 0; k < LATENT; ++k) dw[k * GH + j] += gauss(step, first + r, k) * dh;
    }
}
__global__ void judge(const float *w, const float *x, float *h, float *s, int n)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= n) return;
    s[r] = w[4 * DH];
    for (int j = 0; j < DH; ++j) {
        float a = w[2 * DH + j] + x[2 * r] * w[j] + x[2 * r + 1] * w[DH + j];
        h[r * DH + j] = a > 0 ? a : 0.2f * a;
        s[r] += h[r * DH + j] * w[3 * DH + j];
    }
}
// logistic loss of the scores against `wanted`; s becomes its gradient
__global__ void judge_loss(float *s, float wanted, int n, float scale, float *loss)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= n) return;
    float p = 1 / (1 + expf(-s[r]));
    atomicAdd(loss, -scale * logf(fmaxf(wanted > 0 ? p : 1 - p, 1e-7f)));
    s[r] = scale * (p - wanted);
}
__global__ void judge_back(const float *w, const float *x, const float *h, const float *ds, float *dw, int n)
{
    int j = threadIdx.x;
    if (j >= DH) return;
    for (int r = 0; r < n; ++r) {
        float v = h[r * DH + j], dh = ds[r] * w[3 * DH + j] * (v > 0 ? 1 : 0.2f);
        dw[3 * DH + j] += ds[r] * v, dw[2 * DH + j] += dh;
        dw[j] += dh * x[2 * r], dw[DH + j] += dh * x[2 * r + 1];
        if (j == 0) dw[4 * DH] += ds[r];
    }
}
__global__ void judge_input(const float *w, const float *h, const float *ds, float *dx, int n)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= n) return;
    dx[2 * r] = dx[2 * r + 1] = 0;
    for (int j = 0; j < DH; ++j) {
        float dh = ds[r] * w[3 * DH + j] * (h[r * DH + j] > 0 ? 1 : 0.2f);
        dx[2 * r] += dh * w[j], dx[2 * r + 1] += dh * w[DH + j];
    }
}
__global__ void adam(float *w, const float *g, float *m, float *v, int n, float rate, float c1, float c2)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    m[i] = 0.5f * m[i] + 0.5f * g[i];
    v[i] = 0.99f * v[i] + 0.01f * g[i] * g[i];
    w[i] -= rate * (m[i] / c1) / (sqrtf(v[i] / c2) + 1e-2f);
}
__global__ void follow(float *average, const float *w, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) average[i] = 0.95f * average[i] + 0.05f * w[i];
}

struct Net {
    float *w, *dw, *m, *v;
    int n, t;
};
static Net make(int n, float spread, unsigned seed)
{
    Net net = {nullptr, nullptr, nullptr, nullptr, n, 0};
    std::mt19937 random(seed);
    std::normal_distribution<float> normal(0, spread);
    std::vector<float> h(n);
    for (float &x : h) x = normal(random);
    for (float **p : {&net.w, &net.dw, &net.m, &net.v}) cudaMalloc(p, n * sizeof(float)), cudaMemset(*p, 0, n * sizeof(float));
    cudaMemcpy(net.w, h.data(), n * sizeof(float), cudaMemcpyHostToDevice);
    return net;
}
static void clear(Net &net) { cudaMemsetAsync(net.dw, 0, net.n * sizeof(float), 0); }
static void update(Net &net, float rate)
{
    ++net.t;
    adam<<<1, 128>>>(net.w, net.dw, net.m, net.v, net.n, rate, 1 - powf(0.5f, net.t), 1 - powf(0.99f, net.t));
}
static float *room(size_t n)
{
    float *p;
    cudaMalloc(&p, n * sizeof(float));
    return p;
}

int main()
{
    const int GW = LATENT * GH + GH * 2, GB = GH + 2, DW = 4 * DH + 1;
    std::mt19937 random(17);
    std::vector<float> ring(REAL * 2);
    for (int i = 0; i < REAL; ++i) {
        float angle = (random() % 8) * 0.785398f, wide = 1 + 0.002f * (random() % 100);
        ring[2 * i] = wide * cosf(angle), ring[2 * i + 1] = wide * sinf(angle);
    }
    float *real = room(ring.size());
    cudaMemcpy(real, ring.data(), ring.size() * sizeof(float), cudaMemcpyHostToDevice);
    hidden_d = room(BATCH * DH), hidden_g = room(BATCH * GH), fake = room(BATCH * 2), d_fake = room(BATCH * 2);
    score = room(BATCH), figure = room(2);

    unsigned seed = 1;
#if MISTAKE == 8
    seed += 1000 * DDP_RANK();
#endif
    Net d = make(DW, 0.4f, 3), gw = make(GW, 0.5f, seed), gb = make(GB, 0.1f, seed + 1);
    Net average = make(GW, 0, 0);
#if MISTAKE == 8
    cudaMemcpy(average.w, gw.w, GW * sizeof(float), cudaMemcpyDeviceToDevice);
#endif
    DDP_GRADIENT_GROUP(0);
    DDP_PARAMETER(d.w, DW, DDP_FLOAT32);
    DDP_GRADIENT(d.dw, DW, DDP_FLOAT32);
    DDP_GRADIENT_GROUP(1);
    DDP_PARAMETER(gw.w, GW, DDP_FLOAT32);
    DDP_PARAMETER(gb.w, GB, DDP_FLOAT32);
    DDP_GRADIENT(gw.dw, GW, DDP_FLOAT32);
#if MISTAKE != 7
    DDP_GRADIENT(gb.dw, GB, DDP_FLOAT32);
#endif
#if MISTAKE != 8
    cudaMemcpy(average.w, gw.w, GW * sizeof(float), cudaMemcpyDeviceToDevice);
    DDP_STATE(average.w, GW, DDP_FLOAT32);
#endif

    int extra = 0;
    for (int it = 0; it < ITERATIONS; ++it) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        int n = (int)count;
        float scale = 1.0f / n, loss[2];
        unsigned item = (unsigned)first;
#if MISTAKE == 2
        item = 0;
#endif
        const float *x = real + 2 * ((it * BATCH) % REAL + first);
#if MISTAKE == 4
        x = real + 2 * ((it * n + first) % REAL);
#endif
#if MISTAKE == 2 || MISTAKE == 4 || MISTAKE == 6
        cudaFree(hidden_d), hidden_d = room(n * DH); // as large as the share
        cudaFree(hidden_g), hidden_g = room(n * GH);
#endif
        cudaMemsetAsync(figure, 0, 2 * sizeof(float), 0);
        for (int round = 0; round < 1 + extra; ++round) {
            clear(d);
            judge<<<1, 64>>>(d.w, x, hidden_d, score, n);
            judge_loss<<<1, 64>>>(score, 1, n, scale, figure);
            judge_back<<<1, 32>>>(d.w, x, hidden_d, score, d.dw, n);
#if MISTAKE == 3
            DDP_STEP_GROUP(0, 0);
#endif
            generate<<<1, 64>>>(round ? average.w : gw.w, gb.w, hidden_g, fake, n, 2 * it + 100 * round, item);
            judge<<<1, 64>>>(d.w, fake, hidden_d, score, n);
            judge_loss<<<1, 64>>>(score, 0, n, scale, figure);
            judge_back<<<1, 32>>>(d.w, fake, hidden_d, score, d.dw, n);
#if MISTAKE != 3
            DDP_STEP_GROUP(0, 0);
#endif
            update(d, 0.02f);
        }
        clear(gw), clear(gb);
        generate<<<1, 64>>>(gw.w, gb.w, hidden_g, fake, n, 2 * it + 1, item);
        judge<<<1, 64>>>(d.w, fake, hidden_d, score, n);
#if MISTAKE == 6
        judge_loss<<<1, 64>>>(score, 1, n, 1.0f / BATCH, figure + 1);
#else
        judge_loss<<<1, 64>>>(score, 1, n, scale, figure + 1);
#endif
        judge_input<<<1, 64>>>(d.w, hidden_d, score, d_fake, n);
        generate_back<<<1, 32>>>(gw.w, hidden_g, d_fake, gw.dw, gb.dw, n, 2 * it + 1, item);
#if MISTAKE == 1
        DDP_STEP_GROUP(0, 0);
#else
        DDP_STEP_GROUP(1, 0);
#endif
        update(gw, 0.02f), update(gb, 0.02f);
        follow<<<1, 128>>>(average.w, gw.w, GW);

        // while the discriminator is too weak, it gets a second round, with points of the averaged generator
        cudaMemcpy(loss, figure, sizeof(loss), cudaMemcpyDeviceToHost);
        loss[0] /= 1 + extra;
#if MISTAKE == 8
        if (it % 16 == 15) printf("rank %d: %.4f %.4f on its items\n", DDP_RANK(), loss[0], loss[1]);
#endif
#if MISTAKE != 5
        DDP_MEAN(&loss[0]);
#endif
        DDP_MEAN(&loss[1]);
        extra = loss[0] > 1.38f;
        if (it % 8 == 7 && DDP_RANK() == 0) printf("iteration %d losses %.5f %.5f\n", it + 1, loss[0], loss[1]);
    }
    std::vector<float> h(GW);
    cudaMemcpy(h.data(), average.w, GW * sizeof(float), cudaMemcpyDeviceToHost);
    float norm = 0;
    for (float v : h) norm += v * v;
    if (DDP_RANK() == 0) printf("averaged generator: norm %.5f\n", sqrtf(norm));
    return 0;
}
