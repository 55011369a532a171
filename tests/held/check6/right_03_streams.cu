/* A recurrent network forecasts 16 endless series. Truncated back-propagation: chunks of four steps; the hidden state of
 * each series lives on from chunk to chunk. SGD, the gradient clipped by its norm. */
#include <cuda_runtime.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "ddprun.h"

#define SERIES 16
#define CHUNK 4
#define HID 24
/* parameters: input [HID], recurrent [HID][HID], bias [HID], readout [HID] */
#define IN_W 0
#define REC_W HID
#define BIAS (REC_W + HID * HID)
#define READ_W (BIAS + HID)
#define SIZE (READ_W + HID)

#define CUDA_OK(x)                                                     \
    do {                                                               \
        if ((x) != cudaSuccess) {                                      \
            fprintf(stderr, "%s failed (line %d)\n", #x, __LINE__);    \
            exit(1);                                                   \
        }                                                              \
    } while (0)

static float series(int id, int t)
{
    float a = 0.15f + 0.02f * id, b = 0.37f - 0.011f * id;
    return 0.6f * sinf(a * t + id) + 0.4f * sinf(b * t);
}

static unsigned mix(unsigned x)
{
    x ^= x >> 16;
    x *= 0x45d9f3bu;
    x ^= x >> 16;
    x *= 0x45d9f3bu;
    return x ^ (x >> 16);
}

/* block = series, thread = hidden unit; states[(CHUNK + 1)][HID] of each series, [0] is the state carried over */
__global__ void unroll(const float *p, const float *x, float *states, float *carried, float *err, int first)
{
    int s = blockIdx.x, j = threadIdx.x;
    float *h = states + s * (CHUNK + 1) * HID;
    h[j] = carried[(first + s) * HID + j];
    __syncthreads();
    for (int t = 0; t < CHUNK; ++t) {
        float a = p[BIAS + j] + p[IN_W + j] * x[s * (CHUNK + 1) + t];
        for (int k = 0; k < HID; ++k)
            a += p[REC_W + k * HID + j] * h[t * HID + k];
        h[(t + 1) * HID + j] = tanhf(a);
        __syncthreads();
        if (j == 0) {
            float y = 0.f;
            for (int k = 0; k < HID; ++k)
                y += p[READ_W + k] * h[(t + 1) * HID + k];
            err[s * CHUNK + t] = y - x[s * (CHUNK + 1) + t + 1];
        }
        __syncthreads();
    }
    carried[(first + s) * HID + j] = h[CHUNK * HID + j];
}

__global__ void backward(const float *p, const float *states, const float *err, float *delta, float scale)
{
    int s = blockIdx.x, j = threadIdx.x;
    const float *h = states + s * (CHUNK + 1) * HID;
    float *d = delta + s * CHUNK * HID, carry = 0.f;
    for (int t = CHUNK - 1; t >= 0; --t) {
        float y = h[(t + 1) * HID + j];
        d[t * HID + j] = (carry + scale * err[s * CHUNK + t] * p[READ_W + j]) * (1.f - y * y);
        __syncthreads();
        carry = 0.f;
        for (int k = 0; k < HID; ++k)
            carry += p[REC_W + j * HID + k] * d[t * HID + k];
        __syncthreads();
    }
}

__global__ void gradients(const float *x, const float *states, const float *err, const float *delta, float *g, float scale, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= SIZE)
        return;
    float sum = 0.f;
    for (int s = 0; s < n; ++s)
        for (int t = 0; t < CHUNK; ++t) {
            const float *h = states + (s * (CHUNK + 1) + t) * HID, *d = delta + (s * CHUNK + t) * HID;
            if (i < REC_W)
                sum += d[i] * x[s * (CHUNK + 1) + t];
            else if (i < BIAS)
                sum += h[(i - REC_W) / HID] * d[(i - REC_W) % HID];
            else if (i < READ_W)
                sum += d[i - BIAS];
            else
                sum += scale * err[s * CHUNK + t] * h[HID + i - READ_W];
        }
    g[i] = sum;
}

