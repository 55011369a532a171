/*
 * corners.cu - a trainer in the corners where what ddprun follows meets: gradients and buffers that kernels reach
 * through a table in memory, streams that come and go, default streams of other threads, parameters that are forgotten,
 * gradients that are annotated when they have been written. Each is a mode.
 *
 * corners MODE [STEPS]. Rank r adds 1 + r to every element of each gradient in each step, and an update takes a half of
 * the mean from the weight, so that everything is exact in float32. What must be waited for is slow. Exit code 0 only
 * if every weight is what it has to be at the end.
 */
#include "common.h"
#include "kernels.h"

#include <cuda_runtime.h>
#include <ddprun.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LAYERS = 4, COUNT = 1024, BYTES = COUNT * 4, THREADS = 64, BLOCKS = COUNT / THREADS, SLOW = 1000000 };

struct table {
    float *weights[LAYERS], *gradients[LAYERS];
    float *statistics;
};

static int steps = 12;
static struct table here, *table; /* on the host and, in some modes, on the device */
static float *extra, *seen;
static cudaStream_t stream;
static cudaEvent_t event;
static cudaGraphExec_t graph;

/* The same value, late. */
__device__ static float
slowly(float value)
{
    float x = value;
    for (int i = 0; i < SLOW; ++i)
        x = x * 0.5f + 0.5f * value;
    return x;
}

__global__ void
nothing(void)
{
}

__global__ void
add_all_slowly(float *values, float summand)
{
    summand = slowly(summand);
    for (int i = 0; i < COUNT; ++i)
        values[i] += summand;
}

__global__ void
add_through(const struct table *through, int layer, float summand)
{
    through->gradients[layer][blockIdx.x * blockDim.x + threadIdx.x] += summand;
}

__global__ void
add_all_slowly_through(const struct table *through, int layer, float summand)
{
    summand = slowly(summand);
    for (int i = 0; i < COUNT; ++i)
        through->gradients[layer][i] += summand;
}

__global__ void
update_and_zero_through(const struct table *through, int layer)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    through->weights[layer][i] -= 0.5f * through->gradients[layer][i];
    through->gradients[layer][i] = 0.0f;
}

__global__ void
set_slowly_through(const struct table *through, float to)
{
    *through->statistics = slowly(to);
}

__global__ void
look_through(const struct table *through, float *out)
{
    *out = *through->statistics;
}

/* Takes the layer's share again that statistics other than rank 0's would bring. */
__global__ void
subtract_difference(float *weight, const float *statistics, float expected)
{
    weight[blockIdx.x * blockDim.x + threadIdx.x] -= *statistics - expected;
}

static void
create(void)
{
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    CHECK(cudaMalloc(&extra, BYTES));
    CHECK(cudaMalloc(&seen, sizeof(float)));
    CHECK(cudaMalloc(&table, sizeof(*table)));
    CHECK(cudaMalloc(&here.statistics, sizeof(float)));
    for (int l = 0; l < LAYERS; ++l) {
        CHECK(cudaMalloc(&here.weights[l], BYTES));
        CHECK(cudaMalloc(&here.gradients[l], BYTES));
        CHECK(cudaMemset(here.weights[l], 0, BYTES));
        CHECK(cudaMemset(here.gradients[l], 0, BYTES));
    }
    CHECK(cudaDeviceSynchronize());
}

static void
annotate(void)
{
    if (is_mode("forget-parameter"))
        DDP_PARAMETER(extra, COUNT, DDP_FLOAT32);
    for (int l = 0; l < LAYERS; ++l) {
        DDP_PARAMETER(here.weights[l], COUNT, DDP_FLOAT32);
        DDP_GRADIENT(here.gradients[l], COUNT, DDP_FLOAT32);
    }
    if (is_mode("buffer") || is_mode("wrong-memory"))
        DDP_BUFFER(here.statistics, 1, DDP_FLOAT32);
}

static void
backward(int first_layer)
{
    for (int l = LAYERS - 1; l >= first_layer; --l)
        add<<<BLOCKS, THREADS, 0, stream>>>(here.gradients[l], mine());
}

static void
optimize(void)
{
    for (int l = 0; l < LAYERS; ++l) {
        update<<<BLOCKS, THREADS, 0, stream>>>(here.weights[l], here.gradients[l]);
        CHECK(cudaMemsetAsync(here.gradients[l], 0, BYTES, stream));
    }
}

