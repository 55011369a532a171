// Poisson regression with a small network: predicts counts (bike rentals an hour) from weather and time. RMSprop.
#include <cuda_runtime.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "ddprun.h"

#define REQUIRE(x)                                                                              \
    do {                                                                                        \
        if ((x) != cudaSuccess) {                                                               \
            std::fprintf(stderr, "%s failed at %s:%d\n", #x, __FILE__, __LINE__);               \
            std::exit(1);                                                                       \
        }                                                                                       \
    } while (0)

constexpr int kFeatures = 7, kWidth = 24, kRows = 768, kBatch = 64, kSteps = 60;
constexpr float kDecay = 0.9f, kRate = 0.02f;

struct ParamBlock {
    float *w = nullptr, *g = nullptr, *sq = nullptr;
    int n = 0;
};

static unsigned g_seed = 0xC0FFEEu;
static float uniform(float lo, float hi)
{
    g_seed ^= g_seed << 13;
    g_seed ^= g_seed >> 17;
    g_seed ^= g_seed << 5;
    return lo + (hi - lo) * ((g_seed >> 8) / 16777216.0f);
}

static ParamBlock make_block(int n, float spread)
{
    ParamBlock b;
    b.n = n;
    std::vector<float> init(n);
    for (float &v : init)
        v = uniform(-spread, spread);
    REQUIRE(cudaMalloc(&b.w, n * sizeof(float)));
    REQUIRE(cudaMalloc(&b.g, n * sizeof(float)));
    REQUIRE(cudaMalloc(&b.sq, n * sizeof(float)));
    REQUIRE(cudaMemcpy(b.w, init.data(), n * sizeof(float), cudaMemcpyHostToDevice));
    REQUIRE(cudaMemset(b.g, 0, n * sizeof(float)));
    REQUIRE(cudaMemset(b.sq, 0, n * sizeof(float)));
    DDP_PARAMETER(b.w, n, DDP_FLOAT32);
    DDP_GRADIENT(b.g, n, DDP_FLOAT32);
    return b;
}

__global__ void layer(const float *x, const float *w, const float *b, float *y, int rows, int in, int out, bool relu)
{
    int o = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y;
    if (o >= out || r >= rows)
        return;
    float s = b[o];
    for (int k = 0; k < in; ++k)
        s += x[r * in + k] * w[k * out + o];
    y[r * out + o] = relu ? fmaxf(s, 0.0f) : s;
}

// Negative log likelihood of the counts, without the constant: exp(f) - y f
__global__ void poisson(const float *f, const float *y, float *df, float *nll, int rows)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows)
        return;
    float rate = expf(fminf(f[r], 6.0f));
    nll[r] = rate - y[r] * f[r];
    df[r] = (rate - y[r]) / rows;
}

__global__ void layer_grads(const float *x, const float *dy, float *gw, float *gb, int rows, int in, int out)
{
    int o = blockIdx.x * blockDim.x + threadIdx.x, k = blockIdx.y;
    if (o >= out)
        return;
    float s = 0.0f;
    for (int r = 0; r < rows; ++r)
        s += (k < in ? x[r * in + k] : 1.0f) * dy[r * out + o];
    if (k < in)
        gw[k * out + o] = s;
    else
        gb[o] = s;
}

__global__ void layer_input(const float *dy, const float *w, const float *x, float *dx, int rows, int in, int out)
{
    int k = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y;
    if (k >= in || r >= rows)
        return;
    float s = 0.0f;
    for (int o = 0; o < out; ++o)
        s += dy[r * out + o] * w[k * out + o];
    dx[r * in + k] = x[r * in + k] > 0.0f ? s : 0.0f;
}

__global__ void track_squares(float *sq, const float *g, int n, float decay)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        sq[i] = decay * sq[i] + (1.0f - decay) * g[i] * g[i];
}

__global__ void rms_update(float *w, const float *g, const float *sq, int n, float rate, float unbias)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        w[i] -= rate * g[i] / (sqrtf(sq[i] / unbias) + 2e-2f);
}

