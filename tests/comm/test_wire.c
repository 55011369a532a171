/*
 * test_wire.c - buckets are packed and unpacked as memcpy would, whatever their members look like in memory, and
 * converted as arithmetic says. On the stand-in's driver, with the kernels that jobs use.
 *
 * Members of any length, at any distance, in any order, down to one element and up to several chunks; memory around
 * them is never touched; by kernels and by copies alike. A table for more bytes than this machine has is checked
 * without them.
 *
 * Usage: test_wire [KERNELS], others than those of the build.
 */
#include "device.h"

#include "comm/kernels/chunk.h"
#include "comm/kernels/nonfinite.h"
#include "comm/wire.h"

#include "tests/lib/test.h"

enum { ROUNDS = 200, MEMBERS_AT_MOST = 24, ARENA_BYTES = 1 << 18, WORLD_SIZE = 3 };

static struct wire_setting setting;
static CUdeviceptr arena;
static unsigned char before[ARENA_BYTES], after[ARENA_BYTES], packed[ARENA_BYTES], expected[ARENA_BYTES];

static const struct {
    ncclDataType_t type;
    uint64_t exponent;
    double unit, smallest; /* roundoff; subnormal */
} float_types[] = {{ncclFloat32, 0x7f800000, 0x1p-24, 0x1p-149},
                   {ncclFloat64, UINT64_C(0x7ff) << 52, 0x1p-53, 0x1p-1074},
                   {ncclFloat16, 0x7c00, 0x1p-11, 0x1p-24},
                   {ncclBfloat16, 0x7f80, 0x1p-8, 0x1p-133}};

/* ---- the device ---- */

static void
open_device(void)
{
    setting = (struct wire_setting){.driver = &driver, .world_size = WORLD_SIZE};
    arena = device_open(&setting.kernels, ARENA_BYTES);
}

/* As it was: tests change what is theirs. */
static void
keep_setting(void)
{
    static struct wire_setting plain;
    plain = plain.driver == NULL ? setting : plain;
    setting = plain;
}

/* ---- random buckets ---- */

static void
swap_members(struct bucket_member *a, struct bucket_member *b)
{
    struct bucket_member other = *a;
    *a = *b;
    *b = other;
}

/* Elements of `element` bytes, aligned to that and to no more. */
static size_t
make_members(struct bucket_member *members, size_t element)
{
    size_t wanted = 1 + below(MEMBERS_AT_MOST), count = 0, at = element * below(40);
    bool gaps = below(3) != 0;
    while (count < wanted) {
        static const size_t lengths[] = {1, 7, 300, 5000, 20000};
        size_t bytes = element * (1 + below(lengths[below(5)]));
        if (at + bytes > ARENA_BYTES)
            break;
        members[count++] = (struct bucket_member){arena + at, bytes, below(12) == 0};
        at += bytes + (gaps && below(2) ? element * (1 + below(50)) : 0);
    }
    for (size_t i = count; i > 1 && below(3) == 0; --i)
        swap_members(&members[i - 1], &members[below(i)]);
    return count;
}

static bool
may_be_in_place(const struct bucket_member *members, size_t count)
{
    for (size_t i = 0; i < count; ++i) {
        if (members[i].is_packed)
            return false;
        if (i > 0 && members[i].address != members[i - 1].address + members[i - 1].bytes)
            return false;
    }
    return true;
}

/* Between the members in the image of the arena and their packed form. */
static size_t
gather(unsigned char *to, const unsigned char *image, const struct bucket_member *members, size_t count)
{
    size_t bytes = 0;
    for (size_t i = 0; i < count; ++i) {
        memcpy(to + bytes, image + (members[i].address - arena), members[i].bytes);
        bytes += members[i].bytes;
    }
    return bytes;
}

static void
scatter(unsigned char *image, const unsigned char *from, const struct bucket_member *members, size_t count)
{
    for (size_t i = 0; i < count; ++i) {
        memcpy(image + (members[i].address - arena), from, members[i].bytes);
        from += members[i].bytes;
    }
}

static struct comm_error error;

