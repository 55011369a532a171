/*
 * ladder.cu - a trainer for tests: a chain of equal layers, enough of them that buckets can leave while backward runs,
 * with switches for everything that can go wrong.
 *
 * Kernels only, no library; every sum in a fixed order, so that one process gives the same bits every time. Built by
 * softgpu-cc and by nvcc. Prints one line "step N loss L" a step on rank 0, and saves its parameters as the samples do.
 */
#include "../lib/elementwise.h"
#include "../lib/trainer_memory.h"
#include "../lib/trainer_net.h"
#include "../lib/trainer_options.h"
#include "../lib/trainer_save.h"

#include <ddprun.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LAYERS_AT_MOST = 64 };

struct options {
    int layers, width, steps, seed;
    size_t batch;
    int accumulate;    /* backward passes a step */
    int fewer_from;    /* from this step on, one pass fewer; 0: never */
    int streams;       /* 2: weight gradients on a stream of their own */
    int time;          /* 1: print how long training took */
    int exit;          /* what main() returns */
    const char *save;  /* or NULL */
    const char *fault; /* or NULL: what goes wrong */
    int fault_step, fault_rank;
    float rate;
    int resident; /* 1: all steps train on the first batch, which stays on the device */
    float carry;  /* instead of being zeroed, gradients keep so much of what they were: momentum */
};

struct layer {
    float *weight, *gradient, *momentum, *output, *delta;
};

struct trainer {
    struct options options;
    struct layer layers[LAYERS_AT_MOST];
    float *input, *target;
    float **hidden_pointers; /* device memory with pointers to gradients: ddprun cannot see them */
    cudaStream_t side_stream;
    cudaEvent_t event;
};

/* ---- kernels ---- */

__global__ void
norm_log(const float *gradient, int count, float *out)
{
    float sum = 0.0f;
    for (int i = 0; i < count; ++i)
        sum += gradient[i] * gradient[i];
    *out = sum;
}

ELEMENTWISE(scale_in_place, (float *gradient, int count, float factor), count, gradient[i] *= factor)
ELEMENTWISE(scale_hidden, (float **pointers, int which, int count, float factor), count, pointers[which][i] *= factor)

__global__ void
hide(float **pointers, int which, float *gradient)
{
    pointers[which] = gradient;
}

/* ---- data: the same for every world, by the number of the sample ---- */

static void
load_batch(struct trainer *t, int step, int pass, size_t first, size_t count)
{
    if (step > 1 && t->options.resident)
        return;
    int width = t->options.width;
    float *host = (float *)malloc(2 * count * (size_t)width * sizeof(float));
    for (size_t b = 0; b < count; ++b) {
        unsigned sample = (unsigned)(((size_t)step * 16 + (size_t)pass) * 100000 + first + b);
        for (int i = 0; i < width; ++i) {
            host[b * (size_t)width + (size_t)i] = noise_of(1, sample * 131u + (unsigned)i);
            host[(count + b) * (size_t)width + (size_t)i] = 0.5f * noise_of(2, (unsigned)i) * host[b * (size_t)width];
        }
    }
    size_t bytes = count * (size_t)width * sizeof(float);
    CHECK(cudaMemcpy(t->input, host, bytes, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(t->target, host + count * (size_t)width, bytes, cudaMemcpyHostToDevice));
    free(host);
}

/* ---- faults ---- */

static bool
fault_is(const struct trainer *t, const char *name, int step)
{
    return t->options.fault != NULL && strcmp(t->options.fault, name) == 0 &&
           (t->options.fault_step == 0 || t->options.fault_step == step) &&
           (t->options.fault_rank < 0 || t->options.fault_rank == DDP_RANK());
}

/* A helper process, as data loaders make them: it must neither be a rank nor take anything with it when it ends. */
static void
fork_child(void)
{
    int status;
    pid_t child = fork();
    if (child == 0)
        exit(0);
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
        fprintf(stderr, "ladder: the child did not end well\n");
        exit(1);
    }
}

/* A parameter gets other memory, as where layers grow or are loaded. */
static void
move_parameter(struct trainer *t, bool annotate)
{
    size_t count = (size_t)t->options.width * (size_t)t->options.width, bytes = count * sizeof(float);
    float *moved = device_floats(count);
    CHECK(cudaMemcpy(moved, t->layers[0].weight, bytes, cudaMemcpyDeviceToDevice));
    CHECK(cudaFree(t->layers[0].weight));
    t->layers[0].weight = moved;
    if (annotate)
        DDP_PARAMETER(moved, count, DDP_FLOAT32);
}

