/*
 * test_structured.c - routines of cuBLAS with symmetric, triangular and diagonal matrices, batches of matrix-vector
 * products, rotations and the places of extrema equal their definitions, on random sizes and both types; triangles that
 * a routine does not use hold NaN and keep it.
 */
#include "device.h"

#include <check.h>
#include <cublas_v2.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { CASES = 60, SIDE = 40, BATCH = 3 };

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

static struct setting *
new_setting(int i)
{
    static struct setting setting;
    static const double scalars[] = {0, 1, -1, 0.5};
    struct setting *s = &setting;
    *s = (struct setting){.seed = (unsigned)i + 1, .is_wide = i % 2};
    s->uplo = rand_r(&s->seed) % 2 ? CUBLAS_FILL_MODE_LOWER : CUBLAS_FILL_MODE_UPPER;
    s->side = rand_r(&s->seed) % 2 ? CUBLAS_SIDE_LEFT : CUBLAS_SIDE_RIGHT;
    s->op = rand_r(&s->seed) % 2 ? CUBLAS_OP_N : CUBLAS_OP_T;
    s->diag = rand_r(&s->seed) % 2 ? CUBLAS_DIAG_UNIT : CUBLAS_DIAG_NON_UNIT;
    s->m = rand_r(&s->seed) % SIDE + 1;
    s->n = rand_r(&s->seed) % SIDE + 1;
    s->k = rand_r(&s->seed) % SIDE;
    s->alpha = scalars[rand_r(&s->seed) % 4];
    s->beta = scalars[rand_r(&s->seed) % 4];
    s->wide[0] = s->alpha;
    s->wide[1] = s->beta;
    s->narrow[0] = (float)s->alpha;
    s->narrow[1] = (float)s->beta;
    s->alpha_at = s->is_wide ? (void *)&s->wide[0] : &s->narrow[0];
    s->beta_at = s->is_wide ? (void *)&s->wide[1] : &s->narrow[1];
    return s;
}

static size_t
count_of(const struct matrix *m)
{
    return (size_t)m->ld * (size_t)m->columns;
}

static void
upload(const struct setting *s, struct matrix *m)
{
    float *narrow = malloc(count_of(m) * sizeof(float));
    for (size_t i = 0; i < count_of(m); ++i)
        narrow[i] = (float)m->value[i];
    m->device = s->is_wide ? device_copy_of(m->value, count_of(m) * sizeof(double))
                           : device_copy_of(narrow, count_of(m) * sizeof(float));
    free(narrow);
}

/* Values that are exact in both types. */
static struct matrix
random_matrix(struct setting *s, int rows, int columns)
{
    struct matrix m = {rows, columns, rows + rand_r(&s->seed) % 3 + (rows == 0), NULL, NULL};
    m.value = malloc((count_of(&m) + 1) * sizeof(double));
    for (size_t i = 0; i < count_of(&m); ++i)
        m.value[i] = (rand_r(&s->seed) % 129 - 64) / 64.0;
    upload(s, &m);
    return m;
}

/* What the device has. */
static double *
download(const struct setting *s, const struct matrix *m)
{
    double *values = malloc((count_of(m) + 1) * sizeof(double));
    if (s->is_wide) {
        device_read(values, m->device, count_of(m) * sizeof(double));
        return values;
    }
    float *narrow = malloc((count_of(m) + 1) * sizeof(float));
    device_read(narrow, m->device, count_of(m) * sizeof(float));
    for (size_t i = 0; i < count_of(m); ++i)
        values[i] = (double)narrow[i];
    free(narrow);
    return values;
}

static void
release(struct matrix *m)
{
    free(m->value);
    device_free(m->device);
}

static double
element(const struct matrix *m, int i, int j)
{
    return m->value[i + (size_t)j * (size_t)m->ld];
}

static double
op_element(const struct setting *s, const struct matrix *m, int i, int j)
{
    return s->op == CUBLAS_OP_N ? element(m, i, j) : element(m, j, i);
}

static bool
is_stored(const struct setting *s, int i, int j)
{
    return s->uplo == CUBLAS_FILL_MODE_LOWER ? i >= j : i <= j;
}

