/*
 * plan.c - see plan.h.
 */
#include "bucketing/plan.h"

#include <endian.h>
#include <stdlib.h>

/* PyTorch's defaults. */
#define FIRST_BUCKET_BYTES (UINT64_C(1) << 20)
#define OTHER_BUCKET_BYTES (UINT64_C(25) << 20)

_Static_assert(PLAN_LEAST_SPLIT_BYTES % PLAN_CUT_BYTES == 0, "no piece that a cap makes is empty");

/* ---- a plan of given pieces ---- */

static struct plan *
new_plan(uint32_t version, size_t gradient_count, size_t piece_count, size_t bucket_count)
{
    struct plan *plan = calloc(1, sizeof(*plan));
    if (plan == NULL)
        return NULL;
    plan->version = version;
    plan->gradient_count = gradient_count;
    plan->pieces = calloc(piece_count + 1, sizeof(plan->pieces[0]));
    plan->bucket_of = calloc(gradient_count + 1, sizeof(plan->bucket_of[0]));
    plan->last_bucket_of = calloc(gradient_count + 1, sizeof(plan->last_bucket_of[0]));
    plan->buckets = calloc(bucket_count + 1, sizeof(plan->buckets[0]));
    if (plan->pieces == NULL || plan->bucket_of == NULL || plan->last_bucket_of == NULL || plan->buckets == NULL) {
        plan_free(plan);
        return NULL;
    }
    return plan;
}

/* The gradient that is being followed piece by piece. */
struct followed {
    const struct plan_gradient *gradients;
    unsigned char *seen; /* [gradient_count] */
    size_t count;
    size_t gradient; /* `count`: none so far */
    uint64_t next_byte;
};

/* Whether `piece` continues the gradient at hand, or begins another after the one at hand was whole. */
static bool
follow_piece(struct followed *followed, const struct plan_piece *piece)
{
    if (piece->gradient >= followed->count || piece->bytes == 0)
        return false;
    if (piece->gradient != followed->gradient) {
        bool whole = followed->gradient == followed->count ||
                     followed->next_byte == followed->gradients[followed->gradient].bytes;
        if (!whole || followed->seen[piece->gradient])
            return false;
        followed->seen[piece->gradient] = 1;
        followed->gradient = piece->gradient;
        followed->next_byte = 0;
    }
    if (piece->first_byte != followed->next_byte ||
        piece->bytes > followed->gradients[piece->gradient].bytes - piece->first_byte)
        return false;
    followed->next_byte += piece->bytes;
    return true;
}

/* Whether every gradient is there, whole. */
static bool
is_complete(const struct followed *followed)
{
    for (size_t i = 0; i < followed->count; ++i) {
        if (!followed->seen[i])
            return false;
    }
    return followed->count == 0 || followed->next_byte == followed->gradients[followed->gradient].bytes;
}

/* Adds the piece to the last bucket, which `begins` with it or has room for more of its type. */
static bool
add_piece(struct plan *plan, const struct plan_piece *piece, int type, bool begins)
{
    if (begins)
        plan->buckets[plan->bucket_count++] = (struct plan_bucket){.first = plan->piece_count, .type = type};
    size_t k = plan->bucket_count - 1;
    struct plan_bucket *bucket = &plan->buckets[k];
    if (bucket->type != type)
        return false;

    bucket->bytes += piece->bytes;
    plan->last_bucket_of[piece->gradient] = k;
    if (piece->first_byte == 0)
        plan->bucket_of[piece->gradient] = k;
    if (bucket->count > 0 && plan->pieces[plan->piece_count - 1].gradient == piece->gradient) {
        plan->pieces[plan->piece_count - 1].bytes += piece->bytes;
    } else {
        plan->pieces[plan->piece_count++] = *piece;
        ++bucket->count;
    }
    return true;
}

