/*
 * test_allocations.c - the engine's set of live allocations agrees with a map of single bytes, through any sequence of
 * allocations, also over memory that is there, and frees, also of parts; and what can be an address lies in its spans.
 */
#include "interpose/engine/memory/escapes.h"

#include "tests/lib/test.h"

#ifdef __clang__
#pragma clang diagnostic ignored "-Wthread-safety-analysis" /* one thread: nothing is locked */
#endif

enum { CASES = 100, STEPS = 200, BYTES = 300 };

static const uint64_t begin = 0x302000000;
static bool there[BYTES];

static bool
model_covers(size_t at, size_t bytes)
{
    for (size_t i = at; i < at + bytes; ++i) {
        if (!there[i])
            return false;
    }
    return true;
}

static bool
in_spans(uint64_t address)
{
    struct words_spans spans = allocations_spans();
    for (size_t s = 0; s < spans.count; ++s) {
        if (address >= spans.spans[s].low && address < spans.spans[s].high)
            return true;
    }
    return false;
}

LOOP_TEST(it_agrees_with_a_map_of_bytes, 0, CASES)
{
    unsigned seed = (unsigned)_i + 1;
    ck_assert(allocations_remove(begin, BYTES)); /* what another case has left */
    memset(there, 0, sizeof(there));
    for (int step = 0; step < STEPS; ++step) {
        size_t bytes = 1 + (size_t)rand_r(&seed) % 20, at = (size_t)rand_r(&seed) % (BYTES - bytes);
        bool adds = rand_r(&seed) % 2 == 0;
        ck_assert(adds ? allocations_add(begin + at, bytes, MEMORY_DEVICE) : allocations_remove(begin + at, bytes));
        memset(there + at, adds, bytes);
        size_t wrong = 0;
        for (size_t i = 0; i < BYTES; ++i) {
            bool covered = allocations_cover(begin + i, 1, MEMORY_DEVICE);
            wrong += covered != there[i] || (covered && !in_spans(begin + i));
        }
        ck_assert_uint_eq(wrong, 0);
        bytes = 1 + (size_t)rand_r(&seed) % 40;
        at = (size_t)rand_r(&seed) % (BYTES - bytes);
        ck_assert_int_eq(allocations_cover(begin + at, bytes, MEMORY_DEVICE), model_covers(at, bytes));
    }
}

TEST(chunks_follow_each_other_and_other_memory_does_not)
{
    ck_assert(allocations_remove(begin, BYTES));
    ck_assert(allocations_add(begin, 10, MEMORY_MAPPED));
    ck_assert(allocations_add(begin + 10, 10, MEMORY_MAPPED));
    ck_assert(allocations_add(begin + 20, 10, MEMORY_DEVICE));
    ck_assert(allocations_cover(begin + 5, 15, MEMORY_MAPPED));
    ck_assert(!allocations_cover(begin + 5, 16, MEMORY_MAPPED));
    ck_assert(allocations_cover(begin, 30, MEMORY_DEVICE));
    ck_assert(!allocations_cover(begin, 31, MEMORY_DEVICE));
    ck_assert_uint_eq(allocations_bytes_at(begin + 10), 10);
    ck_assert_uint_eq(allocations_bytes_at(begin + 11), 0);
    ck_assert(allocations_remove(begin + 12, 3));
    ck_assert(!allocations_cover(begin, 20, MEMORY_MAPPED));
    ck_assert(allocations_cover(begin + 15, 5, MEMORY_MAPPED));
}
