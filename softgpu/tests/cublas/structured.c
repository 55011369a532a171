/* structured.c - see structured.h. */
#include "structured.h"

cublasHandle_t handle;

/* What the case has taken; the next one gives it back. */
static void *on_host[TAKEN_AT_MOST], *on_device[TAKEN_AT_MOST];
static int host_count, device_count;

void *
take_host(size_t bytes)
{
    ck_assert_int_lt(host_count, TAKEN_AT_MOST);
    return on_host[host_count++] = calloc(1, bytes);
}

void *
take_copy_of(const void *source, size_t bytes)
{
    ck_assert_int_lt(device_count, TAKEN_AT_MOST);
    return on_device[device_count++] = device_copy_of(source, bytes);
}

static void
give_back(void)
{
    while (host_count > 0)
        free(on_host[--host_count]);
    while (device_count > 0)
        device_free(on_device[--device_count]);
}

void
structured_start(void)
{
    device_start();
    ck_assert_int_eq(cublasCreate(&handle), CUBLAS_STATUS_SUCCESS);
}

void
structured_stop(void)
{
    give_back();
    ck_assert_int_eq(cublasDestroy(handle), CUBLAS_STATUS_SUCCESS);
}

struct setting *
new_setting(int i)
{
    static struct setting setting;
    static const double scalars[] = {0, 1, -1, 0.5};
    struct setting *s = &setting;
    give_back();
    *s = (struct setting){.seed = (unsigned)i + 1, .is_wide = i % 2};
    s->uplo = rand_r(&s->seed) % 2 ? CUBLAS_FILL_MODE_LOWER : CUBLAS_FILL_MODE_UPPER;
    s->side = rand_r(&s->seed) % 2 ? CUBLAS_SIDE_LEFT : CUBLAS_SIDE_RIGHT;
    s->op = rand_r(&s->seed) % 2 ? CUBLAS_OP_N : CUBLAS_OP_T;
    s->diag = rand_r(&s->seed) % 2 ? CUBLAS_DIAG_UNIT : CUBLAS_DIAG_NON_UNIT;
    s->m = rand_r(&s->seed) % SIDE + 1;
    s->n = rand_r(&s->seed) % SIDE + 1;
    s->k = i % 5 == 0 ? 0 : rand_r(&s->seed) % SIDE;
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

size_t
count_of(const struct matrix *m)
{
    return (size_t)m->ld * (size_t)m->columns;
}

void
upload(const struct setting *s, struct matrix *m)
{
    float *narrow = malloc(count_of(m) * sizeof(float));
    for (size_t i = 0; i < count_of(m); ++i)
        narrow[i] = (float)m->value[i];
    m->device = s->is_wide ? take_copy_of(m->value, count_of(m) * sizeof(double))
                           : take_copy_of(narrow, count_of(m) * sizeof(float));
    free(narrow);
}

struct matrix
random_matrix(struct setting *s, int rows, int columns)
{
    struct matrix m = {rows, columns, rows + rand_r(&s->seed) % 3 + (rows == 0), NULL, NULL};
    m.value = take_host((count_of(&m) + 1) * sizeof(double));
    for (size_t i = 0; i < count_of(&m); ++i)
        m.value[i] = (rand_r(&s->seed) % 129 - 64) / 64.0;
    upload(s, &m);
    return m;
}

double *
download(const struct setting *s, const struct matrix *m)
{
    double *values = take_host((count_of(m) + 1) * sizeof(double));
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

double
element(const struct matrix *m, int i, int j)
{
    return m->value[i + (size_t)j * (size_t)m->ld];
}

double
op_element(const struct setting *s, const struct matrix *m, int i, int j)
{
    return s->op == CUBLAS_OP_N ? element(m, i, j) : element(m, j, i);
}

bool
is_stored(const struct setting *s, int i, int j)
{
    return s->uplo == CUBLAS_FILL_MODE_LOWER ? i >= j : i <= j;
}

struct matrix
random_triangle(struct setting *s, int side, bool is_triangular)
{
    struct matrix m = random_matrix(s, side, side);
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

double
symmetric(const struct setting *s, const struct matrix *m, int i, int j)
{
    return is_stored(s, i, j) ? element(m, i, j) : element(m, j, i);
}

double
triangular(const struct setting *s, const struct matrix *m, int i, int j)
{
    int row = s->op == CUBLAS_OP_N ? i : j, column = s->op == CUBLAS_OP_N ? j : i;
    if (row == column && s->diag == CUBLAS_DIAG_UNIT)
        return 1;
    return is_stored(s, row, column) ? element(m, row, column) : 0;
}

void
expect_near(const struct setting *s, double got, double expected)
{
    ck_assert_double_le(fabs(got - expected), (s->is_wide ? 1e-12 : 1e-4) * (fabs(expected) + 4));
}

void
expect_update(const struct setting *s, const struct matrix *c, const double *got, int i, int j, double expected)
{
    double before = element(c, i, j);
    expect_near(s, got[i + (size_t)j * (size_t)c->ld], expected + (s->beta == 0 ? 0 : s->beta * before));
}
