// The gradient buffer is never zeroed: it holds the velocity. Backward computes
// velocity = 0.9 velocity + gradient in place.
#include <cuda_runtime.h>
#include <ddprun.h>
#include <cstdio>
#include <cstdlib>

constexpr int P = 17, M = 20, TOTAL = 200;
__managed__ float xs[TOTAL][P];
__managed__ int label[TOTAL];
__device__ float weights[P], velocity[P], losses[M];

__global__ void start() { weights[threadIdx.x] = velocity[threadIdx.x] = 0; }

__global__ void accumulate(float *vel, const float *w, float *loss, size_t at, int n)
{
    int p = threadIdx.x;
    float s = 0;
    for (int r = 0; r < n; ++r) {
        float z = 0, t = label[at + r] ? 1.f : -1.f;
        for (int k = 0; k < P; ++k) z += xs[at + r][k] * w[k];
        s -= t / (1 + expf(t * z)) * xs[at + r][p];
        if (p == 0) loss[r] = logf(1 + expf(-t * z));
    }
    vel[p] = 0.9f * vel[p] + s / n;
}

__global__ void move(float *w, const float *vel) { w[threadIdx.x] -= 0.05f * vel[threadIdx.x]; }

int main(int argc, char **argv)
{
    int steps = argc > 1 ? atoi(argv[1]) : 60;
    unsigned q = 11;
    for (int i = 0; i < TOTAL; ++i) {
        float z = 0;
        for (int k = 0; k < P; ++k) {
            q = q * 69069u + 1;
            xs[i][k] = (q >> 8) / 8388608.0f - 1;
            z += xs[i][k] * (k % 3 - 1);
        }
        label[i] = z > 0;
    }
    float *w, *v, *l;
    cudaGetSymbolAddress((void **)&w, weights);
    cudaGetSymbolAddress((void **)&v, velocity);
    cudaGetSymbolAddress((void **)&l, losses);
    start<<<1, P>>>();
    cudaDeviceSynchronize();
    DDP_PARAMETER(w, P, DDP_FLOAT32);
    DDP_GRADIENT(v, P, DDP_FLOAT32);
    for (int s = 0; s < steps; ++s) {
        size_t first, n;
        DDP_SHARD(M, &first, &n);
        accumulate<<<1, P>>>(v, w, l, s * M % TOTAL + first, (int)n);
        DDP_STEP(0);
        move<<<1, P>>>(w, v);
        if (s % 10 == 0) {
            float h[M], m = 0;
            cudaMemcpy(h, l, n * sizeof(float), cudaMemcpyDeviceToHost);
            for (size_t i = 0; i < n; ++i) m += h[i] / n;
            DDP_MEAN(&m);
            if (DDP_RANK() == 0) printf("step %d loss %.4f\n", s, m);
        }
    }
    cudaDeviceSynchronize();
    return 0;
}
