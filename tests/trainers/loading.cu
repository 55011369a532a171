/*
 * loading.cu - a trainer whose host works between two steps, as one that loads batches. For trust.sh: what the wait in
 * DDP_STEP costs, and what --commit trust gains. SOFTGPU_COPY_US gives its layers time that takes no processor.
 *
 *     loading MODE STEPS HOST_US
 *
 * Prints the median time of a step, and how often the thread slept in DDP_STEP. As exact.h: every weight is known.
 * MODE: loads   the host works for HOST_US after DDP_STEP, and enqueues the update then reads   it reads a weight
 * before that, as a program that prints its loss
 */
enum { LAYERS = 2, COUNT = 4096 };
#include "exact.h"

#include <algorithm>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>
#include <vector>

static float *scratch[2];

static double
now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

static void
backward(void)
{
    for (int l = LAYERS - 1; l >= 0; --l) {
        CHECK(cudaMemcpyAsync(scratch[0], scratch[1], BYTES, cudaMemcpyDeviceToDevice, stream));
        layer_backward(l, stream);
    }
}

static void
read_weight(void)
{
    float weight;
    CHECK(cudaMemcpyAsync(&weight, weights[0], sizeof(weight), cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
}

/* How often this thread has waited so far, and others had its processor. */
static long
sleeps(void)
{
    struct rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_nvcsw;
}

/* Returns how often the thread slept in DDP_STEP. */
static long
train_step(unsigned host_us)
{
    backward();
    const long before = sleeps();
    DDP_STEP(stream);
    const long slept = sleeps() - before;
    if (is_mode("reads"))
        read_weight();
    usleep(host_us);
    layers_update();
    return slept;
}

template <typename Number>
static Number
median(std::vector<Number> numbers)
{
    std::sort(numbers.begin(), numbers.end());
    return numbers[numbers.size() / 2];
}

int
main(int argc, char **argv)
{
    std::vector<double> times;
    std::vector<long> slept;
    take_mode(argc, argv, "loads");
    const unsigned host_us = argc > 3 ? (unsigned)atoi(argv[3]) : 0;
    layers_create();
    layers_annotate();
    for (float *&one : scratch)
        one = device_floats(COUNT);

    for (int step = 0; step < steps; ++step) {
        const double begin = now_ms();
        slept.push_back(train_step(host_us));
        times.push_back(now_ms() - begin);
    }
    printf("step %.3f ms, slept %ld times in DDP_STEP\n", median(times), median(slept));
    expect_steps(steps);
    return weights_are_right(0) ? 0 : 1;
}
