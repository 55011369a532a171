/*
 * graph_corners.cu - captured steps in corners where what was known of a stream, a graph or a gradient is no longer so:
 * gradients that are forgotten after the capture, a node that does other work while other graphs are alive, a stream
 * that is drawn into a capture after its last kernel outside, gradients declared complete in steps before but not in
 * the captured one, many steps in one graph, captures that no thread ends. Each is a mode.
 *
 * Rank r adds 1 + r to every element of a gradient; an update takes a half of the mean from the weight. The exit code
 * is 0 only if every weight is what the host knows it must be, and 4 if a captured average does not wait for its
 * producers.
 */
#include "common.h"
#include "graph_nodes.h"
#include "kernels.h"

#include <cuda.h>
#include <cuda_runtime.h>
#include <ddprun.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LAYERS = 4, COUNT = 1024, BYTES = COUNT * 4, THREADS = 64, BLOCKS = COUNT / THREADS, STEPS = 24, HIDDEN = 2 };

static float *weights[LAYERS], *gradients[LAYERS], *scratch, **table; /* table: device, addresses of the first HIDDEN */
static double expected[LAYERS];
static cudaStream_t stream, side;
static cudaEvent_t event;
static cudaGraph_t graph;
static cudaGraphExec_t exec;

__global__ void
add_hidden(float *const *addresses, int layer, float summand)
{
    addresses[layer][blockIdx.x * blockDim.x + threadIdx.x] += summand;
}

__global__ void
look(const float *values, float *out)
{
    *out = values[threadIdx.x];
}

static void
backward_of(int layer)
{
    add<<<BLOCKS, THREADS, 0, stream>>>(gradients[layer], 1.0f + (float)DDP_RANK());
}

static void
hidden_backward_of(int layer, cudaStream_t on)
{
    add_hidden<<<BLOCKS, THREADS, 0, on>>>(table, layer, 1.0f + (float)DDP_RANK());
}

static void
optimize(void)
{
    for (int l = 0; l < LAYERS; ++l) {
        update<<<BLOCKS, THREADS, 0, stream>>>(weights[l], gradients[l]);
        CHECK(cudaMemsetAsync(gradients[l], 0, BYTES, stream));
    }
}

static void
whole_step(void)
{
    for (int l = LAYERS - 1; l >= 0; --l)
        backward_of(l);
    DDP_STEP(stream);
    optimize();
}

static void
ten_steps(void)
{
    for (int i = 0; i < 10; ++i)
        whole_step();
}

/* ---- graphs ---- */

static void
capture(void (*body)(void))
{
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    body();
    CHECK(cudaStreamEndCapture(stream, &graph));
}

static void
launch(void (*body)(void))
{
    if (exec == NULL) {
        capture(body);
        CHECK(cudaGraphInstantiate(&exec, graph, 0));
    }
    CHECK(cudaGraphLaunch(exec, stream));
}

/* The last collective comes after every kernel of backward; or the program ends. */
static void
require_order(void)
{
    CUgraphNode nodes[256], last = NULL;
    size_t count = 256;
    if (DDP_WORLD_SIZE() == 1)
        return;
    CHECK(cuGraphGetNodes((CUgraph)graph, nodes, &count));
    for (size_t i = 0; i < count; ++i)
        last = is_named(nodes[i], "AllReduce") ? nodes[i] : last;
    for (size_t i = 0; i < count; ++i) {
        if (last == NULL || (is_named(nodes[i], "add") && !comes_after(last, nodes[i]))) {
            fprintf(stderr, "graph_corners: an average does not wait for kernel node %zu\n", i);
            exit(4);
        }
    }
}

/* ---- modes ---- */

/* A stream with a kernel outside, since the capture began, is then drawn into it; DDP_STEP comes before it is back. */
static void
step_with_side(void)
{
    for (int l = LAYERS - 1; l >= HIDDEN; --l)
        backward_of(l);
    look<<<1, 1, 0, side>>>(weights[0], scratch);
    stream_follow(stream, side, event);
    for (int l = HIDDEN - 1; l >= 0; --l)
        hidden_backward_of(l, side);
    DDP_STEP(stream);
    stream_follow(side, stream, event);
    optimize();
}

