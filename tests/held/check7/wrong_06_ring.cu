// A small GAN: the generator learns points on a ring. Non-saturating loss, two SGD optimizers.
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>
#include "ddprun.h"

static const int B = 40, Z = 3, H = 16, STEPS = 60;

static void ok(cudaError_t e) { if (e != cudaSuccess) { fprintf(stderr, "%s\n", cudaGetErrorString(e)); abort(); } }

static uint32_t mix(uint32_t h) { h ^= h >> 16; h *= 0x7feb352du; h ^= h >> 15; h *= 0x846ca68bu; return h ^ (h >> 16); }
static float uni(uint32_t a, uint32_t b, uint32_t c) { return (mix(a * 73856093u ^ mix(b * 19349663u ^ mix(c + 1))) >> 8) / 16777216.0f; }

__global__ void layer(const float *in, const float *w, const float *b, float *out, int n, int ni, int no, int act)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * no) return;
    int s = i / no, o = i % no;
    float a = b[o];
    for (int k = 0; k < ni; ++k) a += w[o * ni + k] * in[s * ni + k];
    out[i] = act ? tanhf(a) : a;
}
__global__ void layer_back(const float *w, const float *dout, const float *in, float *din, int n, int ni, int no, int act)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * ni) return;
    int s = i / ni, k = i % ni;
    float a = 0;
    for (int o = 0; o < no; ++o) a += w[o * ni + k] * dout[s * no + o];
    din[i] = act ? a * (1 - in[i] * in[i]) : a;
}
__global__ void layer_grad(const float *in, const float *dout, float *dw, float *db, int n, int ni, int no)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= no * (ni + 1)) return;
    int o = i / (ni + 1), k = i % (ni + 1);
    float a = 0;
    for (int s = 0; s < n; ++s) a += dout[s * no + o] * (k < ni ? in[s * ni + k] : 1.0f);
    if (k < ni) dw[o * ni + k] = a; else db[o] = a;
}
// half of the rows carry the first label, half the second; all labels equal if split == n
__global__ void logistic(const float *z, float *dz, float *loss, int n, int split, float scale)
{
    int s = blockIdx.x * blockDim.x + threadIdx.x;
    if (s >= n) return;
    float y = s < split ? 1.0f : 0.0f, q = 1.0f / (1.0f + expf(-z[s]));
    dz[s] = (q - y) * scale;
    loss[s] = -logf(1e-7f + (y > 0.5f ? q : 1.0f - q));
}
__global__ void sgd(float *w, const float *g, float lr, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) w[i] -= lr * g[i];
}

class Dense {
  public:
    Dense(int ni, int no, unsigned seed, float gain) : ni_(ni), no_(no)
    {
        std::vector<float> h(ni * no);
        for (int i = 0; i < ni * no; ++i) h[i] = (uni(seed, i, 5) - 0.5f) * gain;
        ok(cudaMalloc(&w, ni * no * 4)); ok(cudaMalloc(&dw, ni * no * 4));
        ok(cudaMalloc(&b, no * 4)); ok(cudaMalloc(&db, no * 4));
        ok(cudaMemset(b, 0, no * 4));
        ok(cudaMemcpy(w, h.data(), ni * no * 4, cudaMemcpyHostToDevice));
    }
    void annotate()
    {
        DDP_PARAMETER(w, ni_ * no_, DDP_FLOAT32);
        DDP_PARAMETER(b, no_, DDP_FLOAT32);
        DDP_GRADIENT(dw, ni_ * no_, DDP_FLOAT32);
        DDP_GRADIENT(db, no_, DDP_FLOAT32);
    }
    void forward(const float *in, float *out, int n, int act) { layer<<<(n * no_ + 63) / 64, 64>>>(in, w, b, out, n, ni_, no_, act); }
    void backward(const float *in, const float *dout, float *din, int n, int act, bool grads)
    {
        if (din) layer_back<<<(n * ni_ + 63) / 64, 64>>>(w, dout, in, din, n, ni_, no_, act);
        if (grads) layer_grad<<<(no_ * (ni_ + 1) + 63) / 64, 64>>>(in, dout, dw, db, n, ni_, no_);
    }
    void update(float lr)
    {
        sgd<<<(ni_ * no_ + 63) / 64, 64>>>(w, dw, lr, ni_ * no_);
        sgd<<<1, 64>>>(b, db, lr, no_);
    }
    void dump(FILE *f)
    {
        std::vector<float> h(ni_ * no_ + no_);
        ok(cudaMemcpy(h.data(), w, ni_ * no_ * 4, cudaMemcpyDeviceToHost));
        ok(cudaMemcpy(h.data() + ni_ * no_, b, no_ * 4, cudaMemcpyDeviceToHost));
        if (f) fwrite(h.data(), 4, h.size(), f);
    }
  private:
    int ni_, no_;
    float *w, *dw, *b, *db;
};

