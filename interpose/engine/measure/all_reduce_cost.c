/*
 * all_reduce_cost.c - what does an all-reduce of n bytes cost here? Measured once, at the start.
 *
 * A few sizes from 4 KiB up to what all gradients need, each a few times, on the communication stream between events;
 * of each size the shortest time on a rank (whatever disturbs one only adds to it) and the slowest rank count. Ranks
 * agree after each size whether there is time for the next, so that all make the same calls. The samples, and so the
 * function made of them, are the same on all ranks.
 *
 * Called at the first agreement on annotations only: this is the one place where the host waits for what it measures.
 */
#include "interpose/engine/measure/measure.h"

/* The device is busy with IN_FRONT all-reduces when a measured one comes, as it is in backward: the host's time to
 * launch it is hidden. */
enum { REPEATS = 5, SIZE_FACTOR = 4, IN_FRONT = 2, CALLS = (1 + REPEATS) * (1 + IN_FRONT) };
enum { SAMPLES_AT_MOST = COST_SEGMENTS_AT_MOST - 1 };

static const uint64_t smallest_bytes = 4096, largest_bytes = UINT64_C(64) << 20;
static const uint64_t worth_bytes = UINT64_C(256) << 10;      /* below, one bucket is as good as any */
static const int64_t budget_ns = INT64_C(1000) * 1000 * 1000; /* of all measuring, about */

static struct cost cost;
static bool sought;

const struct cost *
all_reduce_cost(void)
{
    return &cost;
}

/* ---- measuring ---- */

/* Enqueues one all-reduce between two events, after others; the caller waits. */
static void
enqueue(const struct bucket_wire *wire, CUevent before, CUevent after) BY_ISSUER
{
    struct comm_error error;
    inflight_sending("the measuring of an all-reduce", 0, 0);
    for (int i = 0; i <= IN_FRONT; ++i) {
        if (i == IN_FRONT)
            CUDA("cuEventRecord", cuEventRecord, before, first_stream());
        if (!collectives_reduce(&engine_state.collectives, wire, 1, first_stream(), &error))
            stop_job_by(error.cause, "measuring an all-reduce: %s", error.text);
    }
    CUDA("cuEventRecord", cuEventRecord, after, first_stream());
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
    if (!collectives_place(&engine_state.collectives, &wire, &member, 1, ncclFloat32, &error))
        stop_job("%s", error.text);
    for (int i = -1; i < REPEATS; ++i) {
        float ms = 0;
        enqueue(&wire, events[0], events[1]);
        CUDA("measuring an all-reduce", cuStreamSynchronize, first_stream());
        CUDA("cuEventElapsedTime", cuEventElapsedTime, &ms, events[0], events[1]);
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

/* Fills samples[SAMPLES_AT_MOST], of sizes up to `most`; the same on all ranks. */
static size_t
measure_samples(uint64_t most, struct cost_sample *samples) BY_ISSUER
{
    const struct driver *driver = &engine_state.driver;
    uint64_t got;
    CUdeviceptr memory = allocate(most, &got);
    most = got;
    least_of_ranks("the memory to measure an all-reduce in", &most, 1);

    CUevent events[2];
    for (int i = 0; i < 2; ++i)
        CUDA("cuEventCreate", cuEventCreate, &events[i], CU_EVENT_DEFAULT);
    const char *said = getenv(DDPRUN_ENV_NS_PER_BYTE);
    size_t count = 0;
    int64_t spent_ns = 0, ns = 0;
    for (uint64_t bytes = smallest_bytes; bytes <= most; bytes *= SIZE_FACTOR) {
        if (spent_ns + SIZE_FACTOR * CALLS * ns > budget_ns)
            break;
        ns = (int64_t)greatest_of_ranks("the time of an all-reduce", (uint64_t)time_of_size(memory, bytes, events));
        spent_ns += CALLS * ns;
        samples[count++] = (struct cost_sample){bytes, said != NULL ? (int64_t)bytes * atoll(said) : ns};
    }
    for (int i = 0; i < 2; ++i)
        (void)driver->cuEventDestroy_p(events[i]);
    if (got > 0)
        (void)driver->cuMemFree_p(memory);
    return count;
}

void
all_reduce_cost_find(uint64_t gradient_bytes)
{
    if (sought || engine_state.options.bucket_bytes > 0 || !engine_state.options.overlap ||
        gradient_bytes < worth_bytes)
        return;
    sought = true;

    struct cost_sample samples[SAMPLES_AT_MOST];
    RELAX_CAPTURES(); /* or a capture in another thread would end */
    role_take();
    size_t count = measure_samples(largest_size(gradient_bytes), samples);
    role_give();
    struct cost fitted;
    if (count > 0 && cost_fit(samples, count, &fitted))
        cost = fitted;
}
