/*
 * test_graph_node.c - graphs put together and changed by hand.
 *
 * Properties: a graph runs in an order that its dependencies allow, whichever call made them, and as its edges say
 * (random graphs against a matrix); nodes for copies, memsets, kernels, host functions and graphs do what their
 * parameters say; a change of a node shows in what is instantiated later, a change of an instantiated graph in its next
 * launch, and neither anywhere else; clones are apart from what they were made of.
 */
#include "capture.h"

#include "tests/lib/test.h"

#include <cuda_runtime_api.h>

/* ---- random graphs ---- */

enum { NODES = 12 };

static struct span spans[NODES];

struct model {
    bool before[NODES][NODES]; /* [i][k]: k comes before i */
    CUgraphNode nodes[NODES];  /* NULL: destroyed */
};

static void
check_edges(CUgraph graph, const struct model *model)
{
    CUgraphNode from[NODES * NODES], to[NODES * NODES];
    size_t count = NODES * NODES, wanted = 0;
    OK(cuGraphGetEdges(graph, from, to, NULL, &count));
    for (int i = 0; i < NODES; ++i) {
        size_t after = 0, dependent = NODES;
        CUgraphNode found[NODES];
        for (int k = 0; k < NODES; ++k) {
            bool is_there = false;
            for (size_t e = 0; e < count; ++e)
                is_there |= model->nodes[i] != NULL && from[e] == model->nodes[k] && to[e] == model->nodes[i];
            ck_assert_int_eq(is_there, model->before[i][k]);
            wanted += model->before[i][k];
            after += model->before[k][i];
        }
        if (model->nodes[i] == NULL)
            continue;
        OK(cuGraphNodeGetDependentNodes(model->nodes[i], found, NULL, &dependent));
        ck_assert_uint_eq(dependent, after);
    }
    ck_assert_uint_eq(count, wanted);
}

static void
check_run(CUgraph graph, const struct model *model)
{
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUgraphExec exec = instantiate(graph);
    for (int launch = 0; launch < 3; ++launch) {
        memset(spans, 0, sizeof spans);
        run_graph(exec, stream);
        for (int i = 0; i < NODES; ++i) {
            ck_assert_int_eq(atomic_load(&spans[i].end) != 0, model->nodes[i] != NULL);
            for (int k = 0; k < NODES; ++k) {
                if (model->before[i][k])
                    ck_assert_uint_lt(atomic_load(&spans[k].end), atomic_load(&spans[i].begin));
            }
        }
    }
    OK(cuGraphExecDestroy(exec));
    OK(cuStreamDestroy(stream));
}

TEST_GROUP(all, .timeout_s = 100, .setup = use_device);

LOOP_TEST(graphs_run_as_their_edges_say, 0, 20)
{
    unsigned seed = (unsigned)_i;
    struct model model = {0};
    CUgraph graph, clone;
    CUfunction span = load_function(&span_image);
    OK(cuGraphCreate(&graph, 0));
    for (int i = 0; i < NODES; ++i) {
        CUgraphNode before[NODES];
        size_t count = 0;
        for (int k = 0; k < i; ++k) {
            if (rand_r(&seed) % 4 == 0) {
                before[count++] = model.nodes[k];
                model.before[i][k] = true;
            }
        }
        struct span *mine = &spans[i];
        void *args[] = {&mine};
        CUDA_KERNEL_NODE_PARAMS parameters = {.func = span,
                                              .gridDimX = 1,
                                              .gridDimY = 1,
                                              .gridDimZ = 1,
                                              .blockDimX = 1,
                                              .blockDimY = 1,
                                              .blockDimZ = 1,
                                              .kernelParams = args};
        OK(cuGraphAddKernelNode(&model.nodes[i], graph, before, count, &parameters));
    }
    check_edges(graph, &model);
    OK(cuGraphClone(&clone, graph));
    struct model of_clone = model;
    for (int i = 0; i < NODES; ++i)
        OK(cuGraphNodeFindInClone(&of_clone.nodes[i], model.nodes[i], clone));
    for (int change = 0; change < 20; ++change) {
        int i = 1 + rand_r(&seed) % (NODES - 1), k = rand_r(&seed) % i;
        if (model.nodes[i] == NULL || model.nodes[k] == NULL)
            continue;
        CUresult (*call)(CUgraph, const CUgraphNode *, const CUgraphNode *, const CUgraphEdgeData *, size_t) =
            model.before[i][k] ? cuGraphRemoveDependencies : cuGraphAddDependencies;
        OK(call(graph, &model.nodes[k], &model.nodes[i], NULL, 1));
        ck_assert_int_eq(call(graph, &model.nodes[k], &model.nodes[i], NULL, 1), CUDA_ERROR_INVALID_VALUE); /* twice */
        model.before[i][k] = !model.before[i][k];
        if (change == 10) {
            OK(cuGraphDestroyNode(model.nodes[i]));
            ck_assert_int_eq(cuGraphDestroyNode(model.nodes[i]), CUDA_ERROR_INVALID_VALUE);
            model.nodes[i] = NULL;
            for (int n = 0; n < NODES; ++n)
                model.before[i][n] = model.before[n][i] = false;
        }
    }
    check_edges(graph, &model);
    check_run(graph, &model);
    check_edges(clone, &of_clone);
    check_run(clone, &of_clone);

    /* A cycle is no graph that could run. */
    int first = -1, last = -1;
    for (int i = 0; i < NODES; ++i) {
        for (int k = 0; k < NODES; ++k) {
            if (of_clone.before[i][k])
                first = k, last = i;
        }
    }
    if (first >= 0) {
        CUgraphExec exec;
        OK(cuGraphAddDependencies(clone, &of_clone.nodes[last], &of_clone.nodes[first], NULL, 1));
        ck_assert_int_eq(cuGraphInstantiate(&exec, clone, 0), CUDA_ERROR_INVALID_VALUE);
    }
    OK(cuGraphDestroy(graph));
    OK(cuGraphDestroy(clone));
}