int main(int argc, char **argv)
{
    Dense d1(2, H, 11, 1.6f), d2(H, 1, 12, 0.8f), g1(Z, H, 13, 1.6f), g2(H, 2, 14, 0.8f);
    DDP_GRADIENT_GROUP(0);
    d1.annotate();
    d2.annotate();
    g1.annotate();
    DDP_GRADIENT_GROUP(1);
    g2.annotate();

    float *pts, *z, *gh, *dh, *out, *dout, *ddh, *dpts, *dgh, *loss;
    ok(cudaMalloc(&pts, 2 * B * 2 * 4)); ok(cudaMalloc(&z, B * Z * 4)); ok(cudaMalloc(&gh, B * H * 4));
    ok(cudaMalloc(&dh, 2 * B * H * 4)); ok(cudaMalloc(&out, 2 * B * 4)); ok(cudaMalloc(&dout, 2 * B * 4));
    ok(cudaMalloc(&ddh, 2 * B * H * 4)); ok(cudaMalloc(&dpts, 2 * B * 2 * 4)); ok(cudaMalloc(&dgh, B * H * 4));
    ok(cudaMalloc(&loss, 2 * B * 4));
    std::vector<float> hz(B * Z), hp(B * 2), hl(2 * B);

    for (int step = 0; step < STEPS; ++step) {
        size_t first, count;
        DDP_SHARD(B, &first, &count);
        int n = (int)count;
        for (int s = 0; s < n; ++s) {
            unsigned id = (unsigned)(first + s);
            float a = 6.2831853f * uni(step, id, 1), r = 1.0f + 0.1f * (uni(step, id, 2) - 0.5f);
            hp[2 * s] = 1.0f + r * cosf(a);
            hp[2 * s + 1] = r * sinf(a);
            for (int k = 0; k < Z; ++k) hz[s * Z + k] = 2 * uni(step, id, 10 + k) - 1;
        }
        ok(cudaMemcpy(pts, hp.data(), n * 2 * 4, cudaMemcpyHostToDevice));
        ok(cudaMemcpy(z, hz.data(), n * Z * 4, cudaMemcpyHostToDevice));
        float *fake = pts + 2 * n;
        // critic: n real rows, then n generated ones
        g1.forward(z, gh, n, 1);
        g2.forward(gh, fake, n, 0);
        d1.forward(pts, dh, 2 * n, 1);
        d2.forward(dh, out, 2 * n, 0);
        logistic<<<2, 64>>>(out, dout, loss, 2 * n, n, 0.5f / n);
        d2.backward(dh, dout, ddh, 2 * n, 1, true);
        d1.backward(pts, ddh, nullptr, 2 * n, 0, true);
        DDP_STEP_GROUP(0, 0);
        d1.update(0.9f);
        d2.update(0.9f);
        // generator: make the critic say "real"
        d1.forward(fake, dh, n, 1);
        d2.forward(dh, out, n, 0);
        logistic<<<2, 64>>>(out, dout, loss, n, n, 1.0f / n);
        d2.backward(dh, dout, ddh, n, 1, false);
        d1.backward(fake, ddh, dpts, n, 0, false);
        g2.backward(gh, dpts, dgh, n, 1, true);
        g1.backward(z, dgh, nullptr, n, 0, true);
        DDP_STEP_GROUP(1, 0);
        g1.update(0.8f);
        g2.update(0.8f);
        if (step % 10 == 0 || step == STEPS - 1) {
            ok(cudaMemcpy(hl.data(), loss, n * 4, cudaMemcpyDeviceToHost));
            float m = 0;
            for (int s = 0; s < n; ++s) m += hl[s] / n;
            DDP_MEAN(&m);
            if (DDP_RANK() == 0) printf("%d generator loss %.4f\n", step, m);
        }
    }
    FILE *f = argc > 1 && DDP_RANK() == 0 ? fopen(argv[1], "wb") : nullptr;
    d1.dump(f); d2.dump(f); g1.dump(f); g2.dump(f);
    if (f) fclose(f);
    return 0;
}
