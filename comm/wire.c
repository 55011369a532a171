/* wire.c - see wire.h. */
#include "comm/wire.h"

#include "base/assertion.h"
#include "comm/nccl_versions.h"

#include "comm/kernels/chunk.h"
#include "comm/kernels/nonfinite.h"

#include <stdlib.h>
#include <string.h>

static const struct {
    ncclDataType_t type;
    size_t bytes;
    const char *name;
    uint64_t exponents; /* of all elements in 8 bytes */
} types[KERNEL_TYPES] = {
    [KERNEL_FLOAT32] = {ncclFloat32, 4, "float32", UINT64_C(0x7f8000007f800000)},
    [KERNEL_FLOAT64] = {ncclFloat64, 8, "float64", UINT64_C(0x7ff0000000000000)},
    [KERNEL_FLOAT16] = {ncclFloat16, 2, "float16", UINT64_C(0x7c007c007c007c00)},
    [KERNEL_BFLOAT16] = {NCCL_BFLOAT16, 2, "bfloat16", UINT64_C(0x7f807f807f807f80)},
};

enum kernel_type
wire_kernel_type(ncclDataType_t type)
{
    int i = 0;
    while (i < KERNEL_TYPES && types[i].type != type)
        ++i;
    return (enum kernel_type)i;
}

size_t
wire_element_bytes(ncclDataType_t type)
{
    enum kernel_type kernel_type = wire_kernel_type(type);
    return kernel_type < KERNEL_TYPES ? types[kernel_type].bytes : 0;
}

const char *
wire_type_name(ncclDataType_t type)
{
    enum kernel_type kernel_type = wire_kernel_type(type);
    return kernel_type < KERNEL_TYPES ? types[kernel_type].name : "no type of gradients";
}

const char *
wire_path_name(enum wire_path path)
{
    static const char *const names[] = {
        [WIRE_IN_PLACE] = "in place", [WIRE_KERNELS] = "kernels", [WIRE_COPIES] = "copies"};
    return names[path];
}

/* ---- the kernels' table ---- */

/* How many members from the first on lie next to each other in memory; their bytes. */
static size_t
neighbours(const struct bucket_member *members, size_t count, uint64_t *bytes_p)
{
    size_t n = 1;
    uint64_t bytes = members[0].bytes;
    while (n < count && members[n].address == members[0].address + bytes)
        bytes += members[n++].bytes;
    *bytes_p = bytes;
    return n;
}

/* How many chunks these members are. */
static size_t
count_chunks(const struct bucket_member *members, size_t member_count)
{
    size_t count = 0;
    uint64_t bytes;
    for (size_t i = 0; i < member_count;) {
        i += neighbours(members + i, member_count - i, &bytes);
        count += (bytes + CHUNK_BYTES - 1) / CHUNK_BYTES;
    }
    return count;
}

/* The device makes the table, in the stream's order: the bucket's last round may still be reading the old one, and a
 * copy from the host's memory might wait for that (CUDA: API synchronization behavior). */
static bool
fill_table(const struct bucket_wire *wire, const struct wire_setting *setting, CUstream stream,
           struct comm_error *error)
{
    uint64_t at = 0, chunk = 0;
    for (size_t i = 0; i < wire->member_count;) {
        struct chunk_runs runs = {0};
        CUdeviceptr table = wire->chunks;
        for (; i < wire->member_count && runs.count < CHUNK_RUNS_AT_MOST; ++runs.count) {
            struct chunk_run *run = &runs.runs[runs.count];
            *run = (struct chunk_run){.address = wire->members[i].address, .at = at, .first = chunk};
            i += neighbours(wire->members + i, wire->member_count - i, &run->bytes);
            at += run->bytes;
            chunk += (run->bytes + CHUNK_BYTES - 1) / CHUNK_BYTES;
        }
        runs.end = (uint32_t)chunk;
        void *arguments[] = {&table, &runs};
        CUresult result = setting->driver->cuLaunchKernel_p(setting->kernels.chunks, 1, 1, 1, setting->kernels.threads,
                                                            1, 1, 0, stream, arguments, NULL);
        if (result != CUDA_SUCCESS)
            return driver_fail(setting->driver, result, "preparing a bucket", error);
    }
    ASSERT(at == wire->element_count * wire_element_bytes(wire->member_type) && chunk == wire->chunk_count);
    return true;
}

