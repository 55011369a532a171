/*
 * connect.c - see connect.h.
 */
#include "nccl/connect.h"

#include "nccl/clock.h"
#include "nccl/reduce.h"

enum algorithm { ALGORITHM_RING = 1, ALGORITHM_TREE = 2, ALGORITHM_NVLS = 4 };

static const size_t tree_bytes = (size_t)16 << 10, ring_bytes = (size_t)1 << 20;

static enum algorithm
algorithm_of(const struct collective *what)
{
    size_t bytes = what->count * type_bytes(what->type);
    if (what->kind != OPERATION_ALL_REDUCE)
        return ALGORITHM_RING;
    if (bytes <= tree_bytes)
        return ALGORITHM_TREE;
    return bytes <= ring_bytes ? ALGORITHM_RING : ALGORITHM_NVLS;
}

ncclResult_t
connect_begin(struct ncclComm *comm, const struct collective *what)
{
    struct exchange *exchange = &comm->exchange;
    enum algorithm algorithm = algorithm_of(what);
    if (comm->rank_count == 1 || comm->conduct.connects_at_start || (comm->connected & algorithm) != 0)
        return ncclSuccess;
    comm->connected |= algorithm;
    if (comm->conduct.calls)
        TRY(conduct_call_in_thread(comm->context));
    int64_t begin_ns = clock_now_ns();
    if (segment_sleep_until(&exchange->segment, begin_ns + link_model_ns(&exchange->link, 0, true)) == WAIT_REACHED)
        segment_advance(&exchange->segment, PROGRESS_CONNECTED, ++comm->connections_begun);
    return ncclSuccess;
}

/* Until all ranks have come as far as this one. */
static ncclResult_t
wait_for_all(struct ncclComm *comm, enum progress which, uint32_t target, const char *where)
{
    int peer = -1;
    enum wait_result why = segment_wait_all(&comm->exchange.segment, which, target, &peer);
    if (why == WAIT_REACHED)
        return ncclSuccess;
    exchange_fail_waiting(&comm->exchange, why, peer, where);
    exchange_stall(&comm->exchange);
    char text[SEGMENT_TEXT_BYTES];
    ncclResult_t result = exchange_error(&comm->exchange, text, sizeof(text));
    return nccl_error(result, "%s", text);
}

ncclResult_t
connect_finish(struct ncclComm *comm)
{
    if (comm->connections_begun == comm->connections_made)
        return ncclSuccess;
    TRY(wait_for_all(comm, PROGRESS_CONNECTED, comm->connections_begun,
                     "the first collective of its algorithm, which connects the ranks"));
    comm->connections_made = comm->connections_begun;
    return ncclSuccess;
}

static bool
meets(const struct ncclComm *comm, const struct collective *what)
{
    if (what->kind != OPERATION_ALL_REDUCE || comm->rank_count == 1)
        return false;
    return comm->conduct.meets == MEETS_ALL || (comm->conduct.meets == MEETS_REGISTERED && what->is_registered);
}

ncclResult_t
connect_meet(struct ncclComm *comm, const struct collective *what)
{
    if (!meets(comm, what))
        return ncclSuccess;
    segment_advance(&comm->exchange.segment, PROGRESS_MET, ++comm->meetings);
    return wait_for_all(comm, PROGRESS_MET, comm->meetings, "an all-reduce, in which all ranks meet");
}
