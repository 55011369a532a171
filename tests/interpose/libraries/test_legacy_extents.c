/*
 * test_legacy_extents.c - what test_extents.c shows of cuBLAS, of its interface before handles: operands are what calls
 * touch, on the stream of the last cublasSetKernelStream. In float and double, which the stand-in has.
 */
#include "arena.h"
#include "values.h"

#include "tests/lib/test.h"

#include <cublas.h>

enum { CASES = 30 };

static struct record *record;
static enum arena_kind element_kind;
static CUstream stream;

struct row {
    const char *symbol, *arguments;
    void (*call)(const struct values *values);
};

/* What a call returned, as far as it is real. */
static double answer;

#define VALUE_OF(type, name, value) __attribute__((unused)) type name = value;
#define LETTER_OF(name, no, yes)    VALUE_OF(char, name, values->name == 0 ? no : yes)
/* Scalars are values here; {1} is one in numbers of any type. */
#define LOCALS                                                                       \
    VALUE_OF(int, n, (int)values->n)                                                 \
    VALUE_OF(int, m, (int)values->m)                                                 \
    VALUE_OF(int, k, (int)values->k)                                                 \
    VALUE_OF(int, kl, (int)values->kl)                                               \
    VALUE_OF(int, ku, (int)values->ku)                                               \
    VALUE_OF(int, lda, (int)values->lda)                                             \
    VALUE_OF(int, ldb, (int)values->ldb)                                             \
    VALUE_OF(int, ldc, (int)values->ldc)                                             \
    VALUE_OF(int, incx, (int)values->incx)                                           \
    VALUE_OF(int, incy, (int)values->incy)                                           \
    VALUE_OF(void *, A, values->A)                                                   \
    VALUE_OF(void *, B, values->B)                                                   \
    VALUE_OF(void *, C, values->C)                                                   \
    VALUE_OF(void *, x, values->x)                                                   \
    VALUE_OF(void *, y, values->y)                                                   \
    VALUE_OF(void *, AP, values->AP)                                                 \
    LETTER_OF(trans, 'n', 't')                                                       \
    LETTER_OF(transa, 'N', 'T')                                                      \
    LETTER_OF(transb, 'n', 'c')                                                      \
    LETTER_OF(uplo, 'L', 'u')                                                        \
    LETTER_OF(diag, 'N', 'u')                                                        \
    LETTER_OF(side, 'l', 'R')                                                        \
    VALUE_OF(ELEMENT, alpha, {0.75})                                                 \
    VALUE_OF(ELEMENT, beta, {0.5})                                                   \
    VALUE_OF(ELEMENT, s, {0.6})                                                      \
    VALUE_OF(REAL, c, {0.8})                                                         \
    VALUE_OF(REAL, real_alpha, {0.75})                                               \
    VALUE_OF(REAL, real_beta, {0.5})                                                 \
    VALUE_OF(REAL, real_s, {0.6})                                                    \
    static const REAL of_rotm[] = {-1, (REAL)0.5, (REAL)0.25, (REAL)0.3, (REAL)0.7}; \
    VALUE_OF(const void *, param, of_rotm)

#define CALL(symbol, ...)         CALL_(symbol, __VA_ARGS__)
#define ANSWER(type, symbol, ...) ANSWER_(type, symbol, __VA_ARGS__)
#define CALL_(symbol, parameters, arguments, ...)          \
    static void call_##symbol(const struct values *values) \
    {                                                      \
        LOCALS                                             \
        symbol arguments;                                  \
    }
#define ANSWER_(type, symbol, parameters, arguments, ...)                                   \
    static void call_##symbol(const struct values *values)                                  \
    {                                                                                       \
        LOCALS                                                                              \
        type got = symbol arguments;                                                        \
        answer = 0;                                                                         \
        memcpy(&answer, &got, sizeof(got) < sizeof(answer) ? sizeof(got) : sizeof(answer)); \
    }
#include "interpose/shim/libraries/cublas_legacy.def"
#undef CALL_
#undef ANSWER_
#define CALL_(symbol, parameters, arguments, ...)         {#symbol, #arguments, call_##symbol},
#define ANSWER_(type, symbol, parameters, arguments, ...) {#symbol, #arguments, call_##symbol},
static const struct row table[] = {
#include "interpose/shim/libraries/cublas_legacy.def"
};
enum { ROWS = sizeof(table) / sizeof(table[0]) };

