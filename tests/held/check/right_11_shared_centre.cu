// Center loss: embeddings are pulled to a moving centre of all items; the centre is
// shared by all processes.
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
#include <ddprun.h>
enum { D = 8, E = 4, B = 20, N = 200 };

__global__ void embed(const float *x, const float *w, float *z)
{
    float s = 0;
    for (int d = 0; d < D; d++) s += x[blockIdx.x * D + d] * w[d * E + threadIdx.x];
    z[blockIdx.x * E + threadIdx.x] = s;
}
__global__ void batch_mean(const float *z, float *mean, int n)
{
    float s = 0;
    for (int r = 0; r < n; r++) s += z[r * E + threadIdx.x];
    mean[threadIdx.x] = s / n;
}
// first code dimension predicts y, the others are pulled to the centre
__global__ void gradient(const float *x, const float *y, const float *z, const float *centre, float *g, float *loss, int n)
{
    int e = threadIdx.x;
    float s = 0, l = 0;
    for (int r = 0; r < n; r++) {
        float diff = e == 0 ? z[r * E] - y[r] : 0.3f * (z[r * E + e] - centre[e]);
        s += 2 * diff * x[r * D + blockIdx.x];
        l += diff * diff;
    }
    g[blockIdx.x * E + e] = s / n;
    if (blockIdx.x == 0) loss[e] = l / n;
}
__global__ void update(float *w, const float *g) { int i = blockIdx.x * E + threadIdx.x; w[i] -= 0.1f * g[i]; }
__global__ void move_centre(float *centre, const float *mean) { centre[threadIdx.x] += 0.2f * (mean[threadIdx.x] - centre[threadIdx.x]); }

int main(int argc, char **argv)
{
    int steps = argc > 1 ? atoi(argv[1]) : 50;
    float hx[N * D], hy[N], hw[D * E], *x, *y, *w, *g, *z, *mean, *centre, *loss;
    srand(31);
    for (int i = 0; i < N; i++) {
        for (int d = 0; d < D; d++) hx[i * D + d] = rand() % 1000 / 500.f - 0.8f;
        hy[i] = hx[i * D] - 2 * hx[i * D + 5];
    }
    for (float &v : hw) v = rand() % 1000 / 1000.f - 0.5f;
    cudaMalloc(&x, sizeof hx); cudaMalloc(&y, sizeof hy); cudaMalloc(&w, sizeof hw); cudaMalloc(&g, sizeof hw);
    cudaMalloc(&z, B * E * 4); cudaMalloc(&mean, E * 4); cudaMalloc(&centre, E * 4); cudaMalloc(&loss, E * 4);
    cudaMemcpy(x, hx, sizeof hx, cudaMemcpyHostToDevice);
    cudaMemcpy(y, hy, sizeof hy, cudaMemcpyHostToDevice);
    cudaMemcpy(w, hw, sizeof hw, cudaMemcpyHostToDevice);
    cudaMemset(centre, 0, E * 4);
    DDP_PARAMETER(w, D * E, DDP_FLOAT32);
    DDP_STATE(centre, E, DDP_FLOAT32);
    DDP_GRADIENT(g, D * E, DDP_FLOAT32);
    for (int s = 0; s < steps; s++) {
        size_t first, n;
        DDP_SHARD(B, &first, &n);
        size_t at = s * B % N + first;
        embed<<<n, E>>>(x + at * D, w, z);
        batch_mean<<<1, E>>>(z, mean, n);
        DDP_REDUCE(mean, E, DDP_FLOAT32, DDP_OP_MEAN, 0);
        gradient<<<D, E>>>(x + at * D, y + at, z, centre, g, loss, n);
        move_centre<<<1, E>>>(centre, mean);
        DDP_STEP(0);
        update<<<D, E>>>(w, g);
        if (s % 10 == 0 || s == steps - 1) {
            float h[E];
            cudaMemcpy(h, loss, sizeof h, cudaMemcpyDeviceToHost);
            float l = h[0] + h[1] + h[2] + h[3];
            DDP_MEAN(&l);
            if (DDP_RANK() == 0) printf("step %d loss %.4f\n", s, l);
        }
    }
    return 0;
}
