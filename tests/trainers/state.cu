/*
 * state.cu - a trainer that resumes: rank 0 alone has read the optimizer's state, momentum and counters of all types
 * that DDP_STATE takes. The gradient is the mean over this rank's share of eight items, so every world trains the same.
 *
 * The host knows what the weight must be at the end, and the program's exit code is 0 only if it is. Modes:
 *   resume: annotated as it should be; the step counter is counted on a stream of its own
 *   again: the same, in two trainings one after the other, each with memory of its own
 *   forget: the flags are forgotten and freed half-way; freed: they are only freed
 *   unannotated: DDP_STATE is left out; early: it stands before the state is read
 *   drift: a flag changes on the last rank; another-line: the last rank annotates the flags in another line
 *   integer-gradient: DDP_GRADIENT of integers; no-label: DDP_MEAN_AS without one
 */
#include "common.h"

#include <math.h>
#include <stdint.h>

enum { COUNT = 512, THREADS = 64, BLOCKS = COUNT / THREADS, ITEMS = 8, FLAGS = 3, STEPS = 24, HALF = STEPS / 2 };

static float *weight, *gradient, *momentum;
static int32_t *counter;
static int64_t *seen;
static unsigned char *flags;
static cudaStream_t stream, side;
static cudaEvent_t event;
static double expected_weight, expected_momentum;

/* ---- kernels ---- */

__global__ void
backward(float *out, int first, int count)
{
    float sum = 0.0f;
    for (int i = first; i < first + count; ++i)
        sum += (float)i;
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum / (float)count;
}

__global__ void
count_step(int32_t *steps, int64_t *items)
{
    *steps += 1;
    *items += ITEMS;
}

__global__ void
set_flag(unsigned char *flag)
{
    *flag += 1;
}

ELEMENTWISE_OF_ALL(update, (float *values, float *speed, const float *slope, const int32_t *steps),
                   speed[i] = 0.5f * speed[i] + slope[i];
                   values[i] -= speed[i] / (float)*steps)

/* ---- the model and what was read ---- */

static void
create(void)
{
    weight = device_floats(COUNT);
    gradient = device_floats(COUNT);
    momentum = device_floats(COUNT);
    counter = (int32_t *)device_floats(1);
    seen = (int64_t *)device_floats(2);
    flags = (unsigned char *)device_floats(1);
    expected_weight = 0;
    expected_momentum = 4;
}

static void
read_state(void)
{
    float host[COUNT];
    const int32_t steps = 17;
    const int64_t items = INT64_C(1) << 40;
    for (int i = 0; i < COUNT; ++i)
        host[i] = 4.0f;
    if (DDP_RANK() != 0)
        return;
    CHECK(cudaMemcpy(momentum, host, sizeof(host), cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(counter, &steps, sizeof(steps), cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(seen, &items, sizeof(items), cudaMemcpyHostToDevice));
    CHECK(cudaMemset(flags, 7, FLAGS));
}

static void
annotate_state(void)
{
    DDP_STATE(momentum, COUNT, DDP_FLOAT32);
    DDP_STATE(counter, 1, DDP_INT32);
    DDP_STATE(seen, 1, DDP_INT64);
    if (is_mode("another-line") && is_last_rank())
        DDP_STATE(flags, FLAGS, DDP_UINT8);
    else
        DDP_STATE(flags, FLAGS, DDP_UINT8);
}

static void
annotate(void)
{
    DDP_PARAMETER(weight, COUNT, DDP_FLOAT32);
    if (is_mode("early"))
        annotate_state();
    read_state();
    if (!is_mode("early") && !is_mode("unannotated"))
        annotate_state();
    DDP_GRADIENT(gradient, COUNT, is_mode("integer-gradient") ? DDP_INT32 : DDP_FLOAT32);
}

static void
destroy(void)
{
    CHECK(cudaDeviceSynchronize());
    for (void *memory :
         {(void *)weight, (void *)gradient, (void *)momentum, (void *)counter, (void *)seen, (void *)flags})
        CHECK(cudaFree(memory));
}

/* ---- training ---- */

static void
half_way(void)
{
    if (is_mode("drift") && is_last_rank())
        set_flag<<<1, 1, 0, stream>>>(flags + 1);
    if (is_mode("forget"))
        DDP_FORGET(flags);
    if (is_mode("forget") || is_mode("freed"))
        CHECK(cudaFree(flags));
}

static void
train_step(int step)
{
    size_t first, count;
    DDP_SHARD(ITEMS, &first, &count);
    count_step<<<1, 1, 0, side>>>(counter, seen);
    backward<<<BLOCKS, THREADS, 0, stream>>>(gradient, (int)first, (int)count);
    DDP_STEP(stream);
    stream_follow(side, stream, event);
    update<<<BLOCKS, THREADS, 0, stream>>>(weight, momentum, gradient, counter);
    stream_follow(stream, side, event);
    expected_momentum = 0.5 * expected_momentum + (ITEMS - 1) / 2.0;
    expected_weight -= expected_momentum / (17 + step + 1);
}

static int
weight_is_right(void)
{
    float host[COUNT];
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(host, weight, sizeof(host), cudaMemcpyDeviceToHost));
    for (int i = 0; i < COUNT; ++i) {
        if (fabs((double)host[i] - expected_weight) > 1e-5 * fabs(expected_weight)) {
            fprintf(stderr, "state: weight %d is %.9g, not %.9g\n", i, (double)host[i], expected_weight);
            return 0;
        }
    }
    return 1;
}

/* One label, in two places; and the bits of a double that no float holds. */
static int
means_are_right(void)
{
    size_t first, count;
    DDP_SHARD(ITEMS, &first, &count);
    float other = 1.0f, mean = (float)first + (float)(count - 1) / 2.0f;
    double wide = 0.1 + (double)mean, sum = 0;
    DDP_MEAN_AS(is_mode("no-label") ? "" : "mean\titem", &other);
    DDP_MEAN_AS("mean\titem", &mean);
    DDP_MEAN(&wide);
    for (size_t from = 0; from < ITEMS; from += count)
        sum += 0.1 + (double)((float)from + (float)(count - 1) / 2.0f);
    return mean == (ITEMS - 1) / 2.0f && other == 1.0f && wide == sum / DDP_WORLD_SIZE();
}

int
main(int argc, char **argv)
{
    mode = argc > 1 ? argv[1] : "resume";
    stream = stream_create();
    side = stream_create();
    event = event_create();
    int right = 1;
    for (int training = 0; training < (is_mode("again") ? 2 : 1); ++training) {
        if (training > 0)
            destroy();
        create();
        CHECK(cudaDeviceSynchronize());
        annotate();
        for (int step = 0; step < STEPS; ++step) {
            if (step == HALF)
                half_way();
            train_step(step);
        }
        right = weight_is_right() && right;
    }
    return right && means_are_right() ? 0 : 1;
}
