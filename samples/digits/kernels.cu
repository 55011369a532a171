/*
 * kernels.cu - see kernels.h. Sums are taken in a fixed order, so that a run repeats bit for bit.
 */
#include "kernels.h"

#include "cuda_check.h"

#include <cuda_runtime.h>

enum { BLOCK = 256 };

static unsigned
blocks_for(int count)
{
    return (unsigned)((count + BLOCK - 1) / BLOCK);
}

__global__ void
bias_add_kernel(float *matrix, const float *bias, int count, int columns)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        matrix[i] += bias[i % columns];
}

__global__ void
relu_forward_kernel(float *y, const float *x, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        y[i] = fmaxf(x[i], 0.0f);
}

__global__ void
relu_backward_kernel(float *dx, const float *dy, const float *y, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        dx[i] = y[i] > 0.0f ? dy[i] : 0.0f;
}

/* One thread a row: ten classes are too few to share. */
__global__ void
softmax_cross_entropy_kernel(float *losses, float *dlogits, const float *logits, const int *labels, int rows,
                             int classes)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows)
        return;
    const float *z = logits + row * classes;
    float *dz = dlogits + row * classes;
    int label = labels[row];

    /* Subtracting the largest logit keeps expf() in range. */
    float largest = z[0];
    for (int c = 1; c < classes; ++c)
        largest = fmaxf(largest, z[c]);
    float sum = 0.0f;
    for (int c = 0; c < classes; ++c)
        sum += expf(z[c] - largest);

    losses[row] = logf(sum) + largest - z[label];
    for (int c = 0; c < classes; ++c)
        dz[c] = (expf(z[c] - largest) / sum - (c == label ? 1.0f : 0.0f)) / rows;
}

/* One thread a column: neighbours read neighbours of each row. */
__global__ void
column_sums_kernel(float *sums, const float *matrix, int rows, int columns, float scale)
{
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    if (column < columns) {
        float sum = 0.0f;
        for (int row = 0; row < rows; ++row)
            sum += matrix[row * columns + column];
        sums[column] = sum * scale;
    }
}

__global__ void
sgd_momentum_kernel(float *value, float *velocity, const float *gradient, float rate, float momentum, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) {
        velocity[i] = momentum * velocity[i] + gradient[i];
        value[i] -= rate * velocity[i];
    }
}

void
bias_add(float *matrix, const float *bias, int rows, int columns)
{
    bias_add_kernel<<<blocks_for(rows * columns), BLOCK>>>(matrix, bias, rows * columns, columns);
    CHECK_CUDA(cudaGetLastError());
}

void
relu_forward(float *y, const float *x, int count)
{
    relu_forward_kernel<<<blocks_for(count), BLOCK>>>(y, x, count);
    CHECK_CUDA(cudaGetLastError());
}

void
relu_backward(float *dx, const float *dy, const float *y, int count)
{
    relu_backward_kernel<<<blocks_for(count), BLOCK>>>(dx, dy, y, count);
    CHECK_CUDA(cudaGetLastError());
}

void
softmax_cross_entropy(float *losses, float *dlogits, const float *logits, const int *labels, int rows, int classes)
{
    softmax_cross_entropy_kernel<<<blocks_for(rows), BLOCK>>>(losses, dlogits, logits, labels, rows, classes);
    CHECK_CUDA(cudaGetLastError());
}

void
column_sums(float *sums, const float *matrix, int rows, int columns, float scale)
{
    column_sums_kernel<<<blocks_for(columns), BLOCK>>>(sums, matrix, rows, columns, scale);
    CHECK_CUDA(cudaGetLastError());
}

void
sgd_momentum(float *value, float *velocity, const float *gradient, float rate, float momentum, int count)
{
    sgd_momentum_kernel<<<blocks_for(count), BLOCK>>>(value, velocity, gradient, rate, momentum, count);
    CHECK_CUDA(cudaGetLastError());
}
