/*
 * test_hooks.c - every row of hooks.def fires exactly once for a call, tells the engine what expectations.def says,
 * hands every argument on as it came and returns the driver's answer; so does its twin. Generated from both tables.
 *
 * trap_1_2_3: each version of a call is bound to the hook of that version (facts, section 2, row 3).
 * trap_2_2: no row is without a hook that fires (row 2 there).
 */
#include "harness.h"
#include "hook_table.h"

#include "base/protocol.h"
#include "tests/lib/test.h"

#define HOST     ((void *)0x5000)
#define MORE     ((void *)0x70)
#define STREAM   ((CUstream)0x77)
#define CONTEXT  ((CUcontext)0x60)
#define ARRAY    ((CUarray)0x61)
#define EXEC     ((CUgraphExec)0x62)
#define GRAPH_   ((CUgraph)0x63)
#define NODE     ((CUgraphNode)0x64)
#define CHILD    ((CUgraph)0x65)
#define NODES    ((CUgraphNode *)0x66)
#define EVENT    ((CUevent)0x67)
#define FUNCTION ((CUfunction)0x88)
#define PARAMS   ((void **)0x90)
#define EXTRA    ((void **)0x98)

static const char host_rows[0x400] = {[0x78] = 0x78, 0x56, 0x34, 0x12};
static size_t free_bytes = 64;
static const CUmemLocation place = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 2};
static CUDA_MEMCPY2D rows_2d = {.dstMemoryType = CU_MEMORYTYPE_DEVICE,
                                .dstDevice = 0x10000,
                                .dstPitch = 0x100,
                                .dstY = 2,
                                .dstXInBytes = 8,
                                .srcMemoryType = CU_MEMORYTYPE_HOST,
                                .srcHost = host_rows,
                                .srcPitch = 0x70,
                                .srcY = 1,
                                .srcXInBytes = 8,
                                .WidthInBytes = 0x64,
                                .Height = 3};
#define BLOCK                                                                                                        \
    {                                                                                                                \
        .dstMemoryType = CU_MEMORYTYPE_DEVICE, .dstDevice = 0x10000, .dstPitch = 0x100, .dstHeight = 4, .dstZ = 3,   \
        .dstY = 3, .dstXInBytes = 8, .srcMemoryType = CU_MEMORYTYPE_UNIFIED, .srcDevice = 0x20000, .srcPitch = 0x64, \
        .srcHeight = 3, .WidthInBytes = 0x64, .Height = 3, .Depth = 4                                                \
    }
static CUDA_MEMCPY3D block_3d = BLOCK;
static CUDA_MEMCPY3D_PEER block_peer = BLOCK;
static CUdeviceptr batch_dsts[] = {0x10000, 0x11000, 0x12000}, batch_srcs[] = {0x20000, 0x21000, 0x22000};
static size_t batch_sizes[] = {0x10, 0x20, 0x30};
static CUDA_MEMCPY3D_BATCH_OP batch_3d[] = {
    {.dst = {.type = CU_MEMCPY_OPERAND_TYPE_POINTER, .op.ptr = {.ptr = 0x10000}},
     .src = {.type = CU_MEMCPY_OPERAND_TYPE_POINTER, .op.ptr = {.ptr = 0x20000, .rowLength = 0x10, .layerHeight = 6}},
     .extent = {4, 3, 2}},
    {.dst = {.type = CU_MEMCPY_OPERAND_TYPE_POINTER, .op.ptr = {.ptr = 0x30000}},
     .src = {.type = CU_MEMCPY_OPERAND_TYPE_ARRAY},
     .extent = {4, 3, 2}}};
static CUstreamBatchMemOpParams values[] = {
    {.writeValue = {.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32, .address = 0x10000}},
    {.writeValue = {.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64, .address = 0x10100, .value64 = 0x87654321}},
    {.memoryBarrier = {.operation = CU_STREAM_MEM_OP_BARRIER}},
    {.waitValue = {.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32, .address = 0x10200}}};
static CUlaunchConfig config;
static CUDA_KERNEL_NODE_PARAMS_v1 kernel_node_v1 = {.func = FUNCTION, .kernelParams = PARAMS, .extra = EXTRA};
static CUDA_KERNEL_NODE_PARAMS kernel_node = {.func = FUNCTION, .kernelParams = PARAMS, .extra = EXTRA};
static CUDA_MEMSET_NODE_PARAMS memset_node_ = {
    .dst = 0x10000, .pitch = 0x100, .elementSize = 4, .width = 0xc, .height = 3};
static CUDA_GRAPH_INSTANTIATE_PARAMS instantiation = {.flags = 5};
static CUgraphNodeParams kernel_node_any = {.type = CU_GRAPH_NODE_TYPE_KERNEL,
                                            .kernel = {.func = FUNCTION, .kernelParams = PARAMS, .extra = EXTRA}};
