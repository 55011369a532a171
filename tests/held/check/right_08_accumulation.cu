// Gradient accumulation over four micro-batches; each of them is divided among the
// processes, and the gradient is averaged once.
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>
#include <cuda_runtime.h>
#include <ddprun.h>

const int D = 10, MICRO = 12, ACC = 4, N = 480;

__global__ void add_gradient(const float *x, const float *y, const float *w, float *g, float *loss, int n)
{
    float s = 0, l = 0;
    for (int r = 0; r < n; r++) {
        float z = w[D];
        for (int d = 0; d < D; d++) z += w[d] * x[r * D + d];
        float e = tanhf(z) - y[r];
        s += 2 * e * (1 - tanhf(z) * tanhf(z)) * (threadIdx.x < D ? x[r * D + threadIdx.x] : 1);
        l += e * e;
    }
    g[threadIdx.x] += s / (n * ACC);
    if (threadIdx.x == 0) *loss += l / (n * ACC);
}

__global__ void adamw(float *w, const float *g, float *m, float *v, int t)
{
    int i = threadIdx.x;
    m[i] = 0.9f * m[i] + 0.1f * g[i];
    v[i] = 0.99f * v[i] + 0.01f * g[i] * g[i];
    w[i] -= 0.05f * (m[i] / (1 - powf(0.9f, t)) / (sqrtf(v[i] / (1 - powf(0.99f, t))) + 1e-6f) + 0.001f * w[i]);
}

int main(int argc, char **argv)
{
    int steps = argc > 1 ? atoi(argv[1]) : 50;
    std::mt19937 rng(14);
    std::normal_distribution<float> nd;
    std::vector<float> x(N * D), y(N);
    for (int i = 0; i < N; i++) {
        float z = 0.2f;
        for (int d = 0; d < D; d++) z += (x[i * D + d] = nd(rng)) * (d - 4) * 0.2f;
        y[i] = tanhf(z);
    }
    float *dx, *dy, *w, *g, *m, *v, *loss;
    cudaMalloc(&dx, N * D * 4); cudaMalloc(&dy, N * 4);
    for (float **p : {&w, &g, &m, &v, &loss}) { cudaMalloc(p, (D + 1) * 4); cudaMemset(*p, 0, (D + 1) * 4); }
    cudaMemcpy(dx, x.data(), N * D * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(dy, y.data(), N * 4, cudaMemcpyHostToDevice);
    DDP_PARAMETER(w, D + 1, DDP_FLOAT32);
    DDP_STATE(m, D + 1, DDP_FLOAT32);
    DDP_STATE(v, D + 1, DDP_FLOAT32);
    DDP_GRADIENT(g, D + 1, DDP_FLOAT32);
    for (int s = 1; s <= steps; s++) {
        cudaMemset(g, 0, (D + 1) * 4);
        cudaMemset(loss, 0, 4);
        for (int a = 0; a < ACC; a++) {
            size_t first, n;
            DDP_SHARD(MICRO, &first, &n);
            size_t at = (s * ACC + a) * MICRO % N + first;
            add_gradient<<<1, D + 1>>>(dx + at * D, dy + at, w, g, loss, (int)n);
        }
        DDP_STEP(0);
        adamw<<<1, D + 1>>>(w, g, m, v, s);
        if (s % 10 == 0) {
            float l;
            cudaMemcpy(&l, loss, 4, cudaMemcpyDeviceToHost);
            DDP_MEAN(&l);
            if (DDP_RANK() == 0) printf("step %d loss %.5f\n", s, l);
        }
    }
    return 0;
}
