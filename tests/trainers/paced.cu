/*
 * paced.cu - a trainer whose layers take a given time and no core: what the network costs a step shows undisturbed.
 *
 * Forward and each layer of backward sleep in a host function on the stream, then a kernel writes the layer's gradient.
 * Gradients are small whole numbers, so that means over 1, 2 or 4 ranks are exact: at the end every parameter is
 * compared with what all steps must have added up to. Each rank prints medians over the second half of the steps, as
 * the events on its own stream saw them (--late-us has one rank begin each step later, from step --late-from on up to
 * --late-until, or each in its turn; from step --host-from on layers take their time on the host, which waits for each
 * step's end, so that no work runs beside collectives):
 *
 *   backward 40.123 ms, step end 44.456 ms
 *
 * both since backward began; "step end" is when the stream has the averages.
 *
 * With --batch N, DDP_SHARD shares N items out once, and layers take as much of their time as this rank has of the
 * items.
 *
 * Exit code 3 if a parameter is wrong.
 */
#include "../lib/elementwise.h"
#include "../lib/trainer_memory.h"
#include "../lib/trainer_options.h"

#include <algorithm>
#include <ddprun.h>
#include <time.h>

struct options {
    int batch = 0; /* items, that DDP_SHARD shares out once: a layer takes as long as this rank has of them */
    int layers = 16, kib = 256, layer_us = 1000, forward_us = 2000, steps = 60, slower_from = 0, declares = 0;
    /* rank -1: each in its turn; steps count from 0, and late_until is the first that is not late */
    int late_us = 0, late_rank = 1, late_from = 0, late_until = 1 << 30;
    int host_from = 0, groups = 1; /* of as many layers each */
};

struct layer {
    float *weight, *gradient;
    size_t count;
};

/* Whole numbers from 0 to 100, another for each step, layer and element. */
static __host__ __device__ int
pattern(int step, int layer, size_t element)
{
    return (int)((element * 7 + (size_t)step * 13 + (size_t)layer * 5) % 101);
}

ELEMENTWISE_BY_STRIDES(backward, (float *gradient, size_t count, int step, int layer, int rank), count,
                       gradient[i] = (float)(pattern(step, layer, (size_t)i) * (rank + 1)))
ELEMENTWISE_BY_STRIDES(update, (float *weight, const float *gradient, size_t count), count, weight[i] += gradient[i])

static void
sleep_us(void *us)
{
    long ns = (long)(size_t)us * 1000;
    struct timespec time = {ns / 1000000000, ns % 1000000000};
    nanosleep(&time, NULL);
}

static void
busy_for(cudaStream_t stream, int us)
{
    if (us > 0)
        CHECK(cudaLaunchHostFunc(stream, sleep_us, (void *)(size_t)us));
}

static std::vector<layer>
make_layers(const options &options)
{
    std::vector<layer> layers;
    for (int l = 0; l < options.layers; ++l) {
        /* A large tensor and a small one in turn, as weights and biases are. */
        size_t bytes = l % 2 == 0 ? (size_t)options.kib * 1024 : 256;
        size_t count = bytes / sizeof(float);
        layer made = {device_floats(count), device_floats(count), count};
        DDP_PARAMETER(made.weight, made.count, DDP_FLOAT32);
        DDP_GRADIENT_GROUP(l * options.groups / options.layers);
        DDP_GRADIENT(made.gradient, made.count, DDP_FLOAT32);
        layers.push_back(made);
    }
    return layers;
}

/* The mean over all ranks of rank + 1, of every gradient of every step. */
static bool
is_right(const std::vector<layer> &layers, int steps)
{
    double mean = (DDP_WORLD_SIZE() + 1) / 2.0;
    for (size_t l = 0; l < layers.size(); ++l) {
        std::vector<float> weight(layers[l].count);
        CHECK(cudaMemcpy(weight.data(), layers[l].weight, layers[l].count * sizeof(float), cudaMemcpyDeviceToHost));
        for (size_t i = 0; i < weight.size(); ++i) {
            double sum = 0.0;
            for (int step = 0; step < steps; ++step)
                sum += pattern(step, (int)l, i) * mean;
            if (weight[i] != (float)sum) {
                fprintf(stderr, "paced: layer %zu, element %zu: %g instead of %g\n", l, i, weight[i], sum);
                return false;
            }
        }
    }
    return true;
}