static bool
add_pieces(struct plan *plan, struct followed *followed, const struct plan_piece *pieces, size_t piece_count,
           const size_t *bucket_ends, size_t bucket_count)
{
    size_t i = 0;
    for (size_t k = 0; k < bucket_count; ++k) {
        if (bucket_ends[k] <= i || bucket_ends[k] > piece_count)
            return false;
        for (bool begins = true; i < bucket_ends[k]; ++i, begins = false) {
            if (!follow_piece(followed, &pieces[i]) ||
                !add_piece(plan, &pieces[i], followed->gradients[pieces[i].gradient].type, begins))
                return false;
        }
    }
    return i == piece_count && is_complete(followed);
}

const struct plan *
plan_of_pieces(uint32_t version, const struct plan_gradient *gradients, size_t gradient_count,
               const struct plan_piece *pieces, size_t piece_count, const size_t *bucket_ends, size_t bucket_count)
{
    unsigned char *seen = calloc(gradient_count + 1, 1);
    struct plan *plan = seen != NULL ? new_plan(version, gradient_count, piece_count, bucket_count) : NULL;
    struct followed followed = {
        .gradients = gradients, .seen = seen, .count = gradient_count, .gradient = gradient_count};
    if (plan != NULL && !add_pieces(plan, &followed, pieces, piece_count, bucket_ends, bucket_count)) {
        plan_free(plan);
        plan = NULL;
    }
    free(seen);
    return plan;
}

/* ---- a plan by size alone ---- */

/* Pieces and bounds of buckets under construction; arrays with room for all. */
struct draft {
    struct plan_piece *pieces;
    size_t *ends;
    size_t piece_count, bucket_count;
    uint64_t room_bytes; /* left in the last bucket */
    int type;            /* of the last bucket */
};

/* The size of the pieces in which a gradient of so many bytes is sent. */
static uint64_t
piece_bytes(uint64_t bytes, uint64_t cap_bytes)
{
    return cap_bytes < PLAN_LEAST_SPLIT_BYTES || bytes <= cap_bytes ? bytes
                                                                    : cap_bytes / PLAN_CUT_BYTES * PLAN_CUT_BYTES;
}

static void
add_gradient(struct draft *draft, const struct plan_gradient *gradient, size_t number, uint64_t cap_bytes)
{
    uint64_t most = piece_bytes(gradient->bytes, cap_bytes);
    for (uint64_t at = 0; at < gradient->bytes; at += most) {
        uint64_t left = gradient->bytes - at, bytes = left < most ? left : most;
        if (draft->bucket_count == 0 || draft->type != gradient->type || bytes > draft->room_bytes) {
            draft->room_bytes = cap_bytes > bytes ? cap_bytes : bytes;
            draft->type = gradient->type;
            ++draft->bucket_count;
        }
        draft->room_bytes -= bytes;
        draft->pieces[draft->piece_count++] = (struct plan_piece){number, at, bytes};
        draft->ends[draft->bucket_count - 1] = draft->piece_count;
    }
}

const struct plan *
plan_build(uint32_t version, const struct plan_gradient *gradients, const size_t *order, size_t count,
           uint64_t cap_bytes)
{
    size_t most = 0;
    for (size_t i = 0; i < count; ++i) {
        if (order[i] >= count)
            return NULL;
        uint64_t bytes = gradients[order[i]].bytes, each = piece_bytes(bytes, cap_bytes);
        most += bytes > 0 ? (bytes + each - 1) / each : 1;
    }
    struct draft draft = {
        .pieces = malloc((most + 1) * sizeof(*draft.pieces)),
        .ends = malloc((most + 1) * sizeof(*draft.ends)),
    };
    const struct plan *plan = NULL;
    if (draft.pieces != NULL && draft.ends != NULL) {
        for (size_t i = 0; i < count; ++i)
            add_gradient(&draft, &gradients[order[i]], order[i], cap_bytes);
        plan =
            plan_of_pieces(version, gradients, count, draft.pieces, draft.piece_count, draft.ends, draft.bucket_count);
    }
    free(draft.pieces);
    free(draft.ends);
    return plan;
}