__global__ void norm_of(const float *g, float *norm)
{
    if (threadIdx.x == 0) {
        float s = 0.f;
        for (int i = 0; i < SIZE; ++i)
            s += g[i] * g[i];
        norm[0] = sqrtf(s);
    }
}

__global__ void descend(float *p, const float *g, const float *norm, float limit, float rate)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < SIZE)
        p[i] -= rate * g[i] * (norm[0] > limit ? limit / norm[0] : 1.f);
}

int main(int argc, char **argv)
{
    int chunks = argc > 2 ? atoi(argv[2]) : 60, c, i, t;
    static float host[SIZE], xs[SERIES * (CHUNK + 1)], err_h[SERIES * CHUNK];
    float *p, *g, *norm, *x, *states, *carried, *err, *delta;
    CUDA_OK(cudaMalloc((void **)&p, sizeof host));
    CUDA_OK(cudaMalloc((void **)&g, sizeof host));
    CUDA_OK(cudaMalloc((void **)&norm, sizeof(float)));
    CUDA_OK(cudaMalloc((void **)&x, sizeof xs));
    CUDA_OK(cudaMalloc((void **)&states, SERIES * (CHUNK + 1) * HID * sizeof(float)));
    CUDA_OK(cudaMalloc((void **)&carried, SERIES * HID * sizeof(float)));
    CUDA_OK(cudaMalloc((void **)&err, sizeof err_h));
    CUDA_OK(cudaMalloc((void **)&delta, SERIES * CHUNK * HID * sizeof(float)));
    CUDA_OK(cudaMemset(carried, 0, SERIES * HID * sizeof(float)));
    for (i = 0; i < SIZE; ++i)
        host[i] = 0.25f * ((float)(mix(i + 1) >> 8) / 8388608.f - 1.f);
    CUDA_OK(cudaMemcpy(p, host, sizeof host, cudaMemcpyHostToDevice));
    DDP_PARAMETER(p, SIZE, DDP_FLOAT32);
    DDP_GRADIENT(g, SIZE, DDP_FLOAT32);

    for (c = 0; c < chunks; ++c) {
        size_t first, count;
        DDP_SHARD(SERIES, &first, &count);
        int n = (int)count;
        float scale = 1.f / (n * CHUNK), mse = 0.f;
        for (i = 0; i < n; ++i)
            for (t = 0; t <= CHUNK; ++t)
                xs[i * (CHUNK + 1) + t] = series((int)first + i, c * CHUNK + t);
        CUDA_OK(cudaMemcpy(x, xs, n * (CHUNK + 1) * sizeof(float), cudaMemcpyHostToDevice));
        unroll<<<n, HID>>>(p, x, states, carried, err, (int)first);
        backward<<<n, HID>>>(p, states, err, delta, scale);
        gradients<<<(SIZE + 63) / 64, 64>>>(x, states, err, delta, g, scale, n);
        DDP_STEP(0);
        norm_of<<<1, 32>>>(g, norm);
        descend<<<(SIZE + 63) / 64, 64>>>(p, g, norm, 0.5f, 0.1f);
        CUDA_OK(cudaMemcpy(err_h, err, n * CHUNK * sizeof(float), cudaMemcpyDeviceToHost));
        for (i = 0; i < n * CHUNK; ++i)
            mse += err_h[i] * err_h[i] * scale;
        DDP_MEAN_AS("mse", &mse);
        if (DDP_RANK() == 0 && (c % 10 == 0 || c == chunks - 1))
            printf("chunk %d mse %.5f\n", c, mse);
    }
    CUDA_OK(cudaMemcpy(host, p, sizeof host, cudaMemcpyDeviceToHost));
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *f = fopen(argv[1], "wb");
        fwrite(host, 1, sizeof host, f);
        fclose(f);
    }
    return 0;
}
