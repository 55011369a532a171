/*
 * plans.c - before a plan of buckets takes effect, the ranks make sure that all have the same.
 *
 * A rank that sent other buckets than the others would average other gradients with theirs, and NCCL need not notice.
 * Hashes are compared; only if they differ do the ranks show each other their plans, to say where.
 */
#include "interpose/engine/plan/planner.h"

#include <xxhash.h>

/* A piece of a plan, as ranks show it to each other. */
struct shown {
    uint64_t bucket, first_byte, bytes;
    char text[TENSOR_TEXT_BYTES];
};

static uint64_t
hash_of_plan(const struct plan *plan)
{
    size_t bytes;
    void *serialised = plan_bytes(plan, &bytes);
    require_allocated(serialised != NULL);
    uint64_t hash = XXH3_64bits(serialised, bytes);
    free(serialised);
    return hash;
}

/* All pieces, in the order in which they leave; malloc'ed. */
static struct shown *
show_plan(const struct group *group, const struct plan *plan)
{
    struct shown *shown = engine_calloc(plan->piece_count + 1, sizeof(*shown));
    for (size_t k = 0; k < plan->bucket_count; ++k) {
        const struct plan_bucket *bucket = &plan->buckets[k];
        for (size_t i = bucket->first; i < bucket->first + bucket->count; ++i) {
            const struct plan_piece *piece = &plan->pieces[i];
            const struct tensor tensor = LOCKED(*tensor_gradient(group, piece->gradient));
            shown[i] = (struct shown){.bucket = k, .first_byte = piece->first_byte, .bytes = piece->bytes};
            (void)tensor_describe(&tensor, shown[i].text);
        }
    }
    return shown;
}

/* "gradient 1 of 6 (`w`, 16 float32, train.cu:12), bytes 0 to 64, in bucket 3", or that there is no such piece. */
static void
describe_piece(const struct shown *pieces, size_t count, size_t at, char *text, size_t bytes)
{
    if (at >= count) {
        snprintf(text, bytes, "nothing more");
        return;
    }
    const struct shown *piece = &pieces[at];
    uint64_t end = piece->first_byte + piece->bytes;
    snprintf(text, bytes, "%.*s, bytes %llu to %llu, in bucket %llu", TENSOR_TEXT_BYTES - 1, piece->text,
             (unsigned long long)piece->first_byte, (unsigned long long)end, (unsigned long long)piece->bucket);
}

static bool
is_same(const struct shown *a, const struct shown *b)
{
    return a->bucket == b->bucket && a->first_byte == b->first_byte && a->bytes == b->bytes &&
           strncmp(a->text, b->text, TENSOR_TEXT_BYTES) == 0;
}

/* Ends the job with the first difference between ranks `a` and `b`: in the same words on all ranks. */
static void __attribute__((noreturn)) stop_with_difference(const struct control_messages *all, int a, int b)
{
    const struct shown *of_a = all->messages[a], *of_b = all->messages[b];
    size_t count_a = all->bytes[a] / sizeof(*of_a), count_b = all->bytes[b] / sizeof(*of_b), at = 0;
    char piece_a[2 * TENSOR_TEXT_BYTES], piece_b[2 * TENSOR_TEXT_BYTES];
    while (at < count_a && at < count_b && is_same(&of_a[at], &of_b[at]))
        ++at;
    describe_piece(of_a, count_a, at, piece_a, sizeof(piece_a));
    describe_piece(of_b, count_b, at, piece_b, sizeof(piece_b));
    stop_job("ranks %d and %d have different plans of buckets, and nothing was sent by them: as its piece number "
             "%zu, rank %d would send %s; rank %d %s; are all ranks the same program with the same options?",
             a, b, at + 1, a, piece_a, b, piece_b);
}

void
plans_compare(const struct group *group, const struct plan *plan)
{
    uint64_t hash = hash_of_plan(plan);
    struct control_messages all;
    int other = 0;
    exchange("the hash of the plan of buckets", &hash, sizeof(hash), &all);
    for (int r = 1; r < all.count && other == 0; ++r) { /* rank 0's with the others': the same answer on all ranks */
        if (all.bytes[r] != all.bytes[0] || memcmp(all.messages[r], all.messages[0], all.bytes[0]) != 0)
            other = r;
    }
    control_free_messages(&all);
    if (other == 0)
        return;
    struct shown *shown = show_plan(group, plan);
    exchange("plans of buckets that differ", shown, plan->piece_count * sizeof(*shown), &all);
    stop_with_difference(&all, 0, other);
}
