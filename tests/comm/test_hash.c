/*
 * test_hash.c - the hash of tensors is what comm/hash.h defines, on the host and on the device, for any address,
 * length and content and any shape of a launch; and what it must notice changes it. On the stand-in's driver, with the
 * kernels that jobs use.
 *
 * Usage: test_hash [KERNELS], others than those of the build.
 */
#include "device.h"

#include "comm/device_hash.h"
#include "comm/hash.h"

#include "tests/lib/test.h"

enum { ARENA_BYTES = 1 << 18, RANGES = 10000, RANKS = 7, TENSORS = 300 };

static struct kernels kernels;
static CUdeviceptr arena, results;
static unsigned char host[ARENA_BYTES];

/* ---- the definition, word by word ---- */

static uint64_t
key_of(unsigned i)
{
    return hash_mix((i + 1) * HASH_STEP);
}

static uint64_t
word_at(const unsigned char *data, size_t bytes, size_t at)
{
    uint64_t word = 0;
    for (size_t i = 0; i < 8 && at + i < bytes; ++i)
        word |= (uint64_t)data[at + i] << 8 * i;
    return word;
}

static uint64_t
defined(const unsigned char *data, size_t bytes)
{
    uint64_t sum = 0;
    for (size_t column = 0; column * 16 < bytes; ++column) {
        size_t block = column / 8, first = block * 4096 + column % 8 * 16;
        uint64_t even = 0, odd = 0;
        if (column % 8 == 0 && first >= bytes)
            break;
        if (first >= bytes)
            continue;
        for (unsigned row = 0; row < 32 && first + row * 128 < bytes; ++row) {
            uint64_t a = word_at(data, bytes, first + row * 128), b = word_at(data, bytes, first + row * 128 + 8);
            uint64_t x = a ^ key_of(2 * row), y = b ^ key_of(2 * row + 1);
            even += (x & 0xffffffff) * (x >> 32) + b;
            odd += (y & 0xffffffff) * (y >> 32) + a;
        }
        sum += hash_mix(hash_mix(even + (column + 1) * HASH_STEP) + odd);
    }
    return hash_mix(sum + hash_mix(bytes + HASH_STEP));
}

static void
open_device(void)
{
    arena = device_open(&kernels, ARENA_BYTES);
    require(driver.cuMemAlloc_p(&results, HASH_RANGES_AT_MOST * sizeof(struct hash_result)));
}

/* ---- the definition ---- */

TEST_GROUP(hash, .timeout_s = TEST_NO_TIMEOUT, .start = open_device);

TEST(keys_are_mixed_multiples)
{
    static const uint64_t keys[] = {HASH_KEYS};
    ck_assert_uint_eq(sizeof(keys) / sizeof(keys[0]), 2 * HASH_ROWS);
    for (unsigned i = 0; i < 2 * HASH_ROWS; ++i)
        ck_assert_uint_eq(keys[i], key_of(i));
}

/* The values that comm/hash.h names: the hash never changes unnoticed. */
TEST(known_values)
{
    static unsigned char counted[5000];
    for (size_t i = 0; i < sizeof(counted); ++i)
        counted[i] = (unsigned char)i;
    ck_assert_uint_eq(hash_bytes(NULL, 0), UINT64_C(0x48218226ff3cd4bf));
    ck_assert_uint_eq(hash_bytes(counted, 1), UINT64_C(0xb51b6152c97ee4ad));
    ck_assert_uint_eq(hash_bytes(counted, 5000), UINT64_C(0x23581076c2b86fe0));
}

TEST(host_is_as_defined)
{
    fill_random(host, sizeof(host));
    for (int i = 0; i < 2000; ++i) {
        size_t bytes = below(i % 4 == 0 ? 40000 : 300), at = below(64);
        ck_assert_uint_eq(hash_bytes(host + at, bytes), defined(host + at, bytes));
        size_t part = below(bytes / HASH_BLOCK + 1) * HASH_BLOCK;
        uint64_t sum = hash_part(0, 0, host + at, part);
        ck_assert_uint_eq(hash_end(hash_part(sum, part, host + at + part, bytes - part), bytes),
                          defined(host + at, bytes));
    }
}

