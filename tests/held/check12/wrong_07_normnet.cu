// 10 -> 16 linear, batch normalisation over the whole batch, relu, -> 3 classes.
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <vector>
#include "ddprun.h"

#define IN 10
#define HID 16
#define OUT 3
#define SAMPLES 320
#define BATCH 32
#define STEPS 60

static inline int blocks(int n) { return (n + 63) / 64; }

struct Tensor {
    float *p = nullptr;
    int n = 0;
    void create(int count)
    {
        n = count;
        cudaMalloc(&p, n * sizeof(float));
        cudaMemset(p, 0, n * sizeof(float));
    }
    void set(const std::vector<float> &h) { cudaMemcpy(p, h.data(), n * sizeof(float), cudaMemcpyHostToDevice); }
    std::vector<float> get() const
    {
        std::vector<float> h(n);
        cudaMemcpy(h.data(), p, n * sizeof(float), cudaMemcpyDeviceToHost);
        return h;
    }
};

__global__ void matmul(const float *x, const float *w, float *y, int rows, int in, int out)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= rows * out) return;
    float s = 0;
    for (int k = 0; k < in; ++k) s += x[t / out * in + k] * w[t % out * in + k];
    y[t] = s;
}
__global__ void matmul_dw(const float *x, const float *dy, float *dw, int rows, int in, int out)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= in * out) return;
    float s = 0;
    for (int i = 0; i < rows; ++i) s += dy[i * out + t / in] * x[i * in + t % in];
    dw[t] = s;
}
__global__ void matmul_dx(const float *w, const float *dy, float *dx, int rows, int in, int out)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= rows * in) return;
    float s = 0;
    for (int o = 0; o < out; ++o) s += dy[t / in * out + o] * w[o * in + t % in];
    dx[t] = s;
}
// stat[0..HID) mean of y, stat[HID..2 HID) mean of y^2
__global__ void moments(const float *y, float *stat, int rows)
{
    int j = threadIdx.x;
    float a = 0, b = 0;
    for (int i = 0; i < rows; ++i) {
        a += y[i * HID + j];
        b += y[i * HID + j] * y[i * HID + j];
    }
    stat[j] = a / rows;
    stat[HID + j] = b / rows;
}
__global__ void normalise(const float *y, const float *stat, const float *gb, float *xhat, float *a, int rows)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= rows * HID) return;
    int j = t % HID;
    float m = stat[j], v = stat[HID + j] - m * m;
    xhat[t] = (y[t] - m) * rsqrtf(v + 1e-5f);
    a[t] = fmaxf(0.0f, gb[j] * xhat[t] + gb[HID + j]);
}
// sums[0..HID) sum of dz xhat, sums[HID..) sum of dz
__global__ void back_sums(const float *da, const float *a, const float *xhat, float *sums, int rows)
{
    int j = threadIdx.x;
    float g = 0, b = 0;
    for (int i = 0; i < rows; ++i) {
        float dz = a[i * HID + j] > 0 ? da[i * HID + j] : 0.0f;
        g += dz * xhat[i * HID + j];
        b += dz;
    }
    sums[j] = g;
    sums[HID + j] = b;
}
__global__ void back_norm(const float *da, const float *a, const float *xhat, const float *stat, const float *gb,
                          const float *sums, float *dy, int rows)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= rows * HID) return;
    int j = t % HID;
    float m = stat[j], v = stat[HID + j] - m * m;
    float dz = a[t] > 0 ? da[t] : 0.0f;
    dy[t] = gb[j] * rsqrtf(v + 1e-5f) * (dz - sums[HID + j] / rows - xhat[t] * sums[j] / rows);
}
__global__ void cross_entropy(const float *z, const int *label, float *dz, float *loss, int rows)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows) return;
    float top = fmaxf(z[i * OUT], fmaxf(z[i * OUT + 1], z[i * OUT + 2])), s = 0;
    for (int c = 0; c < OUT; ++c) s += expf(z[i * OUT + c] - top);
    loss[i] = logf(s) + top - z[i * OUT + label[i]];
    for (int c = 0; c < OUT; ++c)
        dz[i * OUT + c] = (expf(z[i * OUT + c] - top) / s - (c == label[i] ? 1.0f : 0.0f)) / rows;
}
__global__ void sgd(float *w, const float *g, int n, float rate)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t < n) w[t] -= rate * g[t];
}

