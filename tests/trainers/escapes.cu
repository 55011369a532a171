/*
 * escapes.cu - a trainer whose kernels reach some gradients only through pointers that lie in memory: a table or a
 * struct on the device, constant memory, managed or pinned memory, the arrays of a batched GEMM, tensor maps. Each is a
 * mode.
 *
 * Two gradients are reached unseen, four as usual; rank r adds 1 + r to every element of each in each step, and an
 * update takes a half of the mean from the weight, so that everything is exact in float32. Kernels that go through
 * memory run on a stream that DDP_STEP does not name. Exit code 0 only if every weight is what it has to be at the end.
 *
 * odd and odd-late: all gradients lie in one flat buffer, at odd offsets. The table of odd-late is copied in the second
 * step, after the ranks have agreed; that of too-late, too-late-used and too-late-written in the ninth, after backward,
 * when the gradients' buckets are launched: nothing goes through it, or kernels of later steps do, or one of the same
 * step.
 */
#include "common.h"
#include "kernels.h"

#include <cublas_v2.h>
#include <cudaTypedefs.h>
#include <cuda_runtime.h>
#include <ddprun.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __SOFTGPU__
#include <softgpu/tensor_map.h>
#endif

enum {
    HIDDEN = 2,
    LAYERS = 6,
    SIDE = 32,
    COUNT = SIDE * SIDE,
    BYTES = COUNT * 4,
    THREADS = 64,
    BLOCKS = COUNT / THREADS
};

struct table {
    float *gradients[HIDDEN];
};

/* A struct whose pointers lie at multiples of 4 only. */
struct __attribute__((packed)) packed_table {
    int number;
    float *gradients[HIDDEN];
};

/* By value, as kernels get them. */
struct maps {
    cuuint64_t words[HIDDEN][CU_TENSOR_MAP_NUM_QWORDS];
};

static int steps = 12;
static float *weights[LAYERS], *gradients[LAYERS];
static cudaStream_t stream, side;
static cudaEvent_t event;
static struct table *table;         /* where kernels find it */
static struct packed_table *packed; /* likewise */
static cublasHandle_t cublas;
static float *ones, *column; /* ones: SIDE values of 1; column: SIDE values of 1 + rank */
static struct maps maps;
static const float **arrays; /* device: of the batched GEMM, [3][HIDDEN] */
__constant__ struct table constant_table;

__global__ void
add_through(const struct table *through, float summand)
{
    through->gradients[blockIdx.y][blockIdx.x * blockDim.x + threadIdx.x] += summand;
}

__global__ void
add_through_packed(const struct packed_table *through, float summand)
{
    float *gradient;
    memcpy(&gradient, &through->gradients[blockIdx.y], sizeof(gradient));
    gradient[blockIdx.x * blockDim.x + threadIdx.x] += summand;
}

__global__ void
add_through_constant(float summand)
{
    constant_table.gradients[blockIdx.y][blockIdx.x * blockDim.x + threadIdx.x] += summand;
}

/* Without TMA instructions: the stand-in's own maps only. */
__global__ void
add_through_maps(const struct maps through, float summand)
{
#ifdef __SOFTGPU__
    float *gradient = (float *)softgpu_tensor_map_address(through.words[blockIdx.y]);
    gradient[blockIdx.x * blockDim.x + threadIdx.x] += summand;
#else
    (void)through, (void)summand;
#endif
}

__global__ void
fill_arrays(const float **out, const float *a, const float *b, float *first, float *second)
{
    out[0] = out[1] = a;
    out[2] = out[3] = b;
    out[4] = first;
    out[5] = second;
}

__global__ void
update_through(const struct table *through, float *first, float *second)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float *weight = blockIdx.y == 0 ? first : second;
    weight[i] -= 0.5f * through->gradients[blockIdx.y][i];
}

static bool
is_odd(void)
{
    return strncmp(mode, "odd", 3) == 0;
}

static bool
is_too_late(void)
{
    return strncmp(mode, "too-late", 8) == 0;
}

/* The step from which on hidden gradients are reached through the table. */
static int
first_hidden(void)
{
    if (is_mode("too-late") || is_mode("too-late-written"))
        return steps;
    return is_mode("too-late-used") ? 9 : is_mode("odd-late") ? 1 : 0;
}

static void
create(void)
{
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking));
    CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    float *flat;
    CHECK(cudaMalloc(&flat, LAYERS * (BYTES + sizeof(float)) + 2 * sizeof(float)));
    for (int l = 0; l < LAYERS; ++l) {
        CHECK(cudaMalloc(&weights[l], BYTES));
        if (is_odd())
            gradients[l] = flat + 1 + l * (COUNT + 1) + l % 2;
        else
            CHECK(cudaMalloc(&gradients[l], BYTES));
        CHECK(cudaMemset(weights[l], 0, BYTES));
        CHECK(cudaMemset(gradients[l], 0, BYTES));
    }
    CHECK(cudaMalloc(&packed, sizeof(*packed)));
    if (is_mode("managed"))
        CHECK(cudaMallocManaged(&table, sizeof(*table), cudaMemAttachGlobal));
    else if (is_mode("pinned"))
        CHECK(cudaMallocHost(&table, sizeof(*table)));
    else
        CHECK(cudaMalloc(&table, sizeof(*table)));
}

