// A tiny GAN in one dimension per feature: the generator shifts noise, a linear
// discriminator with a squared penalty tells it from data. Two optimizers.
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>
#include <cuda_runtime.h>
#include <ddprun.h>
#define F 6
#define B 32
#define N 320

// critic: score(v) = sum c v; maximises real - fake - |c|^2 / 2. Also leaves a part in
// the generator's gradient, which the generator's backward overwrites.
__global__ void critic_backward(const float *real, const float *noise, const float *shift, const float *c, float *gc, float *gs, int n)
{
    int f = threadIdx.x;
    float a = 0;
    for (int r = 0; r < n; r++) a += real[r * F + f] - (noise[r * F + f] + shift[f]);
    gc[f] = -(a / n - c[f]);
    gs[f] = c[f];
}
__global__ void generator_backward(const float *noise, const float *c, const float *shift, float *gs, int n)
{
    float s = 0;
    for (int r = 0; r < n; r++) s -= c[threadIdx.x];
    gs[threadIdx.x] = s / n;
}
__global__ void sgd(float *w, const float *g, float lr) { w[threadIdx.x] -= lr * g[threadIdx.x]; }

int main(int argc, char **argv)
{
    int steps = argc > 1 ? atoi(argv[1]) : 60;
    std::mt19937 r(53);
    std::normal_distribution<float> nd;
    std::vector<float> real(N * F), noise(N * F);
    for (int i = 0; i < N * F; i++) { real[i] = nd(r) * 0.5f + i % F - 2; noise[i] = nd(r) * 0.5f; }
    float *dr, *dn, *shift, *c, *gs, *gc;
    cudaMalloc(&dr, N * F * 4); cudaMalloc(&dn, N * F * 4);
    for (float **p : {&shift, &c, &gs, &gc}) { cudaMalloc(p, F * 4); cudaMemset(*p, 0, F * 4); }
    cudaMemcpy(dr, real.data(), N * F * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(dn, noise.data(), N * F * 4, cudaMemcpyHostToDevice);
    DDP_PARAMETER(c, F, DDP_FLOAT32);
    DDP_PARAMETER(shift, F, DDP_FLOAT32);
    DDP_GRADIENT_GROUP(0);
    DDP_GRADIENT(gc, F, DDP_FLOAT32);
    DDP_GRADIENT_GROUP(1);
    DDP_GRADIENT(gs, F, DDP_FLOAT32);
    for (int s = 0; s < steps; s++) {
        size_t first, n;
        DDP_SHARD(B, &first, &n);
        size_t at = (s * B % N + first) * F;
        critic_backward<<<1, F>>>(dr + at, dn + at, shift, c, gc, gs, (int)n);
        DDP_STEP_GROUP(0, 0);
        sgd<<<1, F>>>(c, gc, 0.5f);
        generator_backward<<<1, F>>>(dn + at, c, shift, gs, (int)n);
        DDP_STEP_GROUP(1, 0);
        sgd<<<1, F>>>(shift, gs, 0.2f);
        if (s % 10 == 0) {
            float h[F], l = 0;
            cudaMemcpy(h, c, sizeof h, cudaMemcpyDeviceToHost);
            for (float v : h) l += v * v / 2;
            if (DDP_RANK() == 0) printf("step %d critic loss %.5f\n", s, l);
        }
    }
    return 0;
}
