/*
 * escapes.cu - a trainer whose kernels reach some gradients only through pointers that lie in memory: a table or a
 * struct on the device, constant memory, managed or pinned memory, the arrays of a batched GEMM, tensor maps. Each is a
 * mode.
 *
 * As exact.h. Two gradients are reached unseen, four as usual; kernels that go through memory run on a stream that
 * DDP_STEP does not name.
 *
 * odd and odd-late: all gradients lie in one flat buffer, at odd offsets. The table of odd-late is copied in the second
 * step, after the ranks have agreed; that of too-late, too-late-used and too-late-written in the ninth, after backward,
 * when the gradients' buckets are launched: nothing goes through it, or kernels of later steps do, or one of the same
 * step.
 */
enum { HIDDEN = 2, LAYERS = 6, SIDE = 32, COUNT = SIDE * SIDE };
#include "exact.h"

#include <cublas_v2.h>
#include <cudaTypedefs.h>

#ifdef __SOFTGPU__
#include <softgpu/tensor_map.h>
#endif

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

static struct table *table;         /* where kernels find it */
static struct packed_table *packed; /* likewise */
static cublasHandle_t cublas;
static float *ones, *column; /* ones: SIDE values of 1; column: SIDE values of 1 + rank */
static struct maps maps;
static const float **arrays; /* device: of the batched GEMM, [3][HIDDEN] */
__constant__ struct table constant_table;

ELEMENTWISE_OF_ALL(add_through, (const struct table *through, float summand),
                   through->gradients[blockIdx.y][i] += summand)

__global__ void
add_through_packed(const struct packed_table *through, float summand)
{
    float *gradient;
    memcpy(&gradient, &through->gradients[blockIdx.y], sizeof(gradient));
    gradient[blockIdx.x * blockDim.x + threadIdx.x] += summand;
}

ELEMENTWISE_OF_ALL(add_through_constant, (float summand), constant_table.gradients[blockIdx.y][i] += summand)

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

ELEMENTWISE_OF_ALL(update_through, (const struct table *through, float *first, float *second),
                   float *weight = blockIdx.y == 0 ? first : second;
                   weight[i] -= 0.5f * through->gradients[blockIdx.y][i])

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
    layers_create();
    float *flat = device_floats(LAYERS * (COUNT + 1) + 2);
    for (int l = 0; l < LAYERS && begins_with("odd"); ++l)
        gradients[l] = flat + 1 + l * (COUNT + 1) + l % 2;
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
    ones = device_copy(host, SIDE);
    column = device_copy(host + SIDE, SIDE);
    CHECK(cudaMalloc(&arrays, 3 * HIDDEN * sizeof(*arrays)));
    CHECK(cublasCreate(&cublas));
    CHECK(cublasSetStream(cublas, side));
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
        auto encode = (PFN_cuTensorMapEncodeIm2col_v12000)driver_function("cuTensorMapEncodeIm2col");
        return encode(map, type, 3, address, dims, strides, lower, upper, 4, 4, element_strides, interleave, swizzle,
                      promotion, fill);
    }
    if (is_mode("map-wide")) {
        auto encode = (PFN_cuTensorMapEncodeIm2colWide_v12080)driver_function("cuTensorMapEncodeIm2colWide");
        return encode(map, type, 3, address, dims, strides, 0, 0, 4, 4, element_strides, interleave,
                      CU_TENSOR_MAP_IM2COL_WIDE_MODE_W, swizzle, promotion, fill);
    }
    auto encode = (PFN_cuTensorMapEncodeTiled_v12000)driver_function("cuTensorMapEncodeTiled");
    return encode(map, type, 3, address, dims, strides, box, element_strides, interleave, swizzle, promotion, fill);
}

static void
write_maps(void)
{
    auto replace = (PFN_cuTensorMapReplaceAddress_v12000)driver_function("cuTensorMapReplaceAddress");
    for (int l = 0; l < HIDDEN; ++l) {
        bool replaces = is_mode("map-replace");
        CUtensorMap map;
        CHECK(encode_map(&map, replaces ? weights[l] : gradients[l]));
        if (replaces)
            CHECK(replace(&map, gradients[l]));
        memcpy(maps.words[l], map.opaque, sizeof(map.opaque));
    }
}

/* The table goes to where its mode wants it. */
static void
write_table(void)
{
    struct table host = {{gradients[0], gradients[1]}};
    struct packed_table odd = {7, {gradients[0], gradients[1]}};
    if (begins_with("map"))
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
add_batched(void)
{
    const float one = 1.0f;
    float **c = (float **)(arrays + 2 * HIDDEN);
    CHECK(cublasSgemmBatched(cublas, CUBLAS_OP_N, CUBLAS_OP_T, SIDE, SIDE, 1, &one, arrays, SIDE, arrays + HIDDEN, SIDE,
                             &one, c, SIDE, HIDDEN));
}

static void
backward_hidden(int step)
{
    dim3 grid(BLOCKS, HIDDEN);
    for (int l = 0; l < HIDDEN && step < first_hidden(); ++l) /* as usual */
        layer_backward(l, side);
    if (step < first_hidden())
        return;
    if (begins_with("map"))
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
        layers_backward(HIDDEN, stream);
        backward_hidden(step);
        for (int l = 0; l < HIDDEN && is_mode("declared"); ++l)
            DDP_GRADIENT_READY(gradients[l], side);
        if (begins_with("too-late") && step == 8)
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
}

int
main(int argc, char **argv)
{
    take_mode(argc, argv, "once");
    create();
    if (is_mode("batched") || is_mode("batched-built"))
        create_batch();
    if (!is_one_of({"after", "each-step", "odd-late", "batched-built"}) && !begins_with("too-late"))
        write_table();
    layers_annotate();
    if (is_mode("after"))
        write_table();
    train();
    expect_steps(steps);
    return weights_are_right(0) ? 0 : 1;
}
