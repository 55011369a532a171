/*
 * updates.cu HABIT - how public programs update their weights. See net.h, and the table at the end.
 */
#include "net.h"

#include <cublas_v2.h>

/* ---- without a gradient of its own, or without one place for all ---- */

static void
train_in_backward(void)
{
    create_net(false);
    float *gradient[TENSORS];
    for (int t = 0; t < TENSORS; ++t)
        gradient[t] = floats(tensor_count[t], 0);
    for (int step = 0; turn(step, steps); ++step) {
        load(step);
        forward(BATCH);
        for (int t = TENSORS - 1; t >= 0; --t) {
            if (t == 1)
                backward_below(BATCH);
            backward_tensor(gradient[t], t, BATCH);
            sgd_tensor(t, gradient[t]);
        }
        print_loss(step, read_loss());
    }
}

static void
train_one_buffer(void)
{
    create_net(false);
    float *gradient = floats(INPUTS * HIDDEN, 0);
    for (int step = 0; turn(step, steps); ++step) {
        load(step);
        forward(BATCH);
        backward_below(BATCH);
        for (int t = TENSORS - 1; t >= 0; --t) {
            backward_tensor(gradient, t, BATCH);
            sgd_tensor(t, gradient);
        }
        print_loss(step, read_loss());
    }
}

static void
train_allocated(void)
{
    create_net(false);
    for (int step = 0; turn(step, steps); ++step) {
        load(step);
        forward(BATCH);
        backward_below(BATCH);
        float *gradient[TENSORS];
        for (int t = 0; t < TENSORS; ++t) {
            CHECK(cudaMalloc(&gradient[t], (size_t)tensor_count[t] * sizeof(float)));
            backward_tensor(gradient[t], t, BATCH);
        }
        for (int t = 0; t < TENSORS; ++t) {
            sgd_tensor(t, gradient[t]);
            CHECK(cudaFree(gradient[t]));
        }
        print_loss(step, read_loss());
    }
}

/* Rows of all matrices are columns to cuBLAS. */
static void
descend_by_gemm(cublasHandle_t blas, float *weights, const float *from, const float *delta, int in, int out)
{
    const float one = 1, minus = -rate;
    CHECK(
        cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_T, out, in, BATCH, &minus, delta, out, from, in, &one, weights, out));
}

static void
train_gemm_update(void)
{
    cublasHandle_t blas;
    CHECK(cublasCreate(&blas));
    create_net(false);
    float *ones = floats(BATCH, 0), host_ones[BATCH];
    for (float &value : host_ones)
        value = 1;
    CHECK(cudaMemcpy(ones, host_ones, sizeof(host_ones), cudaMemcpyHostToDevice));
    for (int step = 0; turn(step, steps); ++step) {
        load(step);
        forward(BATCH);
        backward_below(BATCH);
        descend_by_gemm(blas, w[2], h, delta, HIDDEN, CLASSES);
        descend_by_gemm(blas, w[3], ones, delta, 1, CLASSES);
        descend_by_gemm(blas, w[0], x, below, INPUTS, HIDDEN);
        descend_by_gemm(blas, w[1], ones, below, 1, HIDDEN);
        print_loss(step, read_loss());
    }
    CHECK(cublasDestroy(blas));
}

__global__ void
learn(float *weights, float *bias, const float *from, const float *delta, float rate, int in, int out)
{
    int i = INDEX / out, k = INDEX % out;
    for (int row = 0; row < BATCH && i < in; ++row)
        weights[i * out + k] += rate * from[row * in + i] * -delta[row * out + k];
    for (int row = 0; row < BATCH && i == in; ++row)
        bias[k] += rate * -delta[row * out + k];
}

static void
train_delta_rule(void)
{
    create_net(false);
    for (int step = 0; turn(step, steps); ++step) {
        load(step);
        forward(BATCH);
        backward_below(BATCH);
        RUN(learn, (HIDDEN + 1) * CLASSES)(w[2], w[3], h, delta, rate, HIDDEN, CLASSES);
        RUN(learn, (INPUTS + 1) * HIDDEN)(w[0], w[1], x, below, rate, INPUTS, HIDDEN);
        print_loss(step, read_loss());
    }
}

/* ---- two optimizers ---- */

/* Derivative and loss of a logistic unit. */
__global__ void
judge(float *delta, float *losses, const float *score, float wanted, int rows)
{
    if (INDEX >= rows)
        return;
    float belief = 1 / (1 + expf(-score[INDEX]));
    delta[INDEX] = (belief - wanted) / rows;
    losses[INDEX] = -logf(wanted > 0 ? belief : 1 - belief);
}

