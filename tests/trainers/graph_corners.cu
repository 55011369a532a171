/*
 * graph_corners.cu - captured steps in corners where what was known of a stream, a graph or a gradient is no longer so:
 * gradients that are forgotten after the capture, a node that does other work while other graphs are alive, a stream
 * that is drawn into a capture after its last kernel outside, gradients declared complete in steps before but not in
 * the captured one, many steps in one graph, captures that no thread ends, or that go into a graph of the program's
 * own. Each is a mode.
 *
 * As exact.h; the exit code is 4 if a captured average does not wait for its producers.
 */
enum { LAYERS = 4, COUNT = 1024, STEPS = 24, HIDDEN = 2 };
#include "exact.h"
#include "graph_nodes.h"

#include <time.h>

static float *scratch, **table; /* table: device, addresses of the first HIDDEN */
static cudaGraph_t graph;
static cudaGraphExec_t exec;

ELEMENTWISE_OF_ALL(add_hidden, (float *const *addresses, int layer, float summand), addresses[layer][i] += summand)

static void
hidden_backward_of(int layer, cudaStream_t on)
{
    add_hidden<<<BLOCKS, THREADS, 0, on>>>(table, layer, mine());
}

static void
whole_step(void)
{
    layers_backward(0, stream);
    DDP_STEP(stream);
    layers_update();
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
    graph = graph_capture(stream, cudaStreamCaptureModeRelaxed, body);
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
    layers_backward(HIDDEN, stream);
    look<<<1, 1, 0, side>>>(weights[0], scratch);
    stream_follow(stream, side, event);
    for (int l = HIDDEN - 1; l >= 0; --l)
        hidden_backward_of(l, side);
    DDP_STEP(stream);
    stream_follow(side, stream, event);
    layers_update();
}

MODE("drawn-in", drawn_in, int)
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
            layer_backward(l, stream);
        else
            hidden_backward_of(l, stream);
        if (declares && l < HIDDEN)
            DDP_GRADIENT_READY(gradients[l], stream);
    }
    DDP_STEP(stream);
    layers_update();
}

static void
step_undeclared(void)
{
    step_with_table(false);
}

MODE("undeclared", undeclared, int step)
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
    float summand = mine();
    void *arguments[] = {&gradients[LAYERS - 1], &summand};
    cudaKernelNodeParams work = kernel_node((void *)add, BLOCKS, THREADS, arguments);
    CHECK(cudaGraphGetNodes(graph, nodes, &count));
    CHECK(cudaGraphKernelNodeSetParams(nodes[count - 1], &work));
}

/* The driver knows the handle of an executable graph no longer as that of a graph: whose node is it? */
MODE("other-node", other_node, int step)
{
    static cudaGraphExec_t first;
    if (first == NULL) {
        capture(look_at_weights);
        CHECK(cudaGraphInstantiate(&first, graph, 0));
        CHECK(cudaGraphDestroy(graph));
    }
    layers_backward(0, stream);
    if (step == 14) {
        change_node();
        CHECK(cudaGraphExecDestroy(exec));
        CHECK(cudaGraphInstantiate(&exec, graph, 0));
    }
    launch(look_at_weights);
    DDP_STEP(stream);
    layers_update();
}

/* Captured into a graph that the program has made, and put another node into. */
static void
launch_own(void (*body)(void))
{
    if (exec == NULL) {
        cudaGraphNode_t node;
        CHECK(cudaGraphCreate(&graph, 0));
        CHECK(cudaGraphAddEmptyNode(&node, graph, NULL, 0));
        CHECK(cudaStreamBeginCaptureToGraph(stream, graph, &node, NULL, 1, cudaStreamCaptureModeRelaxed));
        body();
        CHECK(cudaStreamEndCapture(stream, &graph));
        CHECK(cudaGraphInstantiate(&exec, graph, 0));
    }
    CHECK(cudaGraphLaunch(exec, stream));
}

static void
backward_alone(void)
{
    layers_backward(0, stream);
}

MODE("own-graph", own_graph, int)
{
    launch_own(whole_step);
}

MODE("own-graph-part", own_graph_part, int)
{
    launch_own(backward_alone);
    DDP_STEP(stream);
    layers_update();
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
    if (mode_of<void(int)>::given() != NULL)
        mode_of<void(int)>::given()(step);
    else if (is_mode("copied-by-hand"))
        step_undeclared();
    else if (begins_with("diverges"))
        diverge(step);
    else if (is_mode("forgotten") || (is_mode("slow") && step == 0))
        launch(is_mode("slow") ? slow_step : whole_step);
    else
        whole_step();
    return begins_with("diverges") ? 10 : 1;
}

static void
create(void)
{
    layers_create();
    scratch = device_floats(1);
    CHECK(cudaMalloc(&table, HIDDEN * sizeof(*table)));
    if (is_mode("drawn-in") || is_mode("undeclared"))
        CHECK(cudaMemcpy(table, gradients, HIDDEN * sizeof(*table), cudaMemcpyHostToDevice));
    CHECK(cudaDeviceSynchronize());
    layers_annotate();
}

int
main(int argc, char **argv)
{
    take_mode(argc, argv, "");
    create();
    for (int step = 0; step < STEPS; ++step) {
        expect_steps(one_step(step));
        if (is_mode("other-node") && step >= 14)
            expected[LAYERS - 1] -= 0.5 * mean_of_all();
    }
    return weights_are_right(1e-5) ? 0 : 1;
}
