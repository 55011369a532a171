// Small convolution-like filter learning: find the 1-d kernel that maps signals
// to their filtered version. The kernels take the index of the first signal.
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>
#include <cuda_runtime.h>
#include <ddprun.h>

struct Trainer {
    static constexpr int L = 32, K = 7, B = 16, N = 256;
    float *x, *y, *w, *g, *err, *losses;
    std::vector<float> host_loss;

    Trainer();
    void batch(int step);
    float loss(int n);
};

__global__ void conv_error(const float *x, const float *y, const float *w, float *err, int first, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * Trainer::L) return;
    const float *xs = x + (first + i / Trainer::L) * Trainer::L;
    float s = 0;
    for (int k = 0; k < Trainer::K; ++k) {
        int t = i % Trainer::L + k - Trainer::K / 2;
        if (t >= 0 && t < Trainer::L) s += xs[t] * w[k];
    }
    err[i] = s - y[first * Trainer::L + i];
}

__global__ void conv_grad(const float *x, const float *err, float *g, int first, int n)
{
    int k = threadIdx.x;
    float s = 0;
    for (int i = 0; i < n * Trainer::L; ++i) {
        int t = i % Trainer::L + k - Trainer::K / 2;
        if (t >= 0 && t < Trainer::L) s += err[i] * x[(first + i / Trainer::L) * Trainer::L + t];
    }
    g[k] = 2 * s / (n * Trainer::L);
}

__global__ void apply(float *w, const float *g, float lr) { w[threadIdx.x] -= lr * g[threadIdx.x]; }

Trainer::Trainer()
{
    std::mt19937 r(8);
    std::normal_distribution<float> nd;
    std::vector<float> hx((N + B) * L), hy((N + B) * L), f = {0.1f, -0.3f, 0.5f, 1.0f, 0.4f, -0.2f, 0.05f}, w0(K, 0.f);
    for (auto &v : hx) v = nd(r);
    for (int i = 0; i < (N + B) * L; ++i) {
        hy[i] = 0.3f * nd(r);
        for (int k = 0; k < K; ++k) {
            int t = i % L + k - K / 2;
            if (t >= 0 && t < L) hy[i] += f[k] * hx[i / L * L + t];
        }
    }
    cudaMalloc(&x, hx.size() * 4); cudaMalloc(&y, hy.size() * 4);
    cudaMalloc(&w, K * 4); cudaMalloc(&g, K * 4); cudaMalloc(&err, B * L * 4);
    cudaMemcpy(x, hx.data(), hx.size() * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(y, hy.data(), hy.size() * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(w, w0.data(), K * 4, cudaMemcpyHostToDevice);
    DDP_PARAMETER(w, K, DDP_FLOAT32);
    DDP_GRADIENT(g, K, DDP_FLOAT32);
}

float Trainer::loss(int n)
{
    host_loss.resize(n * L);
    cudaMemcpy(host_loss.data(), err, n * L * 4, cudaMemcpyDeviceToHost);
    float s = 0;
    for (float e : host_loss) s += e * e;
    return s / (n * L);
}

void Trainer::batch(int step)
{
    size_t first, n;
    DDP_SHARD(B, &first, &n);
    size_t start = (size_t)step * B % N + first;
    const float *bx = x + start * L, *by = y + start * L;
    conv_error<<<8, 64>>>(bx, by, w, err, (int)first, (int)n);
    conv_grad<<<1, K>>>(bx, err, g, (int)first, (int)n);
    DDP_STEP(0);
    apply<<<1, K>>>(w, g, 0.05f);
    if (step % 10 == 0) {
        float l = loss((int)n);
        DDP_MEAN(&l);
        if (DDP_RANK() == 0) printf("step %d loss %f\n", step, l);
    }
}

int main(int argc, char **argv)
{
    Trainer t;
    int steps = argc > 1 ? atoi(argv[1]) : 51;
    for (int s = 0; s < steps; ++s) t.batch(s);
    cudaDeviceSynchronize();
    return 0;
}