__global__ void
momentum(float *weights, float *velocity, const float *gradient, float rate, int count)
{
    if (INDEX >= count)
        return;
    velocity[INDEX] = 0.8f * velocity[INDEX] + gradient[INDEX];
    weights[INDEX] -= rate * velocity[INDEX];
}

/* A generator of one layer and a discriminator of one unit, each with an optimizer of its own. */
static void
train_two_optimizers(void)
{
    enum { NOISE = 8, MADE = NOISE * INPUTS };
    static float host_noise[BATCH][NOISE];
    create_activations();
    float *noise = floats(BATCH * NOISE, 0), *fake = floats(BATCH * INPUTS, 0), *below_fake = floats(BATCH * INPUTS, 0);
    float *generator = floats(MADE, 0.4f), *of_generator = floats(MADE, 0), *discriminator = floats(INPUTS, 0.4f);
    float *of_discriminator = floats(INPUTS, 0), *velocity = floats(INPUTS, 0);
    keep("generator", generator, MADE);
    keep("discriminator", discriminator, INPUTS);
    keep("velocity", velocity, INPUTS);
    for (int step = 0; turn(step, steps); ++step) {
        load(step);
        for (int i = 0; i < BATCH * NOISE; ++i)
            host_noise[i / NOISE][i % NOISE] = random_number() - 0.5f;
        CHECK(cudaMemcpy(noise, host_noise, sizeof(host_noise), cudaMemcpyHostToDevice));
        RUN(dense<float>, BATCH * INPUTS)(fake, noise, generator, NULL, BATCH, NOISE, INPUTS, true);
        for (int real = 0; real < 2; ++real) {
            float *seen = real != 0 ? x : fake;
            RUN(dense<float>, BATCH)(y, seen, discriminator, NULL, BATCH, INPUTS, 1, false);
            RUN(judge, BATCH)(delta, losses, y, (float)real, BATCH);
            RUN(gradient, INPUTS)(of_discriminator, seen, delta, BATCH, INPUTS, 1);
            RUN(momentum, INPUTS)(discriminator, velocity, of_discriminator, 0.05f, INPUTS);
        }
        RUN(dense<float>, BATCH)(y, fake, discriminator, NULL, BATCH, INPUTS, 1, false);
        RUN(judge, BATCH)(delta, losses, y, 1.0f, BATCH);
        mean<<<1, 1>>>(loss, losses, BATCH);
        RUN(propagate, BATCH * INPUTS)(below_fake, delta, discriminator, fake, BATCH, INPUTS, 1);
        RUN(gradient, MADE)(of_generator, noise, below_fake, BATCH, NOISE, INPUTS);
        RUN(sgd, MADE)(generator, of_generator, 0.2f, MADE);
        print_loss(step, read_loss());
    }
}

/* ---- between gradients and weights, and beside the weights ---- */

__global__ void
add_squares(float *sum, const float *values, int count, bool first)
{
    float squares = first ? 0.0f : *sum;
    for (int i = 0; i < count; ++i)
        squares += values[i] * values[i];
    *sum = squares;
}

__global__ void
clip(float *values, const float *squares, float most, int count)
{
    if (INDEX<count && * squares> most * most)
        values[INDEX] *= most / sqrtf(*squares);
}

static void
train_clip(void)
{
    create_net(true);
    float *squares = floats(1, 0);
    for (int step = 0; turn(step, steps); ++step) {
        load(step);
        forward(BATCH);
        backward(BATCH);
        print_loss(step, read_loss());
        if (!update_due())
            continue;
        for (int t = 0; t < TENSORS; ++t)
            add_squares<<<1, 1>>>(squares, g[t], tensor_count[t], t == 0);
        for (int t = 0; t < TENSORS; ++t) {
            RUN(clip, tensor_count[t])(g[t], squares, 0.3f, tensor_count[t]);
            sgd_tensor(t, g[t]);
        }
    }
}

__global__ void
average(float *ema, const float *weights, int count)
{
    if (INDEX < count)
        ema[INDEX] = 0.95f * ema[INDEX] + 0.05f * weights[INDEX];
}

