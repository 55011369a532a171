/*
 * graphs_steps.h - what the trainers of graphs.cu enqueue, capture and launch, and how a captured step is looked at.
 * Included by graphs.cu only.
 */
#ifndef TESTS_TRAINERS_GRAPHS_STEPS_H
#define TESTS_TRAINERS_GRAPHS_STEPS_H

enum { LAYERS = 6, COUNT = 1024, GRAPHS = 3 };
#include "exact.h"
#include "graph_nodes.h"

static float *factors, *statistics, *scratch;
static float **table; /* device: the gradients' addresses, where a mode hides them */
static cudaStream_t third;
static cudaEvent_t events[8];
static cudaGraphExec_t execs[GRAPHS];
static cudaGraph_t kept; /* the last graph that was captured */

ELEMENTWISE_OF_ALL(add_times, (float *values, const float *factor, float summand), values[i] += summand * *factor)
ELEMENTWISE_OF_ALL(add_hidden, (float *const *addresses, int layer, const float *factor, float summand),
                   addresses[layer][i] += summand * *factor)
ELEMENTWISE_OF_ALL(update_with, (float *weight, const float *gradient, float rate, const float *more),
                   weight[i] -= rate * gradient[i] + (more != NULL ? *more : 0.0f))

static float
factor_of(int step)
{
    return (float)(1 + step % 5);
}

static void
order(cudaStream_t first, cudaStream_t second, int event)
{
    stream_follow(first, second, events[event]);
}

/* ---- what a step enqueues ---- */

static void
backward_of(int layer, cudaStream_t on)
{
    if (is_mode("hidden") && layer < 2)
        add_hidden<<<BLOCKS, THREADS, 0, on>>>(table, layer, factors, mine());
    else
        add_times<<<BLOCKS, THREADS, 0, on>>>(gradients[layer], factors, mine());
}

/* On one stream; or on two, which part and come together again. */
static void
backward(void)
{
    bool forks = is_mode("fork");
    if (forks)
        order(stream, side, 0);
    for (int l = LAYERS - 1; l >= 0; --l)
        backward_of(l, forks && l % 2 == 0 ? side : stream);
    if (forks)
        order(side, stream, 1);
}

static void
average(void)
{
    if (is_mode("buffer")) /* on a stream that DDP_STEP does not name, before and after it */
        set<<<1, 1, 0, stream>>>(statistics, 1.0f + 2.0f * (float)DDP_RANK());
    if (is_mode("fork"))
        order(stream, third, 2);
    DDP_STEP(stream);
}

/* On the stream of DDP_STEP; or on another, which comes after backward, and after DDP_STEP by ddprun's doing. */
static void
optimize(float rate)
{
    bool forks = is_mode("fork");
    if (is_mode("buffer"))
        look<<<1, 1, 0, stream>>>(statistics, statistics + 1);
    for (int l = 0; l < LAYERS; ++l) {
        cudaStream_t on = forks && l % 3 == 0 ? third : stream;
        update_with<<<BLOCKS, THREADS, 0, on>>>(weights[l], gradients[l], rate,
                                                is_mode("buffer") ? statistics + 1 : NULL);
        CHECK(cudaMemsetAsync(gradients[l], 0, BYTES, on));
    }
    if (forks)
        order(third, stream, 3);
}

static void
whole_step(void)
{
    backward();
    average();
    optimize(0.5f);
}

/* The step of one group, on a stream of its own or of both. */
static void
group_on(int g, cudaStream_t on)
{
    for (int l = g; l < LAYERS; l += 2)
        backward_of(l, on);
    DDP_STEP_GROUP(g, on);
    for (int l = g; l < LAYERS; l += 2) {
        update_with<<<BLOCKS, THREADS, 0, on>>>(weights[l], gradients[l], 0.5f, NULL);
        CHECK(cudaMemsetAsync(gradients[l], 0, BYTES, on));
    }
}

/* Two groups: the second's backward stands between. */
static void
step_of_groups(void)
{
    for (int g = 0; g < 2; ++g)
        group_on(g, stream);
}

