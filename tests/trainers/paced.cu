/*
 * paced.cu - a trainer whose layers take a given time and no core: what the network costs a step shows undisturbed.
 *
 * Forward and each layer of backward sleep in a host function on the stream, then a kernel writes the layer's gradient.
 * Gradients are small whole numbers, so that means over 1, 2 or 4 ranks are exact: at the end every parameter is
 * compared with what all steps must have added up to. Each rank prints medians over the second half of the steps, as
 * the events on its own stream saw them:
 *
 *   backward 40.123 ms, step end 44.456 ms
 *
 * both since backward began; "step end" is when the stream has the averages. Exit code 3 if a parameter is wrong.
 */
#include <algorithm>
#include <cuda_runtime.h>
#include <ddprun.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <vector>

#define CHECK(call)                                                                \
    do {                                                                           \
        cudaError_t error_ = (call);                                               \
        if (error_ != cudaSuccess) {                                               \
            fprintf(stderr, "paced: %s: %s\n", #call, cudaGetErrorString(error_)); \
            exit(1);                                                               \
        }                                                                          \
    } while (0)

struct options {
    int layers = 16, kib = 256, layer_us = 1000, forward_us = 2000, steps = 60, slower_from = 0, declares = 0;
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

__global__ void
backward(float *gradient, size_t count, int step, int layer, int rank)
{
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < count; i += (size_t)gridDim.x * blockDim.x)
        gradient[i] = (float)(pattern(step, layer, i) * (rank + 1));
}

__global__ void
update(float *weight, const float *gradient, size_t count)
{
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < count; i += (size_t)gridDim.x * blockDim.x)
        weight[i] += gradient[i];
}

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
        layer made = {nullptr, nullptr, bytes / sizeof(float)};
        CHECK(cudaMalloc((void **)&made.weight, bytes));
        CHECK(cudaMalloc((void **)&made.gradient, bytes));
        CHECK(cudaMemset(made.weight, 0, bytes));
        CHECK(cudaMemset(made.gradient, 0, bytes));
        DDP_PARAMETER(made.weight, made.count, DDP_FLOAT32);
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

static void
train_step(const options &options, const std::vector<layer> &layers, cudaStream_t stream, int step, cudaEvent_t *events)
{
    int layer_us = options.slower_from > 0 && step >= options.slower_from ? 3 * options.layer_us : options.layer_us;
    busy_for(stream, options.forward_us);
    CHECK(cudaEventRecord(events[0], stream));
    for (int l = options.layers - 1; l >= 0; --l) {
        if (l % 2 == 0)
            busy_for(stream, layer_us);
        backward<<<4, 64, 0, stream>>>(layers[l].gradient, layers[l].count, step, l, DDP_RANK());
        if (options.declares)
            DDP_GRADIENT_READY(layers[l].gradient, stream);
    }
    CHECK(cudaEventRecord(events[1], stream));
    DDP_STEP(stream);
    CHECK(cudaEventRecord(events[2], stream));
    for (const layer &layer : layers)
        update<<<4, 64, 0, stream>>>(layer.weight, layer.gradient, layer.count);
    CHECK(cudaGetLastError());
}

static float
median_ms(const std::vector<cudaEvent_t> &events, int steps, int from, int to)
{
    std::vector<float> times;
    for (int step = steps / 2; step < steps; ++step) {
        float ms = 0;
        CHECK(cudaEventElapsedTime(&ms, events[3 * step + from], events[3 * step + to]));
        times.push_back(ms);
    }
    std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
    return times[times.size() / 2];
}

static options
parse(int argc, char **argv)
{
    options options;
    const struct {
        const char *name;
        int *value;
    } known[] = {{"--layers", &options.layers},     {"--kib", &options.kib},
                 {"--layer-us", &options.layer_us}, {"--forward-us", &options.forward_us},
                 {"--steps", &options.steps},       {"--slower-from", &options.slower_from},
                 {"--declares", &options.declares}};
    for (int i = 1; i < argc; i += 2) {
        int *value = nullptr;
        for (const auto &row : known)
            value = strcmp(argv[i], row.name) == 0 ? row.value : value;
        if (value == nullptr || i + 1 == argc) {
            fprintf(stderr, "Usage: paced [--layers N] [--kib N] [--layer-us N] [--forward-us N] [--steps N]\n"
                            "             [--slower-from STEP] [--declares 0|1]\n");
            exit(2);
        }
        *value = atoi(argv[i + 1]);
    }
    return options;
}

int
main(int argc, char **argv)
{
    options options = parse(argc, argv);
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    std::vector<cudaEvent_t> events((size_t)options.steps * 3);
    for (cudaEvent_t &event : events)
        CHECK(cudaEventCreate(&event));
    std::vector<layer> layers = make_layers(options);
    CHECK(cudaDeviceSynchronize());

    for (int step = 0; step < options.steps; ++step) {
        train_step(options, layers, stream, step, &events[3 * (size_t)step]);
        if (step % 4 == 3) /* as a trainer does that prints its loss now and then */
            CHECK(cudaStreamSynchronize(stream));
    }
    CHECK(cudaStreamSynchronize(stream));
    if (!is_right(layers, options.steps))
        return 3;
    printf("backward %.3f ms, step end %.3f ms\n", median_ms(events, options.steps, 0, 1),
           median_ms(events, options.steps, 0, 2));
    return 0;
}
