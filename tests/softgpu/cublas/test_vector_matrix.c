/*
 * test_vector_matrix.c - levels 1 and 2 of cuBLAS, geam, copies, and what every call checks: against the definitions,
 * with random sizes, increments and scalars; and with wrong arguments.
 */
#include "device.h"

#include "tests/test.h"

#include <cublas_v2.h>

enum { CASES = 200, LENGTH = 90, ROOM = 5000 };

static cublasHandle_t handle;

static void
start(void)
{
    device_start();
    ck_assert_int_eq(cublasCreate(&handle), CUBLAS_STATUS_SUCCESS);
}

static void
stop(void)
{
    ck_assert_int_eq(cublasDestroy(handle), CUBLAS_STATUS_SUCCESS);
}

/* Random values that sum up exactly, so that results can be compared without a tolerance. */
static void
fill(unsigned *seed, double *values, size_t count)
{
    for (size_t i = 0; i < count; ++i)
        values[i] = rand_r(seed) % 17 - 8;
}

/* An array on the device in float and in double. */
struct pair {
    void *narrow, *wide;
};

static struct pair
to_device(const double *values, size_t count)
{
    float narrow[ROOM];
    for (size_t i = 0; i < count; ++i)
        narrow[i] = (float)values[i];
    return (struct pair){device_copy_of(narrow, count * sizeof(float)), device_copy_of(values, count * sizeof(double))};
}

/* Both arrays hold exactly these values; frees them. */
static void
expect(struct pair pair, const double *values, size_t count)
{
    static float narrow[ROOM];
    static double wide[ROOM];
    device_read(narrow, pair.narrow, count * sizeof(float));
    device_read(wide, pair.wide, count * sizeof(double));
    for (size_t i = 0; i < count; ++i) {
        ck_assert_double_eq(wide[i], values[i]);
        ck_assert_double_eq((double)narrow[i], values[i]);
    }
    device_free(pair.narrow);
    device_free(pair.wide);
}

/* Where element i of a vector lies: with a negative increment, BLAS begins at the other end. */
static size_t
at(int i, int n, int increment)
{
    return (size_t)(increment > 0 ? i * increment : (i - n + 1) * increment);
}

static int
random_increment(unsigned *seed)
{
    static const int increments[] = {1, 1, 2, 3, -1, -2};
    return increments[rand_r(seed) % 6];
}

TEST_GROUP(vector_matrix, .timeout_s = 60, .start = start, .stop = stop);

