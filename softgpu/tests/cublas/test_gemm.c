/*
 * test_gemm.c - matrix products through the whole path (library, driver, stream) equal the definition, computed in
 * double: random sizes, transposes, leading dimensions, scalars, types, pointer modes, batches.
 */
#include "device.h"
#include "elements.h"

#include "tests/lib/test.h"

#include <cublas_v2.h>

enum { CASES = 20, SIDE = 150, BATCH = 4 };

/* A matrix of any type, on the host in double and in its own type, and on the device. */
struct matrix {
    cudaDataType type;
    size_t count;  /* elements, of the whole batch */
    double *value; /* what the elements are, exactly */
    void *host;
    void *device;
};

static struct matrix
random_matrix(unsigned *seed, size_t count, cudaDataType type, bool all_nan)
{
    struct matrix m = {.type = type,
                       .count = count,
                       .value = malloc((count + 1) * sizeof(double)),
                       .host = malloc((count + 1) * type_bytes(type))};
    for (size_t i = 0; i < count; ++i) {
        store(m.host, i, type, all_nan ? (double)NAN : (rand_r(seed) % 2001 - 1000) / 512.0);
        m.value[i] = load(m.host, i, type);
    }
    m.device = device_copy_of(m.host, count * type_bytes(type));
    return m;
}

static void
free_matrix(struct matrix *m)
{
    free(m->value);
    free(m->host);
    device_free(m->device);
}

/* One problem. */
struct product {
    cublasOperation_t op_a, op_b;
    int m, n, k, lda, ldb, ldc;
    cudaDataType type_in, type_out;
    double alpha, beta;
    int batch;
};

static struct product
random_product(unsigned *seed, cudaDataType type_in, cudaDataType type_out, bool batched)
{
    static const cublasOperation_t ops[] = {CUBLAS_OP_N, CUBLAS_OP_T, CUBLAS_OP_C};
    static const double scalars[] = {0.0, 1.0, -1.0, 0.5, 2.25};
    int side = batched ? SIDE / 5 : SIDE;
    struct product p = {.op_a = ops[rand_r(seed) % 3],
                        .op_b = ops[rand_r(seed) % 3],
                        .m = rand_r(seed) % side,
                        .n = rand_r(seed) % side,
                        .k = rand_r(seed) % (2 * side),
                        .type_in = type_in,
                        .type_out = type_out,
                        .alpha = scalars[rand_r(seed) % 5],
                        .beta = scalars[rand_r(seed) % 5],
                        .batch = batched ? rand_r(seed) % (BATCH + 1) : 1};
    p.lda = (p.op_a == CUBLAS_OP_N ? p.m : p.k) + 1 + rand_r(seed) % 4;
    p.ldb = (p.op_b == CUBLAS_OP_N ? p.k : p.n) + 1 + rand_r(seed) % 4;
    p.ldc = p.m + 1 + rand_r(seed) % 4;
    return p;
}

/* Element strides between the matrices of a batch. */
static size_t
stride_a(const struct product *p)
{
    return (size_t)p->lda * (size_t)(p->op_a == CUBLAS_OP_N ? p->k : p->m);
}

static size_t
stride_b(const struct product *p)
{
    return (size_t)p->ldb * (size_t)(p->op_b == CUBLAS_OP_N ? p->n : p->k);
}

static size_t
stride_c(const struct product *p)
{
    return (size_t)p->ldc * (size_t)p->n;
}

/* The definition, for one element; *bound_p is how far a result that is rounded on the way may be off. */
static double
exact_element(const struct product *p, const double *a, const double *b, const double *c, int i, int j, double *bound_p)
{
    double sum = 0.0, magnitude = 0.0;
    for (int l = 0; l < p->k; ++l) {
        double factor_a = p->op_a == CUBLAS_OP_N ? a[i + l * p->lda] : a[l + i * p->lda];
        double factor_b = p->op_b == CUBLAS_OP_N ? b[l + j * p->ldb] : b[j + l * p->ldb];
        sum += factor_a * factor_b;
        magnitude += fabs(factor_a * factor_b);
    }
    double result = p->alpha != 0.0 ? p->alpha * sum : 0.0, size = p->alpha != 0.0 ? fabs(p->alpha) * magnitude : 0.0;
    if (p->beta != 0.0) {
        result += p->beta * c[i + j * p->ldc];
        size += fabs(p->beta * c[i + j * p->ldc]);
    }
    double unit_inside = p->type_in == CUDA_R_64F ? 0x1p-53 : 0x1p-24;
    *bound_p = size * unit_inside * (p->k + 4) + 2 * unit(p->type_out) * fabs(result) + 1e-300;
    if (p->type_out == CUDA_R_16F)
        *bound_p += 0x1p-24; /* subnormal results */
    return result;
}

