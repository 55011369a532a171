/*
 * memory_operation.c - streams that wait for a value in memory, or write one: cuStreamWaitValue, cuStreamWriteValue and
 * batches of both.
 *
 * A wait looks at its memory again and again, with pauses that grow to a millisecond: what writes there - the host,
 * another stream, another process - does not notify the stream. The wait ends early if the context fails or the process
 * exits. As on a GPU the order that this makes is unknown to the driver; a stream that waits for ever waits for ever.
 */
#include "driver.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    BATCH_LIMIT = 256, /* CUDA: the count must be less */
    FIRST_PAUSE_NS = 2000,
    LONGEST_PAUSE_NS = 1000000,
};

enum version { FIRST, SECOND }; /* of the interface: the second has barriers, and no flag for writes */

struct operations_command {
    struct command command;
    unsigned count;
    CUstreamBatchMemOpParams operations[];
};

/* ---- running ---- */

static bool
is_wide(CUstreamBatchMemOpType type)
{
    return type == CU_STREAM_MEM_OP_WAIT_VALUE_64 || type == CU_STREAM_MEM_OP_WRITE_VALUE_64;
}

static bool
is_met(uint64_t have, uint64_t want, unsigned flags, bool wide)
{
    uint64_t mask = wide ? UINT64_MAX : UINT32_MAX, sign = wide ? (uint64_t)1 << 63 : (uint64_t)1 << 31;
    switch (flags) {
    case CU_STREAM_WAIT_VALUE_GEQ: /* of the difference, which may wrap */
        return ((have - want) & sign) == 0;
    case CU_STREAM_WAIT_VALUE_EQ:
        return have == want;
    case CU_STREAM_WAIT_VALUE_AND:
        return (have & want) != 0;
    default: /* CU_STREAM_WAIT_VALUE_NOR */
        return (~(have | want) & mask) != 0;
    }
}

/* False, and the context has failed, if the memory is no longer there. */
static bool
read_value(struct context *context, CUdeviceptr address, bool wide, uint64_t *value_p)
{
    struct allocation found;
    if (!memory_find(address, &found)) {
        context_fail(context, CUDA_ERROR_ILLEGAL_ADDRESS, "a stream waits for a value in memory that has been freed");
        return false;
    }
    strict_begin(true);
    *value_p = wide ? __atomic_load_n((const uint64_t *)address, __ATOMIC_ACQUIRE)
                    : __atomic_load_n((const uint32_t *)address, __ATOMIC_ACQUIRE);
    strict_end(true, context, "a wait for a value");
    return true;
}

static void
run_wait(const struct CUstreamMemOpWaitValueParams_st *wait, struct context *context)
{
    bool wide = is_wide(wait->operation);
    uint64_t want = wide ? wait->value64 : wait->value, have;
    struct timespec pause = {.tv_nsec = FIRST_PAUSE_NS};
    while (atomic_load(&context->failure) == CUDA_SUCCESS && !driver_exiting()) {
        if (!read_value(context, wait->address, wide, &have) || is_met(have, want, wait->flags, wide)) {
            return;
        }
        nanosleep(&pause, NULL);
        pause.tv_nsec = pause.tv_nsec * 2 < LONGEST_PAUSE_NS ? pause.tv_nsec * 2 : LONGEST_PAUSE_NS;
    }
}

static void
run_write(const struct CUstreamMemOpWriteValueParams_st *write, struct context *context)
{
    if (atomic_load(&context->failure) != CUDA_SUCCESS) {
        return;
    }
    strict_begin(true);
    if (is_wide(write->operation)) {
        __atomic_store_n((uint64_t *)write->address, write->value64, __ATOMIC_SEQ_CST);
    } else {
        __atomic_store_n((uint32_t *)write->address, write->value, __ATOMIC_SEQ_CST);
    }
    strict_end(true, context, "a write of a value");
}

static void
run_operations(struct command *command, struct stream *stream)
{
    struct operations_command *batch = (struct operations_command *)command;
    for (unsigned i = 0; i < batch->count; ++i) {
        const CUstreamBatchMemOpParams *operation = &batch->operations[i];
        switch (operation->operation) {
        case CU_STREAM_MEM_OP_WAIT_VALUE_32:
        case CU_STREAM_MEM_OP_WAIT_VALUE_64:
            run_wait(&operation->waitValue, stream->context);
            break;
        case CU_STREAM_MEM_OP_WRITE_VALUE_32:
        case CU_STREAM_MEM_OP_WRITE_VALUE_64:
            run_write(&operation->writeValue, stream->context);
            break;
        default: /* a barrier: what a stream does is visible before it continues anyway */
            break;
        }
    }
}

/* ---- checking ---- */

static CUresult
check_address(CUdeviceptr address, bool wide)
{
    struct allocation found;
    size_t bytes = wide ? 8 : 4;
    REQUIRE(address % bytes == 0 && memory_find(address, &found) && !found.freeing && found.kind != MEMORY_MANAGED &&
            bytes <= memory_reach(address));
    return CUDA_SUCCESS;
}

