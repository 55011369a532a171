/*
 * reduce.c - see reduce.h. Compiled without contraction of a*b+c, so that results are the same on every machine.
 */
#include "nccl/reduce.h"

#include "library/half.h"
#include "softgpu/convert.h"

#include <string.h>

/* Accumulators live in a block of this many elements that stays in the first-level cache while the sources pass by. */
enum { BLOCK = 1024 };

struct type_row {
    const char *name;
    size_t bytes;
};

static const struct type_row types[ncclNumTypes] = {
    [ncclInt8] = {"int8", 1},         [ncclUint8] = {"uint8", 1},           [ncclInt32] = {"int32", 4},
    [ncclUint32] = {"uint32", 4},     [ncclInt64] = {"int64", 8},           [ncclUint64] = {"uint64", 8},
    [ncclFloat16] = {"float16", 2},   [ncclFloat32] = {"float32", 4},       [ncclFloat64] = {"float64", 8},
    [ncclBfloat16] = {"bfloat16", 2}, [ncclFloat8e4m3] = {"float8e4m3", 0}, [ncclFloat8e5m2] = {"float8e5m2", 0},
};

size_t
type_bytes(ncclDataType_t type)
{
    return (unsigned)type < ncclNumTypes ? types[type].bytes : 0;
}

const char *
type_name(ncclDataType_t type)
{
    return (unsigned)type < ncclNumTypes ? types[type].name : "a type that NCCL does not have";
}

const char *
reduction_name(ncclRedOp_t op)
{
    static const char *const names[ncclNumOps] = {"sum", "prod", "max", "min", "avg"};
    return (unsigned)op < ncclNumOps ? names[op] : "premulsum";
}

#define LOAD_AS_IS(x)       (x)
#define ADD(a, b)           ((a) + (b))
#define MULTIPLY(a, b)      ((a) * (b))
#define FLOAT_LARGER(a, b)  ((b) > (a) || (a) != (a) ? (b) : (a))
#define FLOAT_SMALLER(a, b) ((b) < (a) || (a) != (a) ? (b) : (a))
#define LARGER(a, b)        ((b) > (a) ? (b) : (a))
#define SMALLER(a, b)       ((b) < (a) ? (b) : (a))

/* accumulator[i] = the combination of the sources' i-th elements in the order of the ranks. */
#define COMBINE_SOURCES(type, accumulator_type, load, combine)                                                  \
    if (rank_count == 1) {                                                                                      \
        for (size_t i = 0; i < length; ++i)                                                                     \
            accumulator[i] = (accumulator_type)load(first[i]);                                                  \
    } else {                                                                                                    \
        const type *second = (const type *)sources[1] + begin;                                                  \
        for (size_t i = 0; i < length; ++i)                                                                     \
            accumulator[i] =                                                                                    \
                (accumulator_type)combine((accumulator_type)load(first[i]), (accumulator_type)load(second[i])); \
        for (int r = 2; r < rank_count; ++r) {                                                                  \
            const type *source = (const type *)sources[r] + begin;                                              \
            for (size_t i = 0; i < length; ++i)                                                                 \
                accumulator[i] = (accumulator_type)combine(accumulator[i], (accumulator_type)load(source[i]));  \
        }                                                                                                       \
    }

/*
 * One function per type. `arithmetic` is the type in which accumulators are kept: for the signed integers the unsigned
 * ones while adding and multiplying, where wrapping around is defined. An average is a sum of what `load_share` makes
 * of each element, and `finish_average` of the sum.
 */
