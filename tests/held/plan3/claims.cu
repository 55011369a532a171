// claims.cu - an insurer's two questions of one customer record: how many claims (Poisson head)
// and how large the sum that is exceeded only once in five times (80 % quantile head, pinball loss).
// The heads are weighted by learned uncertainties s0, s1:  L = e^-s0 L0 + s0/2 + e^-s1 L1 + s1/2.
// Two fused kernels only: one makes all a record's deltas, the other turns them into gradients.
// Every update gathers two micro-batches; the Lion kernel clears the gradients it has used.
#include <cuda_runtime.h>
#include <cassert>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

struct Dim { static const int in = 14, h1 = 18, h2 = 8, micro = 12, accumulate = 2; };
enum Group { TRUNK_W, TRUNK_B, MID_W, MID_B, POIS_W, POIS_B, QUANT_W, QUANT_B, UNCERTAIN, GROUPS };
static const int group_size[GROUPS] = {Dim::in * Dim::h1, Dim::h1, Dim::h1 * Dim::h2, Dim::h2, Dim::h2, 1, Dim::h2, 1, 2};

// passed to the kernels by value
struct View {
    float *w[GROUPS], *g[GROUPS];
    const float *x, *count, *cost;
    float *act1, *act2, *del1, *del2, *out, *losses;      // per record of the micro-batch
};

__device__ inline float dot(const float *a, const float *b, int n, int stride) {
    float s = 0;
    for (int i = 0; i < n; ++i) s = fmaf(a[i], b[i * stride], s);
    return s;
}

// one record per block, 32 threads: forward, both heads, backward to the trunk
__global__ void fused_record(View v, float scale) {
    const int r = blockIdx.x, t = threadIdx.x;
    __shared__ float x[Dim::in], a[Dim::h1], b[Dim::h2], db[Dim::h2], dp, dq;
    if (t < Dim::in) x[t] = v.x[r * Dim::in + t];
    __syncthreads();
    if (t < Dim::h1) {
        float s = v.w[TRUNK_B][t] + dot(x, v.w[TRUNK_W] + t, Dim::in, Dim::h1);
        a[t] = s > 0 ? s : 0.1f * s;
    }
    __syncthreads();
    if (t < Dim::h2) b[t] = tanhf(v.w[MID_B][t] + dot(a, v.w[MID_W] + t, Dim::h1, Dim::h2));
    __syncthreads();
    if (t == 0) {
        float eta = v.w[POIS_B][0] + dot(b, v.w[POIS_W], Dim::h2, 1), q = v.w[QUANT_B][0] + dot(b, v.w[QUANT_W], Dim::h2, 1);
        float e = v.cost[r] - q, tau = 0.8f;
        float l0 = expf(eta) - v.count[r] * eta, l1 = e >= 0 ? tau * e : (tau - 1) * e;
        float k0 = expf(-v.w[UNCERTAIN][0]), k1 = expf(-v.w[UNCERTAIN][1]);
        dp = scale * k0 * (expf(eta) - v.count[r]);
        dq = scale * k1 * (e >= 0 ? -tau : 1 - tau);
        v.out[2 * r] = dp; v.out[2 * r + 1] = dq;
        v.losses[2 * r] = l0; v.losses[2 * r + 1] = l1;
    }
    __syncthreads();
    if (t < Dim::h2) {
        db[t] = (dp * v.w[POIS_W][t] + dq * v.w[QUANT_W][t]) * (1 - b[t] * b[t]);
        v.del2[r * Dim::h2 + t] = db[t];
        v.act2[r * Dim::h2 + t] = b[t];
    }
    __syncthreads();
    if (t < Dim::h1) {
        float s = dot(db, v.w[MID_W] + t * Dim::h2, Dim::h2, 1);
        v.del1[r * Dim::h1 + t] = a[t] > 0 ? s : 0.1f * s;
        v.act1[r * Dim::h1 + t] = a[t];
    }
}