PART_TEST(vectors_equal_the_definition, CASES)
{
    unsigned seed = (unsigned)_i + 1;
    int n = rand_r(&seed) % LENGTH, incx = random_increment(&seed), incy = random_increment(&seed);
    double x[ROOM], y[ROOM], alpha = rand_r(&seed) % 9 - 4, dot = 0, sum = 0, squares = 0;
    fill(&seed, x, ROOM);
    fill(&seed, y, ROOM);
    float narrow_alpha = (float)alpha, narrow_result;
    double wide_result;
    size_t room = (size_t)(3 * LENGTH);
    struct pair dx = to_device(x, room), dy = to_device(y, room);

    for (int i = 0; i < n; ++i)
        dot += x[at(i, n, incx)] * y[at(i, n, incy)];
    ck_assert_int_eq(cublasSdot(handle, n, dx.narrow, incx, dy.narrow, incy, &narrow_result), 0);
    ck_assert_int_eq(cublasDdot(handle, n, dx.wide, incx, dy.wide, incy, &wide_result), 0);
    ck_assert_double_eq((double)narrow_result, dot);
    ck_assert_double_eq(wide_result, dot);

    int step = abs(incx);
    for (int i = 0; i < n; ++i) {
        sum += fabs(x[i * step]);
        squares += x[i * step] * x[i * step];
    }
    ck_assert_int_eq(cublasSasum(handle, n, dx.narrow, step, &narrow_result), 0);
    ck_assert_int_eq(cublasDasum(handle, n, dx.wide, step, &wide_result), 0);
    ck_assert_double_eq((double)narrow_result, sum);
    ck_assert_double_eq(wide_result, sum);
    ck_assert_int_eq(cublasSnrm2(handle, n, dx.narrow, step, &narrow_result), 0);
    ck_assert_int_eq(cublasDnrm2(handle, n, dx.wide, step, &wide_result), 0);
    ck_assert_double_eq_tol((double)narrow_result, sqrt(squares), 1e-6 * sqrt(squares) + 1e-30);
    ck_assert_double_eq_tol(wide_result, sqrt(squares), 1e-14 * sqrt(squares) + 1e-30);

    for (int i = 0; i < n; ++i)
        y[at(i, n, incy)] += alpha * x[at(i, n, incx)];
    ck_assert_int_eq(cublasSaxpy(handle, n, &narrow_alpha, dx.narrow, incx, dy.narrow, incy), 0);
    ck_assert_int_eq(cublasDaxpy(handle, n, &alpha, dx.wide, incx, dy.wide, incy), 0);
    for (int i = 0; i < n; ++i)
        x[i * step] *= alpha;
    ck_assert_int_eq(cublasSscal(handle, n, &narrow_alpha, dx.narrow, step), 0);
    ck_assert_int_eq(cublasDscal(handle, n, &alpha, dx.wide, step), 0);
    if (_i % 2) {
        for (int i = 0; i < n; ++i)
            y[at(i, n, incy)] = x[at(i, n, incx)];
        ck_assert_int_eq(cublasScopy(handle, n, dx.narrow, incx, dy.narrow, incy), 0);
        ck_assert_int_eq(cublasDcopy(handle, n, dx.wide, incx, dy.wide, incy), 0);
    } else {
        for (int i = 0; i < n; ++i) {
            double swapped = y[at(i, n, incy)];
            y[at(i, n, incy)] = x[at(i, n, incx)];
            x[at(i, n, incx)] = swapped;
        }
        ck_assert_int_eq(cublasSswap(handle, n, dx.narrow, incx, dy.narrow, incy), 0);
        ck_assert_int_eq(cublasDswap(handle, n, dx.wide, incx, dy.wide, incy), 0);
    }
    expect(dx, x, room);
    expect(dy, y, room);
}

static double
element(const double *matrix, int ld, bool transposes, int i, int j)
{
    return transposes ? matrix[j + i * ld] : matrix[i + j * ld];
}

