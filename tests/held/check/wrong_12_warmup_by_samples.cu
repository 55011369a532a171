// Multi-class perceptron on sparse-ish inputs; learning rate warms up over the
// first 1000 samples and decays afterwards.
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <random>
#include <vector>
#include <cuda_runtime.h>
#include <ddprun.h>

constexpr int D = 20, C = 5, B = 32, N = 640;
constexpr float BASE_LR = 1.0f, WARM = 1000.0f;

__global__ void forward_backward(const float *x, const int *y, const float *w, float *dlogit, float *loss, int n)
{
    int r = threadIdx.x;
    if (r >= n) return;
    float p[C], z = 0;
    for (int c = 0; c < C; ++c) {
        float s = 0;
        for (int d = 0; d < D; ++d) s += x[r * D + d] * w[d * C + c];
        z += p[c] = expf(s);
    }
    loss[r] = -logf(p[y[r]] / z);
    for (int c = 0; c < C; ++c) dlogit[r * C + c] = p[c] / z - (c == y[r]);
}

__global__ void collect(const float *x, const float *dlogit, float *g, int n)
{
    float s = 0;
    for (int r = 0; r < n; ++r) s += x[r * D + blockIdx.x] * dlogit[r * C + threadIdx.x];
    g[blockIdx.x * C + threadIdx.x] = s / n;
}

__global__ void momentum_sgd(float *w, float *m, const float *g, float lr)
{
    int i = blockIdx.x * C + threadIdx.x;
    m[i] = 0.8f * m[i] + g[i];
    w[i] -= lr * m[i];
}

static float schedule(long seen)
{
    return seen < WARM ? BASE_LR * seen / WARM : BASE_LR * sqrtf(WARM / seen);
}

int main(int argc, char **argv)
{
    int steps = argc > 1 ? atoi(argv[1]) : 60;
    std::mt19937 g(31);
    std::uniform_real_distribution<float> u(0, 1);
    std::vector<float> x(N * D);
    std::vector<int> y(N);
    for (int i = 0; i < N; ++i) {
        y[i] = g() % C;
        for (int d = 0; d < D; ++d) x[i * D + d] = u(g) < (d % C == y[i] ? 0.7f : 0.3f) ? u(g) : 0;
    }
    float *dx, *w, *m, *dw, *dl, *loss;
    int *dy;
    cudaMalloc(&dx, N * D * 4); cudaMalloc(&dy, N * 4); cudaMalloc(&w, D * C * 4); cudaMalloc(&m, D * C * 4);
    cudaMalloc(&dw, D * C * 4); cudaMalloc(&dl, B * C * 4); cudaMalloc(&loss, B * 4);
    cudaMemcpy(dx, x.data(), N * D * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(dy, y.data(), N * 4, cudaMemcpyHostToDevice);
    cudaMemset(w, 0, D * C * 4);
    cudaMemset(m, 0, D * C * 4);
    DDP_PARAMETER(w, D * C, DDP_FLOAT32);
    DDP_STATE(m, D * C, DDP_FLOAT32);
    DDP_GRADIENT(dw, D * C, DDP_FLOAT32);
    long seen = 0;
    for (int s = 0; s < steps; ++s) {
        size_t first, count;
        DDP_SHARD(B, &first, &count);
        size_t at = s * B % N + first;
        forward_backward<<<1, B>>>(dx + at * D, dy + at, w, dl, loss, (int)count);
        collect<<<D, C>>>(dx + at * D, dl, dw, (int)count);
        DDP_STEP(0);
        seen += count;
        momentum_sgd<<<D, C>>>(w, m, dw, schedule(seen));
        if (s % 10 == 9) {
            float l[B], a = 0;
            cudaMemcpy(l, loss, count * 4, cudaMemcpyDeviceToHost);
            for (size_t i = 0; i < count; ++i) a += l[i] / count;
            DDP_MEAN(&a);
            if (DDP_RANK() == 0) printf("step %2d lr %.3f loss %.4f\n", s + 1, schedule(seen), a);
        }
    }
    return 0;
}
