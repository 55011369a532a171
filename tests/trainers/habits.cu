/*
 * habits.cu - one training program with the odd habits that trainers have: which thread does what, when memory comes
 * and goes, what else the process does. Each is a mode; all of them must train right.
 *
 * Four layers of one gradient each; rank r adds 1 + r to every element of each gradient in each step, so that the mean
 * of two ranks is 1.5, and an update takes a half of it from the weight: everything is exact in float32. Exit code 0
 * only if every weight is what it has to be at the end. For two or three ranks. Built by softgpu-cc and by nvcc.
 */
#include "common.h"
#include "kernels.h"

#include <cuda.h>
#include <cuda_runtime.h>
#include <ddprun.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LAYERS = 4, COUNT = 4096, THREADS = 64, BLOCKS = COUNT / THREADS, BYTES = COUNT * 4 };

static float *weights[LAYERS], *gradients[LAYERS];
static cudaStream_t stream;
static int steps = 12, steps_made;

__global__ void
add_rarely(float *values, float summand)
{
    values[blockIdx.x * blockDim.x + threadIdx.x] += summand;
}

__global__ void
take_slowly(float *values, float summand)
{
    float x = summand;
    for (int i = 0; i < 100000; ++i)
        x = x * 0.5f + 0.5f * summand;
    values[blockIdx.x * blockDim.x + threadIdx.x] += x;
}

/* The mean over ranks of 1 + rank. */
static float
mean_of_all(void)
{
    return 0.5f * (float)(1 + DDP_WORLD_SIZE());
}

static void
allocate(void)
{
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (int l = 0; l < LAYERS; ++l) {
        CHECK(cudaMalloc(&weights[l], BYTES));
        CHECK(cudaMalloc(&gradients[l], BYTES));
        CHECK(cudaMemset(weights[l], 0, BYTES));
        CHECK(cudaMemset(gradients[l], 0, BYTES));
    }
    CHECK(cudaDeviceSynchronize());
}

static void
annotate(void)
{
    for (int l = 0; l < LAYERS; ++l)
        DDP_PARAMETER(weights[l], COUNT, DDP_FLOAT32);
    for (int l = 0; l < LAYERS; ++l)
        DDP_GRADIENT(gradients[l], COUNT, DDP_FLOAT32);
}

static void
backward(cudaStream_t on)
{
    for (int l = LAYERS - 1; l >= 0; --l)
        add<<<BLOCKS, THREADS, 0, on>>>(gradients[l], mine());
}

static void
optimize(void)
{
    for (int l = 0; l < LAYERS; ++l) {
        update<<<BLOCKS, THREADS, 0, stream>>>(weights[l], gradients[l]);
        CHECK(cudaMemsetAsync(gradients[l], 0, BYTES, stream));
    }
    ++steps_made;
}

static void
train_plainly(void)
{
    for (int step = 0; step < steps; ++step) {
        backward(stream);
        DDP_STEP(stream);
        optimize();
    }
    CHECK(cudaStreamSynchronize(stream));
}

static void
in_a_thread(void *(*body)(void *))
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, body, NULL) != 0 || pthread_join(thread, NULL) != 0)
        exit(1);
}

/* ---- habits ---- */

/* All of it in a worker thread; main only waits, and has no context when the program ends. */
static void *
train_in_worker(void *unused)
{
    allocate();
    annotate();
    train_plainly();
    return unused;
}

/* A new thread for each backward pass, on its own default stream. */
static void *
backward_in_thread(void *unused)
{
    backward(cudaStreamPerThread);
    CHECK(cudaStreamSynchronize(cudaStreamPerThread));
    return unused;
}

/* Two threads for each backward pass, at the same time, each on its own default stream and with half of the layers. */
static void *
backward_of_half(void *which)
{
    for (int l = LAYERS - 1; l >= 0; --l) {
        if ((l < LAYERS / 2) == (which == NULL))
            add<<<BLOCKS, THREADS, 0, cudaStreamPerThread>>>(gradients[l], mine());
    }
    return which;
}

static void
backward_in_two_threads(void)
{
    pthread_t other;
    if (pthread_create(&other, NULL, backward_of_half, weights) != 0)
        exit(1);
    (void)backward_of_half(NULL);
    pthread_join(other, NULL);
}