PART_TEST(matrices_equal_the_definition, CASES)
{
    static const cublasOperation_t ops[] = {CUBLAS_OP_N, CUBLAS_OP_T, CUBLAS_OP_C};
    static const double scalars[] = {0, 1, -1, 3};
    unsigned seed = (unsigned)_i + 7;
    int m = rand_r(&seed) % 30, n = rand_r(&seed) % 30, lda = m + 1 + rand_r(&seed) % 3;
    int incx = random_increment(&seed), incy = random_increment(&seed);
    cublasOperation_t op = ops[rand_r(&seed) % 3];
    bool transposes = op != CUBLAS_OP_N;
    double a[ROOM], x[ROOM], y[ROOM], alpha = scalars[rand_r(&seed) % 4], beta = scalars[rand_r(&seed) % 4];
    float narrow_alpha = (float)alpha, narrow_beta = (float)beta;
    fill(&seed, a, ROOM);
    fill(&seed, x, ROOM);
    fill(&seed, y, ROOM);
    size_t room = 1100;
    int rows = transposes ? n : m, columns = transposes ? m : n;

    for (int i = 0; i < rows && beta == 0; ++i)
        y[at(i, rows, incy)] = NAN; /* beta zero: y is not read */
    struct pair da = to_device(a, room), dx = to_device(x, room), dy = to_device(y, room);
    ck_assert_int_eq(
        cublasSgemv(handle, op, m, n, &narrow_alpha, da.narrow, lda, dx.narrow, incx, &narrow_beta, dy.narrow, incy),
        0);
    ck_assert_int_eq(cublasDgemv(handle, op, m, n, &alpha, da.wide, lda, dx.wide, incx, &beta, dy.wide, incy), 0);
    for (int i = 0; i < rows && m > 0 && n > 0; ++i) {
        double sum = 0;
        for (int j = 0; j < columns; ++j)
            sum += element(a, lda, transposes, i, j) * x[at(j, columns, incx)];
        y[at(i, rows, incy)] = alpha * sum + (beta == 0 ? 0 : beta * y[at(i, rows, incy)]);
    }
    if (m > 0 && n > 0) {
        expect(dy, y, room);
    } else {
        device_free(dy.narrow);
        device_free(dy.wide);
        fill(&seed, y, ROOM);
    }
    fill(&seed, y, ROOM);
    dy = to_device(y, room);

    for (int j = 0; j < n; ++j) {
        for (int i = 0; i < m; ++i)
            a[i + j * lda] += alpha * x[at(i, m, incx)] * y[at(j, n, incy)];
    }
    ck_assert_int_eq(cublasSger(handle, m, n, &narrow_alpha, dx.narrow, incx, dy.narrow, incy, da.narrow, lda), 0);
    ck_assert_int_eq(cublasDger(handle, m, n, &alpha, dx.wide, incx, dy.wide, incy, da.wide, lda), 0);

    /* geam: op(A) is m x n; here A is what ger left, B is y as a matrix, C is x as a matrix or A itself. */
    int ld = 33;
    cublasOperation_t op_b = ops[rand_r(&seed) % 3];
    double c[ROOM];
    memcpy(c, x, sizeof(c));
    for (int j = 0; j < n; ++j) {
        for (int i = 0; i < m; ++i)
            c[i + j * ld] = (alpha != 0 ? alpha * element(a, ld, transposes, i, j) : 0) +
                            (beta != 0 ? beta * element(y, ld, op_b != CUBLAS_OP_N, i, j) : 0);
    }
    ck_assert_int_eq(cublasSgeam(handle, op, op_b, m, n, &narrow_alpha, alpha == 0 ? NULL : da.narrow, ld, &narrow_beta,
                                 dy.narrow, ld, dx.narrow, ld),
                     0);
    ck_assert_int_eq(
        cublasDgeam(handle, op, op_b, m, n, &alpha, alpha == 0 ? NULL : da.wide, ld, &beta, dy.wide, ld, dx.wide, ld),
        0);
    expect(dx, c, room);
    expect(dy, y, room);
    expect(da, a, room);
}

TEST(results_go_where_the_pointer_mode_says)
{
    double x[] = {3, -4};
    struct pair dx = to_device(x, 2);
    float host = -1, *device = device_copy_of(&host, sizeof(host));
    CUstream stream;
    ck_assert_int_eq(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    ck_assert_int_eq(cublasSetStream(handle, stream), 0);
    ck_assert_int_eq(cublasSetPointerMode(handle, CUBLAS_POINTER_MODE_DEVICE), 0);
    static _Atomic bool gate;
    device_hold(stream, &gate);
    ck_assert_int_eq(cublasSnrm2(handle, 2, dx.narrow, 1, device), 0);
    /* Read by the kernel, not at the call: the scalar is itself the result of what stands before it in the stream. */
    ck_assert_int_eq(cublasSscal(handle, 2, device, dx.narrow, 1), 0);
    atomic_store(&gate, true);
    device_read(&host, device, sizeof(host));
    ck_assert_float_eq(host, 5.0f);
    ck_assert_int_eq(cublasSasum(handle, 0, dx.narrow, 1, device), 0); /* of nothing: zero */
    device_read(&host, device, sizeof(host));
    ck_assert_float_eq(host, 0.0f);
    ck_assert_int_eq(cublasSetPointerMode(handle, CUBLAS_POINTER_MODE_HOST), 0);
    ck_assert_int_eq(cublasSasum(handle, 2, dx.narrow, 1, &host), 0);
    ck_assert_float_eq(host, 35.0f);
    ck_assert_int_eq(cublasSetStream(handle, NULL), 0);
    ck_assert_int_eq(cuStreamDestroy(stream), CUDA_SUCCESS);
    device_free(dx.narrow);
    device_free(dx.wide);
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