class NormNet {
public:
    Tensor w1, gb, w2, dw1, dgb, dw2;
    Tensor y, xhat, a, z, stat, dz, da, dy, loss;
    NormNet(unsigned seed)
    {
        w1.create(HID * IN); gb.create(2 * HID); w2.create(OUT * HID);
        dw1.create(HID * IN); dgb.create(2 * HID); dw2.create(OUT * HID);
        y.create(BATCH * HID); xhat.create(BATCH * HID); a.create(BATCH * HID); z.create(BATCH * OUT);
        stat.create(2 * HID); dz.create(BATCH * OUT); da.create(BATCH * HID); dy.create(BATCH * HID); loss.create(BATCH);
        std::vector<float> h(w1.n), k(gb.n, 0.0f), o(w2.n);
        for (float &f : h) f = pick(seed);
        for (int j = 0; j < HID; ++j) k[j] = 1.0f;
        for (float &f : o) f = 0.5f * pick(seed);
        w1.set(h); gb.set(k); w2.set(o);
        for (Tensor *t : {&w1, &gb, &w2}) DDP_PARAMETER(t->p, t->n, DDP_FLOAT32);
        for (Tensor *t : {&dw1, &dgb, &dw2}) DDP_GRADIENT(t->p, t->n, DDP_FLOAT32);
    }
    static float pick(unsigned &s)
    {
        s = s * 69069u + 1u;
        return (s >> 8) / 8388608.0f - 1.0f;
    }
    void pass(const float *x, const int *label, int rows)
    {
        matmul<<<blocks(rows * HID), 64>>>(x, w1.p, y.p, rows, IN, HID);
        moments<<<1, HID>>>(y.p, stat.p, rows);
        DDP_REDUCE(stat.p, stat.n, DDP_FLOAT32, DDP_OP_MEAN, 0);
        normalise<<<blocks(rows * HID), 64>>>(y.p, stat.p, gb.p, xhat.p, a.p, rows);
        matmul<<<blocks(rows * OUT), 64>>>(a.p, w2.p, z.p, rows, HID, OUT);
        cross_entropy<<<blocks(rows), 64>>>(z.p, label, dz.p, loss.p, rows);
        matmul_dw<<<blocks(OUT * HID), 64>>>(a.p, dz.p, dw2.p, rows, HID, OUT);
        matmul_dx<<<blocks(rows * HID), 64>>>(w2.p, dz.p, da.p, rows, HID, OUT);
        back_sums<<<1, HID>>>(da.p, a.p, xhat.p, dgb.p, rows);
        back_norm<<<blocks(rows * HID), 64>>>(da.p, a.p, xhat.p, stat.p, gb.p, dgb.p, dy.p, rows);
        matmul_dw<<<blocks(HID * IN), 64>>>(x, dy.p, dw1.p, rows, IN, HID);
    }
    void learn(float rate)
    {
        sgd<<<blocks(w1.n), 64>>>(w1.p, dw1.p, w1.n, rate);
        sgd<<<blocks(gb.n), 64>>>(gb.p, dgb.p, gb.n, rate);
        sgd<<<blocks(w2.n), 64>>>(w2.p, dw2.p, w2.n, rate);
    }
};

int main(int argc, char **argv)
{
    unsigned s = 31;
    std::vector<float> x(SAMPLES * IN);
    std::vector<int> l(SAMPLES);
    for (int i = 0; i < SAMPLES; ++i) {
        for (int k = 0; k < IN; ++k) x[i * IN + k] = 2 * NormNet::pick(s);
        float r = x[i * IN] * x[i * IN] + x[i * IN + 1] * x[i * IN + 1];
        l[i] = r < 1.5f ? 0 : x[i * IN + 2] > 0 ? 1 : 2;
    }
    Tensor dx;
    dx.create(SAMPLES * IN);
    dx.set(x);
    int *dl;
    cudaMalloc(&dl, SAMPLES * sizeof(int));
    cudaMemcpy(dl, l.data(), SAMPLES * sizeof(int), cudaMemcpyHostToDevice);
    NormNet net(8);
    for (int step = 0; step < STEPS; ++step) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        size_t row = step * BATCH % SAMPLES + first;
        net.pass(dx.p + row * IN, dl + row, (int)count);
        DDP_STEP(0);
        net.learn(0.3f);
        if (step % 10 == 9 || step == 0) {
            std::vector<float> h = net.loss.get();
            float mean = 0;
            for (size_t i = 0; i < count; ++i) mean += h[i] / count;
            DDP_MEAN(&mean);
            if (DDP_RANK() == 0) std::printf("step %d loss %.4f\n", step, mean);
        }
    }
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *f = std::fopen(argv[1], "wb");
        for (Tensor *t : {&net.w1, &net.gb, &net.w2}) std::fwrite(t->get().data(), 4, t->n, f);
        std::fclose(f);
    } else
        net.w1.get();
    return 0;
}