static void
place(struct bucket_wire *wire, const struct bucket_member *members, size_t count, ncclDataType_t type)
{
    ck_assert_msg(wire_place(wire, &setting, members, count, type, CU_STREAM_PER_THREAD, &error), "%s", error.text);
}

static void
pack(struct bucket_wire *wire, double weight)
{
    ck_assert_msg(wire_pack(wire, &setting, weight, CU_STREAM_PER_THREAD, &error), "%s", error.text);
}

static void
unpack(struct bucket_wire *wire)
{
    ck_assert_msg(wire_unpack(wire, &setting, CU_STREAM_PER_THREAD, &error), "%s", error.text);
}

static void
check_copies(struct bucket_wire *wire, const struct bucket_member *members, size_t count, ncclDataType_t type)
{
    place(wire, members, count, type);
    ck_assert(wire_has(wire, members, count));
    ck_assert_int_eq(wire->path == WIRE_IN_PLACE, may_be_in_place(members, count));
    ck_assert_int_eq(wire->path == WIRE_KERNELS, wire->path != WIRE_IN_PLACE && setting.kernels.loaded);

    fill_random(before, sizeof(before));
    to_device(arena, before, sizeof(before));
    pack(wire, 1);
    size_t bytes = gather(expected, before, members, count);
    ck_assert_uint_eq(bytes, wire->element_count * wire_element_bytes(wire->type));
    from_device(packed, wire->address, bytes);
    ck_assert_int_eq(memcmp(packed, expected, bytes), 0);

    fill_random(packed, bytes);
    to_device(wire->address, packed, bytes);
    unpack(wire);
    from_device(after, arena, sizeof(after));
    scatter(before, packed, members, count);
    ck_assert_int_eq(memcmp(after, before, sizeof(after)), 0);
}

TEST_GROUP(wire, .timeout_s = TEST_NO_TIMEOUT, .setup = keep_setting, .start = open_device);

TEST(packs_as_memcpy_does)
{
    for (unsigned round = 1; round <= ROUNDS; ++round) {
        seed = round;
        struct bucket_member members[MEMBERS_AT_MOST];
        struct bucket_wire wire = {0};
        ncclDataType_t type = float_types[below(4)].type;
        setting.kernels.loaded = below(4) != 0;
        setting.kernels.threads = below(2) ? CHUNK_THREADS : 1;
        /* The same bucket, with its gradients elsewhere: what was allocated serves again. */
        for (int place = 0; place < 2; ++place) {
            size_t count = make_members(members, wire_element_bytes(type));
            check_copies(&wire, members, count, type);
        }
        wire_free(&wire, &driver);
        keep_setting();
    }
}

/* ---- digests: would packing now give the same bytes? ---- */

/* Whether the wire's bucket is stale, and which members hold a part of a stale chunk, found by the digests. */
static bool
compare(const struct bucket_wire *wire, double weight, CUdeviceptr word, bool stale[MEMBERS_AT_MOST])
{
    static uint64_t digests[ARENA_BYTES / 2];
    uint32_t is_stale = 0;
    require(driver.cuMemsetD32Async_p(word, 0, 1, CU_STREAM_PER_THREAD));
    ck_assert_msg(wire_compare(wire, &setting, weight, word, CU_STREAM_PER_THREAD, &error), "%s", error.text);
    from_device(&is_stale, word, sizeof(is_stale));
    from_device(digests, wire->digests, wire->chunk_count * sizeof(digests[0]));
    wire_find_stale(wire, digests, stale);
    ck_assert_uint_le(is_stale, 1);
    return is_stale != 0;
}

/* One bit of the image, in a member that is drawn; its number. */
static size_t
change_bit(const struct bucket_member *members, size_t count, size_t bit)
{
    size_t member = below(count);
    before[members[member].address - arena + below(members[member].bytes)] ^= (unsigned char)(1u << bit);
    to_device(arena, before, sizeof(before));
    return member;
}