static void
drawn_in(void)
{
    if (exec == NULL) {
        capture(step_with_side);
        require_order();
    }
    launch(step_with_side);
}

static void
step_with_table(bool declares)
{
    for (int l = LAYERS - 1; l >= 0; --l) {
        CHECK(cudaMemsetAsync(gradients[l], 0, BYTES, stream));
        if (l >= HIDDEN)
            backward_of(l);
        else
            hidden_backward_of(l, stream);
        if (declares && l < HIDDEN)
            DDP_GRADIENT_READY(gradients[l], stream);
    }
    DDP_STEP(stream);
    optimize();
}

static void
step_undeclared(void)
{
    step_with_table(false);
}

static void
undeclared(int step)
{
    if (step < 8) {
        step_with_table(true);
        return;
    }
    if (exec == NULL) {
        capture(step_undeclared);
        require_order();
    }
    launch(step_undeclared);
}

/* Gradients' addresses reach the device by a graph that was built node by node. */
static void
copy_by_hand(void)
{
    cudaGraph_t built;
    cudaGraphNode_t node;
    cudaGraphExec_t copies;
    CHECK(cudaGraphCreate(&built, 0));
    CHECK(cudaGraphAddMemcpyNode1D(&node, built, NULL, 0, table, gradients, HIDDEN * sizeof(*table),
                                   cudaMemcpyHostToDevice));
    CHECK(cudaGraphInstantiate(&copies, built, 0));
    CHECK(cudaGraphLaunch(copies, stream));
    CHECK(cudaStreamSynchronize(stream));
}

static void
look_at_weights(void)
{
    for (int l = 0; l < LAYERS; ++l)
        look<<<1, 1, 0, stream>>>(weights[l], scratch);
}

/* In the graph, not in what was instantiated from it: a kernel that looked at a weight adds to a gradient. */
static void
change_node(void)
{
    cudaGraphNode_t nodes[LAYERS];
    size_t count = LAYERS;
    cudaKernelNodeParams work = {0};
    float mine = 1.0f + (float)DDP_RANK();
    void *arguments[] = {&gradients[LAYERS - 1], &mine};
    work.func = (void *)add;
    work.gridDim = dim3(BLOCKS);
    work.blockDim = dim3(THREADS);
    work.kernelParams = arguments;
    CHECK(cudaGraphGetNodes(graph, nodes, &count));
    CHECK(cudaGraphKernelNodeSetParams(nodes[count - 1], &work));
}

/* The driver knows the handle of an executable graph no longer as that of a graph: whose node is it? */
static void
other_node(int step)
{
    static cudaGraphExec_t first;
    if (first == NULL) {
        capture(look_at_weights);
        CHECK(cudaGraphInstantiate(&first, graph, 0));
        CHECK(cudaGraphDestroy(graph));
    }
    for (int l = LAYERS - 1; l >= 0; --l)
        backward_of(l);
    if (step == 14) {
        change_node();
        CHECK(cudaGraphExecDestroy(exec));
        CHECK(cudaGraphInstantiate(&exec, graph, 0));
    }
    launch(look_at_weights);
    DDP_STEP(stream);
    optimize();
}

static void
diverge(int step)
{
    int from = is_mode("diverges-later") ? 4 : 0;
    launch(ten_steps);
    if (step == from && DDP_RANK() == 1)
        CHECK(cudaMemsetAsync(weights[0], 1, BYTES, stream));
}

static void CUDART_CB
sleep_long(void *unused)
{
    struct timespec time = {15, 0};
    (void)unused;
    nanosleep(&time, NULL);
}

static void
slow_step(void)
{
    CHECK(cudaLaunchHostFunc(stream, sleep_long, NULL));
    whole_step();
}

