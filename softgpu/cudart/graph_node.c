/*
 * graph_node.c - nodes of graphs: added by hand, asked about, changed; in graphs and in what was instantiated from
 * them.
 */
#include "runtime.h"

/* ---- parameters, as the driver has them ---- */

static cudaError_t
kernel_parameters(CUDA_KERNEL_NODE_PARAMS *to, const struct cudaKernelNodeParams *from)
{
    CUfunction function;
    REQUIRE(from != NULL);
    TRY(kernel_function(from->func, &function));
    *to = (CUDA_KERNEL_NODE_PARAMS){.func = function,
                                    .gridDimX = from->gridDim.x,
                                    .gridDimY = from->gridDim.y,
                                    .gridDimZ = from->gridDim.z,
                                    .blockDimX = from->blockDim.x,
                                    .blockDimY = from->blockDim.y,
                                    .blockDimZ = from->blockDim.z,
                                    .sharedMemBytes = from->sharedMemBytes,
                                    .kernelParams = from->kernelParams,
                                    .extra = from->extra};
    return cudaSuccess;
}

/* The one of the thread's device, for calls that name a context. */
static cudaError_t
own_context(CUcontext *context_p)
{
    TRY(runtime_enter());
    return from_driver(driver.cuCtxGetCurrent(context_p));
}

static cudaError_t
copy_parameters(CUDA_MEMCPY3D *to, const struct cudaMemcpy3DParms *from, CUcontext *context_p)
{
    TRY(copy_box_3d(to, from));
    return own_context(context_p);
}

/* One row, for the calls that end in 1D. */
static struct cudaMemcpy3DParms
row(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
    return (struct cudaMemcpy3DParms){.srcPtr = {(void *)from, bytes, bytes, 1},
                                      .dstPtr = {to, bytes, bytes, 1},
                                      .extent = {bytes, 1, 1},
                                      .kind = kind};
}

static cudaError_t
fill_parameters(CUDA_MEMSET_NODE_PARAMS *to, const struct cudaMemsetParams *from, CUcontext *context_p)
{
    REQUIRE(from != NULL);
    *to = (CUDA_MEMSET_NODE_PARAMS){.dst = (CUdeviceptr)from->dst,
                                    .pitch = from->pitch,
                                    .value = from->value,
                                    .elementSize = from->elementSize,
                                    .width = from->width,
                                    .height = from->height};
    return own_context(context_p);
}

/* A call of the driver with parameters that `make` has translated into `passed`. */
#define WITH_PARAMETERS(make, call)                                     \
    __extension__({                                                     \
        cudaError_t made = (make);                                      \
        made != cudaSuccess ? finish(made) : WITH_CONTEXT(driver.call); \
    })

/* ---- adding ---- */

cudaError_t
cudaGraphAddKernelNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *before, size_t count,
                       const struct cudaKernelNodeParams *parameters)
{
    CUDA_KERNEL_NODE_PARAMS passed;
    return WITH_PARAMETERS(kernel_parameters(&passed, parameters),
                           cuGraphAddKernelNode_v2(node, graph, before, count, &passed));
}

cudaError_t
cudaGraphAddMemcpyNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *before, size_t count,
                       const struct cudaMemcpy3DParms *parameters)
{
    CUDA_MEMCPY3D passed;
    CUcontext context;
    return WITH_PARAMETERS(copy_parameters(&passed, parameters, &context),
                           cuGraphAddMemcpyNode(node, graph, before, count, &passed, context));
}

cudaError_t
cudaGraphAddMemcpyNode1D(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *before, size_t count,
                         void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
    const struct cudaMemcpy3DParms parameters = row(to, from, bytes, kind);
    return cudaGraphAddMemcpyNode(node, graph, before, count, &parameters);
}

cudaError_t
cudaGraphAddMemsetNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *before, size_t count,
                       const struct cudaMemsetParams *parameters)
{
    CUDA_MEMSET_NODE_PARAMS passed;
    CUcontext context;
    return WITH_PARAMETERS(fill_parameters(&passed, parameters, &context),
                           cuGraphAddMemsetNode(node, graph, before, count, &passed, context));
}

