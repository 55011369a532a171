/* Concentration from a spectrum: a layer, batch normalisation over the whole batch, ReLU, a linear output. */
#include <cuda_runtime.h>
#include <ddprun.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <vector>

#define CHECK(call)                                                                               \
    do {                                                                                          \
        cudaError_t error_ = (call);                                                              \
        if (error_ != cudaSuccess) {                                                              \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(error_));       \
            exit(1);                                                                              \
        }                                                                                         \
    } while (0)

/* A number in [0, 1) that depends on its two arguments only. */
static __host__ __device__ inline float
uniform(unsigned seed, unsigned i)
{
    unsigned x = seed * 0x9e3779b9u + i * 0x85ebca6bu + 0x7f4a7c15u;
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    x *= 0x846ca68bu;
    x ^= x >> 16;
    return (x >> 8) * (1.0f / 16777216.0f);
}

static float *
zeros(size_t n)
{
    float *p;
    CHECK(cudaMalloc((void **)&p, n * sizeof(float)));
    CHECK(cudaMemset(p, 0, n * sizeof(float)));
    return p;
}

template <typename T> static T *
upload(const std::vector<T> &values)
{
    T *p;
    CHECK(cudaMalloc((void **)&p, values.size() * sizeof(T)));
    CHECK(cudaMemcpy(p, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
    return p;
}

static inline int
blocks(size_t n)
{
    return (int)((n + 63) / 64);
}

enum { BANDS = 20, UNITS = 8, SPECTRA = 320, BATCH = 32, STEPS = 60 };

__global__ void
project(float *z, const float *x, const float *w, int rows)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows * UNITS)
        return;
    float sum = 0.0f;
    for (int k = 0; k < BANDS; ++k)
        sum += x[i / UNITS * BANDS + k] * w[k * UNITS + i % UNITS];
    z[i] = sum;
}

__global__ void
column_mean(float *mean, const float *z, int rows)
{
    float sum = 0.0f;
    for (int r = 0; r < rows; ++r)
        sum += z[r * UNITS + threadIdx.x];
    mean[threadIdx.x] = sum / rows;
}

__global__ void
column_variance(float *variance, const float *z, const float *mean, int rows)
{
    float sum = 0.0f;
    for (int r = 0; r < rows; ++r) {
        float d = z[r * UNITS + threadIdx.x] - mean[threadIdx.x];
        sum += d * d;
    }
    variance[threadIdx.x] = sum / rows;
}

/* norm = (z - mean) / deviation, and the output's error. One thread a row. */
__global__ void
normalise(float *norm, float *error, const float *z, const float *mean, const float *variance, const float *v, const float *y, int rows)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows)
        return;
    float sum = 0.0f;
    for (int u = 0; u < UNITS; ++u) {
        float n = (z[r * UNITS + u] - mean[u]) * rsqrtf(variance[u] + 1e-3f);
        norm[r * UNITS + u] = n;
        sum += fmaxf(n, 0.0f) * v[u];
    }
    error[r] = sum - y[r];
}

/* Gradients of the output's weights, of norm, and the two means that the gradient of z needs. One thread a unit. */
__global__ void
backward_norm(float *dv, float *dnorm, float *means, const float *norm, const float *error, const float *v, int rows)
{
    int u = threadIdx.x;
    float sum = 0.0f, m0 = 0.0f, m1 = 0.0f;
    for (int r = 0; r < rows; ++r) {
        float n = norm[r * UNITS + u], d = n > 0.0f ? error[r] * v[u] / rows : 0.0f;
        sum += error[r] * fmaxf(n, 0.0f) / rows;
        dnorm[r * UNITS + u] = d;
        m0 += d;
        m1 += d * n;
    }
    dv[u] = sum;
    means[u] = m0 / rows;
    means[UNITS + u] = m1 / rows;
}