static CUgraphNodeParams child_node_any = {.type = CU_GRAPH_NODE_TYPE_GRAPH, .graph = {.graph = CHILD}};

/* ---- the table of expectations: a call of each row, its arguments as text, what the engine gets ---- */

struct expectation {
    const char *symbol;
    CUresult (*call)(void *function);
    unsigned (*words)(uint64_t words[ARGUMENTS_AT_MOST]);
    const char *told;
};

#define EXPECT(symbol, arguments, told)                    \
    static CUresult call_##symbol(void *function)          \
    {                                                      \
        return ((__typeof__(&(symbol)))function)arguments; \
    }                                                      \
    static unsigned words_##symbol(uint64_t *words)        \
    {                                                      \
        const uint64_t list[] = {WORDS arguments};         \
        memcpy(words, list, sizeof(list));                 \
        return sizeof(list) / sizeof(list[0]);             \
    }
#include "expectations.def"
#undef EXPECT
#define EXPECT(symbol, arguments, told) {#symbol, call_##symbol, words_##symbol, told},
static const struct expectation expectations[] = {
#include "expectations.def"
};
enum { EXPECTATIONS = sizeof(expectations) / sizeof(expectations[0]) };

static const struct expectation *
expectation_of(const struct hooked *hooked)
{
    for (int i = 0; i < EXPECTATIONS; ++i) {
        if (strcmp(expectations[i].symbol, hooked->base) == 0)
            return &expectations[i];
    }
    ck_abort_msg("%s has no row in expectations.def", hooked->base);
    return NULL;
}

/* What is reported to the engine, with another end, or of the twin. */
static const char *
expected_log(const struct hooked *hooked, const char *told, bool refused)
{
    static char text[LOG_BYTES];
    const char *found;
    text[0] = '\0';
    while (*told != '\0') {
        size_t used = strlen(text);
        if (hooked->flags == 2 && strncmp(told, "legacy", 6) == 0 && (found = "per-thread") != NULL)
            told += 6;
        else if (refused && strncmp(told, " done", 5) == 0 && (found = " refused") != NULL)
            told += 5;
        else
            found = NULL;
        if (found != NULL)
            strcpy(text + used, found);
        else
            text[used] = *told++, text[used + 1] = '\0';
    }
    return text;
}

static void
check_call(const struct hooked *hooked, const struct expectation *expected, CUresult result)
{
    const char *name = NULL;
    uint64_t words[ARGUMENTS_AT_MOST];
    void *hook = harness_look_up(hooked->name, hooked->version, hooked->flags);
    ck_assert_msg(hook == dlsym(driver, hooked->symbol), "%s: two ways, two pointers", hooked->symbol);
    ck_assert_str_eq(harness_hook_name(hook), hooked->symbol);

    unsigned long forwarded = driver_calls(hooked->symbol), begins = record->begins;
    uint64_t recorded = record->services->unknown_calls(&name);
    record->log[0] = '\0';
    fake->result = result;
    ck_assert_int_eq(expected->call(hook), result);
    fake->result = CUDA_SUCCESS;

    ck_assert_msg(driver_calls(hooked->symbol) == forwarded + 1, "%s: not forwarded once", hooked->symbol);
    bool nothing_came = (hooked->kind == KIND_ALLOCATION || hooked->kind == KIND_QUERY) && result != CUDA_SUCCESS;
    const char *told = nothing_came ? "" : expected_log(hooked, expected->told, result != CUDA_SUCCESS);
    ck_assert_msg(strcmp(record->log, told) == 0, "%s: the engine got\n'%s', not\n'%s'", hooked->symbol, record->log,
                  told);
    bool work = hooked->kind <= KIND_LAUNCH_CONFIG;
    ck_assert_uint_eq(record->begins - begins, work);
    if (work)
        ck_assert_str_eq(record->name, hooked->symbol);
    ck_assert_uint_eq(record->services->unknown_calls(&name) - recorded, hooked->kind == KIND_RECORDED);
    if (hooked->kind == KIND_RECORDED)
        ck_assert_ptr_nonnull(name);

    unsigned count = expected->words(words);
    ck_assert_uint_eq(fake->argument_count, count);
    for (unsigned i = 0; i < count; ++i)
        ck_assert_msg(fake->arguments[i] == words[i], "%s: argument %u did not arrive as it came", hooked->symbol, i);
}

LOOP_TEST(every_hook_tells_forwards_and_returns, 0, HOOKS)
{
    const struct hooked *hooked = &hook_table[_i];
    const struct expectation *expected = expectation_of(hooked);
    check_call(hooked, expected, CUDA_SUCCESS);
    check_call(hooked, expected, CUDA_ERROR_INVALID_VALUE);
}

