/*
 * graph.c - stream capture and graphs; graph_node.c has their nodes. What is in neither is refused by name: nodes that
 * allocate, conditions, launches from kernels.
 */
#include "runtime.h"

/* ---- capture ---- */

BOTH_FLAVOURS(cudaStreamBeginCapture, _ptsz, (cudaStream_t stream, enum cudaStreamCaptureMode mode),
              WITH_CONTEXT(STREAM_CALL(cuStreamBeginCapture_v2)(stream, (CUstreamCaptureMode)mode)))
BOTH_FLAVOURS(cudaStreamEndCapture, _ptsz, (cudaStream_t stream, cudaGraph_t *graph),
              WITH_CONTEXT(STREAM_CALL(cuStreamEndCapture)(stream, graph)))
BOTH_FLAVOURS(
    cudaStreamUpdateCaptureDependencies, _ptsz,
    (cudaStream_t stream, cudaGraphNode_t *nodes, const cudaGraphEdgeData *edges, size_t count, unsigned int flags),
    WITH_CONTEXT(STREAM_CALL(cuStreamUpdateCaptureDependencies_v2)(stream, nodes, (const CUgraphEdgeData *)edges, count,
                                                                   flags)))

/* ---- graphs ---- */

cudaError_t
cudaGraphCreate(cudaGraph_t *graph, unsigned int flags)
{
    return WITH_CONTEXT(driver.cuGraphCreate(graph, flags));
}

cudaError_t
cudaGraphDestroy(cudaGraph_t graph)
{
    return WITH_CONTEXT(driver.cuGraphDestroy(graph));
}

cudaError_t
cudaGraphAddHostNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *before, size_t count,
                     const struct cudaHostNodeParams *parameters)
{
    return WITH_CONTEXT(
        driver.cuGraphAddHostNode(node, graph, before, count, (const CUDA_HOST_NODE_PARAMS *)parameters));
}

cudaError_t
cudaGraphAddEmptyNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *before, size_t count)
{
    return WITH_CONTEXT(driver.cuGraphAddEmptyNode(node, graph, before, count));
}

cudaError_t
cudaGraphAddEventRecordNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *before, size_t count,
                            cudaEvent_t event)
{
    return WITH_CONTEXT(driver.cuGraphAddEventRecordNode(node, graph, before, count, event));
}

cudaError_t
cudaGraphAddEventWaitNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *before, size_t count,
                          cudaEvent_t event)
{
    return WITH_CONTEXT(driver.cuGraphAddEventWaitNode(node, graph, before, count, event));
}

cudaError_t
cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count)
{
    return WITH_CONTEXT(driver.cuGraphGetNodes(graph, nodes, count));
}

cudaError_t
cudaGraphGetRootNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count)
{
    return WITH_CONTEXT(driver.cuGraphGetRootNodes(graph, nodes, count));
}

cudaError_t
cudaGraphNodeGetType(cudaGraphNode_t node, enum cudaGraphNodeType *type)
{
    return WITH_CONTEXT(driver.cuGraphNodeGetType(node, (CUgraphNodeType *)type));
}

cudaError_t
cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t *nodes, cudaGraphEdgeData *edges, size_t *count)
{
    return WITH_CONTEXT(driver.cuGraphNodeGetDependencies_v2(node, nodes, (CUgraphEdgeData *)edges, count));
}

/* ---- instantiated ones ---- */

cudaError_t
cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long flags)
{
    return WITH_CONTEXT(driver.cuGraphInstantiateWithFlags(exec, graph, flags));
}

cudaError_t
cudaGraphInstantiateWithFlags(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long flags)
{
    return WITH_CONTEXT(driver.cuGraphInstantiateWithFlags(exec, graph, flags));
}

cudaError_t
cudaGraphExecGetFlags(cudaGraphExec_t exec, unsigned long long *flags)
{
    return WITH_CONTEXT(driver.cuGraphExecGetFlags(exec, (cuuint64_t *)flags));
}

cudaError_t
cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph, cudaGraphExecUpdateResultInfo *info)
{
    return WITH_CONTEXT(driver.cuGraphExecUpdate_v2(exec, graph, (CUgraphExecUpdateResultInfo *)info));
}

cudaError_t
cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    return WITH_CONTEXT(driver.cuGraphExecDestroy(exec));
}

BOTH_FLAVOURS(cudaGraphLaunch, _ptsz, (cudaGraphExec_t exec, cudaStream_t stream),
              WITH_CONTEXT(STREAM_CALL(cuGraphLaunch)(exec, stream)))
BOTH_FLAVOURS(cudaGraphUpload, _ptsz, (cudaGraphExec_t exec, cudaStream_t stream),
              WITH_CONTEXT(STREAM_CALL(cuGraphUpload)(exec, stream)))
