/*
 * test_wire_looks.c - what the wire sees as it packs and unpacks: infinite elements and NaN in any element of any
 * member, at once or in turns, and sums of squares before and after.
 *
 * Usage: test_wire_looks [KERNELS], others than those of the build.
 */
#include "wire_bucket.h"

#include "comm/kernels/chunk.h"
#include "comm/kernels/nonfinite.h"

#include "tests/lib/test.h"

TEST_GROUP(wire_looks, .timeout_s = TEST_NO_TIMEOUT, .setup = keep_setting, .start = open_wire);

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
    made.count = members_make(made.members, made.each);
    place_bucket(&made.wire, made.members, made.count, made.type);
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
        pack_bucket(wire, 1);
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
            number_store(before + (made->members[i].address - arena) + at, value, made->type);
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
        pack_bucket(wire, 1);
        unpack_bucket(wire);
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
    place_bucket(&wire, &member, 1, ncclFloat32);
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
    place_bucket(&wire, &member, 1, ncclFloat32);
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
            pack_bucket(&wire, 1);
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
