/* Tells three kinds of waveform apart: a convolution, ReLU, mean over time, dropout, softmax; clipped SGD. */
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

enum { LENGTH = 24, TAPS = 5, FILTERS = 8, CLASSES = 3, SIGNALS = 240, BATCH = 24, STEPS = 50 };
enum { PLACES = LENGTH - TAPS + 1, KERNEL = TAPS * FILTERS, DENSE = FILTERS * CLASSES, TOTAL = KERNEL + DENSE };

/* Mean over time of each filter's ReLU, with dropout by the signal's place in the whole batch. One thread a value. */
__global__ void
convolve(float *feature, const float *x, const float *w, unsigned step, int first, int rows)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows * FILTERS)
        return;
    float sum = 0.0f;
    for (int t = 0; t < PLACES; ++t) {
        float z = 0.0f;
        for (int k = 0; k < TAPS; ++k)
            z += x[i / FILTERS * LENGTH + t + k] * w[k * FILTERS + i % FILTERS];
        sum += fmaxf(z, 0.0f);
    }
    float kept = uniform(700 + step, first * FILTERS + i) < 0.75f ? 1.0f / 0.75f : 0.0f;
    feature[i] = kept * sum / PLACES;
}

__global__ void
classify(float *delta, float *losses, const float *feature, const float *w, const int *labels, int rows)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows)
        return;
    float z[CLASSES], sum = 0.0f;
    for (int c = 0; c < CLASSES; ++c) {
        z[c] = 0.0f;
        for (int f = 0; f < FILTERS; ++f)
            z[c] += feature[r * FILTERS + f] * w[KERNEL + f * CLASSES + c];
        sum += expf(z[c]);
    }
    losses[r] = logf(sum) - z[labels[r]];
    for (int c = 0; c < CLASSES; ++c)
        delta[r * CLASSES + c] = (expf(z[c]) / sum - (c == labels[r])) / rows;
}

/* One thread a weight. */
__global__ void
backward(float *dw, const float *delta, const float *feature, const float *x, const float *w, unsigned step, int first, int rows)
{
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    if (j >= TOTAL)
        return;
    float total = 0.0f;
    for (int r = 0; r < rows; ++r) {
        if (j >= KERNEL) {
            int d = j - KERNEL;
            total += delta[r * CLASSES + d % CLASSES] * feature[r * FILTERS + d / CLASSES];
            continue;
        }
        int f = j % FILTERS;
        if (uniform(700 + step, (first + r) * FILTERS + f) >= 0.75f)
            continue;
        float d = 0.0f, sum = 0.0f;
        for (int c = 0; c < CLASSES; ++c)
            d += delta[r * CLASSES + c] * w[KERNEL + f * CLASSES + c];
        for (int t = 0; t < PLACES; ++t) {
            float z = 0.0f;
            for (int k = 0; k < TAPS; ++k)
                z += x[r * LENGTH + t + k] * w[k * FILTERS + f];
            sum += z > 0.0f ? x[r * LENGTH + t + j / FILTERS] : 0.0f;
        }
        total += d * sum / (0.75f * PLACES);
    }
    dw[j] = total;
}

__global__ void
square_sum(float *norm, const float *dw)
{
    float sum = 0.0f;
    for (int j = 0; j < TOTAL; ++j)
        sum += dw[j] * dw[j];
    *norm = sum;
}

__global__ void
clipped_descend(float *w, const float *dw, const float *norm, float rate)
{
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    if (j < TOTAL)
        w[j] -= rate * dw[j] * fminf(1.0f, 0.3f * rsqrtf(*norm + 1e-12f));
}

int
main()
{
    std::vector<float> signals(SIGNALS * LENGTH), w0(TOTAL);
    std::vector<int> kinds(SIGNALS);
    for (int i = 0; i < SIGNALS * LENGTH; ++i) {
        int s = i / LENGTH, kind = kinds[s] = (int)(3 * uniform(1, s));
        float phase = fmodf((i % LENGTH) / 8.0f + uniform(2, s), 1.0f);
        float shapes[3] = {sinf(6.2832f * phase), phase < 0.5f ? 1.0f : -1.0f, 2.0f * phase - 1.0f};
        signals[i] = shapes[kind] + 0.2f * (uniform(3, i) - 0.5f);
    }
    for (int i = 0; i < TOTAL; ++i)
        w0[i] = 1.6f * (uniform(4, i) - 0.5f);
    float *x = upload(signals), *w = upload(w0), *dw = zeros(TOTAL), *norm = zeros(1);
    float *feature = zeros(BATCH * FILTERS), *delta = zeros(BATCH * CLASSES), *losses = zeros(BATCH);
    int *labels = upload(kinds);
    DDP_PARAMETER(w, TOTAL, DDP_FLOAT32);
    DDP_GRADIENT(dw, TOTAL, DDP_FLOAT32);

    for (int step = 0; step < STEPS; ++step) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        size_t begin = (size_t)(step * BATCH) % SIGNALS + first;
        int rows = (int)count;
        convolve<<<blocks(rows * FILTERS), 64>>>(feature, x + begin * LENGTH, w, step, (int)first, rows);
        classify<<<blocks(rows), 64>>>(delta, losses, feature, w, labels + begin, rows);
        backward<<<blocks(TOTAL), 64>>>(dw, delta, feature, x + begin * LENGTH, w, step, (int)first, rows);
        DDP_STEP(0);
        square_sum<<<1, 1>>>(norm, dw);
        clipped_descend<<<blocks(TOTAL), 64>>>(w, dw, norm, 1.0f);
        if (step % 10 == 9) {
            std::vector<float> host(count);
            CHECK(cudaMemcpy(host.data(), losses, count * sizeof(float), cudaMemcpyDeviceToHost));
            float loss = 0.0f;
            for (float l : host)
                loss += l / count;
            DDP_MEAN(&loss);
            if (DDP_RANK() == 0)
                printf("step %d loss %.4f\n", step + 1, loss);
        }
    }
    return 0;
}
