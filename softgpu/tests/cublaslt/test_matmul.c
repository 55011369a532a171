/*
 * test_matmul.c - cublasLtMatmul through the whole path (library, driver, stream) equals its definition, computed in
 * double: random shapes, orders, transposes, leading dimensions, scalars, types, batches, and every epilogue.
 */
#include "../cublas/device.h"
#include "../cublas/elements.h"

#include "tests/lib/test.h"

#include <cublasLt.h>

enum { CASES = 3, SIDE = 100, TYPES = 5 };

static cublasLtHandle_t lt;

/* A batch of matrices (or vectors: one column) on the host in its own type, and on the device. */
struct matrix {
    cudaDataType type;
    bool by_rows;
    size_t rows, columns, ld, stride, count;
    unsigned char *host;
    void *device;
};

static struct matrix
random_matrix(unsigned *seed, cudaDataType type, bool by_rows, size_t rows, size_t columns, size_t batch)
{
    struct matrix m = {.type = type, .by_rows = by_rows, .rows = rows, .columns = columns};
    m.ld = (by_rows ? columns : rows) + (size_t)rand_r(seed) % 4;
    m.ld = m.ld ? m.ld : 1;
    m.stride = m.ld * (by_rows ? rows : columns) + (size_t)rand_r(seed) % 3;
    m.count = m.stride * batch + 8;
    m.host = malloc(m.count * type_bytes(type));
    for (size_t i = 0; i < m.count; ++i)
        store(m.host, i, type, (rand_r(seed) % 2001 - 1000) / 512.0);
    m.device = device_copy_of(m.host, m.count * type_bytes(type));
    return m;
}

static size_t
place(const struct matrix *m, size_t b, size_t i, size_t j)
{
    return b * m->stride + (m->by_rows ? i * m->ld + j : i + j * m->ld);
}

static double
element(const struct matrix *m, size_t b, size_t i, size_t j)
{
    return load(m->host, place(m, b, i, j), m->type);
}

static double
op_element(const struct matrix *m, cublasOperation_t op, size_t b, size_t i, size_t j)
{
    return op == CUBLAS_OP_N ? element(m, b, i, j) : element(m, b, j, i);
}

/* What the device holds now, in place of what the host had. */
static void
fetch(struct matrix *m)
{
    device_read(m->host, m->device, m->count * type_bytes(m->type));
}

static void
release(struct matrix *m)
{
    free(m->host);
    device_free(m->device);
}

static cublasLtMatrixLayout_t
layout(const struct matrix *m, int32_t batch)
{
    cublasLtMatrixLayout_t made;
    ck_assert_int_eq(cublasLtMatrixLayoutCreate(&made, m->type, m->rows, m->columns, (int64_t)m->ld), 0);
    int32_t order = m->by_rows ? CUBLASLT_ORDER_ROW : CUBLASLT_ORDER_COL;
    int64_t stride = (int64_t)m->stride;
    ck_assert_int_eq(cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_ORDER, &order, sizeof(order)), 0);
    ck_assert_int_eq(cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof(batch)),
                     0);
    ck_assert_int_eq(
        cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof(stride)),
        0);
    return made;
}

/* One call and everything it reads and writes. */
struct product {
    cudaDataType in, out;
    cublasLtEpilogue_t epilogue;
    cublasOperation_t op_a, op_b;
    size_t m, n, k, batch;
    double alpha, beta;
    bool in_place, scalars_on_device;
    struct matrix a, b, c, d, bias, aux; /* aux: GELU's input; of RELU, bits in a matrix of bytes of one column each */
    size_t mask_ld;
};

static bool
has(const struct product *p, unsigned flag)
{
    return (unsigned)p->epilogue & flag;
}

static bool
is_mask(const struct product *p)
{
    return has(p, 128) && (has(p, CUBLASLT_EPILOGUE_RELU) || has(p, 8));
}

