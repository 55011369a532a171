/*
 * test_wire_numbers.c - buckets are converted, weighted and averaged as arithmetic says: to the nearest number, with
 * errors that do not add up.
 *
 * Usage: test_wire_numbers [KERNELS], others than those of the build.
 */
#include "wire_bucket.h"

#include "comm/kernels/chunk.h"

#include "tests/lib/test.h"

TEST_GROUP(wire_numbers, .timeout_s = TEST_NO_TIMEOUT, .setup = keep_setting, .start = open_wire);

/* ---- conversion ---- */

static float
random_float(void)
{
    static const float special[] = {0.0f, -0.0f, INFINITY, -INFINITY, NAN, 65504.0f * 3, 65520.0f * 3, 1e-8f, 3e38f};
    if (below(10) == 0)
        return special[below(9)];
    float value = (float)ldexp((double)below(1 << 24) / (1 << 24) + 1.0, (int)below(60) - 40);
    return below(2) ? value : -value;
}

static void
check_conversion(const struct bucket_member *members, size_t count, bool bfloat)
{
    struct bucket_wire wire = {0};
    float *values = (float *)before, *numbers = (float *)expected;
    uint16_t *bits = (uint16_t *)packed;
    for (size_t i = 0; i < ARENA_BYTES / sizeof(float); ++i)
        values[i] = random_float();
    to_device(arena, before, sizeof(before));
    place_bucket(&wire, members, count, ncclFloat32);
    ck_assert_int_eq(wire.path, WIRE_KERNELS);
    ck_assert_int_eq(wire.type, bfloat ? ncclBfloat16 : ncclFloat16);
    ck_assert_int_eq(wire_operation(&wire, &setting), ncclSum);
    pack_bucket(&wire, 1);

    size_t bytes = members_gather(expected, before, members, count);
    ck_assert_uint_eq(wire.element_count, bytes / sizeof(float));
    from_device(packed, wire.address, bytes / 2);
    for (size_t i = 0; i < wire.element_count; ++i) {
        volatile float scaled = numbers[i] * (1.0f / WORLD_SIZE);
        bool right =
            isnan(numbers[i]) ? number_is_nan(bits[i], bfloat) : bits[i] == number_nearest_bits(scaled, bfloat);
        if (!right) /* Check takes its time for each assertion that holds */
            ck_abort_msg("%a -> %#x, not %#x", (double)scaled, bits[i], number_nearest_bits(scaled, bfloat));
    }

    /* Back: exact, times the number of ranks where a sum is wanted. */
    float times = setting.reduction == DDPRUN_REDUCE_SUM ? WORLD_SIZE : 1;
    unpack_bucket(&wire);
    for (size_t i = 0; i < wire.element_count; ++i) {
        numbers[i] = (float)number_load(packed + 2 * i, wire.type) * times;
    }
    members_scatter(before, expected, members, count);
    from_device(after, arena, sizeof(after));
    for (size_t i = 0; i < ARENA_BYTES / sizeof(float); ++i) {
        float is = ((const float *)after)[i];
        if (isnan(values[i]) ? !isnan(is) : memcmp(&is, &values[i], sizeof(is)) != 0)
            ck_abort_msg("%a is not %a", (double)is, (double)values[i]);
    }
    wire_free(&wire, &driver);
}

TEST(converts_to_the_nearest)
{
    for (unsigned round = 1; round <= ROUNDS / 10; ++round) {
        seed = round;
        struct bucket_member members[MEMBERS_AT_MOST];
        bool bfloat = below(2);
        setting.compression = bfloat ? DDPRUN_COMPRESS_BF16 : DDPRUN_COMPRESS_FP16;
        setting.kernels.threads = below(2) ? CHUNK_THREADS : 1;
        setting.reduction = below(2) ? DDPRUN_REDUCE_SUM : DDPRUN_REDUCE_MEAN;
        check_conversion(members, members_make(members, sizeof(float)), bfloat);
        keep_setting();
    }
}

TEST(converts_float32_only)
{
    struct bucket_wire wire = {0};
    struct bucket_member member = {.address = arena, .bytes = 4096};
    struct wire_setting narrow = setting;
    narrow.compression = DDPRUN_COMPRESS_BF16;
    ck_assert(wire_place(&wire, &narrow, &member, 1, ncclFloat64, CU_STREAM_PER_THREAD, &error));
    ck_assert_int_eq(wire.path, WIRE_IN_PLACE);
    ck_assert_int_eq(wire.type, ncclFloat64);
    ck_assert_int_eq(wire_operation(&wire, &narrow), ncclAvg);
    wire_free(&wire, &driver);
}

