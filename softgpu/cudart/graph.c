/*
 * graph.c - stream capture and graphs; graph_node.c has their nodes. What is in neither is refused by name: nodes that
 * allocate, conditions, launches from kernels.
 */
#include "runtime.h"

/* ---- capture ---- */

BOTH_FLAVOURS(cudaStreamBeginCapture, _ptsz, (cudaStream_t stream, enum cudaStreamCaptureMode mode),
              WITH_CONTEXT(STREAM_CALL(cuStreamBeginCapture_v2)(stream, (CUstreamCaptureMode)mode)))
BOTH_FLAVOURS(cudaStreamBeginCaptureToGraph, _ptsz,
              (cudaStream_t stream, cudaGraph_t graph, const cudaGraphNode_t *before, const cudaGraphEdgeData *edges,
               size_t count, enum cudaStreamCaptureMode mode),
              WITH_CONTEXT(STREAM_CALL(cuStreamBeginCaptureToGraph)(stream, graph, before,
                                                                    (const CUgraphEdgeData *)edges, count,
                                                                    (CUstreamCaptureMode)mode)))
BOTH_FLAVOURS(cudaStreamEndCapture, _ptsz, (cudaStream_t stream, cudaGraph_t *graph),
              WITH_CONTEXT(STREAM_CALL(cuStreamEndCapture)(stream, graph)))
BOTH_FLAVOURS(
    cudaStreamUpdateCaptureDependencies, _ptsz,
    (cudaStream_t stream, cudaGraphNode_t *nodes, const cudaGraphEdgeData *edges, size_t count, unsigned int flags),
    WITH_CONTEXT(STREAM_CALL(cuStreamUpdateCaptureDependencies_v2)(stream, nodes, (const CUgraphEdgeData *)edges, count,
                                                                   flags)))

/* ---- graphs ---- */

ONE_FLAVOUR(cudaGraphCreate, (cudaGraph_t * graph, unsigned int flags),
            WITH_CONTEXT(driver.cuGraphCreate(graph, flags)))
ONE_FLAVOUR(cudaGraphDestroy, (cudaGraph_t graph), WITH_CONTEXT(driver.cuGraphDestroy(graph)))
ONE_FLAVOUR(cudaGraphAddHostNode,
            (cudaGraphNode_t * node, cudaGraph_t graph, const cudaGraphNode_t *before, size_t count,
             const struct cudaHostNodeParams *parameters),
            WITH_CONTEXT(driver.cuGraphAddHostNode(node, graph, before, count,
                                                   (const CUDA_HOST_NODE_PARAMS *)parameters)))
ONE_FLAVOUR(cudaGraphAddEmptyNode,
            (cudaGraphNode_t * node, cudaGraph_t graph, const cudaGraphNode_t *before, size_t count),
            WITH_CONTEXT(driver.cuGraphAddEmptyNode(node, graph, before, count)))
ONE_FLAVOUR(cudaGraphAddEventRecordNode,
            (cudaGraphNode_t * node, cudaGraph_t graph, const cudaGraphNode_t *before, size_t count, cudaEvent_t event),
            WITH_CONTEXT(driver.cuGraphAddEventRecordNode(node, graph, before, count, event)))
ONE_FLAVOUR(cudaGraphAddEventWaitNode,
            (cudaGraphNode_t * node, cudaGraph_t graph, const cudaGraphNode_t *before, size_t count, cudaEvent_t event),
            WITH_CONTEXT(driver.cuGraphAddEventWaitNode(node, graph, before, count, event)))
ONE_FLAVOUR(cudaGraphGetNodes, (cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count),
            WITH_CONTEXT(driver.cuGraphGetNodes(graph, nodes, count)))
ONE_FLAVOUR(cudaGraphGetRootNodes, (cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count),
            WITH_CONTEXT(driver.cuGraphGetRootNodes(graph, nodes, count)))
ONE_FLAVOUR(cudaGraphNodeGetType, (cudaGraphNode_t node, enum cudaGraphNodeType *type),
            WITH_CONTEXT(driver.cuGraphNodeGetType(node, (CUgraphNodeType *)type)))
ONE_FLAVOUR(cudaGraphNodeGetDependencies,
            (cudaGraphNode_t node, cudaGraphNode_t *nodes, cudaGraphEdgeData *edges, size_t *count),
            WITH_CONTEXT(driver.cuGraphNodeGetDependencies_v2(node, nodes, (CUgraphEdgeData *)edges, count)))

/* ---- instantiated ones ---- */

ONE_FLAVOUR(cudaGraphInstantiate, (cudaGraphExec_t * exec, cudaGraph_t graph, unsigned long long flags),
            WITH_CONTEXT(driver.cuGraphInstantiateWithFlags(exec, graph, flags)))
ONE_FLAVOUR(cudaGraphInstantiateWithFlags, (cudaGraphExec_t * exec, cudaGraph_t graph, unsigned long long flags),
            WITH_CONTEXT(driver.cuGraphInstantiateWithFlags(exec, graph, flags)))
ONE_FLAVOUR(cudaGraphExecGetFlags, (cudaGraphExec_t exec, unsigned long long *flags),
            WITH_CONTEXT(driver.cuGraphExecGetFlags(exec, (cuuint64_t *)flags)))
ONE_FLAVOUR(cudaGraphExecUpdate, (cudaGraphExec_t exec, cudaGraph_t graph, cudaGraphExecUpdateResultInfo *info),
            WITH_CONTEXT(driver.cuGraphExecUpdate_v2(exec, graph, (CUgraphExecUpdateResultInfo *)info)))
ONE_FLAVOUR(cudaGraphExecDestroy, (cudaGraphExec_t exec), WITH_CONTEXT(driver.cuGraphExecDestroy(exec)))

BOTH_FLAVOURS(cudaGraphLaunch, _ptsz, (cudaGraphExec_t exec, cudaStream_t stream),
              WITH_CONTEXT(STREAM_CALL(cuGraphLaunch)(exec, stream)))
BOTH_FLAVOURS(cudaGraphUpload, _ptsz, (cudaGraphExec_t exec, cudaStream_t stream),
              WITH_CONTEXT(STREAM_CALL(cuGraphUpload)(exec, stream)))