static void
train_ema(void)
{
    create_net(true);
    float *ema[TENSORS];
    for (int t = 0; t < TENSORS; ++t) {
        ema[t] = floats(tensor_count[t], 0);
        keep("ema", ema[t], tensor_count[t]);
    }
    for (int step = 0; turn(step, steps); ++step) {
        load(step);
        forward(BATCH);
        backward(BATCH);
        print_loss(step, read_loss());
        if (!update_due())
            continue;
        for (int t = 0; t < TENSORS; ++t) {
            sgd_tensor(t, g[t]);
            RUN(average, tensor_count[t])(ema[t], w[t], tensor_count[t]);
        }
    }
}

__global__ void
rmsprop(float *weights, float *squares, const float *gradient, float rate, int count)
{
    if (INDEX >= count)
        return;
    squares[INDEX] = 0.9f * squares[INDEX] + 0.1f * gradient[INDEX] * gradient[INDEX];
    weights[INDEX] -= rate * gradient[INDEX] / (sqrtf(squares[INDEX]) + 1e-3f);
}

static void
train_rmsprop(void)
{
    create_net(true);
    float *squares[TENSORS];
    for (int t = 0; t < TENSORS; ++t) {
        squares[t] = floats(tensor_count[t], 0);
        keep("squares", squares[t], tensor_count[t]);
    }
    for (int step = 0; turn(step, steps); ++step) {
        load(step);
        forward(BATCH);
        backward(BATCH);
        print_loss(step, read_loss());
        bool due = update_due();
        for (int t = 0; due && t < TENSORS; ++t)
            RUN(rmsprop, tensor_count[t])(w[t], squares[t], g[t], 0.005f, tensor_count[t]);
    }
}

/* Momentum in bytes: each block of BLOCK has a scale. */
__global__ void
momentum_in_bytes(float *weights, int8_t *moments, float *scales, const float *gradient, float rate, int count)
{
    int first = INDEX * BLOCK, end = min(first + BLOCK, count);
    float most = 0, moment[BLOCK];
    for (int i = first; i < end; ++i) {
        moment[i - first] = 0.8f * moments[i] * scales[INDEX] + gradient[i];
        most = fmaxf(most, fabsf(moment[i - first]));
        weights[i] -= rate * moment[i - first];
    }
    for (int i = first; i < end; ++i)
        moments[i] = (int8_t)rintf(most > 0 ? 127 * moment[i - first] / most : 0.0f);
    if (first < end)
        scales[INDEX] = most / 127;
}

static void
train_moments8(void)
{
    create_net(true);
    int8_t *moments[TENSORS];
    float *scales[TENSORS];
    for (int t = 0; t < TENSORS; ++t) {
        int count = tensor_count[t], blocks = (count + BLOCK - 1) / BLOCK;
        moments[t] = (int8_t *)allocate((size_t)count);
        CHECK(cudaMemset(moments[t], 0, (size_t)count));
        scales[t] = floats(blocks, 0);
        keep_as(INT8, "moments", moments[t], (size_t)count, oracle.by_gradients ? STATE : OWN);
        keep("scales", scales[t], (size_t)blocks, oracle.by_gradients ? STATE : OWN);
    }
    for (int step = 0; turn(step, steps); ++step) {
        load(step);
        forward(BATCH);
        backward(BATCH);
        print_loss(step, read_loss());
        bool due = update_due();
        for (int t = 0; due && t < TENSORS; ++t)
            RUN(momentum_in_bytes, (tensor_count[t] + BLOCK - 1) / BLOCK)
        (w[t], moments[t], scales[t], g[t], 0.05f, tensor_count[t]);
    }
}

/* ---- half ---- */

__global__ void
to_half(__half *to, const float *from, int count)
{
    if (INDEX < count)
        to[INDEX] = __float2half(from[INDEX]);
}

__global__ void
find_overflow(int *found, const __half *gradient, int count)
{
    if (INDEX < count && !isfinite(__half2float(gradient[INDEX])))
        *found = 1;
}

__global__ void
sgd_half(float *weights, __half *copy, const __half *gradient, float rate, int count)
{
    if (INDEX >= count)
        return;
    weights[INDEX] -= rate * __half2float(gradient[INDEX]);
    copy[INDEX] = __float2half(weights[INDEX]);
}

