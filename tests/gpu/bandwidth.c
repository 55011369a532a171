/*
 * bandwidth.c - how fast ddprun's kernels move memory of the device, beside a copy on it: bandwidth KERNELS
 * STATE_KERNELS [MIB [ROUNDS]].
 *
 * KERNELS and STATE_KERNELS are ddprun-kernels.fatbin and ddprun-plan-kernels.fatbin, or the stand-in's libraries. A
 * line for each way a bucket of MIB MiB (64) goes, in so many rounds (100) between two events: its name, what is
 * expected, the bytes read and written in a second and their ratio to the copy's, and the verdict `measured`, with tabs
 * between them; for first.sh. Members of a packed bucket are of 1 MiB and have gaps between them.
 */
#include "comm/device_hash.h"
#include "comm/kernels/nonfinite.h"
#include "comm/nccl_versions.h"
#include "comm/wire.h"
#include "tests/lib/numbers.h"
#include "tools/plan/trainer/kernels/state.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

enum { MEMBER_BYTES = 1 << 20, GAP_BYTES = 4096, RANKS = 3 };
enum { KEEP, CHANGE, APPLY, STATE_KERNELS }; /* of a plan by state */

struct bench {
    struct driver driver;
    struct wire_setting setting;
    struct bucket_wire wire;
    struct hash_range range;
    CUfunction state[STATE_KERNELS];
    struct state_table { /* of all chunks of `memory`, on the device */
        CUdeviceptr chunks;
        uint32_t count;
        unsigned threads;
    } table;
    size_t bytes;
    CUdeviceptr memory, other, seen; /* the members; as many bytes again; what looks and hashes find */
    CUstream stream;
    CUevent begin, end;
    int rounds;
    double copied; /* bytes a second */
};

static void
require(bool ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "bandwidth: %s\n", what);
    exit(1);
}

static void
require_call(CUresult result, const char *what)
{
    if (result == CUDA_SUCCESS)
        return;
    fprintf(stderr, "bandwidth: %s failed with error %d\n", what, (int)result);
    exit(1);
}

static __typeof__(&cuGetProcAddress_v2) look_up_by;

static void *
look_up(const char *name, int version)
{
    void *function = NULL;
    return look_up_by(name, &function, version, CU_GET_PROC_ADDRESS_LEGACY_STREAM, NULL) == CUDA_SUCCESS ? function
                                                                                                         : NULL;
}

static void
open_device(struct bench *bench, const char *kernels)
{
    struct comm_error error;
    CUdevice device;
    CUcontext context;
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    require(library != NULL, "no libcuda.so.1");
    *(void **)&look_up_by = dlsym(library, "cuGetProcAddress_v2");
    __typeof__(&cuInit) init;
    __typeof__(&cuDeviceGet) get;
    *(void **)&init = dlsym(library, "cuInit");
    *(void **)&get = dlsym(library, "cuDeviceGet");
    require(look_up_by != NULL && init != NULL && get != NULL, "a driver before CUDA 12");
    require_call(init(0), "cuInit");
    require_call(get(&device, 0), "cuDeviceGet");
    require(driver_fill(&bench->driver, look_up, &error) && bench->driver.cuDevicePrimaryCtxRetain_p != NULL,
            "the driver lacks functions");
    require_call(bench->driver.cuDevicePrimaryCtxRetain_p(&context, device), "cuDevicePrimaryCtxRetain");
    require_call(bench->driver.cuCtxSetCurrent_p(context), "cuCtxSetCurrent");
    require_call(bench->driver.cuStreamCreateWithPriority_p(&bench->stream, CU_STREAM_NON_BLOCKING, 0), "a stream");
    require_call(bench->driver.cuEventCreate_p(&bench->begin, 0), "cuEventCreate");
    require_call(bench->driver.cuEventCreate_p(&bench->end, 0), "cuEventCreate");
    bench->setting = (struct wire_setting){
        .driver = &bench->driver, .divides = true, .world_size = RANKS, .reduction = DDPRUN_REDUCE_MEAN};
    require(kernels_load(&bench->setting.kernels, &bench->driver, kernels, &error), error.text);
}

/* Zeros: no bits of them change by what is done here. */
static CUdeviceptr
allocate(const struct bench *bench, size_t bytes)
{
    CUdeviceptr memory;
    require_call(bench->driver.cuMemAlloc_p(&memory, bytes), "cuMemAlloc");
    require_call(bench->driver.cuMemsetD8Async_p(memory, 0, bytes, bench->stream), "cuMemsetD8Async");
    return memory;
}

/* Places `bench->bytes` in members that lie apart, or as one. */
static void
place(struct bench *bench, bool apart, ncclDataType_t type, enum ddprun_compression compression)
{
    size_t each = apart ? MEMBER_BYTES : bench->bytes, count = bench->bytes / each;
    struct bucket_member *members = calloc(count, sizeof(*members));
    struct comm_error error;
    require(members != NULL, "out of memory");
    for (size_t i = 0; i < count; ++i)
        members[i] = (struct bucket_member){bench->memory + i * (each + GAP_BYTES), each, false};
    bench->setting.compression = compression;
    bench->wire.stays_packed = apart; /* also if there is one */
    require(wire_place(&bench->wire, &bench->setting, members, count, type, bench->stream, &error), error.text);
    bench->wire.look = (struct wire_look){0};
    free(members);
}

