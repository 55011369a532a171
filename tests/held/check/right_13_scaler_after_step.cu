// Loss scaling with a search for infinities in the averaged gradient.
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <random>
#include <vector>
#include <cuda_runtime.h>
#include <ddprun.h>
static const int D = 10, B = 16, N = 160;

class Scaler {
    float scale_ = 1.5e38f;
    int good_ = 0;
public:
    float scale() const { return scale_; }
    bool update(const std::vector<float> &g)
    {
        for (float v : g)
            if (!std::isfinite(v)) { scale_ /= 64; good_ = 0; return false; }
        if (++good_ % 50 == 0) scale_ *= 2;
        return true;
    }
};

__global__ void backward(const float *x, const float *y, const float *w, float *g, float *l, float scale, int n)
{
    float s = 0, q = 0;
    for (int r = 0; r < n; r++) {
        float e = -y[r];
        for (int d = 0; d < D; d++) e += x[r * D + d] * w[d];
        s += scale / n * 2 * e * x[r * D + threadIdx.x];
        q += e * e / n;
    }
    g[threadIdx.x] = s;
    if (threadIdx.x == 0) *l = q;
}
__global__ void apply(float *w, const float *g, float lr, float inverse) { w[threadIdx.x] -= lr * (g[threadIdx.x] * inverse); }

int main(int argc, char **argv)
{
    int steps = argc > 1 ? atoi(argv[1]) : 60;
    std::mt19937 r(35);
    std::normal_distribution<float> nd;
    std::vector<float> x(N * D), y(N), hg(D);
    for (int i = 0; i < N; i++) for (int d = 0; d < D; d++) y[i] += (x[i * D + d] = nd(r)) * (d % 3 * 3 - 2);
    float *dx, *dy, *w, *g, *l;
    cudaMalloc(&dx, N * D * 4); cudaMalloc(&dy, N * 4); cudaMalloc(&w, D * 4); cudaMalloc(&g, D * 4); cudaMalloc(&l, 4);
    cudaMemcpy(dx, x.data(), N * D * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(dy, y.data(), N * 4, cudaMemcpyHostToDevice);
    cudaMemset(w, 0, D * 4);
    DDP_PARAMETER(w, D, DDP_FLOAT32);
    DDP_GRADIENT(g, D, DDP_FLOAT32);
    Scaler scaler;
    for (int s = 0; s < steps; s++) {
        size_t first, n;
        DDP_SHARD(B, &first, &n);
        size_t at = s * B % N + first;
        float scale = scaler.scale();
        backward<<<1, D>>>(dx + at * D, dy + at, w, g, l, scale, (int)n);
        DDP_STEP(0);
        cudaMemcpy(hg.data(), g, D * 4, cudaMemcpyDeviceToHost);
        if (scaler.update(hg)) apply<<<1, D>>>(w, g, 0.05f, 1 / scale);
        if (s % 10 == 0) {
            float h;
            cudaMemcpy(&h, l, 4, cudaMemcpyDeviceToHost);
            DDP_MEAN(&h);
            if (!DDP_RANK()) printf("step %d scale %g loss %.4f\n", s, scale, h);
        }
    }
}
