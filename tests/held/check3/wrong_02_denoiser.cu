/* A denoising autoencoder of short waves: noise is added to the input, the network gives back the clean wave. */
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

enum { WIDTH = 16, HIDDEN = 6, WAVES = 256, BATCH = 32, STEPS = 60 };
enum { ENCODER = WIDTH * HIDDEN, DECODER = HIDDEN * WIDTH };

__global__ void
corrupt(float *noisy, const float *clean, int n, unsigned step)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        noisy[i] = clean[i] + 0.6f * (uniform(100 + step, i) - 0.5f);
}

__global__ void
encode(float *hidden, const float *noisy, const float *w, int rows)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows * HIDDEN)
        return;
    float sum = 0.0f;
    for (int k = 0; k < WIDTH; ++k)
        sum += noisy[i / HIDDEN * WIDTH + k] * w[k * HIDDEN + i % HIDDEN];
    hidden[i] = tanhf(sum);
}

__global__ void
decode(float *error, const float *hidden, const float *w, const float *clean, int rows)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows * WIDTH)
        return;
    float sum = 0.0f;
    for (int k = 0; k < HIDDEN; ++k)
        sum += hidden[i / WIDTH * HIDDEN + k] * w[k * WIDTH + i % WIDTH];
    error[i] = sum - clean[i];
}

__global__ void
hidden_gradient(float *dhidden, const float *error, const float *hidden, const float *w, int rows)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows * HIDDEN)
        return;
    float sum = 0.0f;
    for (int k = 0; k < WIDTH; ++k)
        sum += error[i / HIDDEN * WIDTH + k] * w[i % HIDDEN * WIDTH + k];
    dhidden[i] = sum * (1.0f - hidden[i] * hidden[i]);
}

/* dw[a][b] = mean over rows of left[row][a] right[row][b]. */
__global__ void
outer(float *dw, const float *left, const float *right, int rows, int a, int b)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= a * b)
        return;
    float sum = 0.0f;
    for (int r = 0; r < rows; ++r)
        sum += left[r * a + i / b] * right[r * b + i % b];
    dw[i] = sum / rows;
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
    std::vector<float> waves(WAVES * WIDTH), w0(ENCODER), w1(DECODER);
    for (int i = 0; i < WAVES * WIDTH; ++i) {
        int s = i / WIDTH;
        waves[i] = sinf((0.2f + 0.5f * uniform(1, s)) * (i % WIDTH) + 6.0f * uniform(2, s));
    }
    for (int i = 0; i < ENCODER; ++i) {
        w0[i] = uniform(3, i) - 0.5f;
        w1[i] = uniform(4, i) - 0.5f;
    }
    float *clean = upload(waves), *encoder = upload(w0), *decoder = upload(w1);
    float *dencoder = zeros(ENCODER), *ddecoder = zeros(DECODER);
    float *noisy = zeros(BATCH * WIDTH), *hidden = zeros(BATCH * HIDDEN), *dhidden = zeros(BATCH * HIDDEN);
    float *error = zeros(BATCH * WIDTH);
    DDP_PARAMETER(encoder, ENCODER, DDP_FLOAT32);
    DDP_PARAMETER(decoder, DECODER, DDP_FLOAT32);
    DDP_GRADIENT(dencoder, ENCODER, DDP_FLOAT32);
    DDP_GRADIENT(ddecoder, DECODER, DDP_FLOAT32);

    for (int step = 0; step < STEPS; ++step) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        const float *batch = clean + ((size_t)(step * BATCH) % WAVES + first) * WIDTH;
        int rows = (int)count;
        corrupt<<<blocks(rows * WIDTH), 64>>>(noisy, batch, rows * WIDTH, step);
        encode<<<blocks(rows * HIDDEN), 64>>>(hidden, noisy, encoder, rows);
        decode<<<blocks(rows * WIDTH), 64>>>(error, hidden, decoder, batch, rows);
        outer<<<blocks(DECODER), 64>>>(ddecoder, hidden, error, rows, HIDDEN, WIDTH);
        hidden_gradient<<<blocks(rows * HIDDEN), 64>>>(dhidden, error, hidden, decoder, rows);
        outer<<<blocks(ENCODER), 64>>>(dencoder, noisy, dhidden, rows, WIDTH, HIDDEN);
        DDP_STEP(0);
        descend<<<blocks(ENCODER), 64>>>(encoder, dencoder, 0.05f, ENCODER);
        descend<<<blocks(DECODER), 64>>>(decoder, ddecoder, 0.05f, DECODER);
        if (step % 15 == 14) {
            std::vector<float> host(count * WIDTH);
            CHECK(cudaMemcpy(host.data(), error, host.size() * sizeof(float), cudaMemcpyDeviceToHost));
            float loss = 0.0f;
            for (float e : host)
                loss += e * e / host.size();
            DDP_MEAN(&loss);
            if (DDP_RANK() == 0)
                printf("step %d loss %.4f\n", step + 1, loss);
        }
    }
    return 0;
}
