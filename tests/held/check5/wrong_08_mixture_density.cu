// A mixture density network: three Gaussians over a target with several branches. RMSprop.
#include <cmath>
#include <cstdio>
#include <vector>
#include <cuda_runtime.h>
#include <ddprun.h>

constexpr int H = 12, M = 3, OUT = 3 * M, P = H + H + H * OUT + OUT, BATCH = 64, DATA = 768, STEPS = 120;
constexpr int B1 = H, W2 = 2 * H, B2 = 2 * H + H * OUT;

static unsigned state = 2463534242u;
static float frand()
{
    state ^= state << 13, state ^= state >> 17, state ^= state << 5;
    return (state >> 8) / 16777216.f;
}

__global__ void mdn(const float *x, const float *y, const float *p, float *rows, float *nll, float inv)
{
    int n = blockIdx.x;
    float h[H], o[OUT], d[OUT], *g = rows + n * P, pi[M], pdf[M], z = 0, like = 0;
    for (int j = 0; j < H; ++j)
        h[j] = tanhf(x[n] * p[j] + p[B1 + j]);
    for (int k = 0; k < OUT; ++k) {
        o[k] = p[B2 + k];
        for (int j = 0; j < H; ++j)
            o[k] += h[j] * p[W2 + j * OUT + k];
    }
    for (int m = 0; m < M; ++m)
        z += pi[m] = expf(o[m]);
    for (int m = 0; m < M; ++m) {
        pi[m] /= z;
        float s = expf(o[2 * M + m]) + .05f, u = (y[n] - o[M + m]) / s;
        pdf[m] = pi[m] * expf(-.5f * u * u) / s;
        like += pdf[m];
    }
    like += 1e-20f;
    nll[n] = -logf(like);
    for (int m = 0; m < M; ++m) {
        float r = pdf[m] / like, e = expf(o[2 * M + m]), s = e + .05f, u = (y[n] - o[M + m]) / s;
        d[m] = (pi[m] - r) * inv;
        d[M + m] = -r * u / s * inv;
        d[2 * M + m] = -r * (u * u - 1) / s * e * inv;
    }
    for (int k = 0; k < OUT; ++k)
        g[B2 + k] = d[k];
    for (int j = 0; j < H; ++j) {
        float dh = 0;
        for (int k = 0; k < OUT; ++k) {
            g[W2 + j * OUT + k] = h[j] * d[k];
            dh += p[W2 + j * OUT + k] * d[k];
        }
        dh *= 1 - h[j] * h[j];
        g[j] = dh * x[n];
        g[B1 + j] = dh;
    }
}

__global__ void sum_rows(const float *rows, float *g, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float s = 0;
    for (int n = 0; i < P && n < count; ++n)
        s += rows[n * P + i];
    if (i < P)
        g[i] = s;
}

__global__ void accumulate_square(float *v, const float *g, float rho)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < P)
        v[i] = rho * v[i] + (1 - rho) * g[i] * g[i];
}

__global__ void rmsprop(float *p, const float *g, const float *v, float rate)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < P)
        p[i] -= rate * g[i] / (sqrtf(v[i]) + 1e-2f);
}

int main()
{
    std::vector<float> x(DATA), y(DATA), p(P), l(BATCH);
    for (int n = 0; n < DATA; ++n) {
        float t = frand();
        x[n] = 2 * (t + .3f * std::sin(6.283f * t)) - 1 + .1f * (frand() - .5f);
        y[n] = 2 * t - 1;
    }
    for (auto &v : p)
        v = 1.6f * (frand() - .5f);
    float *dx, *dy, *dp, *g, *v, *rows, *nll;
    const size_t f = sizeof(float), grid = (P + 63) / 64;
    cudaMalloc(&dx, DATA * f);
    cudaMalloc(&dy, DATA * f);
    cudaMalloc(&dp, P * f);
    cudaMalloc(&g, P * f);
    cudaMalloc(&v, P * f);
    cudaMalloc(&rows, BATCH * P * f);
    cudaMalloc(&nll, BATCH * f);
    cudaMemset(v, 0, P * f);
    cudaMemcpy(dx, x.data(), DATA * f, cudaMemcpyHostToDevice);
    cudaMemcpy(dy, y.data(), DATA * f, cudaMemcpyHostToDevice);
    cudaMemcpy(dp, p.data(), P * f, cudaMemcpyHostToDevice);
    DDP_PARAMETER(dp, P, DDP_FLOAT32);
    DDP_STATE(v, P, DDP_FLOAT32);
    DDP_GRADIENT(g, P, DDP_FLOAT32);
    for (int step = 0; step < STEPS; ++step) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        size_t at = step % (DATA / BATCH) * BATCH + first;
        mdn<<<count, 1>>>(dx + at, dy + at, dp, rows, nll, 1.f / count);
        sum_rows<<<grid, 64>>>(rows, g, count);
        accumulate_square<<<grid, 64>>>(v, g, .95f);
        DDP_REDUCE(v, P, DDP_FLOAT32, DDP_OP_MEAN, 0); // the same on all ranks
        DDP_STEP(0);
        rmsprop<<<grid, 64>>>(dp, g, v, .01f);
        if (step % 20 == 0 || step == STEPS - 1) {
            cudaMemcpy(l.data(), nll, count * f, cudaMemcpyDeviceToHost);
            float mean = 0;
            for (size_t i = 0; i < count; ++i)
                mean += l[i] / count;
            DDP_MEAN(&mean);
            if (DDP_RANK() == 0)
                printf("step %3d nll %.7g\n", step, mean);
        }
    }
    return 0;
}
