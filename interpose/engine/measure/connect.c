/*
 * connect.c - each size and type of a plan's buckets, and the words of a step (send/speculation.c), have been reduced
 * once before the plan counts.
 *
 * Since 2.22 NCCL connects the ranks in the first call that takes an algorithm, which is chosen by size and type, and
 * the host waits there for all ranks. Amid backward this may be for ever: a rank whose step deviates sends the bucket
 * at DDP_STEP, and may wait for the others before that. So zeros of each size are reduced where a plan takes effect,
 * which is at the same place on all ranks. (NCCL_RUNTIME_CONNECT=0 connects all at the start, and takes memory for
 * what is never used.)
 *
 * Called by plan/ whenever a plan is about to be followed. The host waits for the device there.
 */
#include "interpose/engine/measure/measure.h"
#include "interpose/engine/memory/escapes.h"

struct size {
    uint64_t bytes;
    ncclDataType_t type;
};

/* Those that have been reduced, the same on all ranks. */
static struct {
    struct size *sizes;
    size_t count;
} known GUARDED_BY(issuer_role);

static bool
is_known(const struct size *size) BY_ISSUER
{
    for (size_t i = 0; i < known.count; ++i) {
        if (known.sizes[i].bytes == size->bytes && known.sizes[i].type == size->type)
            return true;
    }
    return false;
}

static struct size
size_of(const struct plan_bucket *bucket)
{
    return (struct size){bucket->bytes, type_nccl(escape_bucket_type(bucket))};
}

/* What a step by the plan says of its buckets. */
static struct size
size_of_words(const struct plan *plan)
{
    return (struct size){SPECULATION_WORDS(plan->bucket_count) * sizeof(uint32_t), ncclUint32};
}

/* The most bytes of the plan's sizes that are not known; 0: all are known. */
static uint64_t
largest_unknown(const struct plan *plan) BY_ISSUER
{
    const struct size words = size_of_words(plan);
    uint64_t most = is_known(&words) ? 0 : words.bytes;
    for (size_t k = 0; k < plan->bucket_count; ++k) {
        struct size size = size_of(&plan->buckets[k]);
        if (!is_known(&size) && size.bytes > most)
            most = size.bytes;
    }
    return most;
}

/* So much memory, or as much less as there is, in halves; the size in *bytes_p, 0 for none. */
static CUdeviceptr
allocate(uint64_t *bytes_p)
{
    CUdeviceptr memory = 0;
    while (*bytes_p > 0 && engine_state.driver.cuMemAlloc_p(&memory, *bytes_p) != CUDA_SUCCESS)
        *bytes_p /= 2;
    return memory;
}

static bool
reduce_bucket(CUdeviceptr memory, const struct size *size, struct comm_error *error) BY_ISSUER
{
    const struct bucket_member member = {.address = memory, .bytes = size->bytes};
    struct bucket_wire wire = {0};
    bool is_sent = collectives_place(&engine_state.collectives, &wire, &member, 1, size->type, error) &&
                   collectives_reduce(&engine_state.collectives, &wire, 1, first_stream(), error);
    wire_free(&wire, &engine_state.driver);
    return is_sent;
}

static bool
add_words(CUdeviceptr memory, const struct size *size, struct comm_error *error) BY_ISSUER
{
    return collectives_add_words(&engine_state.collectives, memory, size->bytes / sizeof(uint32_t), first_stream(),
                                 error);
}

static void
reduce_once(CUdeviceptr memory, const struct size *size) BY_ISSUER
{
    struct comm_error error;
    inflight_sending("the first all-reduce of a size", 0, COMMUNICATOR_ENGINE);
    bool is_sent = size->type == ncclUint32 ? add_words(memory, size, &error) : reduce_bucket(memory, size, &error);
    if (!is_sent)
        stop_job_by(error.cause, "the first all-reduce of %llu bytes: %s", (unsigned long long)size->bytes, error.text);
    inflight_sent("the first all-reduce of a size", 0, COMMUNICATOR_ENGINE);
    known.sizes = engine_realloc(known.sizes, (known.count + 1) * sizeof(*known.sizes));
    known.sizes[known.count++] = *size;
}

void
connect_sizes(const struct plan *plan)
{
    uint64_t most = largest_unknown(plan);
    if (most == 0)
        return;
    RELAX_CAPTURES();
    CUdeviceptr memory = allocate(&most);
    uint64_t own = most;
    least_of_ranks("memory to connect ranks", &most, 1);
    if (most > 0)
        CUDA("cuMemsetD8Async", cuMemsetD8Async, memory, 0, most, first_stream());
    for (size_t k = 0; k < plan->bucket_count; ++k) {
        struct size size = size_of(&plan->buckets[k]);
        if (size.bytes <= most && !is_known(&size)) /* a larger one may meet the others late: there is no memory */
            reduce_once(memory, &size);
    }
    struct size words = size_of_words(plan);
    if (words.bytes <= most && !is_known(&words))
        reduce_once(memory, &words);
    streams_wait_for_buckets();
    if (own > 0)
        (void)engine_state.driver.cuMemFree_p(memory);
}
