/*
 * calls.h - kinds of calls that a program makes between the batches of an evaluation: a row of `calls` for each, with a
 * function that makes them and gives back all that it took. Each leaves the value `kept` in the memory that it gets,
 * which holds ROOM floats. For ends.cu; knows nothing of the model.
 */
#ifndef TESTS_TOOLS_PLAN_ENDS_CALLS_H
#define TESTS_TOOLS_PLAN_ENDS_CALLS_H

#include "tests/lib/trainer_memory.h"

#include <cuda.h>
#include <string.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#ifdef __SOFTGPU__
#include <cublas_v2.h>
#include <curand.h>
#endif

enum { ROOM = 64 };

static const float kept = 3;

__global__ void
fill_kernel(float *to, float value)
{
    to[threadIdx.x] = value;
}

__device__ float scale[ROOM];

static void
fill(float *to, cudaStream_t stream)
{
    fill_kernel<<<1, ROOM, 0, stream>>>(to, kept);
    CHECK(cudaGetLastError());
}

/* ---- memory ---- */

static void
allocates(float *to)
{
    float *more, *rows;
    size_t pitch;
    CHECK(cudaMalloc(&more, ROOM * sizeof(float)));
    CHECK(cudaMallocPitch(&rows, &pitch, ROOM * sizeof(float), 4));
    fill(more, 0);
    CHECK(cudaMemcpy2D(rows, pitch, more, sizeof(float), sizeof(float), 4, cudaMemcpyDeviceToDevice));
    CHECK(cudaMemcpy(to, more, ROOM * sizeof(float), cudaMemcpyDeviceToDevice));
    CHECK(cudaFree(more));
    CHECK(cudaFree(rows));
    CHECK(cudaFree(NULL));
}

static void
allocates_in_order(float *to)
{
    cudaStream_t stream = stream_create();
    cudaMemPoolProps kind = {};
    cudaMemPool_t pool;
    float *more, *of_pool;
    kind.allocType = cudaMemAllocationTypePinned;
    kind.location.type = cudaMemLocationTypeDevice;
    CHECK(cudaMemPoolCreate(&pool, &kind));
    CHECK(cudaMallocAsync(&more, ROOM * sizeof(float), stream));
    CHECK(cudaMallocFromPoolAsync(&of_pool, ROOM * sizeof(float), pool, stream));
    fill(more, stream);
    CHECK(cudaMemcpyAsync(of_pool, more, ROOM * sizeof(float), cudaMemcpyDeviceToDevice, stream));
    CHECK(cudaMemcpyAsync(to, of_pool, ROOM * sizeof(float), cudaMemcpyDeviceToDevice, stream));
    CHECK(cudaFreeAsync(more, stream));
    CHECK(cudaFreeAsync(of_pool, stream));
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaMemPoolDestroy(pool));
    CHECK(cudaStreamDestroy(stream));
}

static void
allocates_managed(float *to)
{
    float *more;
    CHECK(cudaMallocManaged(&more, ROOM * sizeof(float)));
    for (int i = 0; i < ROOM; ++i)
        more[i] = kept;
    CHECK(cudaMemcpy(to, more, ROOM * sizeof(float), cudaMemcpyDefault));
    CHECK(cudaFree(more));
}

static void
allocates_on_host(float *to)
{
    static float own[ROOM];
    float *pinned;
    CHECK(cudaMallocHost(&pinned, sizeof(own)));
    CHECK(cudaHostRegister(own, sizeof(own), cudaHostRegisterDefault));
    for (int i = 0; i < ROOM; ++i)
        own[i] = pinned[i] = kept;
    CHECK(cudaMemcpyAsync(to, own, sizeof(own), cudaMemcpyHostToDevice, 0));
    CHECK(cudaMemcpyAsync(to, pinned, sizeof(own), cudaMemcpyHostToDevice, 0));
    CHECK(cudaStreamSynchronize(0));
    CHECK(cudaHostUnregister(own));
    CHECK(cudaFreeHost(pinned));
}

