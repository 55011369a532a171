/*
 * kernels.cu - see kernels.h.
 *
 * Two shapes of launches. Where each element is independent, a block is a row and a thread a column. Where a row is
 * summed up, one thread does a row: rows are short here, and there are thousands of them.
 */
#include "kernels.h"

#include "cuda_check.h"

#include <cuda_runtime.h>

enum { BLOCK = 256, ROWS_BLOCK = 64 };

static unsigned
blocks_for(size_t count, size_t block)
{
    return (unsigned)((count + block - 1) / block);
}

__global__ void
embed_forward_kernel(float *x, const float *tokens, const float *positions, const int *inputs, int length)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int token = inputs[blockIdx.x], position = blockIdx.x % length, width = blockDim.x;
    x[i] = tokens[token * width + threadIdx.x] + positions[position * width + threadIdx.x];
}

/* A block for each token: its rows in their order. */
__global__ void
embed_tokens_backward_kernel(float *dtokens, const float *dx, const int *by_token, const int *starts)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = dtokens[i];
    for (int r = starts[blockIdx.x]; r < starts[blockIdx.x + 1]; ++r)
        sum += dx[by_token[r] * blockDim.x + threadIdx.x];
    dtokens[i] = sum;
}

/* A block for each position. */
__global__ void
embed_positions_backward_kernel(float *dpositions, const float *dx, int rows, int length)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = dpositions[i];
    for (int r = blockIdx.x; r < rows; r += length)
        sum += dx[r * blockDim.x + threadIdx.x];
    dpositions[i] = sum;
}

/* One thread a row. */
__global__ void
layer_norm_statistics_kernel(float *mean, float *scale, const float *x, int rows, int width)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows)
        return;
    const float *in = x + row * width;
    float sum = 0.0f, squares = 0.0f;
    for (int c = 0; c < width; ++c)
        sum += in[c];
    float m = sum / width;
    for (int c = 0; c < width; ++c)
        squares += (in[c] - m) * (in[c] - m);
    mean[row] = m;
    scale[row] = 1.0f / sqrtf(squares / width + 1e-5f);
}

__global__ void
layer_norm_forward_kernel(float *y, const float *mean, const float *scale, const float *x, const float *gain,
                          const float *bias)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = (x[i] - mean[blockIdx.x]) * scale[blockIdx.x] * gain[threadIdx.x] + bias[threadIdx.x];
}

/* One thread a row: the means of dy * gain and of dy * gain * normalised x. */
__global__ void
layer_norm_sums_kernel(float *sums, const float *dy, const float *x, const float *mean, const float *scale,
                       const float *gain, int rows, int width)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows)
        return;
    float m = mean[row], s = scale[row], sum = 0.0f, product = 0.0f;
    for (int c = 0; c < width; ++c) {
        float d = dy[row * width + c] * gain[c];
        sum += d;
        product += d * ((x[row * width + c] - m) * s);
    }
    sums[2 * row] = sum / width;
    sums[2 * row + 1] = product / width;
}

__global__ void
layer_norm_backward_kernel(float *dx, float *dgains, const float *sums, const float *dy, const float *x,
                           const float *mean, const float *scale, const float *gain)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float s = scale[blockIdx.x], normalised = (x[i] - mean[blockIdx.x]) * s;
    dgains[i] = dy[i] * normalised;
    dx[i] += s * (dy[i] * gain[threadIdx.x] - sums[2 * blockIdx.x] - normalised * sums[2 * blockIdx.x + 1]);
}

__global__ void
residual_forward_kernel(float *sum, const float *x, const float *y, const float *bias)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    sum[i] = x[i] + y[i] + bias[threadIdx.x];
}

/*
 * gelu(x) = x / (1 + exp(-2u)), u = sqrt(2/pi) (x + 0.044715 x^3): the same as x (1 + tanh(u)) / 2 (D. Hendrycks, K.
 * Gimpel, "Gaussian error linear units", 2016).
 */
__device__ static inline float
gelu_share(float x)
{
    const float twice_sqrt_2_over_pi = 1.5957691216f;
    return 1.0f / (1.0f + expf(-twice_sqrt_2_over_pi * (x + 0.044715f * x * x * x)));
}

__global__ void
gelu_forward_kernel(float *y, float *x, const float *bias)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float value = x[i] + bias[threadIdx.x];
    x[i] = value;
    y[i] = value * gelu_share(value);
}

__global__ void
gelu_backward_kernel(float *dx, const float *dy, const float *x)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    const float twice_sqrt_2_over_pi = 1.5957691216f;
    float value = x[i], share = gelu_share(value);
    float slope = twice_sqrt_2_over_pi * (1.0f + 3.0f * 0.044715f * value * value);
    dx[i] = dy[i] * (share + value * share * (1.0f - share) * slope);
}

/* One thread a row of scores. */
__global__ void
causal_softmax_forward_kernel(float *scores, int rows, int length)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows)
        return;
    float *s = scores + (size_t)row * length;
    int last = row % length;

    /* Subtracting the largest keeps expf() in range. */
    float largest = s[0];
    for (int c = 1; c <= last; ++c)
        largest = fmaxf(largest, s[c]);
    float sum = 0.0f;
    for (int c = 0; c <= last; ++c) {
        s[c] = expf(s[c] - largest);
        sum += s[c];
    }
    float inverse = 1.0f / sum;
    for (int c = 0; c <= last; ++c)
        s[c] *= inverse;
    for (int c = last + 1; c < length; ++c)
        s[c] = 0.0f;
}

