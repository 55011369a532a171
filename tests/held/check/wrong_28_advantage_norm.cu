// Policy gradient for a continuous action (one-dimensional target reaching).
// Advantages are standardised before they weight the log-probability gradient.
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <cuda_runtime.h>
#include <curand_kernel.h>
#include <ddprun.h>

#define S 6
#define B 64
#define SIGMA 0.3f

// the noise of an episode depends on its number only
__global__ void play(const float *w, float *state, float *noise, float *ret, long episode, int n)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= n) return;
    curandStatePhilox4_32_10_t g;
    curand_init(1234ULL, episode + r, 0, &g);
    float mean = 0, goal = 0;
    for (int i = 0; i < S; i++) {
        float v = curand_normal(&g);
        state[r * S + i] = v;
        mean += w[i] * v;
        goal += (i % 2 ? 0.5f : -0.5f) * v;
    }
    noise[r] = curand_normal(&g);
    float miss = mean + SIGMA * noise[r] - goal;
    ret[r] = -miss * miss;
}

__global__ void standardise(const float *ret, float *adv, int n)
{
    float m = 0, v = 0;
    for (int r = 0; r < n; r++) m += ret[r] / n;
    for (int r = 0; r < n; r++) v += (ret[r] - m) * (ret[r] - m) / n;
    for (int r = threadIdx.x; r < n; r += blockDim.x) adv[r] = (ret[r] - m) / (sqrtf(v) + 1e-5f);
}

__global__ void policy_gradient(const float *state, const float *noise, const float *adv, float *g, int n)
{
    float s = 0;
    for (int r = 0; r < n; r++) s -= adv[r] * noise[r] / SIGMA * state[r * S + threadIdx.x];
    g[threadIdx.x] = s / n;
}

__global__ void ascend(float *w, const float *g, float lr) { w[threadIdx.x] -= lr * g[threadIdx.x]; }

int main(int argc, char **argv)
{
    int steps = argc > 1 ? atoi(argv[1]) : 120;
    float *w, *g, *state, *noise, *ret, *adv;
    cudaMalloc(&w, S * 4); cudaMalloc(&g, S * 4); cudaMalloc(&state, B * S * 4);
    cudaMalloc(&noise, B * 4); cudaMalloc(&ret, B * 4); cudaMalloc(&adv, B * 4);
    cudaMemset(w, 0, S * 4);
    DDP_PARAMETER(w, S, DDP_FLOAT32);
    DDP_GRADIENT(g, S, DDP_FLOAT32);
    for (int s = 0; s < steps; s++) {
        size_t first, n;
        DDP_SHARD(B, &first, &n);
        play<<<2, 32>>>(w, state, noise, ret, (long)s * B + first, (int)n);
        standardise<<<1, 32>>>(ret, adv, (int)n);
        policy_gradient<<<1, S>>>(state, noise, adv, g, (int)n);
        DDP_STEP(0);
        ascend<<<1, S>>>(w, g, 0.01f);
        if (s % 20 == 19) {
            std::vector<float> h(n);
            cudaMemcpy(h.data(), ret, n * 4, cudaMemcpyDeviceToHost);
            float loss = 0;
            for (float v : h) loss -= v / n;
            DDP_MEAN(&loss);
            if (DDP_RANK() == 0) printf("update %d mean loss %.4f\n", s + 1, loss);
        }
    }
    return 0;
}
