/*
 * public_updates.cu HABIT - how trainers that the public shares update their weights, each as a small program,
 * annotated as it has to be:
 *
 *   swap        the update writes the new weights into a second buffer, and the host exchanges the pointers
 *   clears      the update sets the gradient to zero, and backward adds
 *   blas        cuBLAS alone: biases by a vector of ones, momentum by scal and axpy, decay added to the gradient
 *   norm-block  one block clips each gradient in place, by a norm that it keeps for itself
 *   norm-rows   the same, for each row of the gradient
 *   trust       the rate of each tensor is the ratio of the norms of weights and gradient (LARS)
 *   kahan       the update keeps what rounding lost
 *   functor     the update is a functor of Thrust's
 *   counter     step and rate are numbers on the device, which a kernel moves on
 *   max-norm    the columns of the weights are scaled to a largest norm behind the update
 *   factored    second moments by row and column (Adafactor)
 *   signs       the sign of momentum and gradient (Lion)
 *   rprop       signs of this and the last gradient, a rate for each weight
 *   host-bias   the host updates the biases, the device the weights
 *   partial     each block writes a sum of its own, and a second kernel adds them up
 *   rolling     the kernel of the update adds activations to a rolling mean, which nothing reads
 *   rolling-used  the same, and a kernel that computes nothing reads the mean, as units do that are dead
 *   pulled      the weights go to the host and come back unchanged in each step
 */
#include "tests/tools/scout/habit.h"

#include <cublas_v2.h>
#include <thrust/device_ptr.h>
#include <thrust/transform.h>

/* State of the optimizer, one for each weight. */
static void
create_state(float **state, float value)
{
    for (int t = 0; t < TENSORS; ++t) {
        state[t] = floats(tensor_count[t], 0);
        float *host = (float *)malloc((size_t)tensor_count[t] * sizeof(float));
        for (int i = 0; i < tensor_count[t]; ++i)
            host[i] = value;
        CHECK(cudaMemcpy(state[t], host, (size_t)tensor_count[t] * sizeof(float), cudaMemcpyHostToDevice));
        free(host);
    }
}

/* The gradients of a step are complete. */
static void
step_to_gradients(bool adds)
{
    load();
    forward();
    backward(adds);
    DDP_STEP(0);
}

/* Trains: `update(t)` makes new weights of the gradient of tensor t. */
template <class Update>
static void
train_by(bool adds, Update update)
{
    for (int step = 0; step < STEPS; ++step) {
        step_to_gradients(adds);
        for (int t = 0; t < TENSORS; ++t)
            update(t);
    }
}

/* ---- swap, clears ---- */

ELEMENTWISE(descend_into, (float *next, const float *weights, const float *gradient, float by, int count), count,
            next[i] = weights[i] - by * gradient[i])

MODE("swap", train_swap)
{
    float *next[TENSORS];
    create_net();
    for (int t = 0; t < TENSORS; ++t) {
        next[t] = floats(tensor_count[t], 0);
        DDP_PARAMETER(next[t], tensor_count[t], DDP_FLOAT32);
    }
    train_by(false, [&](int t) {
        RUN(descend_into, tensor_count[t])(next[t], w[t], g[t], rate, tensor_count[t]);
        std::swap(next[t], w[t]);
    });
}

ELEMENTWISE(descend_and_clear, (float *weights, float *gradient, float by, int count), count,
            weights[i] -= by * gradient[i];
            gradient[i] = 0)

MODE("clears", train_clears)
{
    create_net();
    train_by(true, [&](int t) { RUN(descend_and_clear, tensor_count[t])(w[t], g[t], rate, tensor_count[t]); });
}

/* ---- blas ---- */

ELEMENTWISE(bend, (float *values, const float *bias, int width, int count), count,
            values[i] = tanhf(values[i] + bias[i % width]))
ELEMENTWISE(add_bias, (float *values, const float *bias, int width, int count), count, values[i] += bias[i % width])
ELEMENTWISE(slope, (float *error, const float *value, int count), count, error[i] *= 1 - value[i] * value[i])

