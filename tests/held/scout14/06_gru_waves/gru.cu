// A gated recurrent unit that tells four kinds of waves apart. One block runs one sequence from start to end, forward and
// back in time; thread j is hidden unit j.
#include <cuda_runtime.h>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <random>
#include <vector>

enum { T = 12, H = 16, KINDS = 4, SEQUENCES = 300, BATCH = 30, EPOCHS = 8 };

#define TRY(e) do { cudaError_t r_ = (e); if (r_) { printf("%s at line %d\n", cudaGetErrorString(r_), __LINE__); exit(1); } } while (0)

struct GruParams {
    float *wx;  // [3][H]: update, reset, candidate
    float *uh;  // [3][H][H]
    float *b;   // [3][H]
    float *out; // [KINDS][H]
    float *ob;  // [KINDS]
};
static const int kSizes[5] = {3 * H, 3 * H * H, 3 * H, KINDS * H, KINDS};

struct Trace { float h[H], z[H], r[H], n[H], q[H]; };

__device__ float dot(const float *a, const float *b) {
    float s = 0;
    for (int k = 0; k < H; ++k) s += a[k] * b[k];
    return s;
}

__global__ void train_sequences(GruParams p, GruParams g, const float *waves, const int *kind, const int *pick, Trace *traces,
                                float *loss, int *hits, float scale) {
    __shared__ float h[H], az[H], ar[H], an[H], prob[KINDS];
    const int j = threadIdx.x, id = pick[blockIdx.x];
    const float *x = waves + id * T;
    Trace *tr = traces + blockIdx.x * T;
    h[j] = 0;
    __syncthreads();
    for (int t = 0; t < T; ++t) {
        float q = dot(p.uh + 2 * H * H + j * H, h);
        float z = 1 / (1 + expf(-(p.wx[j] * x[t] + p.b[j] + dot(p.uh + j * H, h))));
        float r = 1 / (1 + expf(-(p.wx[H + j] * x[t] + p.b[H + j] + dot(p.uh + H * H + j * H, h))));
        float n = tanhf(p.wx[2 * H + j] * x[t] + p.b[2 * H + j] + r * q);
        tr[t].h[j] = h[j]; tr[t].z[j] = z; tr[t].r[j] = r; tr[t].n[j] = n; tr[t].q[j] = q;
        __syncthreads();
        h[j] = (1 - z) * n + z * h[j];
        __syncthreads();
    }
    if (j < KINDS) prob[j] = expf(dot(p.out + j * H, h) + p.ob[j]);
    __syncthreads();
    if (j == 0) {
        float s = 0;
        int best = 0;
        for (int k = 0; k < KINDS; ++k) {
            s += prob[k];
            if (prob[k] > prob[best]) best = k;
        }
        atomicAdd(loss, (logf(s) - logf(prob[kind[id]])) * scale);
        if (best == kind[id]) atomicAdd(hits, 1);
        for (int k = 0; k < KINDS; ++k) prob[k] = (prob[k] / s - (k == kind[id])) * scale;
    }
    __syncthreads();
    float dh = 0;
    for (int k = 0; k < KINDS; ++k) {
        dh += prob[k] * p.out[k * H + j];
        atomicAdd(&g.out[k * H + j], prob[k] * h[j]);
    }
    if (j < KINDS) atomicAdd(&g.ob[j], prob[j]);
    for (int t = T - 1; t >= 0; --t) {
        const Trace &s = tr[t];
        const float z = s.z[j], r = s.r[j], n = s.n[j];
        const float da = dh * (1 - z) * (1 - n * n);
        __syncthreads();
        an[j] = da * r;
        ar[j] = da * s.q[j] * r * (1 - r);
        az[j] = dh * (s.h[j] - n) * z * (1 - z);
        __syncthreads();
        atomicAdd(&g.wx[j], az[j] * x[t]);
        atomicAdd(&g.wx[H + j], ar[j] * x[t]);
        atomicAdd(&g.wx[2 * H + j], da * x[t]);
        atomicAdd(&g.b[j], az[j]);
        atomicAdd(&g.b[H + j], ar[j]);
        atomicAdd(&g.b[2 * H + j], da);
        dh *= z;
        for (int k = 0; k < H; ++k) {
            atomicAdd(&g.uh[k * H + j], az[k] * s.h[j]);
            atomicAdd(&g.uh[H * H + k * H + j], ar[k] * s.h[j]);
            atomicAdd(&g.uh[2 * H * H + k * H + j], an[k] * s.h[j]);
            dh += az[k] * p.uh[k * H + j] + ar[k] * p.uh[H * H + k * H + j] + an[k] * p.uh[2 * H * H + k * H + j];
        }
    }
}

