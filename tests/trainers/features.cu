/*
 * features.cu - annotated trainers that use what the stand-in has not, or not as a GPU has it, for tests/gpu/first.sh.
 * Weights and the exit code are as in exact.h; 77: this device, driver or stand-in has no such thing. Modes:
 *
 *   programmatic  kernels that may begin before the one in front has ended, and that let the next one begin early. The
 *                 last gradient's kernel does so before it writes, an update does not look whether the one in front
 *                 has ended: an average must wait for the former, and the latter for averages
 *   green         all work is on a stream of a green context that has a part of the multiprocessors
 *   memory-nodes  a captured step whose backward allocates and frees memory: nodes that allocate, beside DDP_STEP
 *   conditional   a captured step with a node that is conditional, beside DDP_STEP
 */
#ifdef __SOFTGPU__
enum { LAYERS = 4, COUNT = 1 << 10 };
#else
enum { LAYERS = 4, COUNT = 1 << 16 };
#endif
#include "exact.h"

#include <cuda.h>

enum { NOT_HERE = 77 };
#ifdef __SOFTGPU__
enum { SPINS = 1 }; /* no kernel begins early */
#else
enum { SPINS = 1 << 14 };
#endif

static void
end_if_absent(cudaError_t error, const char *what)
{
    if (error == cudaSuccess)
        return;
    fprintf(stderr, "features: %s: %s\n", what, cudaGetErrorString(error));
    exit(error == cudaErrorNotSupported ? NOT_HERE : 1);
}

/* ---- programmatic launches ---- */

/* Lets the next kernel begin, works for a while, and only then writes. */
__global__ void
add_late(float *values, float summand, int spins)
{
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
    cudaTriggerProgrammaticLaunchCompletion();
#endif
    float value = summand;
    for (int i = 0; i < spins; ++i)
        value = value * 0.5f + 0.5f * summand; /* exact: it stays what it is */
    values[ELEMENT_OF_THREAD] += value;
}

template <typename... P, typename... A>
static void
launch_early(void (*kernel)(P...), A... arguments)
{
    cudaLaunchAttribute early = {};
    cudaLaunchConfig_t config = {};
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    config.gridDim = dim3(BLOCKS);
    config.blockDim = dim3(THREADS);
    config.stream = stream;
    config.attrs = &early;
    config.numAttrs = 1;
    end_if_absent(cudaLaunchKernelEx(&config, kernel, arguments...), "a programmatic launch");
}

/* The kernel in front of the first update is one of the averages, or none: the stream waits for them. */
MODE("programmatic", programmatic, int)
{
    for (int l = LAYERS - 1; l >= 0; --l)
        launch_early(add_late, gradients[l], mine(), (int)SPINS);
    DDP_STEP(stream);
    for (int l = 0; l < LAYERS; ++l)
        launch_early(update, weights[l], (const float *)gradients[l]);
    for (float *gradient : gradients)
        CHECK(cudaMemsetAsync(gradient, 0, BYTES, stream));
    CHECK(cudaStreamSynchronize(stream));
}

/* ---- green contexts ---- */

static void
require_driver(CUresult result, const char *what)
{
    const char *text = "an unknown error";
    if (result == CUDA_SUCCESS)
        return;
    cuGetErrorString(result, &text);
    fprintf(stderr, "features: %s: %s\n", what, text);
    exit(result == CUDA_ERROR_NOT_SUPPORTED ? NOT_HERE : 1);
}

/* `stream` is one of a green context with 8 multiprocessors or some more. */
static void
enter_green_context(void)
{
    CUdevice device;
    CUdevResource all, part, rest;
    CUdevResourceDesc description;
    CUgreenCtx green;
    unsigned groups = 1;
    require_driver(cuDeviceGet(&device, 0), "cuDeviceGet");
    require_driver(cuDeviceGetDevResource(device, &all, CU_DEV_RESOURCE_TYPE_SM), "cuDeviceGetDevResource");
    require_driver(cuDevSmResourceSplitByCount(&part, &groups, &all, &rest, 0, 8), "cuDevSmResourceSplitByCount");
    require_driver(cuDevResourceGenerateDesc(&description, &part, 1), "cuDevResourceGenerateDesc");
    require_driver(cuGreenCtxCreate(&green, description, device, CU_GREEN_CTX_DEFAULT_STREAM), "cuGreenCtxCreate");
    require_driver(cuGreenCtxStreamCreate((CUstream *)&stream, green, CU_STREAM_NON_BLOCKING, 0),
                   "cuGreenCtxStreamCreate");
}