static struct product
random_product(unsigned *seed, cudaDataType in, cudaDataType out, cublasLtEpilogue_t epilogue)
{
    static const cublasOperation_t ops[] = {CUBLAS_OP_N, CUBLAS_OP_T, CUBLAS_OP_C};
    static const double scalars[] = {0.0, 1.0, -1.0, 0.5};
    struct product p = {.in = in, .out = out, .epilogue = epilogue};
    p.op_a = ops[rand_r(seed) % 3];
    p.op_b = ops[rand_r(seed) % 3];
    p.m = (size_t)rand_r(seed) % SIDE + 1;
    p.n = (size_t)rand_r(seed) % SIDE + 1;
    p.k = (size_t)rand_r(seed) % (2 * SIDE);
    p.batch = (size_t)rand_r(seed) % 3 + 1;
    p.alpha = scalars[rand_r(seed) % 4];
    p.beta = scalars[rand_r(seed) % 4];
    p.in_place = rand_r(seed) % 2;
    p.scalars_on_device = rand_r(seed) % 2;
    bool a_by_rows = rand_r(seed) % 2, b_by_rows = rand_r(seed) % 2, d_by_rows = !has(&p, 128) && rand_r(seed) % 2;
    bool ta = p.op_a != CUBLAS_OP_N, tb = p.op_b != CUBLAS_OP_N;
    p.a = random_matrix(seed, in, a_by_rows, ta ? p.k : p.m, ta ? p.m : p.k, p.batch);
    p.b = random_matrix(seed, in, b_by_rows, tb ? p.n : p.k, tb ? p.k : p.n, p.batch);
    p.d = random_matrix(seed, out, d_by_rows, p.m, p.n, p.batch);
    p.c = random_matrix(seed, out, d_by_rows, p.m, p.n, p.batch);
    p.bias = random_matrix(seed, out, false, epilogue == CUBLASLT_EPILOGUE_BGRADB ? p.n : p.m, 1, p.batch);
    p.mask_ld = (p.m + 127) / 128 * 128 + 128;
    if (is_mask(&p)) {
        p.aux = random_matrix(seed, CUDA_R_16F, false, p.mask_ld / 16, p.n, p.batch);
        p.aux.ld = p.mask_ld / 16; /* 16-bit words hold the bits */
        p.aux.stride = p.aux.ld * p.n;
    } else {
        p.aux = random_matrix(seed, out, false, (p.m + 7) / 8 * 8 + 8, p.n, p.batch);
        p.aux.ld = p.aux.rows;
        p.aux.stride = p.aux.ld * p.n;
    }
    return p;
}

static bool
mask_bit(const struct product *p, const unsigned char *mask, size_t b, size_t i, size_t j)
{
    size_t bit = (b * p->n + j) * p->mask_ld + i;
    return mask[bit / 8] >> bit % 8 & 1;
}

static cublasLtMatmulDesc_t
describe(const struct product *p, cublasComputeType_t compute, cudaDataType scale)
{
    cublasLtMatmulDesc_t desc;
    ck_assert_int_eq(cublasLtMatmulDescCreate(&desc, compute, scale), 0);
#define SET(attribute, type, value)                                                                    \
    do {                                                                                               \
        type set_to = value;                                                                           \
        ck_assert_int_eq(cublasLtMatmulDescSetAttribute(desc, attribute, &set_to, sizeof(set_to)), 0); \
    } while (0)
    SET(CUBLASLT_MATMUL_DESC_TRANSA, int32_t, p->op_a);
    SET(CUBLASLT_MATMUL_DESC_TRANSB, int32_t, p->op_b);
    SET(CUBLASLT_MATMUL_DESC_EPILOGUE, uint32_t, p->epilogue);
    SET(CUBLASLT_MATMUL_DESC_BIAS_POINTER, void *, p->bias.device);
    SET(CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE, int64_t, (int64_t)p->bias.stride);
    if (has(p, 128)) {
        int64_t scale_to_bits = is_mask(p) ? 16 : 1;
        SET(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, void *, p->aux.device);
        SET(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, int64_t, (int64_t)p->aux.ld * scale_to_bits);
        SET(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE, int64_t, (int64_t)p->aux.stride * scale_to_bits);
    }
    if (p->scalars_on_device)
        SET(CUBLASLT_MATMUL_DESC_POINTER_MODE, int32_t, CUBLASLT_POINTER_MODE_DEVICE);
#undef SET
    return desc;
}

