/*
 * test_hooks.c - every row of cublas.def: its hook fires once, names operands that stand where the row says, hands all
 * arguments on as they came, and returns the library's answer; whether the call was linked or looked up, and with two
 * copies of the library in the process. The library is a fake made from the same table; test_extents.c asks a real one
 * whether the table is right.
 *
 * Starts itself again, see recorder.h.
 */
#include "fake_cublas.h"
#include "recorder.h"
#include "values.h"

#include "tests/lib/test.h"

static struct record *record;

struct row {
    const char *symbol, *parameters, *arguments;
    void *linked; /* what the program's own reference is bound to */
    cublasStatus_t (*call)(void *function, const struct values *values);
    unsigned (*words)(const struct values *values, uint64_t *words);
};

#define ROW(symbol, ...) ROW_(symbol, __VA_ARGS__)
#define ROW_(symbol, parameters, arguments, ...)                                     \
    cublasStatus_t symbol parameters;                                                \
    static cublasStatus_t call_##symbol(void *function, const struct values *values) \
    {                                                                                \
        CALLS_VALUES                                                                 \
        return ((__typeof__(&(symbol)))function)arguments;                           \
    }                                                                                \
    static unsigned words_##symbol(const struct values *values, uint64_t *to)        \
    {                                                                                \
        CALLS_VALUES                                                                 \
        const uint64_t words[] = {WORDS arguments};                                  \
        memcpy(to, words, sizeof(words));                                            \
        return sizeof(words) / sizeof(words[0]);                                     \
    }