ONE_FLAVOUR(cudaGraphAddChildGraphNode,
            (cudaGraphNode_t * node, cudaGraph_t graph, const cudaGraphNode_t *before, size_t count, cudaGraph_t child),
            WITH_CONTEXT(driver.cuGraphAddChildGraphNode(node, graph, before, count, child)))

/* ---- graphs as a whole ---- */

ONE_FLAVOUR(cudaGraphDestroyNode, (cudaGraphNode_t node), WITH_CONTEXT(driver.cuGraphDestroyNode(node)))
ONE_FLAVOUR(cudaGraphClone, (cudaGraph_t * clone, cudaGraph_t graph), WITH_CONTEXT(driver.cuGraphClone(clone, graph)))
ONE_FLAVOUR(cudaGraphNodeFindInClone, (cudaGraphNode_t * node, cudaGraphNode_t original, cudaGraph_t clone),
            WITH_CONTEXT(driver.cuGraphNodeFindInClone(node, original, clone)))
ONE_FLAVOUR(cudaGraphAddDependencies,
            (cudaGraph_t graph, const cudaGraphNode_t *from, const cudaGraphNode_t *to, const cudaGraphEdgeData *edges,
             size_t count),
            WITH_CONTEXT(driver.cuGraphAddDependencies_v2(graph, from, to, (const CUgraphEdgeData *)edges, count)))
ONE_FLAVOUR(cudaGraphRemoveDependencies,
            (cudaGraph_t graph, const cudaGraphNode_t *from, const cudaGraphNode_t *to, const cudaGraphEdgeData *edges,
             size_t count),
            WITH_CONTEXT(driver.cuGraphRemoveDependencies_v2(graph, from, to, (const CUgraphEdgeData *)edges, count)))
ONE_FLAVOUR(cudaGraphGetEdges,
            (cudaGraph_t graph, cudaGraphNode_t *from, cudaGraphNode_t *to, cudaGraphEdgeData *edges, size_t *count),
            WITH_CONTEXT(driver.cuGraphGetEdges_v2(graph, from, to, (CUgraphEdgeData *)edges, count)))
ONE_FLAVOUR(cudaGraphNodeGetDependentNodes,
            (cudaGraphNode_t node, cudaGraphNode_t *nodes, cudaGraphEdgeData *edges, size_t *count),
            WITH_CONTEXT(driver.cuGraphNodeGetDependentNodes_v2(node, nodes, (CUgraphEdgeData *)edges, count)))

/* ---- what a node does ---- */

cudaError_t
cudaGraphKernelNodeGetParams(cudaGraphNode_t node, struct cudaKernelNodeParams *parameters)
{
    CUDA_KERNEL_NODE_PARAMS found;
    void *kernel;
    REQUIRE(parameters != NULL);
    TRY(runtime_enter());
    TRY_DRIVER(driver.cuGraphKernelNodeGetParams_v2(node, &found));
    TRY(kernel_of_function(found.func, &kernel));
    *parameters = (struct cudaKernelNodeParams){.func = kernel,
                                                .gridDim = {found.gridDimX, found.gridDimY, found.gridDimZ},
                                                .blockDim = {found.blockDimX, found.blockDimY, found.blockDimZ},
                                                .sharedMemBytes = found.sharedMemBytes,
                                                .kernelParams = found.kernelParams};
    return cudaSuccess;
}

cudaError_t
cudaGraphKernelNodeSetParams(cudaGraphNode_t node, const struct cudaKernelNodeParams *parameters)
{
    CUDA_KERNEL_NODE_PARAMS passed;
    return WITH_PARAMETERS(kernel_parameters(&passed, parameters), cuGraphKernelNodeSetParams_v2(node, &passed));
}