static void
look(struct bench *bench)
{
    bench->wire.look = (struct wire_look){.claim = bench->seen, .found = bench->seen + 64};
}

/* ---- what is measured: a round each ---- */

typedef bool (*round_fn)(struct bench *bench, struct comm_error *error);

static bool
copy(struct bench *bench, struct comm_error *error)
{
    CUresult result = bench->driver.cuMemcpyDtoDAsync_p(bench->other, bench->memory, bench->bytes, bench->stream);
    return result == CUDA_SUCCESS || driver_fail(&bench->driver, result, "copying", error);
}

static bool
pack(struct bench *bench, struct comm_error *error)
{
    return wire_pack(&bench->wire, &bench->setting, 1, bench->stream, error);
}

static bool
pack_weighted(struct bench *bench, struct comm_error *error)
{
    return wire_pack(&bench->wire, &bench->setting, 0.5, bench->stream, error);
}

static bool
pack_digested(struct bench *bench, struct comm_error *error)
{
    return wire_pack_digested(&bench->wire, &bench->setting, 1, bench->stream, error);
}

/* With what pack_digested() has packed. */
static bool
compare(struct bench *bench, struct comm_error *error)
{
    return wire_compare(&bench->wire, &bench->setting, 1, bench->seen + 128, bench->stream, error);
}

static bool
unpack(struct bench *bench, struct comm_error *error)
{
    return wire_unpack(&bench->wire, &bench->setting, bench->stream, error);
}

/* One look takes a part of a bucket in place: the whole is looked at in NONFINITE_TURNS. */
static bool
look_at_all(struct bench *bench, struct comm_error *error)
{
    bool ok = true;
    for (bench->wire.look.turn = 0; ok && bench->wire.look.turn < NONFINITE_TURNS; ++bench->wire.look.turn)
        ok = wire_pack(&bench->wire, &bench->setting, 1, bench->stream, error);
    return ok;
}

static bool
hash(struct bench *bench, struct comm_error *error)
{
    struct hash_launch launch = {0};
    return device_hash_add(&launch, bench->range) &&
           device_hash_run(&launch, &bench->driver, &bench->setting.kernels, bench->stream, error);
}

/* `moved`: bytes read and written in a round. Returns bytes a second. */
static double
measure(struct bench *bench, const char *name, round_fn round, double moved)
{
    struct comm_error error = {0};
    const struct driver *driver = &bench->driver;
    float ms = 0;
    for (int i = -2; i < bench->rounds; ++i) { /* two warm up */
        if (i == 0)
            require_call(driver->cuEventRecord_p(bench->begin, bench->stream), "cuEventRecord");
        require(round(bench, &error), error.text);
    }
    require_call(driver->cuEventRecord_p(bench->end, bench->stream), "cuEventRecord");
    require_call(driver->cuStreamSynchronize_p(bench->stream), "cuStreamSynchronize");
    require_call(driver->cuEventElapsedTime_p(&ms, bench->begin, bench->end), "cuEventElapsedTime");
    double speed = moved * bench->rounds / (ms > 0 ? 1e-3 * (double)ms : 1e-9);
    if (bench->copied > 0)
        printf("bandwidth: %s\tas the copy: 1.0\t%.1f GB/s, %.2f of the copy; %.3f ms for %zu MiB\tmeasured\n", name,
               1e-9 * speed, speed / bench->copied, (double)ms / bench->rounds, bench->bytes >> 20);
    else
        printf("bandwidth: %s\t-\t%.1f GB/s\tmeasured\n", name, 1e-9 * speed);
    return speed;
}

static void
measure_packed(struct bench *bench)
{
    double bytes = (double)bench->bytes;
    place(bench, true, ncclFloat32, DDPRUN_COMPRESS_NONE);
    measure(bench, "pack", pack, 2 * bytes);
    measure(bench, "pack with digests", pack_digested, 2 * bytes);
    measure(bench, "validation: comparison with the digests", compare, bytes);
    look(bench);
    measure(bench, "validation: comparison with the look for NaN", compare, bytes);
    measure(bench, "pack with the look for NaN", pack, 2 * bytes);
    measure(bench, "pack with the look and a weight", pack_weighted, 2 * bytes);
    measure(bench, "commit: unpack, divided by the number of ranks", unpack, 2 * bytes);
    place(bench, true, NCCL_BFLOAT16, DDPRUN_COMPRESS_NONE);
    measure(bench, "unpack of bfloat16, divided", unpack, 2 * bytes);
    place(bench, true, ncclFloat32, DDPRUN_COMPRESS_BF16);
    measure(bench, "pack to bfloat16", pack, 1.5 * bytes);
    measure(bench, "unpack from bfloat16", unpack, 1.5 * bytes);
}

