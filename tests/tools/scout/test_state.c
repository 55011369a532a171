/*
 * The kernels of a plan by state (tools/plan/trainer/kernels/kernels.cu) against plain C, for all types: a word with
 * the bits that it had has the change 0; changes add; a mean of 0 leaves a word's bits, -0.0, infinities and NaN alike;
 * 16-bit floats change in float32; whole numbers add exactly; what lies behind the elements is not touched; and whether
 * all ranks have had the same change is found.
 */
#include "tests/comm/device.h"
#include "tests/lib/test.h"
#include "tools/near/element.h"
#include "tools/plan/trainer/kernels/state.h"

#include <math.h>

enum {
    COUNT = 1000,
    BYTES = (COUNT + 1) * 8,
    ARRAYS = 3,
    TYPES = 6,
    KEEP = 0,
    CHANGE,
    DIVIDE,
    APPLY,
    RETURN,
    KERNEL_COUNT
};

static CUfunction kernels[KERNEL_COUNT];
static CUdeviceptr memory, chunk, found;
static unsigned char value[BYTES], begin[BYTES], change[BYTES], was[BYTES];

static void
open_device(void)
{
    static const char *const names[KERNEL_COUNT] = {"ddprun_state_keep", "ddprun_state_change", "ddprun_state_divide",
                                                    "ddprun_state_apply", "ddprun_state_return"};
    struct kernels unused;
    struct comm_error error;
    if (memory != 0)
        return;
    memory = device_open(&unused, ARRAYS * BYTES + sizeof(struct state_chunk) + sizeof(struct state_found));
    chunk = memory + ARRAYS * BYTES;
    found = chunk + sizeof(struct state_chunk);
    ck_assert_msg(kernels_load_named(names, kernels, KERNEL_COUNT, &driver, PLAN_KERNELS, &error), "%s", error.text);
}

static void
launch(int kernel, void *third, void *fourth)
{
    uint32_t count = 1;
    void *arguments[] = {&chunk, &count, third, fourth};
    require(driver.cuLaunchKernel_p(kernels[kernel], 3, 1, 1, 1, 1, 1, 0, CU_STREAM_PER_THREAD, arguments, NULL));
}

static void
read_back(void)
{
    from_device(value, memory, BYTES);
    from_device(begin, memory + BYTES, BYTES);
    from_device(change, memory + 2 * BYTES, BYTES);
}

static int
wide_of(int type)
{
    return element_size(type) < sizeof(float) ? ELEMENT_FLOAT32 : type;
}

static bool
is_whole(int type)
{
    return type >= ELEMENT_INT32;
}

/* Begins, and values of which each third is the same and each seventh is peculiar. */
static void
fill(int type)
{
    static const double peculiar[] = {-0.0, INFINITY, -INFINITY, NAN, 0.0};
    memset(value, 0x5a, BYTES);
    memset(begin, 0x5a, BYTES);
    memset(change, 0x5a, BYTES);
    for (size_t i = 0; i < COUNT; ++i) {
        double number =
            is_whole(type) ? (double)(element_scramble(i) % 100000) : sin((double)i) * (i % 5 == 0 ? 1e4 : 1);
        element_put(type, begin, i, i % 7 == 0 && !is_whole(type) ? peculiar[i / 7 % 5] : number);
        element_put(type, value, i, i % 11 == 0 && !is_whole(type) ? peculiar[i / 11 % 5] : number + (double)(i % 13));
        if (i % 3 == 0)
            memcpy(value + i * element_size(type), begin + i * element_size(type), element_size(type));
    }
    const struct state_chunk of = {
        .value = memory, .begin = memory + BYTES, .change = memory + 2 * BYTES, .count = COUNT, .type = (uint32_t)type};
    to_device(memory, value, BYTES);
    to_device(memory + BYTES, begin, BYTES);
    to_device(memory + 2 * BYTES, change, BYTES);
    to_device(chunk, &of, sizeof(of));
}

static bool
has_same_bits(const void *a, const void *b, size_t size, size_t i)
{
    return memcmp((const char *)a + i * size, (const char *)b + i * size, size) == 0;
}