/* Master weights in float32; the loss is scaled, by `factor` from 20 steps without overflow to the next. */
static void
train_half_by(float scale, float factor)
{
    __half *copy[TENSORS], *gradients[TENSORS];
    int *found = (int *)allocate(sizeof(int)), host_found, good = 0;
    create_net(false);
    for (int t = 0; t < TENSORS; ++t) {
        size_t count = (size_t)tensor_count[t];
        copy[t] = (__half *)allocate(count * sizeof(__half));
        gradients[t] = (__half *)allocate(count * sizeof(__half));
        RUN(to_half, tensor_count[t])(copy[t], w[t], tensor_count[t]);
        keep_as(HALF, "copy", copy[t], count, STATE);
        keep_as(HALF, "gradient", gradients[t], count, GRADIENT);
    }
    for (int step = 0; turn(step, steps); ++step) {
        load(step);
        RUN(dense, BATCH * HIDDEN)(h, x, copy[0], copy[1], BATCH, INPUTS, HIDDEN, true);
        RUN(dense, BATCH * CLASSES)(y, h, copy[2], copy[3], BATCH, HIDDEN, CLASSES, false);
        RUN(softmax, BATCH)(delta, losses, y, labels, BATCH, scale);
        mean<<<1, 1>>>(loss, losses, BATCH);
        RUN(propagate, BATCH * HIDDEN)(below, delta, copy[2], h, BATCH, HIDDEN, CLASSES);
        for (int t = TENSORS - 1; t >= 0; --t) {
            int in = t == 0 ? INPUTS : t == 2 ? HIDDEN : 1, out = t < 2 ? HIDDEN : CLASSES;
            RUN(gradient, in * out)
            (gradients[t], t == 0 ? x : t == 2 ? h : NULL, t < 2 ? below : delta, BATCH, in, out);
        }
        bool due = update_due();
        if (due)
            CHECK(cudaMemset(found, 0, sizeof(int)));
        for (int t = 0; due && t < TENSORS; ++t)
            RUN(find_overflow, tensor_count[t])(found, gradients[t], tensor_count[t]);
        CHECK(cudaMemcpy(&host_found, found, sizeof(int), cudaMemcpyDeviceToHost));
        for (int t = 0; due && host_found == 0 && t < TENSORS; ++t)
            RUN(sgd_half, tensor_count[t])(w[t], copy[t], gradients[t], rate / scale, tensor_count[t]);
        printf("step %d loss %.6f scale %g\n", step, read_loss(), scale);
        good = host_found != 0 ? 0 : good + 1;
        scale *= host_found != 0 ? 1 / factor : good % 20 == 0 ? factor : 1.0f;
    }
}

static void
train_half(void)
{
    train_half_by(1024, 1);
}

static void
train_half_scaling(void)
{
    train_half_by(65536, 4);
}

/* ---- weights of another kind ---- */

__device__ float device_bias[CLASSES];

__global__ void
add_device_bias(float *y, int rows)
{
    if (INDEX < rows * CLASSES)
        y[INDEX] += device_bias[INDEX % CLASSES];
}

__global__ void
sgd_device_bias(const float *gradient, float rate)
{
    if (INDEX < CLASSES)
        device_bias[INDEX] -= rate * gradient[INDEX];
}

static void
keep_device_bias(void)
{
    float *memory;
    CHECK(cudaGetSymbolAddress((void **)&memory, device_bias));
    keep("device_bias", memory, CLASSES);
}

/* The last bias is a __device__ variable, whose address the program needs for its file only. */
static void
train_device_weight(void)
{
    float host_bias[CLASSES] = {0.1f, -0.1f};
    create_net(true);
    if (oracle.ranks > 0)
        keep_device_bias();
    CHECK(cudaMemcpyToSymbol(device_bias, host_bias, sizeof(host_bias)));
    for (int step = 0; turn(step, steps); ++step) {
        load(step);
        hidden(BATCH);
        RUN(dense<float>, BATCH * CLASSES)(y, h, w[2], NULL, BATCH, HIDDEN, CLASSES, false);
        RUN(add_device_bias, BATCH * CLASSES)(y, BATCH);
        RUN(softmax, BATCH)(delta, losses, y, labels, BATCH, 1.0f);
        mean<<<1, 1>>>(loss, losses, BATCH);
        backward(BATCH);
        print_loss(step, read_loss());
        if (!update_due())
            continue;
        for (int t = 0; t < TENSORS - 1; ++t)
            sgd_tensor(t, g[t]);
        RUN(sgd_device_bias, CLASSES)(g[3], rate);
    }
    if (oracle.ranks == 0)
        keep_device_bias();
}

__global__ void
add_gate(float *y, const float *gate, int rows)
{
    if (INDEX < rows * CLASSES)
        y[INDEX] += fmaxf(gate[INDEX % CLASSES], 0.0f);
}

