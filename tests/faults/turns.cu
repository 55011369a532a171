/* turns.cu - see turns.h. */
#include "tests/faults/turns.h"

__global__ void
subtract(float *gradient, const float *weight, const float *batch, int count)
{
    int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < count)
        gradient[i] = weight[i] - (batch[i] + batch[count + i]) / TURNS_ROWS;
}

__global__ void
descend(float *weight, const float *gradient, int count)
{
    int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < count)
        weight[i] -= TURNS_RATE * gradient[i];
}

enum { THREADS = 64 };

void
turns_gradient(float *gradient, const float *weight, const float *batch, int count)
{
    subtract<<<(count + THREADS - 1) / THREADS, THREADS>>>(gradient, weight, batch, count);
}

void
turns_update(float *weight, const float *gradient, int count)
{
    descend<<<(count + THREADS - 1) / THREADS, THREADS>>>(weight, gradient, count);
}