TEST(every_expectation_has_a_row)
{
    for (int i = 0; i < EXPECTATIONS; ++i) {
        bool found = false;
        for (int row = 0; row < HOOKS; ++row)
            found = found || strcmp(hook_table[row].symbol, expectations[i].symbol) == 0;
        ck_assert_msg(found, "%s is in expectations.def only", expectations[i].symbol);
    }
}

/* Outputs that a caller may leave out, and lists that are not there, are the driver's business. */
TEST(trap_2_7_null_arguments_reach_the_driver)
{
    struct hooked hooked[] = {{KIND_OPERATION, "cuMemcpyBatchAsync_v2", "cuMemcpyBatchAsync", 13000, 0, ""},
                              {KIND_OPERATION, "cuMemcpy3DBatchAsync_v2", "cuMemcpy3DBatchAsync", 13000, 0, ""},
                              {KIND_OPERATION, "cuStreamBatchMemOp_v2", "cuStreamBatchMemOp", 11070, 0, ""},
                              {KIND_OPERATION, "cuMemcpy2D_v2", "cuMemcpy2D", 3020, 0, ""},
                              {KIND_OPERATION, "cuMemcpy3D_v2", "cuMemcpy3D", 3020, 0, ""},
                              {KIND_OPERATION, "cuMemcpy3DPeer", "cuMemcpy3DPeer", 4000, 0, ""},
                              {KIND_LAUNCH_CONFIG, "cuLaunchKernelEx", "cuLaunchKernelEx", 11060, 0, ""}};
    for (size_t i = 0; i < sizeof(hooked) / sizeof(hooked[0]); ++i) {
        unsigned long forwarded = driver_calls(hooked[i].symbol);
        CUresult (*call)(void *, void *, void *, void *, void *, void *, void *, void *, void *) =
            harness_look_up(hooked[i].name, hooked[i].version, 0);
        ck_assert_int_eq(call(NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL), CUDA_SUCCESS);
        ck_assert_uint_eq(driver_calls(hooked[i].symbol), forwarded + 1);
    }
}

/* More operands than a hook has room for on its stack. */
TEST(long_lists_arrive_whole)
{
    enum { COPIES = 200 };
    static CUdeviceptr dsts[COPIES], srcs[COPIES];
    static size_t sizes[COPIES];
    __typeof__(&cuMemcpyBatchAsync_v2) hook = harness_look_up("cuMemcpyBatchAsync", 13000, 0);
    for (size_t i = 0; i < COPIES; ++i)
        dsts[i] = 0x1000 + i, srcs[i] = 0x9000 + i, sizes[i] = 1;
    record->log[0] = '\0';
    ck_assert_int_eq(hook(dsts, srcs, sizes, COPIES, NULL, NULL, 0, STREAM), CUDA_SUCCESS);
    ck_assert_says(record->log, " 0.150:1096+1 1.150:9096+1 ");
}

/* An engine that asks for it: one `begin`, the call three times with an `end` after each, and the same arguments. */
TEST(calls_are_made_as_often_as_the_engine_asks)
{
    __typeof__(&cuLaunchKernel) hook = harness_look_up("cuLaunchKernel", 4000, 0);
    unsigned long forwarded = driver_calls("cuLaunchKernel"), begins = record->begins, ends = record->ends;
    record->agains = 2;
    ck_assert_int_eq(hook(FUNCTION, 7, 1, 1, 32, 1, 1, 0, STREAM, NULL, NULL), CUDA_SUCCESS);
    ck_assert_uint_eq(driver_calls("cuLaunchKernel"), forwarded + 3);
    ck_assert_uint_eq(record->begins, begins + 1);
    ck_assert_uint_eq(record->ends, ends + 3);
    ck_assert_uint_eq(record->grid_x, 7);
}

/* The driver, which would refuse the call, does not get it. */
LOOP_TEST(what_the_engine_drops_is_not_made, 0, HOOKS)
{
    const struct hooked *hooked = &hook_table[_i];
    if (hooked->kind > KIND_LAUNCH_CONFIG)
        return;
    void *hook = harness_look_up(hooked->name, hooked->version, hooked->flags);
    unsigned long forwarded = driver_calls(hooked->symbol), ends = record->ends;
    record->skips = true;
    fake->result = CUDA_ERROR_INVALID_VALUE;
    ck_assert_int_eq(expectation_of(hooked)->call(hook), CUDA_SUCCESS);
    fake->result = CUDA_SUCCESS;
    record->skips = false;
    ck_assert_uint_eq(driver_calls(hooked->symbol), forwarded);
    ck_assert_uint_eq(record->ends, ends + 1);
}

int
main(int argc, char **argv)
{
    return harness_run(argc, argv, HARNESS_FAKE_DRIVER, NULL, harness_run_as_rank);
}