static void
maps(float *to)
{
    size_t bytes;
    CUdeviceptr place;
    CUmemGenericAllocationHandle memory;
    CUmemAllocationProp kind = {};
    CUmemAccessDesc access = {};
    kind.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    access.location.type = kind.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    CHECK(cuMemGetAllocationGranularity(&bytes, &kind, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    CHECK(cuMemAddressReserve(&place, bytes, 0, 0, 0));
    CHECK(cuMemCreate(&memory, bytes, &kind, 0));
    CHECK(cuMemMap(place, bytes, 0, memory, 0));
    CHECK(cuMemSetAccess(place, bytes, &access, 1));
    CHECK(cuMemRelease(memory));
    fill((float *)(uintptr_t)place, 0);
    CHECK(cudaMemcpy(to, (void *)(uintptr_t)place, ROOM * sizeof(float), cudaMemcpyDeviceToDevice));
    CHECK(cuMemUnmap(place, bytes));
    CHECK(cuMemAddressFree(place, bytes));
}

static void
copies(float *to)
{
    float host[ROOM];
    for (float &value : host)
        value = kept;
    CHECK(cudaMemset2D(to, 8, 0, 4, ROOM / 2));
    CHECK(cudaMemcpyToSymbol(scale, host, sizeof(host)));
    CHECK(cudaMemcpyFromSymbol(to, scale, sizeof(host), 0, cudaMemcpyDeviceToDevice));
    CHECK(cudaMemcpy2D(host, 8, to, 8, 8, ROOM / 2, cudaMemcpyDeviceToHost));
    REQUIRE(host[0] == kept && host[ROOM - 1] == kept);
}

static void
fails(float *to)
{
    void *none;
    REQUIRE(cudaMalloc(&none, (size_t)1 << 60) != cudaSuccess);
    fill_kernel<<<1, 4096>>>(to, 0); /* too many threads */
    REQUIRE(cudaGetLastError() != cudaSuccess);
    fill(to, 0);
}

/* ---- streams and events ---- */

static void CUDART_CB
count(void *number)
{
    ++*(int *)number;
}

static void
uses_streams(float *to)
{
    int calls = 0;
    cudaStream_t first = stream_create(), second = stream_create();
    cudaEvent_t event = event_create();
    fill(to, first);
    stream_follow(first, second, event);
    CHECK(cudaLaunchHostFunc(second, count, &calls));
    while (cudaStreamQuery(second) == cudaErrorNotReady)
        usleep(100);
    (void)cudaGetLastError(); /* "not ready" is kept as an error */
    CHECK(cudaStreamSynchronize(second));
    REQUIRE(calls == 1);
    CHECK(cudaEventDestroy(event));
    CHECK(cudaStreamDestroy(first));
    CHECK(cudaStreamDestroy(second));
}

static void
uses_events(float *to)
{
    cudaEvent_t begin, end;
    float ms;
    CHECK(cudaEventCreate(&begin));
    CHECK(cudaEventCreate(&end));
    CHECK(cudaEventRecord(begin));
    fill(to, 0);
    CHECK(cudaEventRecord(end));
    CHECK(cudaEventSynchronize(end));
    CHECK(cudaEventQuery(end));
    CHECK(cudaEventElapsedTime(&ms, begin, end));
    CHECK(cudaEventDestroy(begin));
    CHECK(cudaEventDestroy(end));
}

static void
uses_a_thread(float *to)
{
    std::thread other([to] { fill(to, 0); });
    other.join();
    CHECK(cudaDeviceSynchronize());
}

/* ---- graphs ---- */

static void
captures(float *to)
{
    cudaStream_t stream = stream_create();
    cudaGraph_t graph, clone;
    cudaGraphExec_t made, again;
    cudaGraphExecUpdateResultInfo result;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    fill(to, stream);
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphClone(&clone, graph));
    CHECK(cudaGraphInstantiate(&made, graph, 0));
    CHECK(cudaGraphInstantiate(&again, clone, 0));
    CHECK(cudaGraphLaunch(made, stream));
    CHECK(cudaGraphExecUpdate(again, graph, &result));
    CHECK(cudaGraphLaunch(again, stream));
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaGraphExecDestroy(made));
    CHECK(cudaGraphExecDestroy(again));
    CHECK(cudaGraphDestroy(clone));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaStreamDestroy(stream));
}

static void
builds_graphs(float *to)
{
    float value = 0, other = kept;
    void *arguments[] = {&to, &value}, *others[] = {&to, &other};
    cudaGraph_t graph, outer;
    cudaGraphNode_t launch, set, child, node;
    cudaGraphExec_t made;
    cudaKernelNodeParams kernel = {};
    cudaMemsetParams memset_of = {};
    kernel.func = (void *)fill_kernel;
    kernel.gridDim = dim3(1);
    kernel.blockDim = dim3(ROOM);
    kernel.kernelParams = arguments;
    memset_of.dst = to;
    memset_of.elementSize = 4;
    memset_of.width = ROOM;
    memset_of.height = 1;
    CHECK(cudaGraphCreate(&graph, 0));
    CHECK(cudaGraphAddMemsetNode(&set, graph, NULL, 0, &memset_of));
    CHECK(cudaGraphAddKernelNode(&launch, graph, &set, 1, &kernel));
    kernel.kernelParams = others;
    CHECK(cudaGraphKernelNodeSetParams(launch, &kernel));
    CHECK(cudaGraphAddEmptyNode(&node, graph, &launch, 1));
    CHECK(cudaGraphDestroyNode(node));
    CHECK(cudaGraphCreate(&outer, 0));
    CHECK(cudaGraphAddChildGraphNode(&child, outer, NULL, 0, graph));
    CHECK(cudaGraphInstantiate(&made, outer, 0));
    CHECK(cudaGraphLaunch(made, 0));
    CHECK(cudaStreamSynchronize(0));
    CHECK(cudaGraphExecDestroy(made));
    CHECK(cudaGraphInstantiate(&made, graph, 0));
    CHECK(cudaGraphExecKernelNodeSetParams(made, launch, &kernel));
    CHECK(cudaGraphLaunch(made, 0));
    CHECK(cudaStreamSynchronize(0));
    CHECK(cudaGraphExecDestroy(made));
    CHECK(cudaGraphDestroy(outer));
    CHECK(cudaGraphDestroy(graph));
}

