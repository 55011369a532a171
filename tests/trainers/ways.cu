/*
 * ways.cu - one training program whose gradients are written in the ways that the driver offers, one a mode: copies and
 * fills of every kind, values from a stream, all forms of launch; and whose memory goes in the ways that there are.
 *
 * As exact.h, but that what a rank has is written, not added.
 */
#define CUDA_ENABLE_DEPRECATED
enum { LAYERS = 4, COUNT = 256, ROWS = 4, LAYERS_OF_BLOCK = 2 };
#include "exact.h"

#include <cuda.h>

static float *source, on_host[COUNT];
static __device__ float variables[LAYERS][COUNT];

ELEMENTWISE_OF_ALL(fill, (float *values, float value), values[i] = value)

static CUdeviceptr
pointer(const float *memory)
{
    return (CUdeviceptr)(uintptr_t)memory;
}

/* ---- ways to write a gradient; `source` and on_host[] hold this rank's values ---- */

MODE("launch", by_launch, float *gradient)
{
    fill<<<ROWS, COUNT / ROWS, 0, stream>>>(gradient, mine());
}

MODE("launch-ex", by_launch_ex, float *gradient)
{
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(ROWS);
    config.blockDim = dim3(COUNT / ROWS);
    config.stream = stream;
    CHECK(cudaLaunchKernelEx(&config, fill, gradient, mine()));
}

MODE("cooperative", by_cooperative_launch, float *gradient)
{
    float value = mine();
    void *arguments[] = {&gradient, &value};
    CHECK(cudaLaunchCooperativeKernel((const void *)fill, dim3(ROWS), dim3(COUNT / ROWS), arguments, 0, stream));
}

MODE("driver-launch", by_driver_launch, float *gradient)
{
    cudaFunction_t function;
    float value = mine();
    void *arguments[] = {&gradient, &value};
    CHECK(cudaGetFuncBySymbol(&function, (const void *)fill));
    CHECK(cuLaunchKernel(function, ROWS, 1, 1, COUNT / ROWS, 1, 1, 0, stream, arguments, NULL));
}

MODE("copy", by_copy, float *gradient)
{
    CHECK(cudaMemcpyAsync(gradient, source, BYTES, cudaMemcpyDeviceToDevice, stream));
}

MODE("host-copy", by_copy_from_host, float *gradient)
{
    CHECK(cudaMemcpyAsync(gradient, on_host, BYTES, cudaMemcpyHostToDevice, stream));
}

MODE("peer", by_copy_between_peers, float *gradient)
{
    CHECK(cudaMemcpyPeerAsync(gradient, 0, source, 0, BYTES, stream));
}

MODE("rows", by_rows, float *gradient)
{
    CHECK(
        cudaMemcpy2DAsync(gradient, BYTES / ROWS, source, BYTES / ROWS, BYTES / ROWS, ROWS, cudaMemcpyDefault, stream));
}

MODE("block", by_block, float *gradient)
{
    cudaMemcpy3DParms copy = {};
    copy.srcPtr = make_cudaPitchedPtr(source, BYTES / ROWS, BYTES / ROWS, ROWS / LAYERS_OF_BLOCK);
    copy.dstPtr = make_cudaPitchedPtr(gradient, BYTES / ROWS, BYTES / ROWS, ROWS / LAYERS_OF_BLOCK);
    copy.extent = make_cudaExtent(BYTES / ROWS, ROWS / LAYERS_OF_BLOCK, LAYERS_OF_BLOCK);
    copy.kind = cudaMemcpyDeviceToDevice;
    CHECK(cudaMemcpy3DAsync(&copy, stream));
}

MODE("peer-block", by_block_between_peers, float *gradient)
{
    CUcontext context;
    CUDA_MEMCPY3D_PEER copy = {};
    CHECK(cuCtxGetCurrent(&context));
    copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.srcDevice = pointer(source);
    copy.dstDevice = pointer(gradient);
    copy.srcContext = copy.dstContext = context;
    copy.srcPitch = copy.dstPitch = copy.WidthInBytes = BYTES / ROWS;
    copy.srcHeight = copy.dstHeight = copy.Height = ROWS / LAYERS_OF_BLOCK;
    copy.Depth = LAYERS_OF_BLOCK;
    CHECK(cuMemcpy3DPeerAsync(&copy, stream));
}