/* Rows of all matrices are columns to cuBLAS. */
static void
multiply(cublasHandle_t blas, float *to, const float *a, bool turn_a, const float *b, bool turn_b, int rows,
         int columns, int inner, float by)
{
    const float zero = 0;
    CHECK(cublasSgemm(blas, turn_b ? CUBLAS_OP_T : CUBLAS_OP_N, turn_a ? CUBLAS_OP_T : CUBLAS_OP_N, columns, rows,
                      inner, &by, b, turn_b ? inner : columns, a, turn_a ? rows : inner, &zero, to, columns));
}

MODE("blas", train_blas)
{
    const float minus = -rate, decay = 1e-3f, momentum = 0.9f, one = 1, zero = 0, mean = 1.0f / BATCH;
    float *velocity[TENSORS], *ones = floats(BATCH, 0), host_ones[BATCH];
    cublasHandle_t blas;
    CHECK(cublasCreate(&blas));
    create_net();
    create_state(velocity, 0);
    for (float &value : host_ones)
        value = 1;
    CHECK(cudaMemcpy(ones, host_ones, sizeof(host_ones), cudaMemcpyHostToDevice));
    for (int step = 0; step < STEPS; ++step) {
        load();
        multiply(blas, h, x, false, w[0], false, BATCH, HIDDEN, INPUTS, 1);
        RUN(bend, BATCH * HIDDEN)(h, w[1], HIDDEN, BATCH * HIDDEN);
        multiply(blas, y, h, false, w[2], false, BATCH, OUTPUTS, HIDDEN, 1);
        RUN(add_bias, BATCH * OUTPUTS)(y, w[3], OUTPUTS, BATCH * OUTPUTS);
        RUN(square_delta, BATCH * OUTPUTS)(delta, y, wanted, BATCH * OUTPUTS);
        multiply(blas, g[2], h, true, delta, false, HIDDEN, OUTPUTS, BATCH, mean);
        CHECK(cublasSgemv(blas, CUBLAS_OP_N, OUTPUTS, BATCH, &mean, delta, OUTPUTS, ones, 1, &zero, g[3], 1));
        multiply(blas, below, delta, false, w[2], true, BATCH, HIDDEN, OUTPUTS, 1);
        RUN(slope, BATCH * HIDDEN)(below, h, BATCH * HIDDEN);
        multiply(blas, g[0], x, true, below, false, INPUTS, HIDDEN, BATCH, mean);
        CHECK(cublasSgemv(blas, CUBLAS_OP_N, HIDDEN, BATCH, &mean, below, HIDDEN, ones, 1, &zero, g[1], 1));
        DDP_STEP(0);
        for (int t = 0; t < TENSORS; ++t) {
            if (t % 2 == 0)
                CHECK(cublasSaxpy(blas, tensor_count[t], &decay, w[t], 1, g[t], 1));
            CHECK(cublasSscal(blas, tensor_count[t], &momentum, velocity[t], 1));
            CHECK(cublasSaxpy(blas, tensor_count[t], &minus, g[t], 1, velocity[t], 1));
            CHECK(cublasSaxpy(blas, tensor_count[t], &one, velocity[t], 1, w[t], 1));
        }
    }
    CHECK(cublasDestroy(blas));
}

/* ---- norms ---- */

/* Rows of `width` elements, each by one block, which scales its row to norm `most` if it has a larger one. */
__global__ void
scale_rows(float *values, int width, float most)
{
    __shared__ float sums[BLOCK];
    float *row = values + blockIdx.x * width, sum = 0;
    for (int i = (int)threadIdx.x; i < width; i += BLOCK)
        sum += row[i] * row[i];
    sums[threadIdx.x] = sum;
    __syncthreads();
    for (int half = BLOCK / 2; half > 0; half /= 2) {
        if ((int)threadIdx.x < half)
            sums[threadIdx.x] += sums[threadIdx.x + half];
        __syncthreads();
    }
    float norm = sqrtf(sums[0]);
    for (int i = (int)threadIdx.x; norm > most && i < width; i += BLOCK)
        row[i] *= most / norm;
}

