// Mixture of linear experts with a learned top-1 router, trained on piecewise linear regression.
#include <cuda_runtime.h>
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <vector>
#include "ddprun.h"

#define CK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { fprintf(stderr, "%s:%d %s\n", __FILE__, __LINE__, cudaGetErrorString(e_)); exit(1); } } while (0)

constexpr int IN = 12, OUT = 6, NE = 4, BATCH = 64, DATA = 512, STEPS = 60;

struct Rng {
    unsigned long long s;
    explicit Rng(unsigned long long seed) : s(seed) {}
    float uniform() { s = s * 6364136223846793005ULL + 1442695040888963407ULL; return (float)(s >> 40) / 16777216.0f; }
    float normal() { float a = 0; for (int i = 0; i < 12; ++i) a += uniform(); return a - 6.0f; }
};

__global__ void route(const float *x, const float *gate, float *prob, int *expert, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n) return;
    float z[NE], top = -1e30f, sum = 0;
    int best = 0;
    for (int e = 0; e < NE; ++e) {
        z[e] = 0;
        for (int i = 0; i < IN; ++i) z[e] += gate[e * IN + i] * x[t * IN + i];
        if (z[e] > top) { top = z[e]; best = e; }
    }
    for (int e = 0; e < NE; ++e) { z[e] = expf(z[e] - top); sum += z[e]; }
    for (int e = 0; e < NE; ++e) prob[t * NE + e] = z[e] / sum;
    expert[t] = best;
}

// Tokens queue at their expert in order of arrival; those beyond the capacity are passed over.
__global__ void dispatch(const int *expert, int *kept, int capacity, int n)
{
    int e = threadIdx.x;
    int used = 0;
    for (int t = 0; t < n; ++t)
        if (expert[t] == e) { kept[t] = used < capacity; ++used; }
}

__global__ void forward(const float *x, const float *y, const float *w, const float *prob, const int *expert,
                        const int *kept, float *raw, float *delta, float *loss, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n) return;
    int e = expert[t];
    float p = prob[t * NE + e], l = 0;
    for (int o = 0; o < OUT; ++o) {
        float a = 0;
        for (int i = 0; i < IN; ++i) a += w[(e * OUT + o) * IN + i] * x[t * IN + i];
        if (!kept[t]) a = 0;
        raw[t * OUT + o] = a;
        float d = p * a - y[t * OUT + o];
        delta[t * OUT + o] = d / n;
        l += 0.5f * d * d;
    }
    loss[t] = l;
}

__global__ void grad_experts(const float *x, const float *prob, const int *expert, const int *kept, const float *delta,
                             float *dw, int n)
{
    int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= NE * OUT * IN) return;
    int e = k / (OUT * IN), o = k / IN % OUT, i = k % IN;
    float a = 0;
    for (int t = 0; t < n; ++t)
        if (expert[t] == e && kept[t]) a += prob[t * NE + e] * delta[t * OUT + o] * x[t * IN + i];
    dw[k] = a;
}

__global__ void grad_gate(const float *x, const float *prob, const int *expert, const float *raw, const float *delta,
                          float *dgate, int n)
{
    int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= NE * IN) return;
    int j = k / IN, i = k % IN;
    float a = 0;
    for (int t = 0; t < n; ++t) {
        int e = expert[t];
        float s = 0;
        for (int o = 0; o < OUT; ++o) s += delta[t * OUT + o] * raw[t * OUT + o];
        a += s * prob[t * NE + e] * ((e == j ? 1.0f : 0.0f) - prob[t * NE + j]) * x[t * IN + i];
    }
    dgate[k] = a;
}

__global__ void sgd(float *w, const float *g, float rate, int n)
{
    int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k < n) w[k] -= rate * g[k];
}

template <typename T> T *device(size_t n) { T *p; CK(cudaMalloc(&p, n * sizeof(T))); CK(cudaMemset(p, 0, n * sizeof(T))); return p; }