static void *
step_in_thread(void *unused)
{
    DDP_STEP(stream);
    return unused;
}

/* Each gradient is allocated when backward needs it, and freed after the update. */
static void
train_lazily(void)
{
    for (int l = 0; l < LAYERS; ++l)
        CHECK(cudaFree(gradients[l]));
    for (int step = 0; step < steps; ++step) {
        for (int l = LAYERS - 1; l >= 0; --l) {
            CHECK(cudaMalloc(&gradients[l], BYTES));
            DDP_GRADIENT(gradients[l], COUNT, DDP_FLOAT32);
            CHECK(cudaMemsetAsync(gradients[l], 0, BYTES, stream));
            add<<<BLOCKS, THREADS, 0, stream>>>(gradients[l], mine());
        }
        DDP_STEP(stream);
        optimize();
        CHECK(cudaStreamSynchronize(stream));
        for (int l = 0; l < LAYERS; ++l)
            CHECK(cudaFree(gradients[l]));
    }
}

/* Gradients are annotated when backward of the first step is on its way already, on a stream that DDP_STEP does not
 * name. */
static void
annotate_late(void)
{
    cudaStream_t other;
    CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    for (int l = 0; l < LAYERS; ++l)
        DDP_PARAMETER(weights[l], COUNT, DDP_FLOAT32);
    for (int l = 0; l < LAYERS; ++l)
        take_slowly<<<BLOCKS, THREADS, 0, other>>>(gradients[l], mine());
    for (int l = 0; l < LAYERS; ++l)
        DDP_GRADIENT(gradients[l], COUNT, DDP_FLOAT32);
    DDP_STEP(stream);
    optimize();
    train_plainly();
    CHECK(cudaStreamDestroy(other));
}

/* A data loader: a forked child that asks where it is, as user code does, and ends by exit(). */
static void
fork_loader(void)
{
    int rank = DDP_RANK(), status = -1;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        size_t first, count;
        DDP_SHARD(100, &first, &count);
        exit(DDP_RANK() == rank && count >= 33 ? 0 : 1);
    }
    if (waitpid(child, &status, 0) != child || status != 0) {
        fprintf(stderr, "habits: the child of rank %d does not know where it is\n", rank);
        exit(1);
    }
}

static void
use_another_context(void)
{
    CUcontext mine_before, other;
    if (cuCtxGetCurrent(&mine_before) != CUDA_SUCCESS || cuCtxCreate(&other, NULL, 0, 0) != CUDA_SUCCESS ||
        cuCtxDestroy(other) != CUDA_SUCCESS || cuCtxSetCurrent(mine_before) != CUDA_SUCCESS) {
        fprintf(stderr, "habits: cannot make and destroy a context\n");
        exit(1);
    }
}

/* A context of the program's own, current from here on in place of the primary one, which it returns. */
static CUcontext
enter_foreign_context(void)
{
    CUcontext primary = NULL, foreign;
    if (cuInit(0) != CUDA_SUCCESS || cuCtxGetCurrent(&primary) != CUDA_SUCCESS ||
        cuCtxCreate(&foreign, NULL, 0, 0) != CUDA_SUCCESS) {
        fprintf(stderr, "habits: cannot make a context\n");
        exit(1);
    }
    return primary;
}

/* Backward on a stream of another context than the gradients' own; DDP_STEP in the right one. */
static void
train_on_a_foreign_stream(void)
{
    cudaStream_t foreign;
    CUcontext primary = enter_foreign_context();
    CHECK(cudaStreamCreateWithFlags(&foreign, cudaStreamNonBlocking));
    if (is_mode("foreign-stream") && cuCtxSetCurrent(primary) != CUDA_SUCCESS)
        exit(1);
    if (is_mode("foreign-step-stream")) {
        (void)cuCtxSetCurrent(primary);
        backward(stream);
        DDP_STEP(foreign);
    }
    if (!is_mode("foreign-step"))
        backward(is_mode("foreign-default") ? 0 : foreign);
    DDP_STEP(0);
}