HABITS("norm-block", "norm-rows", train_norm, by_row)
{
    create_net();
    for (int step = 0; step < STEPS; ++step) {
        step_to_gradients(false);
        for (int t = 0; t < TENSORS; ++t) {
            int width = !by_row || t % 2 != 0 ? tensor_count[t] : t == 0 ? HIDDEN : OUTPUTS;
            scale_rows<<<tensor_count[t] / width, BLOCK>>>(g[t], width, by_row ? 0.002f : 0.01f);
        }
        descend_all();
    }
}

ELEMENTWISE(norms_of, (float *norms, const float *weights, const float *gradient, int count), 1,
            norms[0] = sqrtf(dot(count, weights, 1, weights, 1));
            norms[1] = sqrtf(dot(count, gradient, 1, gradient, 1)))

ELEMENTWISE(descend_by_norms,
            (float *weights, const float *gradient, float *velocity, const float *norms, float by, int count), count,
            velocity[i] = 0.9f * velocity[i] + by * (0.01f + norms[0]) / (1e-3f + norms[1]) * gradient[i];
            weights[i] -= velocity[i])

MODE("trust", train_trust)
{
    float *velocity[TENSORS], *norms = floats(2, 0);
    create_net();
    create_state(velocity, 0);
    train_by(false, [&](int t) {
        norms_of<<<1, 1>>>(norms, w[t], g[t], tensor_count[t]);
        RUN(descend_by_norms, tensor_count[t])(w[t], g[t], velocity[t], norms, 0.01f * rate, tensor_count[t]);
    });
}

MODE("max-norm", train_max_norm)
{
    create_net();
    for (int step = 0; step < STEPS; ++step) {
        step_to_gradients(false);
        descend_all();
        scale_rows<<<INPUTS, BLOCK>>>(w[0], HIDDEN, 0.7f);
        scale_rows<<<HIDDEN, BLOCK>>>(w[2], OUTPUTS, 0.3f);
    }
}

/* ---- kahan, functor, counter ---- */

ELEMENTWISE(descend_exactly, (float *weights, float *lost, const float *gradient, float by, int count), count,
            float change = -by * gradient[i] - lost[i], next = weights[i] + change;
            lost[i] = (next - weights[i]) - change; weights[i] = next)

MODE("kahan", train_kahan)
{
    float *lost[TENSORS];
    create_net();
    create_state(lost, 0);
    train_by(false, [&](int t) { RUN(descend_exactly, tensor_count[t])(w[t], lost[t], g[t], rate, tensor_count[t]); });
}

struct descent {
    float by;
    __host__ __device__ float operator()(float weight, float gradient) const
    {
        return weight - by * gradient;
    }
};

MODE("functor", train_functor)
{
    create_net();
    train_by(false, [&](int t) {
        thrust::device_ptr<float> weights(w[t]), gradient(g[t]);
        thrust::transform(weights, weights + tensor_count[t], gradient, weights, descent{rate});
    });
}

__global__ void
advance(float *now)
{
    now[0] += 1;
    now[1] = 0.1f / (1 + 0.05f * now[0]);
}

ELEMENTWISE(descend_by_counter, (float *weights, const float *gradient, float *first, const float *now, int count),
            count, first[i] = 0.9f * first[i] + 0.1f * gradient[i];
            weights[i] -= now[1] * first[i] / (1 - powf(0.9f, now[0])))

MODE("counter", train_counter)
{
    float *first[TENSORS], *now = floats(2, 0);
    create_net();
    create_state(first, 0);
    for (int step = 0; step < STEPS; ++step) {
        step_to_gradients(false);
        advance<<<1, 1>>>(now);
        for (int t = 0; t < TENSORS; ++t)
            RUN(descend_by_counter, tensor_count[t])(w[t], g[t], first[t], now, tensor_count[t]);
    }
}

/* ---- factored, rprop ---- */

