/*
 * test_words.c - the search for addresses finds exactly the places that a plain loop finds, at any alignment and
 * length, in spans within one, across two and over many upper halves; a pointer among tokens is found wherever it
 * stands; and spans hold all ranges, with as little between them as so few can.
 *
 * With the argument `scan KIND MIB` it scans so much of one kind of input instead, with live allocations where a GPU
 * has them, and prints how many bytes that were: for callgrind.
 */
#include "bucketing/words.h"

#include "tests/lib/test.h"

enum { CASES = 400, BYTES_AT_MOST = 3000, TOKENS = 65536, VOCABULARY = 50257 };

static uint64_t
random_word(unsigned *seed)
{
    uint64_t word = 0;
    for (int i = 0; i < 5; ++i)
        word = word << 15 ^ (uint64_t)rand_r(seed);
    return word;
}

/* Memory with some words in or near spans, and noise. */
static void
fill(unsigned *seed, unsigned char *memory, size_t bytes, const struct words_spans *spans)
{
    for (size_t i = 0; i < bytes; ++i)
        memory[i] = (unsigned char)(rand_r(seed) >> 8);
    size_t planted = (size_t)rand_r(seed) % 6;
    for (size_t i = 0; i < planted && bytes >= 8 && spans->count > 0; ++i) {
        size_t s = (size_t)rand_r(seed) % spans->count;
        uint64_t low = spans->spans[s].low, high = spans->spans[s].high;
        uint64_t words[] = {low, high - 1, high, low - 1, low + random_word(seed) % (high - low)};
        size_t at = (size_t)rand_r(seed) % (bytes - 7);
        if (rand_r(seed) % 4 != 0)
            at -= at % 4;
        memcpy(memory + at, &words[rand_r(seed) % 5], 8);
    }
}

static struct words_spans
random_spans(unsigned *seed)
{
    static const int widths[] = {12, 31, 33, 40, 42};
    struct words_spans spans = {.count = (size_t)rand_r(seed) % (WORDS_SPANS + 1)};
    uint64_t at = rand_r(seed) % 2 == 0 ? UINT64_C(0x302000000) : UINT64_C(0x7f0000000000);
    for (size_t s = 0; s < spans.count; ++s) {
        spans.spans[s].low = at + random_word(seed) % (UINT64_C(1) << 36);
        spans.spans[s].high = spans.spans[s].low + 1 + random_word(seed) % (UINT64_C(1) << widths[rand_r(seed) % 5]);
        at = spans.spans[s].high + 1;
    }
    return spans;
}

TEST_GROUP(properties, .timeout_s = 100);

SEED_TEST(it_finds_what_a_plain_loop_finds, 1, CASES)
{
    static unsigned char buffer[BYTES_AT_MOST + 64];
    size_t most = seed % 2 == 1 ? 40 : BYTES_AT_MOST, bytes = (size_t)rand_r(&seed) % most;
    unsigned char *memory = buffer + rand_r(&seed) % 33;
    struct words_spans spans = random_spans(&seed);
    fill(&seed, memory, bytes, &spans);

    size_t expected = 0, found = words_find(memory, bytes, 0, &spans);
    for (; expected + 8 <= bytes; expected += 4) {
        uint64_t word;
        bool in = false;
        memcpy(&word, memory + expected, sizeof(word));
        for (size_t s = 0; s < spans.count; ++s)
            in = in || (word >= spans.spans[s].low && word < spans.spans[s].high);
        if (!in)
            continue;
        ck_assert_uint_eq(found, expected);
        found = words_find(memory, bytes, found + 4, &spans);
    }
    ck_assert_uint_eq(found, WORDS_NONE);
}

TEST(short_memory_and_no_spans_hold_nothing)
{
    uint64_t words[64] = {0};
    struct words_spans none = {0}, zero = {.count = 1, .spans = {{0, 1}}};
    ck_assert_uint_eq(words_find(words, sizeof(words), 0, &none), WORDS_NONE);
    ck_assert_uint_eq(words_find(words, 7, 0, &zero), WORDS_NONE);
    ck_assert_uint_eq(words_find(words, 8, 0, &zero), 0);
}

/* ---- inputs of a training step ---- */

/* Live allocations of a GPU: a few in a pool, many of cudaMalloc's. */
static struct ranges
gpu_ranges(void)
{
    struct ranges ranges = {0};
    bool whole = true;
    for (uint64_t i = 0; i < 8; ++i)
        whole = whole && ranges_add(&ranges, 0x302000000 + (i << 22), 3 << 20, 0, NULL) == RANGES_OK;
    for (uint64_t i = 0; i < 200; ++i) {
        uint64_t at = UINT64_C(0x7fdc00200000) + (i * 44017 % 71168 << 21);
        whole = whole && ranges_add(&ranges, at, 1 << 20, 0, NULL) == RANGES_OK;
    }
    if (!whole)
        exit(EXIT_FAILURE);
    return ranges;
}

