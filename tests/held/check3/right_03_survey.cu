/* Income from a survey: standardised answers, one hidden layer, Adam. Each answer counts with its own survey weight. */
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

enum { ANSWERS = 9, HIDDEN = 8, PEOPLE = 384, BATCH = 48, STEPS = 60 };
enum { INPUT = ANSWERS * HIDDEN, TOTAL = INPUT + 2 * HIDDEN + 1 }; /* weights, biases, output weights, output bias */

/* Sums and sums of squares of each answer. */
__global__ void
moments(float *sums, const float *x, int rows)
{
    int k = threadIdx.x;
    if (k >= ANSWERS)
        return;
    float sum = 0.0f, squares = 0.0f;
    for (int r = 0; r < rows; ++r) {
        sum += x[r * ANSWERS + k];
        squares += x[r * ANSWERS + k] * x[r * ANSWERS + k];
    }
    sums[k] = sum;
    sums[ANSWERS + k] = squares;
}

__global__ void
standardise(float *x, const float *sums, int people, int rows)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, k = i % ANSWERS;
    float mean = sums[k] / people;
    if (i < rows * ANSWERS)
        x[i] = (x[i] - mean) * rsqrtf(sums[ANSWERS + k] / people - mean * mean + 1e-6f);
}

__global__ void
weight_sum(float *sum, const float *weight, int rows)
{
    float s = 0.0f;
    for (int r = 0; r < rows; ++r)
        s += weight[r];
    *sum = s;
}

/* delta = the gradient of the weighted mean of squares, of which this rank has one part of `ranks`. */
__global__ void
forward(float *hidden, float *delta, float *losses, const float *x, const float *y, const float *weight, const float *sum, const float *w, int ranks, int rows)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows)
        return;
    float out = w[TOTAL - 1];
    for (int h = 0; h < HIDDEN; ++h) {
        float z = w[INPUT + h];
        for (int k = 0; k < ANSWERS; ++k)
            z += x[r * ANSWERS + k] * w[k * HIDDEN + h];
        hidden[r * HIDDEN + h] = tanhf(z);
        out += tanhf(z) * w[INPUT + HIDDEN + h];
    }
    float scale = weight[r] * ranks / *sum;
    delta[r] = (out - y[r]) * scale;
    losses[r] = (out - y[r]) * (out - y[r]) * scale;
}

__global__ void
backward(float *dw, const float *hidden, const float *delta, const float *x, const float *w, int rows)
{
    int j = blockIdx.x * blockDim.x + threadIdx.x, u = j % HIDDEN;
    if (j >= TOTAL)
        return;
    float sum = 0.0f;
    for (int r = 0; r < rows; ++r) {
        float h = hidden[r * HIDDEN + u], d = delta[r];
        if (j < TOTAL - 1)
            d *= j >= INPUT + HIDDEN ? h : w[INPUT + HIDDEN + u] * (1.0f - h * h);
        sum += j < INPUT ? d * x[r * ANSWERS + j / HIDDEN] : d;
    }
    dw[j] = sum;
}

__global__ void
count_step(int *steps)
{
    ++*steps;
}

__global__ void
adam(float *w, float *m, float *v, const int *steps, const float *dw, float rate)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= TOTAL)
        return;
    m[i] = 0.9f * m[i] + 0.1f * dw[i];
    v[i] = 0.99f * v[i] + 0.01f * dw[i] * dw[i];
    float a = m[i] / (1.0f - powf(0.9f, *steps)), b = v[i] / (1.0f - powf(0.99f, *steps));
    w[i] -= rate * a / (sqrtf(b) + 1e-4f);
}

int
main()
{
    std::vector<float> answers(PEOPLE * ANSWERS), income(PEOPLE), weights(PEOPLE), w0(TOTAL, 0.0f);
    for (int p = 0; p < PEOPLE; ++p) {
        for (int k = 0; k < ANSWERS; ++k)
            answers[p * ANSWERS + k] = (k + 1) * uniform(1, p * ANSWERS + k) + k;
        const float *a = &answers[p * ANSWERS];
        income[p] = 0.3f * a[1] - 0.1f * a[4] + 0.2f * uniform(2, p) + 0.05f * (a[2] - 3.0f) * a[3];
        weights[p] = 0.2f + 3.0f * uniform(3, p) * uniform(4, p);
    }
    for (int i = 0; i < TOTAL - 1; ++i)
        w0[i] = 0.8f * (uniform(5, i) - 0.5f);
    float *x = upload(answers), *y = upload(income), *weight = upload(weights), *sums = zeros(2 * ANSWERS), *sum = zeros(1);
    float *w = upload(w0), *dw = zeros(TOTAL), *m = zeros(TOTAL), *v = zeros(TOTAL);
    float *hidden = zeros(BATCH * HIDDEN), *delta = zeros(BATCH), *losses = zeros(BATCH);
    int *steps = upload(std::vector<int>(1, 0));
    DDP_PARAMETER(w, TOTAL, DDP_FLOAT32);
    DDP_GRADIENT(dw, TOTAL, DDP_FLOAT32);
    DDP_STATE(m, TOTAL, DDP_FLOAT32);
    DDP_STATE(v, TOTAL, DDP_FLOAT32);
    DDP_STATE(steps, 1, DDP_INT32);

    size_t first, count;
    DDP_SHARD(PEOPLE, &first, &count);
    moments<<<1, 64>>>(sums, x + first * ANSWERS, (int)count);
    DDP_REDUCE(sums, 2 * ANSWERS, DDP_FLOAT32, DDP_OP_SUM, 0);
    standardise<<<blocks(PEOPLE * ANSWERS), 64>>>(x, sums, PEOPLE, PEOPLE); /* all: later shares are others */

    for (int step = 0; step < STEPS; ++step) {
        DDP_SHARD(BATCH, &first, &count);
        size_t begin = (size_t)(step * BATCH) % PEOPLE + first;
        const float *rows = x + begin * ANSWERS;
        const int n = (int)count;
        weight_sum<<<1, 1>>>(sum, weight + begin, n);
        DDP_REDUCE(sum, 1, DDP_FLOAT32, DDP_OP_SUM, 0);
        forward<<<blocks(n), 64>>>(hidden, delta, losses, rows, y + begin, weight + begin, sum, w, DDP_WORLD_SIZE(), n);
        backward<<<blocks(TOTAL), 64>>>(dw, hidden, delta, rows, w, n);
        DDP_STEP(0);
        count_step<<<1, 1>>>(steps);
        adam<<<blocks(TOTAL), 64>>>(w, m, v, steps, dw, 0.03f);
        if (step % 15 == 14) {
            std::vector<float> host(count);
            CHECK(cudaMemcpy(host.data(), losses, count * sizeof(float), cudaMemcpyDeviceToHost));
            float loss = 0.0f;
            for (float l : host)
                loss += l;
            DDP_MEAN(&loss);
            if (DDP_RANK() == 0)
                printf("step %d loss %.4f\n", step + 1, loss);
        }
    }
    return 0;
}
