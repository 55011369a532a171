/* wire_bucket.c - see wire_bucket.h. */
#include "wire_bucket.h"

#include "comm/kernels/chunk.h"

#include "tests/lib/test.h"

struct wire_setting setting;
CUdeviceptr arena;
unsigned char before[ARENA_BYTES], after[ARENA_BYTES], packed[ARENA_BYTES], expected[ARENA_BYTES];
struct comm_error error;

const struct float_type float_types[FLOAT_TYPES] = {{ncclFloat32, 0x7f800000, 0x1p-24, 0x1p-149},
                                                    {ncclFloat64, UINT64_C(0x7ff) << 52, 0x1p-53, 0x1p-1074},
                                                    {ncclFloat16, 0x7c00, 0x1p-11, 0x1p-24},
                                                    {ncclBfloat16, 0x7f80, 0x1p-8, 0x1p-133}};

/* ---- the device ---- */

void
open_wire(void)
{
    setting = (struct wire_setting){.driver = &driver, .world_size = WORLD_SIZE};
    arena = device_open(&setting.kernels, ARENA_BYTES);
}

void
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

size_t
members_make(struct bucket_member *members, size_t element)
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

size_t
members_gather(unsigned char *to, const unsigned char *image, const struct bucket_member *members, size_t count)
{
    size_t bytes = 0;
    for (size_t i = 0; i < count; ++i) {
        memcpy(to + bytes, image + (members[i].address - arena), members[i].bytes);
        bytes += members[i].bytes;
    }
    return bytes;
}

void
members_scatter(unsigned char *image, const unsigned char *from, const struct bucket_member *members, size_t count)
{
    for (size_t i = 0; i < count; ++i) {
        memcpy(image + (members[i].address - arena), from, members[i].bytes);
        from += members[i].bytes;
    }
}

void
place_bucket(struct bucket_wire *wire, const struct bucket_member *members, size_t count, ncclDataType_t type)
{
    ck_assert_msg(wire_place(wire, &setting, members, count, type, CU_STREAM_PER_THREAD, &error), "%s", error.text);
}

void
pack_bucket(struct bucket_wire *wire, double weight)
{
    ck_assert_msg(wire_pack(wire, &setting, weight, CU_STREAM_PER_THREAD, &error), "%s", error.text);
}

void
unpack_bucket(struct bucket_wire *wire)
{
    ck_assert_msg(wire_unpack(wire, &setting, CU_STREAM_PER_THREAD, &error), "%s", error.text);
}

/* ---- numbers, against the list of all values that 16 bits can hold ---- */

double
number_of_bits(unsigned bits, bool bfloat)
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

unsigned
number_nearest_bits(float value, bool bfloat)
{
    unsigned infinity = bfloat ? 0x7f80 : 0x7c00, sign = signbit(value) ? 0x8000 : 0, low = 0, high = infinity;
    double magnitude = fabs((double)value);
    if (!(magnitude < number_of_bits(infinity, bfloat)))
        return sign | infinity;
    while (high - low > 1) {
        unsigned middle = (low + high) / 2;
        *(number_of_bits(middle, bfloat) <= magnitude ? &low : &high) = middle;
    }
    double below_by = magnitude - number_of_bits(low, bfloat), above_by = number_of_bits(high, bfloat) - magnitude;
    bool up = above_by < below_by || (above_by == below_by && high % 2 == 0);
    return sign | (up ? high : low);
}

bool
number_is_nan(unsigned bits, bool bfloat)
{
    return (bits & 0x7fff) > (bfloat ? 0x7f80u : 0x7c00u);
}

double
number_load(const unsigned char *from, ncclDataType_t type)
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
    double magnitude = number_is_nan(bits, bfloat)   ? NAN
                       : (bits & 0x7fff) == infinity ? INFINITY
                                                     : number_of_bits(bits & 0x7fff, bfloat);
    return bits & 0x8000 ? -magnitude : magnitude;
}

void
number_store(unsigned char *to, double value, ncclDataType_t type)
{
    float single = (float)value;
    bool bfloat = type == ncclBfloat16;
    uint16_t bits = 0;
    if (type == ncclFloat16 || type == ncclBfloat16)
        bits = isnan(value) ? 0x7fff : (uint16_t)number_nearest_bits(single, bfloat);
    memcpy(to,
           type == ncclFloat64   ? (const void *)&value
           : type == ncclFloat32 ? (const void *)&single
                                 : (const void *)&bits,
           wire_element_bytes(type));
}