static void
forward(void)
{
    for (int l = 0; l < LAYERS; ++l)
        look<<<1, 1, 0, stream>>>(weights[l], scratch + l);
}

/* ---- graphs ---- */

static cudaGraph_t
capture(void (*body)(void))
{
    cudaGraph_t graph = graph_capture(stream, cudaStreamCaptureModeGlobal, body);
    if (kept != NULL)
        CHECK(cudaGraphDestroy(kept));
    kept = graph;
    return graph;
}

static void
launch(int which, void (*body)(void))
{
    if (execs[which] == NULL)
        CHECK(cudaGraphInstantiate(&execs[which], capture(body), 0));
    CHECK(cudaGraphLaunch(execs[which], stream));
}

static void
drop(int which)
{
    if (execs[which] != NULL)
        CHECK(cudaGraphExecDestroy(execs[which]));
    execs[which] = NULL;
}

static void
three_steps(void)
{
    for (int i = 0; i < 3; ++i)
        whole_step();
}

static void
two_passes(void)
{
    backward();
    backward();
    average();
    optimize(0.25f);
}

static void
update_only(void)
{
    optimize(0.5f);
}

static void
step_and_update(void)
{
    average();
    optimize(0.5f);
}

/* By hand: one node for each layer. */
static void
build_backward(void)
{
    cudaGraph_t graph;
    CHECK(cudaGraphCreate(&graph, 0));
    for (int l = 0; l < LAYERS; ++l) {
        float summand = mine();
        void *arguments[] = {&gradients[l], &factors, &summand};
        add_kernel(graph, (void *)add_times, BLOCKS, THREADS, arguments);
    }
    CHECK(cudaGraphInstantiate(&execs[0], graph, 0));
    CHECK(cudaGraphDestroy(graph));
}

/* The backward pass as a graph of its own, part of another: a child. */
static void
build_parent(void)
{
    cudaGraph_t graph;
    cudaGraphNode_t node;
    CHECK(cudaGraphCreate(&graph, 0));
    CHECK(cudaGraphAddChildGraphNode(&node, graph, NULL, 0, capture(backward)));
    CHECK(cudaGraphInstantiate(&execs[0], graph, 0));
    CHECK(cudaGraphDestroy(graph));
}

/* ---- looking at a captured step ---- */

/* How many collectives there are, and how many of them do not wait for the last node of backward. */
static void
look_at_overlap(void)
{
    CUgraphNode nodes[512], last = NULL;
    size_t count = 512;
    int all = 0, early = 0;
    CHECK(cuGraphGetNodes((CUgraph)kept, nodes, &count));
    for (size_t i = 0; i < count; ++i)
        last = is_named(nodes[i], "add") ? nodes[i] : last;
    for (size_t i = 0; i < count; ++i) {
        if (!is_named(nodes[i], "AllReduce"))
            continue;
        ++all;
        early += !comes_after(nodes[i], last);
    }
    printf("%d collectives, %d of them early\n", all, early);
}

/* Another rate for one update, in the executable graph. */
static void
change_update(float rate, bool other_gradient)
{
    CUgraphNode nodes[512];
    size_t count = 512;
    CHECK(cuGraphGetNodes((CUgraph)kept, nodes, &count));
    for (size_t i = 0; i < count; ++i) {
        if (!is_named(nodes[i], "update"))
            continue;
        CUDA_KERNEL_NODE_PARAMS work;
        CHECK(cuGraphKernelNodeGetParams(nodes[i], &work));
        int layer = 0;
        while (*(float **)work.kernelParams[0] != weights[layer])
            ++layer;
        const float *more = NULL;
        void *arguments[] = {&weights[layer], &gradients[other_gradient ? (layer + 1) % LAYERS : layer], &rate, &more};
        work.kernelParams = arguments;
        CHECK(cuGraphExecKernelNodeSetParams((CUgraphExec)execs[0], nodes[i], &work));
    }
}

static void
add_node(cudaGraph_t graph)
{
    float *to = scratch, value = 1;
    void *arguments[] = {&to, &value};
    add_kernel(graph, (void *)set, 1, 1, arguments);
}

#endif