/* A capture of the trainer's own, which holds nothing of interest, or work on a gradient. */
static void
begin_another(void)
{
    CHECK(cudaStreamBeginCapture(side, cudaStreamCaptureModeRelaxed));
    if (is_mode("destroyed"))
        add<<<BLOCKS, THREADS, 0, side>>>(gradients[0], 1.0f);
    else
        look<<<1, 1, 0, side>>>(weights[0], scratch);
    if (is_mode("destroyed"))
        CHECK(cudaStreamDestroy(side));
    if (is_mode("ends-within"))
        exit(0);
}

/* How many steps it has made. */
static int
one_step(int step)
{
    if (is_mode("forgotten") && step == 4) {
        for (int l = 0; l < LAYERS; ++l)
            DDP_FORGET(gradients[l]);
    }
    if ((is_mode("open") && step == 0) || ((is_mode("ends-within") || is_mode("destroyed")) && step == 8))
        begin_another();
    if (is_mode("copied-by-hand") && step == 0)
        copy_by_hand();
    if (is_mode("forgotten"))
        launch(whole_step);
    else if (is_mode("drawn-in"))
        drawn_in();
    else if (is_mode("undeclared"))
        undeclared(step);
    else if (is_mode("copied-by-hand"))
        step_undeclared();
    else if (is_mode("other-node"))
        other_node(step);
    else if (is_mode("slow") && step == 0)
        launch(slow_step);
    else if (is_mode("diverges") || is_mode("diverges-later"))
        diverge(step);
    else
        whole_step();
    return is_mode("diverges") || is_mode("diverges-later") ? 10 : 1;
}

static void
create(void)
{
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking));
    CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    CHECK(cudaMalloc(&scratch, sizeof(float)));
    CHECK(cudaMalloc(&table, HIDDEN * sizeof(*table)));
    for (int l = 0; l < LAYERS; ++l) {
        CHECK(cudaMalloc(&weights[l], BYTES));
        CHECK(cudaMalloc(&gradients[l], BYTES));
        CHECK(cudaMemset(weights[l], 0, BYTES));
        CHECK(cudaMemset(gradients[l], 0, BYTES));
    }
    if (is_mode("drawn-in") || is_mode("undeclared"))
        CHECK(cudaMemcpy(table, gradients, HIDDEN * sizeof(*table), cudaMemcpyHostToDevice));
    CHECK(cudaDeviceSynchronize());
    for (int l = 0; l < LAYERS; ++l)
        DDP_PARAMETER(weights[l], COUNT, DDP_FLOAT32);
    for (int l = 0; l < LAYERS; ++l)
        DDP_GRADIENT(gradients[l], COUNT, DDP_FLOAT32);
}

static bool
weights_are_right(void)
{
    static float host[COUNT];
    for (int l = 0; l < LAYERS; ++l) {
        CHECK(cudaMemcpy(host, weights[l], BYTES, cudaMemcpyDeviceToHost));
        for (int i = 0; i < COUNT; ++i) {
            if (fabs((double)host[i] - expected[l]) > 1e-5 * fabs(expected[l])) {
                fprintf(stderr, "graph_corners: weight %d of layer %d is %.9g, not %.9g\n", i, l, (double)host[i],
                        expected[l]);
                return false;
            }
        }
    }
    return true;
}

int
main(int argc, char **argv)
{
    double mean = 0;
    mode = argc > 1 ? argv[1] : "";
    create();
    for (int r = 0; r < DDP_WORLD_SIZE(); ++r)
        mean += (1.0 + r) / DDP_WORLD_SIZE();
    for (int step = 0; step < STEPS; ++step) {
        int count = one_step(step);
        for (int l = 0; l < LAYERS; ++l)
            expected[l] -= 0.5 * mean * (count + (is_mode("other-node") && step >= 14 && l == LAYERS - 1));
    }
    CHECK(cudaStreamSynchronize(stream));
    return weights_are_right() ? 0 : 1;
}