static CUresult
check(const CUstreamBatchMemOpParams *operation, enum version version)
{
    bool wide = is_wide(operation->operation);
    switch (operation->operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
        REQUIRE_ELSE((operation->waitValue.flags & CU_STREAM_WAIT_VALUE_FLUSH) == 0,
                     CUDA_ERROR_NOT_SUPPORTED); /* as on devices without the attribute CAN_FLUSH_REMOTE_WRITES */
        return operation->waitValue.flags > CU_STREAM_WAIT_VALUE_NOR
                   ? CUDA_ERROR_INVALID_VALUE
                   : check_address(operation->waitValue.address, wide);
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
    case CU_STREAM_MEM_OP_WRITE_VALUE_64: {
        unsigned known = version == FIRST ? CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER : CU_STREAM_WRITE_VALUE_DEFAULT;
        return operation->writeValue.flags > known ? CUDA_ERROR_INVALID_VALUE
                                                   : check_address(operation->writeValue.address, wide);
    }
    case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
        return CUDA_ERROR_NOT_SUPPORTED;
    case CU_STREAM_MEM_OP_BARRIER:
        return version == SECOND && operation->memoryBarrier.flags <= CU_STREAM_MEMORY_BARRIER_TYPE_GPU
                   ? CUDA_SUCCESS
                   : CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_ERROR_INVALID_VALUE;
}

/* ---- the calls ---- */

static CUresult
enqueue(CUstream handle, enum flavour flavour, unsigned count, const CUstreamBatchMemOpParams *operations,
        unsigned flags, enum version version)
{
    struct stream *stream;
    TRY(stream_enter(handle, flavour, &stream));
    REQUIRE(operations != NULL && count != 0 && count < BATCH_LIMIT && flags == 0);
    for (unsigned i = 0; i < count; ++i) {
        TRY(check(&operations[i], version));
    }
    struct operations_command *batch = command_new(sizeof *batch + count * sizeof *operations, run_operations);
    REQUIRE_ELSE(batch != NULL, CUDA_ERROR_OUT_OF_MEMORY);
    batch->command.node_type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
    batch->count = count;
    memcpy(batch->operations, operations, count * sizeof *operations);
    return stream_submit(stream, &batch->command, NULL);
}

static CUresult
wait_value(CUstream stream, enum flavour flavour, CUstreamBatchMemOpType type, CUdeviceptr address, cuuint64_t value,
           unsigned flags, enum version version)
{
    CUstreamBatchMemOpParams operation = {
        .waitValue = {.operation = type, .address = address, .value64 = value, .flags = flags}};
    return enqueue(stream, flavour, 1, &operation, 0, version);
}

static CUresult
write_value(CUstream stream, enum flavour flavour, CUstreamBatchMemOpType type, CUdeviceptr address, cuuint64_t value,
            unsigned flags, enum version version)
{
    CUstreamBatchMemOpParams operation = {
        .writeValue = {.operation = type, .address = address, .value64 = value, .flags = flags}};
    return enqueue(stream, flavour, 1, &operation, 0, version);
}

#define VALUE_CALL(name, suffix, type, call, kind, version)                                             \
    BOTH_FLAVOURS(name, suffix, (CUstream stream, CUdeviceptr address, type value, unsigned int flags), \
                  call(stream, flavour, kind, address, value, flags, version))

VALUE_CALL(cuStreamWaitValue32, _ptsz, cuuint32_t, wait_value, CU_STREAM_MEM_OP_WAIT_VALUE_32, FIRST)
VALUE_CALL(cuStreamWaitValue64, _ptsz, cuuint64_t, wait_value, CU_STREAM_MEM_OP_WAIT_VALUE_64, FIRST)
VALUE_CALL(cuStreamWaitValue32_v2, _ptsz, cuuint32_t, wait_value, CU_STREAM_MEM_OP_WAIT_VALUE_32, SECOND)
VALUE_CALL(cuStreamWaitValue64_v2, _ptsz, cuuint64_t, wait_value, CU_STREAM_MEM_OP_WAIT_VALUE_64, SECOND)
VALUE_CALL(cuStreamWriteValue32, _ptsz, cuuint32_t, write_value, CU_STREAM_MEM_OP_WRITE_VALUE_32, FIRST)
VALUE_CALL(cuStreamWriteValue64, _ptsz, cuuint64_t, write_value, CU_STREAM_MEM_OP_WRITE_VALUE_64, FIRST)
VALUE_CALL(cuStreamWriteValue32_v2, _ptsz, cuuint32_t, write_value, CU_STREAM_MEM_OP_WRITE_VALUE_32, SECOND)
VALUE_CALL(cuStreamWriteValue64_v2, _ptsz, cuuint64_t, write_value, CU_STREAM_MEM_OP_WRITE_VALUE_64, SECOND)

BOTH_FLAVOURS(cuStreamBatchMemOp, _ptsz,
              (CUstream stream, unsigned int count, CUstreamBatchMemOpParams *operations, unsigned int flags),
              enqueue(stream, flavour, count, operations, flags, FIRST))
BOTH_FLAVOURS(cuStreamBatchMemOp_v2, _ptsz,
              (CUstream stream, unsigned int count, CUstreamBatchMemOpParams *operations, unsigned int flags),
              enqueue(stream, flavour, count, operations, flags, SECOND))
