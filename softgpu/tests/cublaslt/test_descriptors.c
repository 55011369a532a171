/*
 * test_descriptors.c - descriptors of cublasLt keep what they are given, defaults are those of cublasLt.h, and what the
 * stand-in cannot do, or contradicts itself, gets an error instead of a product.
 */
#include "../cublas/device.h"

#include "tests/lib/test.h"

#include <cublasLt.h>

static cublasLtHandle_t lt;

static void
start(void)
{
    device_start();
    ck_assert_int_eq(cublasLtCreate(&lt), CUBLAS_STATUS_SUCCESS);
}

static void
end(void)
{
    ck_assert_int_eq(cublasLtDestroy(lt), CUBLAS_STATUS_SUCCESS);
}

TEST_GROUP(all, .start = start, .stop = end);

/* Of a descriptor, a layout or a preference: `value` is set, or read. */
#define SET(kind, of, attribute, value) \
    ck_assert_int_eq(cublasLt##kind##SetAttribute(of, attribute, &(value), sizeof(value)), 0)
#define GET(kind, of, attribute, value) \
    ck_assert_int_eq(cublasLt##kind##GetAttribute(of, attribute, &(value), sizeof(value), NULL), 0)

TEST(test_attributes_round_trip)
{
    cublasLtMatmulDesc_t desc;
    ck_assert_int_eq(cublasLtMatmulDescCreate(&desc, CUBLAS_COMPUTE_32F, CUDA_R_32F), 0);
    uint32_t epilogue = 0;
    size_t written = 0;
    ck_assert_int_eq(
        cublasLtMatmulDescGetAttribute(desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof(epilogue), &written), 0);
    ck_assert_uint_eq(epilogue, CUBLASLT_EPILOGUE_DEFAULT);
    ck_assert_uint_eq(written, sizeof(epilogue));
    ck_assert_int_eq(cublasLtMatmulDescGetAttribute(desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, NULL, 0, &written), 0);
    ck_assert_uint_eq(written, sizeof(void *));

    epilogue = CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
    SET(MatmulDesc, desc, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue);
    epilogue = 0;
    GET(MatmulDesc, desc, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue);
    ck_assert_uint_eq(epilogue, CUBLASLT_EPILOGUE_GELU_AUX_BIAS);

    ck_assert_int_eq(cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, 8),
                     CUBLAS_STATUS_INVALID_VALUE);
    ck_assert_int_eq(cublasLtMatmulDescSetAttribute(desc, (cublasLtMatmulDescAttributes_t)9, &epilogue, 4),
                     CUBLAS_STATUS_INVALID_VALUE);
    ck_assert_int_eq(cublasLtMatmulDescDestroy(desc), 0);
}

TEST(test_descriptors_on_the_stack)
{
    cublasLtMatrixLayoutOpaque_t layout;
    cublasLtMatmulPreferenceOpaque_t preference;
    int64_t ld = 0;
    uint64_t rows = 0;
    ck_assert_int_eq(cublasLtMatrixLayoutInit(&layout, CUDA_R_16BF, 3, 5, 7), 0);
    GET(MatrixLayout, &layout, CUBLASLT_MATRIX_LAYOUT_LD, ld);
    GET(MatrixLayout, &layout, CUBLASLT_MATRIX_LAYOUT_ROWS, rows);
    ck_assert_int_eq(ld, 7);
    ck_assert_uint_eq(rows, 3);
    ck_assert_int_eq(cublasLtMatrixLayoutInit_internal(&layout, 8, CUDA_R_16BF, 3, 5, 7), CUBLAS_STATUS_ALLOC_FAILED);
    ck_assert_int_eq(cublasLtMatmulPreferenceInit(&preference), 0);
    uint64_t bytes = 1 << 20, got = 0;
    SET(MatmulPreference, &preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, bytes);
    GET(MatmulPreference, &preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, got);
    ck_assert_uint_eq(got, bytes);
}

/* A call that would work, of 8 x 8 matrices, for the tests to spoil. */
struct call {
    cublasLtMatmulDescOpaque_t desc;
    cublasLtMatrixLayoutOpaque_t a, b, c, d;
};

static struct call
good_call(void)
{
    struct call call;
    cublasLtMatrixLayoutOpaque_t *all[] = {&call.a, &call.b, &call.c, &call.d};
    ck_assert_int_eq(cublasLtMatmulDescInit(&call.desc, CUBLAS_COMPUTE_32F, CUDA_R_32F), 0);
    for (int i = 0; i < 4; ++i)
        ck_assert_int_eq(cublasLtMatrixLayoutInit(all[i], CUDA_R_32F, 8, 8, 8), 0);
    return call;
}

static cublasStatus_t
run(struct call *call)
{
    float alpha = 1, beta = 0;
    void *memory = device_copy_of(NULL, 4 * 8 * 8 * sizeof(float));
    float *at = memory;
    cublasLtMatmulHeuristicResult_t found;
    int count;
    cublasStatus_t chosen = cublasLtMatmulAlgoGetHeuristic(lt, &call->desc, &call->a, &call->b, &call->c, &call->d,
                                                           NULL, 1, &found, &count);
    cublasStatus_t status = cublasLtMatmul(lt, &call->desc, &alpha, at, &call->a, at + 64, &call->b, &beta, at + 128,
                                           &call->c, at + 192, &call->d, NULL, NULL, 0, NULL);
    ck_assert_int_eq(chosen, status);
    ck_assert_int_eq(cuCtxSynchronize(), CUDA_SUCCESS);
    device_free(memory);
    return status;
}

#define SPOIL(kind, member, attribute, type, value, expected) \
    do {                                                      \
        struct call call = good_call();                       \
        type spoilt = value;                                  \
        SET(kind, &call.member, attribute, spoilt);           \
        ck_assert_int_eq(run(&call), expected);               \
    } while (0)

TEST(test_refusals)
{
    struct call call = good_call();
    ck_assert_int_eq(run(&call), CUBLAS_STATUS_SUCCESS);
    SPOIL(MatmulDesc, desc, CUBLASLT_MATMUL_DESC_EPILOGUE, uint32_t, 3, CUBLAS_STATUS_NOT_SUPPORTED);
    SPOIL(MatmulDesc, desc, CUBLASLT_MATMUL_DESC_POINTER_MODE, int32_t, CUBLASLT_POINTER_MODE_DEVICE_VECTOR,
          CUBLAS_STATUS_NOT_SUPPORTED);
    SPOIL(MatmulDesc, desc, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, void *, &call, CUBLAS_STATUS_NOT_SUPPORTED);
    SPOIL(MatmulDesc, desc, CUBLASLT_MATMUL_DESC_TRANSC, int32_t, CUBLAS_OP_T, CUBLAS_STATUS_NOT_SUPPORTED);
    SPOIL(MatmulDesc, desc, CUBLASLT_MATMUL_DESC_SCALE_TYPE, int32_t, CUDA_R_64F, CUBLAS_STATUS_NOT_SUPPORTED);
    SPOIL(MatmulDesc, desc, CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, int32_t, CUBLAS_COMPUTE_32I,
          CUBLAS_STATUS_NOT_SUPPORTED);
    SPOIL(MatrixLayout, a, CUBLASLT_MATRIX_LAYOUT_TYPE, uint32_t, CUDA_R_8F_E4M3, CUBLAS_STATUS_NOT_SUPPORTED);
    SPOIL(MatrixLayout, a, CUBLASLT_MATRIX_LAYOUT_ORDER, int32_t, CUBLASLT_ORDER_COL32, CUBLAS_STATUS_NOT_SUPPORTED);
    SPOIL(MatrixLayout, d, CUBLASLT_MATRIX_LAYOUT_ORDER, int32_t, CUBLASLT_ORDER_ROW, CUBLAS_STATUS_NOT_SUPPORTED);
    SPOIL(MatrixLayout, a, CUBLASLT_MATRIX_LAYOUT_COLS, uint64_t, 7, CUBLAS_STATUS_INVALID_VALUE);
    SPOIL(MatrixLayout, b, CUBLASLT_MATRIX_LAYOUT_LD, int64_t, 7, CUBLAS_STATUS_INVALID_VALUE);
    SPOIL(MatrixLayout, c, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, int32_t, 2, CUBLAS_STATUS_INVALID_VALUE);
}

/* An epilogue without its vector: algorithms may be asked for, but there is no product. */
TEST(test_missing_pointers)
{
    struct call call = good_call();
    uint32_t epilogue = CUBLASLT_EPILOGUE_BIAS;
    cublasLtMatmulHeuristicResult_t found;
    int count = 0;
    float one = 1;
    void *d = device_copy_of(NULL, 8 * 8 * sizeof(float));
    SET(MatmulDesc, &call.desc, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue);
    ck_assert_int_eq(
        cublasLtMatmulAlgoGetHeuristic(lt, &call.desc, &call.a, &call.b, &call.c, &call.d, NULL, 1, &found, &count), 0);
    ck_assert_int_eq(count, 1);
    ck_assert_int_eq(
        cublasLtMatmul(lt, &call.desc, &one, d, &call.a, d, &call.b, &one, d, &call.c, d, &call.d, NULL, NULL, 0, NULL),
        CUBLAS_STATUS_INVALID_VALUE);
    epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    SET(MatmulDesc, &call.desc, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue);
    ck_assert_int_eq(cublasLtMatmul(lt, &call.desc, &one, NULL, &call.a, d, &call.b, &one, d, &call.c, d, &call.d, NULL,
                                    NULL, 0, NULL),
                     CUBLAS_STATUS_INVALID_VALUE);
    ck_assert_int_eq(cublasLtMatmul(NULL, &call.desc, &one, d, &call.a, d, &call.b, &one, d, &call.c, d, &call.d, NULL,
                                    NULL, 0, NULL),
                     CUBLAS_STATUS_NOT_INITIALIZED);
    device_free(d);
}