static bool
place_chunks(struct bucket_wire *wire, const struct wire_setting *setting, CUstream stream, struct comm_error *error)
{
    const struct driver *driver = setting->driver;
    size_t count = count_chunks(wire->members, wire->member_count);
    if (count > UINT32_MAX)
        return comm_fail(error, "a bucket of %zu pieces is too large; try a smaller --bucket-mb", count);
    if (count > wire->chunk_capacity) {
        CUdeviceptr grown;
        CUresult result = driver->cuMemAlloc_p(&grown, count * (sizeof(struct chunk) + sizeof(uint64_t)));
        if (result == CUDA_SUCCESS && wire->chunk_capacity > 0)
            result = driver->cuMemFree_p(wire->chunks); /* waits for work that still reads it */
        if (result != CUDA_SUCCESS)
            return driver_fail(driver, result, "preparing a bucket", error);
        wire->chunks = grown;
        wire->digests = grown + count * sizeof(struct chunk);
        wire->chunk_capacity = count;
    }
    wire->chunk_count = (unsigned)count;
    return fill_table(wire, setting, stream, error);
}

/* ---- placing ---- */

static bool
keep_members(struct bucket_wire *wire, const struct bucket_member *members, size_t count, struct comm_error *error)
{
    struct bucket_member *kept = malloc((count + 1) * sizeof(*kept));
    if (kept == NULL)
        return comm_fail_by(error, COMM_OWN, "out of memory");
    memcpy(kept, members, count * sizeof(*kept));
    free(wire->members);
    wire->members = kept;
    wire->member_count = count;
    return true;
}

static bool
place_buffer(struct bucket_wire *wire, const struct driver *driver, size_t bytes, struct comm_error *error)
{
    if (bytes <= wire->buffer_bytes)
        return true;
    ASSERT(!wire->is_lent);
    if (wire->buffer_bytes > 0)
        (void)driver->cuMemFree_p(wire->buffer); /* waits for work that still uses it */
    wire->buffer_bytes = 0;
    CUresult result = driver->cuMemAlloc_p(&wire->buffer, bytes);
    if (driver_result_is_fault(result))
        return driver_fail(driver, result, "cuMemAlloc of a bucket", error);
    if (result != CUDA_SUCCESS)
        return comm_fail_by(
            error, COMM_OWN, "no device memory for a bucket of %zu bytes: %s; try a smaller --bucket-mb%s", bytes,
            driver_result_name(driver, result),
            wire->conversion == CONVERT_TO_FLOAT32 ? ", or --compress fp16, which sends float16 as it is" : "");
    wire->buffer_bytes = bytes;
    return true;
}

bool
wire_widens(const struct wire_setting *setting, ncclDataType_t type)
{
    return type == ncclFloat16 && setting->divides && setting->reduction == DDPRUN_REDUCE_MEAN &&
           setting->compression == DDPRUN_COMPRESS_NONE;
}

static enum kernel_conversion
conversion_of(const struct wire_setting *setting, ncclDataType_t type)
{
    static const enum kernel_conversion narrows[DDPRUN_COMPRESSION_COUNT] = {
        [DDPRUN_COMPRESS_NONE] = CONVERT_NOTHING,
        [DDPRUN_COMPRESS_FP16] = CONVERT_TO_FLOAT16,
        [DDPRUN_COMPRESS_BF16] = CONVERT_TO_BFLOAT16,
    };
    if (type == ncclFloat32)
        return narrows[setting->compression];
    return wire_widens(setting, type) ? CONVERT_TO_FLOAT32 : CONVERT_NOTHING;
}

static ncclDataType_t
sent_type(const struct wire_setting *setting, ncclDataType_t type)
{
    static const ncclDataType_t made[KERNEL_CONVERSIONS] = {
        [CONVERT_TO_FLOAT16] = ncclFloat16, [CONVERT_TO_BFLOAT16] = NCCL_BFLOAT16, [CONVERT_TO_FLOAT32] = ncclFloat32};
    const enum kernel_conversion conversion = conversion_of(setting, type);
    return conversion == CONVERT_NOTHING ? type : made[conversion];
}

