/*
 * test_vector_matrix.c - levels 1 and 2 of cuBLAS, geam, copies, and what every call checks: against the definitions,
 * with random sizes, increments and scalars; and with wrong arguments.
 */
#include "structured.h"

#include "tests/lib/test.h"

TEST_GROUP(vector_matrix, .timeout_s = 60, .start = structured_start, .stop = structured_stop);

enum { LENGTH = 90 };

/* Vectors are matrices of one row. Where the increment is negative, BLAS begins at the other end. */
static double *
at(const struct matrix *vector, int sign, int i)
{
    return &vector->value[(sign > 0 ? i : vector->columns - 1 - i) * vector->ld];
}

static int
random_sign(struct setting *s)
{
    return rand_r(&s->seed) % 3 == 0 ? -1 : 1;
}

/* The device has exactly these values: their sums have no rounding. */
static void
expect(const struct setting *s, const struct matrix *wanted)
{
    double *got = download(s, wanted);
    for (size_t i = 0; i < count_of(wanted); ++i)
        ck_assert(got[i] == wanted->value[i] || (isnan(got[i]) && isnan(wanted->value[i])));
}

PART_TEST(vectors_equal_the_definition, 4 * CASES)
{
    struct setting *s = new_setting(_i);
    int n = rand_r(&s->seed) % LENGTH, of_x = random_sign(s), of_y = random_sign(s);
    struct matrix x = random_matrix(s, 1, n), y = random_matrix(s, 1, n);
    double dot = 0, sum = 0, squares = 0, precision = s->is_wide ? 1e-14 : 1e-6;
    union {
        float narrow;
        double wide;
    } of;
#define RESULT (s->is_wide ? of.wide : (double)of.narrow)
    for (int i = 0; i < n; ++i) {
        dot += *at(&x, of_x, i) * *at(&y, of_y, i);
        sum += fabs(element(&x, 0, i));
        squares += element(&x, 0, i) * element(&x, 0, i);
    }
    OK(BLAS(dot, n, x.device, of_x * x.ld, y.device, of_y * y.ld, (void *)&of));
    ck_assert_double_eq(RESULT, dot);
    OK(BLAS(asum, n, x.device, x.ld, (void *)&of));
    ck_assert_double_eq(RESULT, sum);
    OK(BLAS(nrm2, n, x.device, x.ld, (void *)&of));
    ck_assert_double_eq_tol(RESULT, sqrt(squares), precision * sqrt(squares) + 1e-30);

    OK(BLAS(axpy, n, s->alpha_at, x.device, of_x * x.ld, y.device, of_y * y.ld));
    for (int i = 0; i < n; ++i)
        *at(&y, of_y, i) += s->alpha * *at(&x, of_x, i);
    OK(BLAS(scal, n, s->alpha_at, x.device, x.ld));
    for (int i = 0; i < n; ++i)
        *at(&x, 1, i) *= s->alpha;
    bool swaps = _i % 4 < 2;
    if (swaps)
        OK(BLAS(swap, n, x.device, of_x * x.ld, y.device, of_y * y.ld));
    else
        OK(BLAS(copy, n, x.device, of_x * x.ld, y.device, of_y * y.ld));
    for (int i = 0; i < n; ++i) {
        double before = *at(&y, of_y, i);
        *at(&y, of_y, i) = *at(&x, of_x, i);
        *at(&x, of_x, i) = swaps ? before : *at(&x, of_x, i);
    }
    expect(s, &x);
    expect(s, &y);
}