/* Between backward and DDP_STEP, when the first buckets are launched. */
static void
faults_before_step(struct trainer *t, int step)
{
    int count = t->options.width * t->options.width;
    float *last = t->layers[t->options.layers - 1].gradient;
    if (fault_is(t, "late-read", step))
        norm_log<<<1, 1>>>(last, count, t->target);
    if (fault_is(t, "late-write", step) || fault_is(t, "late-leave", step))
        scale_in_place<<<blocks_for(count), THREADS>>>(last, count, 2.0f);
    if (fault_is(t, "free", step))
        CHECK(cudaFree(last));
    if (fault_is(t, "scratch", step)) {
        float *scratch;
        CHECK(cudaMalloc((void **)&scratch, 4096));
        CHECK(cudaFree(scratch));
    }
    if (fault_is(t, "move-parameter", step) || fault_is(t, "move-and-annotate", step))
        move_parameter(t, fault_is(t, "move-and-annotate", step));
    if (fault_is(t, "hidden-write", step)) {
        CHECK(cudaDeviceSynchronize()); /* the bucket has been averaged by now */
        scale_hidden<<<blocks_for(count), THREADS>>>(t->hidden_pointers, t->options.layers - 1, count, 2.0f);
    }
    if (fault_is(t, "wild-write", step)) {
        norm_log<<<1, 1>>>(last, count, (float *)(uintptr_t)0x10);
        (void)cudaDeviceSynchronize(); /* it fails, as all calls do from now on, and the program ignores that */
    }
    if (fault_is(t, "crash", step))
        raise(SIGSEGV);
    if (fault_is(t, "exit", step))
        exit(3);
    if (fault_is(t, "quick-exit", step))
        _exit(0);
    if (fault_is(t, "fork", step))
        fork_child();
    if (fault_is(t, "program", step))
        printf("the program ended with %d\n", system(getenv("LADDER_PROGRAM")));
    if (fault_is(t, "hang", step))
        pause();
    if (fault_is(t, "drift", step))
        scale_in_place<<<blocks_for(count), THREADS>>>(t->layers[0].weight, count, 1.01f);
}

static void
faults_of_annotation(struct trainer *t)
{
    float *no_memory = (float *)(uintptr_t)4096;
    size_t count = (size_t)t->options.width * (size_t)t->options.width;
    float *first = t->layers[0].gradient;
    if (fault_is(t, "no-memory", 0))
        DDP_GRADIENT(no_memory, 16, DDP_FLOAT32);
    if (fault_is(t, "overlap", 0))
        DDP_GRADIENT(first + count / 2, count / 4, DDP_FLOAT32);
    if (fault_is(t, "beyond", 0))
        DDP_GRADIENT(t->layers[0].momentum, count * 1000, DDP_FLOAT32);
    if (fault_is(t, "type", 0))
        DDP_GRADIENT(t->layers[0].momentum, count, 77);
    if (fault_is(t, "other-size", 0))
        DDP_GRADIENT(t->layers[0].momentum, count / (size_t)(1 + DDP_RANK()), DDP_FLOAT32);
    if (fault_is(t, "other-parameter", 0))
        DDP_PARAMETER(t->layers[0].momentum, count / (size_t)(1 + DDP_RANK()), DDP_FLOAT32);
    for (int i = 0; i < 2 && fault_is(t, "other-order", 0); ++i) {
        if (i == DDP_RANK() % 2)
            DDP_GRADIENT(t->layers[0].momentum, count, DDP_FLOAT32);
        else
            DDP_GRADIENT(t->layers[1].momentum, count, DDP_FLOAT32);
    }
    if (fault_is(t, "one-more", 0))
        DDP_GRADIENT(t->layers[0].momentum, count, DDP_FLOAT32);
}

/* ---- training ---- */

static void
initialise(struct trainer *t)
{
    int width = t->options.width;
    size_t square = (size_t)width * (size_t)width * sizeof(float);
    float *host = (float *)malloc(square);
    bool other = fault_is(t, "other-seeds", 0) || fault_is(t, "init-late", 0);
    int seed = t->options.seed + (other ? 100 * DDP_RANK() : 0);
    for (int l = 0; l < t->options.layers; ++l) {
        for (int i = 0; i < width * width; ++i)
            host[i] = noise_of((unsigned)(seed + l + 10), (unsigned)i) * 1.5f / (float)width +
                      (i / width == i % width ? 0.9f : 0.0f);
        CHECK(cudaMemcpy(t->layers[l].weight, host, square, cudaMemcpyHostToDevice));
    }
    free(host);
}