__global__ void momentum_step(float *w, float *g, float *v, int n, float lr) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float c = fminf(fmaxf(g[i], -0.5f), 0.5f);
    v[i] = 0.9f * v[i] + c;
    w[i] -= lr * v[i];
    g[i] = 0;
}

static GruParams make_params(std::mt19937 *rng) {
    GruParams p;
    float **field[5] = {&p.wx, &p.uh, &p.b, &p.out, &p.ob};
    for (int f = 0; f < 5; ++f) {
        std::vector<float> host(kSizes[f], 0.f);
        if (rng && (f == 0 || f == 1 || f == 3))
            for (float &v : host) v = std::normal_distribution<float>(0.f, f == 0 ? 0.5f : 0.2f)(*rng);
        TRY(cudaMalloc(field[f], host.size() * sizeof(float)));
        TRY(cudaMemcpy(*field[f], host.data(), host.size() * sizeof(float), cudaMemcpyHostToDevice));
    }
    return p;
}

int main() {
    std::mt19937 rng(2);
    std::vector<float> waves(SEQUENCES * T);
    std::vector<int> kind(SEQUENCES), order(SEQUENCES);
    std::normal_distribution<float> noise(0.f, 0.15f);
    for (int s = 0; s < SEQUENCES; ++s) {
        kind[s] = s % KINDS;
        float phase = rng() % 100 / 100.f;
        for (int t = 0; t < T; ++t) {
            float u = t / 6.f + phase, f = u - floorf(u);
            float v[KINDS] = {sinf(6.2832f * u), f < 0.5f ? 1.f : -1.f, 2 * f - 1, sinf(12.5664f * u)};
            waves[s * T + t] = v[kind[s]] + noise(rng);
        }
    }
    std::iota(order.begin(), order.end(), 0);

    GruParams p = make_params(&rng), g = make_params(nullptr), v = make_params(nullptr);
    float *d_waves, *d_loss;
    int *d_kind, *d_order, *d_hits;
    Trace *d_trace;
    TRY(cudaMalloc(&d_waves, waves.size() * sizeof(float)));
    TRY(cudaMalloc(&d_kind, SEQUENCES * sizeof(int)));
    TRY(cudaMalloc(&d_order, SEQUENCES * sizeof(int)));
    TRY(cudaMalloc(&d_trace, BATCH * T * sizeof(Trace)));
    TRY(cudaMalloc(&d_loss, sizeof(float)));
    TRY(cudaMalloc(&d_hits, sizeof(int)));
    TRY(cudaMemcpy(d_waves, waves.data(), waves.size() * sizeof(float), cudaMemcpyHostToDevice));
    TRY(cudaMemcpy(d_kind, kind.data(), SEQUENCES * sizeof(int), cudaMemcpyHostToDevice));

    for (int epoch = 0; epoch < EPOCHS; ++epoch) {
        std::shuffle(order.begin(), order.end(), rng);
        TRY(cudaMemcpy(d_order, order.data(), SEQUENCES * sizeof(int), cudaMemcpyHostToDevice));
        TRY(cudaMemset(d_loss, 0, sizeof(float)));
        TRY(cudaMemset(d_hits, 0, sizeof(int)));
        const int batches = SEQUENCES / BATCH;
        for (int k = 0; k < batches; ++k) {
            train_sequences<<<BATCH, H>>>(p, g, d_waves, d_kind, d_order + k * BATCH, d_trace, d_loss, d_hits, 1.f / BATCH);
            float *w[] = {p.wx, p.uh, p.b, p.out, p.ob}, *d[] = {g.wx, g.uh, g.b, g.out, g.ob}, *m[] = {v.wx, v.uh, v.b, v.out, v.ob};
            for (int f = 0; f < 5; ++f) momentum_step<<<(kSizes[f] + 255) / 256, 256>>>(w[f], d[f], m[f], kSizes[f], 0.1f);
        }
        float loss;
        int hits;
        TRY(cudaMemcpy(&loss, d_loss, sizeof loss, cudaMemcpyDeviceToHost));
        TRY(cudaMemcpy(&hits, d_hits, sizeof hits, cudaMemcpyDeviceToHost));
        printf("epoch %d loss %.4f right %d of %d\n", epoch, loss / batches, hits, SEQUENCES);
    }
    return 0;
}