static cublasStatus_t
run(struct product *p)
{
    bool is_double = p->in == CUDA_R_64F;
    double doubles[] = {p->alpha, p->beta};
    float floats[] = {(float)p->alpha, (float)p->beta};
    size_t bytes = is_double ? 8 : 4;
    unsigned char *scalars = is_double ? (unsigned char *)doubles : (unsigned char *)floats;
    unsigned char *at = p->scalars_on_device ? device_copy_of(scalars, 2 * bytes) : scalars;
    cublasLtMatmulDesc_t desc =
        describe(p, is_double ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F, is_double ? CUDA_R_64F : CUDA_R_32F);
    const struct matrix *c = p->in_place ? &p->d : &p->c;
    int32_t batch = (int32_t)p->batch;
    cublasLtMatrixLayout_t la = layout(&p->a, batch), lb = layout(&p->b, batch), lc = layout(c, batch),
                           ld = layout(&p->d, batch);
    cublasLtMatmulPreference_t preference;
    cublasLtMatmulHeuristicResult_t found[4];
    int count = -1;
    ck_assert_int_eq(cublasLtMatmulPreferenceCreate(&preference), 0);
    ck_assert_int_eq(cublasLtMatmulAlgoGetHeuristic(lt, desc, la, lb, lc, ld, preference, 4, found, &count), 0);
    ck_assert_int_eq(count, 1);
    ck_assert_int_eq(found[0].state, CUBLAS_STATUS_SUCCESS);
    cublasStatus_t status = cublasLtMatmul(lt, desc, at, p->a.device, la, p->b.device, lb, at + bytes, c->device, lc,
                                           p->d.device, ld, &found[0].algo, NULL, found[0].workspaceSize, NULL);
    cublasLtMatmulPreferenceDestroy(preference);
    cublasLtMatmulDescDestroy(desc);
    cublasLtMatrixLayoutDestroy(la);
    cublasLtMatrixLayoutDestroy(lb);
    cublasLtMatrixLayoutDestroy(lc);
    cublasLtMatrixLayoutDestroy(ld);
    if (p->scalars_on_device)
        device_free(at);
    return status;
}

static double
gelu(double x)
{
    return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

static double
gelu_gradient(double x)
{
    double t = tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x));
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * sqrt(2 / M_PI) * (1 + 3 * 0.044715 * x * x);
}

/* The host's copies are still what the device had before the call, except `d`, `bias` and `aux` once fetched. */
struct before {
    struct matrix d, bias, aux;
};

/* The element before its epilogue, and in *error how far rounding may have moved it. */
static double
plain_element(const struct product *p, const struct before *before, size_t b, size_t i, size_t j, double *error)
{
    const struct matrix *c = p->in_place ? &before->d : &p->c;
    double sum = 0, size = 0;
    for (size_t l = 0; l < p->k; ++l) {
        double term = op_element(&p->a, p->op_a, b, i, l) * op_element(&p->b, p->op_b, b, l, j);
        sum += term;
        size += fabs(term);
    }
    double value = p->alpha * sum + (p->beta != 0 ? p->beta * element(c, b, i, j) : 0);
    double u = p->in == CUDA_R_64F ? 0x1p-53 : 0x1p-24;
    *error = u * (double)(p->k + 8) * (size * fabs(p->alpha) + 8);
    return value;
}

static void
check_element(const struct product *p, const struct before *before, size_t b, size_t i, size_t j)
{
    double error, value = plain_element(p, before, b, i, j, &error);
    if (has(p, CUBLASLT_EPILOGUE_BIAS))
        value += element(&before->bias, b, i, 0);
    double got = element(&p->d, b, i, j), slack = 2 * unit(p->out);
    if (is_mask(p) && has(p, CUBLASLT_EPILOGUE_RELU) && fabs(value) > error)
        ck_assert_int_eq(mask_bit(p, p->aux.host, b, i, j), value > 0);
    if (has(p, 128) && has(p, CUBLASLT_EPILOGUE_GELU))
        ck_assert_double_le(fabs(element(&p->aux, b, i, j) - value), error + slack * fabs(value));
    if (has(p, CUBLASLT_EPILOGUE_RELU))
        value = value > 0 ? value : 0;
    else if (has(p, CUBLASLT_EPILOGUE_GELU))
        value = gelu(value);
    else if (has(p, 8))
        value = mask_bit(p, before->aux.host, b, i, j) ? value : 0;
    else if (has(p, 64))
        value *= gelu_gradient(element(&before->aux, b, i, j));
    ck_assert_double_le(fabs(got - value), 2 * error + slack * (fabs(value) + (p->out == CUDA_R_16F ? 0x1p-14 : 0)));
}

/* The bias gradient, from what the product wrote and read. */
static void
check_bias_gradient(const struct product *p, size_t b)
{
    bool of_b = p->epilogue == CUBLASLT_EPILOGUE_BGRADB, of_a = p->epilogue == CUBLASLT_EPILOGUE_BGRADA;
    for (size_t i = 0; i < (of_b ? p->n : p->m); ++i) {
        double sum = 0, size = 1;
        for (size_t l = 0; l < (of_a || of_b ? p->k : p->n); ++l) {
            double term = of_a   ? op_element(&p->a, p->op_a, b, i, l)
                          : of_b ? op_element(&p->b, p->op_b, b, l, i)
                                 : element(&p->d, b, i, l);
            sum += term;
            size += fabs(term);
        }
        ck_assert_double_le(fabs(element(&p->bias, b, i, 0) - sum), 2 * unit(p->out) * fabs(sum) + 0x1p-24 * size);
    }
}