/* Whether the members from one to the other lie one after another in memory. */
static bool
are_together(const struct bucket_member *members, size_t a, size_t b)
{
    for (size_t i = (a < b ? a : b) + 1; i <= (a < b ? b : a); ++i) {
        if (members[i].address != members[i - 1].address + members[i - 1].bytes)
            return false;
    }
    return true;
}

/* In 16 bits, or scaled, a change of the last bits may not change what is packed, nor one of a NaN: there the sign of a
 * number is changed. */
static void
check_digests(struct bucket_wire *wire, const struct bucket_member *members, size_t count, CUdeviceptr word,
              double weight)
{
    const bool is_scaled = weight != 1 || wire_mean(&setting, wire->type).before != 1;
    bool stale[MEMBERS_AT_MOST], narrows = wire->conversion != CONVERT_NOTHING || is_scaled;
    size_t element = wire_element_bytes(wire->member_type);
    size_t changed = below(count);
    size_t at = members[changed].address - arena + element * below(members[changed].bytes / element);
    fill_random(before, sizeof(before));
    if (narrows)
        memset(before + at, 0x3c, element); /* a number between 0.01 and 2 of each type */
    to_device(arena, before, sizeof(before));
    ck_assert_msg(wire_pack_digested(wire, &setting, weight, CU_STREAM_PER_THREAD, &error), "%s", error.text);
    ck_assert(!compare(wire, weight, word, stale));
    if (narrows)
        before[at + element - 1] ^= 0x80;
    to_device(arena, before, sizeof(before));
    if (!narrows)
        changed = change_bit(members, count, below(8));
    ck_assert(compare(wire, weight, word, stale));
    ck_assert(stale[changed]);
    for (size_t i = 0; i < count; ++i) /* others only where they may share a chunk */
        ck_assert(!stale[i] || are_together(members, i, changed));
    ck_assert_msg(wire_pack_digested(wire, &setting, weight, CU_STREAM_PER_THREAD, &error), "%s", error.text);
    ck_assert(!compare(wire, weight, word, stale));
    for (size_t i = 0; i < count; ++i)
        ck_assert(!stale[i]);
}

TEST(one_changed_bit_makes_a_bucket_stale)
{
    CUdeviceptr word;
    require(driver.cuMemAlloc_p(&word, sizeof(uint32_t)));
    for (unsigned round = 1; round <= ROUNDS; ++round) {
        seed = 7000 + round;
        struct bucket_member members[MEMBERS_AT_MOST];
        struct bucket_wire wire = {0};
        CUdeviceptr lent;
        ncclDataType_t type = float_types[below(4)].type;
        setting.kernels.threads = below(2) ? CHUNK_THREADS : 1;
        setting.compression = (enum ddprun_compression)below(DDPRUN_COMPRESSION_COUNT);
        setting.divides = below(2);
        size_t count = make_members(members, wire_element_bytes(type));
        require(driver.cuMemAlloc_p(&lent, 2 * ARENA_BYTES)); /* float16 may be sent as float32 */
        wire_lend(&wire, lent, 2 * ARENA_BYTES, true);
        place(&wire, members, count, type);
        ck_assert_int_eq(wire.path, WIRE_KERNELS);
        check_digests(&wire, members, count, word, below(3) == 0 ? 2 : 1);
        wire_free(&wire, &driver);
        require(driver.cuMemFree_p(lent));
        keep_setting();
    }
    require(driver.cuMemFree_p(word));
}

/* ---- conversion, against the list of all values that 16 bits can hold ---- */

static double
value_of(unsigned bits, bool bfloat)
{
    static double magnitudes[2][0x8000];
    unsigned mantissa_bits = bfloat ? 7 : 10, bias = bfloat ? 127 : 15;
    for (unsigned i = magnitudes[bfloat][1] > 0 ? 0x8000 : 0; i < 0x8000; ++i) { /* once */
        unsigned exponent = i >> mantissa_bits, mantissa = i & ((1u << mantissa_bits) - 1);
        int power = (int)(exponent == 0 ? 1 : exponent) - (int)bias - (int)mantissa_bits;
        magnitudes[bfloat][i] = ldexp((double)(exponent == 0 ? mantissa : mantissa | 1u << mantissa_bits), power);
    }
    double magnitude = magnitudes[bfloat][bits & 0x7fff];
    return bits & 0x8000 ? -magnitude : magnitude; /* of the infinity's bits: the number that would come next */
}