int main(int argc, char **argv)
{
    std::vector<float> x(kRows * kFeatures), y(kRows);
    for (int r = 0; r < kRows; ++r) {
        float *f = &x[r * kFeatures];
        float hour = uniform(0, 24), temp = uniform(-1, 1), rain = uniform(0, 1) < 0.25f ? 1.0f : 0.0f, wind = uniform(0, 1);
        float row[kFeatures] = {std::sin(hour * 0.2618f), std::cos(hour * 0.2618f), std::sin(hour * 0.5236f), temp, rain, wind,
                                temp * temp};
        for (int k = 0; k < kFeatures; ++k)
            f[k] = row[k];
        float mean = std::exp(0.9f - 0.8f * f[1] + 0.5f * f[2] + 0.7f * temp - 0.9f * rain - 0.4f * f[6]);
        // a Poisson draw by multiplication
        float limit = std::exp(-mean), prod = uniform(0, 1);
        int k = 0;
        while (prod > limit && k < 40) {
            prod *= uniform(0, 1);
            ++k;
        }
        y[r] = (float)k;
    }
    float *dx, *dy, *h1, *h2, *f, *df, *d2, *d1, *nll;
    REQUIRE(cudaMalloc(&dx, x.size() * sizeof(float)));
    REQUIRE(cudaMalloc(&dy, y.size() * sizeof(float)));
    REQUIRE(cudaMemcpy(dx, x.data(), x.size() * sizeof(float), cudaMemcpyHostToDevice));
    REQUIRE(cudaMemcpy(dy, y.data(), y.size() * sizeof(float), cudaMemcpyHostToDevice));
    for (float **p : {&h1, &h2, &d1, &d2})
        REQUIRE(cudaMalloc(p, kBatch * kWidth * sizeof(float)));
    for (float **p : {&f, &df, &nll})
        REQUIRE(cudaMalloc(p, kBatch * sizeof(float)));

    std::array<ParamBlock, 6> p = {make_block(kFeatures * kWidth, 0.6f), make_block(kWidth, 0.1f),
                                   make_block(kWidth * kWidth, 0.35f),   make_block(kWidth, 0.1f),
                                   make_block(kWidth, 0.2f),             make_block(1, 0.0f)};
    float unbias = 1.0f;
    for (int step = 0; step < kSteps; ++step) {
        size_t first, count;
        DDP_SHARD(kBatch, &first, &count);
        const int n = (int)count;
        const size_t at = step * kBatch % kRows + first;
        const float *xb = dx + at * kFeatures, *yb = dy + at;
        const dim3 wide(1, n), in_rows(1, kFeatures + 1), mid_rows(1, kWidth + 1);

        layer<<<wide, 32>>>(xb, p[0].w, p[1].w, h1, n, kFeatures, kWidth, true);
        layer<<<wide, 32>>>(h1, p[2].w, p[3].w, h2, n, kWidth, kWidth, true);
        layer<<<wide, 32>>>(h2, p[4].w, p[5].w, f, n, kWidth, 1, false);
        poisson<<<(n + 31) / 32, 32>>>(f, yb, df, nll, n);
        layer_grads<<<mid_rows, 32>>>(h2, df, p[4].g, p[5].g, n, kWidth, 1);
        layer_input<<<wide, 32>>>(df, p[4].w, h2, d2, n, kWidth, 1);
        layer_grads<<<mid_rows, 32>>>(h1, d2, p[2].g, p[3].g, n, kWidth, kWidth);
        layer_input<<<wide, 32>>>(d2, p[2].w, h1, d1, n, kWidth, kWidth);
        layer_grads<<<in_rows, 32>>>(xb, d1, p[0].g, p[1].g, n, kFeatures, kWidth);
        for (ParamBlock &b : p)
            track_squares<<<(b.n + 63) / 64, 64>>>(b.sq, b.g, b.n, kDecay);

        DDP_STEP(0);
        unbias = 1.0f - std::pow(kDecay, (float)(step + 1));
        for (ParamBlock &b : p)
            rms_update<<<(b.n + 63) / 64, 64>>>(b.w, b.g, b.sq, b.n, kRate, unbias);

        if (step % 12 == 0 || step + 1 == kSteps) {
            std::vector<float> host(n);
            REQUIRE(cudaMemcpy(host.data(), nll, n * sizeof(float), cudaMemcpyDeviceToHost));
            float mean = 0.0f;
            for (float v : host)
                mean += v / n;
            DDP_MEAN_AS("nll", &mean);
            if (DDP_RANK() == 0)
                std::printf("step %2d nll %.4f\n", step, mean);
        }
    }
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *out = std::fopen(argv[1], "wb");
        for (ParamBlock &b : p) {
            std::vector<float> host(b.n);
            REQUIRE(cudaMemcpy(host.data(), b.w, b.n * sizeof(float), cudaMemcpyDeviceToHost));
            std::fwrite(host.data(), sizeof(float), b.n, out);
        }
        std::fclose(out);
    }
    return 0;
}
