/*
 * random_rare.h - what a program of random.cu does in a few steps only, with MATRIX_RARE=1: gradients are written once
 * more when their bucket is launched, on all ranks or on one, the host waits, memory is freed, a step has no DDP_STEP.
 * Ranks may differ; what a program with one order of launches computes is held against the same program with another.
 * Included by random.cu only.
 */
#ifndef TESTS_MATRIX_RANDOM_RARE_H
#define TESTS_MATRIX_RANDOM_RARE_H

#include "random_writers.h"

#include <pthread.h>
#include <unistd.h>

/* Ways to write a gradient, between backward and DDP_STEP. */
enum rare_writer {
    RARE_KERNEL,
    RARE_COPY,
    RARE_ZEROS,
    RARE_PRODUCT,
    RARE_HIDDEN,
    RARE_THREAD,
    RARE_ASIDE,
    RARE_WRITERS
};
/* Ways to wait, and other calls, in the middle of backward or after it. */
enum rare_call { CALL_DEVICE, CALL_STREAM, CALL_EVENT, CALL_COPY, CALL_FREE, CALL_MEAN, CALL_READ, RARE_CALLS };

enum { RARE_FROM = 7 }; /* steps before are as those that a plan is learned from */

static const char *const rare_writer_names[RARE_WRITERS] = {"kernel", "copy",   "zeros", "product",
                                                            "hidden", "thread", "aside"};

static struct {
    bool is_on;
    enum rare_writer writer;
    int write_every, write_layer, write_rank; /* rank -1: all */
    enum rare_call call;
    int call_every, call_rank;
    bool calls_amid;      /* in backward, after its first half */
    int step_left_out_at; /* 0: none */
    bool loads;           /* a second thread waits for the device now and then */
    bool frees;           /* memory is allocated and freed in each step */
    float *scratch, **hidden;
    float *host;
    bool ends; /* atomic */
    pthread_t loader;
} rare;

static __global__ void
hide(float **hidden, float *gradient)
{
    *hidden = gradient;
}

static __global__ void
scale_hidden(float *const *hidden, int count, float by)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        (*hidden)[i] *= by;
}

/* Drawn after everything else: other programs stay as they are. */
static void
rare_decide(void)
{
    const char *wanted = getenv("MATRIX_RARE");
    rare.is_on = wanted != NULL && atoi(wanted) == 1;
    rare.writer = (enum rare_writer)pick(RARE_WRITERS);
    rare.write_every = 5 + (int)pick(7);
    rare.write_layer = (int)pick((unsigned)program.layers);
    rare.write_rank = (int)pick(3) - 1;
    rare.call = (enum rare_call)pick(RARE_CALLS);
    rare.call_every = 2 + (int)pick(7);
    rare.call_rank = rare.call == CALL_MEAN ? -1 : (int)pick(3) - 1;
    rare.calls_amid = pick(2) == 0;
    rare.step_left_out_at = pick(4) == 0 ? RARE_FROM + (int)pick(8) : 0;
    rare.loads = pick(6) == 0;
    rare.frees = pick(5) == 0;
    if (rare.is_on && getenv("MATRIX_DESCRIBE") != NULL)
        fprintf(stderr, "rare: %s every %d on rank %d, layer %d; call %d every %d on rank %d%s; left out at %d%s%s\n",
                rare_writer_names[rare.writer], rare.write_every, rare.write_rank, rare.write_layer, (int)rare.call,
                rare.call_every, rare.call_rank, rare.calls_amid ? ", amid" : "", rare.step_left_out_at,
                rare.loads ? ", loader" : "", rare.frees ? ", frees" : "");
}

static bool
rare_is_due(int step, int every, int rank)
{
    return rare.is_on && step >= RARE_FROM && step % every == 0 && (rank < 0 || rank == DDP_RANK());
}

/* A data loader that looks at the device. */
static void *
rare_load(void *unused)
{
    device_enter();
    while (!__atomic_load_n(&rare.ends, __ATOMIC_ACQUIRE)) {
        device_wait();
        usleep(3000);
    }
    return unused;
}

