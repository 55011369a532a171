/*
 * test_plan.c - a plan holds every byte of every gradient once, in the order given, in buckets of one type and within
 * the cap, and no two neighbours could have been one bucket; pieces that are not the gradients are refused; plans have
 * the same bytes exactly when they are the same.
 */
#include "bucketing/plan.h"

#include "tests/lib/test.h"

enum { CASES = 500, GRADIENTS = 24 };

struct plan_case {
    struct plan_gradient gradients[GRADIENTS];
    size_t order[GRADIENTS];
    size_t count;
    uint64_t cap_bytes;
};

static struct plan_case
random_case(unsigned seed)
{
    uint64_t unit_bytes = rand_r(&seed) % 2 == 0 ? 1 : 4321; /* below and above what is worth splitting for */
    struct plan_case made = {.count = (size_t)(rand_r(&seed) % GRADIENTS),
                             .cap_bytes = unit_bytes * (uint64_t)(rand_r(&seed) % 3000)};
    for (size_t i = 0; i < made.count; ++i) {
        made.gradients[i] =
            (struct plan_gradient){unit_bytes * (1 + (uint64_t)(rand_r(&seed) % 1000)), rand_r(&seed) % 4 == 0 ? 2 : 1};
        size_t at = (size_t)rand_r(&seed) % (i + 1); /* inside-out shuffle */
        made.order[i] = made.order[at];
        made.order[at] = i;
    }
    return made;
}

static const struct plan *
build(const struct plan_case *of)
{
    return plan_build(1, of->gradients, of->order, of->count, of->cap_bytes);
}

/* Takes a piece off the front of what is left of the order; checks that it is the next one. */
static void
take_piece(const struct plan_case *made, const struct plan *plan, size_t piece, size_t bucket, size_t *next,
           uint64_t *at)
{
    const struct plan_piece *of = &plan->pieces[piece];
    const struct plan_gradient *gradient = &made->gradients[of->gradient];
    ck_assert_uint_lt(*next, made->count);
    ck_assert_uint_eq(of->gradient, made->order[*next]);
    ck_assert_uint_eq(of->first_byte, *at);
    ck_assert_uint_gt(of->bytes, 0);
    ck_assert_int_eq(gradient->type, plan->buckets[bucket].type);
    if (*at == 0)
        ck_assert_uint_eq(plan->bucket_of[of->gradient], bucket);
    *at += of->bytes;
    ck_assert_uint_le(*at, gradient->bytes);
    ck_assert(*at == gradient->bytes || (made->cap_bytes >= PLAN_LEAST_SPLIT_BYTES && *at % PLAN_CUT_BYTES == 0));
    if (*at == gradient->bytes) {
        ck_assert_uint_eq(plan->last_bucket_of[of->gradient], bucket);
        *at = 0;
        ++*next;
    }
}

static void
check_plan(const struct plan_case *made, const struct plan *plan)
{
    size_t next = 0, piece = 0;
    uint64_t at = 0;
    for (size_t k = 0; k < plan->bucket_count; ++k) {
        const struct plan_bucket *bucket = &plan->buckets[k];
        uint64_t bytes = 0;
        ck_assert_uint_eq(bucket->first, piece);
        ck_assert_uint_gt(bucket->count, 0);
        for (; piece < bucket->first + bucket->count; ++piece) {
            take_piece(made, plan, piece, k, &next, &at);
            bytes += plan->pieces[piece].bytes;
        }
        ck_assert_uint_eq(bytes, bucket->bytes);
        ck_assert(bytes <= made->cap_bytes || (bucket->count == 1 && made->cap_bytes < PLAN_LEAST_SPLIT_BYTES));

        /* Greedy: the next gradient, or its first piece, would not have fitted. */
        if (k + 1 < plan->bucket_count) {
            const struct plan_piece *after = &plan->pieces[piece];
            ck_assert(made->gradients[after->gradient].type != bucket->type || bytes + after->bytes > made->cap_bytes);
        }
    }
    ck_assert_uint_eq(piece, plan->piece_count);
    ck_assert_uint_eq(next, made->count);
}

SEED_TEST(plans_hold_their_promises, 0, CASES)
{
    struct plan_case made = random_case(seed);
    const struct plan *plan = build(&made);
    ck_assert_ptr_nonnull(plan);
    ck_assert_uint_eq(plan->gradient_count, made.count);
    check_plan(&made, plan);
    plan_free(plan);
}

SEED_TEST(bytes_tell_plans_apart, 9000, CASES)
{
    struct plan_case made = random_case(seed);
    if (made.count < 2)
        return;
    const struct plan *plan = build(&made), *same = build(&made);
    size_t swapped = made.order[0];
    made.order[0] = made.order[1];
    made.order[1] = swapped;
    const struct plan *other = build(&made);

    size_t plan_size, same_size, other_size;
    void *plan_data = plan_bytes(plan, &plan_size), *same_data = plan_bytes(same, &same_size),
         *other_data = plan_bytes(other, &other_size);
    ck_assert_uint_eq(plan_size, same_size);
    ck_assert_mem_eq(plan_data, same_data, plan_size);
    ck_assert(plan_size != other_size || memcmp(plan_data, other_data, plan_size) != 0);

    free(plan_data);
    free(same_data);
    free(other_data);
    plan_free(plan);
    plan_free(same);
    plan_free(other);
}

