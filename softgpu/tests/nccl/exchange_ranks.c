/* exchange_ranks.c - see exchange_ranks.h. */
#include "exchange_ranks.h"

const char softgpu_library_name[] = "test";

void
exchange_join(struct exchange *exchange, int rank, int rank_count, struct ranks_shared *shared)
{
    struct bootstrap_error error;
    struct bootstrap_wait wait = BOOTSTRAP_WAIT_INITIALIZER;
    exchange_init(exchange);
    if (rank == 0) {
        shared->ids[0] = joiner_id();
        atomic_store(&shared->has_id, 1);
    }
    ranks_await(&shared->has_id, 1);
    EXPECT(bootstrap_join(&exchange->segment, &shared->ids[0], rank, rank_count, &wait, &error) == ncclSuccess);
}

void
exchange_leave(struct exchange *exchange)
{
    segment_set_state(&exchange->segment, RANK_LEFT, NULL);
    exchange_release(exchange);
}

ncclUniqueId
joiner_id(void)
{
    ncclUniqueId id;
    struct bootstrap_error error;
    EXPECT(bootstrap_create_id(&id, &error) == ncclSuccess);
    return id;
}

static void *
join(void *argument)
{
    struct joiner *joiner = argument;
    joiner->result = bootstrap_join(&joiner->exchange.segment, &joiner->id, joiner->rank, joiner->rank_count,
                                    &joiner->wait, &joiner->error);
    return NULL;
}

void
joiner_start(struct joiner *joiner, const ncclUniqueId *id, int rank, int rank_count)
{
    *joiner = (struct joiner){.id = *id, .rank = rank, .rank_count = rank_count, .wait = BOOTSTRAP_WAIT_INITIALIZER};
    exchange_init(&joiner->exchange);
    EXPECT(pthread_create(&joiner->thread, NULL, join, joiner) == 0);
}

ncclResult_t
joiner_end(struct joiner *joiner)
{
    pthread_join(joiner->thread, NULL);
    return joiner->result;
}

struct collective
exchange_sum(float *values, size_t count)
{
    return (struct collective){.kind = OPERATION_ALL_REDUCE,
                               .type = ncclFloat32,
                               .op = ncclSum,
                               .root = -1,
                               .count = count,
                               .send = values,
                               .receive = values};
}
