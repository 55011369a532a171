/*
 * test_structured_vectors.c - symmetric, triangular, banded and packed matrices of cuBLAS with vectors, and batches of
 * matrix-vector products, equal their definitions.
 */
#include "structured.h"

#include "tests/lib/test.h"

TEST_GROUP(all, .start = structured_start, .stop = structured_stop);

/* Vectors are matrices of one row: the increment is the leading dimension. */
PART_TEST(triangles_and_vectors, CASES)
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

    OK(BLAS(syr, s->uplo, s->n, s->alpha_at, x.device, x.ld, a.device, a.ld));
    double *once = download(s, &a);
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

    struct matrix t = random_triangle(s, s->n, true);
    OK(BLAS(trmv, s->uplo, s->op, s->diag, s->n, t.device, t.ld, x.device, x.ld));
    got = download(s, &x);
    for (int i = 0; i < s->n; ++i) {
        double sum = 0;
        for (int l = 0; l < s->n; ++l)
            sum += triangular(s, &t, i, l) * element(&x, 0, l);
        expect_near(s, got[(size_t)i * (size_t)x.ld], sum);
    }
    OK(BLAS(trsv, s->uplo, s->op, s->diag, s->n, t.device, t.ld, x.device, x.ld));
    got = download(s, &x); /* back where it was */
    for (int i = 0; i < s->n; ++i)
        expect_near(s, got[(size_t)i * (size_t)x.ld], element(&x, 0, i));
}

/* A band of a square matrix as cuBLAS stores it: element (i, j) of the matrix in row `offset` + i - j of column j. */
static double
band_element(const struct matrix *a, int offset, int i, int j)
{
    return element(a, offset + i - j, j);
}

PART_TEST(banded_matrices, CASES)
{
    struct setting *s = new_setting(_i);
    int kl = s->k % 5, ku = s->k % 3, rows = s->op == CUBLAS_OP_N ? s->m : s->n,
        columns = s->op == CUBLAS_OP_N ? s->n : s->m;
    struct matrix a = random_matrix(s, kl + ku + 1, s->n), x = random_matrix(s, 1, columns),
                  y = random_matrix(s, 1, rows);
    OK(BLAS(gbmv, s->op, s->m, s->n, kl, ku, s->alpha_at, a.device, a.ld, x.device, x.ld, s->beta_at, y.device, y.ld));
    double *got = download(s, &y);
    for (int i = 0; i < rows; ++i) {
        double sum = 0;
        for (int j = 0; j < columns; ++j) {
            int row = s->op == CUBLAS_OP_N ? i : j, column = s->op == CUBLAS_OP_N ? j : i;
            if (row - column <= kl && column - row <= ku)
                sum += band_element(&a, ku, row, column) * element(&x, 0, j);
        }
        expect_update(s, &y, got, 0, i, s->alpha * sum);
    }

    /* Of a symmetric and of a triangular band one side is stored; both are read off the same one. */
    bool lower = s->uplo == CUBLAS_FILL_MODE_LOWER;
    a = random_matrix(s, kl + 1, s->n);
    for (int j = 0; j < s->n; ++j) {
        for (int i = 0; i <= kl; ++i) {
            double *at = &a.value[i + (size_t)j * (size_t)a.ld];
            *at = i == (lower ? 0 : kl) ? 1 + fabs(*at) : *at / 8;
        }
    }
    upload(s, &a);
    x = random_matrix(s, 1, s->n);
    y = random_matrix(s, 1, s->n);
    OK(BLAS(sbmv, s->uplo, s->n, kl, s->alpha_at, a.device, a.ld, x.device, x.ld, s->beta_at, y.device, y.ld));
    got = download(s, &y);
    OK(BLAS(tbmv, s->uplo, s->op, s->diag, s->n, kl, a.device, a.ld, x.device, x.ld));
    double *product = download(s, &x);
    OK(BLAS(tbsv, s->uplo, s->op, s->diag, s->n, kl, a.device, a.ld, x.device, x.ld));
    double *solution = download(s, &x);
    for (int i = 0; i < s->n; ++i) {
        double symmetric_sum = 0, triangular_sum = 0;
        for (int j = 0; j < s->n; ++j) {
            int row = s->op == CUBLAS_OP_N ? i : j, column = s->op == CUBLAS_OP_N ? j : i;
            if (abs(i - j) > kl)
                continue;
            symmetric_sum +=
                (is_stored(s, i, j) ? band_element(&a, lower ? 0 : kl, i, j) : band_element(&a, lower ? 0 : kl, j, i)) *
                element(&x, 0, j);
            if (is_stored(s, row, column))
                triangular_sum +=
                    (row == column && s->diag == CUBLAS_DIAG_UNIT ? 1 : band_element(&a, lower ? 0 : kl, row, column)) *
                    element(&x, 0, j);
        }
        expect_update(s, &y, got, 0, i, s->alpha * symmetric_sum);
        expect_near(s, product[(size_t)i * (size_t)x.ld], triangular_sum);
        expect_near(s, solution[(size_t)i * (size_t)x.ld], element(&x, 0, i));
    }
}

