/*
 * test_extents.c - the operands that hooks of cuBLAS name are what the calls really touch: for every call that the
 * library can do (the stand-in's has no complex numbers and no factorisations), in random shapes (transposed, sided,
 * with leading dimensions, strides and increments of either sign), with scalars and results in device memory,
 * - no byte outside the written operands changes, and holes in operands do not change either;
 * - the first and the last element of each written operand do change;
 * - whatever lies outside the operands can be exchanged without a change of the result.
 *
 * Starts itself again, see recorder.h.
 */
#include "arena.h"
#include "values.h"

#include "tests/lib/test.h"

enum { CASES = 30, GROUPS = 2 };

static struct record *record;
static cublasHandle_t handle;

struct row {
    const char *symbol;
    cublasStatus_t (*call)(const struct values *values);
};

#define ROW(symbol, ...) ROW_(symbol, __VA_ARGS__)
#define ROW_(symbol, parameters, arguments, ...)                     \
    cublasStatus_t symbol parameters;                                \
    static cublasStatus_t call_##symbol(const struct values *values) \
    {                                                                \
        CALLS_VALUES                                                 \
        return symbol arguments;                                     \
    }
#include "interpose/shim/libraries/cublas.def"
#undef ROW_
#define ROW_(symbol, ...) {#symbol, call_##symbol},
static const struct row table[] = {
#include "interpose/shim/libraries/cublas.def"
};
enum { ROWS = sizeof(table) / sizeof(table[0]) };

/* ---- random calls ---- */

/* `result_kind` is that of y where products of vectors mix types. */
static enum arena_kind element_kind, scalar_kind, result_kind;
static size_t element_bytes;

/* Areas follow the pointers of struct values; scalars come first. */
#define AREA_OF(member) ((unsigned)(&((struct values *)0)->member - &((struct values *)0)->alpha))

static enum arena_kind
kind_of_area(unsigned index)
{
    const unsigned scalars[] = {AREA_OF(alpha), AREA_OF(beta), AREA_OF(c), AREA_OF(s), AREA_OF(param)};
    for (size_t i = 0; i < sizeof(scalars) / sizeof(scalars[0]); ++i) {
        if (scalars[i] == index)
            return scalar_kind;
    }
    return index == AREA_OF(y) ? result_kind : element_kind;
}

/* The letter of a call's element type: C in cublasScnrm2_v2 and cublasIcamax_v2; NUL where types are arguments. */
static char
letter_of(const char *symbol)
{
    const char *name = symbol + strlen("cublas");
    if (strstr(name, "Ex") != NULL)
        return '\0';
    if (name[0] == 'I' || strncmp(name, "Sc", 2) == 0 || strncmp(name, "Dz", 2) == 0)
        return strncmp(name, "Scopy", 5) == 0 || strncmp(name, "Scal", 4) == 0 ? 'S' : (char)(name[1] & ~0x20);
    return name[0];
}

static void
choose_kinds(const char *symbol, struct values *v)
{
    char letter = letter_of(symbol);
    bool mixed =
        strstr(symbol, "STgemv") != NULL || strstr(symbol, "SHgemv") != NULL || strstr(symbol, "SSgemv") != NULL;
    element_kind = letter == '\0'                   ? (enum arena_kind)arena_below(3)
                   : letter == 'D' || letter == 'Z' ? ARENA_DOUBLE
                   : letter == 'H' || letter == 'T' ? ARENA_HALF
                                                    : ARENA_FLOAT;
    if (strncmp(symbol, "cublasSgemmEx", 13) == 0 && element_kind == ARENA_DOUBLE)
        element_kind = ARENA_FLOAT;
    scalar_kind = element_kind == ARENA_HALF && (letter != 'H' || mixed) ? ARENA_FLOAT : element_kind;
    result_kind = strstr(symbol, "SSgemv") != NULL ? ARENA_FLOAT : element_kind;
    element_bytes = arena_element_bytes(element_kind) * (letter == 'C' || letter == 'Z' ? 2 : 1);

    cudaDataType element = element_kind == ARENA_DOUBLE  ? CUDA_R_64F
                           : element_kind == ARENA_FLOAT ? CUDA_R_32F
                                                         : CUDA_R_16F;
    cudaDataType of_scalar = scalar_kind == ARENA_DOUBLE ? CUDA_R_64F : CUDA_R_32F;
    v->alphaType = v->executiontype = v->executionType = of_scalar;
    v->csType = v->paramType = element;
    v->xType = v->yType = v->resultType = v->Atype = v->Btype = v->Ctype = element;
    v->abType = v->d1Type = v->d2Type = v->x1Type = v->y1Type = element;
    v->computeType = scalar_kind == ARENA_DOUBLE ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F;
    v->algo = CUBLAS_GEMM_DEFAULT;
}

/* Matrices begin at addresses that the library's tensor cores can load from. */
static void
fill_pointers(void *array, const void *first, int64_t distance)
{
    for (int64_t i = 0; i < VALUES_BATCH; ++i)
        ((uint64_t *)arena_host(array))[i] =
            (uint64_t)first + (uint64_t)(i * distance * (int64_t)element_bytes / 16 * 16);
}

static void
fill_integers(void *place)
{
    for (int i = 0; i < VALUES_BATCH * VALUES_SIZE; ++i)
        ((int *)arena_host(place))[i] = 1;
}

/* The first number of rotm's parameters says which of the others count: -1 is all. */
static void
fill_flag(void *param, enum arena_kind kind)
{
    const double in_double = -1;
    const float in_float = -1;
    const uint16_t in_half = 0xbc00;
    const void *from = kind == ARENA_DOUBLE  ? (const void *)&in_double
                       : kind == ARENA_FLOAT ? (const void *)&in_float
                                             : &in_half;
    memcpy(arena_host(param), from, arena_element_bytes(kind));
}