/* The bits nearest to a number, of two the even ones, by bisection over the positive ones. */
static unsigned
nearest(float value, bool bfloat)
{
    unsigned infinity = bfloat ? 0x7f80 : 0x7c00, sign = signbit(value) ? 0x8000 : 0, low = 0, high = infinity;
    double magnitude = fabs((double)value);
    if (!(magnitude < value_of(infinity, bfloat)))
        return sign | infinity;
    while (high - low > 1) {
        unsigned middle = (low + high) / 2;
        *(value_of(middle, bfloat) <= magnitude ? &low : &high) = middle;
    }
    double below_by = magnitude - value_of(low, bfloat), above_by = value_of(high, bfloat) - magnitude;
    bool up = above_by < below_by || (above_by == below_by && high % 2 == 0);
    return sign | (up ? high : low);
}

static bool
is_nan(unsigned bits, bool bfloat)
{
    return (bits & 0x7fff) > (bfloat ? 0x7f80u : 0x7c00u);
}

static double
load(const unsigned char *from, ncclDataType_t type)
{
    double wide;
    float single;
    uint16_t bits;
    memcpy(&wide, from, type == ncclFloat64 ? 8 : 0);
    memcpy(&single, from, type == ncclFloat32 ? 4 : 0);
    memcpy(&bits, from, 2);
    if (type == ncclFloat64)
        return wide;
    if (type == ncclFloat32)
        return (double)single;
    bool bfloat = type == ncclBfloat16;
    unsigned infinity = bfloat ? 0x7f80 : 0x7c00;
    double magnitude = is_nan(bits, bfloat)          ? NAN
                       : (bits & 0x7fff) == infinity ? INFINITY
                                                     : value_of(bits & 0x7fff, bfloat);
    return bits & 0x8000 ? -magnitude : magnitude;
}