size_t
wire_sent_bytes(const struct wire_setting *setting, ncclDataType_t type, size_t bytes)
{
    const size_t element_bytes = wire_element_bytes(type);
    if (element_bytes == 0)
        return bytes;
    ASSERT(bytes % element_bytes == 0);
    return bytes / element_bytes * wire_element_bytes(sent_type(setting, type));
}

bool
wire_is_packed(const struct wire_setting *setting, const struct bucket_member *members, size_t member_count,
               ncclDataType_t type, size_t *bytes_p)
{
    size_t bytes = 0;
    uint64_t together;
    bool is_packed = conversion_of(setting, type) != CONVERT_NOTHING;
    for (size_t i = 0; i < member_count; ++i) {
        bytes += members[i].bytes;
        is_packed = is_packed || members[i].is_packed;
    }
    *bytes_p = wire_sent_bytes(setting, type, bytes);
    return is_packed || neighbours(members, member_count, &together) != member_count;
}

void
wire_lend(struct bucket_wire *wire, CUdeviceptr buffer, size_t bytes, bool always)
{
    wire->stays_packed = always;
    wire->buffer = buffer;
    wire->buffer_bytes = bytes;
    wire->is_lent = true;
}

bool
wire_place(struct bucket_wire *wire, const struct wire_setting *setting, const struct bucket_member *members,
           size_t member_count, ncclDataType_t type, CUstream stream, struct comm_error *error)
{
    size_t bytes;
    bool is_packed = wire_is_packed(setting, members, member_count, type, &bytes) || wire->stays_packed;
    wire->conversion = conversion_of(setting, type);
    wire->type = sent_type(setting, type);
    wire->member_type = type;
    size_t element_bytes = wire_element_bytes(wire->type);
    if (bytes == 0 || element_bytes == 0)
        return comm_fail(error, "a bucket of %zu bytes has elements of the invalid type %s", bytes,
                         wire_type_name(type));
    if (!keep_members(wire, members, member_count, error))
        return false;
    wire->element_count = bytes / element_bytes;
    if (!is_packed) {
        ASSERT(members[member_count - 1].address + members[member_count - 1].bytes == members[0].address + bytes);
        wire->path = WIRE_IN_PLACE;
        wire->address = members[0].address;
        return true;
    }
    if (!place_buffer(wire, setting->driver, bytes, error))
        return false;
    wire->path = setting->kernels.loaded ? WIRE_KERNELS : WIRE_COPIES;
    wire->address = wire->buffer;
    return wire->path == WIRE_COPIES || place_chunks(wire, setting, stream, error);
}

void
wire_free(struct bucket_wire *wire, const struct driver *driver)
{
    if (wire->buffer_bytes > 0 && !wire->is_lent)
        (void)driver->cuMemFree_p(wire->buffer);
    if (wire->chunk_capacity > 0)
        (void)driver->cuMemFree_p(wire->chunks);
    free(wire->members);
    *wire = (struct bucket_wire){0};
}

bool
wire_has(const struct bucket_wire *wire, const struct bucket_member *members, size_t member_count)
{
    if (wire->members == NULL || wire->member_count != member_count)
        return false;
    for (size_t i = 0; i < member_count; ++i) {
        if (wire->members[i].address != members[i].address || wire->members[i].bytes != members[i].bytes ||
            wire->members[i].is_packed != members[i].is_packed)
            return false;
    }
    return true;
}

/* ---- means ---- */

struct wire_mean
wire_mean(const struct wire_setting *setting, ncclDataType_t type)
{
    struct wire_mean mean = {ncclSum, 1, 1};
    if (!setting->divides || wire_kernel_type(type) == KERNEL_TYPES)
        mean.operation = ncclAvg;
    else
        mean.after = setting->world_size;
    if (mean.after != 1 && type == ncclFloat16) {
        while (mean.before < setting->world_size)
            mean.before *= 2;
        mean.after /= mean.before;
    }
    return mean;
}

static bool
is_compressed(const struct bucket_wire *wire)
{
    return wire->conversion == CONVERT_TO_FLOAT16 || wire->conversion == CONVERT_TO_BFLOAT16;
}

/* What a bucket is divided by; a compressed one is when it is converted. */
static struct wire_mean
mean_of(const struct bucket_wire *wire, const struct wire_setting *setting)
{
    bool sums = is_compressed(wire) || setting->reduction == DDPRUN_REDUCE_SUM;
    return sums ? (struct wire_mean){ncclSum, 1, 1} : wire_mean(setting, wire->type);
}

