/*
 * test_reduce.c - the arithmetic of reductions: against the plainest loop, for each type and operation. Conversions of
 * 16-bit floats are tested by tests/cc/kernels/half.cu, for each of the 65,536 patterns.
 */
#include "library/half.h"
#include "nccl/reduce.h"

#include "tests/lib/test.h"

const char softgpu_library_name[] = "test";

enum { RANKS = 5, COUNT = 2500, CASES = 40 };

static const ncclDataType_t all_types[] = {ncclInt8,   ncclUint8,   ncclInt32,   ncclUint32,  ncclInt64,
                                           ncclUint64, ncclFloat16, ncclFloat32, ncclFloat64, ncclBfloat16};
static const ncclRedOp_t all_ops[] = {ncclSum, ncclProd, ncclMax, ncclMin, ncclAvg};

TEST_GROUP(reduce, .timeout_s = 60);

static void
fill_random(unsigned *seed, unsigned char *bytes, size_t count, ncclDataType_t type)
{
    for (size_t i = 0; i < count; ++i) {
        float value = (float)(rand_r(seed) % 20001 - 10000) / 4096.0f;
        uint64_t bits = (uint64_t)rand_r(seed) << 42 ^ (uint64_t)rand_r(seed) << 21 ^ (uint64_t)rand_r(seed);
        double wide = value;
        uint16_t half = half_from_float(value), bfloat = bfloat_from_float(value);
        const void *source = type == ncclFloat32    ? (const void *)&value
                             : type == ncclFloat64  ? (const void *)&wide
                             : type == ncclFloat16  ? (const void *)&half
                             : type == ncclBfloat16 ? (const void *)&bfloat
                                                    : (const void *)&bits;
        memcpy(bytes + i * type_bytes(type), source, type_bytes(type));
    }
}

/* The plainest reference for one integer type: in the order of the ranks, modulo 2^bits. */
#define INTEGER_REFERENCE(type, unsigned_type)                                                         \
    {                                                                                                  \
        type value;                                                                                    \
        unsigned_type total = 0;                                                                       \
        for (int r = 0; r < ranks; ++r) {                                                              \
            type next;                                                                                 \
            memcpy(&next, sources[r] + i * sizeof(type), sizeof(type));                                \
            if (r == 0) {                                                                              \
                total = (unsigned_type)next;                                                           \
                continue;                                                                              \
            }                                                                                          \
            type so_far = (type)total;                                                                 \
            total = op == ncclProd  ? (unsigned_type)((uint64_t)total * (uint64_t)(unsigned_type)next) \
                    : op == ncclMax ? (unsigned_type)(next > so_far ? next : so_far)                   \
                    : op == ncclMin ? (unsigned_type)(next < so_far ? next : so_far)                   \
                                    : (unsigned_type)(total + (unsigned_type)next);                    \
        }                                                                                              \
        value = (type)total;                                                                           \
        if (op == ncclAvg)                                                                             \
            value = (type)(value / (type)ranks);                                                       \
        ck_assert_mem_eq(&value, result + i * sizeof(type), sizeof(type));                             \
        break;                                                                                         \
    }

/* Each share of an average, and each sum, is rounded to the type as it is stored. */
#define FLOAT_REFERENCE(type, storage, load, store)                                           \
    {                                                                                         \
        type total = 0, share = (type)load(store((type)1 / (type)ranks));                     \
        for (int r = 0; r < ranks; ++r) {                                                     \
            storage bits;                                                                     \
            memcpy(&bits, sources[r] + i * sizeof(storage), sizeof(storage));                 \
            type next = load(bits);                                                           \
            volatile type product = next * share;                                             \
            if (op == ncclAvg)                                                                \
                next = load(store(product));                                                  \
            volatile type sum = r == 0 ? next : op == ncclProd ? total * next : total + next; \
            total = r > 0 && op == ncclMax   ? (next > total ? next : total)                  \
                    : r > 0 && op == ncclMin ? (next < total ? next : total)                  \
                                             : load(store(sum));                              \
        }                                                                                     \
        storage value = store(total);                                                         \
        ck_assert_mem_eq(&value, result + i * sizeof(storage), sizeof(storage));              \
        break;                                                                                \
    }

#define SAME(x) (x)

