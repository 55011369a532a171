/*
 * repairs.cu - a trainer with one step that ddprun has to repair, whatever the machine's speed: the last rank writes a
 * gradient once more when every bucket that was launched before DDP_STEP is reduced. It saves what it has after each
 * step. For repairs.sh.
 *
 *     repairs MODE FILE
 *
 * Rank 0 writes "STEP WEIGHT WEIGHT" (of the first layer and the last) under another name and renames that to FILE. As
 * exact.h: every weight is known. The step is number REPAIRED; for repair_nccl.c the environment has REPAIR_NCCL_STEP
 * during its DDP_STEP. Modes:
 *   plain    all work is in one stream
 *   streams  each of 64 layers has a stream of its own; ddprun follows 64
 *   busy     a kernel of another stream, which ends when DDP_STEP and the update are done, keeps the device busy
 *   apart    as plain; each rank is on a host of its own, for NCCL: it sends through sockets
 */
enum { LAYERS = 64, COUNT = 1024, REPAIRED = 10 };
#include "exact.h"

static cudaStream_t of_layers[LAYERS];
static unsigned *done; /* pinned */

__global__ void
wait_until(const volatile unsigned *done)
{
    while (*done == 0)
        ;
}

static void
create_streams(void)
{
    for (int l = 0; l < LAYERS; ++l)
        of_layers[l] = is_mode("streams") && l > 0 ? stream_create() : stream;
}

/* What `after` has comes before what `before` will have. */
static void
order(cudaStream_t before, cudaStream_t after)
{
    if (before == after)
        return;
    CHECK(cudaEventRecord(event, before));
    CHECK(cudaStreamWaitEvent(after, event, 0));
}

static void
backward(int layer)
{
    order(stream, of_layers[layer]);
    layer_backward(layer, of_layers[layer]);
    order(of_layers[layer], stream);
}

/* Each bucket that was launched early is reduced, and its gradient is written once more. */
static void
write_late(void)
{
    CHECK(cudaDeviceSynchronize());
    if (is_mode("busy"))
        wait_until<<<1, 1, 0, side>>>(done);
    if (is_last_rank())
        backward(LAYERS - 1);
}

static void
save(int step, const char *file)
{
    static char other[4096];
    float first, last;
    CHECK(cudaMemcpyAsync(&first, weights[0], sizeof(first), cudaMemcpyDeviceToHost, stream));
    CHECK(cudaMemcpyAsync(&last, weights[LAYERS - 1], sizeof(last), cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    snprintf(other, sizeof(other), "%s.new", file);
    FILE *out = fopen(other, "w");
    REQUIRE(out != NULL && fprintf(out, "%d %.9g %.9g\n", step, (double)first, (double)last) > 0);
    REQUIRE(fclose(out) == 0 && rename(other, file) == 0);
}

static void
train_step(int step, const char *file)
{
    for (int l = LAYERS - 1; l >= 0; --l)
        backward(l);
    if (step == REPAIRED) {
        write_late();
        setenv("REPAIR_NCCL_STEP", "1", 1);
    }
    DDP_STEP(stream);
    unsetenv("REPAIR_NCCL_STEP");
    layers_update();
    if (DDP_RANK() == 0)
        save(step, file);
    if (step == REPAIRED) {
        CHECK(cudaStreamSynchronize(stream));
        __atomic_store_n(done, 1, __ATOMIC_RELEASE);
    }
}

int
main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    mode = argv[1];
    if (is_mode("apart"))
        setenv("NCCL_HOSTID", DDP_RANK() == 0 ? "first" : "second", 1);
    steps = 2 * REPAIRED;
    layers_create();
    create_streams();
    CHECK(cudaHostAlloc((void **)&done, sizeof(*done), cudaHostAllocMapped));
    *done = 0;
    layers_annotate();
    for (int step = 1; step <= steps; ++step)
        train_step(step, argv[2]);
    expect_steps(steps);
    expected[LAYERS - 1] -= 0.5; /* a half of the last rank's share, which is one */
    return weights_are_right(0) ? 0 : 1;
}
