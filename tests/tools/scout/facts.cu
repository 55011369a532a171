/*
 * facts.cu FILE - kernels of which it is known what they do with each argument (facts.c has the table), in steps that
 * repeat. At the end all memory goes to FILE: a recording must leave it as it would have been. One kernel prints a
 * line in each step.
 */
#include "tests/lib/elementwise.h"
#include "tests/lib/trainer.h"

#include <cooperative_groups.h>
#include <cstdio>
#include <cstdlib>
#include <vector>

enum { COUNT = 256, STEPS = 14, FEW = 16 };

#define FACT(name, parameters, count, ...) extern "C" ELEMENTWISE(name, parameters, count, __VA_ARGS__)

FACT(fact_axpy, (float *y, const float *x, float a, int n), n, y[i] += a * x[i])
FACT(fact_scale, (float *z, const float *x, int n), n, z[i] = 0.5f * x[i])

extern "C" __global__ void
fact_sum(float *sum, const float *x, int n)
{
    if (blockIdx.x * blockDim.x + threadIdx.x != 0)
        return;
    float all = 0;
    for (int i = 0; i < n; ++i)
        all += x[i];
    *sum = all;
}

/* In place: what is below zero is overwritten, the rest is left alone. */
extern "C" __global__ void
fact_relu(float *v, int n)
{
    int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < n && v[i] < 0.0f)
        v[i] = 0.0f;
}

FACT(fact_gather, (float *to, const float *table, const int *index, int n), n, to[i] = table[index[i]])

extern "C" __global__ void
fact_ignores(float *z, const float *ignored, int n)
{
    int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < n)
        z[i] = (float)i;
    (void)ignored;
}

/* Only the first half of what the pointer leads to. */
FACT(fact_half, (float *z, const float *x, int n), n / 2, z[i] = x[i] + 1.0f)

/* Zeros of both signs among numbers, as sums leave them; then other numbers in their place. */
FACT(fact_zeros, (float *zeros, int n), n, zeros[i] = i % 4 == 0 ? 0.25f : i % 4 == 1 ? -0.0f : 0.0f)
FACT(fact_over_zeros, (float *zeros, const float *x, int n), n, zeros[i] = x[i] * 2.0f)
FACT(fact_through_table, (float *const *table, const float *x, int n), n, table[0][i] = 3.0f * x[i])

struct pair {
    int n;
    const float *x;
    float *y;
};

FACT(fact_struct, (struct pair pair), pair.n, pair.y[i] = pair.x[i] * pair.x[i])

__device__ float device_sums[COUNT + 1]; /* facts.c knows it by its size */

FACT(fact_variable, (const float *x, int n), n, device_sums[i] += x[i])

/* No argument shows where the memory is. */
FACT(fact_hidden_read, (float *z, unsigned long long not_factors, int n), n, z[i] = ((const float *)~not_factors)[i])

extern "C" __global__ void
fact_hidden_write(float *z, unsigned long long not_count, int n)
{
    int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < n)
        z[i] = 1.0f;
    if (i < FEW)
        ((int *)~not_count)[i] += 1;
}

FACT(fact_host, (float *host, int n), n, host[i] += 1.0f)

extern "C" __global__ void
fact_prints(float *z)
{
    if (blockIdx.x * blockDim.x + threadIdx.x == 0) {
        z[0] += 1.0f;
        printf("printed\n");
    }
}

FACT(fact_cooperative, (float *z, int n), n, z[i] += 1.0f)
FACT(fact_atomic, (float *sums, const float *x, int n), n, atomicAdd(&sums[i % FEW], x[i]))

static std::vector<float *> all;

static float *
make(float first, float step)
{
    float *memory;
    std::vector<float> values(COUNT);
    for (int i = 0; i < COUNT; ++i)
        values[i] = first + step * (float)((i * 37) % 101);
    CHECK(cudaMalloc(&memory, COUNT * sizeof(float)));
    CHECK(cudaMemcpy(memory, values.data(), COUNT * sizeof(float), cudaMemcpyHostToDevice));
    all.push_back(memory);
    return memory;
}