/* Whether the last joined bucket, number `count` from 1, takes no more: so many buckets of the plan, and so many bytes,
 * are in it. */
static bool
is_full(size_t neighbours, size_t count, size_t joined, uint64_t bytes)
{
    if (neighbours > 0)
        return joined >= neighbours;
    return bytes >= (count == 1 ? FIRST_BUCKET_BYTES : OTHER_BUCKET_BYTES);
}

/* Where the joined buckets end, in ends[], which has room for all; returns how many. */
static size_t
join(const struct plan *plan, size_t neighbours, size_t *ends)
{
    size_t units = neighbours == 0 ? plan->piece_count : plan->bucket_count, count = 0, joined = 0;
    uint64_t bytes = 0;
    int type = 0;
    for (size_t i = 0, k = 0; i < units; ++i) {
        size_t end = neighbours == 0 ? i + 1 : plan->buckets[i].first + plan->buckets[i].count;
        while (plan->buckets[k].first + plan->buckets[k].count < end)
            ++k;
        bool begins = count == 0 || plan->buckets[k].type != type || is_full(neighbours, count, joined, bytes);
        type = plan->buckets[k].type;
        count += begins;
        joined = begins ? 1 : joined + 1;
        bytes = (begins ? 0 : bytes) + plan->pieces[end - 1].bytes;
        ends[count - 1] = end;
    }
    return count;
}

const struct plan *
plan_join(const struct plan *plan, const struct plan_gradient *gradients, size_t neighbours)
{
    size_t *ends = malloc((plan->piece_count + 1) * sizeof(*ends));
    const struct plan *other = NULL;
    if (ends == NULL)
        return NULL;
    size_t count = join(plan, neighbours, ends);
    other = plan_of_pieces(plan->version + 1, gradients, plan->gradient_count, plan->pieces, plan->piece_count, ends,
                           count);
    free(ends);
    if (other != NULL && plan_has_buckets_of(other, plan)) {
        plan_free(other);
        other = NULL;
    }
    return other;
}

bool
plan_has_buckets_of(const struct plan *plan, const struct plan *other)
{
    bool same = plan->bucket_count == other->bucket_count;
    for (size_t k = 0; same && k < plan->bucket_count; ++k)
        same = plan->buckets[k].bytes == other->buckets[k].bytes;
    return same;
}

void
plan_free(const struct plan *plan)
{
    if (plan == NULL)
        return;
    free(plan->pieces);
    free(plan->bucket_of);
    free(plan->last_bucket_of);
    free(plan->buckets);
    free((void *)(uintptr_t)plan);
}

void *
plan_bytes(const struct plan *plan, size_t *bytes_p)
{
    size_t words = 4 + 3 * plan->piece_count + 4 * plan->bucket_count;
    uint64_t *out = malloc(words * sizeof(*out));
    if (out == NULL)
        return NULL;

    uint64_t *word = out;
    *word++ = htole64(plan->version);
    *word++ = htole64(plan->gradient_count);
    *word++ = htole64(plan->piece_count);
    *word++ = htole64(plan->bucket_count);
    for (size_t i = 0; i < plan->piece_count; ++i) {
        *word++ = htole64(plan->pieces[i].gradient);
        *word++ = htole64(plan->pieces[i].first_byte);
        *word++ = htole64(plan->pieces[i].bytes);
    }
    for (size_t k = 0; k < plan->bucket_count; ++k) {
        const struct plan_bucket *bucket = &plan->buckets[k];
        *word++ = htole64(bucket->first);
        *word++ = htole64(bucket->count);
        *word++ = htole64(bucket->bytes);
        *word++ = htole64((uint64_t)bucket->type);
    }
    *bytes_p = words * sizeof(*out);
    return out;
}
