/*
 * test_ranges.c - the table of ranges finds what a search through all bytes finds, and never holds an overlap.
 */
#include "bucketing/ranges.h"

#include "tests/lib/test.h"

enum { CASES = 300, SPACE = 400, STEPS = 120 };

/* The model: which range each byte of a small address space belongs to; -1: none. */
struct model {
    long owner[SPACE];
};

static bool
model_is_free(const struct model *model, uint64_t begin, uint64_t bytes)
{
    for (uint64_t at = begin; at < begin + bytes; ++at) {
        if (model->owner[at] >= 0)
            return false;
    }
    return true;
}

static void
model_fill(struct model *model, uint64_t begin, uint64_t bytes, long owner)
{
    for (uint64_t at = begin; at < begin + bytes; ++at)
        model->owner[at] = owner;
}

static void
check_find(struct ranges *ranges, const struct model *model, uint64_t begin, uint64_t bytes)
{
    bool expected[STEPS + 1] = {false}, found[STEPS + 1] = {false};
    for (uint64_t at = begin; at < begin + bytes; ++at) {
        if (model->owner[at] >= 0)
            expected[model->owner[at]] = true;
    }
    size_t count;
    const struct range *range = ranges_find(ranges, begin, bytes, &count);
    ck_assert_int_eq(range == NULL, count == 0);
    for (size_t i = 0; i < count; ++i) {
        found[range[i].id] = true;
        if (i > 0)
            ck_assert_uint_le(range[i - 1].end, range[i].begin);
    }
    ck_assert_mem_eq(found, expected, sizeof(found));
}

SEED_TEST(random_tables_agree_with_the_model, 1, CASES)
{
    struct ranges ranges = {0};
    struct model model;
    for (int i = 0; i < SPACE; ++i)
        model.owner[i] = -1;

    for (long step = 0; step < STEPS; ++step) {
        uint64_t begin = (uint64_t)(rand_r(&seed) % (SPACE - 40)), bytes = 1 + (uint64_t)(rand_r(&seed) % 30);
        if (rand_r(&seed) % 4 == 0) {
            /* Removing works exactly where a range begins. */
            long owner = model.owner[begin];
            bool begins = owner >= 0 && (begin == 0 || model.owner[begin - 1] != owner);
            ck_assert_int_eq(ranges_remove(&ranges, begin), begins);
            for (int i = 0; begins && i < SPACE; ++i)
                model.owner[i] = model.owner[i] == owner ? -1 : model.owner[i];
        } else {
            struct range other;
            enum ranges_status status = ranges_add(&ranges, begin, bytes, (size_t)step, &other);
            bool is_free = model_is_free(&model, begin, bytes);
            ck_assert_int_eq(status, is_free ? RANGES_OK : RANGES_OVERLAP);
            if (is_free)
                model_fill(&model, begin, bytes, step);
            else
                ck_assert(other.begin < begin + bytes && begin < other.end &&
                          model.owner[other.begin] == (long)other.id);
        }
        if (rand_r(&seed) % 8 == 0)
            check_find(&ranges, &model, (uint64_t)(rand_r(&seed) % (SPACE - 60)), 1 + (uint64_t)(rand_r(&seed) % 50));
    }
    ranges_free(&ranges);
}

/* What that costs is measured by tests/bench/hooks.py. */
TEST(ranges_of_two_arenas_in_turn_stay_sorted)
{
    enum { MOST = 10000 };
    struct ranges ranges = {0};
    size_t count;
    for (size_t i = 0; i < MOST; ++i)
        ck_assert_int_eq(ranges_add(&ranges, (i % 2 + 1) << 40 | i << 4, 8, i, NULL), RANGES_OK);
    for (size_t i = 0; i < MOST; i += 37)
        ck_assert_uint_eq(ranges_find(&ranges, ((i % 2 + 1) << 40 | i << 4) + 7, 1, &count)->id, i);
    ck_assert_uint_eq(ranges.count, MOST);
    ranges_free(&ranges);
}

TEST(empty_and_wrapping_ranges_are_refused)
{
    struct ranges ranges = {0};
    ck_assert_int_eq(ranges_add(&ranges, 16, 0, 1, NULL), RANGES_EMPTY);
    ck_assert_int_eq(ranges_add(&ranges, UINT64_MAX - 3, 8, 1, NULL), RANGES_EMPTY);
    ck_assert_uint_eq(ranges.count, 0);
    ranges_free(&ranges);
}

TEST(a_search_past_the_end_of_the_address_space_is_clipped)
{
    struct ranges ranges = {0};
    size_t count;
    ck_assert_int_eq(ranges_add(&ranges, UINT64_MAX - 64, 32, 7, NULL), RANGES_OK);
    ck_assert_ptr_nonnull(ranges_find(&ranges, UINT64_MAX - 100, UINT64_MAX, &count));
    ck_assert_uint_eq(count, 1);
    ranges_free(&ranges);
}
