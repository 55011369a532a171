/*
 * allreduce_ddp.cu - DDP_REDUCE of float sums in device memory: ddprun -n N allreduce_ddp. Run by bench/softgpu. Prints
 * one line a size; the time of a call is from there until its stream is done.
 */
#include "allreduce.h"

#include <cuda_runtime.h>
#include <ddprun.h>
#include <stdlib.h>

static void
expect(cudaError_t result, const char *call)
{
    if (result == cudaSuccess)
        return;
    fprintf(stderr, "bench: %s: %s\n", call, cudaGetErrorString(result));
    exit(1);
}

static int
compare_doubles(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

/* Of the slowest rank; all begin together. */
static double
time_once(float *memory, size_t count)
{
    float barrier = 0;
    DDP_MEAN(&barrier);
    double begin = allreduce_now();
    DDP_REDUCE(memory, count, DDP_FLOAT32, DDP_OP_SUM, 0);
    expect(cudaStreamSynchronize(0), "cudaStreamSynchronize");
    double seconds = allreduce_now() - begin;
    DDP_REDUCE(&seconds, 1, DDP_FLOAT64, DDP_OP_MAX, 0);
    return seconds;
}

int
main(void)
{
    for (int s = 0; s < ALLREDUCE_SIZES; ++s) {
        size_t count = allreduce_sizes[s].bytes / sizeof(float);
        float *values = (float *)malloc(count * sizeof(float)), *memory;
        double times[64];
        int repetitions = allreduce_sizes[s].repetitions;
        for (size_t i = 0; i < count; ++i)
            values[i] = (float)(i % 7) * 1e-30f; /* sums of sums stay finite */
        expect(cudaMalloc((void **)&memory, count * sizeof(float)), "cudaMalloc");
        expect(cudaMemcpy(memory, values, count * sizeof(float), cudaMemcpyHostToDevice), "cudaMemcpy");
        for (int i = -2; i < repetitions; ++i) { /* two to warm up */
            double seconds = time_once(memory, count);
            if (i >= 0)
                times[i] = seconds;
        }
        qsort(times, (size_t)repetitions, sizeof(times[0]), compare_doubles);
        if (DDP_RANK() == 0)
            allreduce_print(allreduce_sizes[s].bytes, times[repetitions / 2]);
        expect(cudaFree(memory), "cudaFree");
        free(values);
    }
    return 0;
}
