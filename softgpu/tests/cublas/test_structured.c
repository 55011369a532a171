/*
 * test_structured.c - products, updates and solutions of cuBLAS with symmetric, triangular and diagonal matrices, and
 * rotations and the places of extrema, equal their definitions; wrong arguments are refused.
 */
#include "structured.h"

#include "tests/lib/test.h"

TEST_GROUP(all, .start = structured_start, .stop = structured_stop);

PART_TEST(symmetric_products_and_updates, CASES)
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

    bool is_plain = s->op == CUBLAS_OP_N;
    for (int which = 0; which < 3; ++which) { /* syrk, syr2k, syrkx */
        a = random_matrix(s, is_plain ? s->n : s->k, is_plain ? s->k : s->n);
        b = random_matrix(s, is_plain ? s->n : s->k, is_plain ? s->k : s->n);
        c = random_triangle(s, s->n, false);
        if (which == 1)
            OK(BLAS(syr2k, s->uplo, s->op, s->n, s->k, s->alpha_at, a.device, a.ld, b.device, b.ld, s->beta_at,
                    c.device, c.ld));
        else if (which == 2)
            OK(BLAS(syrkx, s->uplo, s->op, s->n, s->k, s->alpha_at, a.device, a.ld, b.device, b.ld, s->beta_at,
                    c.device, c.ld));
        else
            OK(BLAS(syrk, s->uplo, s->op, s->n, s->k, s->alpha_at, a.device, a.ld, s->beta_at, c.device, c.ld));
        got = download(s, &c);
        for (int j = 0; j < s->n; ++j) {
            for (int i = 0; i < s->n; ++i) {
                double sum = 0;
                for (int l = 0; l < s->k; ++l)
                    sum += which == 1 ? op_element(s, &a, i, l) * op_element(s, &b, j, l) +
                                            op_element(s, &b, i, l) * op_element(s, &a, j, l)
                                      : op_element(s, &a, i, l) * op_element(s, which == 2 ? &b : &a, j, l);
                if (is_stored(s, i, j))
                    expect_update(s, &c, got, i, j, s->alpha * sum);
                else
                    ck_assert(isnan(got[i + (size_t)j * (size_t)c.ld]));
            }
        }
    }
}

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

PART_TEST(triangular_products_and_solutions, CASES)
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

    struct matrix batch[BATCH];
    void *t_at[BATCH], *b_at[BATCH];
    for (int i = 0; i < BATCH; ++i) {
        batch[i] = random_matrix(s, s->m, s->n);
        batch[i].ld = s->m; /* one for all */
        t_at[i] = t.device;
        b_at[i] = batch[i].device;
    }
    void *t_array = take_copy_of(t_at, sizeof(t_at)), *b_array = take_copy_of(b_at, sizeof(b_at));
    OK(BLAS(trsmBatched, s->side, s->uplo, s->op, s->diag, s->m, s->n, s->alpha_at, t_array, t.ld, b_array, s->m,
            BATCH));
    for (int l = 0; l < BATCH; ++l) {
        solution = download(s, &batch[l]);
        for (int j = 0; j < s->n; ++j) {
            for (int i = 0; i < s->m; ++i)
                expect_near(s, triangular_product(s, &t, solution, s->m, i, j), s->alpha * element(&batch[l], i, j));
        }
    }
}

PART_TEST(diagonals_rotations_and_extrema, CASES)
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
}

/* A rotation made from a point turns it onto the axis, and one made and applied on the device does the same. */
PART_TEST(rotations_made_from_points, CASES)
{
    struct setting *s = new_setting(_i);
    struct matrix x = random_matrix(s, 1, s->n), y = random_matrix(s, 1, s->n);
    double point[2] = {1.5 + s->m, -0.75 * s->k};
    double wide[5] = {point[0], point[1]};
    float narrow[5] = {(float)point[0], (float)point[1]};
    if (s->is_wide)
        OK(cublasDrotg(handle, &wide[0], &wide[1], &wide[2], &wide[3]));
    else
        OK(cublasSrotg(handle, &narrow[0], &narrow[1], &narrow[2], &narrow[3]));
    for (int i = 0; i < 5 && !s->is_wide; ++i)
        wide[i] = (double)narrow[i];
    expect_near(s, wide[2] * point[0] + wide[3] * point[1], wide[0]);
    expect_near(s, wide[2] * point[1] - wide[3] * point[0], 0);

    /* H = {h11 h12; h21 h22} as it stands, with flag -1. */
    double h[5] = {-1, 0.5, -2, 0.25, 3};
    float narrow_h[5] = {-1, 0.5f, -2, 0.25f, 3};
    void *device = s->is_wide ? take_copy_of(h, sizeof(h)) : take_copy_of(narrow_h, sizeof(narrow_h));
    bool on_device = _i % 4 < 2;
    OK(cublasSetPointerMode(handle, on_device ? CUBLAS_POINTER_MODE_DEVICE : CUBLAS_POINTER_MODE_HOST));
    void *host = s->is_wide ? (void *)h : narrow_h;
    OK(BLAS(rotm, s->n, x.device, x.ld, y.device, y.ld, on_device ? device : host));
    OK(cublasSetPointerMode(handle, CUBLAS_POINTER_MODE_HOST));
    double *first = download(s, &x), *second = download(s, &y);
    for (int i = 0; i < s->n; ++i) {
        double xi = element(&x, 0, i), yi = element(&y, 0, i);
        expect_near(s, first[(size_t)i * (size_t)x.ld], h[1] * xi + h[3] * yi);
        expect_near(s, second[(size_t)i * (size_t)y.ld], h[2] * xi + h[4] * yi);
    }
}

/* A modified rotation made from (x, y) with weights makes sqrt(d2) y disappear. */
TEST(modified_rotations_made_from_points)
{
    double d1 = 2, d2 = 3, x1 = 1.5, y1 = -0.5, param[5] = {0};
    OK(cublasDrotmg(handle, &d1, &d2, &x1, &y1, param));
    bool has_ones = param[0] == 0, has_cross = param[0] == 1;
    double h21 = has_cross ? -1 : param[2], h22 = has_ones ? 1 : param[4];
    ck_assert_double_lt(fabs(h21 * 1.5 + h22 * -0.5), 1e-12);
    ck_assert_int_eq(cublasDrotmg(handle, &d1, NULL, &x1, &y1, param), CUBLAS_STATUS_INVALID_VALUE);
}

TEST(wrong_arguments_are_refused)
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