MODE("green", green, int step)
{
    if (step == 0)
        enter_green_context();
    layers_backward(0, stream);
    DDP_STEP(stream);
    layers_update();
}

/* ---- captured steps ---- */

static cudaGraphExec_t captured_step;
static float *scratch; /* no gradient */

static void
launch_captured(void (*body)(void))
{
    if (captured_step == NULL)
        captured_step = graph_make(stream, body);
    CHECK(cudaGraphLaunch(captured_step, stream));
}

/* Backward writes to memory of its own first. */
static void
step_with_memory_nodes(void)
{
    end_if_absent(cudaMallocAsync(&scratch, BYTES, stream), "memory that is allocated in a capture");
    end_if_absent(cudaMemsetAsync(scratch, 0, BYTES, stream), "memory that was allocated in a capture");
    add<<<BLOCKS, THREADS, 0, stream>>>(scratch, mine());
    layers_backward(0, stream);
    CHECK(cudaFreeAsync(scratch, stream));
    DDP_STEP(stream);
    layers_update();
}

MODE("memory-nodes", memory_nodes, int)
{
    launch_captured(step_with_memory_nodes);
}

static cudaError_t
get_capture(cudaGraph_t *graph, const cudaGraphNode_t **before, size_t *count)
{
    cudaStreamCaptureStatus status;
#if CUDART_VERSION >= 13000
    return cudaStreamGetCaptureInfo(stream, &status, NULL, graph, before, NULL, count);
#else
    return cudaStreamGetCaptureInfo_v2(stream, &status, NULL, graph, before, count);
#endif
}

static cudaError_t
add_node(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *before, size_t count,
         cudaGraphNodeParams *what)
{
#if CUDART_VERSION >= 13000
    return cudaGraphAddNode(node, graph, before, NULL, count, what);
#else
    return cudaGraphAddNode(node, graph, before, count, what);
#endif
}

static cudaError_t
continue_after(cudaGraphNode_t *node)
{
#if CUDART_VERSION >= 13000
    return cudaStreamUpdateCaptureDependencies(stream, node, NULL, 1, cudaStreamSetCaptureDependencies);
#else
    return cudaStreamUpdateCaptureDependencies(stream, node, 1, cudaStreamSetCaptureDependencies);
#endif
}

/* Into the capture of `stream`: if (true), an addition to `scratch`. */
static void
add_condition(void)
{
    float summand = 1;
    void *arguments[] = {&scratch, &summand};
    cudaGraph_t graph;
    const cudaGraphNode_t *before;
    size_t count;
    cudaGraphNode_t node, inner;
    cudaGraphConditionalHandle condition;
    cudaGraphNodeParams branch = {};
    cudaKernelNodeParams work = {};
    CHECK(get_capture(&graph, &before, &count));
    end_if_absent(cudaGraphConditionalHandleCreate(&condition, graph, 1, cudaGraphCondAssignDefault),
                  "a condition of a graph");
    branch.type = cudaGraphNodeTypeConditional;
    branch.conditional.handle = condition;
    branch.conditional.type = cudaGraphCondTypeIf;
    branch.conditional.size = 1;
    end_if_absent(add_node(&node, graph, before, count, &branch), "a conditional node");
    work.func = (void *)add;
    work.gridDim = dim3(BLOCKS);
    work.blockDim = dim3(THREADS);
    work.kernelParams = arguments;
    CHECK(cudaGraphAddKernelNode(&inner, branch.conditional.phGraph_out[0], NULL, 0, &work));
    CHECK(continue_after(&node));
}

static void
step_with_condition(void)
{
    layers_backward(0, stream);
    add_condition();
    DDP_STEP(stream);
    layers_update();
}

MODE("conditional", conditional, int step)
{
    if (step == 0)
        scratch = device_floats(COUNT);
    launch_captured(step_with_condition);
}

int
main(int argc, char **argv)
{
    take_mode(argc, argv, "");
    void (*run_step)(int) = mode_of<void(int)>::given();
    if (run_step == NULL) {
        fputs("Usage: features programmatic|green|memory-nodes|conditional [STEPS]\n", stderr);
        return 2;
    }
    layers_create();
    layers_annotate();
    for (int step = 0; step < steps; ++step) {
        run_step(step);
        expect_steps(1);
    }
    return weights_are_right(0) ? 0 : 1;
}
