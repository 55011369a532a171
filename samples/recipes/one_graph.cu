/*
 * one_graph.cu - a framework that computes forward, backward and the update as one graph of operations, by one call, as
 * ggml does. The graph is computed in two parts: up to its first update, and from there on; DDP_STEP stands between
 * them.
 */
#include <cuda_runtime.h>
#include <ddprun.h>
#include <stdio.h>

enum { ITEMS = 24, WEIGHTS = 4, STEPS = 30, TENSORS = 2 };

static float *w[TENSORS], *gradient[TENSORS];
static size_t first, count;

__global__ void
backward(float *g, const float *values, size_t begin, size_t items, int tensor)
{
    int j = threadIdx.x;
    g[j] = 0;
    for (size_t i = begin; i < begin + items; ++i)
        g[j] += (values[j] - 0.0625f * (float)(i * j + tensor)) / (float)items;
}

__global__ void
sgd(float *values, const float *g)
{
    values[threadIdx.x] -= 0.25f * g[threadIdx.x];
}

enum operation { GRADIENT, UPDATE };

struct node {
    enum operation operation;
    int tensor;
};

/* The framework's: it computes the nodes from `begin` to `end`. */
static void
graph_compute(const struct node *graph, int begin, int end)
{
    for (int n = begin; n < end; ++n) {
        int tensor = graph[n].tensor;
        if (graph[n].operation == GRADIENT)
            backward<<<1, WEIGHTS>>>(gradient[tensor], w[tensor], first, count, tensor);
        else
            sgd<<<1, WEIGHTS>>>(w[tensor], gradient[tensor]);
    }
}

int
main(void)
{
    const struct node graph[] = {{GRADIENT, 1}, {GRADIENT, 0}, {UPDATE, 0}, {UPDATE, 1}};
    const int nodes = sizeof(graph) / sizeof(graph[0]);
    for (int t = 0; t < TENSORS; ++t) {
        cudaMalloc((void **)&w[t], WEIGHTS * sizeof(float));
        cudaMalloc((void **)&gradient[t], WEIGHTS * sizeof(float));
        cudaMemset(w[t], 0, WEIGHTS * sizeof(float));
        DDP_PARAMETER(w[t], WEIGHTS, DDP_FLOAT32);
        DDP_GRADIENT(gradient[t], WEIGHTS, DDP_FLOAT32);
    }
    int updates = 0; /* where the updates begin: no gradient may be computed after it */
    while (updates < nodes && graph[updates].operation == GRADIENT)
        ++updates;
    DDP_SHARD(ITEMS, &first, &count);
    for (int step = 0; step < STEPS; ++step) {
        graph_compute(graph, 0, updates); /* was: graph_compute(graph, 0, nodes) */
        DDP_STEP(0);
        graph_compute(graph, updates, nodes);
    }
    float result[TENSORS][WEIGHTS];
    for (int t = 0; t < TENSORS; ++t)
        cudaMemcpy(result[t], w[t], sizeof(result[t]), cudaMemcpyDeviceToHost);
    if (DDP_RANK() == 0)
        printf("w %.4f %.4f %.4f\n", result[0][1], result[0][3], result[1][0]);
}
