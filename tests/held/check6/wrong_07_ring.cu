// A small GAN: points on a ring. Least-squares losses, two optimizers, each with its own group of gradients.
#include <cuda_runtime.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <vector>
#include "ddprun.h"

#define Z 4
#define HID 24
#define BATCH 32

inline void check(cudaError_t e, const char *file, int line)
{
    if (e == cudaSuccess) return;
    fprintf(stderr, "%s:%d: %s\n", file, line, cudaGetErrorString(e));
    exit(1);
}
#define CK(e) check((e), __FILE__, __LINE__)

// counter-based: the same number for the same (key, index), whoever asks
static float noise(unsigned key, unsigned index)
{
    unsigned x = key * 0x9E3779B9u ^ (index + 1) * 0x85EBCA6Bu;
    x ^= x >> 16; x *= 0x7FEB352Du; x ^= x >> 15; x *= 0x846CA68Bu; x ^= x >> 16;
    return (x >> 8) / 16777216.0f;
}

struct Net { // in -> HID tanh -> out
    int in, out;
    float *w1, *b1, *w2, *b2, *dw1, *db1, *dw2, *db2, *h, *dh, *y;
    static float *get(int n)
    {
        float *p;
        CK(cudaMalloc((void **)&p, n * sizeof(float)));
        CK(cudaMemset(p, 0, n * sizeof(float)));
        return p;
    }
    static float *random(int n, float scale, unsigned key)
    {
        std::vector<float> v(n);
        for (int i = 0; i < n; ++i) v[i] = scale * (2 * noise(key, i) - 1);
        float *p = get(n);
        CK(cudaMemcpy(p, v.data(), n * sizeof(float), cudaMemcpyHostToDevice));
        return p;
    }
    Net(int i, int o, unsigned key) : in(i), out(o)
    {
        w1 = random(in * HID, 0.7f, key); b1 = random(HID, 0.3f, key + 1);
        w2 = random(HID * out, 0.3f, key + 2); b2 = random(out, 0.1f, key + 3);
        dw1 = get(in * HID); db1 = get(HID); dw2 = get(HID * out); db2 = get(out);
        h = get(2 * BATCH * HID); dh = get(2 * BATCH * HID); y = get(2 * BATCH * out);
    }
    size_t size() const { return in * HID + HID + HID * out + out; }
    void save(FILE *f) const
    {
        const float *p[4] = {w1, b1, w2, b2};
        int n[4] = {in * HID, HID, HID * out, out};
        for (int k = 0; k < 4; ++k) {
            std::vector<float> v(n[k]);
            CK(cudaMemcpy(v.data(), p[k], n[k] * sizeof(float), cudaMemcpyDeviceToHost));
            fwrite(v.data(), sizeof(float), n[k], f);
        }
    }
};

__global__ void layer(const float *x, const float *w, const float *b, float *y, int rows, int in, int out, int squash)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= rows * out) return;
    float s = b[t % out];
    for (int k = 0; k < in; ++k) s += x[t / out * in + k] * w[k * out + t % out];
    y[t] = squash ? tanhf(s) : s;
}
__global__ void layer_grad(const float *x, const float *dy, float *dw, float *db, int rows, int in, int out)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= (in + 1) * out) return;
    int k = t / out, j = t % out;
    float g = 0;
    for (int r = 0; r < rows; ++r) g += dy[r * out + j] * (k < in ? x[r * in + k] : 1.f);
    if (k < in) dw[t] = g; else db[j] = g;
}
__global__ void layer_back(const float *dy, const float *w, const float *a, float *dx, int rows, int in, int out)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= rows * in) return;
    float g = 0;
    for (int j = 0; j < out; ++j) g += dy[t / in * out + j] * w[t % in * out + j];
    dx[t] = a ? g * (1 - a[t] * a[t]) : g;
}
// target 1 for the first `ones` rows, 0 after them
__global__ void square_loss(const float *score, float *d, float *loss, int rows, int ones)
{
    int r = threadIdx.x;
    if (r >= rows) return;
    float e = score[r] - (r < ones ? 1.f : 0.f);
    d[r] = 2 * e / rows;
    loss[r] = e * e;
}
__global__ void descend(float *w, const float *g, float rate, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) w[i] -= rate * g[i];
}

static int grid(int n) { return (n + 63) / 64; }

static void forward(Net &m, const float *x, int rows)
{
    layer<<<grid(rows * HID), 64>>>(x, m.w1, m.b1, m.h, rows, m.in, HID, 1);
    layer<<<grid(rows * m.out), 64>>>(m.h, m.w2, m.b2, m.y, rows, HID, m.out, 0);
}
static void gradients(Net &m, const float *x, const float *dy, int rows)
{
    layer_grad<<<grid((HID + 1) * m.out), 64>>>(m.h, dy, m.dw2, m.db2, rows, HID, m.out);
    layer_back<<<grid(rows * HID), 64>>>(dy, m.w2, m.h, m.dh, rows, HID, m.out);
    layer_grad<<<grid((m.in + 1) * HID), 64>>>(x, m.dh, m.dw1, m.db1, rows, m.in, HID);
}
static void update(Net &m, float rate)
{
    descend<<<grid(m.in * HID), 64>>>(m.w1, m.dw1, rate, m.in * HID);
    descend<<<grid(HID), 64>>>(m.b1, m.db1, rate, HID);
    descend<<<grid(HID * m.out), 64>>>(m.w2, m.dw2, rate, HID * m.out);
    descend<<<grid(m.out), 64>>>(m.b2, m.db2, rate, m.out);
}