static void
create(struct trainer *t)
{
    int width = t->options.width;
    size_t square = (size_t)width * (size_t)width, rows = t->options.batch * (size_t)width;
    t->input = device_floats(rows);
    t->target = device_floats(rows);
    CHECK(cudaMalloc(&t->hidden_pointers, LAYERS_AT_MOST * sizeof(float *)));
    for (int l = 0; l < t->options.layers; ++l) {
        struct layer *layer = &t->layers[l];
        bool behind = fault_is(t, "momentum-behind", 0); /* the weight, in one allocation */
        size_t padding = fault_is(t, "padded", 0) ? 4 : 0;
        layer->weight = device_floats(behind ? 2 * square : square + padding);
        layer->gradient = device_floats(square + padding);
        layer->momentum = behind ? layer->weight + square : device_floats(square);
        layer->output = device_floats(rows);
        layer->delta = device_floats(rows);
        hide<<<1, 1>>>(t->hidden_pointers, l, layer->gradient); /* addresses that are copied would be noticed */
    }
    t->side_stream = stream_create();
    t->event = event_create();
}

static void
annotate(struct trainer *t)
{
    int count = t->options.width * t->options.width;
    if (fault_is(t, "none", 0))
        return;
    int parameters = fault_is(t, "no-parameters", 0) ? 0 : t->options.layers - fault_is(t, "few-parameters", 0);
    int gradients = fault_is(t, "no-gradients", 0) ? 0 : t->options.layers - fault_is(t, "few-gradients", 0);
    int part_of_gradients = fault_is(t, "half-both", 0) ? 2 : 1;
    int part = fault_is(t, "half-parameters", 0) ? 2 : part_of_gradients;
    for (int l = 0; l < parameters; ++l)
        DDP_PARAMETER(t->layers[l].weight, count / part, DDP_FLOAT32);
    for (int l = 0; l < gradients; ++l)
        DDP_GRADIENT(t->layers[l].gradient, count / part_of_gradients, DDP_FLOAT32);
    faults_of_annotation(t);
}

