/*
 * test_cudnn.c - every row of cudnn.def: its hook fires once, its operands stand where the row says and are as large as
 * the library's descriptors and the call's sizes say, arguments and answer pass through. The gradients of filters,
 * biases, normalizations and recurrent weights are looked at one by one, and so are the pointers of a variant pack.
 *
 * The library is a fake made from the same table. Starts itself again, see recorder.h.
 */
#include "fake_cudnn.h"
#include "recorder.h"

#include "tests/lib/test.h"

static struct record *record;

struct row {
    const char *symbol, *parameters, *arguments;
    void *linked;
};

#define ROW(symbol, parameters, ...) int symbol parameters;
#include "interpose/shim/libraries/cudnn.def"
#undef ROW
#define ROW(symbol, parameters, arguments, ...) {#symbol, #parameters, #arguments, (void *)symbol},
static const struct row table[] = {
#include "interpose/shim/libraries/cudnn.def"
};
enum { ROWS = sizeof(table) / sizeof(table[0]) };

static struct fake_descriptor descriptors[FAKE_CUDNN_ARGUMENTS];

/* A call's arguments by name: descriptors of 1000 + i bytes, sizes of 2000 + i, pointers far apart. */
struct arguments {
    unsigned count, double_count;
    char names[FAKE_CUDNN_ARGUMENTS][32];
    uint64_t words[FAKE_CUDNN_ARGUMENTS];
};

static bool
ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), tail = strlen(end);
    return length >= tail && strcmp(text + length - tail, end) == 0;
}

static struct arguments
arguments_of(const struct row *row)
{
    struct arguments a = {0};
    a.count = recorder_names(row->arguments, a.names);
    for (unsigned i = 0; i < a.count; ++i) {
        descriptors[i] = (struct fake_descriptor){.bytes = 1000 + i};
        if (ends_with(a.names[i], "Desc"))
            a.words[i] = (uint64_t)&descriptors[i];
        else if (strstr(a.names[i], "Size") != NULL)
            a.words[i] = 2000 + i;
        else
            a.words[i] = 0x100000 * (uint64_t)(i + 1);
    }
    return a;
}

/*
 * Numbers and doubles have their places in registers independently of each other, so one list serves every call that
 * has its doubles left out.
 */
static int
call(void *function, const struct arguments *a)
{
    uint64_t w[FAKE_CUDNN_ARGUMENTS] = {0};
    unsigned n = 0;
    for (unsigned i = 0; i < a->count; ++i) {
        if (strcmp(a->names[i], "epsilon") != 0 && strcmp(a->names[i], "exponentialAverageFactor") != 0)
            w[n++] = a->words[i];
    }
    typedef int (*any_fn)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                          uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                          uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                          uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, double, double);
    return ((any_fn)function)(w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7], w[8], w[9], w[10], w[11], w[12], w[13],
                              w[14], w[15], w[16], w[17], w[18], w[19], w[20], w[21], w[22], w[23], w[24], w[25], w[26],
                              w[27], w[28], w[29], w[30], w[31], w[32], w[33], 0.5, 0.5);
}

LOOP_TEST(arguments_are_the_parameters_in_order, 0, ROWS)
{
    recorder_check_order(table[_i].symbol, table[_i].parameters, table[_i].arguments);
}

static void
check_operands(const struct row *row, const struct arguments *a)
{
    bool writes = false;
    for (unsigned i = 0; i < record->operand_count; ++i) {
        const struct operand *operand = &record->operands[i];
        ck_assert_uint_lt(operand->argument, a->count);
        ck_assert_msg(strcmp(a->names[operand->argument], operand->name) == 0, "%s: argument %u is not %s", row->symbol,
                      operand->argument, operand->name);
        ck_assert_uint_eq(operand->address, a->words[operand->argument]);
        writes = writes || operand->access == ACCESS_WRITE;
        bool sized = operand->bytes == 1;
        for (unsigned j = 0; j < a->count; ++j)
            sized = sized || (operand->bytes == 1000 + j && ends_with(a->names[j], "Desc")) ||
                    (operand->bytes == 2000 + j && strstr(a->names[j], "Size") != NULL);
        ck_assert_msg(sized, "%s: %s has %zu bytes", row->symbol, operand->name, operand->bytes);
    }
    ck_assert_msg(writes, "%s writes nothing", row->symbol);
}

static void
check_fires(const struct row *row, void *function)
{
    struct arguments a = arguments_of(row);
    struct record before = *record;
    unsigned long calls = fake_cudnn.calls;
    fake_cudnn.stream = (void *)0x4321;
    ck_assert_int_eq(call(function, &a), 0);
    ck_assert_uint_eq(fake_cudnn.calls, calls + 1);
    ck_assert_str_eq(fake_cudnn.symbol, row->symbol);
    ck_assert_uint_eq(fake_cudnn.first, a.words[0]);
    /* A number of four bytes comes through as such. */
    ck_assert_uint_eq((uint32_t)fake_cudnn.last, (uint32_t)a.words[a.count - 1]);
    ck_assert_uint_eq(record->begins, before.begins + 1);
    ck_assert_uint_eq(record->enqueued, before.enqueued + 1);
    ck_assert_str_eq(record->name, row->symbol);
    ck_assert_ptr_eq(record->stream, (CUstream)0x4321);
    check_operands(row, &a);

    fake_cudnn.answer = 8;
    ck_assert_int_eq(call(function, &a), 8);
    ck_assert_uint_eq(record->ends, before.ends + 2);
    ck_assert_uint_eq(record->enqueued, before.enqueued + 1);

    calls = fake_cudnn.calls; /* an engine that drops it */
    record->skips = true;
    ck_assert_int_eq(call(function, &a), 0);
    record->skips = false;
    ck_assert_uint_eq(fake_cudnn.calls, calls);
    ck_assert_uint_eq(record->enqueued, before.enqueued + 2);
    fake_cudnn.answer = 0;
}

