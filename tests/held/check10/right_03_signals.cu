// Recurrent network that predicts the next value of many endless signals. The hidden state is carried from one window to
// the next; gradients reach back to the start of the window only.
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>
#include "ddprun.h"

const int LANES = 32, HID = 8, WINDOW = 6;
const int WX = 0, WH = WX + HID, BH = WH + HID * HID, WO = BH + HID, BO = WO + HID, COUNT = BO + 1;

__global__ void window_pass(const float *signal, int stride, const float *w, float *state, float *lane_grad, float *loss, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float *x = signal + (size_t)i * stride;
    float h[(WINDOW + 1) * HID], e[WINDOW], l = 0;
    for (int k = 0; k < HID; ++k) h[k] = state[i * HID + k];
    for (int t = 0; t < WINDOW; ++t) {
        float out = w[BO];
        for (int k = 0; k < HID; ++k) {
            float s = w[BH + k] + x[t] * w[WX + k];
            for (int j = 0; j < HID; ++j) s += h[t * HID + j] * w[WH + j * HID + k];
            s = tanhf(s);
            h[(t + 1) * HID + k] = s;
            out += s * w[WO + k];
        }
        e[t] = out - x[t + 1];
        l += 0.5f * e[t] * e[t] / WINDOW;
        e[t] /= WINDOW;
    }
    for (int k = 0; k < HID; ++k) state[i * HID + k] = h[WINDOW * HID + k];
    loss[i] = l;

    float *g = lane_grad + (size_t)i * COUNT, dh[HID], next[HID];
    for (int p = 0; p < COUNT; ++p) g[p] = 0;
    for (int k = 0; k < HID; ++k) dh[k] = 0;
    for (int t = WINDOW - 1; t >= 0; --t) {
        g[BO] += e[t];
        for (int k = 0; k < HID; ++k) {
            float a = h[(t + 1) * HID + k];
            g[WO + k] += e[t] * a;
            dh[k] = (dh[k] + e[t] * w[WO + k]) * (1 - a * a);
            g[BH + k] += dh[k];
            g[WX + k] += dh[k] * x[t];
        }
        for (int j = 0; j < HID; ++j) {
            next[j] = 0;
            for (int k = 0; k < HID; ++k) {
                g[WH + j * HID + k] += dh[k] * h[t * HID + j];
                next[j] += dh[k] * w[WH + j * HID + k];
            }
        }
        for (int j = 0; j < HID; ++j) dh[j] = next[j];
    }
}
__global__ void mean_over_lanes(const float *lane_grad, float *grad, int n)
{
    int p = blockIdx.x * blockDim.x + threadIdx.x;
    if (p >= COUNT) return;
    float s = 0;
    for (int i = 0; i < n; ++i) s += lane_grad[(size_t)i * COUNT + p];
    grad[p] = s / n;
}
__global__ void rmsprop(float *w, float *v, const float *g, float rate)
{
    int p = blockIdx.x * blockDim.x + threadIdx.x;
    if (p >= COUNT) return;
    v[p] = 0.9f * v[p] + 0.1f * g[p] * g[p];
    w[p] -= rate * g[p] / (sqrtf(v[p]) + 1e-3f);
}

class Trainer {
public:
    explicit Trainer(int windows) : stride_(windows * WINDOW + 1)
    {
        unsigned s = 60221u;
        auto r = [&s] { s = s * 1664525u + 1013904223u; return (s >> 8) / 16777216.0f; };
        std::vector<float> sig((size_t)LANES * stride_), w(COUNT);
        for (int i = 0; i < LANES; ++i) {
            float f1 = 0.2f + 0.5f * r(), f2 = 0.6f + 0.6f * r(), p1 = 6.28f * r(), amp = 0.3f + 0.5f * r();
            for (int t = 0; t < stride_; ++t) sig[(size_t)i * stride_ + t] = amp * sinf(f1 * t + p1) + 0.3f * sinf(f2 * t);
        }
        for (float &x : w) x = (r() - 0.5f) * 0.7f;
        cudaMalloc(&signal_, sig.size() * 4);
        cudaMalloc(&w_, COUNT * 4); cudaMalloc(&g_, COUNT * 4); cudaMalloc(&v_, COUNT * 4);
        cudaMalloc(&state_, LANES * HID * 4); cudaMalloc(&lane_grad_, (size_t)LANES * COUNT * 4); cudaMalloc(&loss_, LANES * 4);
        cudaMemcpy(signal_, sig.data(), sig.size() * 4, cudaMemcpyHostToDevice);
        cudaMemcpy(w_, w.data(), COUNT * 4, cudaMemcpyHostToDevice);
        cudaMemset(v_, 0, COUNT * 4);
        cudaMemset(state_, 0, LANES * HID * 4);
        DDP_PARAMETER(w_, COUNT, DDP_FLOAT32);
        DDP_STATE(v_, COUNT, DDP_FLOAT32);
        DDP_GRADIENT(g_, COUNT, DDP_FLOAT32);
        DDP_SHARD(LANES, &first_, &count_);
    }
    float window(int t)
    {
        const int n = (int)count_;
        window_pass<<<(n + 31) / 32, 32>>>(signal_ + first_ * stride_ + t * WINDOW, stride_, w_, state_, lane_grad_, loss_, n);
        mean_over_lanes<<<(COUNT + 31) / 32, 32>>>(lane_grad_, g_, n);
        DDP_STEP(0);
        rmsprop<<<(COUNT + 31) / 32, 32>>>(w_, v_, g_, 0.01f);
        std::vector<float> l(n);
        cudaMemcpy(l.data(), loss_, n * 4, cudaMemcpyDeviceToHost);
        float m = 0;
        for (float x : l) m += x / n;
        return m;
    }
    void save(const char *path)
    {
        std::vector<float> w(COUNT);
        cudaMemcpy(w.data(), w_, COUNT * 4, cudaMemcpyDeviceToHost);
        if (DDP_RANK() != 0) return;
        FILE *f = fopen(path, "wb");
        fwrite(w.data(), 4, COUNT, f);
        fclose(f);
    }
private:
    int stride_;
    size_t first_, count_;
    float *signal_, *w_, *g_, *v_, *state_, *lane_grad_, *loss_;
};

int main(int argc, char **argv)
{
    const int steps = argc > 2 ? atoi(argv[2]) : 60;
    Trainer trainer(60);
    for (int t = 0; t < steps; ++t) {
        float m = trainer.window(t);
        if (t % 20 == 19 || t == 0) {
            DDP_MEAN(&m);
            printf("window %d loss %.5f\n", t, m);
        }
    }
    if (argc > 1) trainer.save(argv[1]);
    return 0;
}
