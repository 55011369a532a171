/*
 * test_unruly.c - SOFTGPU_UNRULY, as the libraries of a GPU are: the sizes of a product decide in which order it sums,
 * a handle has device memory of its own, and sums of parts stay there. Values stay those of a model in double. Run once
 * with the switch and once without, where nothing of this is so.
 */
#include "device.h"

#include <cublas_v2.h>

enum { M = 16, N = 24, K = 300, BYTES = 1 << 16 };

static float a[M * K], b[K * N];
static float *device_a, *device_b, *device_c, *result;
static cublasHandle_t handle;
static unsigned char *workspace;

static bool unruly;

static void
start(void)
{
    const char *setting = getenv("SOFTGPU_UNRULY");
    unruly = setting != NULL && *setting != '\0';
    device_start();
    srand(5);
    for (int i = 0; i < M * K; ++i)
        a[i] = (float)rand() / (float)RAND_MAX - 0.5f;
    for (int i = 0; i < K * N; ++i)
        b[i] = (float)rand() / (float)RAND_MAX - 0.5f;
    device_a = device_copy_of(a, sizeof(a));
    device_b = device_copy_of(b, sizeof(b));
    device_c = device_copy_of(NULL, M * N * sizeof(float));
    result = device_copy_of(NULL, sizeof(float));
}

static void
make_handle(void)
{
    ck_assert_int_eq(cublasCreate(&handle), CUBLAS_STATUS_SUCCESS);
}

static void
end_handle(void)
{
    ck_assert_int_eq(cublasDestroy(handle), CUBLAS_STATUS_SUCCESS);
}

static size_t
free_bytes(void)
{
    size_t left, all;
    ck_assert_int_eq(cuMemGetInfo(&left, &all), CUDA_SUCCESS);
    return left;
}

/* The product with the first `n` columns of b, of the given depth; `c` gets M x n. */
static void
multiply(int n, int k, float *c)
{
    const float one = 1, zero = 0;
    ck_assert_int_eq(
        cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, M, n, k, &one, device_a, M, device_b, K, &zero, device_c, M),
        CUBLAS_STATUS_SUCCESS);
    device_read(c, device_c, sizeof(*c) * (size_t)(M * n));
}

/* Whether the handle's memory, here the test's, was written since the last call. */
static bool
was_written(void)
{
    static const unsigned char empty[BYTES];
    unsigned char seen[BYTES];
    device_read(seen, workspace, sizeof(seen));
    ck_assert_int_eq(cuMemcpyHtoD((CUdeviceptr)workspace, empty, sizeof(empty)), CUDA_SUCCESS);
    return memcmp(seen, empty, sizeof(seen)) != 0;
}

static void
give_workspace(void)
{
    workspace = device_copy_of(NULL, BYTES);
    ck_assert_int_eq(cublasSetWorkspace(handle, workspace, BYTES), CUBLAS_STATUS_SUCCESS);
    was_written();
}

TEST_GROUP(sums, .start = start, .setup = make_handle, .teardown = end_handle);

TEST(the_sizes_decide_about_last_bits)
{
    float all[M * N], some[M * N], again[M * N];
    multiply(N, K, all);
    int differ = 0;
    for (int n = 1; n < N; ++n) {
        multiply(n, K, some);
        differ += memcmp(some, all, sizeof(*all) * (size_t)(M * n)) != 0;
        for (int i = 0; i < M * n; ++i)
            ck_assert_float_eq_tol(some[i], all[i], 1e-4f);
    }
    if (unruly)
        ck_assert_int_ge(differ, N - 3); /* two sizes may be cut in the same place */
    multiply(N, K, again);
    ck_assert_mem_eq(again, all, sizeof(all));
    for (int i = 0; i < M; ++i) {
        for (int j = 0; j < N; ++j) {
            double sum = 0;
            for (int l = 0; l < K; ++l)
                sum += (double)a[i + l * M] * (double)b[l + j * K];
            ck_assert_double_eq_tol((double)all[i + j * M], sum, 1e-4);
        }
    }
}

TEST(a_handle_has_memory_until_it_goes)
{
    size_t before = free_bytes();
    cublasHandle_t other;
    ck_assert_int_eq(cublasCreate(&other), CUBLAS_STATUS_SUCCESS);
    ck_assert_uint_eq(before - free_bytes(), unruly ? 4 << 20 : 0);
    ck_assert_int_eq(cublasDestroy(other), CUBLAS_STATUS_SUCCESS);
    ck_assert_uint_eq(free_bytes(), before);
}

TEST(sums_of_parts_stay_there)
{
    float c[M * N];
    const float one = 1, zero = 0;
    give_workspace();
    multiply(N, K, c);
    ck_assert_int_eq(was_written(), unruly);
    multiply(N, M - 1, c); /* a product that is not deep is not divided */
    ck_assert(!was_written());
    float got;
    cublasSgemv(handle, CUBLAS_OP_N, M, K, &one, device_a, M, device_b, 1, &zero, device_c, 1);
    ck_assert_int_eq(was_written(), unruly);
    float y[M], columns[M * N];
    device_read(y, device_c, sizeof(y));
    multiply(1, K, columns);
    for (int i = 0; i < M; ++i)
        ck_assert_float_eq_tol(y[i], columns[i], 1e-4f);
    was_written();
    double dot = 0, squares = 0, magnitudes = 0;
    for (int i = 0; i < K; ++i) {
        dot += (double)a[i] * (double)b[i];
        squares += (double)a[i] * (double)a[i];
        magnitudes += fabs((double)a[i]);
    }
    cublasSdot(handle, K, device_a, 1, device_b, 1, &got);
    ck_assert_int_eq(was_written(), unruly);
    ck_assert_double_eq_tol((double)got, dot, 1e-4);
    cublasSnrm2(handle, K, device_a, 1, &got);
    ck_assert_int_eq(was_written(), unruly);
    ck_assert_double_eq_tol((double)got, sqrt(squares), 1e-4);
    cublasSasum(handle, K, device_a, 1, &got);
    ck_assert_int_eq(was_written(), unruly);
    ck_assert_double_eq_tol((double)got, magnitudes, 1e-3);
}