#define DEFINE_REDUCTION(function, type, arithmetic, load, store, larger, smaller, load_share, finish_average)        \
    static void function(void *destination, const void *const *sources, int rank_count, size_t count, ncclRedOp_t op) \
    {                                                                                                                 \
        arithmetic accumulator[BLOCK];                                                                                \
        for (size_t begin = 0; begin < count; begin += BLOCK) {                                                       \
            size_t length = count - begin < BLOCK ? count - begin : BLOCK;                                            \
            const type *first = (const type *)sources[0] + begin;                                                     \
            switch (op) {                                                                                             \
            case ncclProd:                                                                                            \
                COMBINE_SOURCES(type, arithmetic, load, MULTIPLY)                                                     \
                break;                                                                                                \
            case ncclMax:                                                                                             \
                COMBINE_SOURCES(type, arithmetic, load, larger)                                                       \
                break;                                                                                                \
            case ncclMin:                                                                                             \
                COMBINE_SOURCES(type, arithmetic, load, smaller)                                                      \
                break;                                                                                                \
            case ncclAvg:                                                                                             \
                COMBINE_SOURCES(type, arithmetic, load_share, ADD)                                                    \
                for (size_t i = 0; i < length; ++i)                                                                   \
                    accumulator[i] = (arithmetic)finish_average(type, accumulator[i]);                                \
                break;                                                                                                \
            default: /* ncclSum */                                                                                    \
                COMBINE_SOURCES(type, arithmetic, load, ADD)                                                          \
                break;                                                                                                \
            }                                                                                                         \
            type *out = (type *)destination + begin;                                                                  \
            for (size_t i = 0; i < length; ++i)                                                                       \
                out[i] = (type)store(accumulator[i]);                                                                 \
        }                                                                                                             \
    }

/* Comparisons of values kept in an unsigned accumulator are made in the signed type. */
#define DEFINE_SIGNED_COMPARISONS(type, arithmetic)                     \
    static inline arithmetic larger_##type(arithmetic a, arithmetic b)  \
    {                                                                   \
        return (type)b > (type)a ? b : a;                               \
    }                                                                   \
    static inline arithmetic smaller_##type(arithmetic a, arithmetic b) \
    {                                                                   \
        return (type)b < (type)a ? b : a;                               \
    }

/* Integers are divided after they are added, floats multiplied with the reciprocal before (ncclDevPreMulSum in NCCL's
 * src/enqueue.cc). */
#define DIVIDE(type, sum) ((type)(sum) / rank_count)
#define LEAVE(type, sum)  (sum)
#define FLOAT_SHARE(x)    ((x) * (1.0f / (float)rank_count))
#define DOUBLE_SHARE(x)   ((x) * (1.0 / (double)rank_count))

DEFINE_SIGNED_COMPARISONS(int8_t, uint8_t)
DEFINE_SIGNED_COMPARISONS(int32_t, uint32_t)
DEFINE_SIGNED_COMPARISONS(int64_t, uint64_t)

DEFINE_REDUCTION(reduce_int8, int8_t, uint8_t, (uint8_t), (int8_t), larger_int8_t, smaller_int8_t, (uint8_t), DIVIDE)
DEFINE_REDUCTION(reduce_uint8, uint8_t, uint8_t, LOAD_AS_IS, LOAD_AS_IS, LARGER, SMALLER, LOAD_AS_IS, DIVIDE)
DEFINE_REDUCTION(reduce_int32, int32_t, uint32_t, (uint32_t), (int32_t), larger_int32_t, smaller_int32_t, (uint32_t),
                 DIVIDE)
DEFINE_REDUCTION(reduce_uint32, uint32_t, uint32_t, LOAD_AS_IS, LOAD_AS_IS, LARGER, SMALLER, LOAD_AS_IS, DIVIDE)
DEFINE_REDUCTION(reduce_int64, int64_t, uint64_t, (uint64_t), (int64_t), larger_int64_t, smaller_int64_t, (uint64_t),
                 DIVIDE)
DEFINE_REDUCTION(reduce_uint64, uint64_t, uint64_t, LOAD_AS_IS, LOAD_AS_IS, LARGER, SMALLER, LOAD_AS_IS, DIVIDE)
DEFINE_REDUCTION(reduce_float32, float, float, LOAD_AS_IS, LOAD_AS_IS, FLOAT_LARGER, FLOAT_SMALLER, FLOAT_SHARE, LEAVE)
DEFINE_REDUCTION(reduce_float64, double, double, LOAD_AS_IS, LOAD_AS_IS, FLOAT_LARGER, FLOAT_SMALLER, DOUBLE_SHARE,
                 LEAVE)

struct format {
    void (*widen)(float *to, const uint16_t *from, size_t count, float scale);
    void (*narrow)(uint16_t *to, const float *from, size_t count, float scale);
};

/*
 * Types of 16 bits, a block at a time. As between GPUs, where each rank passes on what it has added, every sum is
 * rounded to the type; the reciprocal of an average is rounded as well.
 */
