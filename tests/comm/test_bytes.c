/*
 * test_bytes.c - how often the kernels, with as many threads as on a GPU, touch a byte of a gradient: a packed bucket
 * is read twice and written twice, with the look for NaN, squares, a weight and the mean on the way; in place once
 * each, and once more where it is scaled before. A bucket that is sent before DDP_STEP is read three times and written
 * twice, wherever its members lie: 5 bytes for each byte of gradient, 3 more than one in place. Squares launch no
 * kernel more, and read no byte more where one looks for NaN. The kernels count themselves (count_bytes.h).
 */
#include "count_bytes.h"
#include "device.h"

#include "comm/kernels/chunk.h"
#include "comm/nccl_versions.h"
#include "comm/wire.h"
#include "tests/lib/test.h"

enum { MEMBERS = 7, APART = 96 * 1024, ARENA_BYTES = MEMBERS * APART };

static struct wire_setting setting;
static CUdeviceptr arena, seen, lent;
static unsigned launches;
static bool looks = true;
static __typeof__(&cuLaunchKernel) next_launch;

static CUresult CUDAAPI
count_launch(CUfunction function, unsigned blocks_x, unsigned blocks_y, unsigned blocks_z, unsigned threads_x,
             unsigned threads_y, unsigned threads_z, unsigned shared_bytes, CUstream stream, void **arguments,
             void **extra)
{
    ++launches;
    return next_launch(function, blocks_x, blocks_y, blocks_z, threads_x, threads_y, threads_z, shared_bytes, stream,
                       arguments, extra);
}

/* Tests may run in one process: what one has set is not there in the next. */
static void
set_up(void)
{
    setting = (struct wire_setting){0};
    looks = true;
    arena = device_open(&setting.kernels, ARENA_BYTES);
    setting.kernels.threads = CHUNK_THREADS;
    setting.driver = &driver;
    if (driver.cuLaunchKernel_p != count_launch)
        next_launch = driver.cuLaunchKernel_p;
    driver.cuLaunchKernel_p = count_launch;
    setting.divides = true;
    setting.world_size = 3;
    require(driver.cuMemAlloc_p(&seen, 4096));
    require(driver.cuMemAlloc_p(&lent, 2 * ARENA_BYTES)); /* float16 may be sent as float32 */
    require(driver.cuMemsetD8Async_p(seen, 0, 4096, CU_STREAM_PER_THREAD));
    require(driver.cuMemsetD8Async_p(arena, 0x3e, ARENA_BYTES, CU_STREAM_PER_THREAD)); /* finite in all types */
}

/* What is enqueued for a bucket in a step, but for its reduction. */
typedef void enqueue_function(struct bucket_wire *wire, double weight);

static void
send_at_step(struct bucket_wire *wire, double weight)
{
    struct comm_error error;
    ck_assert(wire_pack(wire, &setting, weight, CU_STREAM_PER_THREAD, &error));
    ck_assert(wire_unpack(wire, &setting, CU_STREAM_PER_THREAD, &error));
}

/* Packed early, compared at DDP_STEP, committed. */
static void
speculate(struct bucket_wire *wire, double weight)
{
    struct comm_error error;
    ck_assert(wire_pack_digested(wire, &setting, weight, CU_STREAM_PER_THREAD, &error));
    ck_assert(wire_compare(wire, &setting, weight, seen + 3072, CU_STREAM_PER_THREAD, &error));
    ck_assert(wire_unpack(wire, &setting, CU_STREAM_PER_THREAD, &error));
}

/* Bytes of its members that a bucket reads and writes in a step, in members and buffer. */
static struct counted_bytes
count_step(enqueue_function *enqueue, const struct bucket_member *members, size_t member_count, ncclDataType_t type,
           double weight, bool with_squares)
{
    struct comm_error error;
    struct bucket_wire wire = {0};
    __typeof__(&count_bytes_begin) count_begin;
    __typeof__(&count_bytes_end) count_end;
    void *kernels = dlopen(KERNELS, RTLD_NOW | RTLD_NOLOAD);
    *(void **)&count_begin = dlsym(kernels, "count_bytes_begin");
    *(void **)&count_end = dlsym(kernels, "count_bytes_end");
    ck_assert(count_begin != NULL && count_end != NULL);
    if (enqueue == speculate)
        wire_lend(&wire, lent, 2 * ARENA_BYTES, true);
    ck_assert(wire_place(&wire, &setting, members, member_count, type, CU_STREAM_PER_THREAD, &error));
    wire.look = (struct wire_look){.claim = looks ? seen : 0, .found = seen + 1024};
    wire.squares = with_squares ? (struct wire_squares){seen + 2048, seen + 2056} : (struct wire_squares){0};
    require(driver.cuStreamSynchronize_p(CU_STREAM_PER_THREAD));
    struct counted_bytes both[2];
    launches = 0;
    for (int i = 0; i < 2; ++i) {
        CUdeviceptr from = i == 0 ? arena : wire.buffer;
        count_begin((uintptr_t)from, (uintptr_t)(from + (i == 0 ? ARENA_BYTES : wire.buffer_bytes)));
        enqueue(&wire, weight);
        require(driver.cuStreamSynchronize_p(CU_STREAM_PER_THREAD));
        both[i] = count_end();
    }
    wire_free(&wire, &driver);
    return (struct counted_bytes){both[0].read + both[1].read, both[0].written + both[1].written};
}

