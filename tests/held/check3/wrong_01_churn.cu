/* Will a customer leave? Logistic regression with a weight for the rarer class, SGD with momentum. */
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

enum { FEATURES = 12, CUSTOMERS = 640, BATCH = 64, STEPS = 50 };

__global__ void
residuals(float *delta, float *loss, const float *x, const int *y, const float *w, float pos_weight, int n)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= n)
        return;
    float z = w[FEATURES];
    for (int f = 0; f < FEATURES; ++f)
        z += w[f] * x[r * FEATURES + f];
    float p = 1.0f / (1.0f + expf(-z)), scale = y[r] ? pos_weight : 1.0f;
    delta[r] = scale * (p - y[r]) / n;
    loss[r] = -scale * logf(y[r] ? p + 1e-6f : 1.0f - p + 1e-6f);
}

__global__ void
weight_gradient(float *dw, const float *delta, const float *x, int n)
{
    int f = threadIdx.x;
    if (f > FEATURES)
        return;
    float sum = 0.0f;
    for (int r = 0; r < n; ++r)
        sum += delta[r] * (f < FEATURES ? x[r * FEATURES + f] : 1.0f);
    dw[f] = sum;
}

__global__ void
momentum_update(float *w, float *v, const float *dw, float rate)
{
    int f = threadIdx.x;
    if (f <= FEATURES) {
        v[f] = 0.9f * v[f] + dw[f];
        w[f] -= rate * v[f];
    }
}

int
main()
{
    std::vector<float> x(CUSTOMERS * FEATURES), w0(FEATURES + 1, 0.0f);
    std::vector<int> y(CUSTOMERS);
    for (int c = 0; c < CUSTOMERS; ++c) {
        float score = -0.9f;
        for (int f = 0; f < FEATURES; ++f) {
            x[c * FEATURES + f] = 2.0f * uniform(1, c * FEATURES + f) - 1.0f;
            score += x[c * FEATURES + f] * (f % 3 - 0.8f);
        }
        y[c] = score + 0.5f * uniform(2, c) > 0.0f;
    }
    float *dx = upload(x), *w = upload(w0), *dw = zeros(FEATURES + 1), *v = zeros(FEATURES + 1);
    int *dy = upload(y);
    float *delta = zeros(BATCH), *losses = zeros(BATCH);
    DDP_PARAMETER(w, FEATURES + 1, DDP_FLOAT32);
    DDP_STATE(v, FEATURES + 1, DDP_FLOAT32);
    DDP_GRADIENT(dw, FEATURES + 1, DDP_FLOAT32);

    for (int step = 0; step < STEPS; ++step) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        size_t begin = (size_t)(step * BATCH) % CUSTOMERS + first;

        /* Both classes count the same in a batch. */
        int leavers = 0;
        for (size_t i = 0; i < count; ++i)
            leavers += y[begin + i];
        float pos_weight = leavers > 0 ? (float)(count - leavers) / leavers : 1.0f;

        residuals<<<blocks(count), 64>>>(delta, losses, dx + begin * FEATURES, dy + begin, w, pos_weight, (int)count);
        weight_gradient<<<1, 64>>>(dw, delta, dx + begin * FEATURES, (int)count);
        DDP_STEP(0);
        momentum_update<<<1, 64>>>(w, v, dw, 0.2f);
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