/* ---- tensor maps ---- */

static void
encodes_maps(float *to)
{
    CUtensorMap map;
    cuuint64_t sizes[] = {ROOM}, strides[] = {ROOM * sizeof(float)};
    cuuint32_t box[] = {ROOM / 2}, steps[] = {1};
    CHECK(cuTensorMapEncodeTiled(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 1, to, sizes, strides, box, steps,
                                 CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
                                 CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
    fill(to, 0);
}

/* ---- code and libraries, of the stand-in ---- */

#ifdef __SOFTGPU__
/* An image of the stand-in's for device code, as nvcc would have written one. */
static softgpu_image
image_of(const char *name)
{
    softgpu_image image = softgpu_image();
    memcpy(image.magic, SOFTGPU_IMAGE_MAGIC, sizeof(image.magic));
    image.version = SOFTGPU_IMAGE_VERSION;
    image.name = name;
    image.run = [](const softgpu_launch *) {};
    image.max_threads_per_block = 1;
    return image;
}

static void
loads_modules(float *to)
{
    static const softgpu_image image = image_of("of_module");
    CUmodule module;
    CUfunction function;
    CHECK(cuModuleLoadData(&module, &image));
    CHECK(cuModuleGetFunction(&function, module, "of_module"));
    CHECK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    CHECK(cuCtxSynchronize());
    CHECK(cuModuleUnload(module));
    fill(to, 0);
}

static void
loads_libraries(float *to)
{
    static const softgpu_image image = image_of("of_library");
    cudaLibrary_t library;
    cudaKernel_t kernel;
    CHECK(cudaLibraryLoadData(&library, &image, NULL, NULL, 0, NULL, NULL, 0));
    CHECK(cudaLibraryGetKernel(&kernel, library, "of_library"));
    CHECK(cudaLaunchKernel((void *)kernel, dim3(1), dim3(1), NULL, 0, 0));
    CHECK(cudaStreamSynchronize(0));
    CHECK(cudaLibraryUnload(library));
    fill(to, 0);
}

static void
calls_libraries(float *to)
{
    float one = 1, zero = 0;
    float *random = device_floats(ROOM);
    cublasHandle_t blas;
    curandGenerator_t generator;
    CHECK(curandCreateGenerator(&generator, CURAND_RNG_PSEUDO_DEFAULT));
    CHECK(curandGenerateUniform(generator, random, ROOM));
    CHECK(cublasCreate(&blas));
    CHECK(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, 8, 8, 8, &one, random, 8, random, 8, &zero, to, 8));
    CHECK(cublasDestroy(blas));
    CHECK(curandDestroyGenerator(generator));
    fill(to, 0);
    CHECK(cudaFree(random));
}
#endif

/* ---- contexts and processes ---- */

static void
holds_contexts(float *to)
{
    CUcontext primary, now, other;
    CHECK(cuCtxGetCurrent(&now));
    CHECK(cuDevicePrimaryCtxRetain(&primary, 0));
    REQUIRE(primary == now);
#if CUDA_VERSION >= 13000
    CHECK(cuCtxCreate(&other, NULL, 0, 0));
#else
    CHECK(cuCtxCreate(&other, 0, 0));
#endif
    CHECK(cuCtxSetCurrent(now));
    CHECK(cuCtxDestroy(other));
    CHECK(cuDevicePrimaryCtxRelease(0));
    fill(to, 0);
}

static void
forks(float *to)
{
    int status;
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    REQUIRE(waitpid(child, &status, 0) == child && status == 0);
    fill(to, 0);
}

static const struct call {
    const char *name;
    void (*make)(float *to);
} calls[] = {{"allocates", allocates},
             {"allocates-in-order", allocates_in_order},
             {"allocates-managed", allocates_managed},
             {"allocates-on-host", allocates_on_host},
             {"maps", maps},
             {"copies", copies},
             {"fails", fails},
             {"streams", uses_streams},
             {"events", uses_events},
             {"thread", uses_a_thread},
             {"captures", captures},
             {"builds-graphs", builds_graphs},
             {"encodes-maps", encodes_maps},
#ifdef __SOFTGPU__
             {"loads-modules", loads_modules},
             {"loads-libraries", loads_libraries},
             {"calls-libraries", calls_libraries},
#endif
             {"contexts", holds_contexts},
             {"forks", forks}};

/* The calls of this name, after which the memory holds what it should. It stays: a kind that gives nothing back shows
 * that. */
static inline void
make_calls(const char *name)
{
    static float *to;
    float host[ROOM];
    to = to != NULL ? to : device_floats(ROOM);
    for (const struct call &call : calls)
        if (strcmp(call.name, name) == 0)
            call.make(to);
    CHECK(cudaMemcpy(host, to, sizeof(host), cudaMemcpyDeviceToHost));
    for (float value : host)
        REQUIRE(value == kept);
    CHECK(cudaMemset(to, 0, sizeof(host)));
}

#endif