static struct counted_bytes
count(const struct bucket_member *members, size_t member_count, ncclDataType_t type, double weight, bool with_squares)
{
    return count_step(send_at_step, members, member_count, type, weight, with_squares);
}

static size_t
make_members(struct bucket_member *members, bool apart)
{
    size_t bytes = 0;
    for (size_t i = 0; i < MEMBERS; ++i) {
        size_t here = apart ? 4096 * (3 * i + 1) : APART; /* up to 76 KiB: several chunks, the last one not whole */
        members[i] = (struct bucket_member){.address = arena + i * APART, .bytes = here};
        bytes += here;
    }
    return bytes;
}

static const ncclDataType_t float_types[] = {ncclFloat32, ncclFloat64, ncclFloat16, NCCL_BFLOAT16};

/* Float16 is sent as float32. */
static size_t
buffer_bytes(ncclDataType_t type, size_t bytes)
{
    return wire_widens(&setting, type) ? 2 * bytes : bytes;
}

LOOP_TEST(a_packed_bucket_is_read_and_written_twice, 0, 16)
{
    struct bucket_member members[MEMBERS];
    set_up();
    const ncclDataType_t type = float_types[_i / 4];
    const size_t bytes = make_members(members, true), buffer = buffer_bytes(type, bytes);
    struct counted_bytes counted = count(members, MEMBERS, type, _i % 2 == 0 ? 1 : 0.5, _i % 4 > 1);
    ck_assert_uint_eq(counted.read, bytes + buffer);
    ck_assert_uint_eq(counted.written, bytes + buffer);
    ck_assert_uint_eq(launches, 2 * 2); /* of two rounds, to pack and to unpack */
}

/* Each type with and without a weight, each of these with members apart and as neighbours, which --no-overlap reduces
 * in place: there a step would read and write each byte once. */
LOOP_TEST(a_bucket_that_is_sent_early_is_read_three_times_and_written_twice, 0, 16)
{
    struct bucket_member members[MEMBERS];
    set_up();
    const ncclDataType_t type = float_types[_i / 4];
    const size_t bytes = make_members(members, _i % 2 == 0);
    const size_t buffer = buffer_bytes(type, bytes);
    struct counted_bytes counted = count_step(speculate, members, MEMBERS, type, _i % 4 > 1 ? 1 : 0.5, _i % 3 == 0);
    ck_assert_uint_eq(counted.read, 2 * bytes + buffer);
    ck_assert_uint_eq(counted.written, bytes + buffer);
    ck_assert_uint_eq(launches, 2 * 3); /* of two rounds, to pack, to compare and to commit */
}

/* Half as wide in the buffer. */
LOOP_TEST(a_compressed_bucket_that_is_sent_early_moves_four_bytes_for_each, 0, 2)
{
    struct bucket_member members[MEMBERS];
    set_up();
    setting.compression = _i == 0 ? DDPRUN_COMPRESS_FP16 : DDPRUN_COMPRESS_BF16;
    size_t bytes = make_members(members, true);
    struct counted_bytes counted = count_step(speculate, members, MEMBERS, ncclFloat32, 1, false);
    ck_assert_uint_eq(counted.read, 2 * bytes + bytes / 2);
    ck_assert_uint_eq(counted.written, bytes + bytes / 2);
}

/* 42 chunks: a look at one in three, and squares of these. */
LOOP_TEST(a_bucket_in_place_is_read_and_written_once, 0, 2)
{
    struct bucket_member members[MEMBERS];
    set_up();
    size_t bytes = make_members(members, false);
    struct counted_bytes counted = count(members, MEMBERS, ncclFloat32, 1, _i == 1);
    ck_assert_uint_le(counted.read, bytes + bytes / 2);
    ck_assert_uint_eq(counted.written, bytes);
    ck_assert_uint_eq(launches, 2 * 2); /* to look and to scale */
}

/* Of a bucket in place of 1 to 7 members, of 6 chunks each: squares of one step in 17 (noise.c), beside a look, which
 * reads them anyway, and without one. */
LOOP_TEST(squares_read_a_hundredth_more_at_most, 2, 16)
{
    struct bucket_member members[MEMBERS];
    set_up();
    (void)make_members(members, false);
    looks = _i % 2 == 0;
    struct counted_bytes plain = count(members, (size_t)_i / 2, ncclFloat32, 1, false);
    struct counted_bytes squares = count(members, (size_t)_i / 2, ncclFloat32, 1, true);
    ck_assert_uint_eq(squares.written, plain.written);
    if (looks)
        ck_assert_uint_eq(squares.read, plain.read);
    else
        ck_assert_uint_gt(squares.read, plain.read);
    ck_assert_uint_le(100 * (squares.read - plain.read), 17 * (plain.read + plain.written));
}