__global__ void
backward_project(float *dw, const float *x, const float *dnorm, const float *norm, const float *means, const float *variance, int rows)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, u = i % UNITS;
    if (i >= BANDS * UNITS)
        return;
    float sum = 0.0f;
    for (int r = 0; r < rows; ++r)
        sum += x[r * BANDS + i / UNITS] * (dnorm[r * UNITS + u] - means[u] - norm[r * UNITS + u] * means[UNITS + u]);
    dw[i] = sum * rsqrtf(variance[u] + 1e-3f);
}

__global__ void
descend(float *w, const float *dw, float rate, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        w[i] -= rate * dw[i];
}

int
main()
{
    std::vector<float> spectra(SPECTRA * BANDS), targets(SPECTRA), w0(BANDS * UNITS), v0(UNITS);
    for (int s = 0; s < SPECTRA; ++s) {
        float a = uniform(1, s), b = uniform(2, s);
        for (int k = 0; k < BANDS; ++k)
            spectra[s * BANDS + k] = a * expf(-0.1f * (k - 6) * (k - 6)) + b * expf(-0.05f * (k - 12) * (k - 12)) + 0.1f * uniform(3, s * BANDS + k);
        targets[s] = 2.0f * a - b * b;
    }
    for (int i = 0; i < BANDS * UNITS; ++i)
        w0[i] = uniform(4, i) - 0.5f;
    for (int u = 0; u < UNITS; ++u)
        v0[u] = uniform(5, u) - 0.5f;
    float *x = upload(spectra), *y = upload(targets), *w = upload(w0), *v = upload(v0);
    float *dw = zeros(BANDS * UNITS), *dv = zeros(UNITS), *z = zeros(BATCH * UNITS), *norm = zeros(BATCH * UNITS);
    float *dnorm = zeros(BATCH * UNITS), *error = zeros(BATCH), *means = zeros(2 * UNITS);
    float *mean = zeros(UNITS), *variance = zeros(UNITS);
    DDP_PARAMETER(w, BANDS * UNITS, DDP_FLOAT32);
    DDP_PARAMETER(v, UNITS, DDP_FLOAT32);
    DDP_GRADIENT(dw, BANDS * UNITS, DDP_FLOAT32);
    DDP_GRADIENT(dv, UNITS, DDP_FLOAT32);

    for (int step = 0; step < STEPS; ++step) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        size_t begin = (size_t)(step * BATCH) % SPECTRA + first;
        const float *rows = x + begin * BANDS;
        int n = (int)count;
        project<<<blocks(n * UNITS), 64>>>(z, rows, w, n);
        column_mean<<<1, UNITS>>>(mean, z, n);
        DDP_REDUCE(mean, UNITS, DDP_FLOAT32, DDP_OP_MEAN, 0);
        column_variance<<<1, UNITS>>>(variance, z, mean, n);
        normalise<<<blocks(n), 64>>>(norm, error, z, mean, variance, v, y + begin, n);
        backward_norm<<<1, UNITS>>>(dv, dnorm, means, norm, error, v, n);
        DDP_REDUCE(means, 2 * UNITS, DDP_FLOAT32, DDP_OP_MEAN, 0);
        backward_project<<<blocks(BANDS * UNITS), 64>>>(dw, rows, dnorm, norm, means, variance, n);
        DDP_STEP(0);
        descend<<<blocks(BANDS * UNITS), 64>>>(w, dw, 0.2f, BANDS * UNITS);
        descend<<<1, 64>>>(v, dv, 0.2f, UNITS);
        if (step % 20 == 19) {
            std::vector<float> host(count);
            CHECK(cudaMemcpy(host.data(), error, count * sizeof(float), cudaMemcpyDeviceToHost));
            float loss = 0.0f;
            for (float e : host)
                loss += e * e / count;
            DDP_MEAN(&loss);
            if (DDP_RANK() == 0)
                printf("step %d loss %.4f\n", step + 1, loss);
        }
    }
    return 0;
}