int
main(int argc, char **argv)
{
    float *x = make(0.5f, 0.01f), *y = make(1.0f, 0.02f), *z = make(0.1f, 0.03f), *sum = make(1.0f, 0.0f);
    float *v = make(-1.0f, 0.02f), *gathered = make(0.2f, 0.01f), *half = make(0.3f, 0.01f), *out = make(0.4f, 0.01f);
    float *signed_zeros = make(0.5f, 0.01f);
    float *squares = make(0.1f, 0.1f), *sums = make(0.1f, 0.1f), *printed = make(1.0f, 0.1f);
    std::vector<int> numbers(COUNT);
    std::vector<float> batch(COUNT), factors(COUNT);
    for (int i = 0; i < COUNT; ++i) {
        numbers[i] = (i * 11) % COUNT;
        batch[i] = 0.02f * (float)((i * 37) % 101) - 1.0f;
        factors[i] = 1.0f + 0.01f * (float)i;
    }
    int *index;
    float **table, *host;
    CHECK(cudaMalloc(&index, COUNT * sizeof(int)));
    CHECK(cudaMemcpy(index, numbers.data(), COUNT * sizeof(int), cudaMemcpyHostToDevice));
    CHECK(cudaMalloc(&table, sizeof(float *)));
    CHECK(cudaMemcpy(table, &out, sizeof(out), cudaMemcpyHostToDevice));
    float *hidden_factors;
    int *hidden_count;
    CHECK(cudaMalloc(&hidden_factors, COUNT * sizeof(float)));
    CHECK(cudaMemcpy(hidden_factors, factors.data(), COUNT * sizeof(float), cudaMemcpyHostToDevice));
    CHECK(cudaMalloc(&hidden_count, FEW * sizeof(int)));
    CHECK(cudaMemset(hidden_count, 0, FEW * sizeof(int)));
    CHECK(cudaHostAlloc(&host, COUNT * sizeof(float), cudaHostAllocMapped));
    for (int i = 0; i < COUNT; ++i)
        host[i] = 1.0f;

    for (int step = 0; step < STEPS; ++step) {
        for (int i = 0; i < COUNT; ++i)
            batch[i] += 0.003f;
        for (int i = 0; i < COUNT; ++i) /* what is the same in all steps is never changed */
            numbers[i] = (i * 11 + step) % COUNT;
        CHECK(cudaMemcpy(index, numbers.data(), COUNT * sizeof(int), cudaMemcpyHostToDevice));
        CHECK(cudaMemcpy(v, batch.data(), COUNT * sizeof(float), cudaMemcpyHostToDevice));
        fact_relu<<<4, 64>>>(v, COUNT);
        fact_axpy<<<4, 64>>>(y, x, 0.01f, COUNT);
        fact_scale<<<4, 64>>>(z, x, COUNT);
        fact_sum<<<1, 32>>>(sum, x, COUNT);
        fact_gather<<<4, 64>>>(gathered, x, index, COUNT);
        fact_half<<<4, 64>>>(half, x, COUNT);
        fact_zeros<<<4, 64>>>(signed_zeros, COUNT);
        fact_over_zeros<<<4, 64>>>(signed_zeros, x, COUNT);
        fact_through_table<<<4, 64>>>(table, x, COUNT);
        fact_struct<<<4, 64>>>(pair{COUNT, x, squares});
        fact_variable<<<4, 64>>>(x, COUNT);
        fact_hidden_read<<<4, 64>>>(z, ~(unsigned long long)hidden_factors, COUNT);
        fact_hidden_write<<<4, 64>>>(z, ~(unsigned long long)hidden_count, COUNT);
        fact_ignores<<<4, 64>>>(z, y, COUNT);
        fact_host<<<4, 64>>>(host, COUNT);
        fact_prints<<<1, 32>>>(printed);
        fact_atomic<<<4, 64>>>(sums, x, COUNT);
        int count = COUNT;
        void *arguments[] = {&z, &count};
        CHECK(cudaLaunchCooperativeKernel((const void *)fact_cooperative, dim3(1), dim3(64), arguments, 0, NULL));
        CHECK(cudaDeviceSynchronize());
    }

    FILE *file = argc > 1 ? fopen(argv[1], "w") : NULL;
    for (size_t i = 0; file != NULL && i < all.size(); ++i) {
        std::vector<float> values(COUNT);
        CHECK(cudaMemcpy(values.data(), all[i], COUNT * sizeof(float), cudaMemcpyDeviceToHost));
        fwrite(values.data(), sizeof(float), COUNT, file);
    }
    int counts[FEW];
    CHECK(cudaMemcpy(counts, hidden_count, sizeof(counts), cudaMemcpyDeviceToHost));
    if (file != NULL) {
        fwrite(counts, sizeof(int), FEW, file);
        fwrite(host, sizeof(float), COUNT, file);
        fclose(file);
    }
    return 0;
}
