/*
 * habits.cu - one training program with the odd habits that trainers have: which thread does what, when memory comes
 * and goes, what else the process does. Each is a mode; all of them must train right.
 *
 * As exact.h. For two or three ranks. Built by softgpu-cc and by nvcc.
 */
enum { LAYERS = 4, COUNT = 4096 };
#include "exact.h"

#include <cuda.h>
#include <pthread.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern "C" CUresult cuCtxCreate_v2(CUcontext *, unsigned, CUdevice); /* CUDA 13 has it, and does not declare it */

ELEMENTWISE_OF_ALL(add_rarely, (float *values, float summand), values[i] += summand)

__global__ void
take_slowly(float *values, float summand)
{
    float x = summand;
    for (int i = 0; i < 100000; ++i)
        x = x * 0.5f + 0.5f * summand;
    values[blockIdx.x * blockDim.x + threadIdx.x] += x;
}

static void
optimize(void)
{
    layers_update();
    expect_steps(1);
}

static void
train_plainly(void)
{
    for (int step = 0; step < steps; ++step) {
        layers_backward(0, stream);
        DDP_STEP(stream);
        optimize();
    }
    CHECK(cudaStreamSynchronize(stream));
}

static void
in_a_thread(void *(*body)(void *))
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, body, NULL));
    CHECK(pthread_join(thread, NULL));
}

/* ---- habits ---- */

/* All of it in a worker thread; main only waits, and has no context when the program ends. */
static void *
train_in_worker(void *unused)
{
    layers_create();
    layers_annotate();
    train_plainly();
    return unused;
}

/* A new thread for each backward pass, on its own default stream. */
static void *
backward_in_thread(void *unused)
{
    layers_backward(0, cudaStreamPerThread);
    CHECK(cudaStreamSynchronize(cudaStreamPerThread));
    return unused;
}

/* Two threads for each backward pass, at the same time, each on its own default stream and with half of the layers. */
static void *
backward_of_half(void *which)
{
    for (int l = LAYERS - 1; l >= 0; --l) {
        if ((l < LAYERS / 2) == (which == NULL))
            layer_backward(l, cudaStreamPerThread);
    }
    return which;
}

static void
backward_in_two_threads(void)
{
    pthread_t other;
    CHECK(pthread_create(&other, NULL, backward_of_half, weights));
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
MODE("lazy", train_lazily)
{
    for (int l = 0; l < LAYERS; ++l)
        CHECK(cudaFree(gradients[l]));
    for (int step = 0; step < steps; ++step) {
        for (int l = LAYERS - 1; l >= 0; --l) {
            CHECK(cudaMalloc(&gradients[l], BYTES));
            DDP_GRADIENT(gradients[l], COUNT, DDP_FLOAT32);
            CHECK(cudaMemsetAsync(gradients[l], 0, BYTES, stream));
            layer_backward(l, stream);
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
    annotate_parameters();
    for (int l = 0; l < LAYERS; ++l)
        take_slowly<<<BLOCKS, THREADS, 0, side>>>(gradients[l], mine());
    annotate_gradients();
    DDP_STEP(stream);
    optimize();
    train_plainly();
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
    CHECK(cuCtxGetCurrent(&mine_before));
    CHECK(cuCtxCreate_v2(&other, 0, 0));
    CHECK(cuCtxDestroy(other));
    CHECK(cuCtxSetCurrent(mine_before));
}

/* A context of the program's own, current from here on in place of the primary one, which it returns. */
static CUcontext
enter_foreign_context(void)
{
    CUcontext primary = NULL, foreign;
    CHECK(cuInit(0));
    CHECK(cuCtxGetCurrent(&primary));
    CHECK(cuCtxCreate_v2(&foreign, 0, 0));
    return primary;
}

/* Backward on a stream of another context than the gradients' own; DDP_STEP in the right one. */
static void
train_on_a_foreign_stream(void)
{
    CUcontext primary = enter_foreign_context();
    cudaStream_t foreign = stream_create();
    if (is_mode("foreign-stream"))
        CHECK(cuCtxSetCurrent(primary));
    if (is_mode("foreign-step-stream")) {
        (void)cuCtxSetCurrent(primary);
        layers_backward(0, stream);
        DDP_STEP(foreign);
    }
    if (!is_mode("foreign-step"))
        layers_backward(0, is_mode("foreign-default") ? 0 : foreign);
    DDP_STEP(0);
}

/* From the eighth step on a kernel touches a gradient whose bucket is launched; it writes nothing at first. */
MODE("rare-write", train_with_rare_write)
{
    for (int step = 0; step < steps; ++step) {
        layers_backward(0, stream);
        if (step >= 8)
            add_rarely<<<BLOCKS, THREADS, 0, stream>>>(gradients[LAYERS - 1], step < 10 ? 0.0f : mine());
        CHECK(cudaStreamSynchronize(stream));
        DDP_STEP(stream);
        optimize();
    }
}

/* One rank stops for ever in the middle of a backward pass, when some of its buckets are launched. */
MODE("hang", train_until_one_hangs)
{
    for (int step = 0; step < steps; ++step) {
        for (int l = LAYERS - 1; l >= 0; --l) {
            if (step == 8 && l == 0 && DDP_RANK() == 1)
                pause();
            layer_backward(l, stream);
        }
        DDP_STEP(stream);
        optimize();
        CHECK(cudaStreamSynchronize(stream));
    }
}

/* The third step, at whose end ranks ask each other about their plans, comes late on one rank. */
MODE("slow-rank", train_with_a_slow_rank)
{
    for (int step = 0; step < steps; ++step) {
        if (step == 2 && is_last_rank()) {
            struct timespec pause_of = {2, 0}; /* being late is the point */
            nanosleep(&pause_of, NULL);
        }
        layers_backward(0, stream);
        DDP_STEP(stream);
        optimize();
        CHECK(cudaStreamSynchronize(stream));
    }
}

static void
train_in_turns(void (*backward)(void))
{
    for (int i = 0; i < steps; ++i) {
        backward();
        in_a_thread(step_in_thread);
        optimize();
        CHECK(cudaStreamSynchronize(stream)); /* backward of the next step is on other streams */
    }
}

MODE("thread-per-backward", train_by_a_thread_each)
{
    train_in_turns([] { in_a_thread(backward_in_thread); });
}

MODE("two-threads", train_by_two_threads)
{
    train_in_turns(backward_in_two_threads);
}

MODE("step-in-thread", train_with_step_in_thread)
{
    train_in_turns([] { layers_backward(0, stream); });
}

/* ---- the end ---- */

static void
train(void)
{
    layers_create();
    if (is_mode("annotate-late")) {
        annotate_late();
        return;
    }
    layers_annotate();
    if (begins_with("foreign-"))
        train_on_a_foreign_stream();
    if (mode_of<void()>::given() != NULL)
        mode_of<void()>::given()();
    else
        train_plainly();
}

int
main(int argc, char **argv)
{
    take_mode(argc, argv, "plain");
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
    return weights_are_right(0) ? 0 : 1;
}