MODE("batch", by_batch, float *gradient)
{
    CUdeviceptr dsts[ROWS], srcs[ROWS];
    size_t sizes[ROWS], first = 0;
    CUmemcpyAttributes attributes = {};
    attributes.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
    for (int i = 0; i < ROWS; ++i) {
        dsts[i] = pointer(gradient) + i * (BYTES / ROWS);
        srcs[i] = pointer(source) + i * (BYTES / ROWS);
        sizes[i] = BYTES / ROWS;
    }
    CHECK(cuMemcpyBatchAsync(dsts, srcs, sizes, ROWS, &attributes, &first, 1, stream));
}

MODE("batch-block", by_batch_of_blocks, float *gradient)
{
    CUDA_MEMCPY3D_BATCH_OP copy = {};
    copy.src.type = copy.dst.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
    copy.src.op.ptr.ptr = pointer(source);
    copy.dst.op.ptr.ptr = pointer(gradient);
    copy.extent.width = BYTES / ROWS;
    copy.extent.height = ROWS;
    copy.extent.depth = 1;
    copy.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
    CHECK(cuMemcpy3DBatchAsync(1, &copy, 0, stream));
}

static unsigned
bits(float value)
{
    unsigned word;
    memcpy(&word, &value, sizeof(word));
    return word;
}

MODE("fill", by_fill, float *gradient)
{
    CHECK(cuMemsetD32Async(pointer(gradient), bits(mine()), COUNT, stream));
}

MODE("values", by_values, float *gradient)
{
    for (int i = 0; i < COUNT; ++i)
        CHECK(cuStreamWriteValue32(stream, pointer(gradient + i), bits(mine()), CU_STREAM_WRITE_VALUE_DEFAULT));
}

MODE("batch-values", by_batch_of_values, float *gradient)
{
    CUstreamBatchMemOpParams list[COUNT / 2]; /* the driver takes fewer than 256 */
    for (int first = 0; first < COUNT; first += COUNT / 2) {
        memset(list, 0, sizeof(list));
        for (int i = 0; i < COUNT / 2; ++i) {
            list[i].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
            list[i].writeValue.address = pointer(gradient + first + i);
            list[i].writeValue.value = bits(mine());
        }
        CHECK(cuStreamBatchMemOp(stream, COUNT / 2, list, 0));
    }
}

/* ---- training ---- */

static void (*write_gradient)(float *);

static void
write_all()
{
    for (int l = LAYERS - 1; l >= 0; --l) {
        if (gradients[l] != NULL)
            write_gradient(gradients[l]);
    }
}

static void
use_all()
{
    for (int l = 0; l < LAYERS; ++l) {
        if (gradients[l] != NULL)
            update<<<ROWS, COUNT / ROWS, 0, stream>>>(weights[l], gradients[l]);
    }
}

static void
train()
{
    for (int step = 0; step < steps; ++step) {
        write_all();
        DDP_STEP(stream);
        use_all();
    }
    CHECK(cudaStreamSynchronize(stream));
}

/* ---- ways in which memory goes ---- */

