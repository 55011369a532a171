/* exchange_ranks.c - see exchange_ranks.h. */
#include "exchange_ranks.h"

#include "nccl/bootstrap.h"

const char softgpu_library_name[] = "test";

void
exchange_join(struct exchange *exchange, int rank, int rank_count, struct ranks_shared *shared)
{
    struct bootstrap_error error;
    struct bootstrap_wait wait = BOOTSTRAP_WAIT_INITIALIZER;
    exchange_init(exchange);
    if (rank == 0) {
        EXPECT(bootstrap_create_id(&shared->ids[0], &error) == ncclSuccess);
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