int main(int argc, char **argv)
{
    int steps = argc > 2 ? atoi(argv[2]) : 60;
    Net g(Z, 2, 100), d(2, 1, 200);
    float *z = Net::get(BATCH * Z), *both = Net::get(2 * BATCH * 2), *dscore = Net::get(2 * BATCH),
          *dpoint = Net::get(BATCH * 2), *dhid = Net::get(BATCH * HID), *loss = Net::get(2 * BATCH);

    DDP_PARAMETER(g.w1, Z * HID, DDP_FLOAT32);
    DDP_PARAMETER(g.b1, HID, DDP_FLOAT32);
    DDP_PARAMETER(g.w2, HID * 2, DDP_FLOAT32);
    DDP_PARAMETER(g.b2, 2, DDP_FLOAT32);
    DDP_PARAMETER(d.w1, 2 * HID, DDP_FLOAT32);
    DDP_PARAMETER(d.b1, HID, DDP_FLOAT32);
    DDP_PARAMETER(d.w2, HID, DDP_FLOAT32);
    DDP_PARAMETER(d.b2, 1, DDP_FLOAT32);
    DDP_GRADIENT(g.dw1, Z * HID, DDP_FLOAT32);
    DDP_GRADIENT(g.db1, HID, DDP_FLOAT32);
    DDP_GRADIENT(g.dw2, HID * 2, DDP_FLOAT32);
    DDP_GRADIENT(g.db2, 2, DDP_FLOAT32);
    DDP_GRADIENT(d.dw1, 2 * HID, DDP_FLOAT32);
    DDP_GRADIENT_GROUP(1);
    DDP_GRADIENT(d.db1, HID, DDP_FLOAT32);
    DDP_GRADIENT(d.dw2, HID, DDP_FLOAT32);
    DDP_GRADIENT(d.db2, 1, DDP_FLOAT32);

    for (int s = 0; s < steps; ++s) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        int n = (int)count;
        std::vector<float> real(n * 2), latent(n * Z);
        for (int i = 0; i < n; ++i) {
            unsigned item = s * BATCH + (unsigned)first + i;
            float a = 6.2831853f * noise(7, item), r = 1.5f + 0.2f * noise(8, item);
            real[2 * i] = 1 + r * cosf(a);
            real[2 * i + 1] = -1 + r * sinf(a);
            for (int k = 0; k < Z; ++k) latent[i * Z + k] = 2 * noise(9, item * Z + k) - 1;
        }
        CK(cudaMemcpy(z, latent.data(), n * Z * sizeof(float), cudaMemcpyHostToDevice));
        CK(cudaMemcpy(both, real.data(), n * 2 * sizeof(float), cudaMemcpyHostToDevice));
        forward(g, z, n);
        CK(cudaMemcpy(both + 2 * n, g.y, n * 2 * sizeof(float), cudaMemcpyDeviceToDevice));
        std::vector<float> fake(n * 2);
        CK(cudaMemcpy(fake.data(), g.y, n * 2 * sizeof(float), cudaMemcpyDeviceToHost));
        forward(d, both, 2 * n);
        square_loss<<<1, 2 * BATCH>>>(d.y, dscore, loss, 2 * n, n);
        gradients(d, both, dscore, 2 * n);
        DDP_STEP_GROUP(1, 0);
        update(d, 0.2f);

        forward(d, g.y, n); // the generator wants 1 for its own points
        square_loss<<<1, 2 * BATCH>>>(d.y, dscore, loss, n, n);
        layer_back<<<grid(n * HID), 64>>>(dscore, d.w2, d.h, dhid, n, HID, 1);
        layer_back<<<grid(n * 2), 64>>>(dhid, d.w1, NULL, dpoint, n, 2, HID);
        gradients(g, z, dpoint, n);
        DDP_STEP_GROUP(0, 0);
        update(g, 0.2f);
        float mx = 0, my = 0;
        for (int i = 0; i < n; ++i) mx += fake[2 * i] / n, my += fake[2 * i + 1] / n;
        DDP_MEAN(&mx);
        DDP_MEAN(&my);
        if (DDP_RANK() == 0 && (s % 10 == 0 || s == steps - 1))
            printf("%2d: distance of the centres %.4f\n", s, hypotf(mx - 1, my + 1));
    }
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *f = fopen(argv[1], "wb");
        g.save(f);
        d.save(f);
        fclose(f);
    }
    return 0;
}