static struct matrix
host_copy(const struct matrix *m)
{
    struct matrix copy = *m;
    copy.host = malloc(m->count * type_bytes(m->type));
    memcpy(copy.host, m->host, m->count * type_bytes(m->type));
    return copy;
}

static void
check_product(struct product *p)
{
    struct before before = {host_copy(&p->d), host_copy(&p->bias), host_copy(&p->aux)};
    ck_assert_int_eq(run(p), CUBLAS_STATUS_SUCCESS);
    fetch(&p->d);
    fetch(&p->bias);
    fetch(&p->aux);
    for (size_t b = 0; b < p->batch; ++b) {
        for (size_t j = 0; j < p->n; ++j) {
            for (size_t i = 0; i < p->m; ++i)
                check_element(p, &before, b, i, j);
        }
        if (has(p, 16) || has(p, CUBLASLT_EPILOGUE_BGRADA) || has(p, CUBLASLT_EPILOGUE_BGRADB))
            check_bias_gradient(p, b);
    }
    free(before.d.host);
    free(before.bias.host);
    free(before.aux.host);
    struct matrix *all[] = {&p->a, &p->b, &p->c, &p->d, &p->bias, &p->aux};
    for (int i = 0; i < 6; ++i)
        release(all[i]);
}

enum { EPILOGUES = 16 };
static const cublasLtEpilogue_t epilogues[EPILOGUES] = {
    CUBLASLT_EPILOGUE_DEFAULT,  CUBLASLT_EPILOGUE_RELU,        CUBLASLT_EPILOGUE_RELU_AUX,
    CUBLASLT_EPILOGUE_BIAS,     CUBLASLT_EPILOGUE_RELU_BIAS,   CUBLASLT_EPILOGUE_RELU_AUX_BIAS,
    CUBLASLT_EPILOGUE_DRELU,    CUBLASLT_EPILOGUE_DRELU_BGRAD, CUBLASLT_EPILOGUE_GELU,
    CUBLASLT_EPILOGUE_GELU_AUX, CUBLASLT_EPILOGUE_GELU_BIAS,   CUBLASLT_EPILOGUE_GELU_AUX_BIAS,
    CUBLASLT_EPILOGUE_DGELU,    CUBLASLT_EPILOGUE_DGELU_BGRAD, CUBLASLT_EPILOGUE_BGRADA,
    CUBLASLT_EPILOGUE_BGRADB,
};

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

TEST_GROUP(all, .timeout_s = 100, .start = start, .stop = end);

PART_TEST(test_every_epilogue_and_type, EPILOGUES *TYPES)
{
    static const cudaDataType types[TYPES][2] = {{CUDA_R_32F, CUDA_R_32F},
                                                 {CUDA_R_64F, CUDA_R_64F},
                                                 {CUDA_R_16F, CUDA_R_16F},
                                                 {CUDA_R_16BF, CUDA_R_16BF},
                                                 {CUDA_R_16BF, CUDA_R_32F}};
    unsigned seed = 71 + (unsigned)_i;
    const cublasLtEpilogue_t epilogue = epilogues[_i / TYPES];
    const cudaDataType in = types[_i % TYPES][0], out = types[_i % TYPES][1];
    if (in != out && epilogue >= CUBLASLT_EPILOGUE_BGRADA)
        return; /* refused: test_descriptors.c */
    for (int i = 0; i < CASES; ++i) {
        struct product p = random_product(&seed, in, out, epilogue);
        check_product(&p);
    }
}

/* beta == 0: what was in D, NaN included, does not matter, and C may be missing. */
TEST(test_no_beta_reads_no_c)
{
    unsigned seed = 72;
    struct product p = random_product(&seed, CUDA_R_16BF, CUDA_R_16BF, CUBLASLT_EPILOGUE_DEFAULT);
    p.beta = 0;
    p.scalars_on_device = false;
    p.in_place = false;
    memset(p.d.host, 0xff, p.d.count * type_bytes(p.out));
    ck_assert_int_eq(cuMemcpyHtoD((CUdeviceptr)p.d.device, p.d.host, p.d.count * type_bytes(p.out)), CUDA_SUCCESS);
    void *kept = p.c.device;
    p.c.device = NULL;
    ck_assert_int_eq(run(&p), CUBLAS_STATUS_SUCCESS);
    p.c.device = kept;
    check_product(&p);
}
