/* The flow through a valve from six readings, by radial basis functions. The rate falls with the validation error. */
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

enum { READINGS = 6, CENTRES = 24, TRAINING = 320, VALIDATION = 64, BATCH = 32, STEPS = 80, EVERY = 4 };

__global__ void
activate(float *phi, const float *x, const float *centres, int rows)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows * CENTRES)
        return;
    float square = 0.0f;
    for (int k = 0; k < READINGS; ++k) {
        float d = x[i / CENTRES * READINGS + k] - centres[i % CENTRES * READINGS + k];
        square += d * d;
    }
    phi[i] = expf(-1.5f * square);
}

__global__ void
predict(float *error, const float *phi, const float *w, const float *y, int rows)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows)
        return;
    float sum = w[CENTRES];
    for (int c = 0; c < CENTRES; ++c)
        sum += phi[r * CENTRES + c] * w[c];
    error[r] = sum - y[r];
}

__global__ void
gradient(float *dw, const float *phi, const float *error, int rows)
{
    int c = threadIdx.x;
    if (c > CENTRES)
        return;
    float sum = 0.0f;
    for (int r = 0; r < rows; ++r)
        sum += error[r] * (c < CENTRES ? phi[r * CENTRES + c] : 1.0f);
    dw[c] = sum / rows;
}

__global__ void
descend(float *w, float *v, const float *dw, float rate)
{
    int c = threadIdx.x;
    if (c <= CENTRES) {
        v[c] = 0.8f * v[c] + dw[c];
        w[c] -= rate * v[c];
    }
}

static float
mean_square(const float *error, size_t n)
{
    std::vector<float> host(n);
    CHECK(cudaMemcpy(host.data(), error, n * sizeof(float), cudaMemcpyDeviceToHost));
    float sum = 0.0f;
    for (float e : host)
        sum += e * e;
    return sum / n;
}

int
main()
{
    const int rows = TRAINING + VALIDATION;
    std::vector<float> readings(rows * READINGS), flow(rows), places(CENTRES * READINGS);
    for (int r = 0; r < rows; ++r) {
        float *x = &readings[r * READINGS];
        for (int k = 0; k < READINGS; ++k)
            x[k] = uniform(1, r * READINGS + k);
        flow[r] = sinf(3.0f * x[0]) * x[1] + x[2] * x[3] + 0.3f * (uniform(2, r) - 0.5f);
    }
    for (size_t i = 0; i < places.size(); ++i)
        places[i] = uniform(3, i);
    float *x = upload(readings), *y = upload(flow), *centres = upload(places);
    float *w = zeros(CENTRES + 1), *v = zeros(CENTRES + 1), *dw = zeros(CENTRES + 1);
    float *phi = zeros(VALIDATION * CENTRES), *error = zeros(VALIDATION);
    DDP_PARAMETER(w, CENTRES + 1, DDP_FLOAT32);
    DDP_GRADIENT(dw, CENTRES + 1, DDP_FLOAT32);

    const float fastest = 0.08f;
    float rate = fastest, start = 0.0f;
    for (int step = 0; step < STEPS; ++step) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        size_t begin = (size_t)(step * BATCH) % TRAINING + first;
        activate<<<blocks(count * CENTRES), 64>>>(phi, x + begin * READINGS, centres, (int)count);
        predict<<<blocks(count), 64>>>(error, phi, w, y + begin, (int)count);
        gradient<<<1, 64>>>(dw, phi, error, (int)count);
        DDP_STEP(0);
        descend<<<1, 64>>>(w, v, dw, rate);

        if (step % EVERY == 0) {
            DDP_SHARD(VALIDATION, &first, &count);
            begin = TRAINING + first;
            activate<<<blocks(count * CENTRES), 64>>>(phi, x + begin * READINGS, centres, (int)count);
            predict<<<blocks(count), 64>>>(error, phi, w, y + begin, (int)count);
            float score = mean_square(error, count);
            if (step == 0)
                start = score;
            rate = fastest * fminf(1.0f, sqrtf(score / start)); /* smaller steps near the end */
            DDP_MEAN_AS("validation", &score);
            if (DDP_RANK() == 0 && step % 16 == 0)
                printf("step %d loss %.5f rate %.4f\n", step + 1, score, rate);
        }
    }
    return 0;
}