/* An element of a change, rounded as its type is; NaN is any NaN. */
static void
require_change(int type, size_t i, double wanted)
{
    unsigned char rounded[8];
    element_put(wide_of(type), rounded, 0, wanted);
    double now = element_get(wide_of(type), change, i), then = element_get(wide_of(type), rounded, 0);
    ck_assert_msg(now == then || (isnan(now) && isnan(then)), "type %d, element %zu: %g, not %g", type, i, now, then);
}

static double
difference(int type, size_t i)
{
    unsigned char rounded[8];
    if (has_same_bits(value, begin, element_size(type), i))
        return 0;
    element_put(wide_of(type), rounded, 0, element_get(type, value, i) - element_get(type, begin, i));
    return element_get(wide_of(type), rounded, 0);
}

LOOP_TEST(changes_are_those_of_plain_c, 1, TYPES + 1)
{
    uint32_t adds = 0;
    CUdeviceptr unasked = 0;
    open_device();
    fill(_i);
    launch(CHANGE, &adds, &unasked);
    read_back();
    for (size_t i = 0; i < COUNT; ++i)
        require_change(_i, i, difference(_i, i));
    adds = 1;
    launch(CHANGE, &adds, &unasked);
    read_back();
    for (size_t i = 0; i < COUNT; ++i)
        require_change(_i, i, 2 * difference(_i, i));
    ck_assert_int_eq(change[COUNT * element_size(wide_of(_i))], 0x5a);
}

/* The mean of a round of 3 ranks, of which 2 had a step; of sums: the change itself. */
LOOP_TEST(means_are_added_to_what_was, 1, TYPES + 1)
{
    const int type = _i;
    const size_t size = element_size(type);
    const struct state_mean of_three = {3, 2}, none = {1, 1};
    struct state_mean mean = is_whole(type) ? none : of_three;
    CUdeviceptr unasked = 0;
    uint32_t adds = 0;
    double over = 3;
    open_device();
    fill(type);
    launch(CHANGE, &adds, &unasked);
    read_back();
    memcpy(was, change, BYTES);
    if (!is_whole(type))
        launch(DIVIDE, &over, NULL);
    launch(APPLY, &mean, &unasked);
    read_back();
    for (size_t i = 0; i < COUNT; ++i) {
        unsigned char rounded[8];
        const double one = element_get(wide_of(type), was, i);
        double by = type == ELEMENT_FLOAT64 ? one / 3 * 3 / 2 : (double)((float)one / 3 * 3 / 2);
        by = is_whole(type) ? one : by;
        element_put(wide_of(type), rounded, 0, element_get(type, begin, i) + by);
        element_put(type, rounded, 0, element_get(wide_of(type), rounded, 0));
        const double now = element_get(type, value, i), then = element_get(type, rounded, 0);
        if (by == 0)
            ck_assert_msg(has_same_bits(value, begin, size, i), "type %d: element %zu has other bits", type, i);
        else
            ck_assert_msg(now == then || (isnan(now) && isnan(then)), "type %d, element %zu: %g, not %g", type, i, now,
                          then);
    }
    ck_assert_int_eq(value[COUNT * size], 0x5a);
}

LOOP_TEST(what_was_is_kept_and_put_back, 1, TYPES + 1)
{
    uint32_t back = 0;
    open_device();
    fill(_i);
    memcpy(was, value, BYTES);
    launch(KEEP, &back, NULL);
    read_back();
    ck_assert_mem_eq(begin, was, COUNT * element_size(_i));
    ck_assert_int_eq(begin[COUNT * element_size(_i)], 0x5a);
    memset(value, 0, BYTES);
    to_device(memory, value, BYTES);
    back = 1;
    launch(KEEP, &back, NULL);
    read_back();
    ck_assert_mem_eq(value, was, COUNT * element_size(_i));
    ck_assert_int_eq(value[COUNT * element_size(_i)], 0);
}