/* Virtual memory for so many chunks of the least size. */
static CUdeviceptr
reserve(int chunks, size_t *granularity)
{
    CUmemAllocationProp kind = {};
    CUdeviceptr place;
    kind.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    kind.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    CHECK(cuMemGetAllocationGranularity(granularity, &kind, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    CHECK(cuMemAddressReserve(&place, chunks * *granularity, 0, 0, 0));
    return place;
}

/* Memory that lasts until it is unmapped. */
static void
map_chunk(CUdeviceptr place, size_t bytes)
{
    CUmemGenericAllocationHandle memory;
    CUmemAllocationProp kind = {};
    kind.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    kind.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    CUmemAccessDesc access = {};
    access.location = kind.location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    CHECK(cuMemCreate(&memory, bytes, &kind, 0));
    CHECK(cuMemMap(place, bytes, 0, memory, 0));
    CHECK(cuMemSetAccess(place, bytes, &access, 1));
    CHECK(cuMemRelease(memory));
}

/* Virtual memory that is mapped for each step, and unmapped as soon as its gradients were used. */
MODE("unmap", train_in_mapped_memory)
{
    size_t granularity;
    CUdeviceptr place = reserve(1, &granularity);
    for (int step = 0; step < steps; ++step) {
        map_chunk(place, granularity);
        for (int l = 0; l < LAYERS; ++l)
            gradients[l] = (float *)(uintptr_t)place + l * COUNT;
        annotate_gradients();
        write_all();
        DDP_STEP(stream);
        use_all();
        CHECK(cudaStreamSynchronize(stream));
        CHECK(cuMemUnmap(place, granularity));
    }
    CHECK(cuMemAddressFree(place, granularity));
}

/* A gradient lies across two chunks of virtual memory, each of which is an allocation of its own to the driver. */
MODE("chunks", train_across_chunks)
{
    size_t granularity;
    CUdeviceptr place = reserve(2, &granularity);
    map_chunk(place, granularity);
    map_chunk(place + granularity, granularity);
    float *border = (float *)(uintptr_t)(place + granularity);
    for (int l = 0; l < LAYERS; ++l)
        gradients[l] = border + (l - 1) * COUNT - COUNT / 2;
    annotate_gradients();
    train();
}

/* A pool that is trimmed in each step and destroyed while gradients live in it: they stay. */
MODE("pool", train_in_a_pool)
{
    cudaMemPool_t pool;
    cudaMemPoolProps kind = {};
    kind.allocType = cudaMemAllocationTypePinned;
    kind.location.type = cudaMemLocationTypeDevice;
    CHECK(cudaMemPoolCreate(&pool, &kind));
    for (int l = 0; l < LAYERS; ++l)
        CHECK(cudaMallocFromPoolAsync(&gradients[l], BYTES, pool, stream));
    CHECK(cudaStreamSynchronize(stream));
    annotate_gradients();
    int half = steps / 2;
    steps -= half;
    train();
    CHECK(cudaMemPoolTrimTo(pool, 0));
    CHECK(cudaMemPoolDestroy(pool));
    steps = half;
    train();
    for (int l = 0; l < LAYERS; ++l)
        CHECK(cudaFreeAsync(gradients[l], stream));
    CHECK(cudaStreamSynchronize(stream));
}

/* Variables of the program: they go when the runtime unloads it, after main. */
MODE("variables", train_in_variables)
{
    float *begin;
    CHECK(cudaGetSymbolAddress((void **)&begin, variables));
    for (int l = 0; l < LAYERS; ++l)
        gradients[l] = begin + l * COUNT;
    annotate_gradients();
    train();
}

/* A gradient is freed when its bucket may be in flight; the next steps continue without it. */
MODE("free-early", free_too_early)
{
    annotate_gradients();
    for (int step = 0; step < steps; ++step) {
        write_all();
        if (step == steps / 2) {
            CHECK(cudaFree(gradients[LAYERS - 1]));
            gradients[LAYERS - 1] = NULL;
        }
        DDP_STEP(stream);
        use_all();
    }
}

MODE("reset-early", reset_too_early)
{
    annotate_gradients();
    train();
    write_all();
    CHECK(cudaDeviceReset());
    DDP_STEP(stream);
}

/* What programs of the driver's interface do at their end, some of them more often than they began. */
MODE("release", release_the_context)
{
    annotate_gradients();
    train();
    int half = steps;
    CHECK(cuDevicePrimaryCtxRelease(0));
    steps = half;
    train(); /* the context is still there: ddprun holds it */
    steps = 2 * half;
}

/* A form of launch from before CUDA 4, whose arguments ddprun cannot see. */
MODE("old-launch", launch_as_of_old)
{
    CUresult (*launch)(CUfunction, int, int) = cuLaunchGrid;
    annotate_gradients();
    (void)launch(NULL, 1, 1);
    train();
}

int
main(int argc, char **argv)
{
    take_mode(argc, argv, "launch");
    int made = steps;
    layers_create();
    annotate_parameters();
    for (int i = 0; i < COUNT; ++i)
        on_host[i] = mine();
    source = device_copy(on_host, COUNT);

    void (*release)() = mode_of<void()>::given();
    write_gradient = mode_of<void(float *)>::given();
    if (write_gradient == NULL && release == NULL) {
        fprintf(stderr, "ways: %s is no mode\n", mode);
        return 2;
    }
    if (write_gradient == NULL)
        write_gradient = by_launch;
    if (release != NULL) {
        release();
        made = is_mode("release") ? steps : made;
    } else {
        annotate_gradients();
        train();
    }
    expect_steps(made);
    return weights_are_right(0) ? 0 : 1;
}
