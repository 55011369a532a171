/*
 * trusting.cu - a trainer that reads a weight after each update, by one way in which a result leaves the device. For
 * trust.sh: in step number WRONG the last rank writes a gradient once more when each bucket that was launched before
 * DDP_STEP is reduced, so that what follows is computed from other values than averages, and must not leave.
 *
 *     trusting MODE FILE [waits]
 *
 * Rank 0 writes "STEP WEIGHT", of the last layer, under another name and renames that to FILE. As exact.h: every weight
 * is known. Most ways read what a kernel has written into memory of the host whose address it finds in memory: a hook
 * sees no pointer there. MODE names the way, or:
 *   unseen   such memory is read without any call, which no hook can see
 *   step     nothing is read
 *   end      nothing is read, and the wrong step is the last one
 *   right    as "async", and no step is wrong
 * With "waits" the other ranks go on after step WRONG when rank 0 has saved it: else one of them may end the job
 * before.
 */
enum { LAYERS = 2, COUNT = 1024, WRONG = 10, STEPS = 20 };
#include "exact.h"

#include <string.h>
#include <unistd.h>

static volatile float *pinned; /* of the host; NAN: nothing is there yet */
static float **slot;           /* of the device: the address of `pinned` */
static float *scratch;
static volatile float from_function = NAN;
static cudaGraphExec_t graph;
static bool waits; /* for rank 0's file */

__global__ void
store(float **slot, float *address)
{
    *slot = address;
}

__global__ void
publish(float *to, const float *weight)
{
    *to = *weight;
}

__global__ void
publish_hidden(float **slot, const float *weight)
{
    **slot = *weight;
}

static const float *
weight(void)
{
    return weights[LAYERS - 1];
}

static void
hide(void)
{
    publish_hidden<<<1, 1, 0, stream>>>(slot, weight());
}

static float
await(const volatile float *value)
{
    for (int i = 0; i < 30000 && isnan(*value); ++i)
        usleep(1000);
    return *value;
}

/* ---- ways: each returns the weight ---- */

MODE("copy", by_copy, float *out)
{
    CHECK(cudaEventRecord(event, stream));
    CHECK(cudaStreamWaitEvent(cudaStreamLegacy, event, 0));
    CHECK(cudaMemcpy(out, weight(), sizeof(*out), cudaMemcpyDeviceToHost));
}
static void
copy_async(float *out)
{
    CHECK(cudaMemcpyAsync((float *)pinned, weight(), sizeof(*out), cudaMemcpyDeviceToHost, stream));
    *out = await(pinned);
}
MODE("async", by_async, float *out)
{
    copy_async(out);
}
MODE("right", by_async_always_right, float *out)
{
    copy_async(out);
}
MODE("default", by_default, float *out)
{
    CHECK(cudaMemcpyAsync((float *)pinned, weight(), sizeof(*out), cudaMemcpyDefault, stream));
    *out = await(pinned);
}
MODE("rows", by_rows, float *out)
{
    CHECK(cudaMemcpy2DAsync((float *)pinned, sizeof(*out), weight(), sizeof(*out), sizeof(*out), 1,
                            cudaMemcpyDeviceToHost, stream));
    *out = await(pinned);
}
MODE("pointer", by_pointer, float *out)
{
    publish<<<1, 1, 0, stream>>>((float *)pinned, weight());
    *out = await(pinned);
}
MODE("graph", by_graph, float *out)
{
    CHECK(cudaGraphLaunch(graph, stream));
    *out = await(pinned);
}
static void
from_host(void *)
{
    from_function = *pinned;
}
MODE("function", by_function, float *out)
{
    hide();
    CHECK(cudaLaunchHostFunc(stream, from_host, NULL));
    *out = await(&from_function);
}
static void
from_callback(cudaStream_t, cudaError_t, void *)
{
    from_function = *pinned;
}
MODE("callback", by_callback, float *out)
{
    hide();
    CHECK(cudaStreamAddCallback(stream, from_callback, NULL, 0));
    *out = await(&from_function);
}
MODE("stream", by_stream, float *out)
{
    hide();
    CHECK(cudaStreamSynchronize(stream));
    *out = *pinned;
}
MODE("event", by_event, float *out)
{
    hide();
    CHECK(cudaEventRecord(event, stream));
    CHECK(cudaEventSynchronize(event));
    *out = *pinned;
}
MODE("device", by_device, float *out)
{
    hide();
    CHECK(cudaDeviceSynchronize());
    *out = *pinned;
}
MODE("stream-query", by_stream_query, float *out)
{
    hide();
    while (cudaStreamQuery(stream) == cudaErrorNotReady)
        usleep(100);
    *out = *pinned;
}
MODE("event-query", by_event_query, float *out)
{
    hide();
    CHECK(cudaEventRecord(event, stream));
    while (cudaEventQuery(event) == cudaErrorNotReady)
        usleep(100);
    *out = *pinned;
}
MODE("free", by_free, float *out)
{
    hide();
    CHECK(cudaFree(scratch));
    *out = await(pinned);
    scratch = device_floats(1);
}
MODE("unseen", unseen, float *out)
{
    hide();
    *out = await(pinned);
}