enum direction { PACK, UNPACK };

static bool
scale_and_look(const struct wire_setting *setting, CUdeviceptr address, size_t count, ncclDataType_t type, double times,
               double over, struct nonfinite_look look, CUstream stream, struct comm_error *error)
{
    unsigned long long elements = count;
    void *arguments[] = {&address, &elements, &times, &over, &look};
    return wire_run(setting, setting->kernels.scale[wire_kernel_type(type)], count, type, arguments, stream, "scaling",
                    error);
}

bool
wire_scale(const struct wire_setting *setting, CUdeviceptr address, size_t count, ncclDataType_t type, double times,
           double over, CUstream stream, struct comm_error *error)
{
    return (times == 1 && over == 1) ||
           scale_and_look(setting, address, count, type, times, over, (struct nonfinite_look){0}, stream, error);
}

/* ---- packing ---- */

static const char *const names[] = {[PACK] = "packing a bucket", [UNPACK] = "unpacking a bucket"};

static bool
copy_members(const struct bucket_wire *wire, const struct driver *driver, enum direction direction, CUstream stream,
             struct comm_error *error)
{
    CUdeviceptr at = wire->address;
    for (size_t i = 0; i < wire->member_count; ++i) {
        const struct bucket_member *member = &wire->members[i];
        CUdeviceptr to = direction == PACK ? at : member->address, from = direction == PACK ? member->address : at;
        at += member->bytes;
        CUresult result = driver->cuMemcpyDtoDAsync_p(to, from, member->bytes, stream);
        if (result != CUDA_SUCCESS)
            return driver_fail(driver, result, names[direction], error);
    }
    return true;
}

static uint64_t
at_least(uint64_t value, uint64_t least)
{
    return value > least ? value : least;
}

static uint64_t
at_most(uint64_t value, uint64_t most)
{
    return value < most ? value : most;
}

/* Of a bucket in place: the more chunks, the more in a round. Where no look reads small memory, squares read a part. */
static void
take_rounds(const struct bucket_wire *wire, struct nonfinite_look *look)
{
    uint64_t chunks = (wire->element_count * look->element_bytes + CHUNK_BYTES - 1) / CHUNK_BYTES;
    uint64_t least = wire->look.claim != 0 ? NONFINITE_BLOCKS : 1;
    uint64_t wanted = at_most(at_least(chunks / NONFINITE_TURNS, least), CHUNK_BLOCKS_AT_MOST);
    look->chunks = (uint32_t)at_most(wanted, chunks);
    uint64_t rounds = (chunks + look->chunks - 1) / look->chunks;
    look->turns = (uint32_t)at_most(rounds, NONFINITE_TURNS);
    if (wire->look.whole)
        look->turns = 1;
    look->turn = (uint32_t)(wire->look.turn % look->turns);
}

static struct nonfinite_look
look_of(const struct bucket_wire *wire, enum direction direction)
{
    enum kernel_type type = wire_kernel_type(wire->member_type);
    struct nonfinite_look look = {.exponents = types[type].exponents,
                                  .element_bytes = types[type].bytes,
                                  .squares = direction == PACK ? wire->squares.own : wire->squares.averages,
                                  .after = direction == UNPACK,
                                  .turns = 1};
    if (wire->path == WIRE_IN_PLACE)
        take_rounds(wire, &look);
    if (direction == UNPACK)
        return look;
    look.claim = wire->look.claim;
    look.found = wire->look.found;
    look.step = wire->look.step;
    look.launch = wire->look.launch;
    return look;
}

static bool
look_in_place(const struct bucket_wire *wire, const struct wire_setting *setting, enum direction direction,
              CUstream stream, struct comm_error *error)
{
    struct nonfinite_look look = look_of(wire, direction);
    if ((look.claim == 0 && look.squares == 0) || !setting->kernels.loaded)
        return true;
    CUdeviceptr address = wire->address;
    unsigned long long bytes = wire->element_count * look.element_bytes;
    void *arguments[] = {&address, &bytes, &look};
    CUresult result = setting->driver->cuLaunchKernel_p(setting->kernels.nonfinite, look.chunks, 1, 1,
                                                        setting->kernels.threads, 1, 1, 0, stream, arguments, NULL);
    return result == CUDA_SUCCESS || driver_fail(setting->driver, result, "looking at a bucket", error);
}