/* ---- the device ---- */

/* What a range holds, as hash_look() has it, but element by element. */
static struct hash_result
look_slowly(const unsigned char *data, size_t bytes, uint64_t exponent, size_t each)
{
    struct hash_result found = {0, 0, 0};
    for (size_t at = 0; at + each <= bytes; at += each) {
        uint64_t element = word_at(data, at + each, at);
        found.infinite |= (element & exponent) == exponent;
        found.nonzero |= (element << (65 - 8 * each)) != 0;
    }
    return found;
}

static const struct {
    uint64_t exponent;
    size_t bytes;
} types[] = {{0, 1}, {0x7f800000, 4}, {0x7c00, 2}, {0x7f80, 2}, {UINT64_C(0x7ff) << 52, 8}};

struct asked {
    size_t at, bytes, type;
};

static struct asked
any_range(void)
{
    size_t most = below(4) == 0 ? 70000 : below(2) ? 5000 : 200;
    struct asked asked = {.type = below(5)};
    size_t each = types[asked.type].bytes;
    asked.bytes = (1 + below(most)) / each * each + each;
    asked.at = below((ARENA_BYTES - asked.bytes) / each) * each;
    if (below(4) == 0) /* so that not every range of this type has one */
        memset(host + asked.at, 0, asked.bytes);
    if (below(4) == 0)
        memcpy(host + asked.at, &types[asked.type].exponent, each);
    return asked;
}

static void
check_launch(const struct asked *asked, size_t count)
{
    struct hash_launch launch = {.count = 0};
    struct hash_result found[HASH_RANGES_AT_MOST];
    struct comm_error error;
    static const unsigned threads[] = {1, HASH_THREADS, 96, 7};
    kernels.threads = threads[below(4)];
    to_device(arena, host, ARENA_BYTES);
    require(driver.cuMemsetD8Async_p(results, 0, sizeof(found), CU_STREAM_PER_THREAD));
    for (size_t i = 0; i < count; ++i) {
        struct hash_range range = {.address = arena + asked[i].at,
                                   .bytes = asked[i].bytes,
                                   .result = results + i * sizeof(found[0]),
                                   .exponents =
                                       hash_exponents(types[asked[i].type].exponent, types[asked[i].type].bytes)};
        size_t part = below(3) == 0 ? below(asked[i].bytes / HASH_BLOCK + 1) * HASH_BLOCK : 0;
        if (part > 0 && part < asked[i].bytes && launch.count < HASH_RANGES_AT_MOST - 1) {
            range.bytes = part;
            ck_assert(device_hash_add(&launch, range));
            range.address += part;
            range.bytes = asked[i].bytes - part;
            range.number = (uint32_t)(part / HASH_BLOCK);
        }
        if (!device_hash_add(&launch, range)) {
            ck_assert(device_hash_run(&launch, &driver, &kernels, CU_STREAM_PER_THREAD, &error));
            ck_assert(device_hash_add(&launch, range));
        }
    }
    ck_assert(device_hash_run(&launch, &driver, &kernels, CU_STREAM_PER_THREAD, &error));
    from_device(found, results, sizeof(found));
    for (size_t i = 0; i < count; ++i) {
        const unsigned char *data = host + asked[i].at;
        ck_assert_msg(hash_end(found[i].sum, asked[i].bytes) == hash_bytes(data, asked[i].bytes),
                      "%zu bytes at %zu, %u threads", asked[i].bytes, asked[i].at, kernels.threads);
        if (asked[i].type == 0)
            continue;
        uint64_t exponent = types[asked[i].type].exponent;
        size_t each = types[asked[i].type].bytes;
        struct hash_result slow = look_slowly(data, asked[i].bytes, exponent, each), quick = {0, 0, 0};
        hash_look(data, asked[i].bytes, hash_exponents(exponent, each), &quick);
        ck_assert_uint_eq(quick.infinite, slow.infinite);
        ck_assert_int_eq(hash_has_infinite(data, asked[i].bytes, hash_exponents(exponent, each)), slow.infinite != 0);
        ck_assert_uint_eq(quick.nonzero, slow.nonzero);
        ck_assert_uint_eq(found[i].infinite, slow.infinite);
        ck_assert_uint_eq(found[i].nonzero, slow.nonzero);
    }
}