__global__ void
causal_softmax_backward_kernel(float *dshares, const float *shares, int rows, int length)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows)
        return;
    float *d = dshares + (size_t)row * length;
    const float *s = shares + (size_t)row * length;
    float product = 0.0f;
    for (int c = 0; c < length; ++c)
        product += s[c] * d[c];
    for (int c = 0; c < length; ++c)
        d[c] = s[c] * (d[c] - product); /* beyond the diagonal s is 0 */
}

/* One thread a row: a vocabulary of characters is short. */
__global__ void
cross_entropy_kernel(float *losses, float *logits, const int *targets, float factor, int rows, int vocabulary)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows)
        return;
    float *z = logits + row * vocabulary;
    int target = targets[row];
    float largest = z[0];
    for (int c = 1; c < vocabulary; ++c)
        largest = fmaxf(largest, z[c]);
    float at_target = z[target] - largest, sum = 0.0f;
    for (int c = 0; c < vocabulary; ++c) {
        z[c] = expf(z[c] - largest);
        sum += z[c];
    }
    losses[row] = logf(sum) - at_target;
    float scale = factor / sum;
    for (int c = 0; c < vocabulary; ++c)
        z[c] *= scale;
    z[target] -= factor;
}

__global__ void
adamw_kernel(float *values, float *moments1, float *moments2, const float *gradients, const float *norm,
             struct adamw constants, int count, int decayed)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count)
        return;
    float clip = *norm > constants.norm_limit ? constants.norm_limit / *norm : 1.0f;
    float gradient = gradients[i] * clip;
    float m = constants.beta1 * moments1[i] + (1.0f - constants.beta1) * gradient;
    float v = constants.beta2 * moments2[i] + (1.0f - constants.beta2) * gradient * gradient;
    float decay = i < decayed ? constants.decay : 0.0f;
    moments1[i] = m;
    moments2[i] = v;
    values[i] -= constants.rate * (m / constants.correction1 / (sqrtf(v / constants.correction2) + constants.epsilon) +
                                   decay * values[i]);
}

void
embed_forward(float *x, const float *tokens, const float *positions, const int *inputs, int rows, int length, int width)
{
    embed_forward_kernel<<<rows, width>>>(x, tokens, positions, inputs, length);
    CHECK_CUDA(cudaGetLastError());
}

void
embed_backward(float *dtokens, float *dpositions, const float *dx, const int *by_token, const int *starts, int rows,
               int length, int vocabulary, int width)
{
    embed_tokens_backward_kernel<<<vocabulary, width>>>(dtokens, dx, by_token, starts);
    CHECK_CUDA(cudaGetLastError());
    embed_positions_backward_kernel<<<length, width>>>(dpositions, dx, rows, length);
    CHECK_CUDA(cudaGetLastError());
}

void
layer_norm_forward(float *y, float *mean, float *scale, const float *x, const float *gain, const float *bias, int rows,
                   int width)
{
    layer_norm_statistics_kernel<<<blocks_for(rows, ROWS_BLOCK), ROWS_BLOCK>>>(mean, scale, x, rows, width);
    CHECK_CUDA(cudaGetLastError());
    layer_norm_forward_kernel<<<rows, width>>>(y, mean, scale, x, gain, bias);
    CHECK_CUDA(cudaGetLastError());
}

void
layer_norm_backward(float *dx, float *dgains, float *sums, const float *dy, const float *x, const float *mean,
                    const float *scale, const float *gain, int rows, int width)
{
    layer_norm_sums_kernel<<<blocks_for(rows, ROWS_BLOCK), ROWS_BLOCK>>>(sums, dy, x, mean, scale, gain, rows, width);
    CHECK_CUDA(cudaGetLastError());
    layer_norm_backward_kernel<<<rows, width>>>(dx, dgains, sums, dy, x, mean, scale, gain);
    CHECK_CUDA(cudaGetLastError());
}

void
residual_forward(float *sum, const float *x, const float *y, const float *bias, int rows, int columns)
{
    residual_forward_kernel<<<rows, columns>>>(sum, x, y, bias);
    CHECK_CUDA(cudaGetLastError());
}

void
gelu_forward(float *y, float *x, const float *bias, int rows, int columns)
{
    gelu_forward_kernel<<<rows, columns>>>(y, x, bias);
    CHECK_CUDA(cudaGetLastError());
}

void
gelu_backward(float *dx, const float *dy, const float *x, int rows, int columns)
{
    gelu_backward_kernel<<<rows, columns>>>(dx, dy, x);
    CHECK_CUDA(cudaGetLastError());
}

void
causal_softmax_forward(float *scores, int matrices, int length)
{
    int rows = matrices * length;
    causal_softmax_forward_kernel<<<blocks_for(rows, ROWS_BLOCK), ROWS_BLOCK>>>(scores, rows, length);
    CHECK_CUDA(cudaGetLastError());
}

void
causal_softmax_backward(float *dshares, const float *shares, int matrices, int length)
{
    int rows = matrices * length;
    causal_softmax_backward_kernel<<<blocks_for(rows, ROWS_BLOCK), ROWS_BLOCK>>>(dshares, shares, rows, length);
    CHECK_CUDA(cudaGetLastError());
}

void
cross_entropy(float *losses, float *logits, const int *targets, float factor, int rows, int vocabulary)
{
    cross_entropy_kernel<<<blocks_for(rows, ROWS_BLOCK), ROWS_BLOCK>>>(losses, logits, targets, factor, rows,
                                                                       vocabulary);
    CHECK_CUDA(cudaGetLastError());
}

void
adamw_update(float *values, float *moments1, float *moments2, const float *gradients, const float *norm,
             const struct adamw *constants, size_t count, size_t decayed)
{
    adamw_kernel<<<blocks_for(count, BLOCK), BLOCK>>>(values, moments1, moments2, gradients, norm, *constants,
                                                      (int)count, (int)decayed);
    CHECK_CUDA(cudaGetLastError());
}