/* On the host, as a slow loader of data would. */
static void
be_late(const options &options, int step)
{
    int rank = options.late_rank >= 0 ? options.late_rank : step % DDP_WORLD_SIZE();
    if (options.late_us > 0 && rank == DDP_RANK() && step >= options.late_from && step < options.late_until)
        sleep_us((void *)(size_t)options.late_us);
}

static bool
is_on_host(const options &options, int step)
{
    return options.host_from > 0 && step >= options.host_from;
}

static void
train_step(const options &options, const std::vector<layer> &layers, cudaStream_t stream, int step, cudaEvent_t *events)
{
    int layer_us = options.slower_from > 0 && step >= options.slower_from ? 3 * options.layer_us : options.layer_us;
    busy_for(stream, options.forward_us);
    CHECK(cudaEventRecord(events[0], stream));
    for (int l = options.layers - 1; l >= 0; --l) {
        if (l % 2 == 0 && is_on_host(options, step))
            sleep_us((void *)(size_t)layer_us);
        else if (l % 2 == 0)
            busy_for(stream, layer_us);
        backward<<<4, 64, 0, stream>>>(layers[l].gradient, layers[l].count, step, l, DDP_RANK());
        if (options.declares)
            DDP_GRADIENT_READY(layers[l].gradient, stream);
    }
    CHECK(cudaEventRecord(events[1], stream));
    for (int group = options.groups - 1; group > 0; --group)
        DDP_STEP_GROUP(group, stream);
    DDP_STEP(stream);
    CHECK(cudaEventRecord(events[2], stream));
    for (const layer &layer : layers)
        update<<<4, 64, 0, stream>>>(layer.weight, layer.gradient, layer.count);
    CHECK(cudaGetLastError());
}

static double
median(std::vector<double> times)
{
    std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
    return times.empty() ? 0 : times[times.size() / 2];
}

static double
elapsed_ms(cudaEvent_t from, cudaEvent_t to)
{
    float ms = 0;
    CHECK(cudaEventElapsedTime(&ms, from, to));
    return ms;
}

static double
median_ms(const std::vector<cudaEvent_t> &events, int steps, int from, int to)
{
    std::vector<double> times;
    for (int step = steps / 2; step < steps; ++step)
        times.push_back(elapsed_ms(events[3 * step + from], events[3 * step + to]));
    return median(times);
}

int
main(int argc, char **argv)
{
    options options;
    take_options(argc, argv, 1,
                 {OPTION(options, layers), OPTION(options, kib), OPTION(options, layer_us), OPTION(options, forward_us),
                  OPTION(options, steps), OPTION(options, slower_from), OPTION(options, declares),
                  OPTION(options, late_us), OPTION(options, late_rank), OPTION(options, late_from),
                  OPTION(options, late_until), OPTION(options, host_from), OPTION(options, batch),
                  OPTION(options, groups)});
    if (options.batch > 0) {
        size_t first, count, batch = (size_t)options.batch;
        DDP_SHARD(batch, &first, &count);
        options.layer_us = (int)((size_t)options.layer_us * count / batch);
        options.forward_us = (int)((size_t)options.forward_us * count / batch);
    }
    cudaStream_t stream = stream_create();
    std::vector<cudaEvent_t> events((size_t)options.steps * 3);
    for (cudaEvent_t &event : events)
        CHECK(cudaEventCreate(&event));
    std::vector<layer> layers = make_layers(options);

    for (int step = 0; step < options.steps; ++step) {
        be_late(options, step);
        train_step(options, layers, stream, step, &events[3 * (size_t)step]);
        if (step % 4 == 3 || is_on_host(options, step)) /* as a trainer does that prints its loss now and then */
            CHECK(cudaStreamSynchronize(stream));
    }
    CHECK(cudaStreamSynchronize(stream));
    if (!is_right(layers, options.steps))
        return 3;
    printf("backward %.3f ms, step end %.3f ms\n", median_ms(events, options.steps, 0, 1),
           median_ms(events, options.steps, 0, 2));
    return 0;
}