TEST(device_is_as_host)
{
    for (size_t made = 0; made < RANGES;) {
        struct asked asked[HASH_RANGES_AT_MOST];
        size_t count = 1 + below(HASH_RANGES_AT_MOST);
        fill_random(host, sizeof(host));
        for (size_t i = 0; i < count; ++i)
            asked[i] = any_range();
        check_launch(asked, count);
        made += count;
    }
}

/* Parts far behind the beginning: of tensors larger than this machine's memory. */
TEST(far_parts)
{
    struct hash_launch launch = {.count = 0};
    struct hash_result found[2];
    struct comm_error error;
    const struct hash_range far = {arena, 10000, results, 0, UINT32_MAX - 5, 0};
    kernels.threads = HASH_THREADS;
    fill_random(host, sizeof(host));
    to_device(arena, host, ARENA_BYTES);
    require(driver.cuMemsetD8Async_p(results, 0, sizeof(found), CU_STREAM_PER_THREAD));
    for (size_t i = 0; i < 2; ++i) {
        struct hash_range range = far;
        range.result += i * sizeof(found[0]);
        ck_assert(device_hash_add(&launch, range));
        ck_assert(device_hash_run(&launch, &driver, &kernels, CU_STREAM_PER_THREAD, &error));
        kernels.threads = 1;
    }
    from_device(found, results, sizeof(found));
    ck_assert_uint_eq(found[0].sum, found[1].sum);
    ck_assert_uint_eq(found[0].sum, hash_part(0, (uint64_t)far.number * HASH_BLOCK, host, far.bytes));
}

/* One tensor of as many ranks as `words` has, up to the first negative one. */
static uint32_t
difference_of(const int *of)
{
    uint64_t words[8];
    uint32_t ranks = 0;
    for (; of[ranks] >= 0; ++ranks)
        words[ranks] = (uint64_t)of[ranks];
    return hash_difference(words, 1, ranks, 0);
}
#define DIFFERENCE_OF(...) difference_of((const int[]){__VA_ARGS__, -1})

TEST(the_rank_that_differs_from_most_is_named)
{
    ck_assert_uint_eq(DIFFERENCE_OF(7, 7, 7), HASH_EQUAL);
    ck_assert_uint_eq(DIFFERENCE_OF(7, 0, 7), HASH_EQUAL);
    ck_assert_uint_eq(DIFFERENCE_OF(0, 7, 8), HASH_UNCOMPARED);
    ck_assert_uint_eq(DIFFERENCE_OF(7, 0, 0), HASH_UNCOMPARED);
    ck_assert_uint_eq(DIFFERENCE_OF(7, 8), 1);
    ck_assert_uint_eq(DIFFERENCE_OF(7, 7, 8, 8), 2);
    ck_assert_uint_eq(DIFFERENCE_OF(7, 8, 9), 1);
    ck_assert_uint_eq(DIFFERENCE_OF(8, 7, 7), 0 | HASH_MAJORITY);
    ck_assert_uint_eq(DIFFERENCE_OF(7, 8, 7, 7), 1 | HASH_MAJORITY);
    ck_assert_uint_eq(DIFFERENCE_OF(7, 7, 0, 8), 3 | HASH_MAJORITY);
    ck_assert_uint_eq(DIFFERENCE_OF(8, 9, 7, 7, 7), 0 | HASH_MAJORITY);
}

TEST(device_compares_as_host)
{
    static uint64_t words[RANKS * TENSORS];
    static uint32_t differs[TENSORS];
    CUdeviceptr device_differs;
    struct comm_error error;
    require(driver.cuMemAlloc_p(&device_differs, sizeof(differs)));
    for (int round = 0; round < 20; ++round) {
        for (size_t i = 0; i < RANKS * TENSORS; ++i)
            words[i] = below(8) == 0 ? below(3) : 1;
        kernels.threads = round % 2 == 0 ? HASH_THREADS : 1;
        to_device(arena, words, sizeof(words));
        ck_assert(device_hash_compare(arena, TENSORS, RANKS, device_differs, &driver, &kernels, CU_STREAM_PER_THREAD,
                                      &error));
        from_device(differs, device_differs, sizeof(differs));
        for (size_t i = 0; i < TENSORS; ++i)
            ck_assert_uint_eq(differs[i], hash_difference(words, TENSORS, RANKS, i));
    }
    require(driver.cuMemFree_p(device_differs));
}

