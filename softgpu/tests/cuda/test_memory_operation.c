/*
 * test_memory_operation.c - streams that wait for a value in memory, or write one.
 *
 * Properties: a wait is over exactly when its condition holds, in each of the four kinds and both widths (random values
 * against the manual's formulas); what stands after it in its stream sees what was written before the value; the
 * operations of a batch run in their order; a captured one runs at each launch; what no GPU would take is refused.
 */
#include "capture.h"

#include "tests/lib/test.h"

/* As a host writes what a stream waits for. */
static void
put_word(uint64_t *word, uint64_t value, bool wide)
{
    if (wide)
        __atomic_store_n(word, value, __ATOMIC_SEQ_CST);
    else
        __atomic_store_n((uint32_t *)word, (uint32_t)value, __ATOMIC_SEQ_CST);
}

static uint64_t *
new_word(CUdeviceptr *address)
{
    void *pinned;
    OK(cuMemHostAlloc(&pinned, 64, CU_MEMHOSTALLOC_DEVICEMAP));
    OK(cuMemHostGetDevicePointer(address, pinned, 0));
    memset(pinned, 0, 64);
    return pinned;
}

static CUresult (*wait_call(int version, bool wide))(CUstream, CUdeviceptr, uint64_t, unsigned)
{
    void *function = NULL;
    OK(cuGetProcAddress_v2(wide ? "cuStreamWaitValue64" : "cuStreamWaitValue32", &function, version,
                           CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, NULL));
    ck_assert_ptr_nonnull(function);
    return (CUresult(*)(CUstream, CUdeviceptr, uint64_t, unsigned))function;
}

/* The manual's conditions. */
static bool
holds(uint64_t have, uint64_t want, unsigned flags, bool wide)
{
    switch (flags) {
    case CU_STREAM_WAIT_VALUE_GEQ:
        return wide ? (int64_t)(have - want) >= 0 : (int32_t)((uint32_t)have - (uint32_t)want) >= 0;
    case CU_STREAM_WAIT_VALUE_EQ:
        return have == want;
    case CU_STREAM_WAIT_VALUE_AND:
        return (have & want) != 0;
    default:
        return wide ? ~(have | want) != 0 : (uint32_t) ~(have | want) != 0;
    }
}

static uint64_t
draw_word(unsigned *seed, bool wide)
{
    static const uint64_t edges[] = {0, 1, 2, 0x7fffffff, 0x80000000, 0xffffffff, INT64_MAX, UINT64_MAX, 1ull << 63};
    uint64_t word = (uint64_t)rand_r(seed) << 42 ^ (uint64_t)rand_r(seed) << 21 ^ (uint64_t)rand_r(seed);
    if (rand_r(seed) % 2)
        word = edges[(unsigned)rand_r(seed) % (sizeof edges / sizeof edges[0])];
    return wide ? word : (uint32_t)word;
}

TEST_GROUP(all, .timeout_s = 100, .setup = use_device);