static enum arena_kind
kind_of_area(unsigned index)
{
    (void)index;
    return element_kind;
}

static bool
is_complex(const char *symbol)
{
    return strpbrk(symbol + strlen("cublas"), "CZcz") == symbol + strlen("cublas") ||
           strncmp(symbol, "cublasSc", 8) == 0 || strncmp(symbol, "cublasDz", 8) == 0 ||
           strncmp(symbol, "cublasIc", 8) == 0 || strncmp(symbol, "cublasIz", 8) == 0;
}

static struct values
random_values(const char *symbol)
{
    struct values v;
    memset(&v, 0, sizeof(v));
    char letter = symbol[strlen("cublas")];
    element_kind = letter == 'D' || strncmp(symbol, "cublasId", 8) == 0 ? ARENA_DOUBLE : ARENA_FLOAT;
    values_choose_shape(&v);
    for (unsigned i = 0; &(&v.alpha)[i] <= &v.TauArray; ++i)
        (&v.alpha)[i] = arena_place(i);
    for (unsigned i = 0; i < ARENA_AREAS; ++i)
        arena_fill(i, element_kind);
    return v;
}

static unsigned rows_that_ran;

/* Argument number `place` of the text of a list. */
static bool
is_argument(const char *list, uint32_t place, const char *name)
{
    const char *at = list + 1;
    for (; place > 0 && at != NULL; --place) {
        at = strchr(at, ',');
        at = at != NULL ? at + 2 : NULL;
    }
    return at != NULL && strncmp(at, name, strlen(name)) == 0 && strchr(",)", at[strlen(name)]) != NULL;
}

static const struct row *tried;
static double answers[2]; /* of the last call, and of the one before */

/* Its status comes when the device is done. */
static bool
make_call(const void *values)
{
    tried->call(values);
    ck_assert(!arena_is_broken());
    answers[1] = answers[0];
    answers[0] = answer;
    return cublasGetError() == CUBLAS_STATUS_SUCCESS;
}

static bool
shows_ends(const void *values, const struct operand *operand)
{
    ck_assert_str_eq(record->name, tried->symbol);
    ck_assert_ptr_eq(record->stream, stream);
    ck_assert_msg(is_argument(tried->arguments, operand->argument, operand->name), "%s: argument %u is not %s",
                  tried->symbol, operand->argument, operand->name);
    return ((const struct values *)values)->diag != CUBLAS_DIAG_UNIT;
}

/* Returns whether the library did it. */
static bool
run_case(const struct row *row, struct arena_ends *ends)
{
    struct values v = random_values(row->symbol);
    char text[96];
    values_describe(&v, row->symbol, text, sizeof(text));
    struct arena_call call = {text, &v, make_call, kind_of_area, arena_element_bytes(element_kind)};
    tried = row;
    if (!arena_try(record, &call, ends, shows_ends))
        return false;
    ck_assert_msg(memcmp(&answers[0], &answers[1], sizeof(answer)) == 0, "%s: answers by bytes that are in no operand",
                  text);
    arena_check_dropped(record, &call);
    return true;
}

static void
start(void)
{
    record = arena_start();
    ck_assert_int_eq(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    ck_assert_int_eq(cublasInit(), CUBLAS_STATUS_SUCCESS);
    ck_assert_int_eq(cublasSetKernelStream(stream), CUBLAS_STATUS_SUCCESS);
}

TEST_GROUP(cublas_before_handles, .start = start);

LOOP_TEST(operands_are_what_the_call_touches, 0, ROWS)
{
    const struct row *row = &table[_i];
    if (arena_is_broken())
        start();
    struct arena_ends ends[ARENA_ENDS] = {0};
    unsigned ran = 0;
    for (int i = 0; i < CASES && !is_complex(row->symbol); ++i)
        ran += run_case(row, ends);
    /* What the stand-in does not have fails without a status: then nothing was ever written. */
    if (ran == 0 || (ends[0].name[0] != '\0' && ends[0].written == 0))
        return;
    ++rows_that_ran;
    arena_check_ends(ends, row->symbol);
}

TEST(most_of_the_real_calls_were_tried)
{
    printf("%u of %u calls tried\n", rows_that_ran, (unsigned)ROWS);
    ck_assert_uint_ge(rows_that_ran, 30);
}

int
main(int argc, char **argv)
{
    return recorder_run(argc, argv, "", NULL, tests_run_in_this_process);
}
