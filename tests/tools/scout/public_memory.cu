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
#include "tests/tools/scout/habit.h"

/* ---- pitch ---- */

ELEMENTWISE(descend_rows, (float *weights, const float *gradient, float by, int count, int columns, int pitch), count,
            int at = i / columns * pitch + i % columns;
            weights[at] -= by * gradient[at])

MODE("pitch", train_pitch)
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
        RUN(descend_rows, INPUTS * OUTPUTS)(weights, gradient, rate, INPUTS * OUTPUTS, OUTPUTS, elements);
    }
}

/* ---- resident, shuffled ---- */

MODE("resident", train_resident)
{
    create_net();
    upload_resident();
    for (int step = 0; step < STEPS; ++step) {
        x = all_x + step % RESIDENT * BATCH * INPUTS;
        wanted = all_wanted + step % RESIDENT * BATCH * OUTPUTS;
        train_on_batch();
    }
}

MODE("shuffled", train_shuffled)
{
    int order[BATCH], *device_order = (int *)floats(BATCH, 0);
    create_net();
    upload_resident();
    for (int step = 0; step < STEPS; ++step) {
        for (int &row : order)
            row = (int)(random_number() * RESIDENT * BATCH);
        CHECK(cudaMemcpy(device_order, order, sizeof(order), cudaMemcpyHostToDevice));
        RUN(gather_rows, BATCH * INPUTS)(x, all_x, device_order, BATCH, INPUTS);
        RUN(gather_rows, BATCH * OUTPUTS)(wanted, all_wanted, device_order, BATCH, OUTPUTS);
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

MODE("arena", train_arena)
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

ELEMENTWISE(dense_constant, (float *to, const float *from), BATCH *OUTPUTS,
            to[i] = dot(INPUTS, from + i / OUTPUTS * INPUTS, 1, constant_weights + i % OUTPUTS, OUTPUTS))
ELEMENTWISE(dense_symbol, (float *to, const float *from), BATCH *OUTPUTS,
            to[i] = dot(INPUTS, from + i / OUTPUTS * INPUTS, 1, symbol_weights + i % OUTPUTS, OUTPUTS))
ELEMENTWISE(gradient_symbol, (const float *from, const float *error), INPUTS *OUTPUTS,
            symbol_gradient[i] = dot(BATCH, from + i / OUTPUTS, INPUTS, error + i % OUTPUTS, OUTPUTS) / BATCH)
ELEMENTWISE(descend_symbol, (float by), INPUTS *OUTPUTS, symbol_weights[i] -= by * symbol_gradient[i])

MODE("constant", train_constant)
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

MODE("symbol", train_symbol)
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

ELEMENTWISE(dense_records, (float *to, const float *from, const struct record *records), BATCH *OUTPUTS,
            to[i] = dot(INPUTS, from + i / OUTPUTS * INPUTS, 1, &records[i % OUTPUTS].weight, 3 * OUTPUTS))
ELEMENTWISE(gradient_records, (struct record * records, const float *from, const float *error), INPUTS *OUTPUTS,
            records[i].gradient = dot(BATCH, from + i / OUTPUTS, INPUTS, error + i % OUTPUTS, OUTPUTS) / BATCH)
ELEMENTWISE(descend_records, (struct record * records, float by, int count), count, struct record *at = &records[i];
            at->velocity = 0.9f * at->velocity + at->gradient; at->weight -= by * at->velocity)

MODE("records", train_records)
{
    struct record *records = (struct record *)floats(3 * INPUTS * OUTPUTS, 0);
    create_activations();
    for (int step = 0; step < STEPS; ++step) {
        load();
        RUN(dense_records, BATCH * OUTPUTS)(y, x, records);
        RUN(square_delta, BATCH * OUTPUTS)(delta, y, wanted, BATCH * OUTPUTS);
        RUN(gradient_records, INPUTS * OUTPUTS)(records, x, delta);
        RUN(descend_records, INPUTS * OUTPUTS)(records, rate, INPUTS * OUTPUTS);
    }
}