/* `before` is what C held; what lies between the columns must not have changed. */
static void
check_result(const struct product *p, const struct matrix *a, const struct matrix *b, const struct matrix *before)
{
    void *after = malloc(before->count * type_bytes(before->type) + 1);
    device_read(after, before->device, before->count * type_bytes(before->type));
    for (int t = 0; t < p->batch; ++t) {
        size_t base_c = (size_t)t * stride_c(p);
        for (int j = 0; j < p->n; ++j) {
            for (int i = 0; i < p->ldc; ++i) {
                size_t at = base_c + (size_t)i + (size_t)j * (size_t)p->ldc;
                double got = load(after, at, before->type);
                if (i >= p->m) {
                    ck_assert_mem_eq((char *)after + at * type_bytes(before->type),
                                     (char *)before->host + at * type_bytes(before->type), type_bytes(before->type));
                    continue;
                }
                double bound,
                    expected = exact_element(p, a->value + (size_t)t * stride_a(p), b->value + (size_t)t * stride_b(p),
                                             before->value + base_c, i, j, &bound);
                ck_assert_msg(
                    fabs(got - expected) <= bound,
                    "m %d n %d k %d ops %d %d alpha %g beta %g types %d %d at (%d, %d): %.17g, not %.17g +- %g", p->m,
                    p->n, p->k, (int)p->op_a, (int)p->op_b, p->alpha, p->beta, (int)p->type_in, (int)p->type_out, i, j,
                    got, expected, bound);
            }
        }
    }
    free(after);
}

/* How a case calls the library. */
enum form { FORM_PLAIN, FORM_EX, FORM_STRIDED, FORM_STRIDED_EX, FORM_POINTERS, FORM_64, FORM_COUNT };

/* Device arrays of pointers to the matrices of a batch. */
static void *
pointer_array(const struct matrix *m, size_t stride, int batch)
{
    void *pointers[BATCH + 1] = {NULL};
    for (int t = 0; t < batch; ++t)
        pointers[t] = (char *)m->device + (size_t)t * stride * type_bytes(m->type);
    return device_copy_of(pointers, sizeof(pointers));
}

