/*
 * point_to_point.c - see point_to_point.h.
 */
#include "nccl/point_to_point.h"

#include "nccl/clock.h"
#include "nccl/remote.h"

#include <stdio.h>
#include <string.h>

/* How far one transfer has come. */
struct transfer_state {
    size_t moved_bytes;
    bool is_done;
};

struct transfer_run {
    struct exchange *exchange;
    struct segment *segment;
    const struct transfer *transfers;
    int count;
    int left;
    struct transfer_state state[TRANSFERS_MAX];
};

/* Ends a piece of `bytes`: an empty message has one empty piece. */
static void
account_piece(struct transfer_run *run, int i, size_t bytes)
{
    struct transfer_state *state = &run->state[i];
    state->moved_bytes += bytes;
    if (state->moved_bytes == run->transfers[i].bytes) {
        state->is_done = true;
        --run->left;
    }
    segment_ring(run->segment, run->transfers[i].peer);
}

static bool
try_send(struct transfer_run *run, int i)
{
    const struct transfer *transfer = &run->transfers[i];
    struct channel *channel = segment_channel(run->segment, run->segment->rank, transfer->peer);
    uint32_t written = atomic_load_explicit(&channel->written, memory_order_relaxed);
    if (written - atomic_load_explicit(&channel->taken, memory_order_acquire) >= SEGMENT_STAGES)
        return false;

    size_t left = transfer->bytes - run->state[i].moved_bytes;
    size_t bytes = left < SEGMENT_CHANNEL_BYTES ? left : SEGMENT_CHANNEL_BYTES;
    const unsigned char *data = (const unsigned char *)transfer->buffer + run->state[i].moved_bytes;
    if (segment_is_remote(run->segment, transfer->peer)) {
        remote_piece(run->segment->remote, transfer->peer, transfer->type, transfer->bytes, data, bytes);
    } else {
        channel->header[written % SEGMENT_STAGES].message_bytes = transfer->bytes;
        channel->header[written % SEGMENT_STAGES].type = transfer->type;
        channel->header[written % SEGMENT_STAGES].bytes = (uint32_t)bytes;
        if (bytes > 0)
            memcpy(channel->data[written % SEGMENT_STAGES], data, bytes);
    }
    atomic_store_explicit(&channel->written, written + 1, memory_order_release);
    account_piece(run, i, bytes);
    return true;
}

static bool
try_receive(struct transfer_run *run, int i)
{
    const struct transfer *transfer = &run->transfers[i];
    struct channel *channel = segment_channel(run->segment, transfer->peer, run->segment->rank);
    uint32_t taken = atomic_load_explicit(&channel->taken, memory_order_relaxed);
    if (atomic_load_explicit(&channel->written, memory_order_acquire) == taken)
        return false;

    uint64_t message_bytes = channel->header[taken % SEGMENT_STAGES].message_bytes;
    uint32_t type = channel->header[taken % SEGMENT_STAGES].type, bytes = channel->header[taken % SEGMENT_STAGES].bytes;
    size_t left = transfer->bytes - run->state[i].moved_bytes;
    if (message_bytes != transfer->bytes || type != transfer->type || bytes > left || bytes > SEGMENT_CHANNEL_BYTES) {
        exchange_fail(run->exchange, true, ncclInvalidUsage,
                      "rank %d sends %llu bytes of %s to rank %d, which receives %zu bytes of %s", transfer->peer,
                      (unsigned long long)message_bytes, type_name((ncclDataType_t)type), run->segment->rank,
                      transfer->bytes, type_name((ncclDataType_t)transfer->type));
        return false;
    }
    if (bytes > 0)
        memcpy((unsigned char *)transfer->buffer + run->state[i].moved_bytes, channel->data[taken % SEGMENT_STAGES],
               bytes);
    atomic_store_explicit(&channel->taken, taken + 1, memory_order_release);
    if (segment_is_remote(run->segment, transfer->peer))
        remote_taken(run->segment->remote, transfer->peer, taken + 1);
    account_piece(run, i, bytes);
    return true;
}

/* Moves a piece of every transfer that can move; those between the same ranks wait for each other. True if any moved.
 */
static bool
make_progress(struct transfer_run *run)
{
    bool busy[2][SEGMENT_MAX_RANKS] = {{false}};
    bool moved = false;
    for (int i = 0; i < run->count; ++i) {
        const struct transfer *transfer = &run->transfers[i];
        if (run->state[i].is_done || busy[transfer->is_send][transfer->peer])
            continue;
        busy[transfer->is_send][transfer->peer] = true;
        if (transfer->is_send ? try_send(run, i) : try_receive(run, i))
            moved = true;
    }
    return moved;
}

/* The first rank that something is still expected of and that can no longer do it; WAIT_REACHED if there is no such
 * rank. */
static enum wait_result
find_lost_peer(const struct transfer_run *run, int *i_p)
{
    for (int i = 0; i < run->count; ++i) {
        if (run->state[i].is_done)
            continue;
        enum wait_result health = segment_peer_health(run->segment, run->transfers[i].peer);
        if (health != WAIT_REACHED) {
            *i_p = i;
            return health;
        }
    }
    return WAIT_REACHED;
}

static void
fail_transfer(struct transfer_run *run, enum wait_result why, int i)
{
    const struct transfer *transfer = &run->transfers[i];
    char doing[120];
    snprintf(doing, sizeof(doing), "a %s of %zu bytes of %s", transfer->is_send ? "send" : "receive", transfer->bytes,
             type_name((ncclDataType_t)transfer->type));
    exchange_fail_waiting(run->exchange, why, transfer->peer, doing);
}

/* Until all are done or something is in the way. */
static void
progress_to_end(struct transfer_run *run)
{
    enum wait_result lost = WAIT_REACHED;
    while (run->left > 0) {
        struct counter *bell = &run->segment->slots[run->segment->rank]->progress[PROGRESS_BELL];
        uint32_t seen = atomic_load(&bell->value); /* before looking: what moves later rings again */
        if (make_progress(run)) {
            lost = WAIT_REACHED;
            continue;
        }
        if (exchange_error(run->exchange, NULL, 0) != ncclSuccess)
            return;
        int i = 0;
        while (i < run->count && run->state[i].is_done)
            ++i;
        if (atomic_load(&run->segment->interrupted)) {
            fail_transfer(run, WAIT_INTERRUPTED, i);
            return;
        }
        /* A peer may have sent all it had and gone since we looked: one look more decides. */
        enum wait_result health = find_lost_peer(run, &i);
        if (health != WAIT_REACHED && lost != WAIT_REACHED) {
            fail_transfer(run, health, i);
            return;
        }
        lost = health;
        if (health == WAIT_REACHED)
            segment_wait_bell(run->segment, seen);
    }
}

void
transfers_run(struct exchange *exchange, const struct transfer *transfers, int count, bool pays_latency)
{
    struct transfer_run run = {
        .exchange = exchange, .segment = &exchange->segment, .transfers = transfers, .count = count, .left = count};
    pthread_mutex_lock(&exchange->running);
    int64_t start_ns = clock_now_ns();
    size_t bytes[2] = {0, 0};
    for (int i = 0; i < count; ++i)
        bytes[transfers[i].is_send] += transfers[i].bytes;

    if (exchange_may_run(exchange))
        progress_to_end(&run);
    size_t larger = bytes[0] > bytes[1] ? bytes[0] : bytes[1];
    if (run.left == 0 && exchange->segment.rank_count > 1)
        segment_sleep_until(&exchange->segment, start_ns + link_model_ns(&exchange->link, larger, pays_latency));
    pthread_mutex_unlock(&exchange->running);
}
