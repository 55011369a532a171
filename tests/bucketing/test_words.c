/*
 * test_words.c - the search for addresses finds exactly the places that a plain loop finds, at any alignment and
 * length, and in ranges within one, across two and over many upper halves.
 */
#include "bucketing/words.h"

#include <check.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { CASES = 400, BYTES_AT_MOST = 3000 };

static uint64_t
random_word(unsigned *seed)
{
    uint64_t word = 0;
    for (int i = 0; i < 5; ++i)
        word = word << 15 ^ (uint64_t)rand_r(seed);
    return word;
}

/* A range of addresses, and memory with some words in it, some just outside and noise. */
static void
fill(unsigned *seed, unsigned char *memory, size_t bytes, uint64_t low, uint64_t high)
{
    for (size_t i = 0; i < bytes; ++i)
        memory[i] = (unsigned char)(rand_r(seed) >> 8);
    size_t planted = (size_t)rand_r(seed) % 6;
    for (size_t i = 0; i < planted && bytes >= 8; ++i) {
        uint64_t words[] = {low, high - 1, high, low - 1, low + random_word(seed) % (high - low)};
        size_t at = (size_t)rand_r(seed) % (bytes - 7);
        if (rand_r(seed) % 4 != 0)
            at -= at % 4;
        memcpy(memory + at, &words[rand_r(seed) % 5], 8);
    }
}

START_TEST(it_finds_what_a_plain_loop_finds)
{
    static unsigned char buffer[BYTES_AT_MOST + 64];
    unsigned seed = (unsigned)_i + 1;
    static const int spans[] = {12, 31, 33, 40, 47};
    size_t bytes = (size_t)rand_r(&seed) % (_i % 2 == 0 ? 40 : BYTES_AT_MOST);
    unsigned char *memory = buffer + rand_r(&seed) % 33;
    uint64_t low = UINT64_C(0x7f0000000000) + random_word(&seed) % (UINT64_C(1) << 36);
    uint64_t high = low + 1 + random_word(&seed) % (UINT64_C(1) << spans[rand_r(&seed) % 5]);
    fill(&seed, memory, bytes, low, high);

    size_t expected = 0, found = words_find(memory, bytes, 0, low, high);
    for (; expected + 8 <= bytes; expected += 4) {
        uint64_t word;
        memcpy(&word, memory + expected, sizeof(word));
        if (word < low || word >= high)
            continue;
        ck_assert_uint_eq(found, expected);
        found = words_find(memory, bytes, found + 4, low, high);
    }
    ck_assert_uint_eq(found, WORDS_NONE);
}
END_TEST

START_TEST(an_empty_range_holds_nothing)
{
    uint64_t words[64] = {0};
    ck_assert_uint_eq(words_find(words, sizeof(words), 0, 0, 0), WORDS_NONE);
    ck_assert_uint_eq(words_find(words, sizeof(words), 0, 5, 1), WORDS_NONE);
    ck_assert_uint_eq(words_find(words, 7, 0, 0, 1), WORDS_NONE);
    ck_assert_uint_eq(words_find(words, 8, 0, 0, 1), 0);
}
END_TEST

int
main(void)
{
    Suite *suite = suite_create("words");
    TCase *tcase = tcase_create("properties");
    tcase_add_loop_test(tcase, it_finds_what_a_plain_loop_finds, 0, CASES);
    tcase_add_test(tcase, an_empty_range_holds_nothing);
    suite_add_tcase(suite, tcase);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