// one thread per parameter; blockIdx.y names the group; ADDS to the gradients
__global__ void fused_gradients(View v, float scale) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    float s = 0;
    for (int r = 0; r < Dim::micro; ++r)
        switch (blockIdx.y) {
        case TRUNK_W: if (i < Dim::in * Dim::h1) s += v.x[r * Dim::in + i / Dim::h1] * v.del1[r * Dim::h1 + i % Dim::h1]; break;
        case TRUNK_B: if (i < Dim::h1) s += v.del1[r * Dim::h1 + i]; break;
        case MID_W: if (i < Dim::h1 * Dim::h2) s += v.act1[r * Dim::h1 + i / Dim::h2] * v.del2[r * Dim::h2 + i % Dim::h2]; break;
        case MID_B: if (i < Dim::h2) s += v.del2[r * Dim::h2 + i]; break;
        case POIS_W: if (i < Dim::h2) s += v.act2[r * Dim::h2 + i] * v.out[2 * r]; break;
        case QUANT_W: if (i < Dim::h2) s += v.act2[r * Dim::h2 + i] * v.out[2 * r + 1]; break;
        case POIS_B: if (i < 1) s += v.out[2 * r]; break;
        case QUANT_B: if (i < 1) s += v.out[2 * r + 1]; break;
        case UNCERTAIN: if (i < 2) s += scale * (0.5f - expf(-v.w[UNCERTAIN][i]) * v.losses[2 * r + i]); break;
        }
    const int sizes[GROUPS] = {Dim::in * Dim::h1, Dim::h1, Dim::h1 * Dim::h2, Dim::h2, Dim::h2, 1, Dim::h2, 1, 2};
    if (i < sizes[blockIdx.y]) v.g[blockIdx.y][i] += s;
}

__global__ void lion(float *w, float *g, float *m, int n, float rate, float decay) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float c = 0.9f * m[i] + 0.1f * g[i];
    w[i] -= rate * ((c > 0) - (c < 0) + decay * w[i]);
    m[i] = 0.98f * m[i] + 0.02f * g[i];
    g[i] = 0;
}

// --oracle: take this update's gradients away into a sum / bring the sum's mean back
__global__ void take(float *sum, float *g, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) { sum[i] += g[i]; g[i] = 0; } }
__global__ void bring(float *sum, float *g, int n, int r) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) { g[i] = sum[i] / r; sum[i] = 0; } }

namespace {
uint64_t state = 0x1234567890abcdefull;
double uniform() {                                        // xorshift64*
    state ^= state >> 12; state ^= state << 25; state ^= state >> 27;
    return (state * 2685821657736338717ull >> 11) / 9007199254740992.0;
}
double normal() { return std::sqrt(-2 * std::log(uniform() + 1e-300)) * std::cos(6.283185307179586 * uniform()); }

void must(cudaError_t e) { if (e) { std::fprintf(stderr, "CUDA: %s\n", cudaGetErrorString(e)); std::abort(); } }
template <class T> T *room(size_t n) { void *p; must(cudaMalloc(&p, n * sizeof(T))); must(cudaMemset(p, 0, n * sizeof(T))); return static_cast<T *>(p); }

struct Records { std::vector<float> x, count, cost; };
Records invent(int n) {
    Records r;
    for (int k = 0; k < n; ++k) {
        double s = 0.2, t = 1;
        for (int i = 0; i < Dim::in; ++i) {
            double v = i < 10 ? normal() : uniform() < 0.3;
            r.x.push_back((float)v);
            s += 0.25 * v * ((i % 3) - 1); t += 0.3 * v * ((i % 4) - 1.5);
        }
        double limit = std::exp(-std::exp(std::fmin(s, 1.6))), p = uniform(); int c = 0;
        while (p > limit && c < 12) { p *= uniform(); ++c; }
        r.count.push_back((float)c);
        r.cost.push_back((float)(std::fabs(t) + 0.6 * std::fabs(t) * normal()));
    }
    return r;
}
}  // namespace