/* ---- modes ---- */

/* A parameter is forgotten in the middle of training; the others continue. */
static void
forget_parameter(int step)
{
    backward(0);
    DDP_STEP(stream);
    optimize();
    if (step == steps / 2)
        DDP_FORGET(extra);
}

/* A new stream with the handle of one that is gone: drivers give it again, soon; the stand-in does. */
static cudaStream_t
stream_with_handle(cudaStream_t wanted)
{
    enum { AT_ONCE = 8, TRIES = 10000 };
    cudaStream_t made[AT_ONCE], found = NULL;
    for (int i = 0; i < TRIES && found == NULL; ++i) {
        for (int k = 0; k < AT_ONCE; ++k)
            CHECK(cudaStreamCreateWithFlags(&made[k], cudaStreamNonBlocking));
        for (int k = 0; k < AT_ONCE; ++k) {
            if (made[k] == wanted || (i == TRIES - 1 && k == 0))
                found = made[k];
            else
                CHECK(cudaStreamDestroy(made[k]));
        }
        sched_yield();
    }
    return found;
}

/* A stream goes, and another comes with its handle, whose kernel reaches a gradient unseen. */
static void
stream_again(int)
{
    cudaStream_t side;
    CHECK(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking));
    nothing<<<1, 1, 0, side>>>();
    CHECK(cudaStreamSynchronize(side));
    CHECK(cudaStreamDestroy(side));
    side = stream_with_handle(side);
    stream_follow(stream, side, event);
    add_all_slowly_through<<<1, 1, 0, side>>>(table, 0, mine());
    backward(1);
    DDP_STEP(stream);
    stream_follow(side, stream, event);
    CHECK(cudaStreamDestroy(side));
    optimize();
}

/* A graph that ddprun cannot look into, on the default stream of another thread than that of DDP_STEP. */
static void *
launch_graph(void *unused)
{
    CHECK(cudaStreamWaitEvent(cudaStreamPerThread, event, 0));
    CHECK(cudaGraphLaunch(graph, cudaStreamPerThread));
    CHECK(cudaEventRecord(event, cudaStreamPerThread));
    return unused;
}

static void
graph_in_thread(int)
{
    pthread_t thread;
    CHECK(cudaEventRecord(event, stream));
    if (pthread_create(&thread, NULL, launch_graph, NULL) != 0 || pthread_join(thread, NULL) != 0)
        exit(1);
    backward(1);
    DDP_STEP(stream);
    CHECK(cudaStreamWaitEvent(stream, event, 0));
    optimize();
}

static void
make_graph(void)
{
    cudaGraph_t made;
    cudaGraphNode_t node;
    float summand = mine();
    void *arguments[] = {&here.gradients[0], &summand};
    cudaKernelNodeParams kernel = {};
    kernel.func = (void *)add_all_slowly;
    kernel.gridDim = kernel.blockDim = dim3(1);
    kernel.kernelParams = arguments;
    CHECK(cudaGraphCreate(&made, 0));
    CHECK(cudaGraphAddKernelNode(&node, made, NULL, 0, &kernel));
    CHECK(cudaGraphInstantiate(&graph, made, 0));
    CHECK(cudaGraphDestroy(made));
}

/* No call at all names a gradient. */
static void
all_hidden(int)
{
    for (int l = LAYERS - 1; l >= 0; --l)
        add_through<<<BLOCKS, THREADS, 0, stream>>>(table, l, mine());
    DDP_STEP(stream);
    for (int l = 0; l < LAYERS; ++l)
        update_and_zero_through<<<BLOCKS, THREADS, 0, stream>>>(table, l);
}

/* Statistics that every rank writes and reads through the table, on a stream that DDP_STEP does not name. */
static void
buffer(int)
{
    static cudaStream_t side;
    if (side == NULL)
        CHECK(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking));
    set_slowly_through<<<1, 1, 0, side>>>(table, mine());
    backward(0);
    DDP_STEP(stream);
    look_through<<<1, 1, 0, side>>>(table, seen);
    stream_follow(side, stream, event);
    optimize();
    subtract_difference<<<BLOCKS, THREADS, 0, stream>>>(here.weights[0], seen, 1.0f);
    stream_follow(stream, side, event);
}