static void
store(unsigned char *to, double value, ncclDataType_t type)
{
    float single = (float)value;
    bool bfloat = type == ncclBfloat16;
    uint16_t bits = 0;
    if (type == ncclFloat16 || type == ncclBfloat16)
        bits = isnan(value) ? 0x7fff : (uint16_t)nearest(single, bfloat);
    memcpy(to,
           type == ncclFloat64   ? (const void *)&value
           : type == ncclFloat32 ? (const void *)&single
                                 : (const void *)&bits,
           wire_element_bytes(type));
}

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
    place(&wire, members, count, ncclFloat32);
    ck_assert_int_eq(wire.path, WIRE_KERNELS);
    ck_assert_int_eq(wire.type, bfloat ? ncclBfloat16 : ncclFloat16);
    ck_assert_int_eq(wire_operation(&wire, &setting), ncclSum);
    pack(&wire, 1);

    size_t bytes = gather(expected, before, members, count);
    ck_assert_uint_eq(wire.element_count, bytes / sizeof(float));
    from_device(packed, wire.address, bytes / 2);
    for (size_t i = 0; i < wire.element_count; ++i) {
        volatile float scaled = numbers[i] * (1.0f / WORLD_SIZE);
        bool right = isnan(numbers[i]) ? is_nan(bits[i], bfloat) : bits[i] == nearest(scaled, bfloat);
        if (!right) /* Check takes its time for each assertion that holds */
            ck_abort_msg("%a -> %#x, not %#x", (double)scaled, bits[i], nearest(scaled, bfloat));
    }

    /* Back: exact, times the number of ranks where a sum is wanted. */
    float times = setting.reduction == DDPRUN_REDUCE_SUM ? WORLD_SIZE : 1;
    unpack(&wire);
    for (size_t i = 0; i < wire.element_count; ++i) {
        numbers[i] = (float)load(packed + 2 * i, wire.type) * times;
    }
    scatter(before, expected, members, count);
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
        check_conversion(members, make_members(members, sizeof(float)), bfloat);
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
    size_t bytes = gather(packed, before, members, count), each = wire_element_bytes(type);
    to_device(arena, before, sizeof(before));
    place(&wire, members, count, type);
    pack(&wire, weight);
    from_device(expected, wire.address, bytes);
    for (size_t i = 0; i < bytes / each; ++i) {
        bool right = load(expected + i * each, type) == load(packed + i * each, type) * weight;
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
            store(before + i * each, value, type);
        }
        setting.kernels.threads = below(2) ? CHUNK_THREADS : 1;
        check_weight(members, make_members(members, each), type, below(2) ? 0.25 : 2);
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
        place(&wire, members, 1 + (size_t)narrow, ncclFloat32);
        pack(&wire, 0);
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
    place(&wire, members, member_count, type);
    size_t sent = wire_element_bytes(wire.type);
    for (int rank = 0; rank < n; ++rank) {
        for (size_t at = 0; at < end / each; ++at)
            store(before + at * each, value(at, rank), type);
        to_device(arena, before, sizeof(before));
        pack(&wire, 1);
        bytes = wire.element_count * sent;
        from_device(packed, wire.address, bytes);
        for (size_t i = 0; i < wire.element_count; ++i) {
            double others = rank > 0 ? load(expected + i * sent, wire.type) : 0;
            store(expected + i * sent, load(packed + i * sent, wire.type) + others, wire.type);
        }
    }
    to_device(wire.address, expected, bytes);
    ck_assert_int_eq(wire_operation(&wire, &setting), ncclSum);
    unpack(&wire);
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
                store(one, gradient_of(at, rank), type);
                sum += (long double)load(one, type);
                magnitude += fabsl((long double)load(one, type));
            }
            long double mean = sum / n, off = (long double)load(after + at * each, type) - mean;
            if (fabsl(off) > (n + 1) * (long double)unit * magnitude / n + n * (long double)float_types[kind].smallest)
                ck_abort_msg("%s, %d ranks: %a is off by %g units", wire_type_name(type), n,
                             load(after + at * each, type), (double)off / unit / (double)(magnitude / n));
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
            double value = load(after + 2 * i, ncclFloat16);
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
    return value_of((unsigned)element, false);
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
            double value = load(after + 2 * (size_t)i, ncclFloat16);
            if (value != value_of(i, false))
                ck_abort_msg("%d ranks: %a becomes %a", setting.world_size, value_of(i, false), value);
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
            store(before + 2 * at, 65504, ncclFloat16);
        to_device(arena, before, sizeof(before));
        place(&wire, &member, 1, ncclFloat16);
        pack(&wire, 2);
        from_device(after, arena, sizeof(after));
        for (size_t at = 0; at < 2048; ++at)
            ck_assert_msg(load(after + 2 * at, ncclFloat16) == (double)INFINITY, "element %zu", at);
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

/* ---- the look for infinite elements and NaN ---- */

/* A bucket of any type, in any setting. */
struct any_bucket {
    struct bucket_member members[MEMBERS_AT_MOST];
    struct bucket_wire wire;
    size_t count, each;
    ncclDataType_t type;
    uint64_t exponent;
};

static struct any_bucket
make_bucket(unsigned round)
{
    struct any_bucket made = {.count = 0};
    seed = round;
    unsigned type = (unsigned)below(4);
    made.type = float_types[type].type;
    made.exponent = float_types[type].exponent;
    made.each = wire_element_bytes(made.type);
    setting.kernels.threads = below(2) ? CHUNK_THREADS : 1;
    setting.compression = type == 0 && below(2) ? DDPRUN_COMPRESS_BF16 : DDPRUN_COMPRESS_NONE;
    made.count = make_members(made.members, made.each);
    place(&made.wire, made.members, made.count, made.type);
    return made;
}

/* Any bits but the exponents of infinities and NaN: where all of the exponent's are set, one is not. */
static void
fill_finite(size_t each, uint64_t exponent)
{
    fill_random(before, sizeof(before));
    for (size_t at = 0; at < sizeof(before); at += each) {
        uint64_t bits = 0;
        memcpy(&bits, before + at, each);
        if ((bits & exponent) == exponent)
            bits ^= exponent & -exponent;
        memcpy(before + at, &bits, each);
    }
}