static void
rare_create(void)
{
    const struct dense *d = &layers[rare.write_layer].dense;
    if (!rare.is_on)
        return;
    rare.scratch = device_floats((size_t)(d->inputs * d->outputs));
    rare.hidden = (float **)device_allocate(sizeof(float *));
    rare.host = (float *)pinned_allocate(sizeof(float));
    if (rare.writer == RARE_HIDDEN) { /* its gradients stay where they are */
        layers[rare.write_layer].moved_every = 0;
        LAUNCH(hide, 1, streams[0])(rare.hidden, d->weight_gradient);
    }
    if (rare.loads)
        CHECK(pthread_create(&rare.loader, NULL, rare_load, NULL));
}

static void
rare_destroy(void)
{
    __atomic_store_n(&rare.ends, true, __ATOMIC_RELEASE);
    if (rare.is_on && rare.loads)
        pthread_join(rare.loader, NULL);
}

static void *
rare_write_in_thread(void *gradient)
{
    const struct dense *d = &layers[rare.write_layer].dense;
    device_enter();
    LAUNCH(scale_in_place, (size_t)(d->inputs * d->outputs), streams[0])
    ((float *)gradient, d->inputs * d->outputs, 1.5f, (const float *)NULL);
    return gradient;
}

/* All side streams have joined the main one. */
static void
rare_write(int step)
{
    const struct layer *layer = &layers[rare.write_layer];
    const struct dense *d = &layer->dense;
    const int count = d->inputs * d->outputs;
    const size_t bytes = (size_t)count * sizeof(float);
    float *gradient = d->weight_gradient;
    pthread_t thread;
    if (!rare_is_due(step, rare.write_every, rare.write_rank))
        return;
    switch (rare.writer) {
    case RARE_COPY:
        device_copy(rare.scratch, gradient, bytes, streams[0]);
        LAUNCH(scale_in_place, (size_t)count, streams[0])(rare.scratch, count, 0.5f, (const float *)NULL);
        device_copy(gradient, rare.scratch, bytes, streams[0]);
        break;
    case RARE_ZEROS:
        device_zero(gradient, (size_t)(count / 2 + 1), streams[0]);
        break;
    case RARE_PRODUCT:
        stream_follow(streams[0], streams[layer->stream], event);
        product(layer, d->delta, d->output, 1, 0.5f, 0.0f);
        stream_follow(streams[layer->stream], streams[0], event);
        break;
    case RARE_HIDDEN:
        LAUNCH(scale_hidden, (size_t)count, streams[0])(rare.hidden, count, 0.75f);
        break;
    case RARE_THREAD:
        CHECK(pthread_create(&thread, NULL, rare_write_in_thread, gradient));
        pthread_join(thread, NULL);
        break;
    case RARE_ASIDE:
        stream_follow(streams[0], streams[program.streams], event);
        LAUNCH(scale_in_place, (size_t)count, streams[program.streams])(gradient, count, 2.0f, (const float *)NULL);
        stream_follow(streams[program.streams], streams[0], event);
        break;
    default:
        LAUNCH(scale_in_place, (size_t)count, streams[0])(gradient, count, 1.25f, (const float *)NULL);
    }
}

static void
rare_call(int step, bool amid)
{
    const struct dense *d = &layers[rare.write_layer].dense;
    float mean = 1.0f;
    if (amid != rare.calls_amid || !rare_is_due(step, rare.call_every, rare.call_rank))
        return;
    switch (rare.call) {
    case CALL_DEVICE:
        device_wait();
        break;
    case CALL_STREAM:
        stream_wait(streams[program.streams]);
        break;
    case CALL_COPY:
        device_download(rare.host, d->bias_gradient, sizeof(float));
        break;
    case CALL_FREE:
        device_free(device_allocate(4096));
        break;
    case CALL_MEAN:
        DDP_MEAN(&mean);
        break;
    case CALL_READ:
        LAUNCH(square_sum, 1, streams[0])(norms + 1, d->weight_gradient, d->inputs * d->outputs, 0);
        break;
    default:
        device_download_later(rare.host, d->bias, sizeof(float), streams[0]);
        stream_wait(streams[0]);
    }
}

/* Whether the step ends without DDP_STEP and update, on all ranks. */
static bool
rare_leaves_step_out(int step)
{
    return rare.is_on && rare.step_left_out_at > 0 && step == rare.step_left_out_at;
}

#endif