static void
reduce_narrow(const struct format *format, uint16_t *destination, const void *const *sources, int rank_count,
              size_t count, ncclRedOp_t op)
{
    float share = 1.0f / (float)rank_count, sum[BLOCK], next[BLOCK];
    const void *const both[] = {sum, next};
    uint16_t narrow[BLOCK];
    format->narrow(narrow, &share, 1, 1.0f);
    format->widen(&share, narrow, 1, 1.0f);
    for (size_t begin = 0; begin < count; begin += BLOCK) {
        size_t length = count - begin < BLOCK ? count - begin : BLOCK;
        for (int r = 0; r < rank_count; ++r) {
            float *values = r == 0 ? sum : next;
            format->widen(values, (const uint16_t *)sources[r] + begin, length, 1.0f);
            if (op == ncclAvg) {
                format->narrow(narrow, values, length, share);
                format->widen(values, narrow, length, 1.0f);
            }
            if (r == 0)
                continue;
            reduce_float32(sum, both, 2, length, op == ncclAvg ? ncclSum : op);
            format->narrow(narrow, sum, length, 1.0f);
            format->widen(sum, narrow, length, 1.0f);
        }
        format->narrow(destination + begin, sum, length, 1.0f);
    }
}

static void
reduce_float16(void *destination, const void *const *sources, int rank_count, size_t count, ncclRedOp_t op)
{
    static const struct format format = {softgpu_halves_to_floats, softgpu_floats_to_halves};
    reduce_narrow(&format, destination, sources, rank_count, count, op);
}

static void
reduce_bfloat16(void *destination, const void *const *sources, int rank_count, size_t count, ncclRedOp_t op)
{
    static const struct format format = {softgpu_bfloats_to_floats, softgpu_floats_to_bfloats};
    reduce_narrow(&format, destination, sources, rank_count, count, op);
}

void
reduce_elements(void *destination, const void *const *sources, int rank_count, size_t count, ncclDataType_t type,
                ncclRedOp_t op)
{
    static void (*const reductions[ncclNumTypes])(void *, const void *const *, int, size_t, ncclRedOp_t) = {
        [ncclInt8] = reduce_int8,         [ncclUint8] = reduce_uint8,     [ncclInt32] = reduce_int32,
        [ncclUint32] = reduce_uint32,     [ncclInt64] = reduce_int64,     [ncclUint64] = reduce_uint64,
        [ncclFloat16] = reduce_float16,   [ncclFloat32] = reduce_float32, [ncclFloat64] = reduce_float64,
        [ncclBfloat16] = reduce_bfloat16,
    };
    reductions[type](destination, sources, rank_count, count, op);
}

#define SCALE_CASE(nccl_type, type, arithmetic, load, store)                                              \
    case nccl_type: {                                                                                     \
        type factor_bits;                                                                                 \
        memcpy(&factor_bits, scalar, sizeof(factor_bits));                                                \
        arithmetic factor = (arithmetic)load(factor_bits);                                                \
        for (size_t i = 0; i < count; ++i)                                                                \
            ((type *)destination)[i] = (type)store((arithmetic)load(((const type *)source)[i]) * factor); \
        break;                                                                                            \
    }

void
scale_elements(void *destination, const void *source, size_t count, ncclDataType_t type, const void *scalar)
{
    switch (type) {
        SCALE_CASE(ncclInt8, uint8_t, uint8_t, LOAD_AS_IS, LOAD_AS_IS)
        SCALE_CASE(ncclUint8, uint8_t, uint8_t, LOAD_AS_IS, LOAD_AS_IS)
        SCALE_CASE(ncclInt32, uint32_t, uint32_t, LOAD_AS_IS, LOAD_AS_IS)
        SCALE_CASE(ncclUint32, uint32_t, uint32_t, LOAD_AS_IS, LOAD_AS_IS)
        SCALE_CASE(ncclInt64, uint64_t, uint64_t, LOAD_AS_IS, LOAD_AS_IS)
        SCALE_CASE(ncclUint64, uint64_t, uint64_t, LOAD_AS_IS, LOAD_AS_IS)
        SCALE_CASE(ncclFloat32, float, float, LOAD_AS_IS, LOAD_AS_IS)
        SCALE_CASE(ncclFloat64, double, double, LOAD_AS_IS, LOAD_AS_IS)
        SCALE_CASE(ncclFloat16, uint16_t, float, float_from_half, half_from_float)
        SCALE_CASE(ncclBfloat16, uint16_t, float, float_from_bfloat, bfloat_from_float)
    default:
        break;
    }
}