/* ---- weights ---- */

/* A power of two is exact in every type; 0 is not among the bytes that are there. */
static void
check_weight(const struct bucket_member *members, size_t count, ncclDataType_t type, double weight)
{
    struct bucket_wire wire = {0};
    size_t bytes = members_gather(packed, before, members, count), each = wire_element_bytes(type);
    to_device(arena, before, sizeof(before));
    place_bucket(&wire, members, count, type);
    pack_bucket(&wire, weight);
    from_device(expected, wire.address, bytes);
    for (size_t i = 0; i < bytes / each; ++i) {
        bool right = number_load(expected + i * each, type) == number_load(packed + i * each, type) * weight;
        if (!right)
            ck_abort_msg("element %zu of %zu, %s", i, bytes / each, wire_type_name(type));
    }
    wire_free(&wire, &driver);
}

TEST(weights_scale)
{
    for (unsigned round = 1; round <= ROUNDS / 10; ++round) {
        seed = round;
        struct bucket_member members[MEMBERS_AT_MOST];
        ncclDataType_t type = float_types[below(4)].type;
        size_t each = wire_element_bytes(type);
        /* Numbers of magnitude 1 to 2, of either sign, in each type. */
        for (size_t i = 0; i < ARENA_BYTES / each; ++i) {
            double value = ldexp((double)(128 + below(128)), -7) * (below(2) ? 1 : -1);
            number_store(before + i * each, value, type);
        }
        setting.kernels.threads = below(2) ? CHUNK_THREADS : 1;
        check_weight(members, members_make(members, each), type, below(2) ? 0.25 : 2);
        keep_setting();
    }
}

TEST(weight_0_sends_zeros)
{
    for (int narrow = 0; narrow < 2; ++narrow) {
        struct bucket_wire wire = {0};
        const struct bucket_member members[] = {{.address = arena, .bytes = 4096},
                                                {.address = arena + 8192, .bytes = 400}};
        memset(before, 0xff, sizeof(before)); /* NaN */
        to_device(arena, before, sizeof(before));
        setting.compression = narrow ? DDPRUN_COMPRESS_FP16 : DDPRUN_COMPRESS_NONE;
        setting.kernels.loaded = narrow; /* it takes none */
        place_bucket(&wire, members, 1 + (size_t)narrow, ncclFloat32);
        pack_bucket(&wire, 0);
        size_t bytes = wire.element_count * wire_element_bytes(wire.type);
        from_device(after, wire.address, bytes);
        memset(expected, 0, bytes);
        ck_assert_int_eq(memcmp(after, expected, bytes), 0);
        from_device(after, arena, sizeof(after)); /* beside it nothing has changed */
        ck_assert_int_eq(memcmp(after + 8592, before, 4096), 0);
        wire_free(&wire, &driver);
        keep_setting();
    }
}

TEST(weights_need_kernels)
{
    struct wire_setting without = setting;
    struct bucket_wire wire = {0};
    const struct bucket_member member = {.address = arena, .bytes = 4096};
    without.kernels.loaded = false;
    ck_assert(wire_place(&wire, &without, &member, 1, ncclFloat32, CU_STREAM_PER_THREAD, &error));
    ck_assert(wire_pack(&wire, &without, 1, CU_STREAM_PER_THREAD, &error));
    ck_assert(!wire_pack(&wire, &without, 0.5, CU_STREAM_PER_THREAD, &error));
    ck_assert_says(error.text, "DDP_WEIGHT with unequal shares needs ddprun's own kernels");
    wire_free(&wire, &driver);
}

/* ---- means ---- */

enum { MEAN_ELEMENTS = 10000 };

