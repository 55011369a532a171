/*
 * steps.cu - a trainer whose steps are not all alike: another number of backward passes, layers that are left out on
 * all ranks or on some, kernels that run now and then; and what it can say about that. Each is a mode.
 *
 * As exact.h, once for each pass over a layer.
 */
enum { LAYERS = 5, COUNT = 1024 };
#include "exact.h"

static float *statistics;

ELEMENTWISE_OF_ALL(update_with, (float *weight, const float *gradient, const float *more),
                   weight[i] -= 0.5f * gradient[i] + (more != NULL ? *more : 0.0f))

/* The same on all ranks, or not. */
static unsigned
noise(unsigned number)
{
    unsigned x = number * 2654435761u + 12345u;
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    return x >> 4;
}

static int
passes_of(int step)
{
    return is_one_of({"no-sync", "passes", "ready", "no-sync-step"}) ? 1 + (int)(noise((unsigned)step) % 4) : 1;
}

/* Whether rank `rank` works on the layer in this step. */
static bool
works_on(int rank, int layer, int step)
{
    unsigned number = (unsigned)(step * LAYERS + layer);
    if (is_mode("frozen"))
        return layer != 2;
    if (is_mode("layer-drop"))
        return noise(number) % 3 != 0;
    if (is_mode("layer-drop-alone"))
        return noise(number * 16u + (unsigned)rank) % 3 != 0;
    if (is_mode("other-branch"))
        return layer != (step % 2 == 0 ? 1 : 3);
    return true;
}

/* ---- one step ---- */

static void
backward(int step)
{
    for (int l = LAYERS - 1; l >= 0; --l) {
        if (works_on(DDP_RANK(), l, step))
            layer_backward(l, stream);
        bool logs = is_mode("log") ? step % 7 == 3 : is_mode("log-alone") && step % 7 == 3 && DDP_RANK() == 1;
        if (logs && l == 2) /* of a gradient that may be complete, or on its way */
            look<<<1, 1, 0, stream>>>(gradients[LAYERS - 1], statistics + 1);
    }
}

static void
say_ready(int step)
{
    for (int l = LAYERS - 1; l >= 0; --l)
        DDP_GRADIENT_READY(gradients[l], stream);
    if (is_mode("ready-write") && step == 20)
        add<<<BLOCKS, THREADS, 0, stream>>>(gradients[LAYERS - 1], 1.0f);
}

static void
accumulate(int step)
{
    int passes = passes_of(step);
    bool counts = !is_mode("no-sync") && !is_mode("no-sync-step");
    if (!counts)
        DDP_NO_SYNC_BEGIN();
    for (int pass = 0; pass + 1 < passes; ++pass)
        backward(step);
    if (is_mode("no-sync-step") && step == 9)
        DDP_STEP(stream);
    if (!counts)
        DDP_NO_SYNC_END();
    backward(step);
    if (is_mode("ready") || is_mode("ready-write"))
        say_ready(step);
}

static void
optimize(int step)
{
    bool with_statistics = is_mode("buffer");
    if (with_statistics) { /* on a stream that DDP_STEP does not name, before and after it */
        set<<<1, 1, 0, side>>>(statistics, 1.0f + 2.0f * (float)DDP_RANK());
        DDP_STEP(stream);
        look<<<1, 1, 0, side>>>(statistics, statistics + 1);
        stream_follow(side, stream, event);
    } else {
        DDP_STEP(stream);
    }
    for (int l = 0; l < LAYERS; ++l) {
        update_with<<<BLOCKS, THREADS, 0, stream>>>(weights[l], gradients[l], with_statistics ? statistics + 1 : NULL);
        if (!is_mode("frozen") || l != 2)
            CHECK(cudaMemsetAsync(gradients[l], 0, BYTES, stream));
    }
    stream_follow(stream, side, event);

    for (int l = 0; l < LAYERS; ++l) {
        double sum = 0;
        for (int r = 0; r < DDP_WORLD_SIZE(); ++r)
            sum += works_on(r, l, step) ? passes_of(step) * (1.0 + r) : 0.0;
        if (is_mode("frozen") && l == 2) /* as the ranks have left it before the first step */
            for (int r = 0; r < DDP_WORLD_SIZE(); ++r)
                sum += 1.0 + r;
        expected[l] -= 0.5 * sum / DDP_WORLD_SIZE() + (with_statistics ? 1.0 : 0.0);
    }
}

/* ---- all of it ---- */

static void
create(void)
{
    layers_create();
    statistics = device_floats(2);
    if (is_mode("frozen"))
        layer_backward(2, stream);
    CHECK(cudaDeviceSynchronize());
    layers_annotate();
    if (is_mode("buffer"))
        DDP_BUFFER(statistics, 1, DDP_FLOAT32);
}

int
main(int argc, char **argv)
{
    steps = 40;
    take_mode(argc, argv, "plain");
    create();
    for (int step = 0; step < steps; ++step) {
        accumulate(step);
        optimize(step);
    }
    if (is_mode("no-end"))
        DDP_NO_SYNC_END();
    return weights_are_right(1e-5) ? 0 : 1;
}