/* A square matrix of which one triangle counts; the other is NaN, and so is a diagonal of ones. */
static struct matrix
random_triangle(struct setting *s, int side, bool is_triangular)
{
    struct matrix m = random_matrix(s, side, side);
    device_free(m.device);
    for (int j = 0; j < side; ++j) {
        for (int i = 0; i < side; ++i) {
            double *at = &m.value[i + (size_t)j * (size_t)m.ld];
            if (!is_stored(s, i, j) || (is_triangular && i == j && s->diag == CUBLAS_DIAG_UNIT))
                *at = (double)NAN;
            else if (is_triangular)
                *at = i == j ? 1 + fabs(*at) : *at / 16; /* far from singular */
        }
    }
    upload(s, &m);
    return m;
}

static double
symmetric(const struct setting *s, const struct matrix *m, int i, int j)
{
    return is_stored(s, i, j) ? element(m, i, j) : element(m, j, i);
}

/* Element of op(A). */
static double
triangular(const struct setting *s, const struct matrix *m, int i, int j)
{
    int row = s->op == CUBLAS_OP_N ? i : j, column = s->op == CUBLAS_OP_N ? j : i;
    if (row == column && s->diag == CUBLAS_DIAG_UNIT)
        return 1;
    return is_stored(s, row, column) ? element(m, row, column) : 0;
}

static void
expect_near(const struct setting *s, double got, double expected)
{
    ck_assert_double_le(fabs(got - expected), (s->is_wide ? 1e-12 : 1e-4) * (fabs(expected) + 4));
}

/* Element (i, j) of C is `expected` plus beta times what it was, unless the routine leaves it alone. */
static void
expect_update(const struct setting *s, const struct matrix *c, const double *got, int i, int j, double expected)
{
    double before = element(c, i, j);
    expect_near(s, got[i + (size_t)j * (size_t)c->ld], expected + (s->beta == 0 ? 0 : s->beta * before));
}

START_TEST(symmetric_products_and_updates)
{
    struct setting *s = new_setting(_i);
    bool left = s->side == CUBLAS_SIDE_LEFT;
    struct matrix a = random_triangle(s, left ? s->m : s->n, false), b = random_matrix(s, s->m, s->n),
                  c = random_matrix(s, s->m, s->n);
    OK(BLAS(symm, s->side, s->uplo, s->m, s->n, s->alpha_at, a.device, a.ld, b.device, b.ld, s->beta_at, c.device,
            c.ld));
    double *got = download(s, &c);
    for (int j = 0; j < s->n; ++j) {
        for (int i = 0; i < s->m; ++i) {
            double sum = 0;
            for (int l = 0; l < a.rows; ++l)
                sum += left ? symmetric(s, &a, i, l) * element(&b, l, j) : element(&b, i, l) * symmetric(s, &a, l, j);
            expect_update(s, &c, got, i, j, s->alpha * sum);
        }
    }
    free(got);
    release(&a);
    release(&b);
    release(&c);

    bool is_plain = s->op == CUBLAS_OP_N;
    for (int is_second = 0; is_second < 2; ++is_second) {
        a = random_matrix(s, is_plain ? s->n : s->k, is_plain ? s->k : s->n);
        b = random_matrix(s, is_plain ? s->n : s->k, is_plain ? s->k : s->n);
        c = random_triangle(s, s->n, false);
        if (is_second)
            OK(BLAS(syr2k, s->uplo, s->op, s->n, s->k, s->alpha_at, a.device, a.ld, b.device, b.ld, s->beta_at,
                    c.device, c.ld));
        else
            OK(BLAS(syrk, s->uplo, s->op, s->n, s->k, s->alpha_at, a.device, a.ld, s->beta_at, c.device, c.ld));
        got = download(s, &c);
        for (int j = 0; j < s->n; ++j) {
            for (int i = 0; i < s->n; ++i) {
                double sum = 0;
                for (int l = 0; l < s->k; ++l)
                    sum += is_second ? op_element(s, &a, i, l) * op_element(s, &b, j, l) +
                                           op_element(s, &b, i, l) * op_element(s, &a, j, l)
                                     : op_element(s, &a, i, l) * op_element(s, &a, j, l);
                if (is_stored(s, i, j))
                    expect_update(s, &c, got, i, j, s->alpha * sum);
                else
                    ck_assert(isnan(got[i + (size_t)j * (size_t)c.ld]));
            }
        }
        free(got);
        release(&a);
        release(&b);
        release(&c);
    }
}
END_TEST

