/*
 * managed_memory_is_counted.cu - the lines of `ddprun scout` where one function allocates all memory, which is managed,
 * and launches get it from functions: ddp_malloc_managed counts the allocations. The host writes a list of items in
 * place.
 */
#include "tests/programs/layer.h"

template <typename T>
static T *
managed(size_t count)
{
    T *memory;
    CHECK(cudaMallocManaged(&memory, count * sizeof(T)));
    for (size_t i = 0; i < count; ++i)
        memory[i] = T(0);
    return memory;
}

struct parameter {
    float *value, *gradient, *momentum;
    int count;
};

static struct parameter
parameter_create(unsigned seed, int count)
{
    struct parameter made = {managed<float>(count), managed<float>(count), managed<float>(count), count};
    for (int i = 0; i < count; ++i)
        made.value[i] = 0.4f * noise_of(seed, (unsigned)i);
    return made;
}

static float *
value_of(const struct parameter &of)
{
    return of.value;
}

static float *
gradient_of(const struct parameter &of)
{
    return of.gradient;
}

static __global__ void
pick(float *x, float *target, const float *items, const float *targets, const int *list)
{
    int i = ELEMENT_OF_THREAD;
    if (i < BATCH * INPUTS)
        x[i] = items[list[i / INPUTS] * INPUTS + i % INPUTS];
    if (i < BATCH * OUTPUTS)
        target[i] = targets[list[i / OUTPUTS] * OUTPUTS + i % OUTPUTS];
}

int
main(void)
{
    float *items = managed<float>(ITEMS * INPUTS), *targets = managed<float>(ITEMS * OUTPUTS);
    for (unsigned i = 0; i < ITEMS * INPUTS; ++i)
        items[i] = noise_of(1, i);
    for (unsigned i = 0; i < ITEMS * OUTPUTS; ++i)
        targets[i] = 0.8f * noise_of(2, i);
    struct parameter weight = parameter_create(3, WEIGHTS), bias = parameter_create(4, OUTPUTS);
    int *list = managed<int>(BATCH);
    float *x = managed<float>(BATCH * INPUTS), *target = managed<float>(BATCH * OUTPUTS);
    float *output = managed<float>(BATCH * OUTPUTS), *delta = managed<float>(BATCH * OUTPUTS);
    const unsigned blocks = blocks_for(BATCH * OUTPUTS);
    for (unsigned step = 0; step < STEPS; ++step) {
        for (unsigned i = 0; i < BATCH; ++i)
            list[i] = (int)((step * 37 + i * 11) % ITEMS);
        pick<<<blocks_for(BATCH * INPUTS), THREADS>>>(x, target, items, targets, list);
        dense_forward<<<blocks, THREADS>>>(output, x, value_of(weight), value_of(bias), INPUTS, OUTPUTS, BATCH);
        loss_delta<<<blocks, THREADS>>>(delta, output, target, OUTPUTS, BATCH);
        weight_gradient<<<1, THREADS>>>(gradient_of(weight), delta, x, INPUTS, OUTPUTS, BATCH, 0.0f, 1.0f);
        bias_gradient<<<1, THREADS>>>(gradient_of(bias), delta, OUTPUTS, BATCH, 0.0f, 1.0f);
        for (const struct parameter &of : {weight, bias})
            sgd<<<1, THREADS>>>(of.value, of.momentum, of.gradient, of.count, 0.1f);
        CHECK(cudaDeviceSynchronize());
    }
    return 0;
}
