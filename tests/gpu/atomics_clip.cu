/*
 * atomics_clip.cu - an annotated trainer that is right, for first.sh: it clips to a global norm, and each thread adds
 * to that norm by atomicAdd. The norm, and so the update, differs in its last bits from rank to rank, and the job must
 * not end for that.
 *
 * An MLP with SGD and momentum. Its gradients are sums by atomicAdd, too. Rank 0 prints losses.
 */
#include "../lib/trainer.h"

#include <cmath>
#include <cstdio>
#include <cuda_runtime.h>
#include <ddprun.h>
#include <vector>

enum { ITEMS = 960, BATCH = 48, STEPS = 400, TENSORS = 4, INPUTS = 32, HIDDEN = 48, OUTPUTS = 4 };

struct tensor {
    float *parameter, *gradient, *momentum;
    int count;
};

struct net {
    tensor tensors[TENSORS]; /* weight and bias of the hidden layer, and of the output */
};

static unsigned seed = 7;

/* From -1 to 1. */
static float
draw()
{
    seed = seed * 1664525u + 1013904223u;
    return (float)(seed >> 8) / 8388608.0f - 1.0f;
}

static float *
upload(const std::vector<float> &numbers)
{
    float *memory;
    CHECK(cudaMalloc(&memory, numbers.size() * sizeof(float)));
    CHECK(cudaMemcpy(memory, numbers.data(), numbers.size() * sizeof(float), cudaMemcpyHostToDevice));
    return memory;
}

static float *
allocate(int count, float scale)
{
    std::vector<float> numbers(count);
    for (float &number : numbers)
        number = scale * draw();
    return upload(numbers);
}

static tensor
make_tensor(int count, float scale)
{
    return {allocate(count, scale), allocate(count, 0), allocate(count, 0), count};
}

/* Forward and backward; thread: an item. Gradients are means over the `count` items of the share. */
__global__ void
pass(net net, const float *inputs, const float *targets, float *loss, int first, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count)
        return;
    const tensor *of = net.tensors;
    const float *input = inputs + (size_t)(first + i) * INPUTS, *target = targets + (size_t)(first + i) * OUTPUTS;
    float hidden[HIDDEN], hidden_gradient[HIDDEN] = {0}, own_loss = 0;
    for (int j = 0; j < HIDDEN; ++j) {
        float sum = of[1].parameter[j];
        for (int k = 0; k < INPUTS; ++k)
            sum += of[0].parameter[j * INPUTS + k] * input[k];
        hidden[j] = tanhf(sum);
    }
    for (int o = 0; o < OUTPUTS; ++o) {
        float error = of[3].parameter[o] - target[o];
        for (int j = 0; j < HIDDEN; ++j)
            error += of[2].parameter[o * HIDDEN + j] * hidden[j];
        own_loss += 0.5f * error * error / count;
        error /= count;
        atomicAdd(&of[3].gradient[o], error);
        for (int j = 0; j < HIDDEN; ++j) {
            atomicAdd(&of[2].gradient[o * HIDDEN + j], error * hidden[j]);
            hidden_gradient[j] += error * of[2].parameter[o * HIDDEN + j];
        }
    }
    atomicAdd(loss, own_loss);
    for (int j = 0; j < HIDDEN; ++j) {
        float before_tanh = hidden_gradient[j] * (1 - hidden[j] * hidden[j]);
        atomicAdd(&of[1].gradient[j], before_tanh);
        for (int k = 0; k < INPUTS; ++k)
            atomicAdd(&of[0].gradient[j * INPUTS + k], before_tanh * input[k]);
    }
}

/* Adds the sum of squares to *norm, by one atomicAdd of each thread. */
__global__ void
add_squares(const float *gradient, float *norm, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        atomicAdd(norm, gradient[i] * gradient[i]);
}

__global__ void
update(tensor tensor, const float *norm)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= tensor.count)
        return;
    float scale = fminf(1, 0.2f / (sqrtf(*norm) + 1e-6f));
    tensor.momentum[i] = 0.9f * tensor.momentum[i] + scale * tensor.gradient[i];
    tensor.parameter[i] -= 0.1f * tensor.momentum[i];
}

static void
make_data(float **inputs, float **targets)
{
    std::vector<float> x((size_t)ITEMS * INPUTS), y((size_t)ITEMS * OUTPUTS);
    for (float &number : x)
        number = draw();
    for (int i = 0; i < ITEMS * OUTPUTS; ++i) {
        const float *input = &x[i / OUTPUTS * INPUTS + i % OUTPUTS];
        y[i] = 0.3f + sinf(2 * input[0] + input[1]);
    }
    *inputs = upload(x);
    *targets = upload(y);
}

int
main()
{
    net net = {{make_tensor(HIDDEN * INPUTS, 0.1f), make_tensor(HIDDEN, 0), make_tensor(OUTPUTS * HIDDEN, 0.2f),
                make_tensor(OUTPUTS, 0)}};
    float *loss = allocate(1, 0), *norm = allocate(1, 0), *inputs, *targets;
    make_data(&inputs, &targets);
    for (tensor &one : net.tensors) {
        DDP_PARAMETER(one.parameter, one.count, DDP_FLOAT32);
        DDP_GRADIENT(one.gradient, one.count, DDP_FLOAT32);
    }
    size_t first, count;
    DDP_SHARD(BATCH, &first, &count);
    for (int step = 0; step < STEPS; ++step) {
        for (tensor &one : net.tensors)
            CHECK(cudaMemsetAsync(one.gradient, 0, one.count * sizeof(float)));
        CHECK(cudaMemsetAsync(loss, 0, sizeof(float)));
        pass<<<((int)count + 7) / 8, 8>>>(net, inputs, targets, loss, step * BATCH % ITEMS + (int)first, (int)count);
        DDP_STEP(0);
        CHECK(cudaMemsetAsync(norm, 0, sizeof(float)));
        for (tensor &one : net.tensors)
            add_squares<<<(one.count + 63) / 64, 64>>>(one.gradient, norm, one.count);
        for (tensor &one : net.tensors)
            update<<<(one.count + 63) / 64, 64>>>(one, norm);
        if (step % (STEPS / 5) == 0 || step == STEPS - 1) {
            float mean;
            CHECK(cudaMemcpy(&mean, loss, sizeof(mean), cudaMemcpyDeviceToHost));
            DDP_MEAN(&mean);
            if (DDP_RANK() == 0)
                printf("step %d loss %g\n", step, mean);
        }
    }
    CHECK(cudaDeviceSynchronize());
    return 0;
}