/* alpha op(T) B, or alpha B op(T), where B is given by its values. */
static double
triangular_product(const struct setting *s, const struct matrix *t, const double *b, int ld, int i, int j)
{
    double sum = 0;
    for (int l = 0; l < t->rows; ++l)
        sum += s->side == CUBLAS_SIDE_LEFT ? triangular(s, t, i, l) * b[l + (size_t)j * (size_t)ld]
                                           : b[i + (size_t)l * (size_t)ld] * triangular(s, t, l, j);
    return sum;
}

START_TEST(triangular_products_and_solutions)
{
    struct setting *s = new_setting(_i);
    struct matrix t = random_triangle(s, s->side == CUBLAS_SIDE_LEFT ? s->m : s->n, true);
    struct matrix b = random_matrix(s, s->m, s->n), c = random_matrix(s, s->m, s->n);
    OK(BLAS(trmm, s->side, s->uplo, s->op, s->diag, s->m, s->n, s->alpha_at, t.device, t.ld, b.device, b.ld, c.device,
            c.ld));
    double *product = download(s, &c);
    OK(BLAS(trsm, s->side, s->uplo, s->op, s->diag, s->m, s->n, s->alpha_at, t.device, t.ld, b.device, b.ld));
    double *solution = download(s, &b);
    for (int j = 0; j < s->n; ++j) {
        for (int i = 0; i < s->m; ++i) {
            expect_near(s, product[i + (size_t)j * (size_t)c.ld],
                        s->alpha * triangular_product(s, &t, b.value, b.ld, i, j));
            expect_near(s, triangular_product(s, &t, solution, b.ld, i, j), s->alpha * element(&b, i, j));
        }
    }
    free(product);
    free(solution);
    release(&b);
    release(&c);

    struct matrix batch[BATCH];
    void *t_at[BATCH], *b_at[BATCH];
    for (int i = 0; i < BATCH; ++i) {
        batch[i] = random_matrix(s, s->m, s->n);
        batch[i].ld = s->m; /* one for all */
        t_at[i] = t.device;
        b_at[i] = batch[i].device;
    }
    void *t_array = device_copy_of(t_at, sizeof(t_at)), *b_array = device_copy_of(b_at, sizeof(b_at));
    OK(BLAS(trsmBatched, s->side, s->uplo, s->op, s->diag, s->m, s->n, s->alpha_at, t_array, t.ld, b_array, s->m,
            BATCH));
    for (int l = 0; l < BATCH; ++l) {
        solution = download(s, &batch[l]);
        for (int j = 0; j < s->n; ++j) {
            for (int i = 0; i < s->m; ++i)
                expect_near(s, triangular_product(s, &t, solution, s->m, i, j), s->alpha * element(&batch[l], i, j));
        }
        free(solution);
        release(&batch[l]);
    }
    device_free(t_array);
    device_free(b_array);
    release(&t);
}
END_TEST

/* Vectors are matrices of one row: the increment is the leading dimension. */
START_TEST(triangles_and_vectors)
{
    struct setting *s = new_setting(_i);
    struct matrix a = random_triangle(s, s->n, false), x = random_matrix(s, 1, s->n), y = random_matrix(s, 1, s->n);
    OK(BLAS(symv, s->uplo, s->n, s->alpha_at, a.device, a.ld, x.device, x.ld, s->beta_at, y.device, y.ld));
    double *got = download(s, &y);
    for (int i = 0; i < s->n; ++i) {
        double sum = 0;
        for (int l = 0; l < s->n; ++l)
            sum += symmetric(s, &a, i, l) * element(&x, 0, l);
        expect_update(s, &y, got, 0, i, s->alpha * sum);
    }
    free(got);

    OK(BLAS(syr, s->uplo, s->n, s->alpha_at, x.device, x.ld, a.device, a.ld));
    double *once = download(s, &a);
    device_free(y.device);
    upload(s, &y);
    OK(BLAS(syr2, s->uplo, s->n, s->alpha_at, x.device, x.ld, y.device, y.ld, a.device, a.ld));
    double *twice = download(s, &a);
    for (int j = 0; j < s->n; ++j) {
        for (int i = 0; i < s->n; ++i) {
            size_t at = (size_t)i + (size_t)j * (size_t)a.ld;
            double xi = element(&x, 0, i), xj = element(&x, 0, j), yi = element(&y, 0, i), yj = element(&y, 0, j);
            if (!is_stored(s, i, j)) {
                ck_assert(isnan(once[at]) && isnan(twice[at]));
                continue;
            }
            expect_near(s, once[at], element(&a, i, j) + s->alpha * xi * xj);
            expect_near(s, twice[at], once[at] + s->alpha * (xi * yj + yi * xj));
        }
    }
    free(once);
    free(twice);
    release(&a);

    struct matrix t = random_triangle(s, s->n, true);
    OK(BLAS(trmv, s->uplo, s->op, s->diag, s->n, t.device, t.ld, x.device, x.ld));
    got = download(s, &x);
    for (int i = 0; i < s->n; ++i) {
        double sum = 0;
        for (int l = 0; l < s->n; ++l)
            sum += triangular(s, &t, i, l) * element(&x, 0, l);
        expect_near(s, got[(size_t)i * (size_t)x.ld], sum);
    }
    free(got);
    OK(BLAS(trsv, s->uplo, s->op, s->diag, s->n, t.device, t.ld, x.device, x.ld));
    got = download(s, &x); /* back where it was */
    for (int i = 0; i < s->n; ++i)
        expect_near(s, got[(size_t)i * (size_t)x.ld], element(&x, 0, i));
    free(got);
    release(&t);
    release(&x);
    release(&y);
}
END_TEST

