/*
 * overlap_rank.cu - the trainer of overlap.py: prints how long a step takes, "step 44.456 ms".
 *
 * Backward goes from the last layer to the first. A layer takes a given time, then a kernel writes its gradient of a
 * given size, and one of 256 bytes, as weights and biases have. With `--on host` a layer sleeps in a host function on
 * the stream, which needs neither a core nor a multiprocessor: for the stand-in. With `--on device` it is work on all
 * multiprocessors, which a collective beside it slows down: for GPUs. The time of a step is that from its begin to the
 * begin of the next one, by events on its stream: the median over the second half of the steps.
 *
 * Gradients are whole numbers: at the end every parameter is compared with what all steps must have added up to. Exit
 * code 3 if one is wrong, 2 for a mistake on the command line.
 */
#include "../lib/elementwise.h"
#include "../lib/trainer_memory.h"
#include "../lib/trainer_options.h"

#include <algorithm>
#include <ddprun.h>
#include <time.h>

enum { SMALL_BYTES = 256, THREADS = 64, BLOCKS = 64, STEPS_BETWEEN_WAITS = 4 };
enum { CYCLES_OF_ROUND = 4 }; /* of compute(): a multiplication and addition that waits for the one before it */

struct options {
    int layers = 8, kib = 64, layer_us = 1000, forward_us = 500, steps = 40;
    const char *on = "host";
};

struct tensor {
    float *weight, *gradient;
    int count;
};

/* Of one layer. */
struct layer {
    tensor large, small;
};

/* How the time of layers passes. */
struct work {
    bool on_device;
    int blocks;
    double rounds_per_us;
    float *result; /* of kernels; not read */
};

ELEMENTWISE_BY_STRIDES(backward, (float *gradient, int count, float value), count, gradient[i] = value)
ELEMENTWISE_BY_STRIDES(update, (float *weight, const float *gradient, int count), count, weight[i] += gradient[i])

__global__ void
compute(float *result, int rounds)
{
    float value = (float)threadIdx.x;
    for (int round = 0; round < rounds; ++round)
        value = value * 0.999f + 0.5f;
    if (value < 0) /* never: but the compiler does not know */
        *result = value;
}

/* ---- time that passes ---- */

static double
elapsed_ms(cudaEvent_t from, cudaEvent_t to)
{
    float ms = 0;
    CHECK(cudaEventElapsedTime(&ms, from, to));
    return ms;
}

static void
sleep_us(void *us)
{
    long ns = (long)(size_t)us * 1000;
    struct timespec time = {ns / 1000000000, ns % 1000000000};
    nanosleep(&time, NULL);
}

static void
pass(const work &work, cudaStream_t stream, int us)
{
    if (work.on_device)
        compute<<<work.blocks, THREADS, 0, stream>>>(work.result, (int)(work.rounds_per_us * us));
    else
        CHECK(cudaLaunchHostFunc(stream, sleep_us, (void *)(size_t)us));
}

/* On the device a layer takes about its time: the work is the same in all jobs, whatever the device's clock does. */
static work
make_work(bool on_device)
{
    work made = {on_device, 0, 0, NULL};
    int device = 0, clock_khz = 0;
    if (!on_device)
        return made;
    CHECK(cudaGetDevice(&device));
    CHECK(cudaDeviceGetAttribute(&made.blocks, cudaDevAttrMultiProcessorCount, device));
    CHECK(cudaDeviceGetAttribute(&clock_khz, cudaDevAttrClockRate, device));
    made.rounds_per_us = clock_khz / 1e3 / CYCLES_OF_ROUND;
    made.result = device_floats(1);
    return made;
}

/* ---- training ---- */

static tensor
make_tensor(size_t bytes)
{
    size_t count = bytes / sizeof(float);
    tensor made = {device_floats(count), device_floats(count), (int)count};
    DDP_PARAMETER(made.weight, count, DDP_FLOAT32);
    DDP_GRADIENT(made.gradient, count, DDP_FLOAT32);
    return made;
}

