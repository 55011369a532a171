/*
 * public_memory.cu HABIT - where trainers that the public shares have their weights and data, each as a small program,
 * annotated as it has to be:
 *
 *   pitch        rows lie where cudaMallocPitch puts them
 *   resident     the data lies on the device, and a step begins at an offset into it
 *   shuffled     the same, by a table of indices that the host shuffles
 *   arena        activations and gradients are cut from one allocation, again in each step
 *   constant     forward reads a copy of the weights in constant memory
 *   symbol       the weights are a variable of the device
 *   records     weight, gradient and velocity lie side by side in a struct
 */
#include "tests/tools/scout/public.h"

/* ---- pitch ---- */

__global__ void
descend_rows(float *weights, const float *gradient, float by, int rows, int columns, int pitch)
{
    int i = INDEX / columns, k = INDEX % columns;
    if (i < rows)
        weights[i * pitch + k] -= by * gradient[i * pitch + k];
}

HABIT("pitch", train_pitch)
{
    float *weights, *gradient, host[INPUTS * OUTPUTS];
    size_t pitch, same;
    create_activations();
    CHECK(cudaMallocPitch(&weights, &pitch, OUTPUTS * sizeof(float), INPUTS));
    CHECK(cudaMallocPitch(&gradient, &same, OUTPUTS * sizeof(float), INPUTS));
    for (float &value : host)
        value = 0.5f * (random_number() - 0.5f);
    CHECK(cudaMemset(weights, 0, pitch * INPUTS));
    CHECK(cudaMemset(gradient, 0, pitch * INPUTS));
    CHECK(cudaMemcpy2D(weights, pitch, host, OUTPUTS * sizeof(float), OUTPUTS * sizeof(float), INPUTS,
                       cudaMemcpyHostToDevice));
    int elements = (int)(pitch / sizeof(float));
    DDP_PARAMETER(weights, (size_t)(INPUTS - 1) * elements + OUTPUTS, DDP_FLOAT32);
    DDP_GRADIENT(gradient, (size_t)(INPUTS - 1) * elements + OUTPUTS, DDP_FLOAT32);
    for (int step = 0; step < STEPS; ++step) {
        load();
        RUN(dense, BATCH * OUTPUTS)(y, x, weights, no_bias, BATCH, INPUTS, OUTPUTS, elements, STRAIGHT);
        RUN(square_delta, BATCH * OUTPUTS)(delta, y, wanted, BATCH * OUTPUTS);
        RUN(gradient_of, INPUTS * OUTPUTS)(gradient, x, delta, BATCH, INPUTS, OUTPUTS, elements, false);
        DDP_STEP(0);
        RUN(descend_rows, INPUTS * OUTPUTS)(weights, gradient, rate, INPUTS, OUTPUTS, elements);
    }
}

/* ---- resident, shuffled ---- */

__global__ void
gather(float *to, const float *all, const int *order, int rows, int width)
{
    int row = INDEX / width;
    if (row < rows)
        to[INDEX] = all[order[row] * width + INDEX % width];
}

HABIT("resident", train_resident)
{
    create_net();
    upload_resident();
    for (int step = 0; step < STEPS; ++step) {
        x = all_x + step % RESIDENT * BATCH * INPUTS;
        wanted = all_wanted + step % RESIDENT * BATCH * OUTPUTS;
        train_on_batch();
    }
}

HABIT("shuffled", train_shuffled)
{
    int order[BATCH], *device_order = (int *)floats(BATCH, 0);
    create_net();
    upload_resident();
    for (int step = 0; step < STEPS; ++step) {
        for (int &row : order)
            row = (int)(random_number() * RESIDENT * BATCH);
        CHECK(cudaMemcpy(device_order, order, sizeof(order), cudaMemcpyHostToDevice));
        RUN(gather, BATCH * INPUTS)(x, all_x, device_order, BATCH, INPUTS);
        RUN(gather, BATCH * OUTPUTS)(wanted, all_wanted, device_order, BATCH, OUTPUTS);
        train_on_batch();
    }
}

/* ---- arena ---- */

static float *arena;
static int arena_used;

static float *
cut(int count)
{
    float *memory = arena + arena_used;
    arena_used += count;
    return memory;
}

HABIT("arena", train_arena)
{
    arena = floats(16384, 0);
    for (int t = 0; t < TENSORS; ++t) {
        w[t] = floats(tensor_count[t], 0.5f);
        DDP_PARAMETER(w[t], tensor_count[t], DDP_FLOAT32);
    }
    for (int step = 0; step < STEPS; ++step) {
        arena_used = 0;
        x = cut(BATCH * INPUTS);
        wanted = cut(BATCH * OUTPUTS);
        load();
        h = cut(BATCH * HIDDEN);
        y = cut(BATCH * OUTPUTS);
        forward();
        delta = cut(BATCH * OUTPUTS);
        below = cut(BATCH * HIDDEN);
        for (int t = 0; t < TENSORS; ++t) {
            g[t] = cut(tensor_count[t]);
            if (step == 0)
                DDP_GRADIENT(g[t], tensor_count[t], DDP_FLOAT32);
        }
        backward(false);
        DDP_STEP(0);
        descend_all();
    }
}

