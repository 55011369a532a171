/*
 * test_operands.c - an operand with holes reaches a range exactly when one of its bytes lies in it: random vectors,
 * matrices and batches, overlapping ones too, against a map of every byte.
 */
#include "interpose/engine/memory/memory.h"

#include "tests/lib/test.h"

enum { CASES = 20000, BYTES = 400, BASE = 5000 };

static uint64_t state = 88172645463325252u;

static size_t
below(size_t bound)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (size_t)(state % bound);
}

/* Marks what the operand means; returns its bounds. */
static size_t
mark(bool *map, const struct pieces *pieces)
{
    size_t last = 0;
    for (size_t o = 0; o < pieces->outer_count; ++o) {
        for (size_t i = 0; i < pieces->inner_count; ++i) {
            for (size_t b = 0; b < pieces->bytes; ++b) {
                size_t at = o * pieces->outer_stride + i * pieces->inner_stride + b;
                map[at] = true;
                last = at > last ? at : last;
            }
        }
    }
    return last + 1;
}

TEST(reaches_what_a_map_of_bytes_shows)
{
    for (int i = 0; i < CASES; ++i) {
        struct pieces pieces = {1 + below(9), 1 + below(5), below(20), 1 + below(4), below(60)};
        bool map[BYTES] = {false};
        struct operand operand = {.address = BASE, .bytes = mark(map, &pieces), .pieces = pieces};
        size_t begin = below(BYTES), end = begin + 1 + below(BYTES - begin);
        bool expected = memchr(map + begin, true, end - begin) != NULL;
        ck_assert_msg(operand_reaches(&operand, BASE + begin, BASE + end) == expected,
                      "case %d: %zu bytes, %zu x %zu, %zu x %zu: [%zu, %zu) %d", i, pieces.bytes, pieces.inner_count,
                      pieces.inner_stride, pieces.outer_count, pieces.outer_stride, begin, end, expected);
    }
}

TEST(without_holes_only_the_bounds_count)
{
    struct operand operand = {.address = BASE, .bytes = 10};
    ck_assert(operand_reaches(&operand, BASE + 9, BASE + 10));
    ck_assert(!operand_reaches(&operand, BASE + 10, BASE + 11));
    ck_assert(!operand_reaches(&operand, BASE - 1, BASE));
    ck_assert(operand_reaches(&operand, BASE - 1, BASE + 1));
}