int main(int argc, char **argv) {
    const char *save = 0; int oracle = 0, updates = 90;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--save")) save = argv[++i];
        else if (!strcmp(argv[i], "--oracle")) oracle = atoi(argv[++i]);
        else if (!strcmp(argv[i], "--updates")) updates = atoi(argv[++i]);
        else { fprintf(stderr, "usage: %s [--updates N] [--save FILE] [--oracle R]\n", argv[0]); return 2; }
    }
    View v; float *moment[GROUPS], *sum[GROUPS];
    for (int k = 0; k < GROUPS; ++k) {
        v.w[k] = room<float>(group_size[k]); v.g[k] = room<float>(group_size[k]);
        moment[k] = room<float>(group_size[k]); sum[k] = room<float>(group_size[k]);
        std::vector<float> init(group_size[k], 0.f);
        float spread = k == TRUNK_W ? 0.35f : k == MID_W ? 0.3f : k == POIS_W || k == QUANT_W ? 0.3f : 0.f;
        for (float &f : init) if (spread > 0) f = (float)(spread * normal());
        must(cudaMemcpy(v.w[k], init.data(), init.size() * sizeof(float), cudaMemcpyHostToDevice));
    }
    float *x = room<float>(Dim::micro * Dim::in), *count = room<float>(Dim::micro), *cost = room<float>(Dim::micro);
    v.x = x; v.count = count; v.cost = cost;
    v.act1 = room<float>(Dim::micro * Dim::h1); v.del1 = room<float>(Dim::micro * Dim::h1);
    v.act2 = room<float>(Dim::micro * Dim::h2); v.del2 = room<float>(Dim::micro * Dim::h2);
    v.out = room<float>(Dim::micro * 2); v.losses = room<float>(Dim::micro * 2);

    const float scale = 1.f / (Dim::micro * Dim::accumulate);
    double shown[2] = {0, 0};
    for (int u = 0; u < updates; ++u) {
        for (int part = 0; part < Dim::accumulate; ++part) {
            Records r = invent(Dim::micro);
            must(cudaMemcpy(x, r.x.data(), r.x.size() * sizeof(float), cudaMemcpyHostToDevice));
            must(cudaMemcpy(count, r.count.data(), r.count.size() * sizeof(float), cudaMemcpyHostToDevice));
            must(cudaMemcpy(cost, r.cost.data(), r.cost.size() * sizeof(float), cudaMemcpyHostToDevice));
            fused_record<<<Dim::micro, 32>>>(v, scale);
            fused_gradients<<<dim3((Dim::in * Dim::h1 + 63) / 64, GROUPS), 64>>>(v, scale);
            float l[Dim::micro * 2];
            must(cudaMemcpy(l, v.losses, sizeof l, cudaMemcpyDeviceToHost));
            for (int i = 0; i < Dim::micro * 2; ++i) shown[i & 1] += l[i] * scale / 10;
        }
        if (u % 10 == 9) {
            printf("update %3d  poisson %.4f  quantile %.4f\n", u + 1, shown[0], shown[1]);
            shown[0] = shown[1] = 0;
        }
        if (oracle) {
            for (int k = 0; k < GROUPS; ++k) take<<<(group_size[k] + 63) / 64, 64>>>(sum[k], v.g[k], group_size[k]);
            if ((u + 1) % oracle) continue;
            for (int k = 0; k < GROUPS; ++k) bring<<<(group_size[k] + 63) / 64, 64>>>(sum[k], v.g[k], group_size[k], oracle);
        }
        for (int k = 0; k < GROUPS; ++k)
            lion<<<(group_size[k] + 63) / 64, 64>>>(v.w[k], v.g[k], moment[k], group_size[k], 0.006f, k == UNCERTAIN ? 0.f : 0.05f);
    }
    must(cudaDeviceSynchronize());
    if (save) {
        FILE *f = fopen(save, "w");
        assert(f);
        for (int k = 0; k < GROUPS; ++k) {
            std::vector<float> w(group_size[k]);
            must(cudaMemcpy(w.data(), v.w[k], w.size() * sizeof(float), cudaMemcpyDeviceToHost));
            for (float y : w) fprintf(f, "%.9g\n", y);
        }
        fclose(f);
    }
    return 0;
}
