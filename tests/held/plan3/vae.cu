// vae.cu - a variational autoencoder for 6x6 pictures of bars.  Everything on the device lies in
// ONE arena; the layout below is the only place that knows where.  The noise comes from a counter-
// based generator on the device, so that a picture's noise depends on (batch, element) alone.
#include <cuda_runtime.h>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

namespace at {                                   // offsets in floats
constexpr int X = 36, H = 20, Z = 4, B = 10, IMAGES = 150;
// parameters (one group, contiguous)
constexpr int W1 = 0, b1 = W1 + X * H, Wm = b1 + H, bm = Wm + H * Z, Ws = bm + Z, bs = Ws + H * Z,
              W3 = bs + Z, b3 = W3 + Z * H, W4 = b3 + H, b4 = W4 + H * X, PARAMS = b4 + X;
// the same layout again for gradients and for the running squares
constexpr int grad = (PARAMS + 63) / 64 * 64, square = 2 * grad;
constexpr int loss = grad + PARAMS;              // two sums, cleared with the gradients
static_assert(loss + 2 <= square, "the losses lie in the gap after the gradients");
// activations
constexpr int h = square + grad, mu = h + B * H, ls = mu + B * Z, eps = ls + B * Z, z = eps + B * Z,
              k = z + B * Z, dx = k + B * H, dk = dx + B * X, dz = dk + B * H, dls = dz + B * Z,
              dh = dls + B * Z, pick = dh + B * H, images = pick + B, END = images + IMAGES * X;
}  // namespace at

#define CUDA_OK(call) if (cudaError_t err = (call)) { std::fprintf(stderr, "line %d: %s\n", __LINE__, cudaGetErrorString(err)); std::exit(2); }

__device__ uint32_t mix(uint32_t x) {
    x ^= x >> 16; x *= 0x7feb352du; x ^= x >> 15; x *= 0x846ca68bu; return x ^ (x >> 16);
}
// Box-Muller from two hashed counters
__global__ void draw_noise(float *A, uint32_t seed, uint32_t batch) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= at::B * at::Z) return;
    uint32_t a = mix(seed ^ mix(batch * 0x9e3779b9u + i)), b = mix(a + 0x85ebca6bu);
    float u = (a + 1.0f) / 4294967808.0f, v = b / 4294967296.0f;
    A[at::eps + i] = sqrtf(-2 * logf(u)) * cospif(2 * v);
}

// One block per picture, one thread per unit of the layer at hand.
__global__ void encode(float *A) {
    using namespace at;
    int b = blockIdx.x, j = threadIdx.x;
    const float *x = A + images + (int)A[pick + b] * X;
    __shared__ float sh[H];
    if (j < H) {
        float s = A[b1 + j];
        for (int i = 0; i < X; ++i) s += x[i] * A[W1 + i * H + j];
        sh[j] = tanhf(s); A[h + b * H + j] = sh[j];
    }
    __syncthreads();
    if (j < Z) {
        float m = A[bm + j], s = A[bs + j];
        for (int i = 0; i < H; ++i) { m += sh[i] * A[Wm + i * Z + j]; s += sh[i] * A[Ws + i * Z + j]; }
        int o = b * Z + j;
        A[mu + o] = m; A[ls + o] = s; A[z + o] = m + expf(s) * A[eps + o];
        atomicAdd(A + loss + 1, 0.5f * (m * m + expf(2 * s) - 1 - 2 * s) / B);
    }
}
__global__ void decode(float *A) {
    using namespace at;
    int b = blockIdx.x, j = threadIdx.x;
    const float *x = A + images + (int)A[pick + b] * X;
    __shared__ float sk[H];
    if (j < H) {
        float s = A[b3 + j];
        for (int i = 0; i < Z; ++i) s += A[z + b * Z + i] * A[W3 + i * H + j];
        sk[j] = tanhf(s); A[k + b * H + j] = sk[j];
    }
    __syncthreads();
    if (j < X) {
        float s = A[b4 + j];
        for (int i = 0; i < H; ++i) s += sk[i] * A[W4 + i * X + j];
        atomicAdd(A + loss, (fmaxf(s, 0) - s * x[j] + log1pf(expf(-fabsf(s)))) / B);
        A[dx + b * X + j] = (1 / (1 + expf(-s)) - x[j]) / B;
    }
}
__global__ void backward(float *A, float beta) {
    using namespace at;
    int b = blockIdx.x, j = threadIdx.x;
    if (j < H) {
        float s = 0, v = A[k + b * H + j];
        for (int i = 0; i < X; ++i) s += A[dx + b * X + i] * A[W4 + j * X + i];
        A[dk + b * H + j] = s * (1 - v * v);
    }
    __syncthreads();
    if (j < Z) {
        int o = b * Z + j;
        float s = 0;
        for (int i = 0; i < H; ++i) s += A[dk + b * H + i] * A[W3 + j * H + i];
        float e = expf(A[ls + o]);
        A[dls + o] = s * e * A[eps + o] + beta * (e * e - 1) / B;
        A[dz + o] = s + beta * A[mu + o] / B;              // from here on the gradient of mu
    }
    __syncthreads();
    if (j < H) {
        float s = 0, v = A[h + b * H + j];
        for (int i = 0; i < Z; ++i) s += A[dz + b * Z + i] * A[Wm + j * Z + i] + A[dls + b * Z + i] * A[Ws + j * Z + i];
        A[dh + b * H + j] = s * (1 - v * v);
    }
}
// grad[W] += in^T out ; grad[b] += sum out.  Picture by picture, so the additions are atomic.
__global__ void outer(float *A) {
    using namespace at;
    int b = blockIdx.x;
    float *g = A + grad;
    const float *x = A + images + (int)A[pick + b] * X;
    for (int i = threadIdx.x; i < PARAMS; i += blockDim.x) {
        float v;
        if (i < b1)      v = x[i / H] * A[dh + b * H + i % H];
        else if (i < Wm) v = A[dh + b * H + i - b1];
        else if (i < bm) v = A[h + b * H + (i - Wm) / Z] * A[dz + b * Z + (i - Wm) % Z];
        else if (i < Ws) v = A[dz + b * Z + i - bm];
        else if (i < bs) v = A[h + b * H + (i - Ws) / Z] * A[dls + b * Z + (i - Ws) % Z];
        else if (i < W3) v = A[dls + b * Z + i - bs];
        else if (i < b3) v = A[z + b * Z + (i - W3) / H] * A[dk + b * H + (i - W3) % H];
        else if (i < W4) v = A[dk + b * H + i - b3];
        else if (i < b4) v = A[k + b * H + (i - W4) / X] * A[dx + b * X + (i - W4) % X];
        else             v = A[dx + b * X + i - b4];
        atomicAdd(g + i, v);
    }
}
__global__ void rmsprop(float *A, float rate) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= at::PARAMS) return;
    float g = A[at::grad + i], s = 0.9f * A[at::square + i] + 0.1f * g * g;
    A[at::square + i] = s;
    A[i] -= rate * g / (sqrtf(s) + 1e-3f);
}

