/*
 * test_lt_extents.c - what test_extents.c shows of cuBLAS, of cuBLASLt: random products with layouts by columns and by
 * rows, batches, every epilogue, scalars in device memory and a workspace. The bias, its gradient and the auxiliary
 * matrix stand in the descriptor only; each epilogue must have been tried.
 */
#include "arena.h"

#include "tests/lib/test.h"

#include <cublasLt.h>

enum { CASES = 60, SIZE = 8, WORKSPACE_BYTES = 4096 };
enum { AREA_A, AREA_B, AREA_C, AREA_D, AREA_BIAS, AREA_AUX, AREA_ALPHA, AREA_BETA, AREA_WORKSPACE };

static struct record *record;
static cublasLtHandle_t handle;
static enum arena_kind element_kind;

static enum arena_kind
kind_of_area(unsigned index)
{
    bool scalar = index == AREA_ALPHA || index == AREA_BETA;
    return scalar && element_kind == ARENA_HALF ? ARENA_FLOAT : element_kind;
}

#define EPILOGUE(name, operand)                  \
    {                                            \
#name, CUBLASLT_EPILOGUE_##name, operand \
    }
static const struct {
    const char *name;
    cublasLtEpilogue_t epilogue;
    const char *operand; /* that it must name */
} epilogues[] = {
    EPILOGUE(DEFAULT, "D"),
    EPILOGUE(RELU, "D"),
    EPILOGUE(BIAS, "bias"),
    EPILOGUE(RELU_BIAS, "bias"),
    EPILOGUE(RELU_AUX, "auxiliary matrix"),
    EPILOGUE(RELU_AUX_BIAS, "auxiliary matrix"),
    EPILOGUE(DRELU, "auxiliary matrix"),
    EPILOGUE(DRELU_BGRAD, "bias gradient"),
    EPILOGUE(GELU, "D"),
    EPILOGUE(GELU_BIAS, "bias"),
    EPILOGUE(GELU_AUX, "auxiliary matrix"),
    EPILOGUE(GELU_AUX_BIAS, "auxiliary matrix"),
    EPILOGUE(DGELU, "auxiliary matrix"),
    EPILOGUE(DGELU_BGRAD, "bias gradient"),
    EPILOGUE(BGRADA, "bias gradient"),
    EPILOGUE(BGRADB, "bias gradient"),
};
enum { EPILOGUES = sizeof(epilogues) / sizeof(epilogues[0]) };

struct product {
    const char *epilogue;
    cublasLtMatmulDesc_t descriptor;
    cublasLtMatrixLayout_t layouts[4];
    void *c;
};

#define SET(object, set, attribute, type, value)                                                  \
    do {                                                                                          \
        type value_ = (value);                                                                    \
        ck_assert_int_eq(set(object, attribute, &value_, sizeof(value_)), CUBLAS_STATUS_SUCCESS); \
    } while (0)

static cublasLtMatrixLayout_t
make_layout(cudaDataType type, int64_t rows, int64_t columns, int32_t batch_count)
{
    cublasLtMatrixLayout_t layout;
    int32_t order = arena_below(3) == 0 ? CUBLASLT_ORDER_ROW : CUBLASLT_ORDER_COL;
    int64_t ld = (order == CUBLASLT_ORDER_ROW ? columns : rows) + arena_below(3);
    ck_assert_int_eq(cublasLtMatrixLayoutCreate(&layout, type, (uint64_t)rows, (uint64_t)columns, ld),
                     CUBLAS_STATUS_SUCCESS);
    SET(layout, cublasLtMatrixLayoutSetAttribute, CUBLASLT_MATRIX_LAYOUT_ORDER, int32_t, order);
    SET(layout, cublasLtMatrixLayoutSetAttribute, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, int32_t, batch_count);
    SET(layout, cublasLtMatrixLayoutSetAttribute, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, int64_t,
        SIZE * (SIZE + 3) + arena_below(5));
    return layout;
}

/* Only the pointers that the epilogue has: NVIDIA's library may write an auxiliary matrix that the epilogue does not
 * name. */
static void
set_epilogue(struct product *product, int index)
{
    cublasLtEpilogue_t epilogue = epilogues[index].epilogue;
    const char *name = epilogues[index].name;
    bool mask = strstr(name, "RELU") != NULL;
    cublasLtMatmulDesc_t descriptor = product->descriptor;
    SET(descriptor, cublasLtMatmulDescSetAttribute, CUBLASLT_MATMUL_DESC_EPILOGUE, uint32_t, epilogue);
    if (strstr(name, "BIAS") != NULL || strstr(name, "BGRAD") != NULL) {
        SET(descriptor, cublasLtMatmulDescSetAttribute, CUBLASLT_MATMUL_DESC_BIAS_POINTER, void *,
            arena_place(AREA_BIAS));
        SET(descriptor, cublasLtMatmulDescSetAttribute, CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE, int64_t,
            SIZE + arena_below(3));
    }
    if (strstr(name, "AUX") == NULL && strncmp(name, "DRELU", 5) != 0 && strncmp(name, "DGELU", 5) != 0)
        return;
    SET(descriptor, cublasLtMatmulDescSetAttribute, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, void *,
        arena_place(AREA_AUX));
    SET(descriptor, cublasLtMatmulDescSetAttribute, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, int64_t,
        (mask ? 128 : 8) * (1 + arena_below(2)));
    SET(descriptor, cublasLtMatmulDescSetAttribute, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE, int64_t,
        mask ? 128 * 2 * SIZE : 16 * SIZE);
}

