/*
 * all_reduce_cost.c - what does an all-reduce of n bytes cost here? Measured once, at the start.
 *
 * A few sizes from 4 KiB up to what all gradients need, each a few times, on the communication stream between events;
 * of each size the shortest time on a rank (whatever disturbs one only adds to it) and the slowest rank count. Ranks
 * agree after each size whether there is time for the next, so that all make the same calls. The samples, and so the
 * function made of them, are the same on all ranks.
 *
 * What an earlier run has kept is believed if one size still takes about as long.
 *
 * Called at the first agreement on annotations only: this is the one place where the host waits for what it measures.
 */
#include "interpose/engine/measure/measure.h"

#include "base/message.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The device is busy with IN_FRONT all-reduces when a measured one comes, as it is in backward: the host's time to
 * launch it is hidden. */
enum { REPEATS = 5, SIZE_FACTOR = 4, IN_FRONT = 2, ANOTHER = 3, CALLS = (1 + REPEATS) * (1 + IN_FRONT) };

static const uint64_t smallest_bytes = 4096, largest_bytes = UINT64_C(64) << 20;
static const uint64_t worth_bytes = UINT64_C(256) << 10;      /* below, one bucket is as good as any */
static const int64_t budget_ns = INT64_C(1000) * 1000 * 1000; /* of all measuring, about, */
static const int64_t look_ns = INT64_C(250) * 1000 * 1000;    /* and of a look whether what was kept still holds */

static struct cost cost;
static bool sought;
static char key[700];
static struct cost_kept kept; /* for the key */

const struct cost *
all_reduce_cost(void)
{
    return &cost;
}

/* ---- measuring ---- */

/* Enqueues one all-reduce between two events, behind others; the caller waits. */
static void
enqueue(const struct bucket_wire *wire, CUevent before, CUevent after) BY_ISSUER
{
    const struct driver *driver = &engine_state.driver;
    struct comm_error error;
    inflight_sending("the measuring of an all-reduce", 0, 0);
    for (int i = 0; i <= IN_FRONT; ++i) {
        if (i == IN_FRONT)
            require_cuda(driver->cuEventRecord_p(before, engine_state.collectives.stream), "cuEventRecord");
        if (!collectives_reduce(&engine_state.collectives, wire, 0, 1, &error))
            stop_job_by(error.cause, "measuring an all-reduce: %s", error.text);
    }
    require_cuda(driver->cuEventRecord_p(after, engine_state.collectives.stream), "cuEventRecord");
    inflight_sent("the measuring of an all-reduce", 0, 0);
}

/* The shortest time of an all-reduce of `bytes` on this rank, in ns; the first one is not counted. */
static int64_t
time_of_size(CUdeviceptr memory, uint64_t bytes, const CUevent events[2]) BY_ISSUER
{
    const struct driver *driver = &engine_state.driver;
    const struct bucket_member member = {.address = memory, .bytes = bytes};
    struct bucket_wire wire = {0};
    struct comm_error error;
    int64_t least_ns = INT64_MAX;
    if (!collectives_place(&engine_state.collectives, &wire, 0, &member, 1, ncclFloat32, &error))
        stop_job("%s", error.text);
    for (int i = -1; i < REPEATS; ++i) {
        float ms = 0;
        enqueue(&wire, events[0], events[1]);
        require_cuda(driver->cuStreamSynchronize_p(engine_state.collectives.stream), "measuring an all-reduce");
        require_cuda(driver->cuEventElapsedTime_p(&ms, events[0], events[1]), "cuEventElapsedTime");
        int64_t ns = (int64_t)((double)ms * 1e6) + 1; /* an event's clock may be too coarse for it: never nothing */
        if (i >= 0 && ns < least_ns)
            least_ns = ns;
    }
    wire_free(&wire, driver);
    return least_ns;
}

/* Memory to reduce, of `most` bytes or as much less as there is; the size in *bytes_p, 0 for none. */
static CUdeviceptr
allocate(uint64_t most, uint64_t *bytes_p)
{
    CUdeviceptr memory = 0;
    while (most >= smallest_bytes && engine_state.driver.cuMemAlloc_p(&memory, most) != CUDA_SUCCESS)
        most /= SIZE_FACTOR;
    *bytes_p = most >= smallest_bytes ? most : 0;
    return memory;
}

/* The largest size that matters to a program with so many bytes of gradients. */
static uint64_t
largest_size(uint64_t gradient_bytes)
{
    uint64_t most = smallest_bytes;
    while (most < gradient_bytes && most < largest_bytes)
        most *= SIZE_FACTOR;
    return most;
}

/* Fills samples[COST_SAMPLES_AT_MOST], of sizes from `least` up to `most`; the same on all ranks. */
static size_t
measure_samples(uint64_t least, uint64_t most, struct cost_sample *samples) BY_ISSUER
{
    const struct driver *driver = &engine_state.driver;
    uint64_t got;
    CUdeviceptr memory = allocate(most, &got);
    most = got;
    least_of_ranks("the memory to measure an all-reduce in", &most, 1);

    CUevent events[2];
    for (int i = 0; i < 2; ++i)
        require_cuda(driver->cuEventCreate_p(&events[i], CU_EVENT_DEFAULT), "cuEventCreate");
    size_t count = 0;
    int64_t spent_ns = 0, ns = 0;
    for (uint64_t bytes = least; bytes <= most; bytes *= SIZE_FACTOR) {
        if (spent_ns + SIZE_FACTOR * CALLS * ns > budget_ns)
            break;
        ns = (int64_t)greatest_of_ranks("the time of an all-reduce", (uint64_t)time_of_size(memory, bytes, events));
        spent_ns += CALLS * ns;
        samples[count++] = (struct cost_sample){bytes, ns};
    }
    for (int i = 0; i < 2; ++i)
        (void)driver->cuEventDestroy_p(events[i]);
    if (got > 0)
        (void)driver->cuMemFree_p(memory);
    return count;
}

