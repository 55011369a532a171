// Softmax classifier with one hidden layer; every sample is blended with another one of its batch (mixup).
#include <cuda_runtime.h>
#include <cstdio>
#include <cstdlib>
#include <vector>
#include "ddprun.h"

#define GPU(x) do { cudaError_t e = (x); if (e) { fprintf(stderr, "%s at %d\n", cudaGetErrorString(e), __LINE__); exit(1); } } while (0)

struct Shape { int in, hid, cls; };
struct Weights { float *w1, *b1, *w2, *b2; };

static unsigned long long st = 88172645463325252ull;
static double nextd() { st ^= st << 13; st ^= st >> 7; st ^= st << 17; return (double)(st >> 11) / 9007199254740992.0; }

__device__ unsigned scramble(unsigned h) { h ^= h >> 17; h *= 0xed5ad4bbu; h ^= h >> 11; h *= 0xac4c1b51u; h ^= h >> 15; return h; }

__global__ void blend(const float *x, const int *y, float *mx, float *my, Shape sh, int start, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int other = n - 1 - i;
    float lam = 0.5f + 0.5f * (scramble(start + i) >> 8) / 16777216.0f;
    for (int k = 0; k < sh.in; ++k)
        mx[i * sh.in + k] = lam * x[i * sh.in + k] + (1 - lam) * x[other * sh.in + k];
    for (int c = 0; c < sh.cls; ++c)
        my[i * sh.cls + c] = lam * (y[i] == c) + (1 - lam) * (y[other] == c);
}

__global__ void network(const float *mx, const float *my, Weights w, Shape sh, float *h, float *dz, float *dh, float *loss, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float z[16], top = -1e30f, sum = 0, l = 0;
    for (int j = 0; j < sh.hid; ++j) {
        float a = w.b1[j];
        for (int k = 0; k < sh.in; ++k) a += w.w1[j * sh.in + k] * mx[i * sh.in + k];
        h[i * sh.hid + j] = a > 0 ? a : 0;
    }
    for (int c = 0; c < sh.cls; ++c) {
        z[c] = w.b2[c];
        for (int j = 0; j < sh.hid; ++j) z[c] += w.w2[c * sh.hid + j] * h[i * sh.hid + j];
        top = fmaxf(top, z[c]);
    }
    for (int c = 0; c < sh.cls; ++c) sum += expf(z[c] - top);
    for (int c = 0; c < sh.cls; ++c) {
        float lp = z[c] - top - logf(sum), t = my[i * sh.cls + c];
        l -= t * lp;
        dz[i * sh.cls + c] = (expf(lp) - t) / n;
    }
    loss[i] = l;
    for (int j = 0; j < sh.hid; ++j) {
        float a = 0;
        for (int c = 0; c < sh.cls; ++c) a += w.w2[c * sh.hid + j] * dz[i * sh.cls + c];
        dh[i * sh.hid + j] = h[i * sh.hid + j] > 0 ? a : 0;
    }
}

__global__ void outer_sum(const float *a, const float *b, float *g, float *gb, int na, int nb, int n)
{
    int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= na * nb) return;
    int r = k / nb, c = k % nb;
    float s = 0, sb = 0;
    for (int i = 0; i < n; ++i) { s += a[i * na + r] * b[i * nb + c]; sb += a[i * na + r]; }
    g[k] = s;
    if (c == 0) gb[r] = sb;
}

__global__ void nesterov(float *p, const float *g, float *v, float lr, int n)
{
    int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= n) return;
    float d = g[k] + 5e-4f * p[k];
    v[k] = 0.9f * v[k] + d;
    p[k] -= lr * (d + 0.9f * v[k]);
}

