/*
 * connect.c - see connect.h.
 */
#include "nccl/connect.h"

#include "nccl/clock.h"

void
connect_begin(struct ncclComm *comm)
{
    struct exchange *exchange = &comm->exchange;
    if (comm->is_connected || comm->rank_count == 1)
        return;
    int64_t begin_ns = clock_now_ns();
    if (segment_sleep_until(&exchange->segment, begin_ns + link_model_ns(&exchange->link, 0, true)) == WAIT_REACHED)
        segment_advance(&exchange->segment, PROGRESS_CONNECTED, 1);
}

ncclResult_t
connect_finish(struct ncclComm *comm)
{
    int peer = -1;
    if (comm->is_connected)
        return ncclSuccess;
    enum wait_result why = segment_wait_all(&comm->exchange.segment, PROGRESS_CONNECTED, 1, &peer);
    comm->is_connected = why == WAIT_REACHED;
    if (comm->is_connected)
        return ncclSuccess;
    exchange_fail_waiting(&comm->exchange, why, peer, "the first collective, which connects the ranks");
    exchange_stall(&comm->exchange);
    char text[SEGMENT_TEXT_BYTES];
    ncclResult_t result = exchange_error(&comm->exchange, text, sizeof(text));
    return nccl_error(result, "%s", text);
}
