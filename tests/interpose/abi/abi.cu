/*
 * abi.cu - calls each macro that the header HEADER has, of whichever version, and prints what it does: one line a
 * macro. Two ranks: rank r's gradient is (r + 1) in each step. Built by abi.sh.
 */
#include HEADER

#include "tests/lib/trainer.h"

#include <stdio.h>

enum { COUNT = 4 };

__global__ void
set(float *memory, float value)
{
    memory[threadIdx.x] = value;
}

__global__ void
update(float *weights, const float *gradient)
{
    weights[threadIdx.x] -= gradient[threadIdx.x];
}

static float *
allocate(float value)
{
    float *memory;
    CHECK(cudaMalloc((void **)&memory, COUNT * sizeof(*memory)));
    set<<<1, COUNT>>>(memory, value);
    return memory;
}

static void
say(const char *what, const float *memory)
{
    float values[COUNT];
    CHECK(cudaMemcpy(values, memory, sizeof(values), cudaMemcpyDeviceToHost));
    printf("%s %g\n", what, values[COUNT - 1]);
}

#if DDP_INTERFACE_VERSION >= 6
/* Five batches: one rank makes five updates; two make one of the first batch, and one of each two others. */
static int
take_turns(void)
{
    float *weights = allocate(0), *gradient = allocate(0);
    DDP_PARAMETER(weights, COUNT, DDP_FLOAT32);
    DDP_GRADIENT(gradient, COUNT, DDP_FLOAT32);
    int made = 0, computed = 0;
    for (int batch = 0; batch < 5; ++batch) {
        DDP_TURN_BEGIN();
        computed += DDP_TURN_MINE();
        set<<<1, COUNT>>>(gradient, (float)batch);
        DDP_STEP(0);
        update<<<1, COUNT>>>(weights, gradient);
        made += DDP_TURN_UPDATES();
    }
    DDP_TURN_OPEN();
    DDP_TURN_END();
    printf("computed %d, updates %d\n", computed, made);
    say("turns", weights);
    return 0;
}
#endif

int
main(int argc, char **argv)
{
#if DDP_INTERFACE_VERSION >= 6
    if (argc > 1)
        return take_turns();
#endif
    (void)argc, (void)argv;
    float own = (float)DDP_RANK() + 1, mean = own;
    float *weights = allocate(own), *gradient = allocate(0), *forgotten = allocate(0);
    size_t first, count;
    DDP_PARAMETER(weights, COUNT, DDP_FLOAT32);
    DDP_GRADIENT(gradient, COUNT, DDP_FLOAT32);
    DDP_PARAMETER(forgotten, COUNT, DDP_FLOAT32);
    DDP_FORGET(forgotten);
#if DDP_INTERFACE_VERSION >= 2
    float *buffer = allocate(own), *second = allocate(0), *critic = allocate(1);
    DDP_BUFFER(buffer, COUNT, DDP_FLOAT32);
    DDP_GRADIENT_GROUP(1);
    DDP_PARAMETER(critic, COUNT, DDP_FLOAT32);
    DDP_GRADIENT(second, COUNT, DDP_FLOAT32);
#endif
#if DDP_INTERFACE_VERSION >= 3
    float *state = allocate(own);
    DDP_STATE(state, COUNT, DDP_FLOAT32);
#endif
#if DDP_INTERFACE_VERSION >= 4
    float *direct = allocate(own);
    DDP_GRADIENT_GROUP(2);
    DDP_PARAMETER(direct, COUNT, DDP_FLOAT32);
#endif
    for (int step = 0; step < 3; ++step) {
        DDP_SHARD(6, &first, &count);
#if DDP_INTERFACE_VERSION >= 3
        DDP_WEIGHT(count, 6);
#endif
        set<<<1, COUNT>>>(gradient, own);
        DDP_STEP(0);
        update<<<1, COUNT>>>(weights, gradient);
#if DDP_INTERFACE_VERSION >= 2
        DDP_NO_SYNC_BEGIN();
        set<<<1, COUNT>>>(second, 0);
        DDP_NO_SYNC_END();
        set<<<1, COUNT>>>(second, 10 * own);
        DDP_GRADIENT_READY(second, 0);
        DDP_STEP_GROUP(1, 0);
        update<<<1, COUNT>>>(critic, second);
#endif
#if DDP_INTERFACE_VERSION >= 4
        update<<<1, COUNT>>>(direct, gradient);
        DDP_STEP_PARAMETERS_GROUP(2, 0);
        DDP_SYNC(0);
#endif
    }
    say("gradient", gradient);
    say("parameter", weights);
    DDP_MEAN(&mean);
    printf("mean %g\nranks %d\nhost %d\nshare %zu\n", mean, DDP_WORLD_SIZE(), DDP_LOCAL_RANK() - DDP_RANK(), count);
#if DDP_INTERFACE_VERSION >= 2
    say("buffer", buffer);
    say("group", critic);
#endif
#if DDP_INTERFACE_VERSION >= 3
    float labelled = own;
    DDP_MEAN_AS("loss", &labelled);
    printf("label %g\n", labelled);
    say("state", state);
#endif
#if DDP_INTERFACE_VERSION >= 4
    float sum = own;
    DDP_REDUCE(&sum, 1, DDP_FLOAT32, DDP_OP_SUM, 0);
    printf("sum %g\n", sum);
    say("direct", direct);
#endif
#if DDP_INTERFACE_VERSION >= 5
    double precise = own;
    DDP_MEAN(&precise);
    printf("double %g, type %d\n", precise, (int)DDP_TYPE_OF(&precise));
#endif
#if DDP_INTERFACE_VERSION >= 6
    int of_last = DDP_RANK() == DDP_WORLD_SIZE() - 1 ? 3 : 0, of_none = 0;
    bool last = DDP_ANY(&of_last), none = DDP_ANY(&of_none);
    printf("any %d %d, flags %d %d\n", last, none, of_last, of_none);
#endif
    return 0;
}