/* What a rank has for an element, before it is rounded: most elements have ranks with values of either sign. */
static double
gradient_of(size_t element, int rank)
{
    uint64_t state = (element + 1) * 64 + (unsigned)rank;
    state *=
        UINT64_C(0x9e3779b97f4a7c15); /* Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014 */
    state = (state ^ state >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    state = (state ^ state >> 27) * UINT64_C(0x94d049bb133111eb);
    double value = ldexp((double)(state >> 11), -53) + 0.01;
    return element % 4 == 0 ? value : element % 4 == 1 ? -value : state & 1 ? value : -value;
}

/* Averages over n ranks as the wire and NCCL's sum do, and puts the result into after[]. `value`: of each rank. */
static void
average(const struct bucket_member *members, size_t member_count, ncclDataType_t type, int n,
        double (*value)(size_t element, int rank))
{
    struct bucket_wire wire = {0};
    size_t each = wire_element_bytes(type), bytes = 0;
    size_t end = members[member_count - 1].address + members[member_count - 1].bytes - arena;
    place_bucket(&wire, members, member_count, type);
    size_t sent = wire_element_bytes(wire.type);
    for (int rank = 0; rank < n; ++rank) {
        for (size_t at = 0; at < end / each; ++at)
            number_store(before + at * each, value(at, rank), type);
        to_device(arena, before, sizeof(before));
        pack_bucket(&wire, 1);
        bytes = wire.element_count * sent;
        from_device(packed, wire.address, bytes);
        for (size_t i = 0; i < wire.element_count; ++i) {
            double others = rank > 0 ? number_load(expected + i * sent, wire.type) : 0;
            number_store(expected + i * sent, number_load(packed + i * sent, wire.type) + others, wire.type);
        }
    }
    to_device(wire.address, expected, bytes);
    ck_assert_int_eq(wire_operation(&wire, &setting), ncclSum);
    unpack_bucket(&wire);
    from_device(after, arena, sizeof(after));
    wire_free(&wire, &driver);
}

static void
check_mean(const struct bucket_member *members, size_t member_count, size_t kind, int n)
{
    ncclDataType_t type = float_types[kind].type;
    double unit = float_types[kind].unit, bias = 0;
    size_t each = wire_element_bytes(type), count = 0;
    average(members, member_count, type, n, gradient_of);
    for (size_t m = 0; m < member_count; ++m)
        for (size_t i = 0; i < members[m].bytes / each; ++i) {
            size_t at = (members[m].address - arena) / each + i;
            long double sum = 0, magnitude = 0;
            for (int rank = 0; rank < n; ++rank) {
                unsigned char one[8];
                number_store(one, gradient_of(at, rank), type);
                sum += (long double)number_load(one, type);
                magnitude += fabsl((long double)number_load(one, type));
            }
            long double mean = sum / n, off = (long double)number_load(after + at * each, type) - mean;
            if (fabsl(off) > (n + 1) * (long double)unit * magnitude / n + n * (long double)float_types[kind].smallest)
                ck_abort_msg("%s, %d ranks: %a is off by %g units", wire_type_name(type), n,
                             number_load(after + at * each, type), (double)off / unit / (double)(magnitude / n));
            if (fabsl(mean) > magnitude / n / 2)
                bias += (double)(off / mean), ++count;
        }
    ck_assert_uint_gt(count, MEAN_ELEMENTS / 3);
    ck_assert_msg(fabs(bias / (double)count) < unit / 8, "%s, %d ranks: off by %g units in the mean",
                  wire_type_name(type), n, bias / (double)count / unit);
}

/* Errors stay within a bound, and do not add up: a factor that is rounded to the type would show in their mean. The
 * second half of the numbers of ranks with DDPRUN_SOAK=1. */
LOOP_TEST(means_are_means, 0, 4)
{
    static const int ranks[] = {2, 3, 5, 7, 24, 1, 4, 6, 8, 9};
    const char *part = getenv("TESTS_PART"); /* a third of them, as rows of the scripts */
    bool all = getenv("DDPRUN_SOAK") != NULL;
    size_t bytes = MEAN_ELEMENTS * wire_element_bytes(float_types[_i].type);
    setting.divides = true;
    for (size_t r = all || part == NULL ? 0 : strtoul(part, NULL, 10) % 3; r < sizeof(ranks) / sizeof(ranks[0]);
         r += all ? 1 : 3) {
        const struct bucket_member together = {.address = arena, .bytes = bytes};
        const struct bucket_member apart[] = {{.address = arena + 64, .bytes = 512 * 8},
                                              {.address = arena + 8192 + 8, .bytes = bytes - 8192 - 8}};
        setting.world_size = ranks[r];
        setting.kernels.threads = r % 2 == 0 ? CHUNK_THREADS : 1;
        check_mean(&together, 1, (size_t)_i, ranks[r]);
        setting.kernels.threads = r % 2 == 0 ? 1 : CHUNK_THREADS;
        check_mean(apart, 2, (size_t)_i, ranks[r]);
    }
}

static double
large(size_t element, int rank)
{
    return element == 5 && rank == 1 ? INFINITY : element == 6 && rank == 1 ? NAN : 65504;
}

TEST(means_of_float16_do_not_overflow)
{
    setting.divides = true;
    for (setting.world_size = 2; setting.world_size <= 9; ++setting.world_size) {
        const struct bucket_member member = {.address = arena, .bytes = 4096};
        average(&member, 1, ncclFloat16, setting.world_size, large);
        for (size_t i = 0; i < 2048; ++i) {
            double value = number_load(after + 2 * i, ncclFloat16);
            ck_assert_msg(i == 5   ? value == (double)INFINITY
                          : i == 6 ? isnan(value)
                                   : value > 65504 * 0.999 && value <= 65504,
                          "element %zu of %d ranks: %g", i, setting.world_size, value);
        }
    }
}

static double
any_float16(size_t element, int rank)
{
    (void)rank;
    return number_of_bits((unsigned)element, false);
}

/* Each rank has the same number, from the smallest that float16 holds to the largest. */
TEST(means_of_float16_are_exact_where_ranks_agree)
{
    enum { NUMBERS = 0x7c00 };
    setting.divides = true;
    for (setting.world_size = 2; setting.world_size <= 7; ++setting.world_size) {
        const struct bucket_member member = {.address = arena, .bytes = 2 * NUMBERS};
        setting.kernels.threads = setting.world_size % 2 == 0 ? CHUNK_THREADS : 1;
        average(&member, 1, ncclFloat16, setting.world_size, any_float16);
        for (unsigned i = 0; i < NUMBERS; ++i) {
            double value = number_load(after + 2 * (size_t)i, ncclFloat16);
            if (value != number_of_bits(i, false))
                ck_abort_msg("%d ranks: %a becomes %a", setting.world_size, number_of_bits(i, false), value);
        }
    }
}

/* What is compressed, or only summed, is sent in 16 bits; so are means where a rank has no kernels. */
TEST(only_means_of_float16_are_sent_as_float32)
{
    ck_assert(!wire_widens(&setting, ncclFloat16));
    setting.divides = true;
    ck_assert(wire_widens(&setting, ncclFloat16));
    ck_assert_uint_eq(wire_sent_bytes(&setting, ncclFloat16, 10), 20);
    ck_assert_uint_eq(wire_sent_bytes(&setting, ncclInt64, 16), 16);
    ck_assert(!wire_widens(&setting, ncclBfloat16));
    for (enum ddprun_compression narrow = DDPRUN_COMPRESS_FP16; narrow < DDPRUN_COMPRESSION_COUNT; ++narrow) {
        setting.compression = narrow;
        ck_assert_uint_eq(wire_sent_bytes(&setting, ncclFloat16, 10), 10);
        ck_assert_uint_eq(wire_sent_bytes(&setting, ncclFloat32, 20), 10);
    }
    setting.compression = DDPRUN_COMPRESS_NONE;
    setting.reduction = DDPRUN_REDUCE_SUM;
    ck_assert(!wire_widens(&setting, ncclFloat16));
}

/* Loss scalers look for it. */
TEST(weights_of_float16_may_overflow)
{
    struct bucket_wire wire = {0};
    const struct bucket_member member = {.address = arena, .bytes = 4096};
    for (setting.kernels.threads = 1; setting.kernels.threads <= 2; ++setting.kernels.threads) {
        for (size_t at = 0; at < 2048; ++at)
            number_store(before + 2 * at, 65504, ncclFloat16);
        to_device(arena, before, sizeof(before));
        place_bucket(&wire, &member, 1, ncclFloat16);
        pack_bucket(&wire, 2);
        from_device(after, arena, sizeof(after));
        for (size_t at = 0; at < 2048; ++at)
            ck_assert_msg(number_load(after + 2 * at, ncclFloat16) == (double)INFINITY, "element %zu", at);
    }
    wire_free(&wire, &driver);
}

/* Of a rank that has no kernels, and of integers. */
TEST(means_without_kernels_are_those_of_nccl)
{
    ck_assert_int_eq(wire_mean(&setting, ncclFloat32).operation, ncclAvg);
    struct wire_setting divides = setting;
    divides.divides = true;
    ck_assert_int_eq(wire_mean(&divides, ncclInt32).operation, ncclAvg);
    ck_assert_int_eq(wire_mean(&divides, ncclFloat32).operation, ncclSum);
}