#define GEMM(suffix, ...) \
    (p->type_in == CUDA_R_64F ? cublasDgemm##suffix(h, __VA_ARGS__) : cublasSgemm##suffix(h, __VA_ARGS__))

/* Of floats or doubles. */
static cublasStatus_t
call_by_name(cublasHandle_t h, enum form form, const struct product *p, const void *alpha, const void *beta,
             const struct matrix *a, const struct matrix *b, struct matrix *c)
{
    if (form == FORM_PLAIN)
        return GEMM(, p->op_a, p->op_b, p->m, p->n, p->k, alpha, a->device, p->lda, b->device, p->ldb, beta, c->device,
                    p->ldc);
    if (form == FORM_64)
        return GEMM(_64, p->op_a, p->op_b, p->m, p->n, p->k, alpha, a->device, p->lda, b->device, p->ldb, beta,
                    c->device, p->ldc);
    if (form == FORM_STRIDED)
        return GEMM(StridedBatched, p->op_a, p->op_b, p->m, p->n, p->k, alpha, a->device, p->lda,
                    (long long)stride_a(p), b->device, p->ldb, (long long)stride_b(p), beta, c->device, p->ldc,
                    (long long)stride_c(p), p->batch);
    void *pa = pointer_array(a, stride_a(p), p->batch), *pb = pointer_array(b, stride_b(p), p->batch);
    void *pc = pointer_array(c, stride_c(p), p->batch);
    return GEMM(Batched, p->op_a, p->op_b, p->m, p->n, p->k, alpha, pa, p->lda, pb, p->ldb, beta, pc, p->ldc, p->batch);
}

static cublasStatus_t
call_ex(cublasHandle_t h, enum form form, const struct product *p, const void *alpha, const void *beta,
        const struct matrix *a, const struct matrix *b, struct matrix *c)
{
    cublasComputeType_t compute = p->type_in == CUDA_R_64F ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F;
    if (form == FORM_STRIDED_EX || form == FORM_STRIDED || form == FORM_POINTERS)
        return cublasGemmStridedBatchedEx(h, p->op_a, p->op_b, p->m, p->n, p->k, alpha, a->device, p->type_in, p->lda,
                                          (long long)stride_a(p), b->device, p->type_in, p->ldb, (long long)stride_b(p),
                                          beta, c->device, p->type_out, p->ldc, (long long)stride_c(p), p->batch,
                                          compute, CUBLAS_GEMM_DEFAULT);
    return cublasGemmEx(h, p->op_a, p->op_b, p->m, p->n, p->k, alpha, a->device, p->type_in, p->lda, b->device,
                        p->type_in, p->ldb, beta, c->device, p->type_out, p->ldc, compute, CUBLAS_GEMM_DEFAULT);
}

static void
try_product(cublasHandle_t handle, unsigned *seed, enum form form, cudaDataType type_in, cudaDataType type_out)
{
    bool batched = form == FORM_STRIDED || form == FORM_STRIDED_EX || form == FORM_POINTERS;
    struct product p = random_product(seed, type_in, type_out, batched);
    /* With beta zero, C holds nothing but NaNs: it may not be read. */
    struct matrix a = random_matrix(seed, stride_a(&p) * (size_t)p.batch, type_in, p.alpha == 0.0);
    struct matrix b = random_matrix(seed, stride_b(&p) * (size_t)p.batch, type_in, false);
    struct matrix c = random_matrix(seed, stride_c(&p) * (size_t)p.batch, type_out, p.beta == 0.0);
    float scalars32[] = {(float)p.alpha, (float)p.beta};
    double scalars64[] = {p.alpha, p.beta};
    bool wide = type_in == CUDA_R_64F, on_device = rand_r(seed) % 2;
    const char *scalars = wide ? (const char *)scalars64 : (const char *)scalars32;
    size_t scalar_bytes = wide ? 8 : 4;
    void *device_scalars = device_copy_of(scalars, 2 * scalar_bytes);
    if (on_device)
        scalars = device_scalars;
    ck_assert_int_eq(cublasSetPointerMode(handle, on_device ? CUBLAS_POINTER_MODE_DEVICE : CUBLAS_POINTER_MODE_HOST),
                     0);

    const void *alpha = scalars, *beta = scalars + scalar_bytes;
    cublasStatus_t status;
    if (form == FORM_EX || form == FORM_STRIDED_EX || (type_in != CUDA_R_32F && type_in != CUDA_R_64F))
        status = call_ex(handle, form, &p, alpha, beta, &a, &b, &c);
    else
        status = call_by_name(handle, form, &p, alpha, beta, &a, &b, &c);
    /* Host scalars are read at the call, not later. */
    memset(scalars32, 0xff, sizeof(scalars32));
    memset(scalars64, 0xff, sizeof(scalars64));
    ck_assert_int_eq(status, CUBLAS_STATUS_SUCCESS);
    check_result(&p, &a, &b, &c);
    free_matrix(&a);
    free_matrix(&b);
    free_matrix(&c);
    device_free(device_scalars);
}

static const struct {
    cudaDataType in, out;
} type_pairs[] = {{CUDA_R_32F, CUDA_R_32F}, {CUDA_R_64F, CUDA_R_64F},   {CUDA_R_16F, CUDA_R_16F},
                  {CUDA_R_16F, CUDA_R_32F}, {CUDA_R_16BF, CUDA_R_16BF}, {CUDA_R_16BF, CUDA_R_32F}};
enum { TYPE_PAIRS = 6 };

TEST_GROUP(gemm, .timeout_s = 100, .start = device_start);

/* _i counts forms x type pairs. */
PART_TEST(product_equals_the_definition, FORM_COUNT *TYPE_PAIRS)
{
    enum form form = (enum form)(_i / TYPE_PAIRS);
    unsigned seed = 1000u + (unsigned)_i;
    cublasHandle_t handle;
    ck_assert_int_eq(cublasCreate(&handle), CUBLAS_STATUS_SUCCESS);
    CUstream stream = NULL;
    if (_i % 2) {
        ck_assert_int_eq(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
        ck_assert_int_eq(cublasSetStream(handle, stream), CUBLAS_STATUS_SUCCESS);
    }
    for (int n = 0; n < CASES; ++n)
        try_product(handle, &seed, form, type_pairs[_i % TYPE_PAIRS].in, type_pairs[_i % TYPE_PAIRS].out);
    ck_assert_int_eq(cublasDestroy(handle), CUBLAS_STATUS_SUCCESS);
    if (stream)
        ck_assert_int_eq(cuStreamDestroy(stream), CUDA_SUCCESS);
}

/* The same call gives the same bits, whatever stood in C and wherever it was computed. */
TEST(product_is_reproducible)
{
    enum { N = 257 };
    unsigned seed = 5;
    cublasHandle_t handle;
    ck_assert_int_eq(cublasCreate(&handle), CUBLAS_STATUS_SUCCESS);
    struct matrix a = random_matrix(&seed, (size_t)N * N, CUDA_R_32F, false),
                  b = random_matrix(&seed, (size_t)N * N, CUDA_R_32F, false);
    float one = 1.0f / 3.0f, zero = 0.0f, *first = malloc(sizeof(float) * N * N), *next = malloc(sizeof(float) * N * N);
    for (int n = 0; n < 10; ++n) {
        void *c = device_copy_of(n % 2 ? a.host : b.host, sizeof(float) * N * N);
        ck_assert_int_eq(
            cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_T, N, N, N, &one, a.device, N, b.device, N, &zero, c, N), 0);
        device_read(n ? next : first, c, sizeof(float) * N * N);
        if (n)
            ck_assert_mem_eq(first, next, sizeof(float) * N * N);
        device_free(c);
    }
    free(first);
    free(next);
    free_matrix(&a);
    free_matrix(&b);
    ck_assert_int_eq(cublasDestroy(handle), CUBLAS_STATUS_SUCCESS);
}