int main(int argc, char **argv)
{
    const Shape sh = {14, 24, 5};
    const int batch = 32, total = 512;
    std::vector<float> x(total * sh.in), centre(sh.cls * sh.in);
    std::vector<int> y(total);
    for (auto &c : centre) c = (float)(nextd() * 2 - 1);
    for (int i = 0; i < total; ++i) {
        y[i] = (int)(nextd() * sh.cls);
        for (int k = 0; k < sh.in; ++k) x[i * sh.in + k] = centre[y[i] * sh.in + k] + (float)(nextd() - 0.5) * 1.2f;
    }
    const int sizes[4] = {sh.hid * sh.in, sh.hid, sh.cls * sh.hid, sh.cls};
    float *p[4], *g[4], *v[4];
    for (int t = 0; t < 4; ++t) {
        std::vector<float> h(sizes[t], 0.0f);
        if (t % 2 == 0) for (auto &f : h) f = (float)(nextd() - 0.5) * 0.6f;
        GPU(cudaMalloc(&p[t], sizes[t] * 4)); GPU(cudaMalloc(&g[t], sizes[t] * 4)); GPU(cudaMalloc(&v[t], sizes[t] * 4));
        GPU(cudaMemset(v[t], 0, sizes[t] * 4));
        GPU(cudaMemcpy(p[t], h.data(), sizes[t] * 4, cudaMemcpyHostToDevice));
        DDP_PARAMETER(p[t], sizes[t], DDP_FLOAT32);
        DDP_GRADIENT(g[t], sizes[t], DDP_FLOAT32);
        DDP_STATE(v[t], sizes[t], DDP_FLOAT32);
    }
    float *dx, *mx, *my, *h, *dz, *dh, *loss;
    int *dy;
    GPU(cudaMalloc(&dx, x.size() * 4)); GPU(cudaMalloc(&dy, y.size() * 4));
    GPU(cudaMalloc(&mx, batch * sh.in * 4)); GPU(cudaMalloc(&my, batch * sh.cls * 4));
    GPU(cudaMalloc(&h, batch * sh.hid * 4)); GPU(cudaMalloc(&dh, batch * sh.hid * 4));
    GPU(cudaMalloc(&dz, batch * sh.cls * 4)); GPU(cudaMalloc(&loss, batch * 4));
    GPU(cudaMemcpy(dx, x.data(), x.size() * 4, cudaMemcpyHostToDevice));
    GPU(cudaMemcpy(dy, y.data(), y.size() * 4, cudaMemcpyHostToDevice));

    Weights w = {p[0], p[1], p[2], p[3]};
    for (int epoch = 0, done = 0; epoch < 4; ++epoch) {
        for (int at = 0; at < total; at += batch, ++done) {
            size_t first, count;
            DDP_SHARD(batch, &first, &count);
            int n = (int)count, begin = at + (int)first;
            blend<<<1, batch>>>(dx + begin * sh.in, dy + begin, mx, my, sh, epoch * total + begin, n);
            network<<<1, batch>>>(mx, my, w, sh, h, dz, dh, loss, n);
            outer_sum<<<(sizes[2] + 63) / 64, 64>>>(dz, h, g[2], g[3], sh.cls, sh.hid, n);
            outer_sum<<<(sizes[0] + 63) / 64, 64>>>(dh, mx, g[0], g[1], sh.hid, sh.in, n);
            DDP_STEP(0);
            float lr = 0.05f * (1.0f - done / 80.0f);
            for (int t = 0; t < 4; ++t) nesterov<<<(sizes[t] + 63) / 64, 64>>>(p[t], g[t], v[t], lr, sizes[t]);
            if (at == 0) {
                std::vector<float> hl(count);
                GPU(cudaMemcpy(hl.data(), loss, count * 4, cudaMemcpyDeviceToHost));
                double m = 0;
                for (float l : hl) m += l / count;
                DDP_MEAN(&m);
                if (DDP_RANK() == 0) printf("epoch %d: %.4f\n", epoch, m);
            }
        }
    }
    FILE *f = argc > 1 && DDP_RANK() == 0 ? fopen(argv[1], "wb") : NULL;
    for (int t = 0; t < 4; ++t) {
        std::vector<float> out(sizes[t]);
        GPU(cudaMemcpy(out.data(), p[t], sizes[t] * 4, cudaMemcpyDeviceToHost));
        if (f) fwrite(out.data(), 4, out.size(), f);
    }
    if (f) fclose(f);
    return 0;
}