/* A gradient is annotated in each step only when it was written: in a step that overlaps, ddprun would come too late.
 */
static void
annotate_last(int)
{
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaFree(here.gradients[0]));
    CHECK(cudaMalloc(&here.gradients[0], BYTES));
    CHECK(cudaMemsetAsync(here.gradients[0], 0, BYTES, stream));
    backward(0);
    DDP_GRADIENT(here.gradients[0], COUNT, DDP_FLOAT32);
    DDP_STEP(stream);
    optimize();
}

/* What is annotated is not what backward writes; kernels reach other memory through the table. */
static void
wrong_memory(int)
{
    static float *others[LAYERS];
    for (int l = 0; l < LAYERS; ++l) {
        if (others[l] == NULL)
            CHECK(cudaMalloc(&others[l], BYTES));
        add<<<BLOCKS, THREADS, 0, stream>>>(others[l], mine());
    }
    set_slowly_through<<<1, 1, 0, stream>>>(table, mine());
    DDP_STEP(stream);
}

/* A stream on which gradients were touched is captured while those of the next step are averaged. */
static void
capture(int step)
{
    static cudaStream_t side;
    cudaGraph_t made;
    if (side == NULL)
        CHECK(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking));
    stream_follow(stream, side, event);
    CHECK(cudaMemsetAsync(here.gradients[0], 0, BYTES, side));
    stream_follow(side, stream, event);
    if (step > 0)
        CHECK(cudaStreamBeginCapture(side, cudaStreamCaptureModeRelaxed));
    nothing<<<1, 1, 0, side>>>();
    backward(0);
    DDP_STEP(stream);
    optimize();
    if (step == 0)
        return;
    CHECK(cudaStreamEndCapture(side, &made));
    CHECK(cudaGraphDestroy(made));
}

/* The device is reset in the middle, and all memory is another afterwards. */
static void
reset(int step)
{
    if (step == steps / 2) {
        CHECK(cudaDeviceReset());
        create();
        annotate();
        DDP_FORGET(here.gradients[0]);
        DDP_GRADIENT(here.gradients[0], COUNT, DDP_FLOAT32);
        steps -= step;
    }
    backward(0);
    DDP_STEP(stream);
    optimize();
}

static const struct {
    const char *mode;
    void (*step)(int);
    bool hides; /* addresses lie in the table on the device */
} modes[] = {
    {"forget-parameter", forget_parameter, false},
    {"stream-again", stream_again, true},
    {"graph-in-thread", graph_in_thread, false},
    {"all-hidden", all_hidden, true},
    {"buffer", buffer, true},
    {"annotate-last", annotate_last, false},
    {"reset", reset, false},
    {"wrong-memory", wrong_memory, true},
    {"capture", capture, false},
};

static int
weights_are_right(void)
{
    float host[COUNT], expected = -0.25f * (float)(1 + DDP_WORLD_SIZE()) * (float)steps;
    for (int l = 0; l < LAYERS; ++l) {
        CHECK(cudaMemcpy(host, here.weights[l], BYTES, cudaMemcpyDeviceToHost));
        for (int i = 0; i < COUNT; ++i) {
            if (host[i] != expected) {
                fprintf(stderr, "corners: weight %d of layer %d is %g, not %g\n", i, l, (double)host[i],
                        (double)expected);
                return 0;
            }
        }
    }
    return 1;
}

int
main(int argc, char **argv)
{
    mode = argc > 1 ? argv[1] : "";
    if (argc > 2)
        steps = atoi(argv[2]);
    create();
    for (const auto &of : modes) {
        if (!is_mode(of.mode))
            continue;
        struct table shown = here;
        for (int l = 0; l < LAYERS && (is_mode("buffer") || is_mode("wrong-memory")); ++l)
            shown.gradients[l] = NULL;
        if (of.hides)
            CHECK(cudaMemcpy(table, &shown, sizeof(shown), cudaMemcpyHostToDevice));
        CHECK(cudaDeviceSynchronize()); /* the copy may return before it is done, and `stream` follows no other */
        annotate();
        if (is_mode("graph-in-thread"))
            make_graph();
        for (int step = 0, all = steps; step < all; ++step)
            of.step(step);
        CHECK(cudaDeviceSynchronize());
        return weights_are_right() ? 0 : 1;
    }
    fprintf(stderr, "corners: %s is no mode\n", mode);
    return 2;
}
