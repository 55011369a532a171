// Fits a curve by 64 Gaussian bumps on a line; the heights are trained by Adam on batches of samples of the curve.
#include <ddprun.h>
#include <cuda_runtime.h>
#include <cstdio>
#include <cstdlib>
#include <cmath>

#define BUMPS 64
#define THREADS 32
#define WIDTH 40.0f

struct Adam { float *m, *v; float rate, b1, b2; int t; };

struct Fit {
    float *height, *dheight;
    float *phi;      // [samples][BUMPS]
    float *error;    // [samples]
    float *squares;  // [samples]
};

static float *zeros(size_t n)
{
    float *p;
    if (cudaMalloc(&p, n * sizeof *p) != cudaSuccess || cudaMemset(p, 0, n * sizeof *p) != cudaSuccess) {
        fputs("bumps: out of device memory\n", stderr);
        exit(2);
    }
    return p;
}

__global__ void activations(float *phi, const float *x, int samples)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < samples)
        for (int b = 0; b < BUMPS; ++b) {
            float d = x[i] - (b + 0.5f) / BUMPS;
            phi[i * BUMPS + b] = expf(-WIDTH * BUMPS * d * d);
        }
}

__global__ void compare(float *error, float *squares, const float *phi, const float *height, const float *y, int samples)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= samples)
        return;
    float s = -y[i];
    for (int b = 0; b < BUMPS; ++b)
        s += phi[i * BUMPS + b] * height[b];
    error[i] = s;
    squares[i] = s * s;
}

__global__ void slopes(float *dheight, const float *phi, const float *error, int samples)
{
    int b = blockIdx.x;
    __shared__ float part[THREADS];
    float s = 0;
    for (int i = threadIdx.x; i < samples; i += THREADS)
        s += phi[i * BUMPS + b] * error[i];
    part[threadIdx.x] = s;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int k = 1; k < THREADS; ++k)
            s += part[k];
        dheight[b] = 2.0f * s / samples;
    }
}

__global__ void adam(float *w, const float *g, float *m, float *v, float rate, float b1, float b2, float c1, float c2, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        m[i] += (1 - b1) * (g[i] - m[i]);
        v[i] += (1 - b2) * (g[i] * g[i] - v[i]);
        w[i] -= rate * (m[i] / c1) / (sqrtf(v[i] / c2) + 1e-6f);
    }
}

static void forward_backward(Fit &f, const float *x, const float *y, int samples, dim3 grid)
{
    activations<<<grid, THREADS>>>(f.phi, x, samples);
    compare<<<grid, THREADS>>>(f.error, f.squares, f.phi, f.height, y, samples);
    slopes<<<BUMPS, THREADS>>>(f.dheight, f.phi, f.error, samples);
}

static void update(Fit &f, Adam &a, dim3 grid)
{
    a.t++;
    adam<<<grid, THREADS>>>(f.height, f.dheight, a.m, a.v, a.rate, a.b1, a.b2, 1 - powf(a.b1, a.t), 1 - powf(a.b2, a.t), BUMPS);
}

int main(int argc, char **argv)
{
    const int batch = 64, batches = 4, steps = argc > 1 ? atoi(argv[1]) : 20;
    static float hx[64 * 4], hy[64 * 4], hs[64];
    unsigned r = 5;
    for (int i = 0; i < batch * batches; ++i) {
        r = (r * 1103515245u + 12345u) & 0x7fffffffu;
        hx[i] = (float)r / 2147483648.0f;
        hy[i] = sinf(9 * hx[i]) + 0.5f * hx[i];
    }

    Fit f = {zeros(BUMPS), zeros(BUMPS), zeros(batch * BUMPS), zeros(batch), zeros(batch)};
    Adam a = {zeros(BUMPS), zeros(BUMPS), 0.08f, 0.9f, 0.99f, 0};
    float *x = zeros(batch), *y = zeros(batch);
    DDP_PARAMETER(f.height, BUMPS, DDP_FLOAT32);
    DDP_STATE(a.m, BUMPS, DDP_FLOAT32);
    DDP_STATE(a.v, BUMPS, DDP_FLOAT32);
    DDP_GRADIENT(f.dheight, BUMPS, DDP_FLOAT32);

    size_t first, count;
    DDP_SHARD(batch, &first, &count);
    dim3 grid((unsigned)(count + THREADS - 1) / THREADS);
    for (int k = 0; k < steps; ++k) {
        size_t at = (size_t)(k % batches * batch) + first;
        cudaMemcpy(x, hx + at, count * sizeof(float), cudaMemcpyHostToDevice);
        cudaMemcpy(y, hy + at, count * sizeof(float), cudaMemcpyHostToDevice);
        forward_backward(f, x, y, (int)count, grid);
        DDP_STEP(0);
        update(f, a, grid);

        cudaMemcpy(hs, f.squares, count * sizeof(float), cudaMemcpyDeviceToHost);
        double mse = 0;
        for (size_t i = 0; i < count; ++i)
            mse += hs[i] / (double)count;
        DDP_MEAN_AS("mse", &mse);
        if (!DDP_RANK())
            printf("%d\t%g\n", k, mse);
    }
    if (cudaDeviceSynchronize() != cudaSuccess)
        return 1;
    return 0;
}