/* A kernel that goes through the wire's chunks. */
static bool
launch(const struct bucket_wire *wire, const struct wire_setting *setting, CUfunction function, void **arguments,
       CUstream stream, const char *what, struct comm_error *error)
{
    CUdeviceptr chunks = wire->chunks, bucket = wire->address;
    unsigned count = wire->chunk_count;
    unsigned blocks = count < CHUNK_BLOCKS_AT_MOST ? count : CHUNK_BLOCKS_AT_MOST;
    arguments[0] = &chunks, arguments[1] = &count, arguments[2] = &bucket;
    CUresult result = setting->driver->cuLaunchKernel_p(function, blocks, 1, 1, setting->kernels.threads, 1, 1, 0,
                                                        stream, arguments, NULL);
    return result == CUDA_SUCCESS || driver_fail(setting->driver, result, what, error);
}

/* Which kernel of the pass, and the numbers that it takes. A compressed bucket is divided when it is converted; a sum
 * is made of the means. */
struct pass {
    CUfunction pack, digest, unpack;
    double times, over;
};

static struct pass
pass_of(const struct bucket_wire *wire, const struct wire_setting *setting, enum direction direction, double times,
        double over)
{
    const struct kernels *kernels = &setting->kernels;
    enum kernel_type type = wire_kernel_type(wire->type);
    const bool packs = direction == PACK, scales = times != 1 || over != 1;
    if (wire->conversion == CONVERT_NOTHING && scales)
        return (struct pass){kernels->pack_scaled[type], kernels->digest_scaled[type], kernels->unpack_scaled[type],
                             times, over};
    if (is_compressed(wire) && packs)
        over = setting->world_size;
    else if (is_compressed(wire) && setting->reduction == DDPRUN_REDUCE_SUM)
        times = setting->world_size;
    return (struct pass){kernels->in[wire->conversion].pack, kernels->in[wire->conversion].digest,
                         kernels->in[wire->conversion].unpack, times, over};
}

static bool
run_kernels(const struct bucket_wire *wire, const struct wire_setting *setting, enum direction direction, double times,
            double over, const struct chunk_guard *guard, CUstream stream, struct comm_error *error)
{
    struct pass pass = pass_of(wire, setting, direction, times, over);
    struct nonfinite_look look = look_of(wire, direction);
    struct chunk_guard given = *guard;
    void *arguments[] = {NULL, NULL, NULL, &pass.times, &pass.over, &look, &given};
    CUfunction function = direction == PACK ? pass.pack : pass.unpack;
    return launch(wire, setting, function, arguments, stream, names[direction], error);
}

static bool
move(const struct bucket_wire *wire, const struct wire_setting *setting, enum direction direction, double times,
     double over, CUstream stream, struct comm_error *error)
{
    switch (wire->path) {
    case WIRE_IN_PLACE:
        if (times != 1 || over != 1)
            return scale_and_look(setting, wire->address, wire->element_count, wire->type, times, over,
                                  look_of(wire, direction), stream, error);
        return look_in_place(wire, setting, direction, stream, error);
    case WIRE_KERNELS:
        return run_kernels(wire, setting, direction, times, over, &(struct chunk_guard){0}, stream, error);
    case WIRE_COPIES:
        return copy_members(wire, setting->driver, direction, stream, error);
    }
    return comm_fail(error, "a bucket that was not placed");
}

bool
wire_clear(const struct bucket_wire *wire, const struct wire_setting *setting, CUstream stream,
           struct comm_error *error)
{
    size_t bytes = wire->element_count * wire_element_bytes(wire->type);
    CUresult result = setting->driver->cuMemsetD8Async_p(wire->address, 0, bytes, stream);
    return result == CUDA_SUCCESS || driver_fail(setting->driver, result, "clearing a bucket", error);
}