/* ---- the training ---- */

static void
save(int step, const char *file, float value)
{
    static char other[4096];
    snprintf(other, sizeof(other), "%s.new", file);
    FILE *out = fopen(other, "w");
    REQUIRE(out != NULL && fprintf(out, "%d %.9g\n", step, (double)value) > 0);
    REQUIRE(fclose(out) == 0 && rename(other, file) == 0);
}

/* Until rank 0 has saved this step, or for 5 s. */
static void
wait_until_saved(int step, const char *file)
{
    int saved = 0;
    for (int i = 0; i < 5000 && saved < step; ++i) {
        FILE *in = fopen(file, "r");
        if (in == NULL || fscanf(in, "%d", &saved) != 1)
            saved = 0;
        if (in != NULL)
            fclose(in);
        usleep(1000);
    }
}

static void
train_step(int step, const char *file, void (*read)(float *))
{
    float value = NAN;
    layers_backward(0, stream);
    if (step == WRONG && !is_mode("right")) {
        CHECK(cudaDeviceSynchronize());
        if (is_last_rank())
            layer_backward(LAYERS - 1, stream);
    }
    *pinned = from_function = NAN;
    DDP_STEP(stream);
    layers_update();
    if (waits && step == WRONG && DDP_RANK() != 0)
        wait_until_saved(step, file);
    if (read == NULL || DDP_RANK() != 0)
        return;
    read(&value);
    save(step, file, value);
}

static void
capture(void)
{
    cudaGraph_t captured;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    hide();
    CHECK(cudaStreamEndCapture(stream, &captured));
    CHECK(cudaGraphInstantiate(&graph, captured, 0));
}

int
main(int argc, char **argv)
{
    if (argc != 3 && argc != 4)
        return 2;
    mode = argv[1];
    waits = argc == 4 && strcmp(argv[3], "waits") == 0;
    auto *const read = mode_of<void(float *)>::given();
    if (read == NULL && !is_one_of({"step", "end"}))
        return 2;
    steps = is_mode("end") ? WRONG : STEPS;
    layers_create();
    scratch = device_floats(1);
    CHECK(cudaHostAlloc((void **)&pinned, sizeof(*pinned), cudaHostAllocMapped));
    CHECK(cudaMalloc(&slot, sizeof(*slot)));
    store<<<1, 1>>>(slot, (float *)pinned);
    CHECK(cudaDeviceSynchronize());
    layers_annotate();
    if (is_mode("graph"))
        capture();
    for (int step = 1; step <= steps; ++step)
        train_step(step, argv[2], read);
    expect_steps(steps);
    if (!is_mode("right"))
        expected[LAYERS - 1] -= 0.5; /* a half of the last rank's share, which is one */
    return weights_are_right(0) ? 0 : 1;
}
