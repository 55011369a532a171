/*
 * test_wire.c - buckets are packed and unpacked as memcpy would, whatever their members look like in memory (see
 * wire_bucket.h), by kernels and by copies alike; memory around members is never touched; a changed bit makes a bucket
 * stale. A table for more bytes than this machine has is checked without them.
 *
 * Usage: test_wire [KERNELS], others than those of the build.
 */
#include "wire_bucket.h"

#include "comm/kernels/chunk.h"

#include "tests/lib/test.h"

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

static void
check_copies(struct bucket_wire *wire, const struct bucket_member *members, size_t count, ncclDataType_t type)
{
    place_bucket(wire, members, count, type);
    ck_assert(wire_has(wire, members, count));
    ck_assert_int_eq(wire->path == WIRE_IN_PLACE, may_be_in_place(members, count));
    ck_assert_int_eq(wire->path == WIRE_KERNELS, wire->path != WIRE_IN_PLACE && setting.kernels.loaded);

    fill_random(before, sizeof(before));
    to_device(arena, before, sizeof(before));
    pack_bucket(wire, 1);
    size_t bytes = members_gather(expected, before, members, count);
    ck_assert_uint_eq(bytes, wire->element_count * wire_element_bytes(wire->type));
    from_device(packed, wire->address, bytes);
    ck_assert_int_eq(memcmp(packed, expected, bytes), 0);

    fill_random(packed, bytes);
    to_device(wire->address, packed, bytes);
    unpack_bucket(wire);
    from_device(after, arena, sizeof(after));
    members_scatter(before, packed, members, count);
    ck_assert_int_eq(memcmp(after, before, sizeof(after)), 0);
}

TEST_GROUP(wire, .timeout_s = TEST_NO_TIMEOUT, .setup = keep_setting, .start = open_wire);

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
            size_t count = members_make(members, wire_element_bytes(type));
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
        size_t count = members_make(members, wire_element_bytes(type));
        require(driver.cuMemAlloc_p(&lent, 2 * ARENA_BYTES)); /* float16 may be sent as float32 */
        wire_lend(&wire, lent, 2 * ARENA_BYTES, true);
        place_bucket(&wire, members, count, type);
        ck_assert_int_eq(wire.path, WIRE_KERNELS);
        check_digests(&wire, members, count, word, below(3) == 0 ? 2 : 1);
        wire_free(&wire, &driver);
        require(driver.cuMemFree_p(lent));
        keep_setting();
    }
    require(driver.cuMemFree_p(word));
}

/* ---- the table ---- */

TEST(chunks_cover_every_byte_once)
{
    for (unsigned round = 1; round <= ROUNDS; ++round) {
        seed = round;
        struct bucket_member members[MEMBERS_AT_MOST];
        size_t member_count = members_make(members, 4);
        if (round % 20 == 0) /* its bytes are not read: an address and a length are enough */
            members[below(member_count)] =
                (struct bucket_member){.address = UINT64_C(1) << 46, .bytes = (UINT64_C(5) << 30) + 12};
        members[0].is_packed = true;
        struct bucket_wire wire = {.buffer_bytes = SIZE_MAX}; /* of which nothing is used */
        place_bucket(&wire, members, member_count, ncclFloat32);
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