static void
compare_element(unsigned char *const *sources, int ranks, size_t i, ncclDataType_t type, ncclRedOp_t op,
                const unsigned char *result)
{
    switch (type) {
    case ncclInt8:
        INTEGER_REFERENCE(int8_t, uint8_t)
    case ncclUint8:
        INTEGER_REFERENCE(uint8_t, uint8_t)
    case ncclInt32:
        INTEGER_REFERENCE(int32_t, uint32_t)
    case ncclUint32:
        INTEGER_REFERENCE(uint32_t, uint32_t)
    case ncclInt64:
        INTEGER_REFERENCE(int64_t, uint64_t)
    case ncclUint64:
        INTEGER_REFERENCE(uint64_t, uint64_t)
    case ncclFloat32:
        FLOAT_REFERENCE(float, float, SAME, SAME)
    case ncclFloat64:
        FLOAT_REFERENCE(double, double, SAME, SAME)
    case ncclFloat16:
        FLOAT_REFERENCE(float, uint16_t, float_from_half, half_from_float)
    default:
        FLOAT_REFERENCE(float, uint16_t, float_from_bfloat, bfloat_from_float)
    }
}

/* _i counts types x operations. */
LOOP_TEST(reduction_equals_the_plain_loop, 0, 50)
{
    ncclDataType_t type = all_types[(size_t)_i / 5];
    ncclRedOp_t op = all_ops[_i % 5];
    unsigned seed = (unsigned)_i + 1;
    unsigned char *sources[RANKS];
    for (int r = 0; r < RANKS; ++r)
        sources[r] = malloc(COUNT * type_bytes(type));
    unsigned char *result = malloc(COUNT * type_bytes(type));
    for (int n = 0; n < CASES; ++n) {
        int ranks = 1 + rand_r(&seed) % RANKS;
        size_t count = (size_t)rand_r(&seed) % (COUNT + 1);
        for (int r = 0; r < ranks; ++r)
            fill_random(&seed, sources[r], count, type);
        reduce_elements(result, (const void *const *)sources, ranks, count, type, op);
        for (size_t i = 0; i < count; ++i)
            compare_element(sources, ranks, i, type, op, result);
        /* In place into any of the sources, the same bits. */
        int place = rand_r(&seed) % ranks;
        reduce_elements(sources[place], (const void *const *)sources, ranks, count, type, op);
        ck_assert_mem_eq(sources[place], result, count * type_bytes(type));
    }
    for (int r = 0; r < RANKS; ++r)
        free(sources[r]);
    free(result);
}

/* 1/3 in bfloat16 is 0.3340: the average of three equal values is off by 0.2 %. */
TEST(average_of_16_bits_is_off)
{
    uint16_t one = bfloat_from_float(1.0f), mean;
    const void *sources[] = {&one, &one, &one};
    reduce_elements(&mean, sources, 3, 1, ncclBfloat16, ncclAvg);
    ck_assert_float_eq(float_from_bfloat(mean), 1.0f);
    one = bfloat_from_float(1.5f);
    reduce_elements(&mean, sources, 3, 1, ncclBfloat16, ncclAvg);
    ck_assert_float_eq(float_from_bfloat(mean), 1.5f);
}

TEST(average_divides_the_sum)
{
    int32_t a[] = {-7, 2147483647}, b[] = {0, 1};
    const void *sources[] = {a, b};
    int32_t result[2];
    reduce_elements(result, sources, 2, 2, ncclInt32, ncclAvg);
    ck_assert_int_eq(result[0], -3);          /* towards zero */
    ck_assert_int_eq(result[1], -1073741824); /* the sum wraps around first */
    float x = 1.0f, y = 2.0f, z = 4.0f, mean;
    const void *floats[] = {&x, &y, &z};
    reduce_elements(&mean, floats, 3, 1, ncclFloat32, ncclAvg);
    ck_assert_float_eq_tol(mean, 7.0f / 3.0f, 1e-6f);
}

TEST(number_wins_over_nan_in_min_and_max)
{
    float nan = NAN, one = 1.0f, result;
    const void *first[] = {&nan, &one}, *second[] = {&one, &nan};
    for (int i = 0; i < 2; ++i) {
        reduce_elements(&result, i ? first : second, 2, 1, ncclFloat32, ncclMax);
        ck_assert_float_eq(result, 1.0f);
        reduce_elements(&result, i ? first : second, 2, 1, ncclFloat32, ncclMin);
        ck_assert_float_eq(result, 1.0f);
    }
}

TEST(eight_bit_floats_are_refused_and_named)
{
    ck_assert_uint_eq(type_bytes(ncclFloat8e4m3), 0);
    ck_assert_uint_eq(type_bytes(ncclFloat8e5m2), 0);
    ck_assert_uint_eq(type_bytes((ncclDataType_t)99), 0);
    ck_assert_str_eq(type_name(ncclFloat8e5m2), "float8e5m2");
}