static bool
has_pack(const struct row *row)
{
    return strcmp(row->symbol, "cudnnBackendExecute") == 0;
}

LOOP_TEST(a_linked_call_is_reported_and_handed_on, 0, ROWS)
{
    if (!has_pack(&table[_i]))
        check_fires(&table[_i], table[_i].linked);
}

LOOP_TEST(a_looked_up_call_is_reported_and_handed_on, 0, ROWS)
{
    void *library = dlopen("libcudnn.so.9", RTLD_NOW | RTLD_LOCAL);
    void *found = dlsym(library, table[_i].symbol);
    ck_assert_ptr_nonnull(found);
    if (!has_pack(&table[_i]))
        check_fires(&table[_i], found);
    dlclose(library);
}

/* The call's gradients, each with the argument that says how large it is. */
static const struct {
    const char *symbol, *gradient, *size;
} gradients[] = {
    {"cudnnConvolutionBackwardFilter", "dw", "dwDesc"},
    {"cudnnFindConvolutionBackwardFilterAlgorithmEx", "dw", "dwDesc"},
    {"cudnnConvolutionBackwardBias", "db", "dbDesc"},
    {"cudnnConvolutionBackwardData", "dx", "dxDesc"},
    {"cudnnBatchNormalizationBackward", "dBnScaleResult", "dBnScaleBiasDesc"},
    {"cudnnBatchNormalizationBackward", "dBnBiasResult", "dBnScaleBiasDesc"},
    {"cudnnBatchNormalizationBackwardEx", "dBnScaleData", "dBnScaleBiasDesc"},
    {"cudnnBatchNormalizationBackwardEx", "dBnBiasData", "dBnScaleBiasDesc"},
    {"cudnnNormalizationBackward", "dNormScaleData", "dNormScaleBiasDesc"},
    {"cudnnNormalizationBackward", "dNormBiasData", "dNormScaleBiasDesc"},
    {"cudnnRNNBackwardWeights", "dw", "dwDesc"},
    {"cudnnRNNBackwardWeightsEx", "dw", "dwDesc"},
    {"cudnnRNNBackwardWeights_v8", "dweightSpace", "weightSpaceSize"},
    {"cudnnMultiHeadAttnBackwardWeights", "dweights", "weightSizeInBytes"},
    {"cudnnAddTensor", "C", "cDesc"},
    {"cudnnScaleTensor", "y", "yDesc"},
};

TABLE_TEST(gradients_are_written_as_far_as_they_reach, gradients)
{
    const struct row *row = table;
    while (strcmp(row->symbol, gradients[_i].symbol) != 0)
        ++row;
    struct arguments a = arguments_of(row);
    ck_assert_int_eq(call(row->linked, &a), 0);
    const struct operand *operand = recorder_operand(record, gradients[_i].gradient);
    ck_assert_ptr_nonnull(operand);
    ck_assert_int_eq(operand->access, ACCESS_WRITE);
    unsigned place = 0;
    while (strcmp(a.names[place], gradients[_i].size) != 0)
        ++place;
    ck_assert_uint_eq(operand->bytes, (ends_with(gradients[_i].size, "Desc") ? 1000 : 2000) + place);
}

TEST(a_variant_pack_is_looked_into)
{
    struct fake_descriptor plan = {.workspace_bytes = 777};
    struct fake_descriptor pack = {
        .pointers = {(void *)0x5000, (void *)0x6000, NULL}, .pointer_count = 3, .workspace = (void *)0x9000};
    unsigned long begins = record->begins, calls = fake_cudnn.calls;
    ck_assert_int_eq(cudnnBackendExecute((void *)0x77, &plan, &pack), 0);
    ck_assert_uint_eq(record->begins, begins + 1);
    ck_assert_uint_eq(record->operand_count, 3);
    ck_assert_uint_eq(record->operands[0].address, 0x5000);
    ck_assert_uint_eq(record->operands[0].bytes, 1);
    ck_assert_int_eq(record->operands[0].access, ACCESS_UNKNOWN);
    ck_assert_uint_eq(record->operands[1].address, 0x6000);
    ck_assert_uint_ne(record->operands[0].argument, record->operands[1].argument);
    ck_assert_uint_eq(record->operands[2].address, 0x9000);
    ck_assert_uint_eq(record->operands[2].bytes, 777);
    ck_assert_uint_eq(fake_cudnn.calls, calls + 1);
}

/* One that does not show its pointers, or has more than fit, continues: the driver's hooks see its kernels. */
TEST(a_pack_that_cannot_be_looked_into_leaves_its_kernels_visible)
{
    struct fake_descriptor plan = {0}, pack = {.pointer_count = 40};
    unsigned long begins = record->begins, calls = fake_cudnn.calls;
    ck_assert_int_eq(cudnnBackendExecute((void *)0x77, &plan, &pack), 0);
    fake_cudnn.has_no_attributes = true;
    ck_assert_int_eq(cudnnBackendExecute((void *)0x77, &plan, &pack), 0);
    fake_cudnn.has_no_attributes = false;
    ck_assert_uint_eq(record->begins, begins);
    ck_assert_uint_eq(fake_cudnn.calls, calls + 2);
}

/* Outside any job a linked call comes through. */
static int
run_passive(void)
{
    for (unsigned i = 0; i < ROWS; ++i) {
        struct arguments a = arguments_of(&table[i]);
        unsigned long calls = fake_cudnn.calls;
        (void)call(table[i].linked, &a);
        if (fake_cudnn.calls != calls + 1)
            return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
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