cudaError_t
cudaGraphMemcpyNodeSetParams(cudaGraphNode_t node, const struct cudaMemcpy3DParms *parameters)
{
    CUDA_MEMCPY3D passed;
    return WITH_PARAMETERS(copy_box_3d(&passed, parameters), cuGraphMemcpyNodeSetParams(node, &passed));
}

cudaError_t
cudaGraphMemcpyNodeSetParams1D(cudaGraphNode_t node, void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
    const struct cudaMemcpy3DParms parameters = row(to, from, bytes, kind);
    return cudaGraphMemcpyNodeSetParams(node, &parameters);
}

cudaError_t
cudaGraphMemsetNodeSetParams(cudaGraphNode_t node, const struct cudaMemsetParams *parameters)
{
    CUDA_MEMSET_NODE_PARAMS passed;
    CUcontext unused;
    return WITH_PARAMETERS(fill_parameters(&passed, parameters, &unused), cuGraphMemsetNodeSetParams(node, &passed));
}

ONE_FLAVOUR(cudaGraphHostNodeSetParams, (cudaGraphNode_t node, const struct cudaHostNodeParams *parameters),
            WITH_CONTEXT(driver.cuGraphHostNodeSetParams(node, (const CUDA_HOST_NODE_PARAMS *)parameters)))

/* ---- the same where it was instantiated ---- */

cudaError_t
cudaGraphExecKernelNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                 const struct cudaKernelNodeParams *parameters)
{
    CUDA_KERNEL_NODE_PARAMS passed;
    return WITH_PARAMETERS(kernel_parameters(&passed, parameters),
                           cuGraphExecKernelNodeSetParams_v2(exec, node, &passed));
}

cudaError_t
cudaGraphExecMemcpyNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node, const struct cudaMemcpy3DParms *parameters)
{
    CUDA_MEMCPY3D passed;
    CUcontext context;
    return WITH_PARAMETERS(copy_parameters(&passed, parameters, &context),
                           cuGraphExecMemcpyNodeSetParams(exec, node, &passed, context));
}

cudaError_t
cudaGraphExecMemcpyNodeSetParams1D(cudaGraphExec_t exec, cudaGraphNode_t node, void *to, const void *from, size_t bytes,
                                   enum cudaMemcpyKind kind)
{
    const struct cudaMemcpy3DParms parameters = row(to, from, bytes, kind);
    return cudaGraphExecMemcpyNodeSetParams(exec, node, &parameters);
}

cudaError_t
cudaGraphExecMemsetNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node, const struct cudaMemsetParams *parameters)
{
    CUDA_MEMSET_NODE_PARAMS passed;
    CUcontext context;
    return WITH_PARAMETERS(fill_parameters(&passed, parameters, &context),
                           cuGraphExecMemsetNodeSetParams(exec, node, &passed, context));
}

ONE_FLAVOUR(cudaGraphExecHostNodeSetParams,
            (cudaGraphExec_t exec, cudaGraphNode_t node, const struct cudaHostNodeParams *parameters),
            WITH_CONTEXT(driver.cuGraphExecHostNodeSetParams(exec, node, (const CUDA_HOST_NODE_PARAMS *)parameters)))
ONE_FLAVOUR(cudaGraphExecChildGraphNodeSetParams, (cudaGraphExec_t exec, cudaGraphNode_t node, cudaGraph_t child),
            WITH_CONTEXT(driver.cuGraphExecChildGraphNodeSetParams(exec, node, child)))
ONE_FLAVOUR(cudaGraphExecEventRecordNodeSetEvent, (cudaGraphExec_t exec, cudaGraphNode_t node, cudaEvent_t event),
            WITH_CONTEXT(driver.cuGraphExecEventRecordNodeSetEvent(exec, node, event)))
ONE_FLAVOUR(cudaGraphExecEventWaitNodeSetEvent, (cudaGraphExec_t exec, cudaGraphNode_t node, cudaEvent_t event),
            WITH_CONTEXT(driver.cuGraphExecEventWaitNodeSetEvent(exec, node, event)))