/* ---- constant, symbol ---- */

__constant__ float constant_weights[INPUTS * OUTPUTS];
__device__ float symbol_weights[INPUTS * OUTPUTS], symbol_gradient[INPUTS * OUTPUTS];

static __device__ void
multiply_rows(float *to, const float *from, const float *weights)
{
    int row = INDEX / OUTPUTS, k = INDEX % OUTPUTS;
    float sum = 0;
    for (int i = 0; row < BATCH && i < INPUTS; ++i)
        sum += from[row * INPUTS + i] * weights[i * OUTPUTS + k];
    if (row < BATCH)
        to[INDEX] = sum;
}

__global__ void
dense_constant(float *to, const float *from)
{
    multiply_rows(to, from, constant_weights);
}

__global__ void
dense_symbol(float *to, const float *from)
{
    multiply_rows(to, from, symbol_weights);
}

__global__ void
gradient_symbol(const float *from, const float *error)
{
    int i = INDEX / OUTPUTS, k = INDEX % OUTPUTS;
    float sum = 0;
    for (int row = 0; i < INPUTS && row < BATCH; ++row)
        sum += from[row * INPUTS + i] * error[row * OUTPUTS + k] / BATCH;
    if (i < INPUTS)
        symbol_gradient[INDEX] = sum;
}

ELEMENTWISE(descend_symbol, (float by), INPUTS *OUTPUTS, symbol_weights[i] -= by * symbol_gradient[i])

HABIT("constant", train_constant)
{
    float *weights, *gradient;
    create_activations();
    create_pair(&weights, &gradient, INPUTS * OUTPUTS);
    for (int step = 0; step < STEPS; ++step) {
        load();
        CHECK(cudaMemcpyToSymbol(constant_weights, weights, INPUTS * OUTPUTS * sizeof(float), 0,
                                 cudaMemcpyDeviceToDevice));
        RUN(dense_constant, BATCH * OUTPUTS)(y, x);
        RUN(square_delta, BATCH * OUTPUTS)(delta, y, wanted, BATCH * OUTPUTS);
        RUN(gradient_of, INPUTS * OUTPUTS)(gradient, x, delta, BATCH, INPUTS, OUTPUTS, OUTPUTS, false);
        DDP_STEP(0);
        RUN(descend, INPUTS * OUTPUTS)(weights, gradient, rate, INPUTS * OUTPUTS);
    }
}

HABIT("symbol", train_symbol)
{
    void *weights, *gradient;
    create_activations();
    CHECK(cudaGetSymbolAddress(&weights, symbol_weights));
    CHECK(cudaGetSymbolAddress(&gradient, symbol_gradient));
    DDP_PARAMETER(weights, INPUTS * OUTPUTS, DDP_FLOAT32);
    DDP_GRADIENT(gradient, INPUTS * OUTPUTS, DDP_FLOAT32);
    for (int step = 0; step < STEPS; ++step) {
        load();
        RUN(dense_symbol, BATCH * OUTPUTS)(y, x);
        RUN(square_delta, BATCH * OUTPUTS)(delta, y, wanted, BATCH * OUTPUTS);
        RUN(gradient_symbol, INPUTS * OUTPUTS)(x, delta);
        DDP_STEP(0);
        RUN(descend_symbol, INPUTS * OUTPUTS)(rate);
    }
}

/* ---- records ---- */

struct record {
    float weight, gradient, velocity;
};

__global__ void
dense_records(float *to, const float *from, const struct record *records, int rows, int in, int out)
{
    int row = INDEX / out, k = INDEX % out;
    float sum = 0;
    for (int i = 0; row < rows && i < in; ++i)
        sum += from[row * in + i] * records[i * out + k].weight;
    if (row < rows)
        to[row * out + k] = sum;
}

__global__ void
gradient_records(struct record *records, const float *from, const float *error, int in, int out)
{
    int i = INDEX / out, k = INDEX % out;
    float sum = 0;
    for (int row = 0; i < in && row < BATCH; ++row)
        sum += from[row * in + i] * error[row * out + k] / BATCH;
    if (i < in)
        records[INDEX].gradient = sum;
}

ELEMENTWISE(descend_records, (struct record * records, float by, int count), count, struct record *at = &records[i];
            at->velocity = 0.9f * at->velocity + at->gradient; at->weight -= by * at->velocity)

HABIT("records", train_records)
{
    struct record *records = (struct record *)floats(3 * INPUTS * OUTPUTS, 0);
    create_activations();
    for (int step = 0; step < STEPS; ++step) {
        load();
        RUN(dense_records, BATCH * OUTPUTS)(y, x, records, BATCH, INPUTS, OUTPUTS);
        RUN(square_delta, BATCH * OUTPUTS)(delta, y, wanted, BATCH * OUTPUTS);
        RUN(gradient_records, INPUTS * OUTPUTS)(records, x, delta, INPUTS, OUTPUTS);
        RUN(descend_records, INPUTS * OUTPUTS)(records, rate, INPUTS * OUTPUTS);
    }
}

int
main(int argc, char **argv)
{
    return run_habit(argc > 1 ? argv[1] : "");
}
