/*
 * structured.h - what the tests of structured matrices share: random settings, and matrices on the host, on the device,
 * and as their definitions read them. Random sizes, both types; what a routine must not read is NaN.
 */
#ifndef TESTS_SOFTGPU_CUBLAS_STRUCTURED_H
#define TESTS_SOFTGPU_CUBLAS_STRUCTURED_H

#include "device.h"

#include <cublas_v2.h>

enum { CASES = 60, SIDE = 40, BATCH = 3, TAKEN_AT_MOST = 64 };

extern cublasHandle_t handle; /* of the running program */

void structured_start(void);
void structured_stop(void);

/* A matrix by columns in double on the host, and in the type of the case on the device. */
struct matrix {
    int rows, columns, ld;
    double *value;
    void *device;
};

/* One case: its type, random choices, and scalars in its type. */
struct setting {
    unsigned seed;
    bool is_wide;
    cublasFillMode_t uplo;
    cublasSideMode_t side;
    cublasOperation_t op;
    cublasDiagType_t diag;
    int m, n, k;
    double alpha, beta;
    double wide[2];
    float narrow[2];
    void *alpha_at, *beta_at;
};

#define BLAS(name, ...) ((s)->is_wide ? cublasD##name(handle, __VA_ARGS__) : cublasS##name(handle, __VA_ARGS__))
#define OK(call)        ck_assert_int_eq(call, CUBLAS_STATUS_SUCCESS)

/* Matrices, what download() returns and copies belong to the setting that is there: the next one gives them back. */
struct setting *new_setting(int i);

/* As calloc() and device_copy_of(). */
void *take_host(size_t bytes);
void *take_copy_of(const void *source, size_t bytes);

size_t count_of(const struct matrix *m);

/* What the host has; m->device becomes another. */
void upload(const struct setting *s, struct matrix *m);

/* Values that are exact in both types. */
struct matrix random_matrix(struct setting *s, int rows, int columns);

/* What the device has. */
double *download(const struct setting *s, const struct matrix *m);

double element(const struct matrix *m, int i, int j);

double op_element(const struct setting *s, const struct matrix *m, int i, int j);

bool is_stored(const struct setting *s, int i, int j);

/* A square matrix of which one triangle counts; the other is NaN, and so is a diagonal of ones. */
struct matrix random_triangle(struct setting *s, int side, bool is_triangular);

double symmetric(const struct setting *s, const struct matrix *m, int i, int j);

/* Element of op(A). */
double triangular(const struct setting *s, const struct matrix *m, int i, int j);

void expect_near(const struct setting *s, double got, double expected);

/* Element (i, j) of C is `expected` plus beta times what it was, unless the routine leaves it alone. */
void expect_update(const struct setting *s, const struct matrix *c, const double *got, int i, int j, double expected);

#endif
