// Weighted loss with samples that are switched off; the divisor is the number of
// active samples of the whole batch, which the host sums over all processes.
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>
#include <cuda_runtime.h>
#include <ddprun.h>

struct Batch { const float *x, *y; const unsigned char *on; int n; };
constexpr int D = 9, SIZE = 28, ALL = 280;

__global__ void masked_grad(Batch b, const float *w, float *g, float *loss, float scale)
{
    float s = 0, l = 0;
    for (int r = 0; r < b.n; ++r) {
        if (!b.on[r]) continue;
        float e = -b.y[r];
        for (int d = 0; d < D; ++d) e += w[d] * b.x[r * D + d];
        s += 2 * e * b.x[r * D + threadIdx.x];
        l += e * e;
    }
    g[threadIdx.x] = s * scale;
    if (threadIdx.x == 0) *loss = l * scale;
}

__global__ void sgd(float *w, const float *g) { w[threadIdx.x] -= 0.1f * g[threadIdx.x]; }

int main(int argc, char **argv)
{
    int steps = argc > 1 ? atoi(argv[1]) : 50;
    std::mt19937 r(66);
    std::normal_distribution<float> nd;
    std::vector<float> x(ALL * D), y(ALL);
    std::vector<unsigned char> on(ALL);
    for (int i = 0; i < ALL; ++i) {
        on[i] = r() % 3 != 0;
        if (!on[i]) y[i] = 100;
        for (int d = 0; d < D; ++d) y[i] += (x[i * D + d] = nd(r)) * (4 - d) * 0.5f;
    }
    float *dx, *dy, *w, *g, *loss;
    unsigned char *don;
    cudaMalloc(&dx, ALL * D * 4); cudaMalloc(&dy, ALL * 4); cudaMalloc(&don, ALL);
    cudaMalloc(&w, D * 4); cudaMalloc(&g, D * 4); cudaMalloc(&loss, 4);
    cudaMemcpy(dx, x.data(), ALL * D * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(dy, y.data(), ALL * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(don, on.data(), ALL, cudaMemcpyHostToDevice);
    cudaMemset(w, 0, D * 4);
    DDP_PARAMETER(w, D, DDP_FLOAT32);
    DDP_GRADIENT(g, D, DDP_FLOAT32);
    for (int s = 0; s < steps; ++s) {
        size_t first, n;
        DDP_SHARD(SIZE, &first, &n);
        size_t at = s * SIZE % ALL + first;
        int active = 0;
        for (size_t i = 0; i < n; ++i) active += on[at + i];
        DDP_REDUCE(&active, 1, DDP_INT32, DDP_OP_SUM, 0);
        // the mean over the ranks divides by their number once more
        float scale = (float)DDP_WORLD_SIZE() / active;
        masked_grad<<<1, D>>>(Batch{dx + at * D, dy + at, don + at, (int)n}, w, g, loss, scale);
        DDP_STEP(0);
        sgd<<<1, D>>>(w, g);
        if (s % 10 == 0) {
            float l;
            cudaMemcpy(&l, loss, 4, cudaMemcpyDeviceToHost);
            DDP_MEAN(&l);
            if (DDP_RANK() == 0) printf("step %d loss %.4f\n", s, l);
        }
    }
    return 0;
}