/* ---- what nodes do: memset, then add, then a copy to the host, then a call ---- */

enum { COUNT = 16 };

struct chain {
    float *values, *seen; /* device, page-locked */
    atomic_int calls;
    cudaKernel_t add;
    cudaGraph_t graph;
    cudaGraphNode_t fill, kernel, copy, call;
    struct cudaMemsetParams filling;
    struct cudaKernelNodeParams adding;
    void *args[3];
    float by;
    unsigned count;
};

static void CUDART_CB
count_chain(void *calls)
{
    atomic_fetch_add((atomic_int *)calls, 1);
}

static void
make_chain(struct chain *chain)
{
    cudaLibrary_t library;
    *chain = (struct chain){.by = 2, .count = COUNT};
    OK(cudaLibraryLoadData(&library, &add_image, NULL, NULL, 0, NULL, NULL, 0));
    OK(cudaLibraryGetKernel(&chain->add, library, add_image.name));
    OK(cudaMalloc((void **)&chain->values, COUNT * sizeof(float)));
    OK(cudaMallocHost((void **)&chain->seen, COUNT * sizeof(float)));
    OK(cudaGraphCreate(&chain->graph, 0));
    chain->filling = (struct cudaMemsetParams){.dst = chain->values, .elementSize = 4, .width = COUNT, .height = 1};
    chain->args[0] = &chain->values;
    chain->args[1] = &chain->by;
    chain->args[2] = &chain->count;
    chain->adding = (struct cudaKernelNodeParams){
        .func = chain->add, .gridDim = {COUNT, 1, 1}, .blockDim = {1, 1, 1}, .kernelParams = chain->args};
    struct cudaHostNodeParams calling = {.fn = count_chain, .userData = &chain->calls};
    OK(cudaGraphAddMemsetNode(&chain->fill, chain->graph, NULL, 0, &chain->filling));
    OK(cudaGraphAddKernelNode(&chain->kernel, chain->graph, &chain->fill, 1, &chain->adding));
    OK(cudaGraphAddMemcpyNode1D(&chain->copy, chain->graph, &chain->kernel, 1, chain->seen, chain->values,
                                COUNT * sizeof(float), cudaMemcpyDeviceToHost));
    OK(cudaGraphAddHostNode(&chain->call, chain->graph, &chain->copy, 1, &calling));
}

/* Launches, and expects so much in each element, and so many calls. */
static void
expect_launch(struct chain *chain, cudaGraphExec_t exec, float wanted, int calls)
{
    atomic_store(&chain->calls, 0);
    OK(cudaGraphLaunch(exec, 0));
    OK(cudaDeviceSynchronize());
    for (int i = 0; i < COUNT; ++i)
        ck_assert_msg(chain->seen[i] == wanted, "%g, not %g", (double)chain->seen[i], (double)wanted);
    ck_assert_int_eq(atomic_load(&chain->calls), calls);
}