START_TEST(batches_of_matrix_vector_products)
{
    struct setting *s = new_setting(_i);
    int in = s->op == CUBLAS_OP_N ? s->n : s->m, out = s->op == CUBLAS_OP_N ? s->m : s->n;
    size_t bytes = s->is_wide ? sizeof(double) : sizeof(float);
    struct matrix a = random_matrix(s, s->m, s->n * BATCH), x = random_matrix(s, 2, in * BATCH),
                  y = random_matrix(s, 1, out * BATCH);
    void *array[3][BATCH], *arrays[3];
    for (size_t l = 0; l < BATCH; ++l) {
        array[0][l] = (char *)a.device + l * (size_t)a.ld * (size_t)s->n * bytes;
        array[1][l] = (char *)x.device + l * (size_t)x.ld * (size_t)in * bytes;
        array[2][l] = (char *)y.device + l * (size_t)y.ld * (size_t)out * bytes;
    }
    for (int i = 0; i < 3; ++i)
        arrays[i] = device_copy_of(array[i], sizeof(array[i]));
    if (_i % 4 < 2)
        OK(BLAS(gemvBatched, s->op, s->m, s->n, s->alpha_at, arrays[0], a.ld, arrays[1], x.ld, s->beta_at, arrays[2],
                y.ld, BATCH));
    else
        OK(BLAS(gemvStridedBatched, s->op, s->m, s->n, s->alpha_at, a.device, a.ld, a.ld * s->n, x.device, x.ld,
                x.ld * in, s->beta_at, y.device, y.ld, y.ld * out, BATCH));
    double *got = download(s, &y);
    for (int l = 0; l < BATCH; ++l) {
        for (int i = 0; i < out; ++i) {
            double sum = 0;
            for (int j = 0; j < in; ++j)
                sum += (s->op == CUBLAS_OP_N ? element(&a, i, l * s->n + j) : element(&a, j, l * s->n + i)) *
                       element(&x, 0, l * in + j);
            expect_update(s, &y, got, 0, l * out + i, s->alpha * sum);
        }
    }
    free(got);
    for (int i = 0; i < 3; ++i)
        device_free(arrays[i]);
    release(&a);
    release(&x);
    release(&y);
}
END_TEST