#include "interpose/shim/libraries/cublas.def"
#undef ROW_
#define ROW_(symbol, parameters, arguments, ...) \
    {#symbol, #parameters, #arguments, (void *)symbol, call_##symbol, words_##symbol},
static const struct row table[] = {
#include "interpose/shim/libraries/cublas.def"
};
enum { ROWS = sizeof(table) / sizeof(table[0]) };

/* The interface before handles, as text only: test_legacy_extents.c calls it. */
static const struct legacy_row {
    const char *symbol, *parameters, *arguments, *operands;
} legacy[] = {
#define CALL(symbol, ...)                         CALL_(symbol, __VA_ARGS__)
#define ANSWER(type, symbol, ...)                 CALL_(symbol, __VA_ARGS__)
#define CALL_(symbol, parameters, arguments, ...) {#symbol, #parameters, #arguments, #__VA_ARGS__},
#include "interpose/shim/libraries/cublas_legacy.def"
};
enum { LEGACY_ROWS = sizeof(legacy) / sizeof(legacy[0]) };

static struct values
make_values(void)
{
    static const int ones[4] = {1, 1, 1, 1};
    static const int64_t numbers[4] = {0};
    struct values v;
    memset(&v, 0, sizeof(v));
    uint64_t next = 0x10000;
    for (void **p = &v.alpha; p <= &v.TauArray; ++p)
        *p = (void *)(next += 0x10000);
    int64_t number = 3;
    for (int64_t *p = &v.n; p <= &v.stridey; ++p)
        *p = number += 2;
    v.ku = v.k = 2;
    v.handle = (cublasHandle_t)0x77;
    v.transb = CUBLAS_OP_T;
    v.alphaType = v.xType = v.yType = v.csType = v.paramType = v.resultType = CUDA_R_32F;
    v.executiontype = v.executionType = CUDA_R_32F;
    v.Atype = v.Btype = v.Ctype = CUDA_R_16F;
    v.abType = v.d1Type = v.d2Type = v.x1Type = v.y1Type = CUDA_R_64F;
    v.computeType = CUBLAS_COMPUTE_32F;
    for (const void **p = &v.transa_array; p <= &v.beta_array; ++p)
        *p = numbers;
    v.m_array = v.n_array = v.k_array = v.lda_array = v.ldb_array = v.ldc_array = v.group_size = ones;
    v.group_count = 1;
    return v;
}

/* ---- the table's own sense ---- */

LOOP_TEST(arguments_are_the_parameters_in_order, 0, ROWS)
{
    recorder_check_order(table[_i].symbol, table[_i].parameters, table[_i].arguments);
}

LOOP_TEST(rows_without_handles_say_the_right_places, 0, LEGACY_ROWS)
{
    const struct legacy_row *row = &legacy[_i];
    char names[ARGUMENTS_AT_MOST][32], name[32];
    unsigned count = recorder_names(row->arguments, names), place, found = 0;
    recorder_check_order(row->symbol, row->parameters, row->arguments);
    for (const char *at = row->operands; (at = strpbrk(at, "io")) != NULL; ++at) {
        if (sscanf(at, "in(%u, %31[A-Za-z]", &place, name) != 2 && sscanf(at, "out(%u, %31[A-Za-z]", &place, name) != 2)
            continue;
        ck_assert_uint_lt(place, count);
        ck_assert_msg(strcmp(names[place], name) == 0, "%s: argument %u is not %s", row->symbol, place, name);
        ++found;
    }
    ck_assert_msg(found >= 1, "%s names no operand", row->symbol);
}

/* ---- each hook ---- */

static void
check_operands(const struct row *row, const uint64_t *words)
{
    char names[ARGUMENTS_AT_MOST][32];
    unsigned count = recorder_names(row->arguments, names);
    ck_assert_msg(record->operand_count >= 2, "%s names %u operands", row->symbol, record->operand_count);
    bool writes = false;
    for (unsigned i = 0; i < record->operand_count; ++i) {
        const struct operand *operand = &record->operands[i];
        ck_assert_uint_lt(operand->argument, count);
        ck_assert_msg(strcmp(names[operand->argument], operand->name) == 0, "%s: argument %u is not %s", row->symbol,
                      operand->argument, operand->name);
        ck_assert_msg(operand->address == words[operand->argument], "%s: %s", row->symbol, operand->name);
        ck_assert_uint_gt(operand->bytes, 0);
        ck_assert_int_ne(operand->access, ACCESS_UNKNOWN);
        writes = writes || operand->access == ACCESS_WRITE;
    }
    ck_assert_msg(writes, "%s writes nothing", row->symbol);
}

static void
check_fires(const struct row *row, void *function)
{
    struct values values = make_values();
    uint64_t words[ARGUMENTS_AT_MOST];
    unsigned count = row->words(&values, words);
    struct record before = *record;
    unsigned long calls = fake_cublas_first.calls;
    fake_cublas_first.stream = (cudaStream_t)0x1234;
    fake_cublas_first.answer = CUBLAS_STATUS_SUCCESS;
    ck_assert_int_eq(row->call(function, &values), CUBLAS_STATUS_SUCCESS);
    ck_assert_uint_eq(fake_cublas_first.calls, calls + 1);
    ck_assert_str_eq(fake_cublas_first.symbol, row->symbol);
    ck_assert_uint_eq(fake_cublas_first.seen_count, count);
    ck_assert_mem_eq(fake_cublas_first.seen, words, count * sizeof(words[0]));

    ck_assert_msg(record->begins == before.begins + 1, "%s: reported %lu times", row->symbol,
                  record->begins - before.begins);
    ck_assert_uint_eq(record->enqueued, before.enqueued + 1);
    ck_assert_str_eq(record->name, row->symbol);
    ck_assert_ptr_eq(record->stream, (CUstream)0x1234);
    ck_assert(!record->opaque);
    check_operands(row, words);

    fake_cublas_first.answer = CUBLAS_STATUS_EXECUTION_FAILED;
    ck_assert_int_eq(row->call(function, &values), CUBLAS_STATUS_EXECUTION_FAILED);
    ck_assert_uint_eq(record->ends, before.ends + 2);
    ck_assert_uint_eq(record->enqueued, before.enqueued + 1);

    calls = fake_cublas_first.calls; /* an engine that drops it */
    record->skips = true;
    ck_assert_int_eq(row->call(function, &values), CUBLAS_STATUS_SUCCESS);
    record->skips = false;
    ck_assert_uint_eq(fake_cublas_first.calls, calls);
    ck_assert_uint_eq(record->enqueued, before.enqueued + 2);
    fake_cublas_first.answer = CUBLAS_STATUS_SUCCESS;
}

LOOP_TEST(a_linked_call_is_reported_and_handed_on, 0, ROWS)
{
    check_fires(&table[_i], table[_i].linked);
}

LOOP_TEST(a_looked_up_call_is_reported_and_handed_on, 0, ROWS)
{
    void *library = dlopen("libcublas.so.13", RTLD_NOW | RTLD_LOCAL);
    void *found = dlsym(library, table[_i].symbol);
    Dl_info info;
    ck_assert_ptr_nonnull(found);
    ck_assert_int_ne(dladdr(found, &info), 0);
    ck_assert_msg(strstr(info.dli_fname, "libddprun.so") != NULL, "%s is not hooked", table[_i].symbol);
    ck_assert_ptr_eq(dlsym(library, table[_i].symbol), found);
    check_fires(&table[_i], found);
    dlclose(library);
}

/* ---- whose function? ---- */

static const float alpha = 1;
static float x[4];

static void
scale_vector(cublasHandle_t handle)
{
    (void)cublasSscal_v2(handle, 4, &alpha, x, 1);
}

TEST(each_copy_of_the_library_serves_its_own_callers)
{
    void *plugin = dlopen(PLUGIN, RTLD_NOW | RTLD_LOCAL);
    ck_assert_msg(plugin != NULL, "%s", dlerror());
    void *second = dlopen(SECOND_CUBLAS, RTLD_NOW | RTLD_LOCAL);
    struct fake_cublas *its = dlsym(second, "fake_cublas_second");
    cublasStatus_t (*scale)(cublasHandle_t, int, const float *, float *) =
        (__typeof__(scale))dlsym(plugin, "plugin_scale");
    __typeof__(&cublasSscal_v2) looked_up = (__typeof__(&cublasSscal_v2))dlsym(second, "cublasSscal_v2");
    fake_cublas_first.stream = (cudaStream_t)0x1234;
    its->stream = (cudaStream_t)0x5678;
    for (int i = 0; i < 2; ++i) {
        unsigned long first = fake_cublas_first.calls, others = its->calls;
        scale_vector((cublasHandle_t)0x77);
        ck_assert_uint_eq(fake_cublas_first.calls, first + 1);
        ck_assert_ptr_eq(record->stream, (CUstream)0x1234);
        (void)scale((cublasHandle_t)0x78, 4, &alpha, x);
        ck_assert_uint_eq(its->calls, others + 1);
        ck_assert_ptr_eq(record->stream, (CUstream)0x5678);
        (void)looked_up((cublasHandle_t)0x78, 4, &alpha, x, 1);
        ck_assert_uint_eq(its->calls, others + 2);
        ck_assert_uint_eq(fake_cublas_first.calls, first + 1);
    }
    ck_assert_ptr_ne((void *)looked_up, (void *)cublasSscal_v2);
    dlclose(second);
}

TEST(what_is_not_in_the_library_is_not_offered)
{
    void *library = dlopen("libcublas.so.13", RTLD_NOW | RTLD_LOCAL);
    ck_assert_ptr_null(dlsym(library, "cublasSnosuch_v2"));
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    ck_assert_ptr_null(dlsym(driver, "cublasSgemm_v2"));
    dlclose(library);
}

/* ---- streams, workspaces, calls within calls ---- */

TEST(without_a_stream_a_call_is_opaque)
{
    fake_cublas_first.has_no_stream = true;
    scale_vector((cublasHandle_t)0x77);
    ck_assert(record->opaque);
    fake_cublas_first.has_no_stream = false;
    fake_cublas_first.stream = NULL;
    scale_vector((cublasHandle_t)0x77);
    ck_assert(!record->opaque);
    ck_assert_ptr_eq(record->stream, CU_STREAM_LEGACY);
}

static bool
has_workspace(uint64_t address, size_t bytes)
{
    for (unsigned i = 0; i < record->operand_count; ++i) {
        const struct operand *operand = &record->operands[i];
        if (operand->address == address && operand->bytes == bytes && operand->access == ACCESS_WRITE)
            return true;
    }
    return false;
}

TEST(a_workspace_of_the_trainers_is_written)
{
    cublasHandle_t handle = (cublasHandle_t)0x99, other = (cublasHandle_t)0x9a;
    (void)cublasSetWorkspace_v2(handle, (void *)0xabc000, 4096);
    scale_vector(handle);
    ck_assert(has_workspace(0xabc000, 4096));
    scale_vector(other);
    ck_assert(!has_workspace(0xabc000, 4096));
    (void)cublasSetWorkspace_v2(handle, (void *)0xdef000, 512);
    scale_vector(handle);
    ck_assert(has_workspace(0xdef000, 512) && !has_workspace(0xabc000, 4096));
    (void)cublasSetStream_v2(handle, NULL);
    scale_vector(handle);
    ck_assert(!has_workspace(0xdef000, 512));
    (void)cublasSetWorkspace_v2(handle, (void *)0xdef000, 512);
    (void)cublasDestroy_v2(handle);
    scale_vector(handle);
    ck_assert(!has_workspace(0xdef000, 512));
}

static void
call_inside(void)
{
    record->inside = NULL;
    scale_vector((cublasHandle_t)0x77);
}

TEST(calls_within_a_call_are_only_handed_on)
{
    unsigned long begins = record->begins, calls = fake_cublas_first.calls;
    record->inside = call_inside;
    scale_vector((cublasHandle_t)0x77);
    ck_assert_uint_eq(record->begins, begins + 1);
    ck_assert_uint_eq(fake_cublas_first.calls, calls + 2);
}

/* Outside any job a linked call comes through, and a look-up gives the library's own function. */
static int
run_passive(void)
{
    struct values values = make_values();
    for (unsigned i = 0; i < ROWS; ++i) {
        unsigned long calls = fake_cublas_first.calls;
        (void)table[i].call(table[i].linked, &values);
        if (fake_cublas_first.calls != calls + 1)
            return EXIT_FAILURE;
    }
    void *library = dlopen("libcublas.so.13", RTLD_NOW | RTLD_LOCAL);
    Dl_info info;
    if (dladdr(dlsym(library, "cublasSgemm_v2"), &info) == 0 || strstr(info.dli_fname, "libcublas") == NULL)
        return EXIT_FAILURE;
    return recorder_find() == NULL ? EXIT_SUCCESS : EXIT_FAILURE;
}

static int
run_tests(void)
{
    record = recorder_begin();
    return record != NULL ? tests_run_in_this_process() : EXIT_FAILURE;
}

int
main(int argc, char **argv)
{
    return recorder_run(argc, argv, LIBRARIES, run_passive, run_tests);
}