/* In any element of any member; returns its address. */
static CUdeviceptr
plant(const struct any_bucket *made, uint64_t *bits_p)
{
    const struct bucket_member *members = made->members, *member = &members[below(made->count)];
    size_t each = made->each, place = below(member->bytes / each);
    uint64_t exponent = made->exponent;
    uint64_t bits =
        exponent | (below(2) ? (exponent & -exponent) - 1 : 0) | (below(2) ? UINT64_C(1) << (8 * each - 1) : 0);
    if (below(4) == 0) /* the first of the bucket, or its last */
        member = &members[below(2) * (made->count - 1)], place = member == members ? 0 : member->bytes / each - 1;
    memcpy(before + (member->address - arena) + place * each, &bits, each);
    *bits_p = bits;
    return member->address + place * each;
}

static void
check_look(struct bucket_wire *wire, CUdeviceptr claim, struct nonfinite_found *found, const uint64_t *planted_p,
           CUdeviceptr address)
{
    unsigned turns = 0;
    uint32_t zero = 0;
    for (memset(found, 0, sizeof(*found)); turns < NONFINITE_TURNS && found->ready == 0; ++turns) {
        to_device(claim, &zero, sizeof(zero));
        to_device(arena, before, sizeof(before));
        wire->look = (struct wire_look){claim, (CUdeviceptr)(uintptr_t)found, 1000 + turns, 5 + turns, 0};
        pack(wire, 1);
        require(driver.cuStreamSynchronize_p(CU_STREAM_PER_THREAD));
    }
    ck_assert_int_eq(found->ready, planted_p != NULL);
    if (planted_p == NULL)
        return;
    ck_assert_uint_eq(found->address, address);
    ck_assert_uint_eq(found->bits, *planted_p);
    ck_assert_uint_eq(found->step, 1000 + turns - 1);
    if (!wire_looks_in_part(wire))
        ck_assert_uint_eq(turns, 1);
}

TEST(what_is_not_finite_is_found)
{
    CUdeviceptr claim;
    struct nonfinite_found *found;
    require(driver.cuMemAlloc_p(&claim, sizeof(uint32_t)));
    require(driver.cuMemHostAlloc_p((void **)&found, sizeof(*found), 0));
    for (unsigned round = 1; round <= ROUNDS; ++round) {
        setting.divides = round % 2 == 0;
        struct any_bucket made = make_bucket(round);
        uint64_t bits;
        fill_finite(made.each, made.exponent);
        check_look(&made.wire, claim, found, NULL, 0);
        CUdeviceptr address = plant(&made, &bits);
        check_look(&made.wire, claim, found, &bits, address);
        wire_free(&made.wire, &driver);
        keep_setting();
    }
    require(driver.cuMemFreeHost_p(found));
    require(driver.cuMemFree_p(claim));
}

/* A multiple of 1/4 of a magnitude below 4: exact in all types, and so are its square and the sums. */
static double
plant_quarters(const struct any_bucket *made)
{
    double sum = 0;
    fill_random(before, sizeof(before));
    for (size_t i = 0; i < made->count; ++i) {
        for (size_t at = 0; at < made->members[i].bytes; at += made->each) {
            double value = ((double)below(31) - 15) / 4;
            store(before + (made->members[i].address - arena) + at, value, made->type);
            sum += value * value;
        }
    }
    return sum;
}

/* Squares before and after, over so many turns, beside a look or not. A quarter is the mean: there is one rank of 4. In
 * each turn both are of the same elements. */