/* Packed routines do what those for whole matrices do, which are compared with their definitions above. */
PART_TEST(packed_matrices, CASES)
{
    struct setting *s = new_setting(_i);
    struct matrix whole = random_triangle(s, s->n, true), x = random_matrix(s, 1, s->n), y = random_matrix(s, 1, s->n);
    for (int j = 0; j < s->n; ++j) /* a diagonal that both kinds read */
        whole.value[j + (size_t)j * (size_t)whole.ld] = 2;
    upload(s, &whole);
    struct matrix packed = {s->n * (s->n + 1) / 2, 1, s->n * (s->n + 1) / 2, NULL, NULL};
    packed.value = take_host(count_of(&packed) * sizeof(double));
    int at = 0;
    for (int j = 0; j < s->n; ++j) {
        for (int i = 0; i < s->n; ++i) {
            if (is_stored(s, i, j))
                packed.value[at++] = element(&whole, i, j);
        }
    }
    upload(s, &packed);
    double *results[2][5];
    for (int is_packed = 0; is_packed < 2; ++is_packed) {
        upload(s, &x);
        upload(s, &y);
        if (is_packed) {
            OK(BLAS(spmv, s->uplo, s->n, s->alpha_at, packed.device, x.device, x.ld, s->beta_at, y.device, y.ld));
            results[1][0] = download(s, &y);
            OK(BLAS(tpmv, s->uplo, s->op, s->diag, s->n, packed.device, x.device, x.ld));
            results[1][1] = download(s, &x);
            OK(BLAS(tpsv, s->uplo, s->op, s->diag, s->n, packed.device, x.device, x.ld));
            results[1][2] = download(s, &x);
            OK(BLAS(spr, s->uplo, s->n, s->alpha_at, x.device, x.ld, packed.device));
            results[1][3] = download(s, &packed);
            OK(BLAS(spr2, s->uplo, s->n, s->alpha_at, x.device, x.ld, y.device, y.ld, packed.device));
            results[1][4] = download(s, &packed);
        } else {
            OK(BLAS(symv, s->uplo, s->n, s->alpha_at, whole.device, whole.ld, x.device, x.ld, s->beta_at, y.device,
                    y.ld));
            results[0][0] = download(s, &y);
            OK(BLAS(trmv, s->uplo, s->op, s->diag, s->n, whole.device, whole.ld, x.device, x.ld));
            results[0][1] = download(s, &x);
            OK(BLAS(trsv, s->uplo, s->op, s->diag, s->n, whole.device, whole.ld, x.device, x.ld));
            results[0][2] = download(s, &x);
            OK(BLAS(syr, s->uplo, s->n, s->alpha_at, x.device, x.ld, whole.device, whole.ld));
            results[0][3] = download(s, &whole);
            OK(BLAS(syr2, s->uplo, s->n, s->alpha_at, x.device, x.ld, y.device, y.ld, whole.device, whole.ld));
            results[0][4] = download(s, &whole);
        }
    }
    for (int i = 0; i < s->n; ++i) {
        for (int l = 0; l < 3; ++l) {
            size_t step = (size_t)i * (size_t)(l == 0 ? y.ld : x.ld);
            expect_near(s, results[1][l][step], results[0][l][step]);
        }
    }
    at = 0;
    for (int j = 0; j < s->n; ++j) {
        for (int i = 0; i < s->n; ++i) {
            size_t in_whole = (size_t)i + (size_t)j * (size_t)whole.ld;
            for (int l = 3; l < 5 && is_stored(s, i, j); ++l)
                expect_near(s, results[1][l][at], results[0][l][in_whole]);
            at += is_stored(s, i, j);
        }
    }
}

PART_TEST(batches_of_matrix_vector_products, CASES)
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
        arrays[i] = take_copy_of(array[i], sizeof(array[i]));
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
}