int main(int argc, char **argv)
{
    Rng r(17);
    std::vector<float> hx(DATA * IN), hy(DATA * OUT), maps(NE * OUT * IN), hw(NE * OUT * IN), hg(NE * IN);
    for (auto &v : maps) v = r.normal() * 0.5f;
    for (int t = 0; t < DATA; ++t) {
        int c = (int)(r.uniform() * NE) % NE;
        if (r.uniform() < 0.3f) c = 0;
        for (int i = 0; i < IN; ++i) hx[t * IN + i] = r.normal() * 0.4f + (i % NE == c ? 1.0f : 0.0f);
        for (int o = 0; o < OUT; ++o) {
            float a = 0;
            for (int i = 0; i < IN; ++i) a += maps[(c * OUT + o) * IN + i] * hx[t * IN + i];
            hy[t * OUT + o] = a;
        }
    }
    for (auto &v : hw) v = r.normal() * 0.1f;
    for (int e = 0; e < NE; ++e) for (int i = 0; i < IN; ++i) hg[e * IN + i] = r.normal() * 0.05f + (i % NE == e ? 0.5f : 0.0f);

    float *x = device<float>(DATA * IN), *y = device<float>(DATA * OUT);
    float *w = device<float>(hw.size()), *dw = device<float>(hw.size());
    float *gate = device<float>(hg.size()), *dgate = device<float>(hg.size());
    float *prob = device<float>(BATCH * NE), *raw = device<float>(BATCH * OUT), *delta = device<float>(BATCH * OUT), *loss = device<float>(BATCH);
    int *expert = device<int>(BATCH), *kept = device<int>(BATCH);
    CK(cudaMemcpy(x, hx.data(), hx.size() * 4, cudaMemcpyHostToDevice));
    CK(cudaMemcpy(y, hy.data(), hy.size() * 4, cudaMemcpyHostToDevice));
    CK(cudaMemcpy(w, hw.data(), hw.size() * 4, cudaMemcpyHostToDevice));
    CK(cudaMemcpy(gate, hg.data(), hg.size() * 4, cudaMemcpyHostToDevice));
    DDP_PARAMETER(w, hw.size(), DDP_FLOAT32);
    DDP_PARAMETER(gate, hg.size(), DDP_FLOAT32);
    DDP_GRADIENT(dw, hw.size(), DDP_FLOAT32);
    DDP_GRADIENT(dgate, hg.size(), DDP_FLOAT32);

    for (int step = 0; step < STEPS; ++step) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        size_t base = (size_t)step * BATCH % DATA + first;
        const float *bx = x + base * IN, *by = y + base * OUT;
        int n = (int)count, capacity = n / NE + 1;
        route<<<1, 64>>>(bx, gate, prob, expert, n);
        dispatch<<<1, NE>>>(expert, kept, capacity, n);
        forward<<<1, 64>>>(bx, by, w, prob, expert, kept, raw, delta, loss, n);
        grad_experts<<<(NE * OUT * IN + 63) / 64, 64>>>(bx, prob, expert, kept, delta, dw, n);
        grad_gate<<<1, 64>>>(bx, prob, expert, raw, delta, dgate, n);
        DDP_STEP(0);
        sgd<<<(NE * OUT * IN + 63) / 64, 64>>>(w, dw, 0.3f, NE * OUT * IN);
        sgd<<<1, 64>>>(gate, dgate, 0.1f, NE * IN);
        if (step % 10 == 0 || step == STEPS - 1) {
            float hl[BATCH], sum = 0;
            CK(cudaMemcpy(hl, loss, count * 4, cudaMemcpyDeviceToHost));
            for (size_t t = 0; t < count; ++t) sum += hl[t] / count;
            DDP_MEAN(&sum);
            if (DDP_RANK() == 0) printf("step %d loss %.5f\n", step, sum);
        }
    }
    CK(cudaMemcpy(hw.data(), w, hw.size() * 4, cudaMemcpyDeviceToHost));
    CK(cudaMemcpy(hg.data(), gate, hg.size() * 4, cudaMemcpyDeviceToHost));
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *f = fopen(argv[1], "wb");
        fwrite(hw.data(), 4, hw.size(), f);
        fwrite(hg.data(), 4, hg.size(), f);
        fclose(f);
    }
    return 0;
}