static void
measure_in_place(struct bench *bench)
{
    double bytes = (double)bench->bytes;
    place(bench, false, ncclFloat32, DDPRUN_COMPRESS_NONE);
    measure(bench, "division in place, float32", unpack, 2 * bytes);
    look(bench);
    measure(bench, "look for NaN in place, in 16 launches", look_at_all, bytes);
    measure(bench, "look (a sixteenth) and weight in place", pack_weighted, 2 * bytes);
    place(bench, false, NCCL_BFLOAT16, DDPRUN_COMPRESS_NONE);
    measure(bench, "division in place, bfloat16", unpack, 2 * bytes);
    measure(bench, "hash", hash, bytes);
}

/* ---- a plan by state ---- */

static void
load_state_kernels(struct bench *bench, const char *path)
{
    static const char *const names[STATE_KERNELS] = {"ddprun_state_keep", "ddprun_state_change", "ddprun_state_apply"};
    struct comm_error error = {0};
    uint32_t count = (uint32_t)(bench->bytes / sizeof(float) / STATE_CHUNK);
    struct state_chunk *chunks = calloc(count, sizeof(*chunks));
    CUdeviceptr change = allocate(bench, bench->bytes);
    require(chunks != NULL, "out of memory");
    require(kernels_load_named(names, bench->state, STATE_KERNELS, &bench->driver, path, &error), error.text);
    for (uint64_t i = 0; i < count; ++i) {
        uint64_t at = i * STATE_CHUNK * sizeof(float);
        chunks[i] = (struct state_chunk){bench->memory + at, bench->other + at, change + at, STATE_CHUNK, 1};
    }
    bench->table = (struct state_table){.chunks = allocate(bench, count * sizeof(*chunks)),
                                        .count = count,
                                        .threads = strstr(path, ".so") != NULL ? 1 : STATE_THREADS};
    require_call(bench->driver.cuMemcpyHtoDAsync_p(bench->table.chunks, chunks, count * sizeof(*chunks), bench->stream),
                 "cuMemcpyHtoDAsync");
    require_call(bench->driver.cuStreamSynchronize_p(bench->stream), "cuStreamSynchronize");
    free(chunks);
}

static bool
launch_state(struct bench *bench, int kernel, void *third, void *fourth, struct comm_error *error)
{
    void *arguments[] = {&bench->table.chunks, &bench->table.count, third, fourth};
    unsigned blocks = bench->table.count < STATE_BLOCKS_AT_MOST ? bench->table.count : STATE_BLOCKS_AT_MOST;
    CUresult result = bench->driver.cuLaunchKernel_p(bench->state[kernel], blocks, 1, 1, bench->table.threads, 1, 1, 0,
                                                     bench->stream, arguments, NULL);
    return result == CUDA_SUCCESS || driver_fail(&bench->driver, result, "launching a kernel of state", error);
}

static bool
keep_state(struct bench *bench, struct comm_error *error)
{
    uint32_t back = 0;
    return launch_state(bench, KEEP, &back, NULL, error);
}

static bool
change_state(struct bench *bench, struct comm_error *error)
{
    uint32_t adds = 0;
    CUdeviceptr found = bench->seen;
    return launch_state(bench, CHANGE, &adds, &found, error);
}

static bool
apply_state(struct bench *bench, struct comm_error *error)
{
    struct state_mean mean = {1, 2};
    CUdeviceptr found = bench->seen;
    return launch_state(bench, APPLY, &mean, &found, error);
}

static void
measure_state(struct bench *bench, const char *path)
{
    double bytes = (double)bench->bytes;
    load_state_kernels(bench, path);
    measure(bench, "state kept as a round begins", keep_state, 2 * bytes);
    measure(bench, "change of state", change_state, 3 * bytes);
    measure(bench, "change of state applied", apply_state, 3 * bytes);
}

int
main(int argc, char **argv)
{
    if (argc < 3 || argc > 5) {
        fputs("Usage: bandwidth KERNELS STATE_KERNELS [MIB [ROUNDS]]   (MIB 1 to 4096)\n", stderr);
        return 2;
    }
    size_t mebibytes = argc > 3 ? (size_t)whole_number(argv[3], 1, 4096) : 64;
    struct bench bench = {.rounds = argc > 4 ? (int)whole_number(argv[4], 1, INT_MAX) : 100};
    bench.bytes = mebibytes << 20;
    open_device(&bench, argv[1]);
    bench.memory = allocate(&bench, bench.bytes + mebibytes * GAP_BYTES);
    bench.other = allocate(&bench, bench.bytes);
    bench.seen = allocate(&bench, 4096);
    bench.range = (struct hash_range){.address = bench.memory, .bytes = bench.bytes, .result = bench.seen + 1024};
    bench.copied = measure(&bench, "a copy on the device (cuMemcpyDtoD)", copy, 2 * (double)bench.bytes);
    measure_packed(&bench);
    measure_in_place(&bench);
    measure_state(&bench, argv[2]);
    return 0;
}
