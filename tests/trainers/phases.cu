/*
 * phases.cu - a trainer whose parts take a given time at least, each by a sleep: what a trace tells apart is known.
 *
 * Of a step on the host: it waits for the update of the step before (--update-us on the device), copies a rate, its
 * loader sleeps, two large copies bring the batch, and a small one its labels. On the device forward sleeps, and
 * kernels write the gradients. Each
 * --every steps, and at the end, it evaluates: it copies batches, a kernel sums each one up, and the host sleeps. And
 * it saves: it copies the parameters and moments to the host, and sleeps as if it wrote a file. --no-copy 1: the data
 * are on the device. --thread 1: another thread copies them.
 */
#include "../lib/elementwise.h"
#include "../lib/trainer_memory.h"
#include "../lib/trainer_options.h"

#include <ddprun.h>
#include <pthread.h>
#include <time.h>

enum { ITEMS = 16384, FEW = 32, LAYERS = 4, EVALUATIONS = 8 };

struct options {
    int steps = 40, every = 0;
    int update_us = 3000, loader_us = 5000, forward_us = 4000, evaluation_us = 4000, saving_us = 30000;
    int no_copy = 0, thread = 0;
    int late_rank = -1, late_us = 0; /* the rank whose loader takes longer */
};

struct net {
    float *weights[LAYERS], *gradients[LAYERS], *moments, *batch, *rates, *sum;
    std::vector<float> data;
    cudaStream_t stream;
};

ELEMENTWISE_BY_STRIDES(sum_up, (const float *batch, float *sum, size_t count), count, atomicAdd(sum, batch[i]))
ELEMENTWISE_BY_STRIDES(write_gradient, (float *gradient, const float *batch, size_t count), count,
                       gradient[i] = batch[i])
ELEMENTWISE_BY_STRIDES(update, (float *weight, const float *gradient, const float *rate, size_t count), count,
                       weight[i] -= *rate * gradient[i])

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
    CHECK(cudaLaunchHostFunc(stream, sleep_us, (void *)(size_t)us));
}

static void *
copy_batch(void *arg)
{
    struct net *net = (struct net *)arg;
    const size_t half = ITEMS / 2 * sizeof(float);
    CHECK(cudaMemcpyAsync(net->batch, net->data.data(), half, cudaMemcpyHostToDevice, net->stream));
    CHECK(cudaMemcpyAsync(net->batch + ITEMS / 2, net->data.data() + ITEMS / 2, half, cudaMemcpyHostToDevice,
                          net->stream));
    return NULL;
}

/* A few numbers: rates, labels. Of data on the device one. */
static void
copy_few(const options &options, net *net)
{
    static const float rates[FEW] = {0.5f};
    size_t bytes = (options.no_copy ? 1 : FEW) * sizeof(float);
    CHECK(cudaMemcpyAsync(net->rates, rates, bytes, cudaMemcpyHostToDevice, net->stream));
}

static void
load(const options &options, net *net)
{
    copy_few(options, net);
    sleep_us((void *)(size_t)(options.loader_us + (DDP_RANK() == options.late_rank ? options.late_us : 0)));
    pthread_t thread;
    if (options.thread) {
        CHECK((cudaError_t)pthread_create(&thread, NULL, copy_batch, net));
        pthread_join(thread, NULL);
    } else if (!options.no_copy) {
        copy_batch(net);
    }
}

static void
train_step(const options &options, net *net)
{
    CHECK(cudaStreamSynchronize(net->stream)); /* as programs do that read their loss */
    load(options, net);
    busy_for(net->stream, options.forward_us);
    copy_few(options, net);
    sum_up<<<4, 64, 0, net->stream>>>(net->batch, net->sum, ITEMS);
    for (int l = LAYERS - 1; l >= 0; --l)
        write_gradient<<<4, 64, 0, net->stream>>>(net->gradients[l], net->batch, ITEMS);
    DDP_STEP(net->stream);
    for (int l = 0; l < LAYERS; ++l)
        update<<<4, 64, 0, net->stream>>>(net->weights[l], net->gradients[l], net->rates, ITEMS);
    busy_for(net->stream, options.update_us);
}

static void
evaluate(const options &options, net *net)
{
    float sum = 0;
    for (int i = 0; i < EVALUATIONS; ++i) {
        if (!options.no_copy)
            copy_batch(net);
        sum_up<<<4, 64, 0, net->stream>>>(net->batch, net->sum, ITEMS);
        sleep_us((void *)(size_t)options.evaluation_us);
    }
    CHECK(cudaMemcpyAsync(&sum, net->sum, sizeof(sum), cudaMemcpyDeviceToHost, net->stream));
    CHECK(cudaStreamSynchronize(net->stream));
}

static void
save(const options &options, net *net)
{
    std::vector<float> weight(ITEMS);
    for (int l = 0; l < LAYERS; ++l) {
        CHECK(cudaMemcpy(weight.data(), net->weights[l], ITEMS * sizeof(float), cudaMemcpyDeviceToHost));
        CHECK(cudaMemcpy(weight.data(), net->moments, ITEMS * sizeof(float), cudaMemcpyDeviceToHost));
        sleep_us((void *)(size_t)(options.saving_us / LAYERS));
    }
}

int
main(int argc, char **argv)
{
    options options;
    net net;
    take_options(argc, argv, 1,
                 {OPTION(options, steps), OPTION(options, every), OPTION(options, update_us),
                  OPTION(options, loader_us), OPTION(options, forward_us), OPTION(options, evaluation_us),
                  OPTION(options, saving_us), OPTION(options, no_copy), OPTION(options, thread),
                  OPTION(options, late_rank), OPTION(options, late_us)});
    net.stream = stream_create();
    net.batch = device_floats(ITEMS);
    net.moments = device_floats(ITEMS);
    net.rates = device_floats(FEW);
    net.sum = device_floats(1);
    net.data.assign(ITEMS, 1.0f + (float)DDP_RANK());
    for (int l = 0; l < LAYERS; ++l) {
        net.weights[l] = device_floats(ITEMS);
        net.gradients[l] = device_floats(ITEMS);
        DDP_PARAMETER(net.weights[l], ITEMS, DDP_FLOAT32);
        DDP_GRADIENT(net.gradients[l], ITEMS, DDP_FLOAT32);
    }
    for (int step = 1; step <= options.steps; ++step) {
        train_step(options, &net);
        if (options.every > 0 && step % options.every == 0) {
            save(options, &net);
            evaluate(options, &net);
        }
    }
    CHECK(cudaStreamSynchronize(net.stream));
    return 0;
}