/* ---- what must change it ---- */

TEST(every_bit_counts)
{
    enum { BYTES = 4096 + 200 };
    static const int contents[] = {0, 1, 0xff};
    for (size_t c = 0; c < 3; ++c) {
        memset(host, contents[c], BYTES);
        if (contents[c] == 1)
            fill_random(host, BYTES);
        uint64_t before = hash_bytes(host, BYTES);
        for (size_t bit = 0; bit < (size_t)8 * BYTES; ++bit) {
            host[bit / 8] ^= (unsigned char)(1 << bit % 8);
            uint64_t after = hash_bytes(host, BYTES);
            host[bit / 8] ^= (unsigned char)(1 << bit % 8);
            int apart = __builtin_popcountll(before ^ after);
            if (apart < 10 || apart > 54)
                ck_abort_msg("bit %zu changes %d bits", bit, apart);
        }
    }
}

static void
swap(size_t a, size_t b, size_t bytes)
{
    unsigned char kept[HASH_BLOCK];
    memcpy(kept, host + a, bytes);
    memcpy(host + a, host + b, bytes);
    memcpy(host + b, kept, bytes);
}

/* Words, pieces, rows and blocks that change places; random contents, and such in which few bits are set. */
TEST(order_counts)
{
    enum { BYTES = 16 * HASH_BLOCK };
    static const size_t units[] = {1, 2, 4, 8, HASH_PIECE, HASH_ROW, HASH_BLOCK};
    for (int i = 0; i < 3000; ++i) {
        size_t unit = units[i % 7], a = below(BYTES / unit) * unit, b = below(BYTES / unit) * unit;
        if (i % 300 == 0)
            fill_random(host, BYTES);
        if (i % 300 == 150) {
            memset(host, 0, BYTES);
            for (int k = 0; k < 200; ++k)
                host[below(BYTES)] = (unsigned char)(1 << below(8));
        }
        uint64_t before = hash_bytes(host, BYTES);
        bool same = memcmp(host + a, host + b, unit) == 0;
        swap(a, b, unit);
        ck_assert_int_eq(hash_bytes(host, BYTES) == before, same);
    }
}

TEST(zeros_count)
{
    static uint64_t seen[3000];
    memset(host, 0, sizeof(host));
    for (size_t bytes = 0; bytes < 3000; ++bytes) {
        seen[bytes] = hash_bytes(host, bytes);
        for (size_t i = 0; i < bytes; ++i) {
            if (seen[i] == seen[bytes])
                ck_abort_msg("%zu and %zu zeros", i, bytes);
        }
    }
}

/* No two of many short contents that differ little, in all 64 bits and in each half. */
static int
compare_words(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return left < right ? -1 : left > right;
}

TEST(few_collide)
{
    enum { COUNT = 1 << 16 };
    static uint64_t hashes[COUNT];
    for (int shift = 0; shift < 3; ++shift) {
        for (uint32_t i = 0; i < COUNT; ++i) {
            float values[40] = {[3] = (float)i, [17] = 1.0f / (float)(i % 256 + 1), [31] = (float)(i / 256)};
            hashes[i] = hash_bytes(values, sizeof(values));
            hashes[i] = shift == 1 ? hashes[i] >> 32 : shift == 2 ? hashes[i] << 32 : hashes[i];
        }
        qsort(hashes, COUNT, sizeof(hashes[0]), compare_words);
        int same = 0;
        for (int i = 1; i < COUNT; ++i)
            same += hashes[i] == hashes[i - 1];
        ck_assert_int_le(same, shift == 0 ? 0 : 8); /* 0.5 are to be expected of 32 bits */
    }
}