static struct product
random_product(int index)
{
    static const cudaDataType types[] = {CUDA_R_32F, CUDA_R_64F, CUDA_R_16F};
    element_kind = (enum arena_kind)arena_below(3);
    cudaDataType type = types[element_kind], scalar = element_kind == ARENA_DOUBLE ? CUDA_R_64F : CUDA_R_32F;
    int64_t m = 1 + arena_below(SIZE), n = 1 + arena_below(SIZE), k = 1 + arena_below(SIZE);
    int32_t batch_count = (int32_t)(1 + arena_below(3));
    int32_t op_a = (int32_t)arena_below(2), op_b = (int32_t)arena_below(2);

    struct product product = {.epilogue = epilogues[index].name,
                              .c = arena_place(arena_below(2) == 0 ? AREA_C : AREA_D)};
    ck_assert_int_eq(cublasLtMatmulDescCreate(&product.descriptor,
                                              scalar == CUDA_R_64F ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F, scalar),
                     CUBLAS_STATUS_SUCCESS);
    SET(product.descriptor, cublasLtMatmulDescSetAttribute, CUBLASLT_MATMUL_DESC_TRANSA, int32_t, op_a);
    SET(product.descriptor, cublasLtMatmulDescSetAttribute, CUBLASLT_MATMUL_DESC_TRANSB, int32_t, op_b);
    SET(product.descriptor, cublasLtMatmulDescSetAttribute, CUBLASLT_MATMUL_DESC_POINTER_MODE, int32_t,
        CUBLASLT_POINTER_MODE_DEVICE);
    set_epilogue(&product, index);
    product.layouts[0] = make_layout(type, op_a ? k : m, op_a ? m : k, batch_count);
    product.layouts[1] = make_layout(type, op_b ? n : k, op_b ? k : n, batch_count);
    product.layouts[3] = make_layout(type, m, n, batch_count);
    product.layouts[2] = product.c == arena_place(AREA_D) ? product.layouts[3] : make_layout(type, m, n, batch_count);
    return product;
}

static void
destroy(struct product *product)
{
    if (product->layouts[2] != product->layouts[3])
        (void)cublasLtMatrixLayoutDestroy(product->layouts[2]);
    for (int i = 0; i < 4; ++i) {
        if (i != 2)
            (void)cublasLtMatrixLayoutDestroy(product->layouts[i]);
    }
    (void)cublasLtMatmulDescDestroy(product->descriptor);
}

static bool
multiply(const void *values)
{
    const struct product *product = values;
    return cublasLtMatmul(handle, product->descriptor, arena_place(AREA_ALPHA), arena_place(AREA_A),
                          product->layouts[0], arena_place(AREA_B), product->layouts[1], arena_place(AREA_BETA),
                          product->c, product->layouts[2], arena_place(AREA_D), product->layouts[3], NULL,
                          arena_place(AREA_WORKSPACE), WORKSPACE_BYTES, CU_STREAM_LEGACY) == CUBLAS_STATUS_SUCCESS;
}

/* A mask may be written one word at a time; the stand-in needs no workspace. */
static bool
shows_ends(const void *values, const struct operand *operand)
{
    const struct product *product = values;
    return strcmp(operand->name, "workspace") != 0 &&
           (strcmp(operand->name, "auxiliary matrix") != 0 || strstr(product->epilogue, "GELU") != NULL);
}

/* Returns whether the library did it. */
static bool
run_case(int index, struct arena_ends *ends)
{
    struct product product = random_product(index);
    const char *name = product.epilogue;
    for (unsigned i = 0; i < ARENA_AREAS; ++i)
        arena_fill(i, kind_of_area(i));
    struct arena_call call = {name, &product, multiply, kind_of_area, arena_element_bytes(element_kind)};
    bool done = arena_try(record, &call, ends, shows_ends);
    if (done) {
        ck_assert_str_eq(record->name, "cublasLtMatmul");
        ck_assert_msg(!record->opaque, "%s is opaque", name);
        ck_assert_msg(recorder_operand(record, epilogues[index].operand) != NULL, "%s does not name its %s", name,
                      epilogues[index].operand);
        arena_check_dropped(record, &call);
    }
    destroy(&product);
    return done;
}

static void
start(void)
{
    record = arena_start();
    ck_assert_int_eq(cublasLtCreate(&handle), CUBLAS_STATUS_SUCCESS);
}

TEST_GROUP(cublasLt, .start = start);

LOOP_TEST(operands_are_what_a_product_touches, 0, EPILOGUES)
{
    if (arena_is_broken())
        start();
    struct arena_ends ends[ARENA_ENDS] = {0};
    unsigned ran = 0;
    for (int i = 0; i < CASES; ++i)
        ran += run_case(_i, ends);
    ck_assert_msg(ran >= CASES / 10, "%s: %u of %d ran", epilogues[_i].name, ran, CASES);
    arena_check_ends(ends, epilogues[_i].name);
}

/* The stream is an argument of the call. */
TEST(the_stream_is_the_calls_own)
{
    struct product product = random_product(0);
    CUstream stream;
    ck_assert_int_eq(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    (void)cublasLtMatmul(handle, product.descriptor, arena_place(AREA_ALPHA), arena_place(AREA_A), product.layouts[0],
                         arena_place(AREA_B), product.layouts[1], arena_place(AREA_BETA), product.c, product.layouts[2],
                         arena_place(AREA_D), product.layouts[3], NULL, NULL, 0, stream);
    ck_assert(!arena_is_broken());
    ck_assert_ptr_eq(record->stream, stream);
    ck_assert_ptr_null(recorder_operand(record, "workspace"));
    ck_assert_int_eq(cuStreamDestroy(stream), CUDA_SUCCESS);
    destroy(&product);
}

int
main(int argc, char **argv)
{
    return recorder_run(argc, argv, "", NULL, tests_run_in_this_process);
}
