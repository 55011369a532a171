/* Forecasts a load curve from its last values, with a hidden layer and AdaGrad. */
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

enum { LAGS = 10, HIDDEN = 12, LENGTH = 500, BATCH = 40, STEPS = 60 };
enum { INPUT = LAGS * HIDDEN, TOTAL = INPUT + 2 * HIDDEN + 1 }; /* weights, biases, output weights, output bias */

__global__ void
forward(float *hidden, float *error, const float *series, const int *starts, const float *w, int n)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= n)
        return;
    const float *x = series + starts[r];
    float out = w[TOTAL - 1];
    for (int h = 0; h < HIDDEN; ++h) {
        float z = w[INPUT + h];
        for (int k = 0; k < LAGS; ++k)
            z += x[k] * w[k * HIDDEN + h];
        hidden[r * HIDDEN + h] = tanhf(z);
        out += tanhf(z) * w[INPUT + HIDDEN + h];
    }
    error[r] = out - x[LAGS];
}

/* One thread a weight. */
__global__ void
backward(float *dw, const float *hidden, const float *error, const float *series, const int *starts, const float *w, int n)
{
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    if (j >= TOTAL)
        return;
    float sum = 0.0f;
    for (int r = 0; r < n; ++r) {
        const float *h = hidden + r * HIDDEN;
        if (j == TOTAL - 1) {
            sum += error[r];
        } else if (j >= INPUT + HIDDEN) {
            sum += error[r] * h[j - INPUT - HIDDEN];
        } else {
            int u = j % HIDDEN; /* INPUT is a multiple of HIDDEN */
            float d = error[r] * w[INPUT + HIDDEN + u] * (1.0f - h[u] * h[u]);
            sum += j < INPUT ? d * series[starts[r] + j / HIDDEN] : d;
        }
    }
    dw[j] = sum / n;
}

__global__ void
add_squares(float *squares, const float *dw)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < TOTAL)
        squares[i] += dw[i] * dw[i];
}

__global__ void
adagrad(float *w, const float *dw, const float *squares, float rate)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < TOTAL)
        w[i] -= rate * dw[i] * rsqrtf(squares[i] + 1e-6f);
}

int
main()
{
    std::vector<float> load(LENGTH + LAGS + 1), w0(TOTAL, 0.0f);
    for (size_t t = 0; t < load.size(); ++t)
        load[t] = 0.6f * sinf(0.26f * t) + 0.3f * sinf(0.037f * t + 1.0f) + 0.2f * (uniform(1, t) - 0.5f);
    for (int i = 0; i < TOTAL - 1; ++i)
        w0[i] = 0.6f * (uniform(2, i) - 0.5f);
    float *series = upload(load), *w = upload(w0), *dw = zeros(TOTAL), *squares = zeros(TOTAL);
    float *hidden = zeros(BATCH * HIDDEN), *error = zeros(BATCH);
    int *starts = upload(std::vector<int>(BATCH));
    DDP_PARAMETER(w, TOTAL, DDP_FLOAT32);
    DDP_GRADIENT(dw, TOTAL, DDP_FLOAT32);

    float loss = 0.0f;
    for (int step = 0; step < STEPS; ++step) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        std::vector<int> places(count);
        for (size_t i = 0; i < count; ++i)
            places[i] = (int)(LENGTH * uniform(100 + step, first + i));
        CHECK(cudaMemcpy(starts, places.data(), count * sizeof(int), cudaMemcpyHostToDevice));
        forward<<<blocks(count), 64>>>(hidden, error, series, starts, w, (int)count);
        backward<<<blocks(TOTAL), 64>>>(dw, hidden, error, series, starts, w, (int)count);
        add_squares<<<blocks(TOTAL), 64>>>(squares, dw);
        DDP_STEP(0);
        adagrad<<<blocks(TOTAL), 64>>>(w, dw, squares, 0.05f);
        if (step % 15 == 14) {
            std::vector<float> host(count);
            CHECK(cudaMemcpy(host.data(), error, count * sizeof(float), cudaMemcpyDeviceToHost));
            loss = 0.0f;
            for (float e : host)
                loss += e * e / count;
            DDP_MEAN(&loss);
            if (DDP_RANK() == 0)
                printf("step %d loss %.5f\n", step + 1, loss);
        }
    }
    return 0;
}
