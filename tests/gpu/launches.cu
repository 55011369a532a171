/*
 * launches.cu - what a launch costs the host, for first.sh: run bare, and under ddprun. A trainer with one gradient,
 * whose steps make LAUNCHES launches with four pointers that lie outside of it; of each step their time and
 * instructions are taken.
 *
 * launches STEPS. Rank 0 prints "launch: T ns, I instructions", medians over the second half of the steps, in which
 * ddprun has learned; "-" where the kernel has no counter of instructions for us (perf_event_open).
 */
#include "../lib/trainer.h"
#include "../lib/trainer_options.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda_runtime.h>
#include <ddprun.h>
#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { LAUNCHES = 400, STEPS_AT_MOST = 1000, ELEMENTS = 256 };

__global__ void
touch_nothing(float *a, const float *b, const float *c, const float *d, int never)
{
    if (never)
        a[0] = b[0] + c[0] + d[0];
}

__global__ void
set(float *out, float value)
{
    out[threadIdx.x] = value;
}

static int
open_counter()
{
    perf_event_attr attributes;
    memset(&attributes, 0, sizeof(attributes));
    attributes.type = PERF_TYPE_HARDWARE;
    attributes.size = sizeof(attributes);
    attributes.config = PERF_COUNT_HW_INSTRUCTIONS;
    attributes.exclude_kernel = 1;
    attributes.exclude_hv = 1;
    return (int)syscall(SYS_perf_event_open, &attributes, 0, -1, -1, 0);
}

static double
instructions(int counter)
{
    uint64_t count = 0;
    return counter >= 0 && read(counter, &count, sizeof(count)) == sizeof(count) ? (double)count : 0.0;
}

static double
now_ns()
{
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return 1e9 * (double)now.tv_sec + (double)now.tv_nsec;
}

static double
median(double *values, int count)
{
    std::sort(values, values + count);
    return values[count / 2];
}

int
main(int argc, char **argv)
{
    static double times[STEPS_AT_MOST], counts[STEPS_AT_MOST];
    if (argc != 2) {
        fprintf(stderr, "Usage: launches STEPS   (2 to %d)\n", STEPS_AT_MOST);
        return 2;
    }
    const int steps = (int)whole_number(argv[1], 2, STEPS_AT_MOST);
    float *weight, *gradient, *other[4];
    CHECK(cudaMalloc(&weight, ELEMENTS * sizeof(float)));
    CHECK(cudaMalloc(&gradient, ELEMENTS * sizeof(float)));
    CHECK(cudaMemset(weight, 0, ELEMENTS * sizeof(float)));
    for (auto &memory : other)
        CHECK(cudaMalloc(&memory, ELEMENTS * sizeof(float)));
    DDP_PARAMETER(weight, ELEMENTS, DDP_FLOAT32);
    DDP_GRADIENT(gradient, ELEMENTS, DDP_FLOAT32);
    int counter = open_counter();
    for (int step = 0; step < steps; ++step) {
        CHECK(cudaDeviceSynchronize()); /* so that the queue has room for all */
        double begin = now_ns(), before = instructions(counter);
        for (int i = 0; i < LAUNCHES; ++i)
            touch_nothing<<<1, 1>>>(other[0], other[1], other[2], other[3], 0);
        counts[step] = instructions(counter) - before;
        times[step] = now_ns() - begin;
        set<<<1, ELEMENTS>>>(gradient, 1.0f);
        DDP_STEP(0);
    }
    CHECK(cudaDeviceSynchronize());
    if (DDP_RANK() != 0)
        return 0;
    printf("launch: %.1f ns, ", median(times + steps / 2, steps - steps / 2) / LAUNCHES);
    if (counter < 0)
        printf("- instructions\n");
    else
        printf("%.1f instructions\n", median(counts + steps / 2, steps - steps / 2) / LAUNCHES);
    return 0;
}