START_TEST(diagonals_rotations_and_extrema)
{
    struct setting *s = new_setting(_i);
    bool left = s->side == CUBLAS_SIDE_LEFT;
    struct matrix a = random_matrix(s, s->m, s->n), c = random_matrix(s, s->m, s->n),
                  x = random_matrix(s, 1, left ? s->m : s->n);
    OK(BLAS(dgmm, s->side, s->m, s->n, a.device, a.ld, x.device, x.ld, c.device, c.ld));
    double *got = download(s, &c);
    for (int j = 0; j < s->n; ++j) {
        for (int i = 0; i < s->m; ++i)
            expect_near(s, got[i + (size_t)j * (size_t)c.ld], element(&a, i, j) * element(&x, 0, left ? i : j));
    }
    free(got);
    release(&a);
    release(&c);

    int most = 0, least = 0, found;
    int64_t found_64;
    for (int i = 1; i < x.columns; ++i) {
        most = fabs(element(&x, 0, i)) > fabs(element(&x, 0, most)) ? i : most;
        least = fabs(element(&x, 0, i)) < fabs(element(&x, 0, least)) ? i : least;
    }
    OK(s->is_wide ? cublasIdamax(handle, x.columns, x.device, x.ld, &found)
                  : cublasIsamax(handle, x.columns, x.device, x.ld, &found));
    ck_assert_int_eq(found, most + 1);
    OK(s->is_wide ? cublasIdamin(handle, x.columns, x.device, x.ld, &found)
                  : cublasIsamin(handle, x.columns, x.device, x.ld, &found));
    ck_assert_int_eq(found, least + 1);
    OK(s->is_wide ? cublasIdamax_64(handle, x.columns, x.device, x.ld, &found_64)
                  : cublasIsamax_64(handle, x.columns, x.device, x.ld, &found_64));
    ck_assert_int_eq(found_64, most + 1);
    OK(cublasIsamax(handle, 0, x.device, 1, &found));
    ck_assert_int_eq(found, 0);

    struct matrix y = random_matrix(s, 1, x.columns);
    OK(BLAS(rot, x.columns, x.device, x.ld, y.device, y.ld, s->alpha_at, s->beta_at)); /* cosine and sine, any */
    double *first = download(s, &x), *second = download(s, &y);
    for (int i = 0; i < x.columns; ++i) {
        double xi = element(&x, 0, i), yi = element(&y, 0, i);
        expect_near(s, first[(size_t)i * (size_t)x.ld], s->alpha * xi + s->beta * yi);
        expect_near(s, second[(size_t)i * (size_t)y.ld], s->alpha * yi - s->beta * xi);
    }
    free(first);
    free(second);
    release(&x);
    release(&y);
}
END_TEST

START_TEST(wrong_arguments_are_refused)
{
    float one = 1, *m = device_copy_of(NULL, 64 * sizeof(float));
    ck_assert_int_eq(cublasSsyrk(handle, CUBLAS_FILL_MODE_FULL, CUBLAS_OP_N, 4, 4, &one, m, 4, &one, m, 4),
                     CUBLAS_STATUS_INVALID_VALUE);
    ck_assert_int_eq(cublasSsyrk(handle, CUBLAS_FILL_MODE_LOWER, CUBLAS_OP_N, 4, 4, &one, m, 3, &one, m, 4),
                     CUBLAS_STATUS_INVALID_VALUE);
    ck_assert_int_eq(cublasStrsm(handle, CUBLAS_SIDE_LEFT, CUBLAS_FILL_MODE_LOWER, CUBLAS_OP_N, CUBLAS_DIAG_UNIT, 4, 4,
                                 NULL, m, 4, m, 4),
                     CUBLAS_STATUS_INVALID_VALUE);
    ck_assert_int_eq(cublasStrmm(handle, CUBLAS_SIDE_LEFT, CUBLAS_FILL_MODE_LOWER, CUBLAS_OP_N, CUBLAS_DIAG_UNIT, 4, 4,
                                 &one, m, 4, m, 4, m, 5),
                     CUBLAS_STATUS_INVALID_VALUE);
    ck_assert_int_eq(cublasSsymv(handle, CUBLAS_FILL_MODE_LOWER, 4, &one, m, 4, m, 0, &one, m, 1),
                     CUBLAS_STATUS_INVALID_VALUE);
    ck_assert_int_eq(cublasSsymv(NULL, CUBLAS_FILL_MODE_LOWER, 4, &one, m, 4, m, 1, &one, m, 1),
                     CUBLAS_STATUS_NOT_INITIALIZED);
    device_free(m);
}
END_TEST

int
main(void)
{
    Suite *suite = suite_create("cublas_structured");
    TCase *tcase = tcase_create("all");
    tcase_add_unchecked_fixture(tcase, start, stop);
    tcase_add_loop_test(tcase, symmetric_products_and_updates, 0, CASES);
    tcase_add_loop_test(tcase, triangular_products_and_solutions, 0, CASES);
    tcase_add_loop_test(tcase, triangles_and_vectors, 0, CASES);
    tcase_add_loop_test(tcase, batches_of_matrix_vector_products, 0, CASES);
    tcase_add_loop_test(tcase, diagonals_rotations_and_extrema, 0, CASES);
    tcase_add_test(tcase, wrong_arguments_are_refused);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