/* From the eighth step on a kernel touches a gradient whose bucket is launched; it writes nothing at first. */
static void
train_with_rare_write(void)
{
    for (int step = 0; step < steps; ++step) {
        backward(stream);
        if (step >= 8)
            add_rarely<<<BLOCKS, THREADS, 0, stream>>>(gradients[LAYERS - 1], step < 10 ? 0.0f : mine());
        CHECK(cudaStreamSynchronize(stream));
        DDP_STEP(stream);
        optimize();
    }
}

/* One rank stops for ever in the middle of a backward pass, when some of its buckets are launched. */
static void
train_until_one_hangs(void)
{
    for (int step = 0; step < steps; ++step) {
        for (int l = LAYERS - 1; l >= 0; --l) {
            if (step == 8 && l == 0 && DDP_RANK() == 1)
                pause();
            add<<<BLOCKS, THREADS, 0, stream>>>(gradients[l], mine());
        }
        DDP_STEP(stream);
        optimize();
        CHECK(cudaStreamSynchronize(stream));
    }
}

/* The third step, at whose end ranks ask each other about their plans, comes late on one rank. */
static void
train_with_a_slow_rank(void)
{
    for (int step = 0; step < steps; ++step) {
        if (step == 2 && DDP_RANK() == DDP_WORLD_SIZE() - 1) {
            struct timespec pause_of = {2, 0}; /* being late is the point */
            nanosleep(&pause_of, NULL);
        }
        backward(stream);
        DDP_STEP(stream);
        optimize();
        CHECK(cudaStreamSynchronize(stream));
    }
}

static void
train_in_turns(void (*before_step)(void), void *(*step)(void *))
{
    for (int i = 0; i < steps; ++i) {
        before_step();
        in_a_thread(step);
        optimize();
        CHECK(cudaStreamSynchronize(stream)); /* backward of the next step is on other streams */
    }
}

static void
backward_here(void)
{
    backward(stream);
}

static void
backward_elsewhere(void)
{
    in_a_thread(backward_in_thread);
}

/* ---- the end ---- */

static int
weights_are_right(void)
{
    float *host = (float *)malloc(BYTES), expected = -0.5f * mean_of_all() * (float)steps_made;
    int right = 1;
    for (int l = 0; l < LAYERS && right; ++l) {
        CHECK(cudaMemcpy(host, weights[l], BYTES, cudaMemcpyDeviceToHost));
        for (int i = 0; i < COUNT && right; ++i)
            right = host[i] == expected;
        if (!right)
            fprintf(stderr, "habits: a weight of layer %d is not %g after %d steps\n", l, (double)expected, steps_made);
    }
    free(host);
    return right;
}

static void
train(void)
{
    allocate();
    if (is_mode("annotate-late")) {
        annotate_late();
        return;
    }
    annotate();
    if (strncmp(mode, "foreign-", 8) == 0)
        train_on_a_foreign_stream();
    if (is_mode("thread-per-backward"))
        train_in_turns(backward_elsewhere, step_in_thread);
    else if (is_mode("two-threads"))
        train_in_turns(backward_in_two_threads, step_in_thread);
    else if (is_mode("step-in-thread"))
        train_in_turns(backward_here, step_in_thread);
    else if (is_mode("lazy"))
        train_lazily();
    else if (is_mode("rare-write"))
        train_with_rare_write();
    else if (is_mode("hang"))
        train_until_one_hangs();
    else if (is_mode("slow-rank"))
        train_with_a_slow_rank();
    else
        train_plainly();
}

int
main(int argc, char **argv)
{
    mode = argc > 1 ? argv[1] : "plain";
    if (argc > 2)
        steps = atoi(argv[2]);
    if (is_mode("usage")) { /* libcuda is loaded, and the program does not use it */
        printf("rank %d: usage: habits HABIT\n", DDP_RANK());
        return 0;
    }
    if (is_mode("mean-first")) {
        float *on_device;
        CHECK(cudaMalloc(&on_device, BYTES));
        DDP_MEAN(on_device);
    }
    if (is_mode("own-context"))
        (void)enter_foreign_context();
    if (is_mode("worker"))
        in_a_thread(train_in_worker);
    else
        train();
    if (is_mode("loader"))
        fork_loader();
    if (is_mode("another-context")) {
        use_another_context();
        train_plainly();
    }
    return weights_are_right() ? 0 : 1;
}