static void
check_squares(struct bucket_wire *wire, unsigned turns, bool looks, double own, CUdeviceptr memory, const void *values,
              size_t bytes)
{
    CUdeviceptr sums, room = 2 * sizeof(double);
    double found[2] = {0};
    require(driver.cuMemAlloc_p(&sums, room + sizeof(struct nonfinite_found)));
    require(driver.cuMemsetD8Async_p(sums, 0, room + sizeof(struct nonfinite_found), CU_STREAM_PER_THREAD));
    wire->squares = (struct wire_squares){sums, sums + sizeof(double)};
    for (unsigned turn = 0; turn < turns; ++turn) {
        to_device(memory, values, bytes);
        wire->look = (struct wire_look){.claim = looks ? sums + room : 0, .found = sums + room, .turn = turn};
        pack(wire, 1);
        unpack(wire);
        from_device(found, sums, sizeof(found));
        ck_assert_msg(found[0] == 16 * found[1], "turn %u: %g %g", turn, found[0], found[1]);
    }
    ck_assert_msg(found[0] == turns * own, "threads %u compression %d path %d: %g, not %u times %g",
                  setting.kernels.threads, (int)setting.compression, (int)wire->path, found[0], turns, own);
    require(driver.cuMemFree_p(sums));
}

/* By one thread and by many, in place and packed, with and without a conversion, and where a mean divides before and
 * after the sum. A member that lies beside the bucket's is no part of it. */
TEST(squares_are_of_the_elements_before_and_after)
{
    setting.divides = true;
    setting.world_size = 4;
    for (unsigned round = 1; round <= ROUNDS; ++round) {
        struct any_bucket made = make_bucket(round);
        double own = plant_quarters(&made);
        size_t chunks = (made.wire.element_count * made.each + CHUNK_BYTES - 1) / CHUNK_BYTES;
        bool looks = below(2), in_part = made.wire.path == WIRE_IN_PLACE && !looks;
        check_squares(&made.wire, in_part ? (unsigned)chunks : 1, looks, own, arena, before, sizeof(before));
        wire_free(&made.wire, &driver);
    }
}

/* 17 rounds, of which one turn has two. */
TEST(squares_of_a_large_bucket_are_taken_in_turns)
{
    enum { LARGE = (20 * NONFINITE_TURNS + 1) * CHUNK_BYTES / sizeof(float) + 6 };
    struct bucket_member member = {.bytes = LARGE * sizeof(float)};
    struct bucket_wire wire = {0};
    float *values = calloc(LARGE, sizeof(float));
    double own = 0;
    ck_assert_ptr_nonnull(values);
    setting.divides = true;
    setting.world_size = 4;
    require(driver.cuMemAlloc_p(&member.address, member.bytes));
    for (size_t i = 0; i < LARGE; ++i) {
        values[i] = (float)(i % 4001);
        own += values[i] * values[i];
    }
    place(&wire, &member, 1, ncclFloat32);
    check_squares(&wire, NONFINITE_TURNS, true, own, member.address, values, member.bytes);
    wire_free(&wire, &driver);
    require(driver.cuMemFree_p(member.address));
    free(values);
}

/* Larger than what is looked at as a whole: each element comes in its turn, one in NONFINITE_TURNS of them at a time;
 * turn and step come with the launch of the kernel, or in part from memory. */
