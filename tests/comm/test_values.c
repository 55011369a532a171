/*
 * test_values.c - without kernels the host finds what kernels find: how far two ranks' values are apart, and what a
 * sample of them holds, for every type, over more than one piece, with infinite values and NaN among them.
 */
#include "comm/values.h"
#include "device.h"

#include "tests/lib/test.h"

#include <string.h>

enum {
    ELEMENTS = 1500003,
    FIRST = 77,
    SAMPLE = 1000,
    MARKED = 3,
    BYTES = 8 * ELEMENTS,
    SAMPLE_BYTES = 8 * (SAMPLE + MARKED)
};

TEST_GROUP(values, .timeout_s = 100);

static const ncclDataType_t types[] = {ncclFloat32, ncclFloat64, ncclFloat16, ncclBfloat16};

/* On the device: two ranks' values, the arrays of a sample, what is found. */
static struct {
    CUdeviceptr mine, theirs, value, apart, found;
} device;
static struct wire_setting with, without;
static unsigned char mine[BYTES], theirs[BYTES];

static void
open_device(void)
{
    CUdeviceptr memory = device_open(&with.kernels, 2 * (size_t)BYTES + 2 * (size_t)SAMPLE_BYTES + 4096);
    with.driver = without.driver = &driver;
    device.mine = memory;
    device.theirs = device.mine + BYTES;
    device.value = device.theirs + BYTES;
    device.apart = device.value + SAMPLE_BYTES;
    device.found = device.apart + SAMPLE_BYTES;
}

/* Random bits, of which some are infinite or NaN; the ranks differ in every seventh element, in a low bit. */
static void
make_values(size_t bytes, size_t element)
{
    fill_random(mine, bytes);
    memcpy(theirs, mine, bytes);
    for (size_t i = 0; i < bytes; i += 7 * element)
        theirs[i] ^= 1;
    memset(theirs + 14 * element, 0xff, element); /* NaN, on one of the two */
}

static void
load_values(size_t bytes)
{
    to_device(device.mine, mine, bytes);
    to_device(device.theirs, theirs, bytes);
    require(driver.cuStreamSynchronize_p(CU_STREAM_PER_THREAD));
}

static struct values_chunk
chunk_of_all(void)
{
    return (struct values_chunk){device.mine, device.theirs, FIRST, ELEMENTS};
}

static struct values_found
compare_by(const struct wire_setting *setting, ncclDataType_t type, size_t bytes)
{
    struct comm_error error;
    struct values_found found = {.differing = 5}; /* of chunks before */
    load_values(bytes);
    to_device(device.found, &found, sizeof(found));
    ck_assert(values_compare(setting, chunk_of_all(), type, device.found, CU_STREAM_PER_THREAD, &error));
    from_device(&found, device.found, sizeof(found));
    return found;
}

TABLE_TEST(the_host_compares_as_kernels_do, types)
{
    open_device();
    size_t element = wire_element_bytes(types[_i]), bytes = ELEMENTS * element;
    make_values(bytes, element);
    struct values_found by_kernels = compare_by(&with, types[_i], bytes);
    struct values_found by_host = compare_by(&without, types[_i], bytes);
    ck_assert_mem_eq(&by_host, &by_kernels, sizeof(by_host));
    ck_assert_uint_gt(by_host.differing, ELEMENTS / 8);
    ck_assert_uint_gt(by_host.unlike, 0);
    from_device(mine, device.mine, bytes);
    ck_assert_mem_eq(mine, theirs, bytes); /* rank 0's values are taken */
}

/* Infinite and NaN alike: bits of a NaN are not. */
static bool
is_same(const double *a, const double *b, size_t count)
{
    for (size_t i = 0; i < count; ++i) {
        bool is_nan = a[i] != a[i];
        if (is_nan ? b[i] == b[i] : a[i] != b[i])
            return false;
    }
    return true;
}

static void
sample_by(const struct wire_setting *setting, ncclDataType_t type, bool of_zero, double value[SAMPLE + MARKED],
          double apart[SAMPLE + MARKED])
{
    struct comm_error error;
    struct values_sample sample = {.value = device.value,
                                   .apart = device.apart,
                                   .elements = FIRST + ELEMENTS + 1000, /* more than the chunk, at both ends */
                                   .count = SAMPLE,
                                   .seed = 3,
                                   .of_zero = of_zero,
                                   .marked = MARKED,
                                   .marks = {FIRST + 14, 5, FIRST + ELEMENTS - 1}}; /* one lies outside */
    require(driver.cuMemsetD8Async_p(device.value, 0, 2 * (size_t)SAMPLE_BYTES, CU_STREAM_PER_THREAD));
    ck_assert(values_sample(setting, chunk_of_all(), type, sample, CU_STREAM_PER_THREAD, &error));
    from_device(value, device.value, SAMPLE_BYTES);
    from_device(apart, device.apart, SAMPLE_BYTES);
}

TABLE_TEST(the_host_samples_as_kernels_do, types)
{
    static double value[2][SAMPLE + MARKED], apart[2][SAMPLE + MARKED];
    open_device();
    size_t element = wire_element_bytes(types[_i]), bytes = ELEMENTS * element;
    make_values(bytes, element);
    load_values(bytes);
    for (int of_zero = 0; of_zero < 2; ++of_zero) {
        sample_by(&with, types[_i], of_zero, value[0], apart[0]);
        sample_by(&without, types[_i], of_zero, value[1], apart[1]);
        ck_assert(is_same(value[1], value[0], SAMPLE + MARKED));
        ck_assert(is_same(apart[1], apart[0], SAMPLE + MARKED));
        ck_assert(value[1][SAMPLE + 1] == 0); /* the mark outside */
        ck_assert(value[1][SAMPLE / 2] != 0 && value[1][SAMPLE + 2] != 0);
    }
}