PART_TEST(matrices_equal_the_definition, 4 * CASES)
{
    struct setting *s = new_setting(_i);
    s->m -= _i % 10 == 0 ? s->m : 0;
    s->n -= _i % 10 == 1 ? s->n : 0;
    int of_x = random_sign(s), of_y = random_sign(s);
    bool is_plain = s->op == CUBLAS_OP_N;
    cublasOperation_t op = is_plain || _i % 3 == 0 ? s->op : CUBLAS_OP_C;
    struct matrix a = random_matrix(s, s->m, s->n), x = random_matrix(s, 1, is_plain ? s->n : s->m),
                  y = random_matrix(s, 1, is_plain ? s->m : s->n);
    for (int i = 0; i < y.columns && s->beta == 0; ++i)
        *at(&y, 1, i) = (double)NAN; /* y is not read */
    upload(s, &y);
    OK(BLAS(gemv, op, s->m, s->n, s->alpha_at, a.device, a.ld, x.device, of_x * x.ld, s->beta_at, y.device,
            of_y * y.ld));
    for (int i = 0; i < y.columns && s->m > 0 && s->n > 0; ++i) {
        double sum = 0;
        for (int j = 0; j < x.columns; ++j)
            sum += op_element(s, &a, i, j) * *at(&x, of_x, j);
        *at(&y, of_y, i) = s->alpha * sum + (s->beta == 0 ? 0 : s->beta * *at(&y, of_y, i));
    }
    if (s->m > 0 && s->n > 0)
        expect(s, &y);

    x = random_matrix(s, 1, s->m);
    y = random_matrix(s, 1, s->n);
    OK(BLAS(ger, s->m, s->n, s->alpha_at, x.device, of_x * x.ld, y.device, of_y * y.ld, a.device, a.ld));
    for (int j = 0; j < s->n; ++j) {
        for (int i = 0; i < s->m; ++i)
            a.value[i + j * a.ld] += s->alpha * *at(&x, of_x, i) * *at(&y, of_y, j);
    }
    expect(s, &a);

    cublasOperation_t op_b = _i % 4 < 2 ? CUBLAS_OP_N : _i % 3 == 0 ? CUBLAS_OP_T : CUBLAS_OP_C;
    struct matrix b = op_b == CUBLAS_OP_N ? random_matrix(s, s->m, s->n) : random_matrix(s, s->n, s->m),
                  c = random_matrix(s, s->m, s->n);
    a = is_plain ? a : random_matrix(s, s->n, s->m);
    OK(BLAS(geam, op, op_b, s->m, s->n, s->alpha_at, s->alpha == 0 ? NULL : a.device, a.ld, s->beta_at, b.device, b.ld,
            c.device, c.ld));
    for (int j = 0; j < s->n; ++j) {
        for (int i = 0; i < s->m; ++i)
            c.value[i + j * c.ld] = s->alpha * op_element(s, &a, i, j) +
                                    s->beta * (op_b == CUBLAS_OP_N ? element(&b, i, j) : element(&b, j, i));
    }
    expect(s, &c);
}