bool
wire_run(const struct wire_setting *setting, CUfunction function, size_t count, ncclDataType_t type, void **arguments,
         CUstream stream, const char *what, struct comm_error *error)
{
    uint64_t chunks = (count * wire_element_bytes(type) + CHUNK_BYTES - 1) / CHUNK_BYTES;
    unsigned blocks = chunks < CHUNK_BLOCKS_AT_MOST ? (unsigned)chunks : CHUNK_BLOCKS_AT_MOST;
    CUresult result = setting->driver->cuLaunchKernel_p(function, blocks, 1, 1, setting->kernels.threads, 1, 1, 0,
                                                        stream, arguments, NULL);
    return result == CUDA_SUCCESS || driver_fail(setting->driver, result, what, error);
}

bool
wire_looks_in_part(const struct bucket_wire *wire)
{
    return wire->path == WIRE_IN_PLACE &&
           wire->element_count * wire_element_bytes(wire->type) > (size_t)NONFINITE_BLOCKS * CHUNK_BYTES;
}

bool
wire_pack(const struct bucket_wire *wire, const struct wire_setting *setting, double weight, CUstream stream,
          struct comm_error *error)
{
    if (weight == 0)
        return wire_clear(wire, setting, stream, error);
    if (weight != 1 && !setting->kernels.loaded)
        return comm_fail(error,
                         "DDP_WEIGHT with unequal shares needs ddprun's own kernels, which are not loaded on this "
                         "device: `ddprun doctor` says why; or make the shares equal");
    return move(wire, setting, PACK, weight, mean_of(wire, setting).before, stream, error);
}

/* `stale`: as in struct chunk_digests. */
static bool
run_digests(const struct bucket_wire *wire, const struct wire_setting *setting, double weight, CUdeviceptr stale,
            struct nonfinite_look look, CUstream stream, const char *what, struct comm_error *error)
{
    ASSERT(wire->path == WIRE_KERNELS);
    struct pass pass = pass_of(wire, setting, PACK, weight, mean_of(wire, setting).before);
    struct chunk_digests digests = {wire->digests, stale};
    void *arguments[] = {NULL, NULL, NULL, &pass.times, &pass.over, &look, &digests};
    return launch(wire, setting, pass.digest, arguments, stream, what, error);
}

bool
wire_pack_digested(const struct bucket_wire *wire, const struct wire_setting *setting, double weight, CUstream stream,
                   struct comm_error *error)
{
    if (weight == 0)
        return wire_clear(wire, setting, stream, error);
    return run_digests(wire, setting, weight, 0, (struct nonfinite_look){.turns = 1}, stream, names[PACK], error);
}

bool
wire_compare(const struct bucket_wire *wire, const struct wire_setting *setting, double weight, CUdeviceptr stale,
             CUstream stream, struct comm_error *error)
{
    if (weight == 0)
        return true;
    return run_digests(wire, setting, weight, stale, look_of(wire, PACK), stream, "comparing a bucket", error);
}

void
wire_find_stale(const struct bucket_wire *wire, const uint64_t *digests, bool *stale)
{
    size_t chunk = 0, end;
    for (size_t first = 0; first < wire->member_count; first = end) {
        uint64_t bytes, at = 0;
        end = first + neighbours(wire->members + first, wire->member_count - first, &bytes);
        for (size_t i = first; i < end; at += wire->members[i++].bytes) {
            size_t last = chunk + (at + wire->members[i].bytes - 1) / CHUNK_BYTES;
            stale[i] = false;
            for (size_t c = chunk + at / CHUNK_BYTES; c <= last; ++c)
                stale[i] = stale[i] || digests[c] == CHUNK_IS_STALE;
        }
        chunk += (bytes + CHUNK_BYTES - 1) / CHUNK_BYTES;
    }
    ASSERT(chunk == wire->chunk_count);
}

bool
wire_unpack(const struct bucket_wire *wire, const struct wire_setting *setting, CUstream stream,
            struct comm_error *error)
{
    return move(wire, setting, UNPACK, 1, mean_of(wire, setting).after, stream, error);
}

bool
wire_unpack_guarded(const struct bucket_wire *wire, const struct wire_setting *setting, const struct chunk_guard *guard,
                    CUstream stream, struct comm_error *error)
{
    ASSERT(wire->path == WIRE_KERNELS);
    return run_kernels(wire, setting, UNPACK, 1, mean_of(wire, setting).after, guard, stream, error);
}

ncclRedOp_t
wire_operation(const struct bucket_wire *wire, const struct wire_setting *setting)
{
    return mean_of(wire, setting).operation;
}