static float
read_loss(struct trainer *t, size_t count)
{
    int width = t->options.width;
    size_t n = count * (size_t)width;
    float *host = (float *)malloc(2 * n * sizeof(float)), sum = 0.0f;
    CHECK(cudaMemcpy(host, t->layers[t->options.layers - 1].output, n * sizeof(float), cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(host + n, t->target, n * sizeof(float), cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < n; ++i)
        sum += 0.5f * (host[i] - host[n + i]) * (host[i] - host[n + i]);
    free(host);
    return sum / (float)count;
}

static void
forward_backward(struct trainer *t, size_t count)
{
    int width = t->options.width, layers = t->options.layers, n = width * (int)count, square = width * width;
    const float *input = t->input;
    for (int l = 0; l < layers; ++l) {
        dense_forward<<<blocks_for(n), THREADS>>>(t->layers[l].output, input, t->layers[l].weight, NULL, width, width,
                                                  (int)count);
        input = t->layers[l].output;
    }
    loss_delta<<<blocks_for(n), THREADS>>>(t->layers[layers - 1].delta, input, t->target, width, (int)count);

    cudaStream_t weights_on = t->options.streams == 2 ? t->side_stream : 0;
    for (int l = layers - 1; l >= 0; --l) {
        const float *in = l > 0 ? t->layers[l - 1].output : t->input;
        if (t->options.streams == 2)
            stream_follow(0, weights_on, t->event);
        weight_gradient<<<blocks_for(square), THREADS, 0, weights_on>>>(t->layers[l].gradient, t->layers[l].delta, in,
                                                                        width, width, (int)count, 1.0f,
                                                                        1.0f / (float)t->options.accumulate);
        if (l > 0)
            input_delta<<<blocks_for(n), THREADS>>>(t->layers[l - 1].delta, t->layers[l].weight, t->layers[l].delta,
                                                    t->layers[l - 1].output, width, width, (int)count);
    }
    /* The host reads the loss and loads the next batch after the default stream; the side stream must be done then. */
    if (t->options.streams == 2)
        stream_follow(weights_on, 0, t->event);
}

static void
train(struct trainer *t)
{
    size_t first, count;
    int square = t->options.width * t->options.width;
    DDP_SHARD(t->options.batch, &first, &count);
    if (fault_is(t, "same-batches", 0))
        first = 0;
    for (int step = 1; step <= t->options.steps; ++step) {
        if (fault_is(t, "fewer-steps", step))
            break;
        if (fault_is(t, "shared-anew", 0)) {
            DDP_SHARD(t->options.batch, &first, &count);
            first = 0;
        }
        for (int l = 0; l < t->options.layers; ++l) {
            if (t->options.carry > 0)
                scale_in_place<<<blocks_for(square), THREADS>>>(t->layers[l].gradient, square, t->options.carry);
            else
                CHECK(cudaMemset(t->layers[l].gradient, 0, (size_t)square * sizeof(float)));
        }
        int passes = t->options.accumulate - (t->options.fewer_from > 0 && step >= t->options.fewer_from);
        for (int pass = 0; pass < passes; ++pass) {
            load_batch(t, step, pass, first, count);
            forward_backward(t, count);
        }
        faults_before_step(t, step);
        bool steps = !fault_is(t, "none", 0) && !fault_is(t, "no-step", step);
        bool behind = fault_is(t, "step-behind", step);
        if (steps && !behind)
            DDP_STEP(0);
        for (int l = 0; l < t->options.layers; ++l)
            sgd<<<blocks_for(square), THREADS>>>(t->layers[l].weight, t->layers[l].momentum, t->layers[l].gradient,
                                                 square, t->options.rate);
        if (steps && behind)
            DDP_STEP(0);
        if (fault_is(t, "move-parameter-late", step))
            move_parameter(t, false);
        float loss = read_loss(t, count);
        if (fault_is(t, "late-leave", step)) /* before any check can have looked at the result of the late write */
            _exit(0);
        float *mean_of = &loss;
        if (fault_is(t, "mean-of-null", step))
            mean_of = NULL;
        if (fault_is(t, "mean-on-device", step))
            mean_of = t->layers[0].output;
        if (!fault_is(t, "none", 0) && !fault_is(t, "mean-on-one", step))
            DDP_MEAN(mean_of);
        if (DDP_RANK() == 0) {
            printf("step %d loss %.5f\n", step, (double)loss);
            fflush(stdout);
        }
    }
}

static void
save(struct trainer *t)
{
    std::vector<parameter> parameters;
    for (int l = 0; l < t->options.layers; ++l)
        save_add(&parameters, "w", l, t->layers[l].weight, (size_t)t->options.width * (size_t)t->options.width);
    save_write(t->options.save, DDP_RANK(), &parameters);
}

static void
destroy(struct trainer *t)
{
    for (int l = 0; l < t->options.layers; ++l) {
        CHECK(cudaFree(t->layers[l].weight));
        CHECK(cudaFree(t->layers[l].gradient));
        if (!fault_is(t, "momentum-behind", 0))
            CHECK(cudaFree(t->layers[l].momentum));
        CHECK(cudaFree(t->layers[l].output));
        CHECK(cudaFree(t->layers[l].delta));
    }
    CHECK(cudaFree(t->input));
    CHECK(cudaFree(t->target));
    CHECK(cudaFree(t->hidden_pointers));
    CHECK(cudaStreamDestroy(t->side_stream));
    CHECK(cudaEventDestroy(t->event));
}

/* A rank that is done does not return from main; another has more to do, as for a checkpoint: longer than a rank that
 * left in the middle of training would be missed. */
static void
leave_at_end(const struct trainer *t)
{
    if (t->options.fault == NULL || strcmp(t->options.fault, "leave") != 0)
        return;
    fflush(stdout);
    if (t->options.fault_rank == DDP_RANK())
        _exit(0);
    if (DDP_RANK() == (t->options.fault_rank == 0))
        usleep(1500000);
}

int
main(int argc, char **argv)
{
    static struct trainer t;
    struct options *o = &t.options;
    *o = (struct options){8, 48, 12, 1, 24, 1, 0, 1, 0, 0, NULL, NULL, 0, -1, 0.05f, 0, 0.0f};
    take_options(argc, argv, 1,
                 {OPTION(t.options, layers), OPTION(t.options, width), OPTION(t.options, batch),
                  OPTION(t.options, steps), OPTION(t.options, seed), OPTION(t.options, accumulate),
                  OPTION(t.options, fewer_from), OPTION(t.options, streams), OPTION(t.options, time),
                  OPTION(t.options, exit), OPTION(t.options, resident), OPTION(t.options, carry),
                  OPTION(t.options, rate), OPTION(t.options, save), OPTION(t.options, fault),
                  OPTION(t.options, fault_step), OPTION(t.options, fault_rank)});
    REQUIRE(o->layers <= LAYERS_AT_MOST);
    create(&t);
    initialise(&t);
    annotate(&t);
    if (fault_is(&t, "init-late", 0))
        initialise(&t);
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    train(&t);
    clock_gettime(CLOCK_MONOTONIC, &end);
    if (o->time && DDP_RANK() == 0)
        fprintf(stderr, "trained for %.6f s\n",
                (double)(end.tv_sec - begin.tv_sec) + 1e-9 * (double)(end.tv_nsec - begin.tv_nsec));
    if (o->save != NULL)
        save(&t);
    if (fault_is(&t, "reset", 0))
        CHECK(cudaDeviceReset());
    else
        destroy(&t);
    leave_at_end(&t);
    return o->exit;
}