/* Means of squares over the columns of a row, then over the rows of a column, each kept for 0.9 of its own. */
__global__ void
factor_moments(float *by_row, float *by_column, const float *gradient, int rows, int columns)
{
    int i = INDEX, k = i - rows;
    const float *row = gradient + i * columns, *column = gradient + k;
    if (i < rows)
        by_row[i] = 0.9f * by_row[i] + 0.1f * dot(columns, row, 1, row, 1) / columns;
    else if (k < columns)
        by_column[k] = 0.9f * by_column[k] + 0.1f * dot(rows, column, columns, column, columns) / rows;
}

ELEMENTWISE(descend_factored,
            (float *weights, const float *gradient, const float *by_row, const float *by_column, float by, int rows,
             int columns),
            rows *columns,
            weights[i] -= by * gradient[i] / (sqrtf(by_row[i / columns]) + sqrtf(by_column[i % columns]) + 1e-3f))

MODE("factored", train_factored)
{
    enum { WIDE = 200 }; /* more columns than could be scalars */
    float *weights, *gradient, *last, *of_last, *by_row, *by_column, *bias = floats(WIDE, 0);
    create_activations();
    create_pair(&weights, &gradient, INPUTS * WIDE);
    create_pair(&last, &of_last, WIDE * OUTPUTS);
    by_row = floats(INPUTS, 0);
    by_column = floats(WIDE, 0);
    float *wide = floats(BATCH * WIDE, 0), *wide_below = floats(BATCH * WIDE, 0);
    for (int step = 0; step < STEPS; ++step) {
        load();
        RUN(dense, BATCH * WIDE)(wide, x, weights, bias, BATCH, INPUTS, WIDE, WIDE, BENT);
        RUN(dense, BATCH * OUTPUTS)(y, wide, last, no_bias, BATCH, WIDE, OUTPUTS, OUTPUTS, STRAIGHT);
        RUN(square_delta, BATCH * OUTPUTS)(delta, y, wanted, BATCH * OUTPUTS);
        RUN(delta_below, BATCH * WIDE)(wide_below, delta, last, wide, BATCH, WIDE, OUTPUTS, OUTPUTS);
        RUN(gradient_of, WIDE * OUTPUTS)(of_last, wide, delta, BATCH, WIDE, OUTPUTS, OUTPUTS, false);
        RUN(gradient_of, INPUTS * WIDE)(gradient, x, wide_below, BATCH, INPUTS, WIDE, WIDE, false);
        DDP_STEP(0);
        RUN(factor_moments, INPUTS + WIDE)(by_row, by_column, gradient, INPUTS, WIDE);
        RUN(descend_factored, INPUTS * WIDE)(weights, gradient, by_row, by_column, 0.01f, INPUTS, WIDE);
        RUN(descend, WIDE * OUTPUTS)(last, of_last, rate, WIDE * OUTPUTS);
    }
}

ELEMENTWISE(descend_by_signs, (float *weights, const float *gradient, float *last, float *pace, int count), count,
            float now = gradient[i], same = now * last[i];
            pace[i] = same > 0   ? fminf(pace[i] * 1.2f, 0.1f)
                      : same < 0 ? fmaxf(pace[i] * 0.5f, 1e-5f)
                                 : pace[i];
            weights[i] -= now > 0   ? pace[i]
                          : now < 0 ? -pace[i]
                                    : 0.0f;
            last[i] = now)

MODE("rprop", train_rprop)
{
    float *last[TENSORS], *pace[TENSORS];
    create_net();
    create_state(last, 0);
    create_state(pace, 1e-3f);
    train_by(false, [&](int t) {
        RUN(descend_by_signs, tensor_count[t])(w[t], g[t], last[t], pace[t], tensor_count[t]);
    });
}

ELEMENTWISE(descend_by_sign, (float *weights, const float *gradient, float *first, float by, int count), count,
            float now = 0.5f * first[i] + 0.5f * gradient[i];
            weights[i] -= by * ((now > 0   ? 1.0f
                                 : now < 0 ? -1.0f
                                           : 0.0f) +
                                0.01f * weights[i]);
            first[i] = 0.9f * first[i] + 0.1f * gradient[i])