/* Batched: gradient = gradient + ones * column^T in each of the two. */
static void
create_batch(void)
{
    float host[2 * SIDE];
    for (int i = 0; i < SIDE; ++i) {
        host[i] = 1.0f;
        host[SIDE + i] = mine();
    }
    CHECK(cudaMalloc(&ones, SIDE * sizeof(float)));
    CHECK(cudaMalloc(&column, SIDE * sizeof(float)));
    CHECK(cudaMemcpy(ones, host, SIDE * sizeof(float), cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(column, host + SIDE, SIDE * sizeof(float), cudaMemcpyHostToDevice));
    CHECK(cudaMalloc(&arrays, 3 * HIDDEN * sizeof(*arrays)));
    if (cublasCreate(&cublas) != CUBLAS_STATUS_SUCCESS || cublasSetStream(cublas, side) != CUBLAS_STATUS_SUCCESS)
        exit(1);
    if (is_mode("batched-built")) {
        fill_arrays<<<1, 1>>>(arrays, ones, column, gradients[0], gradients[1]);
    } else {
        const float *pointers[] = {ones, ones, column, column, gradients[0], gradients[1]};
        CHECK(cudaMemcpy(arrays, pointers, sizeof(pointers), cudaMemcpyHostToDevice));
    }
}

static void *
driver_function(const char *name)
{
    void *found = NULL;
    enum cudaDriverEntryPointQueryResult status;
    CHECK(cudaGetDriverEntryPointByVersion(name, &found, 13000, cudaEnableDefault, &status));
    return found;
}

/* A map of one gradient, by the encoder that the mode names. */
static CUresult
encode_map(CUtensorMap *map, void *address)
{
    static const cuuint64_t dims[] = {4, 8, SIDE}, strides[] = {16, 128};
    static const cuuint32_t box[] = {4, 1, 1}, element_strides[] = {1, 1, 1};
    static const int lower[] = {0}, upper[] = {0};
    const CUtensorMapDataType type = CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
    const CUtensorMapInterleave interleave = CU_TENSOR_MAP_INTERLEAVE_NONE;
    const CUtensorMapSwizzle swizzle = CU_TENSOR_MAP_SWIZZLE_NONE;
    const CUtensorMapL2promotion promotion = CU_TENSOR_MAP_L2_PROMOTION_NONE;
    const CUtensorMapFloatOOBfill fill = CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE;
    if (is_mode("map-im2col")) {
        PFN_cuTensorMapEncodeIm2col_v12000 encode =
            (PFN_cuTensorMapEncodeIm2col_v12000)driver_function("cuTensorMapEncodeIm2col");
        return encode(map, type, 3, address, dims, strides, lower, upper, 4, 4, element_strides, interleave, swizzle,
                      promotion, fill);
    }
    if (is_mode("map-wide")) {
        PFN_cuTensorMapEncodeIm2colWide_v12080 encode =
            (PFN_cuTensorMapEncodeIm2colWide_v12080)driver_function("cuTensorMapEncodeIm2colWide");
        return encode(map, type, 3, address, dims, strides, 0, 0, 4, 4, element_strides, interleave,
                      CU_TENSOR_MAP_IM2COL_WIDE_MODE_W, swizzle, promotion, fill);
    }
    PFN_cuTensorMapEncodeTiled_v12000 encode =
        (PFN_cuTensorMapEncodeTiled_v12000)driver_function("cuTensorMapEncodeTiled");
    return encode(map, type, 3, address, dims, strides, box, element_strides, interleave, swizzle, promotion, fill);
}

static void
write_maps(void)
{
    PFN_cuTensorMapReplaceAddress_v12000 replace =
        (PFN_cuTensorMapReplaceAddress_v12000)driver_function("cuTensorMapReplaceAddress");
    for (int l = 0; l < HIDDEN; ++l) {
        bool replaces = is_mode("map-replace");
        CUtensorMap map;
        CUresult result = encode_map(&map, replaces ? weights[l] : gradients[l]);
        if (result == CUDA_SUCCESS && replaces)
            result = replace(&map, gradients[l]);
        if (result != CUDA_SUCCESS)
            exit(1);
        memcpy(maps.words[l], map.opaque, sizeof(map.opaque));
    }
}

/* The table goes to where its mode wants it. */
static void
write_table(void)
{
    struct table host = {{gradients[0], gradients[1]}};
    struct packed_table odd = {7, {gradients[0], gradients[1]}};
    if (strncmp(mode, "map", 3) == 0)
        write_maps();
    else if (is_mode("managed") || is_mode("pinned"))
        *table = host;
    else if (is_mode("constant"))
        CHECK(cudaMemcpyToSymbol(constant_table, &host, sizeof(host)));
    else if (is_mode("packed"))
        CHECK(cudaMemcpy(packed, &odd, sizeof(odd), cudaMemcpyHostToDevice));
    else if (is_mode("columns")) /* two rows of one pointer each, from an array of structs */
        CHECK(cudaMemcpy2D(table, sizeof(float *), &odd.gradients[0], sizeof(float *), sizeof(float *), HIDDEN,
                           cudaMemcpyHostToDevice));
    else if (is_mode("any-direction"))
        CHECK(cudaMemcpy(table, &host, sizeof(host), cudaMemcpyDefault));
    else
        CHECK(cudaMemcpy(table, &host, sizeof(host), cudaMemcpyHostToDevice));
    CHECK(cudaDeviceSynchronize());
}

static void
annotate(void)
{
    for (int l = 0; l < LAYERS; ++l)
        DDP_PARAMETER(weights[l], COUNT, DDP_FLOAT32);
    for (int l = 0; l < LAYERS; ++l)
        DDP_GRADIENT(gradients[l], COUNT, DDP_FLOAT32);
}

static void
add_batched(void)
{
    const float one = 1.0f;
    float **c = (float **)(arrays + 2 * HIDDEN);
    if (cublasSgemmBatched(cublas, CUBLAS_OP_N, CUBLAS_OP_T, SIDE, SIDE, 1, &one, arrays, SIDE, arrays + HIDDEN, SIDE,
                           &one, c, SIDE, HIDDEN) != CUBLAS_STATUS_SUCCESS)
        exit(1);
}

static void
backward_hidden(int step)
{
    dim3 grid(BLOCKS, HIDDEN);
    for (int l = 0; l < HIDDEN && step < first_hidden(); ++l) /* as usual */
        add<<<BLOCKS, THREADS, 0, side>>>(gradients[l], mine());
    if (step < first_hidden())
        return;
    if (strncmp(mode, "map", 3) == 0)
        add_through_maps<<<grid, THREADS, 0, side>>>(maps, mine());
    else if (is_mode("constant"))
        add_through_constant<<<grid, THREADS, 0, side>>>(mine());
    else if (is_mode("packed"))
        add_through_packed<<<grid, THREADS, 0, side>>>(packed, mine());
    else if (is_mode("batched") || is_mode("batched-built"))
        add_batched();
    else
        add_through<<<grid, THREADS, 0, side>>>(table, mine());
}

/* On another stream than the one that DDP_STEP names, and without waiting for it. */
static void
update_hidden(void)
{
    dim3 grid(BLOCKS, HIDDEN);
    if (is_mode("optimizer") || is_mode("each-step")) {
        update_through<<<grid, THREADS, 0, side>>>(table, weights[0], weights[1]);
        return;
    }
    for (int l = 0; l < HIDDEN; ++l)
        update<<<BLOCKS, THREADS, 0, side>>>(weights[l], gradients[l]);
}

static void
train(void)
{
    for (int step = 0; step < steps; ++step) {
        if (is_mode("each-step") || (is_mode("odd-late") && step == 1))
            write_table();
        for (int l = LAYERS - 1; l >= HIDDEN; --l)
            add<<<BLOCKS, THREADS, 0, stream>>>(gradients[l], mine());
        backward_hidden(step);
        for (int l = 0; l < HIDDEN && is_mode("declared"); ++l)
            DDP_GRADIENT_READY(gradients[l], side);
        if (is_too_late() && step == 8)
            write_table();
        if (is_mode("too-late-written") && step == 8)
            add_through<<<dim3(BLOCKS, HIDDEN), THREADS, 0, side>>>(table, mine());
        DDP_STEP(stream);
        update_hidden();
        for (int l = HIDDEN; l < LAYERS; ++l)
            update<<<BLOCKS, THREADS, 0, stream>>>(weights[l], gradients[l]);
        stream_follow(side, stream, event);
        for (int l = 0; l < LAYERS; ++l)
            CHECK(cudaMemsetAsync(gradients[l], 0, BYTES, stream));
        stream_follow(stream, side, event);
    }
    CHECK(cudaDeviceSynchronize());
}

static int
weights_are_right(void)
{
    float host[COUNT], expected = -0.25f * (float)(1 + DDP_WORLD_SIZE()) * (float)steps;
    for (int l = 0; l < LAYERS; ++l) {
        CHECK(cudaMemcpy(host, weights[l], BYTES, cudaMemcpyDeviceToHost));
        for (int i = 0; i < COUNT; ++i) {
            if (host[i] != expected) {
                fprintf(stderr, "escapes: weight %d of layer %d is %g, not %g\n", i, l, (double)host[i],
                        (double)expected);
                return 0;
            }
        }
    }
    return 1;
}

int
main(int argc, char **argv)
{
    mode = argc > 1 ? argv[1] : "once";
    if (argc > 2)
        steps = atoi(argv[2]);
    create();
    if (is_mode("batched") || is_mode("batched-built"))
        create_batch();
    if (!is_mode("after") && !is_mode("each-step") && !is_mode("odd-late") && !is_too_late() &&
        !is_mode("batched-built"))
        write_table();
    annotate();
    if (is_mode("after"))
        write_table();
    train();
    return weights_are_right() ? 0 : 1;
}