TEST(results_go_where_the_pointer_mode_says)
{
    const float values[] = {3, -4};
    float host = -1, *x = device_copy_of(values, sizeof(values)), *device = device_copy_of(&host, sizeof(host));
    CUstream stream;
    ck_assert_int_eq(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    ck_assert_int_eq(cublasSetStream(handle, stream), 0);
    ck_assert_int_eq(cublasSetPointerMode(handle, CUBLAS_POINTER_MODE_DEVICE), 0);
    static _Atomic bool gate;
    device_hold(stream, &gate);
    ck_assert_int_eq(cublasSnrm2(handle, 2, x, 1, device), 0);
    /* Read by the kernel, not at the call: the scalar is itself the result of what stands before it in the stream. */
    ck_assert_int_eq(cublasSscal(handle, 2, device, x, 1), 0);
    atomic_store(&gate, true);
    device_read(&host, device, sizeof(host));
    ck_assert_float_eq(host, 5.0f);
    ck_assert_int_eq(cublasSasum(handle, 0, x, 1, device), 0); /* of nothing: zero */
    device_read(&host, device, sizeof(host));
    ck_assert_float_eq(host, 0.0f);
    ck_assert_int_eq(cublasSetPointerMode(handle, CUBLAS_POINTER_MODE_HOST), 0);
    ck_assert_int_eq(cublasSasum(handle, 2, x, 1, &host), 0);
    ck_assert_float_eq(host, 35.0f);
    ck_assert_int_eq(cublasSetStream(handle, NULL), 0);
    ck_assert_int_eq(cuStreamDestroy(stream), CUDA_SUCCESS);
    device_free(x);
    device_free(device);
}

TEST(host_and_device_exchange_vectors_and_matrices)
{
    double host[60], back[60];
    for (int i = 0; i < 60; ++i) {
        host[i] = i;
        back[i] = -1;
    }
    double *device = device_copy_of(NULL, 200 * sizeof(double));
    ck_assert_int_eq(cublasSetMatrix(4, 5, sizeof(double), host, 6, device, 7), 0);
    ck_assert_int_eq(cublasGetMatrix(4, 5, sizeof(double), device, 7, back, 9), 0);
    for (int j = 0; j < 5; ++j) {
        for (int i = 0; i < 9; ++i)
            ck_assert_double_eq(back[i + 9 * j], i < 4 ? host[i + 6 * j] : -1);
    }
    ck_assert_int_eq(cublasSetVector(10, sizeof(double), host, 3, device, 2), 0);
    ck_assert_int_eq(cublasGetVector(10, sizeof(double), device, 2, back, 1), 0);
    for (int i = 0; i < 10; ++i)
        ck_assert_double_eq(back[i], 3 * i);
    ck_assert_int_eq(cublasSetVector(60, sizeof(double), host, 1, device, 1), 0);
    ck_assert_int_eq(cublasGetVectorAsync(60, sizeof(double), device, 1, back, 1, NULL), 0);
    ck_assert_int_eq(cuCtxSynchronize(), CUDA_SUCCESS);
    ck_assert_mem_eq(host, back, sizeof(host));
    ck_assert_int_eq(cublasSetMatrix(4, 5, 8, host, 3, device, 7), CUBLAS_STATUS_INVALID_VALUE);
    ck_assert_int_eq(cublasSetVector(-1, 8, host, 1, device, 1), CUBLAS_STATUS_INVALID_VALUE);
    ck_assert_int_eq(cublasSetVector(4, 0, host, 1, device, 1), CUBLAS_STATUS_INVALID_VALUE);
    ck_assert_int_eq(cublasSetVector(4, 8, host, 0, device, 1), CUBLAS_STATUS_INVALID_VALUE);
    ck_assert_int_eq(cublasSetVector(0, 8, NULL, 1, NULL, 1), CUBLAS_STATUS_SUCCESS);
    device_free(device);
}

#define INVALID(call) ck_assert_int_eq(call, CUBLAS_STATUS_INVALID_VALUE)

TEST(wrong_arguments_are_refused)
{
    const float one = 1.0f;
    float *a = device_copy_of(NULL, 4096), result;
    cublasHandle_t none = NULL;
    cublasOperation_t N = CUBLAS_OP_N, T = CUBLAS_OP_T;
    ck_assert_int_eq(cublasSgemm(none, N, N, 2, 2, 2, &one, a, 2, a, 2, &one, a, 2), CUBLAS_STATUS_NOT_INITIALIZED);
    ck_assert_int_eq(cublasSetStream(none, NULL), CUBLAS_STATUS_NOT_INITIALIZED);
    ck_assert_int_eq(cublasDestroy(none), CUBLAS_STATUS_NOT_INITIALIZED);
    INVALID(cublasCreate(NULL));
    INVALID(cublasSgemm(handle, N, N, -1, 2, 2, &one, a, 2, a, 2, &one, a, 2));
    INVALID(cublasSgemm(handle, N, N, 2, -1, 2, &one, a, 2, a, 2, &one, a, 2));
    INVALID(cublasSgemm(handle, N, N, 2, 2, -1, &one, a, 2, a, 2, &one, a, 2));
    INVALID(cublasSgemm(handle, (cublasOperation_t)9, N, 2, 2, 2, &one, a, 2, a, 2, &one, a, 2));
    INVALID(cublasSgemm(handle, N, N, 3, 2, 2, &one, a, 2, a, 2, &one, a, 3)); /* lda < m */
    INVALID(cublasSgemm(handle, T, N, 2, 2, 3, &one, a, 2, a, 3, &one, a, 2)); /* lda < k */
    INVALID(cublasSgemm(handle, N, N, 2, 2, 3, &one, a, 2, a, 2, &one, a, 2)); /* ldb < k */
    INVALID(cublasSgemm(handle, N, T, 2, 3, 2, &one, a, 2, a, 2, &one, a, 2)); /* ldb < n */
    INVALID(cublasSgemm(handle, N, N, 3, 2, 2, &one, a, 3, a, 2, &one, a, 2)); /* ldc < m */
    INVALID(cublasSgemm(handle, N, N, 0, 0, 0, &one, a, 0, a, 1, &one, a, 1));
    INVALID(cublasSgemm(handle, N, N, 2, 2, 2, NULL, a, 2, a, 2, &one, a, 2));
    INVALID(cublasSgemm(handle, N, N, 2, 2, 2, &one, a, 2, a, 2, NULL, a, 2));
    INVALID(cublasSgemm(handle, N, N, 2, 2, 2, &one, NULL, 2, a, 2, &one, a, 2));
    INVALID(cublasSgemm(handle, N, N, 2, 2, 2, &one, a, 2, a, 2, &one, NULL, 2));
    ck_assert_int_eq(cublasSgemm(handle, N, N, 0, 2, 2, &one, NULL, 1, NULL, 2, &one, NULL, 1), CUBLAS_STATUS_SUCCESS);
    INVALID(cublasSgemmStridedBatched(handle, N, N, 2, 2, 2, &one, a, 2, 4, a, 2, 4, &one, a, 2, 4, -1));
    ck_assert_int_eq(cublasGemmEx(handle, N, N, 2, 2, 2, &one, a, CUDA_R_8I, 2, a, CUDA_R_8I, 2, &one, a, CUDA_R_32I, 2,
                                  CUBLAS_COMPUTE_32I, CUBLAS_GEMM_DEFAULT),
                     CUBLAS_STATUS_NOT_SUPPORTED);
    ck_assert_int_eq(cublasGemmEx(handle, N, N, 2, 2, 2, &one, a, CUDA_R_32F, 2, a, CUDA_R_16F, 2, &one, a, CUDA_R_32F,
                                  2, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
                     CUBLAS_STATUS_NOT_SUPPORTED);
    INVALID(cublasSgemv(handle, N, 2, 2, &one, a, 2, a, 0, &one, a, 1));
    INVALID(cublasSgemv(handle, N, 3, 2, &one, a, 2, a, 1, &one, a, 1));
    INVALID(cublasSger(handle, 3, 2, &one, a, 1, a, 1, a, 2));
    INVALID(cublasSgeam(handle, T, N, 2, 2, &one, a, 2, &one, a + 64, 2, a, 2)); /* a transposed operand in place */
    INVALID(cublasSdot(handle, 2, a, 1, a, 1, NULL));
    INVALID(cublasSaxpy(handle, 2, NULL, a, 1, a, 1));
    INVALID(cublasSetPointerMode(handle, (cublasPointerMode_t)5));
    ck_assert_int_eq(cublasSaxpy(handle, -3, &one, NULL, 1, NULL, 1), CUBLAS_STATUS_SUCCESS);
    ck_assert_int_eq(cublasSdot(handle, 0, NULL, 1, NULL, 1, &result), CUBLAS_STATUS_SUCCESS);
    ck_assert_float_eq(result, 0.0f);
    ck_assert_int_eq(cublasScnrm2(handle, 0, NULL, 1, &result), CUBLAS_STATUS_NOT_SUPPORTED);
    device_free(a);
}

TEST(handles_keep_their_settings)
{
    CUstream stream = CU_STREAM_PER_THREAD, got;
    cublasPointerMode_t pointer_mode;
    cublasMath_t math_mode;
    int version, major;
    ck_assert_int_eq(cublasSetStream(handle, stream), 0);
    ck_assert_int_eq(cublasGetStream(handle, &got), 0);
    ck_assert_ptr_eq(got, stream);
    ck_assert_int_eq(cublasSetStream(handle, NULL), 0);
    ck_assert_int_eq(cublasGetStream(handle, &got), 0);
    ck_assert_ptr_null(got);
    ck_assert_int_eq(cublasSetMathMode(handle, CUBLAS_TF32_TENSOR_OP_MATH), 0);
    ck_assert_int_eq(cublasGetMathMode(handle, &math_mode), 0);
    ck_assert_int_eq(math_mode, CUBLAS_TF32_TENSOR_OP_MATH);
    ck_assert_int_eq(cublasGetPointerMode(handle, &pointer_mode), 0);
    ck_assert_int_eq(pointer_mode, CUBLAS_POINTER_MODE_HOST);
    ck_assert_int_eq(cublasGetVersion(handle, &version), 0);
    ck_assert_int_eq(version, CUBLAS_VERSION);
    ck_assert_int_eq(cublasGetProperty(MAJOR_VERSION, &major), 0);
    ck_assert_int_eq(major, 13);
    ck_assert_str_eq(cublasGetStatusName(CUBLAS_STATUS_INVALID_VALUE), "CUBLAS_STATUS_INVALID_VALUE");
    ck_assert_str_eq(cublasGetStatusName((cublasStatus_t)2), "CUBLAS_STATUS_UNKNOWN");
    ck_assert_int_eq(cublasSetWorkspace(handle, NULL, 0), 0);
}
