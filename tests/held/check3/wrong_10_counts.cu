/* Poisson regression: three kinds of events an hour from eleven measurements. One flat buffer: weights, then offsets. */
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

enum { INPUTS = 11, KINDS = 3, HOURS = 480, BATCH = 48, STEPS = 60 };

struct shape {
    int weights, offsets, total;
};

/* residual = rate - events, and the loss of each row. One thread for each hour and kind. */
__global__ void
residuals(float *residual, float *losses, const float *x, const float *events, const float *theta, struct shape shape, int rows)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, kind = i % KINDS;
    if (i >= rows * KINDS)
        return;
    float eta = theta[shape.weights + kind];
    for (int k = 0; k < INPUTS; ++k)
        eta += x[i / KINDS * INPUTS + k] * theta[k * KINDS + kind];
    float rate = expf(fminf(eta, 8.0f));
    residual[i] = rate - events[i];
    losses[i] = rate - events[i] * eta;
}

__global__ void
gradient(float *dtheta, const float *residual, const float *x, struct shape shape, int rows)
{
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    if (j >= shape.total)
        return;
    float sum = 0.0f;
    for (int r = 0; r < rows; ++r)
        sum += residual[r * KINDS + j % KINDS] * (j < shape.weights ? x[r * INPUTS + j / KINDS] : 1.0f);
    dtheta[j] = sum / rows;
}

__global__ void
adam(float *theta, float *m, float *v, const float *dtheta, float rate, float scale1, float scale2, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    m[i] = 0.9f * m[i] + 0.1f * dtheta[i];
    v[i] = 0.98f * v[i] + 0.02f * dtheta[i] * dtheta[i];
    theta[i] -= rate * m[i] * scale1 / (sqrtf(v[i] * scale2) + 1e-6f);
}

/* A random number of events (D. Knuth, "Seminumerical Algorithms", 3.4.1). */
static float
poisson(float rate, unsigned seed)
{
    float limit = expf(-rate), product = 1.0f;
    int events = -1;
    do {
        product *= uniform(seed, 1000 + ++events);
    } while (product > limit && events < 60);
    return (float)events;
}

int
main()
{
    const struct shape shape = {INPUTS * KINDS, KINDS, INPUTS * KINDS + KINDS};
    std::vector<float> measured(HOURS * INPUTS), seen(HOURS * KINDS);
    for (int h = 0; h < HOURS; ++h) {
        for (int k = 0; k < INPUTS; ++k)
            measured[h * INPUTS + k] = 2.0f * uniform(1, h * INPUTS + k) - 1.0f;
        for (int kind = 0; kind < KINDS; ++kind) {
            float eta = 0.4f * kind;
            for (int k = 0; k < INPUTS; ++k)
                eta += measured[h * INPUTS + k] * 0.25f * ((k + kind) % 4 - 1.5f);
            seen[h * KINDS + kind] = poisson(expf(eta), 10 + h * KINDS + kind);
        }
    }
    float *x = upload(measured), *events = upload(seen);
    float *theta = zeros(shape.total), *m = zeros(shape.total), *v = zeros(shape.total);
    float *dtheta = zeros(shape.total), *residual = zeros(BATCH * KINDS), *losses = zeros(BATCH * KINDS);
    DDP_PARAMETER(theta, shape.total, DDP_FLOAT32);
    DDP_GRADIENT(dtheta, shape.weights, DDP_FLOAT32);

    float power1 = 1.0f, power2 = 1.0f;
    for (int step = 0; step < STEPS; ++step) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        size_t begin = (size_t)(step * BATCH) % HOURS + first;
        int rows = (int)count;
        residuals<<<blocks(rows * KINDS), 64>>>(residual, losses, x + begin * INPUTS, events + begin * KINDS, theta, shape, rows);
        gradient<<<blocks(shape.total), 64>>>(dtheta, residual, x + begin * INPUTS, shape, rows);
        DDP_STEP(0);
        power1 *= 0.9f;
        power2 *= 0.98f;
        adam<<<blocks(shape.total), 64>>>(theta, m, v, dtheta, 0.03f, 1.0f / (1.0f - power1), 1.0f / (1.0f - power2), shape.total);
        if (step % 15 == 14) {
            std::vector<float> host(rows * KINDS);
            CHECK(cudaMemcpy(host.data(), losses, host.size() * sizeof(float), cudaMemcpyDeviceToHost));
            float loss = 0.0f;
            for (float l : host)
                loss += l / host.size();
            DDP_MEAN(&loss);
            if (DDP_RANK() == 0)
                printf("step %d loss %.4f\n", step + 1, loss);
        }
    }
    return 0;
}