LOOP_TEST(a_wait_is_over_when_its_condition_holds, 0, 6)
{
    unsigned seed = (unsigned)_i;
    CUdeviceptr address;
    uint64_t *word = new_word(&address);
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    for (int round = 0; round < 8; ++round) {
        const bool wide = rand_r(&seed) % 2;
        const unsigned flags = (unsigned)rand_r(&seed) % 4;
        const uint64_t have = draw_word(&seed, wide);
        uint64_t want = draw_word(&seed, wide), satisfied = want;
        if (flags == CU_STREAM_WAIT_VALUE_AND && want == 0)
            want = satisfied = 4;
        if (flags == CU_STREAM_WAIT_VALUE_NOR) {
            want = want == UINT64_MAX || want == UINT32_MAX ? 5 : want; /* nothing would satisfy it */
            satisfied = 0;
        }
        put_word(word, have, wide);
        OK(wait_call(_i % 2 ? 13000 : 9000, wide)(stream, address, want, flags));
        if (!holds(have, want, flags, wide)) {
            ck_assert_int_eq(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
            put_word(word, satisfied, wide);
        }
        OK(cuStreamSynchronize(stream));
    }
}

TEST(what_was_written_before_the_value_is_seen_behind_the_wait)
{
    enum { COUNT = 1024 };
    CUdeviceptr address, values = device_memory(COUNT * sizeof(float));
    (void)new_word(&address);
    CUstream writer = new_stream(CU_STREAM_NON_BLOCKING), reader = new_stream(CU_STREAM_NON_BLOCKING);
    float *seen = pinned_memory(COUNT * sizeof(float));
    OK(cuMemsetD32(values, 0, COUNT));
    OK(cuCtxSynchronize());
    CUfunction add = load_function(&add_image);
    for (unsigned turn = 1; turn <= 10; ++turn) {
        OK(cuStreamWaitValue32(reader, address, turn, CU_STREAM_WAIT_VALUE_GEQ));
        OK(cuMemcpyDtoHAsync(seen, values, COUNT * sizeof(float), reader));
        launch_add(add, writer, values, 1, COUNT);
        OK(cuStreamWriteValue32(writer, address, turn, 0));
        OK(cuStreamSynchronize(reader));
        for (int i = 0; i < COUNT; ++i)
            ck_assert(seen[i] == (float)turn);
    }
}

TEST(operations_of_a_batch_run_in_order)
{
    CUdeviceptr address;
    uint64_t *word = new_word(&address);
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUstreamBatchMemOpParams operations[] = {
        {.waitValue = {.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32, .address = address, .value = 1}},
        {.writeValue = {.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64, .address = address + 8, .value64 = 1ull << 40}},
        {.memoryBarrier = {.operation = CU_STREAM_MEM_OP_BARRIER}},
        {.waitValue = {.operation = CU_STREAM_MEM_OP_WAIT_VALUE_64,
                       .address = address + 8,
                       .value64 = 1ull << 40,
                       .flags = CU_STREAM_WAIT_VALUE_EQ}},
        {.writeValue = {.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32, .address = address + 16, .value = 77}},
    };
    OK(cuStreamBatchMemOp(stream, 5, operations, 0));
    memset(operations, 0, sizeof operations); /* copied at the call */
    ck_assert_int_eq(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
    ck_assert_uint_eq(word[1], 0);
    put_word(word, 1, false);
    OK(cuStreamSynchronize(stream));
    ck_assert_uint_eq(word[1], 1ull << 40);
    ck_assert_uint_eq(word[2], 77);
}

TEST(captured_ones_run_at_each_launch)
{
    CUdeviceptr address;
    uint64_t *word = new_word(&address);
    CUstream stream = begin();
    CUgraphNode node;
    CUgraphNodeType type;
    size_t count = 1;
    OK(cuStreamWriteValue64(stream, address, 5, 0));
    CUgraph graph = end(stream);
    OK(cuGraphGetNodes(graph, &node, &count));
    OK(cuGraphNodeGetType(node, &type));
    ck_assert_int_eq(type, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP);
    CUgraphExec exec = instantiate(graph);
    ck_assert_uint_eq(*word, 0);
    for (int i = 0; i < 3; ++i) {
        put_word(word, 0, true);
        run_graph(exec, stream);
        ck_assert_uint_eq(*word, 5);
    }
}

TEST(what_no_gpu_would_take_is_refused)
{
    CUdeviceptr address, managed = managed_memory(64);
    (void)new_word(&address);
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    uint64_t pageable = 0;
    ck_assert_int_eq(cuStreamWaitValue32(stream, address + 2, 1, 0), CUDA_ERROR_INVALID_VALUE);
    ck_assert_int_eq(cuStreamWaitValue64(stream, address + 4, 1, 0), CUDA_ERROR_INVALID_VALUE);
    ck_assert_int_eq(cuStreamWaitValue32(stream, managed, 1, 0), CUDA_ERROR_INVALID_VALUE);
    ck_assert_int_eq(cuStreamWriteValue32(stream, (CUdeviceptr)&pageable, 1, 0), CUDA_ERROR_INVALID_VALUE);
    ck_assert_int_eq(cuStreamWriteValue64(stream, address + 64, 1, 0), CUDA_ERROR_INVALID_VALUE);
    ck_assert_int_eq(cuStreamWaitValue32(stream, address, 1, 4), CUDA_ERROR_INVALID_VALUE);
    ck_assert_int_eq(cuStreamWaitValue32(stream, address, 1, CU_STREAM_WAIT_VALUE_FLUSH), CUDA_ERROR_NOT_SUPPORTED);
    ck_assert_int_eq(cuStreamWriteValue32(stream, address, 1, 1), CUDA_ERROR_INVALID_VALUE); /* _v2 has no such flag */
    CUstreamBatchMemOpParams barrier = {.memoryBarrier = {.operation = CU_STREAM_MEM_OP_BARRIER}};
    CUstreamBatchMemOpParams flush = {.flushRemoteWrites = {.operation = CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES}};
    OK(cuStreamBatchMemOp(stream, 1, &barrier, 0));
    ck_assert_int_eq(cuStreamBatchMemOp(stream, 1, &flush, 0), CUDA_ERROR_NOT_SUPPORTED);
    ck_assert_int_eq(cuStreamBatchMemOp(stream, 0, &barrier, 0), CUDA_ERROR_INVALID_VALUE);
    ck_assert_int_eq(cuStreamBatchMemOp(stream, 256, &barrier, 0), CUDA_ERROR_INVALID_VALUE);
    ck_assert_int_eq(cuStreamBatchMemOp(stream, 1, &barrier, 1), CUDA_ERROR_INVALID_VALUE);
    CUresult (*first)(CUstream, unsigned, CUstreamBatchMemOpParams *, unsigned) = NULL;
    OK(cuGetProcAddress_v2("cuStreamBatchMemOp", (void **)&first, 8000, 0, NULL));
    ck_assert_int_eq(first(stream, 1, &barrier, 0), CUDA_ERROR_INVALID_VALUE);
    OK(cuStreamSynchronize(stream));
}

/* The last test: nothing works after it in this process. */
TEST(a_wait_ends_when_the_context_fails)
{
    CUdeviceptr address;
    (void)new_word(&address);
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING), other = new_stream(CU_STREAM_NON_BLOCKING);
    OK(cuStreamWaitValue32(stream, address, 1, 0));
    launch_one(load_function(&fail_image), other, NULL);
    ck_assert_int_ne(cuStreamSynchronize(stream), CUDA_SUCCESS);
}
