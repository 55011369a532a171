/*
 * test_legacy.c - the interface of cuBLAS before handles gives the same results, and keeps its errors.
 */
#include "device.h"

#include "tests/lib/test.h"

#include <cublas.h>

TEST_GROUP(legacy, .start = device_start);

TEST(old_names_compute)
{
    float a[] = {1, 2, 3, 4, 5, 6}, b[] = {1, 0, 0, 1, 1, 1}, c[9], *da, *db, *dc;
    ck_assert_int_eq(cublasInit(), CUBLAS_STATUS_SUCCESS);
    ck_assert_int_eq(cublasAlloc(6, sizeof(float), (void **)&da), CUBLAS_STATUS_SUCCESS);
    ck_assert_int_eq(cublasAlloc(6, sizeof(float), (void **)&db), CUBLAS_STATUS_SUCCESS);
    ck_assert_int_eq(cublasAlloc(9, sizeof(float), (void **)&dc), CUBLAS_STATUS_SUCCESS);
    ck_assert_int_eq(cublasSetMatrix(2, 3, sizeof(float), a, 2, da, 2), CUBLAS_STATUS_SUCCESS);
    ck_assert_int_eq(cublasSetVector(6, sizeof(float), b, 1, db, 1), CUBLAS_STATUS_SUCCESS);
    /* C (2 x 2) = 2 A (2 x 3) B (3 x 2, given transposed) */
    cublasSgemm('N', 't', 2, 2, 3, 2.0f, da, 2, db, 2, 0.0f, dc, 2);
    ck_assert_int_eq(cublasGetVector(4, sizeof(float), dc, 1, c, 1), CUBLAS_STATUS_SUCCESS);
    ck_assert_float_eq(c[0], 12.0f);
    ck_assert_float_eq(c[1], 16.0f);
    ck_assert_float_eq(c[2], 16.0f);
    ck_assert_float_eq(c[3], 20.0f);
    ck_assert_float_eq(cublasSdot(6, da, 1, db, 1), 1.0f + 4.0f + 5.0f + 6.0f);
    ck_assert_float_eq(cublasSasum(6, da, 1), 21.0f);
    cublasSscal(6, 2.0f, da, 1);
    ck_assert_float_eq(cublasSasum(6, da, 1), 42.0f);
    ck_assert_int_eq(cublasGetError(), CUBLAS_STATUS_SUCCESS);
    cublasSgemm('x', 'n', 2, 2, 3, 2.0f, da, 2, db, 3, 0.0f, dc, 2);
    ck_assert_int_eq(cublasGetError(), CUBLAS_STATUS_INVALID_VALUE);
    ck_assert_int_eq(cublasGetError(), CUBLAS_STATUS_SUCCESS);
    ck_assert_int_eq(cublasFree(da), CUBLAS_STATUS_SUCCESS);
    ck_assert_int_eq(cublasFree(db), CUBLAS_STATUS_SUCCESS);
    ck_assert_int_eq(cublasFree(dc), CUBLAS_STATUS_SUCCESS);
    ck_assert_int_eq(cublasShutdown(), CUBLAS_STATUS_SUCCESS);
    cublasSscal(6, 2.0f, NULL, 1);
    ck_assert_int_eq(cublasGetError(), CUBLAS_STATUS_NOT_INITIALIZED);
}

/* Each product by hand; the 9 is in the triangle that no call reads. */
TEST(old_names_of_structured_matrices)
{
    const float triangle[] = {2, 1, 9, 4}, b[] = {2, 5, 4, 6}, nothing[] = {0, 0, -1, 0};
    const float product[] = {4, 22, 8, 28}, symmetric[] = {9, 22, 14, 28}, square[] = {20, 34, -1, 61};
    float *dt = device_copy_of(triangle, sizeof(triangle)), *db = device_copy_of(b, sizeof(b)),
          *dc = device_copy_of(nothing, sizeof(nothing)), got[4];
    ck_assert_int_eq(cublasInit(), CUBLAS_STATUS_SUCCESS);
    ck_assert_int_eq(cublasIsamax(4, db, 1), 4);
    ck_assert_int_eq(cublasIsamin(4, db, 1), 1);
    cublasSsyrk('L', 'n', 2, 2, 1.0f, db, 2, 0.0f, dc, 2);
    device_read(got, dc, sizeof(got));
    ck_assert_mem_eq(got, square, sizeof(got));
    cublasSsymm('l', 'l', 2, 2, 1.0f, dt, 2, db, 2, 0.0f, dc, 2);
    device_read(got, dc, sizeof(got));
    ck_assert_mem_eq(got, symmetric, sizeof(got));
    cublasStrmm('L', 'L', 'N', 'N', 2, 2, 1.0f, dt, 2, db, 2);
    device_read(got, db, sizeof(got));
    ck_assert_mem_eq(got, product, sizeof(got));
    cublasStrsm('L', 'L', 'N', 'N', 2, 2, 1.0f, dt, 2, db, 2);
    device_read(got, db, sizeof(got));
    ck_assert_mem_eq(got, b, sizeof(got));
    cublasSrot(2, db, 1, db + 2, 1, 0.0f, 1.0f);
    device_read(got, db, sizeof(got));
    ck_assert_float_eq(got[0], 4.0f);
    ck_assert_float_eq(got[3], -5.0f);
    ck_assert_int_eq(cublasGetError(), CUBLAS_STATUS_SUCCESS);
    cublasStrsm('L', 'x', 'N', 'N', 2, 2, 1.0f, dt, 2, db, 2);
    ck_assert_int_eq(cublasGetError(), CUBLAS_STATUS_INVALID_VALUE);
    ck_assert_int_eq(cublasShutdown(), CUBLAS_STATUS_SUCCESS);
    device_free(dt);
    device_free(db);
    device_free(dc);
}
