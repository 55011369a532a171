/*
 * bootstrap.cu - quantile regression (the 70th percentile) on items that are drawn with replacement. The data stays on
 * the device; a step sends the numbers of the drawn items, and a kernel collects them.
 */
#include <cuda_runtime.h>
#include <ddprun.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define M 8 /* columns */
#define N 300
#define DRAWN 40
#define QUANTILE 0.7f

#define RETURN_IF(call)                                                                          \
    do {                                                                                         \
        cudaError_t error = (call);                                                              \
        if (error != cudaSuccess) {                                                              \
            fprintf(stderr, "bootstrap: %s: %s\n", #call, cudaGetErrorString(error));            \
            return false;                                                                        \
        }                                                                                        \
    } while (0)

struct job {
    float *data, *answer;               /* all items */
    float *row, *expected;              /* the drawn ones */
    uint32_t *drawn;
    float *weight, *gradient, *average; /* average: of the weights, for use after training */
    float *pinball;
    uint64_t random;
};

static uint32_t
random_below(uint64_t *random, uint32_t bound)
{
    *random ^= *random >> 12;
    *random ^= *random << 25;
    *random ^= *random >> 27;
    return (uint32_t)((*random * 0x2545f4914f6cdd1dULL) >> 40) % bound;
}

__global__ void
collect(float *row, float *expected, const float *data, const float *answer, const uint32_t *drawn)
{
    uint32_t item = drawn[blockIdx.x];
    row[blockIdx.x * M + threadIdx.x] = data[item * M + threadIdx.x];
    if (threadIdx.x == 0)
        expected[blockIdx.x] = answer[item];
}

/* One block, a thread for each item, then one for each column. A smoothed pinball loss. */
__global__ void
quantile_backward(const float *row, const float *expected, const float *weight, float *gradient, float *pinball, int items)
{
    __shared__ float slope[DRAWN];
    int t = threadIdx.x;
    if (t < items) {
        float e = expected[t];
        for (int m = 0; m < M; ++m)
            e -= row[t * M + m] * weight[m];
        float soft = 1.0f / (1.0f + expf(-e / 0.1f));
        pinball[t] = e > 0.0f ? QUANTILE * e : (QUANTILE - 1.0f) * e;
        slope[t] = -(QUANTILE - 1.0f + soft);
    }
    __syncthreads();
    if (t < M) {
        float s = 0.0f;
        for (int i = 0; i < items; ++i)
            s += slope[i] * row[i * M + t];
        gradient[t] = s / (float)items;
    }
}

__global__ void
follow(float *weight, float *average, const float *gradient, float rate, float keep)
{
    int m = threadIdx.x;
    weight[m] -= rate * gradient[m];
    average[m] = keep * average[m] + (1.0f - keep) * weight[m];
}

static bool
prepare(struct job *job)
{
    static float data[N * M], answer[N];
    memset(job, 0, sizeof(*job));
    job->random = 88172645463325252ULL;
    for (int i = 0; i < N; ++i) {
        answer[i] = 0.5f * (float)random_below(&job->random, 1000) / 1000.0f;
        for (int m = 0; m < M; ++m) {
            data[i * M + m] = m == 0 ? 1.0f : (float)random_below(&job->random, 2001) / 1000.0f - 1.0f;
            answer[i] += data[i * M + m] * (float)(m % 3 + 1) * 0.4f;
        }
    }
    struct { float **where; size_t count; } wanted[] = {
        {&job->data, N * M}, {&job->answer, N}, {&job->row, DRAWN * M}, {&job->expected, DRAWN},
        {&job->weight, M}, {&job->gradient, M}, {&job->average, M}, {&job->pinball, DRAWN}};
    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); ++i) {
        RETURN_IF(cudaMalloc((void **)wanted[i].where, wanted[i].count * sizeof(float)));
        RETURN_IF(cudaMemset(*wanted[i].where, 0, wanted[i].count * sizeof(float)));
    }
    RETURN_IF(cudaMalloc((void **)&job->drawn, DRAWN * sizeof(uint32_t)));
    RETURN_IF(cudaMemcpy(job->data, data, sizeof(data), cudaMemcpyHostToDevice));
    RETURN_IF(cudaMemcpy(job->answer, answer, sizeof(answer), cudaMemcpyHostToDevice));
    DDP_PARAMETER(job->weight, M, DDP_FLOAT32);
    DDP_GRADIENT(job->gradient, M, DDP_FLOAT32);
    return true;
}

static bool
train_step(struct job *job, float *loss)
{
    uint32_t drawn[DRAWN];
    float pinball[DRAWN];
    size_t first, items;
    DDP_SHARD(DRAWN, &first, &items);
    for (size_t i = 0; i < items; ++i)
        drawn[i] = random_below(&job->random, N);
    RETURN_IF(cudaMemcpy(job->drawn, drawn, items * sizeof(uint32_t), cudaMemcpyHostToDevice));
    collect<<<(unsigned)items, M>>>(job->row, job->expected, job->data, job->answer, job->drawn);
    quantile_backward<<<1, DRAWN>>>(job->row, job->expected, job->weight, job->gradient, job->pinball, (int)items);
    DDP_STEP(0);
    follow<<<1, M>>>(job->weight, job->average, job->gradient, 0.8f, 0.9f);
    RETURN_IF(cudaMemcpy(pinball, job->pinball, items * sizeof(float), cudaMemcpyDeviceToHost));
    *loss = 0.0f;
    for (size_t i = 0; i < items; ++i)
        *loss += pinball[i] / (float)items;
    return true;
}

int
main(void)
{
    struct job job;
    if (!prepare(&job))
        return 1;
    for (int step = 1; step <= 18; ++step) {
        float loss;
        if (!train_step(&job, &loss))
            return 1;
        DDP_MEAN_AS("pinball", &loss);
        if (DDP_RANK() == 0)
            printf("step %2d, pinball loss %.4f\n", step, loss);
    }
    return 0;
}
