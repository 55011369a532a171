/*
 * test_sequence.c - Philox4x32-10 gives the numbers of its authors' known-answer tests, XORWOW those of its paper's
 * recurrence, and a sequence continued, or entered anywhere, is the same as one taken from its beginning.
 */
#include "curand/sequence.h"

#include "tests/lib/test.h"

/* Random123, kat_vectors: philox4x32, 10 rounds. */
LOOP_TEST(test_philox_known_answers, 0, 3)
{
    static const struct {
        uint32_t counter[4], key[2], block[4];
    } rows[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    uint32_t block[4];
    philox_block(rows[_i].counter, rows[_i].key, block);
    ck_assert_mem_eq(block, rows[_i].block, sizeof(block));
}

/* The recurrence with the names and the initial values of the paper (section 3.1). */
TEST(test_xorwow_is_the_papers)
{
    uint32_t x = 123456789, y = 362436069, z = 521288629, w = 88675123, v = 5783321, d = 6615241;
    const uint32_t start[5] = {x, y, z, w, v};
    struct sequence sequence;
    sequence_start_xorwow(&sequence, start, d);
    for (int i = 0; i < 1000; ++i) {
        uint32_t t = x ^ (x >> 2), got;
        x = y;
        y = z;
        z = w;
        w = v;
        v = (v ^ (v << 4)) ^ (t ^ (t << 1));
        d += 362437;
        sequence_take(&sequence, &got, 1);
        ck_assert_uint_eq(got, d + v);
    }
}

/* Any split into calls, and any entry point, gives the same numbers. */
LOOP_TEST(test_positions, 0, 2)
{
    enum { COUNT = 5000 };
    enum sequence_kind kind = _i ? SEQUENCE_PHILOX : SEQUENCE_XORWOW;
    static uint32_t whole[COUNT], part[COUNT];
    unsigned random = 3;
    for (int n = 0; n < 20; ++n) {
        uint64_t seed = (uint64_t)rand_r(&random) << 33 ^ (uint64_t)rand_r(&random);
        uint64_t from = n % 2 ? (uint64_t)rand_r(&random) << 30 : 0;
        struct sequence sequence;
        sequence_start(&sequence, kind, seed, from);
        sequence_take(&sequence, whole, COUNT);
        size_t at = (size_t)rand_r(&random) % COUNT;
        sequence_start(&sequence, kind, seed, from + at);
        for (size_t i = at; i < COUNT;) {
            size_t length = 1 + (size_t)rand_r(&random) % 100;
            length = length < COUNT - i ? length : COUNT - i;
            sequence_take(&sequence, part + i, length);
            i += length;
        }
        ck_assert_mem_eq(part + at, whole + at, (COUNT - at) * sizeof(whole[0]));
    }
}

TEST(test_seeds_differ)
{
    struct sequence first, second;
    uint32_t a[8], b[8];
    for (uint64_t seed = 0; seed < 64; ++seed) {
        enum sequence_kind kind = seed % 2 ? SEQUENCE_PHILOX : SEQUENCE_XORWOW;
        sequence_start(&first, kind, seed, 0);
        sequence_start(&second, kind, seed + ((uint64_t)1 << seed), 0);
        sequence_take(&first, a, 8);
        sequence_take(&second, b, 8);
        ck_assert_mem_ne(a, b, sizeof(a));
    }
}