/*
 * Whether what was kept still holds, by one size, the largest that takes little time: it does unless that takes ANOTHER
 * times as long now, or took so then. Jobs that share the network, then or now, change what an all-reduce costs.
 */
static bool
still_holds(void) BY_ISSUER
{
    struct cost_sample now = {0}, then = kept.samples[0];
    for (size_t i = 1; i < kept.count && kept.samples[i].ns * CALLS <= look_ns; ++i)
        then = kept.samples[i];
    if (measure_samples(then.bytes, then.bytes, &now) == 0)
        return true;
    bool holds = now.ns / ANOTHER <= then.ns && then.ns / ANOTHER <= now.ns;
    if (!holds && engine_state.rendezvous.rank == 0)
        message_line("an all-reduce of %llu KiB takes %.3g ms here, and took %.3g ms when that was last measured; "
                     "measured again",
                     (unsigned long long)then.bytes / 1024, (double)now.ns * 1e-6, (double)then.ns * 1e-6);
    return holds;
}

/* ---- what it was measured for ---- */

/* The variables that change what an all-reduce costs, whatever their order; not those that only name this run. */
static uint64_t
hash_of_environment(void)
{
    static const char *const counted[] = {"NCCL_", "CUDA_VISIBLE_DEVICES=", "SOFTGPU_"};
    static const char *const left_out[] = {"NCCL_HOSTID=", "NCCL_DEBUG"};
    uint64_t hash = 0;
    for (char **entry = environ; *entry != NULL; ++entry) {
        bool counts = false;
        for (size_t i = 0; i < sizeof(counted) / sizeof(counted[0]); ++i)
            counts = counts || strncmp(*entry, counted[i], strlen(counted[i])) == 0;
        for (size_t i = 0; i < sizeof(left_out) / sizeof(left_out[0]); ++i)
            counts = counts && strncmp(*entry, left_out[i], strlen(left_out[i])) != 0;
        if (counts)
            hash ^= XXH3_64bits(*entry, strlen(*entry));
    }
    return hash;
}

/* This rank's part of the key. */
static void
describe_machine(char *text, size_t bytes)
{
    char host[256] = "?", gpu[128] = "?";
    int version = 0;
    (void)gethostname(host, sizeof(host) - 1);
    if (engine_state.driver.cuDeviceGetName_p != NULL)
        (void)engine_state.driver.cuDeviceGetName_p(gpu, sizeof(gpu), (CUdevice)engine_state.device);
    if (engine_state.driver.cuDriverGetVersion_p != NULL)
        (void)engine_state.driver.cuDriverGetVersion_p(&version);
    snprintf(text, bytes, "host %s, gpu %s, driver %d, nccl %d, world %d, compression %d, variables %016llx", host, gpu,
             version, engine_state.nccl.version, engine_state.rendezvous.world_size,
             (int)engine_state.collectives.setting.compression, (unsigned long long)hash_of_environment());
}

/* ---- finding ---- */

/* What rank 0 has kept, to all ranks. */
static void
share_kept(void)
{
    if (engine_state.rendezvous.rank == 0)
        cost_cache_read(key, &kept);
    struct control_messages all;
    exchange("the cost of an all-reduce, from rank 0", &kept, sizeof(kept), &all);
    if (all.bytes[0] != sizeof(kept))
        stop_job("rank 0 sent %zu bytes as the cost of an all-reduce", all.bytes[0]);
    memcpy(&kept, all.messages[0], sizeof(kept));
    control_free_messages(&all);
}

/* The key of rank 0, with what all other ranks say in it. A program that needs larger sizes has another. */
static void
make_key(uint64_t most)
{
    char mine[600] = {0};
    struct control_messages all;
    XXH64_hash_t hash = 0;
    describe_machine(mine, sizeof(mine));
    exchange("the machines of all ranks", mine, sizeof(mine), &all);
    for (int r = 0; r < all.count; ++r)
        hash = XXH3_64bits_withSeed(all.messages[r], all.bytes[r], hash);
    control_free_messages(&all);
    snprintf(key, sizeof(key), "%s, ranks %016llx, up to %llu bytes", mine, (unsigned long long)hash,
             (unsigned long long)most);
}

void
all_reduce_cost_find(uint64_t gradient_bytes)
{
    if (sought || engine_state.options.bucket_bytes > 0 || !engine_state.options.overlap ||
        gradient_bytes < worth_bytes)
        return;
    sought = true;

    uint64_t most = largest_size(gradient_bytes);
    make_key(most);
    share_kept();
    const struct driver *driver = &engine_state.driver;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED; /* or a capture in another thread would end */
    role_take();
    require_cuda(driver->cuThreadExchangeStreamCaptureMode_p(&mode), "cuThreadExchangeStreamCaptureMode");
    bool is_new = kept.count == 0 || !still_holds();
    if (is_new) {
        kept = (struct cost_kept){0};
        kept.count = measure_samples(smallest_bytes, most, kept.samples);
    }
    require_cuda(driver->cuThreadExchangeStreamCaptureMode_p(&mode), "cuThreadExchangeStreamCaptureMode");
    role_give();
    if (is_new && engine_state.rendezvous.rank == 0 && kept.count > 0)
        cost_cache_write(key, &kept);
    struct cost fitted;
    if (kept.count > 0 && cost_fit(kept.samples, kept.count, &fitted))
        cost = fitted;
}