/* Products in groups: sizes of each in host memory. */
static void
fill_groups(const char *symbol, struct values *v)
{
    static union {
        int narrow[8][GROUPS];
        int64_t wide[8][GROUPS];
    } numbers;
    bool wide = strstr(symbol, "_64") != NULL;
    const int64_t of_all[] = {v->m, v->n, v->k, v->lda, v->ldb, v->ldc, 1};
    const void **const arrays[] = {&v->m_array,   &v->n_array,   &v->k_array,   &v->lda_array,
                                   &v->ldb_array, &v->ldc_array, &v->group_size};
    for (int i = 0; i < 7; ++i) {
        for (int g = 0; g < GROUPS; ++g) {
            int64_t number = i < 3 && g == 1 ? 1 + arena_below(VALUES_SIZE) : of_all[i];
            if (wide)
                numbers.wide[i][g] = number;
            else
                numbers.narrow[i][g] = (int)number;
        }
        *arrays[i] = wide ? (void *)numbers.wide[i] : (void *)numbers.narrow[i];
    }
    static cublasOperation_t transposed[2][GROUPS];
    for (int g = 0; g < 2 * GROUPS; ++g)
        transposed[g / GROUPS][g % GROUPS] = (cublasOperation_t)arena_below(2);
    v->transa_array = transposed[0];
    v->transb_array = transposed[1];
    static double scalars[GROUPS] = {0.5, 0.5};
    static float small_scalars[GROUPS] = {0.5f, 0.5f};
    v->alpha_array = v->beta_array = scalar_kind == ARENA_DOUBLE ? (void *)scalars : (void *)small_scalars;
    v->group_count = GROUPS;
}

static struct values
random_values(const char *symbol)
{
    struct values v;
    memset(&v, 0, sizeof(v));
    v.handle = handle;
    choose_kinds(symbol, &v);
    values_choose_shape(&v);
    for (unsigned i = 0; &(&v.alpha)[i] <= &v.TauArray; ++i)
        (&v.alpha)[i] = arena_place(i);
    for (unsigned i = 0; i < ARENA_AREAS; ++i)
        arena_fill(i, kind_of_area(i));
    fill_pointers(v.Aarray, v.A, v.strideA);
    fill_pointers(v.Barray, v.B, v.strideB);
    fill_pointers(v.Carray, v.C, v.strideC);
    fill_pointers(v.xarray, v.x, v.stridex);
    fill_pointers(v.yarray, v.y, v.stridey);
    fill_pointers(v.Ainv, v.C, v.strideC);
    fill_pointers(v.TauArray, v.y, v.stridey);
    fill_groups(symbol, &v);
    static int of_host;
    if (strstr(symbol, "getr") != NULL && strstr(symbol, "getrf") == NULL) {
        fill_integers(v.P);
        fill_integers(v.devIpiv);
    }
    if (strstr(symbol, "getrs") != NULL || strstr(symbol, "geqrf") != NULL || strstr(symbol, "gels") != NULL)
        v.info = &of_host;
    if (strstr(symbol, "otm") != NULL && strstr(symbol, "otmg") == NULL)
        fill_flag(v.param, kind_of_area(AREA_OF(param)));
    return v;
}

/* ---- the properties ---- */

static unsigned rows_that_ran;

static const struct row *tried;

static bool
make_call(const void *values)
{
    return tried->call(values) == CUBLAS_STATUS_SUCCESS;
}

/* A triangle with ones in its diagonal leaves an element of its vector alone; rotmg fills as many parameters as it
 * needs; a factorisation leaves its pivot where it is. */
static bool
shows_ends(const void *values, const struct operand *operand)
{
    const char *const names[] = {"otmg", "getrf", "geqrf", "gels"};
    (void)operand;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); ++i) {
        if (strstr(tried->symbol, names[i]) != NULL)
            return false;
    }
    return ((const struct values *)values)->diag != CUBLAS_DIAG_UNIT;
}

/* Returns whether the library did it. */
static bool
run_case(const struct row *row, struct arena_ends *ends)
{
    struct values v = random_values(row->symbol);
    char text[96];
    values_describe(&v, row->symbol, text, sizeof(text));
    tried = row;
    return arena_try(record, &(struct arena_call){text, &v, make_call, kind_of_area, element_bytes}, ends, shows_ends);
}

static void
start(void)
{
    record = arena_start();
    ck_assert_int_eq(cublasCreate_v2(&handle), CUBLAS_STATUS_SUCCESS);
    ck_assert_int_eq(cublasSetPointerMode_v2(handle, CUBLAS_POINTER_MODE_DEVICE), CUBLAS_STATUS_SUCCESS);
}

TEST_GROUP(cublas, .start = start);

LOOP_TEST(operands_are_what_the_call_touches, 0, ROWS)
{
    const struct row *row = &table[_i];
    if (arena_is_broken())
        start();
    struct arena_ends ends[ARENA_ENDS] = {0};
    unsigned ran = 0;
    for (int i = 0; i < CASES; ++i)
        ran += run_case(row, ends);
    rows_that_ran += ran > 0;
    arena_check_ends(ends, row->symbol);
}

TEST(most_of_the_real_calls_were_tried)
{
    printf("%u of %u calls tried\n", rows_that_ran, (unsigned)ROWS);
    ck_assert_uint_ge(rows_that_ran, 150);
}

int
main(int argc, char **argv)
{
    return recorder_run(argc, argv, "", NULL, tests_run_in_this_process);
}