static void
fill_batch(const char *kind, uint32_t *words)
{
    unsigned seed = 5;
    for (size_t i = 0; i < TOKENS; ++i) {
        uint32_t noise = (uint32_t)rand_r(&seed) >> 3;
        if (strcmp(kind, "int32") == 0)
            words[i] = noise % 8 == 0 ? noise / 8 % 64 : noise % VOCABULARY; /* a few tokens are frequent */
        else if (strcmp(kind, "bfloat16") == 0)
            words[i] = noise % 8 == 0 ? (0x3c00 + noise / 8 % 0x400) << 16 * (noise / 16 % 2) : 0;
        else
            words[i] = noise % 5 | noise / 8 % 3 << 8 | noise / 32 % 3 << 16 | noise / 128 % 4 << 24;
    }
}

TEST(a_pointer_among_tokens_is_found_wherever_it_stands)
{
    static uint32_t words[TOKENS];
    struct ranges ranges = gpu_ranges();
    struct words_spans spans = words_spans_of(&ranges);
    const uint64_t pointers[] = {0x302000004, UINT64_C(0x7fdc00200000) + (UINT64_C(44017) << 21) + 12};
    for (int p = 0; p < 2; ++p) {
        fill_batch("int32", words);
        size_t other = words_find(words, sizeof(words), 0, &spans);
        for (size_t i = 0; i + 1 < TOKENS; ++i) { /* from the block before it on, as a scan comes there */
            uint32_t saved[2] = {words[i], words[i + 1]};
            size_t from = i < 128 ? 0 : (i - 128) * 4, found;
            memcpy(&words[i], &pointers[p], sizeof(pointers[p]));
            for (found = words_find(words, sizeof(words), from, &spans); found < i * 4;)
                found = words_find(words, sizeof(words), found + 4, &spans);
            ck_assert_uint_eq(found, i * 4);
            memcpy(&words[i], saved, sizeof(saved));
        }
        ck_assert_uint_eq(words_find(words, sizeof(words), 0, &spans), other);
    }
    ranges_free(&ranges);
}

/* ---- spans ---- */

SEED_TEST(spans_hold_all_ranges_and_split_at_the_widest_gaps, 1, CASES)
{
    struct ranges ranges = {0};
    uint64_t at = 0x302000000, between = 0, gaps[64];
    size_t count = (size_t)rand_r(&seed) % 40, gap_count = 0;
    for (size_t i = 0; i < count; ++i) {
        uint64_t gap = random_word(&seed) % (UINT64_C(1) << (12 + rand_r(&seed) % 30));
        uint64_t bytes = 1 + random_word(&seed) % (1 << 20);
        if (i > 0)
            gaps[gap_count++] = gap;
        ck_assert_int_eq(ranges_add(&ranges, at += gap, bytes, 0, NULL), RANGES_OK);
        at += bytes;
    }
    struct words_spans spans = words_spans_of(&ranges);
    ck_assert_uint_eq(spans.count, count < WORDS_SPANS ? count : WORDS_SPANS);
    for (size_t i = 0; i < count; ++i) {
        bool held = false;
        for (size_t s = 0; s < spans.count; ++s)
            held =
                held || (ranges.sorted[i].begin >= spans.spans[s].low && ranges.sorted[i].end <= spans.spans[s].high);
        ck_assert(held);
    }
    for (size_t s = 1; s < spans.count; ++s)
        between += spans.spans[s].low - spans.spans[s - 1].high;
    for (size_t k = 0; k < WORDS_SPANS - 1 && k < gap_count; ++k) { /* the widest ones, one after the other */
        size_t widest = 0;
        for (size_t i = 0; i < gap_count; ++i)
            widest = gaps[i] > gaps[widest] ? i : widest;
        between -= gaps[widest];
        gaps[widest] = 0;
    }
    ck_assert_uint_eq(between, 0);
    ranges_free(&ranges);
}

static int
scan(const char *kind, size_t mib)
{
    static uint32_t words[TOKENS];
    struct ranges ranges = gpu_ranges();
    struct words_spans spans = words_spans_of(&ranges);
    size_t bytes = 0, hits = 0;
    fill_batch(kind, words);
    for (; bytes < mib << 20; bytes += sizeof(words)) {
        size_t at = 0;
        while ((at = words_find(words, sizeof(words), at, &spans)) != WORDS_NONE) {
            ++hits;
            at += 4;
        }
    }
    printf("%zu bytes of %s scanned, %zu words in spans\n", bytes, kind, hits);
    ranges_free(&ranges);
    return EXIT_SUCCESS;
}

int
main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "scan") == 0)
        return scan(argv[2], strtoul(argv[3], NULL, 10));

    return tests_run();
}