__global__ void
gradient_of_gate(float *to, const float *gate, const float *delta, int rows)
{
    float sum = 0;
    for (int row = 0; row < rows && INDEX < CLASSES; ++row)
        sum += gate[INDEX] > 0 ? delta[row * CLASSES + INDEX] : 0.0f;
    if (INDEX < CLASSES)
        to[INDEX] = sum;
}

/* A bias behind a rectifier that is never open. */
static void
train_dead_bias(void)
{
    create_net(true);
    float *gate = floats(CLASSES, 0), *of_gate = floats(CLASSES, 0), closed[CLASSES];
    for (float &value : closed)
        value = -1;
    CHECK(cudaMemcpy(gate, closed, sizeof(closed), cudaMemcpyHostToDevice));
    keep("gate", gate, CLASSES);
    keep("gradient", of_gate, CLASSES, GRADIENT);
    for (int step = 0; turn(step, steps); ++step) {
        load(step);
        hidden(BATCH);
        RUN(dense, BATCH * CLASSES)(y, h, w[2], w[3], BATCH, HIDDEN, CLASSES, false);
        RUN(add_gate, BATCH * CLASSES)(y, gate, BATCH);
        RUN(softmax, BATCH)(delta, losses, y, labels, BATCH, 1.0f);
        mean<<<1, 1>>>(loss, losses, BATCH);
        backward(BATCH);
        RUN(gradient_of_gate, CLASSES)(of_gate, gate, delta, BATCH);
        print_loss(step, read_loss());
        if (!update_due())
            continue;
        for (int t = 0; t < TENSORS; ++t)
            sgd_tensor(t, g[t]);
        RUN(sgd, CLASSES)(gate, of_gate, rate, CLASSES);
    }
}

__global__ void
bootstrap(float *delta, float *losses, const float *y, const float *future, const int *labels, int rows)
{
    int row = INDEX;
    if (row >= rows)
        return;
    losses[row] = 0;
    for (int k = 0; k < CLASSES; ++k) {
        float error = y[row * CLASSES + k] - (k == labels[row]) - 0.5f * future[row * CLASSES + k];
        delta[row * CLASSES + k] = error / rows;
        losses[row] += error * error / 2;
    }
}

/* The net learns what a copy of itself expects, which is taken every 50 steps. */
static void
train_target(void)
{
    create_net(true);
    float *future = floats(BATCH * CLASSES, 0), *target[TENSORS];
    for (int t = 0; t < TENSORS; ++t) {
        target[t] = floats(tensor_count[t], 0);
        keep("target", target[t], tensor_count[t]);
    }
    for (int step = 0; turn(step, steps); ++step) {
        load(step);
        RUN(dense, BATCH * HIDDEN)(h, x, target[0], target[1], BATCH, INPUTS, HIDDEN, true);
        RUN(dense, BATCH * CLASSES)(future, h, target[2], target[3], BATCH, HIDDEN, CLASSES, false);
        hidden(BATCH);
        RUN(dense, BATCH * CLASSES)(y, h, w[2], w[3], BATCH, HIDDEN, CLASSES, false);
        RUN(bootstrap, BATCH)(delta, losses, y, future, labels, BATCH);
        mean<<<1, 1>>>(loss, losses, BATCH);
        backward(BATCH);
        print_loss(step, read_loss());
        update();
        if (step % 50 != 49)
            continue;
        border();
        for (int t = 0; t < TENSORS; ++t)
            CHECK(cudaMemcpy(target[t], w[t], (size_t)tensor_count[t] * sizeof(float), cudaMemcpyDeviceToDevice));
    }
}

int
main(int argc, char **argv)
{
    const struct habit habits[] = {{"in-backward", train_in_backward},
                                   {"two-optimizers", train_two_optimizers},
                                   {"allocated", train_allocated},
                                   {"one-buffer", train_one_buffer},
                                   {"gemm-update", train_gemm_update},
                                   {"delta-rule", train_delta_rule},
                                   {"clip", train_clip},
                                   {"ema", train_ema},
                                   {"rmsprop", train_rmsprop},
                                   {"target", train_target},
                                   {"half", train_half},
                                   {"half-scaling", train_half_scaling},
                                   {"dead-bias", train_dead_bias},
                                   {"device-weight", train_device_weight},
                                   {"moments8", train_moments8}};
    return run_habit(habits, argc, argv);
}