// the oracle's own few lines: keep a sum outside the arena, put its mean in the gradients' place
struct Oracle {
    int R = 0, have = 0;
    std::vector<double> sum = std::vector<double>(at::PARAMS, 0.0);
    bool ready(float *A) {
        std::vector<float> g(at::PARAMS);
        CUDA_OK(cudaMemcpy(g.data(), A + at::grad, g.size() * 4, cudaMemcpyDeviceToHost));
        for (size_t i = 0; i < g.size(); ++i) sum[i] += g[i];
        if (++have < R) return false;
        for (size_t i = 0; i < g.size(); ++i) { g[i] = (float)(sum[i] / R); sum[i] = 0; }
        CUDA_OK(cudaMemcpy(A + at::grad, g.data(), g.size() * 4, cudaMemcpyHostToDevice));
        have = 0;
        return true;
    }
};

int main(int argc, char **argv) {
    const char *save = nullptr; Oracle oracle; int epochs = 9;
    for (int i = 1; i < argc - 1; ++i) {
        if (!std::strcmp(argv[i], "--save")) save = argv[++i];
        else if (!std::strcmp(argv[i], "--oracle")) oracle.R = std::atoi(argv[++i]);
        else if (!std::strcmp(argv[i], "--epochs")) epochs = std::atoi(argv[++i]);
    }
    std::mt19937 rng(2024);
    std::vector<float> start(at::END, 0.f);
    std::uniform_real_distribution<float> uni(-1, 1);
    auto fill = [&](int from, int n, int fan) { for (int i = 0; i < n; ++i) start[from + i] = uni(rng) / std::sqrt((float)fan); };
    fill(at::W1, at::X * at::H, at::X); fill(at::Wm, at::H * at::Z, at::H); fill(at::Ws, at::H * at::Z, 4 * at::H);
    fill(at::W3, at::Z * at::H, at::Z); fill(at::W4, at::H * at::X, at::H);
    for (int n = 0; n < at::IMAGES; ++n) {
        float *img = &start[at::images + n * at::X];
        int row = rng() % 6, col = rng() % 6, kind = rng() % 3;
        for (int p = 0; p < at::X; ++p) img[p] = (kind != 1 && p / 6 == row) || (kind != 0 && p % 6 == col) || rng() % 40 == 0;
    }
    float *A;
    CUDA_OK(cudaMalloc(&A, at::END * sizeof(float)));
    CUDA_OK(cudaMemcpy(A, start.data(), at::END * sizeof(float), cudaMemcpyHostToDevice));

    std::vector<int> order(at::IMAGES);
    std::iota(order.begin(), order.end(), 0);
    uint32_t batch = 0;
    for (int e = 0; e < epochs; ++e) {
        for (int i = at::IMAGES - 1; i > 0; --i) std::swap(order[i], order[rng() % (i + 1)]);
        float l[2];
        for (int first = 0; first < at::IMAGES; first += at::B, ++batch) {
            float idx[at::B];
            for (int i = 0; i < at::B; ++i) idx[i] = (float)order[first + i];
            CUDA_OK(cudaMemcpy(A + at::pick, idx, sizeof idx, cudaMemcpyHostToDevice));
            CUDA_OK(cudaMemsetAsync(A + at::grad, 0, (at::PARAMS + 2) * sizeof(float)));
            draw_noise<<<1, 64>>>(A, 77u, batch);
            encode<<<at::B, 32>>>(A);
            decode<<<at::B, 64>>>(A);
            backward<<<at::B, 32>>>(A, 0.5f);
            outer<<<at::B, 128>>>(A);
            if (batch % 10 == 9) {
                CUDA_OK(cudaMemcpy(l, A + at::loss, sizeof l, cudaMemcpyDeviceToHost));
                std::printf("epoch %d batch %3u  reconstruction %7.3f  kl %6.3f\n", e, batch + 1, l[0], l[1]);
            }
            if (oracle.R && !oracle.ready(A)) continue;
            rmsprop<<<(at::PARAMS + 127) / 128, 128>>>(A, 0.008f);
        }
    }
    CUDA_OK(cudaMemcpy(start.data(), A, at::PARAMS * sizeof(float), cudaMemcpyDeviceToHost));
    if (save) {
        FILE *f = std::fopen(save, "w");
        for (int i = 0; i < at::PARAMS; ++i) std::fprintf(f, "%.9g\n", start[i]);
        std::fclose(f);
    }
    cudaFree(A);
    return 0;
}