static float
as_float(unsigned bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

TEST(changes_show_where_they_were_made)
{
    struct chain chain;
    cudaGraphExec_t exec, later;
    cudaGraph_t clone;
    const unsigned five = 0x40a00000;
    make_chain(&chain);
    OK(cudaGraphInstantiate(&exec, chain.graph, 0));
    chain.by = 77; /* parameters were copied */
    expect_launch(&chain, exec, 2, 1);
    OK(cudaGraphClone(&clone, chain.graph));

    /* In the graph: what was instantiated and the clone keep what they have. */
    chain.by = 3;
    OK(cudaGraphKernelNodeSetParams(chain.kernel, &chain.adding));
    chain.filling.value = five;
    OK(cudaGraphMemsetNodeSetParams(chain.fill, &chain.filling));
    ck_assert(as_float(five) == 5.0f);
    expect_launch(&chain, exec, 2, 1);
    OK(cudaGraphInstantiate(&later, chain.graph, 0));
    expect_launch(&chain, later, 8, 1);
    OK(cudaGraphExecDestroy(later));
    OK(cudaGraphInstantiate(&later, clone, 0));
    expect_launch(&chain, later, 2, 1);

    /* In what was instantiated: nothing else. */
    chain.by = 4;
    OK(cudaGraphExecKernelNodeSetParams(exec, chain.kernel, &chain.adding));
    expect_launch(&chain, exec, 4, 1);
    OK(cudaGraphExecMemsetNodeSetParams(exec, chain.fill, &chain.filling));
    expect_launch(&chain, exec, 9, 1);
    expect_launch(&chain, later, 2, 1);
    float *other;
    OK(cudaMalloc((void **)&other, COUNT * sizeof(float)));
    OK(cudaMemset(other, 0, COUNT * sizeof(float)));
    OK(cudaGraphExecMemcpyNodeSetParams1D(exec, chain.copy, chain.seen, other, COUNT * sizeof(float),
                                          cudaMemcpyDeviceToHost));
    expect_launch(&chain, exec, 0, 1);
    atomic_int unused = 0;
    struct cudaHostNodeParams calling = {.fn = count_chain, .userData = &unused};
    OK(cudaGraphExecHostNodeSetParams(exec, chain.call, &calling));
    expect_launch(&chain, exec, 0, 0);
    ck_assert_int_eq(atomic_load(&unused), 1);

    /* An update of the whole, and then again of a node, which is still known. */
    OK(cudaGraphExecUpdate(exec, clone, NULL));
    expect_launch(&chain, exec, 2, 1);
    OK(cudaGraphExecKernelNodeSetParams(exec, chain.kernel, &chain.adding));
    expect_launch(&chain, exec, 4, 1);

    /* Nodes of the wrong kind, and of another graph. */
    struct chain stranger;
    make_chain(&stranger);
    ck_assert_int_eq(cudaGraphExecKernelNodeSetParams(exec, chain.fill, &chain.adding), cudaErrorInvalidValue);
    ck_assert_int_eq(cudaGraphExecKernelNodeSetParams(exec, stranger.kernel, &chain.adding), cudaErrorInvalidValue);
    ck_assert_int_eq(cudaGraphMemsetNodeSetParams(chain.kernel, &chain.filling), cudaErrorInvalidValue);
    chain.filling.elementSize = 3;
    ck_assert_int_eq(cudaGraphMemsetNodeSetParams(chain.fill, &chain.filling), cudaErrorInvalidValue);
}

TEST(a_captured_kernel_can_be_asked_and_changed)
{
    struct chain chain;
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    cudaGraphNode_t node;
    size_t count = 1;
    struct cudaKernelNodeParams found;
    make_chain(&chain);
    OK(cudaMemset(chain.values, 0, COUNT * sizeof(float)));
    OK(cudaStreamCreate(&stream));
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    OK(cudaLaunchKernel(chain.add, chain.adding.gridDim, chain.adding.blockDim, chain.args, 0, stream));
    OK(cudaStreamEndCapture(stream, &graph));
    OK(cudaGraphGetNodes(graph, &node, &count));
    OK(cudaGraphKernelNodeGetParams(node, &found));
    ck_assert_uint_eq(found.gridDim.x, COUNT);
    ck_assert_uint_eq(found.blockDim.x, 1);
    ck_assert(*(float **)found.kernelParams[0] == chain.values);
    ck_assert(*(float *)found.kernelParams[1] == 2.0f);
    OK(cudaGraphInstantiate(&exec, graph, 0));
    float by = 10;
    void *args[] = {found.kernelParams[0], &by, found.kernelParams[2]};
    found.kernelParams = args;
    OK(cudaGraphExecKernelNodeSetParams(exec, node, &found));
    OK(cudaGraphLaunch(exec, stream));
    OK(cudaStreamSynchronize(stream));
    float seen;
    OK(cudaMemcpy(&seen, chain.values, sizeof seen, cudaMemcpyDeviceToHost));
    ck_assert(seen == 10.0f);
}

TEST(a_child_runs_as_it_was_when_it_was_added)
{
    struct chain chain;
    cudaGraph_t parent;
    cudaGraphExec_t exec;
    cudaGraphNode_t first, second;
    make_chain(&chain);
    OK(cudaGraphCreate(&parent, 0));
    OK(cudaGraphAddChildGraphNode(&first, parent, NULL, 0, chain.graph));
    chain.by = 6;
    OK(cudaGraphKernelNodeSetParams(chain.kernel, &chain.adding));
    OK(cudaGraphAddChildGraphNode(&second, parent, &first, 1, chain.graph));
    OK(cudaGraphInstantiate(&exec, parent, 0));
    expect_launch(&chain, exec, 6, 2);
    OK(cudaGraphDestroyNode(second));
    OK(cudaGraphExecDestroy(exec));
    OK(cudaGraphInstantiate(&exec, parent, 0));
    expect_launch(&chain, exec, 2, 1);
    OK(cudaGraphExecChildGraphNodeSetParams(exec, first, chain.graph));
    expect_launch(&chain, exec, 6, 1);
}
