/* Curve fitting by radial basis functions; examples are drawn in proportion to their last known error. C. */
#include <cuda_runtime.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "ddprun.h"

#define EXAMPLES 300
#define CENTRES 64
#define OUTPUTS 4
#define BATCH 32
#define NPARAM (CENTRES * OUTPUTS)

typedef struct {
    float value[EXAMPLES]; /* how likely an example is drawn */
    int age[EXAMPLES];
} Priorities;

typedef struct {
    float *weight, *grad, *velocity;
    float *feature, *target, *error;
} Buffers;

static unsigned long long lcg = 1442695040888963407ull;
static double random_unit(void)
{
    lcg = lcg * 6364136223846793005ull + 1442695040888963407ull;
    return (double)(lcg >> 40) / 16777216.0;
}

static void cuda_try(cudaError_t e)
{
    if (e != cudaSuccess) {
        fprintf(stderr, "cuda error %d (%s)\n", (int)e, cudaGetErrorString(e));
        exit(3);
    }
}

static int draw_example(const Priorities *p)
{
    double total = 0, at;
    int i;
    for (i = 0; i < EXAMPLES; ++i)
        total += p->value[i];
    at = random_unit() * total;
    for (i = 0; i < EXAMPLES - 1; ++i) {
        at -= p->value[i];
        if (at < 0)
            break;
    }
    return i;
}

__global__ void predict(const float *feature, const float *target, const float *weight, float *error, int rows)
{
    int id = blockIdx.x * blockDim.x + threadIdx.x;
    if (id >= rows * OUTPUTS)
        return;
    int r = id / OUTPUTS, o = id % OUTPUTS;
    float s = 0;
    for (int c = 0; c < CENTRES; ++c)
        s += feature[r * CENTRES + c] * weight[c * OUTPUTS + o];
    error[id] = s - target[id];
}

__global__ void gradient(const float *feature, const float *error, float *grad, int rows)
{
    int id = blockIdx.x * blockDim.x + threadIdx.x;
    if (id >= NPARAM)
        return;
    float s = 0;
    for (int r = 0; r < rows; ++r)
        s += feature[r * CENTRES + id / OUTPUTS] * error[r * OUTPUTS + id % OUTPUTS];
    grad[id] = 2 * s / rows;
}

__global__ void nesterov(float *weight, float *velocity, const float *grad, float lr)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < NPARAM) {
        float v = 0.8f * velocity[i] - lr * grad[i];
        weight[i] += 0.8f * v - lr * grad[i];
        velocity[i] = v;
    }
}

static float all_features[EXAMPLES][CENTRES], all_targets[EXAMPLES][OUTPUTS];

static void make_data(void)
{
    float centre[CENTRES][2];
    for (int c = 0; c < CENTRES; ++c) {
        centre[c][0] = (float)(c % 8) / 3.5f - 1;
        centre[c][1] = (float)(c / 8) / 3.5f - 1;
    }
    for (int i = 0; i < EXAMPLES; ++i) {
        float x = (float)(2 * random_unit() - 1), y = (float)(2 * random_unit() - 1);
        for (int c = 0; c < CENTRES; ++c)
            all_features[i][c] = expf(-6 * ((x - centre[c][0]) * (x - centre[c][0]) + (y - centre[c][1]) * (y - centre[c][1])));
        for (int o = 0; o < OUTPUTS; ++o)
            all_targets[i][o] = sinf(3 * x + o) * cosf(2 * y * (o + 1)) + (x > 0.6f ? 1.5f : 0.0f);
    }
}

int main(int argc, char **argv)
{
    static Priorities priorities;
    static float feature[BATCH][CENTRES], target[BATCH][OUTPUTS], error[BATCH][OUTPUTS], weight[NPARAM];
    int drawn[BATCH], steps = argc > 2 ? atoi(argv[2]) : 80;
    Buffers b;
    make_data();
    for (int i = 0; i < EXAMPLES; ++i)
        priorities.value[i] = 1.0f;
    cuda_try(cudaMalloc((void **)&b.weight, sizeof weight));
    cuda_try(cudaMalloc((void **)&b.grad, sizeof weight));
    cuda_try(cudaMalloc((void **)&b.velocity, sizeof weight));
    cuda_try(cudaMalloc((void **)&b.feature, sizeof feature));
    cuda_try(cudaMalloc((void **)&b.target, sizeof target));
    cuda_try(cudaMalloc((void **)&b.error, sizeof error));
    cuda_try(cudaMemset(b.velocity, 0, sizeof weight));
    for (int i = 0; i < NPARAM; ++i)
        weight[i] = (float)(0.1 * (random_unit() - 0.5));
    cuda_try(cudaMemcpy(b.weight, weight, sizeof weight, cudaMemcpyHostToDevice));

    DDP_PARAMETER(b.weight, NPARAM, DDP_FLOAT32);
    DDP_STATE(b.velocity, NPARAM, DDP_FLOAT32);
    DDP_GRADIENT(b.grad, NPARAM, DDP_FLOAT32);

    for (int step = 0; step < steps; ++step) {
        size_t first, count;
        float loss = 0;
        for (int i = 0; i < BATCH; ++i)
            drawn[i] = draw_example(&priorities);
        DDP_SHARD(BATCH, &first, &count);
        for (size_t i = 0; i < count; ++i) {
            memcpy(feature[i], all_features[drawn[first + i]], sizeof feature[i]);
            memcpy(target[i], all_targets[drawn[first + i]], sizeof target[i]);
        }
        cuda_try(cudaMemcpy(b.feature, feature, count * sizeof feature[0], cudaMemcpyHostToDevice));
        cuda_try(cudaMemcpy(b.target, target, count * sizeof target[0], cudaMemcpyHostToDevice));
        predict<<<2, 64>>>(b.feature, b.target, b.weight, b.error, (int)count);
        gradient<<<NPARAM / 64, 64>>>(b.feature, b.error, b.grad, (int)count);
        DDP_STEP(0);
        nesterov<<<NPARAM / 64, 64>>>(b.weight, b.velocity, b.grad, 0.04f);
        cuda_try(cudaMemcpy(error, b.error, count * sizeof error[0], cudaMemcpyDeviceToHost));
        for (size_t i = 0; i < count; ++i) {
            float e = 0;
            for (int o = 0; o < OUTPUTS; ++o)
                e += error[i][o] * error[i][o];
            loss += e / count;
            priorities.value[drawn[first + i]] = 0.02f + sqrtf(e);
            priorities.age[drawn[first + i]] = step;
        }
        DDP_MEAN_AS("loss", &loss);
        if (step % 10 == 0 && DDP_RANK() == 0)
            printf("step %d loss %.4f\n", step, loss);
    }
    cuda_try(cudaMemcpy(weight, b.weight, sizeof weight, cudaMemcpyDeviceToHost));
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *f = fopen(argv[1], "wb");
        fwrite(weight, sizeof weight, 1, f);
        fclose(f);
    }
    return 0;
}