TEST(an_order_that_is_no_permutation_is_refused)
{
    struct plan_gradient gradients[] = {{4, 1}, {4, 1}};
    size_t twice[] = {0, 0}, beyond[] = {0, 2};
    ck_assert_ptr_null(plan_build(1, gradients, twice, 2, 100));
    ck_assert_ptr_null(plan_build(1, gradients, beyond, 2, 100));
}

TEST(pieces_that_are_not_the_gradients_are_refused)
{
    struct plan_gradient gradients[] = {{100, 1}, {50, 1}, {50, 2}};
    struct plan_piece whole[] = {{0, 0, 60}, {0, 60, 40}, {1, 0, 50}, {2, 0, 50}};
    size_t ends[] = {1, 3, 4};
    const struct plan *plan = plan_of_pieces(1, gradients, 3, whole, 4, ends, 3);
    ck_assert_ptr_nonnull(plan);
    ck_assert_uint_eq(plan->bucket_of[0], 0);
    ck_assert_uint_eq(plan->last_bucket_of[0], 1);
    plan_free(plan);

    struct plan_piece gap[] = {{0, 0, 60}, {0, 61, 39}, {1, 0, 50}, {2, 0, 50}};
    struct plan_piece short_of[] = {{0, 0, 60}, {0, 60, 39}, {1, 0, 50}, {2, 0, 50}};
    struct plan_piece twice[] = {{0, 0, 100}, {1, 0, 50}, {0, 0, 100}, {2, 0, 50}};
    struct plan_piece apart[] = {{0, 0, 60}, {1, 0, 50}, {0, 60, 40}, {2, 0, 50}};
    struct plan_piece beyond[] = {{0, 0, 60}, {0, 60, 41}, {1, 0, 50}, {2, 0, 50}};
    struct plan_piece unknown[] = {{0, 0, 60}, {0, 60, 40}, {3, 0, 50}, {2, 0, 50}};
    const struct plan_piece *wrong[] = {gap, short_of, twice, apart, beyond, unknown};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); ++i)
        ck_assert_ptr_null(plan_of_pieces(1, gradients, 3, wrong[i], 4, ends, 3));

    size_t mixed[] = {1, 4}, empty[] = {1, 1, 3, 4}, unfinished[] = {1, 3};
    ck_assert_ptr_null(plan_of_pieces(1, gradients, 3, whole, 4, mixed, 2));
    ck_assert_ptr_null(plan_of_pieces(1, gradients, 3, whole, 4, empty, 4));
    ck_assert_ptr_null(plan_of_pieces(1, gradients, 3, whole, 4, unfinished, 2));
    ck_assert_ptr_null(plan_of_pieces(1, gradients, 3, whole, 3, unfinished, 2)); /* the last gradient is missing */
}

/* Buckets of a joined plan end where some of the plan's end, hold so many of them, and all bytes in their order. */
static void
check_joined(const struct plan *plan, const struct plan *joined, size_t neighbours)
{
    size_t own = 0;
    for (size_t k = 0; k < joined->bucket_count; ++k) {
        uint64_t bytes = 0;
        size_t count = 0;
        for (; bytes < joined->buckets[k].bytes; ++count) {
            ck_assert_uint_lt(own, plan->bucket_count);
            ck_assert_int_eq(plan->buckets[own].type, joined->buckets[k].type);
            bytes += plan->buckets[own++].bytes;
        }
        ck_assert_uint_eq(bytes, joined->buckets[k].bytes);
        ck_assert_uint_le(count, neighbours);
        bool full = count == neighbours, last = own == plan->bucket_count;
        ck_assert(full || last || plan->buckets[own].type != joined->buckets[k].type);
    }
    ck_assert_uint_eq(own, plan->bucket_count);
}

SEED_TEST(joined_plans_have_so_many_neighbours_in_a_bucket, 0, CASES)
{
    struct plan_case made = random_case(seed);
    const struct plan *plan = build(&made);
    for (size_t neighbours = 2; neighbours <= 4; ++neighbours) {
        const struct plan *joined = plan_join(plan, made.gradients, neighbours);
        if (joined != NULL)
            check_joined(plan, joined, neighbours);
        else /* no two neighbours are of one type */
            for (size_t k = 1; k < plan->bucket_count; ++k)
                ck_assert_int_ne(plan->buckets[k - 1].type, plan->buckets[k].type);
        plan_free(joined);
    }
    plan_free(plan);
}

TEST(joined_by_size_the_first_bucket_has_a_mebibyte_and_the_others_25)
{
    enum { COUNT = 130, MIB = 1 << 20 };
    struct plan_gradient gradients[COUNT];
    size_t order[COUNT];
    for (size_t i = 0; i < COUNT; ++i) {
        gradients[i] = (struct plan_gradient){MIB / 2, 1};
        order[i] = COUNT - 1 - i;
    }
    const struct plan *plan = plan_build(1, gradients, order, COUNT, MIB / 2), *joined = plan_join(plan, gradients, 0);
    ck_assert_ptr_nonnull(joined);
    ck_assert_uint_eq(joined->bucket_count, 4);
    ck_assert_uint_eq(joined->buckets[0].bytes, 1 * MIB);
    ck_assert_uint_eq(joined->buckets[1].bytes, 25 * MIB);
    ck_assert_uint_eq(joined->buckets[2].bytes, 25 * MIB);
    ck_assert_uint_eq(joined->buckets[3].bytes, 14 * MIB);
    ck_assert_uint_eq(joined->pieces[0].gradient, COUNT - 1);
    ck_assert(!plan_has_buckets_of(plan, joined));
    ck_assert_ptr_null(plan_join(joined, gradients, 0)); /* it has them */
    plan_free(joined);
    plan_free(plan);
}