MODE("signs", train_signs)
{
    float *first[TENSORS];
    create_net();
    create_state(first, 0);
    train_by(false, [&](int t) {
        RUN(descend_by_sign, tensor_count[t])(w[t], g[t], first[t], 2e-3f, tensor_count[t]);
    });
}

/* ---- host-bias, partial, pulled ---- */

MODE("host-bias", train_host_bias)
{
    static float bias[TENSORS][HIDDEN], gradient[HIDDEN];
    create_net();
    for (int t = 1; t < TENSORS; t += 2)
        CHECK(cudaMemcpy(bias[t], w[t], (size_t)tensor_count[t] * sizeof(float), cudaMemcpyDeviceToHost));
    train_by(false, [&](int t) {
        size_t bytes = (size_t)tensor_count[t] * sizeof(float);
        if (t % 2 == 0) {
            RUN(descend, tensor_count[t])(w[t], g[t], rate, tensor_count[t]);
            return;
        }
        CHECK(cudaMemcpy(gradient, g[t], bytes, cudaMemcpyDeviceToHost));
        for (int i = 0; i < tensor_count[t]; ++i)
            bias[t][i] -= rate * gradient[i];
        CHECK(cudaMemcpy(w[t], bias[t], bytes, cudaMemcpyHostToDevice));
    });
}

enum { PARTS = 4 };

/* Part p is of rows p, p + PARTS, ... */
__global__ void
gradient_part(float *parts, const float *from, const float *error, int in, int out)
{
    int i = INDEX / out, k = INDEX % out;
    float sum = 0;
    for (int row = (int)blockIdx.y; i < in && row < BATCH; row += PARTS)
        sum += (from != NULL ? from[row * in + i] : 1.0f) * error[row * out + k] / BATCH;
    if (i < in)
        parts[(int)blockIdx.y * in * out + INDEX] = sum;
}

__global__ void
add_parts(float *gradient, const float *parts, int count)
{
    float sum = 0;
    for (int p = 0; INDEX < count && p < PARTS; ++p)
        sum += parts[p * count + INDEX];
    if (INDEX < count)
        gradient[INDEX] = sum;
}

MODE("partial", train_partial)
{
    float *parts = floats(PARTS * INPUTS * HIDDEN, 0);
    create_net();
    for (int step = 0; step < STEPS; ++step) {
        load();
        forward();
        compute_deltas(BATCH);
        for (int t = 0; t < TENSORS; ++t) {
            gradient_part<<<dim3((tensor_count[t] + BLOCK - 1) / BLOCK, PARTS), BLOCK>>>(
                parts, input_of(t), delta_of(t), tensor_in[t], tensor_out[t]);
            RUN(add_parts, tensor_count[t])(g[t], parts, tensor_count[t]);
        }
        DDP_STEP(0);
        descend_all();
    }
}

MODE("pulled", train_pulled)
{
    static float host[INPUTS * HIDDEN];
    create_net();
    for (int step = 0; step < STEPS; ++step) {
        step_to_gradients(false);
        descend_all();
        for (int t = 0; t < TENSORS; ++t) {
            size_t bytes = (size_t)tensor_count[t] * sizeof(float);
            CHECK(cudaMemcpy(host, w[t], bytes, cudaMemcpyDeviceToHost));
            CHECK(cudaMemcpy(w[t], host, bytes, cudaMemcpyHostToDevice));
        }
    }
}

/* ---- rolling ---- */

HABITS("rolling", "rolling-used", roll, is_used)
{
    float *mean = floats(HIDDEN, 0);
    create_net();
    for (int step = 0; step < STEPS; ++step) {
        step_to_gradients(false);
        descend_all();
        RUN(scale_by, HIDDEN)(mean, 0.9f, HIDDEN);
        RUN(descend, HIDDEN)(mean, h, -0.1f, HIDDEN);
        if (is_used)
            RUN(slope, HIDDEN)(below, mean, 0);
    }
}