/* What is put back was there: a word of other bits is seen, and -0.0 is another word than 0. */
LOOP_TEST(what_was_written_is_seen, 1, TYPES + 1)
{
    const size_t size = element_size(_i);
    for (int is_written = 0; is_written < 2; ++is_written) {
        struct state_found seen = {0};
        open_device();
        fill(_i);
        memcpy(value, begin, BYTES);
        value[17 * size] ^= (unsigned char)is_written;
        to_device(memory, value, BYTES);
        to_device(found, &seen, sizeof(seen));
        launch(RETURN, &found, NULL);
        from_device(&seen, found, sizeof(seen));
        read_back();
        ck_assert_uint_eq(seen.written, (uint32_t)is_written);
        ck_assert_mem_eq(value, begin, COUNT * size);
    }
}

/* A mean of equal changes is rounded; a change beside another is not the mean, nor is one that is not a number. */
TEST(equal_changes_are_found)
{
    static const struct {
        double own, mean;
        uint32_t differs, changed;
    } rows[] = {{0.1, 0.1, 0, 1}, {0.1, 0.1000001, 0, 1}, {0.1, 0.10001, 1, 1}, {-0.1, 0.1, 1, 1},
                {0, 0, 0, 0},     {0, 1e-30, 1, 1},       {0.5, NAN, 1, 1},     {1e-30, 0, 1, 0}};
    const struct state_mean none = {1, 1};
    struct state_mean mean = none;
    struct state_found seen = {0};
    open_device();
    for (size_t row = 0; row < sizeof(rows) / sizeof(rows[0]); ++row) {
        fill(ELEMENT_FLOAT32);
        memset(begin, 0, BYTES);
        memset(value, 0, BYTES);
        memset(change, 0, BYTES);
        element_put(ELEMENT_FLOAT32, value, 17, rows[row].own);
        element_put(ELEMENT_FLOAT32, change, 17, rows[row].mean);
        seen = (struct state_found){0};
        to_device(memory, value, BYTES);
        to_device(memory + BYTES, begin, BYTES);
        to_device(memory + 2 * BYTES, change, BYTES);
        to_device(found, &seen, sizeof(seen));
        launch(APPLY, &mean, &found);
        from_device(&seen, found, sizeof(seen));
        ck_assert_msg(seen.differs == rows[row].differs && seen.changed == rows[row].changed, "row %zu: %u, %u", row,
                      seen.differs, seen.changed);
    }
}

/* A zero among floats that becomes a whole number, or the half of a wide one, is seen. Others are not. */
TEST(a_zero_that_becomes_a_whole_number_is_seen)
{
    static const struct {
        int type;
        uint64_t begin, value;
        uint32_t turned;
    } rows[] = {{ELEMENT_FLOAT32, 0, 1, 1},
                {ELEMENT_FLOAT32, 0, 0x3f800000, 0},
                {ELEMENT_FLOAT32, 1, 2, 0},
                {ELEMENT_FLOAT32, 0, 0x00400000, 0},
                {ELEMENT_FLOAT64, 0, 3, 1},
                {ELEMENT_FLOAT64, 0, (uint64_t)7 << 32, 1},
                {ELEMENT_FLOAT64, 0, 0x3ff0000000000000, 0},
                {ELEMENT_FLOAT16, 0, 1, 0}};
    uint32_t adds = 0;
    open_device();
    for (size_t row = 0; row < sizeof(rows) / sizeof(rows[0]); ++row) {
        struct state_found seen = {0};
        const size_t bytes = element_size(rows[row].type);
        fill(rows[row].type);
        memcpy(value, begin, BYTES);
        memcpy(begin + 17 * bytes, &rows[row].begin, bytes);
        memcpy(value + 17 * bytes, &rows[row].value, bytes);
        to_device(memory, value, BYTES);
        to_device(memory + BYTES, begin, BYTES);
        to_device(found, &seen, sizeof(seen));
        launch(CHANGE, &adds, &found);
        from_device(&seen, found, sizeof(seen));
        ck_assert_msg(seen.turned == rows[row].turned, "row %zu: %u", row, seen.turned);
    }
}