TEST(a_large_bucket_is_looked_at_in_turns)
{
    enum { LARGE_BYTES = 5 * NONFINITE_BLOCKS * NONFINITE_TURNS * CHUNK_BYTES / 4 + 24, EACH = 4 };
    struct bucket_wire wire = {0};
    CUdeviceptr claim, launch;
    struct nonfinite_found *found;
    struct bucket_member member = {.bytes = LARGE_BYTES};
    float *values = calloc(1, LARGE_BYTES);
    ck_assert_ptr_nonnull(values);
    require(driver.cuMemAlloc_p(&member.address, LARGE_BYTES));
    require(driver.cuMemAlloc_p(&claim, sizeof(uint32_t)));
    require(driver.cuMemAlloc_p(&launch, sizeof(struct nonfinite_launch)));
    require(driver.cuMemHostAlloc_p((void **)&found, sizeof(*found), 0));
    place(&wire, &member, 1, ncclFloat32);
    ck_assert(wire_looks_in_part(&wire));
    seed = 7;
    for (int round = 0; round < 12; ++round) {
        size_t place = round == 0 ? 0 : round == 1 ? LARGE_BYTES / EACH - 1 : below(LARGE_BYTES / EACH);
        unsigned hits = 0;
        uint32_t zero = 0;
        values[place] = NAN;
        to_device(member.address, values, LARGE_BYTES);
        for (unsigned turn = 0; turn < NONFINITE_TURNS; ++turn) {
            to_device(claim, &zero, sizeof(zero));
            memset(found, 0, sizeof(*found));
            wire.look = (struct wire_look){claim, (CUdeviceptr)(uintptr_t)found, turn + 1, turn, 0};
            if (round % 2 == 1) {
                to_device(launch, &(struct nonfinite_launch){.step = turn, .turn = turn},
                          sizeof(struct nonfinite_launch));
                wire.look = (struct wire_look){claim, (CUdeviceptr)(uintptr_t)found, 1, 0, launch};
            }
            pack(&wire, 1);
            require(driver.cuStreamSynchronize_p(CU_STREAM_PER_THREAD));
            hits += found->ready;
            if (found->ready != 0) {
                ck_assert_uint_eq(found->address, member.address + place * EACH);
                ck_assert_uint_eq(found->step, turn + 1);
            }
        }
        ck_assert_uint_eq(hits, 1);
        values[place] = 0;
    }
    wire_free(&wire, &driver);
    require(driver.cuMemFreeHost_p(found));
    require(driver.cuMemFree_p(claim));
    require(driver.cuMemFree_p(launch));
    require(driver.cuMemFree_p(member.address));
    free(values);
}

/* ---- the table ---- */

TEST(chunks_cover_every_byte_once)
{
    for (unsigned round = 1; round <= ROUNDS; ++round) {
        seed = round;
        struct bucket_member members[MEMBERS_AT_MOST];
        size_t member_count = make_members(members, 4);
        if (round % 20 == 0) /* its bytes are not read: an address and a length are enough */
            members[below(member_count)] =
                (struct bucket_member){.address = UINT64_C(1) << 46, .bytes = (UINT64_C(5) << 30) + 12};
        members[0].is_packed = true;
        struct bucket_wire wire = {.buffer_bytes = SIZE_MAX}; /* of which nothing is used */
        place(&wire, members, member_count, ncclFloat32);
        size_t count = wire.chunk_count;
        struct chunk *chunks = malloc(count * sizeof(*chunks));
        ck_assert_ptr_nonnull(chunks);
        from_device(chunks, wire.chunks, count * sizeof(*chunks));

        uint64_t at = 0;
        size_t next = 0;
        for (size_t i = 0; i < member_count; ++i) {
            for (uint64_t done = 0; done < members[i].bytes;) {
                const struct chunk *chunk = &chunks[next]; /* may hold the end of a neighbour, or begin in it */
                if (next >= count)
                    ck_abort_msg("%zu chunks end before member %zu", count, i);
                uint64_t inside = at + done - chunk->at, here = chunk->bytes - inside;
                if (inside >= chunk->bytes || chunk->bytes > CHUNK_BYTES ||
                    chunk->address + inside != members[i].address + done)
                    ck_abort_msg("chunk %zu of %zu does not continue member %zu", next, count, i);
                here = here < members[i].bytes - done ? here : members[i].bytes - done;
                done += here;
                next += inside + here == chunk->bytes;
            }
            at += members[i].bytes;
        }
        ck_assert_uint_eq(next, count);
        free(chunks);
        wire.buffer_bytes = 0;
        wire_free(&wire, &driver);
    }
}

/* ---- kernels that cannot be had ---- */

TEST(missing_kernels_are_refused)
{
    static const char *const paths[] = {"/nowhere/ddprun-kernels.fatbin", "/nowhere/libddprun-kernels.so", "libm.so.6",
                                        "/dev/null"};
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); ++i) {
        struct kernels kernels = {.loaded = false};
        ck_assert(!kernels_load(&kernels, &driver, paths[i], &error));
        ck_assert(!kernels.loaded);
        ck_assert_ptr_null(strchr(error.text, '\n'));
    }
}