static void
compute_gradient(const tensor &tensor, cudaStream_t stream)
{
    backward<<<BLOCKS, THREADS, 0, stream>>>(tensor.gradient, tensor.count, (float)(DDP_RANK() + 1));
}

static void
update_tensor(const tensor &tensor, cudaStream_t stream)
{
    update<<<BLOCKS, THREADS, 0, stream>>>(tensor.weight, tensor.gradient, tensor.count);
}

static void
train_step(const options &options, const std::vector<layer> &layers, const work &work, cudaStream_t stream)
{
    pass(work, stream, options.forward_us);
    for (size_t l = layers.size(); l-- > 0;) {
        pass(work, stream, options.layer_us);
        compute_gradient(layers[l].large, stream);
        compute_gradient(layers[l].small, stream);
    }
    DDP_STEP(stream);
    for (const layer &layer : layers) {
        update_tensor(layer.large, stream);
        update_tensor(layer.small, stream);
    }
    CHECK(cudaGetLastError());
}

/* Each step has added the mean of rank + 1 over all ranks. */
static bool
is_right(const tensor &tensor, int steps)
{
    float wanted = (float)steps * (float)(DDP_WORLD_SIZE() + 1) / 2;
    std::vector<float> weight((size_t)tensor.count);
    CHECK(cudaMemcpy(weight.data(), tensor.weight, weight.size() * sizeof(float), cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < weight.size(); ++i) {
        if (weight[i] != wanted) {
            fprintf(stderr, "overlap_rank: element %zu of a parameter is %g instead of %g\n", i, weight[i], wanted);
            return false;
        }
    }
    return true;
}

/* Of the second half of the steps; events[k] is the begin of step k. */
static double
median_step_ms(const std::vector<cudaEvent_t> &events)
{
    size_t steps = events.size() - 1;
    std::vector<double> times;
    for (size_t step = steps / 2; step < steps; ++step)
        times.push_back(elapsed_ms(events[step], events[step + 1]));
    std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
    return times[times.size() / 2];
}

static options
read_options(int argc, char **argv)
{
    options options;
    take_options(argc, argv, 1,
                 {OPTION(options, layers), OPTION(options, kib), OPTION(options, layer_us), OPTION(options, forward_us),
                  OPTION(options, steps), OPTION(options, on)});
    bool is_on_known = strcmp(options.on, "host") == 0 || strcmp(options.on, "device") == 0;
    if (is_on_known && options.layers > 0 && options.kib > 0 && options.steps > 1)
        return options;
    fprintf(stderr, "%s: --layers and --kib are above 0, --steps above 1, --on is host or device\n", argv[0]);
    exit(2);
}

int
main(int argc, char **argv)
{
    options options = read_options(argc, argv);
    cudaStream_t stream = stream_create();
    work work = make_work(strcmp(options.on, "device") == 0);
    std::vector<cudaEvent_t> events((size_t)options.steps + 1);
    for (cudaEvent_t &event : events)
        CHECK(cudaEventCreate(&event));
    std::vector<layer> layers;
    for (int l = 0; l < options.layers; ++l)
        layers.push_back({make_tensor((size_t)options.kib * 1024), make_tensor(SMALL_BYTES)});

    for (int step = 0; step < options.steps; ++step) {
        CHECK(cudaEventRecord(events[(size_t)step], stream));
        train_step(options, layers, work, stream);
        if (step % STEPS_BETWEEN_WAITS == STEPS_BETWEEN_WAITS - 1) /* as a trainer does that prints its loss */
            CHECK(cudaStreamSynchronize(stream));
    }
    CHECK(cudaEventRecord(events[(size_t)options.steps], stream));
    CHECK(cudaStreamSynchronize(stream));
    for (const layer &layer : layers) {
        if (!is_right(layer.large, options.steps) || !is_right(layer.small, options.steps))
            return 3;
    }
    printf("step %.3f ms\n", median_step_ms(events));
    return 0;
}
