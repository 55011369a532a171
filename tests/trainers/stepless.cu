/*
 * stepless.cu - programs that train without a DDP_STEP, and programs that look alike and are right. `stepless MODE
 * [COUNT [END]]`: COUNT passes, or milliseconds of them with "accumulate"; END is "return", "leave" (_Exit), "loop" (no
 * end) or "wait" (for a signal, after "ready" on stdout).
 *
 *   train       backward and update; no DDP_STEP
 *   steps       the same with DDP_STEP
 *   accumulate  backward passes for COUNT ms, one DDP_STEP, an update
 *   evaluate    forward passes; gradients are annotated, and nothing works on them
 *   early       parameters are annotated, and then initialised; trains with DDP_STEP
 *   group       trains with two groups, of which only the second has a DDP_STEP
 *   parameters  "train", and no gradient is annotated
 *   twice       "steps" two times, with other tensors
 *   late        COUNT kernels, and "steps" with 8 passes after them
 *
 * Each pass prints a line, without a flush. Built with -DPLAIN it has no annotation at all; with -DCORE it is a library
 * whose function `run` is main(); with -DHOST it is a program without kernels that loads such a library by dlopen,
 * after it has called MPI_Init of the library $STEPLESS_MPI, if that is set.
 */
#ifdef HOST
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

int
main(int argc, char **argv)
{
    void *mpi = getenv("STEPLESS_MPI") != NULL ? dlopen(getenv("STEPLESS_MPI"), RTLD_NOW | RTLD_GLOBAL) : NULL;
    int (*mpi_init)(int *, char ***) = mpi != NULL ? (int (*)(int *, char ***))dlsym(mpi, "MPI_Init") : NULL;
    int (*mpi_end)(void) = mpi != NULL ? (int (*)(void))dlsym(mpi, "MPI_Finalize") : NULL;
    if (mpi_init != NULL)
        mpi_init(NULL, NULL);
    void *core = dlopen(argv[1], RTLD_NOW);
    int (*run)(int, char **) = core != NULL ? (int (*)(int, char **))dlsym(core, "run") : NULL;
    if (run == NULL) {
        fprintf(stderr, "stepless: %s\n", dlerror());
        return 1;
    }
    int code = run(argc - 1, argv + 1);
    if (mpi_end != NULL)
        mpi_end();
    return code;
}
#else
#include "../lib/elementwise.h"
#include "../lib/trainer.h"

#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#ifdef PLAIN
#define DDP_PARAMETER(...)
#define DDP_GRADIENT(...)
#define DDP_GRADIENT_GROUP(...)
#define DDP_STEP(...)
#define DDP_STEP_GROUP(...)
#define DDP_FORGET(...)
#else
#include <ddprun.h>
#endif

enum { TENSORS = 2, COUNT = 4096, THREADS = 64, BLOCKS = COUNT / THREADS };

static float *weights[TENSORS], *gradients[TENSORS], *output;
static const char *mode;

static bool
is_mode(const char *name)
{
    return strcmp(mode, name) == 0;
}

ELEMENTWISE_OF_ALL(fill, (float *values, float to), values[i] = to)
ELEMENTWISE_OF_ALL(forward, (const float *weight, float *out), out[i] = 2.0f * weight[i])
ELEMENTWISE_OF_ALL(backward, (float *gradient, const float *out, float rate), gradient[i] += rate * out[i])
ELEMENTWISE_OF_ALL(update, (float *weight, float *gradient), weight[i] -= 0.1f * gradient[i]; gradient[i] = 0.0f)

static void
initialise(void)
{
    for (int t = 0; t < TENSORS; ++t)
        fill<<<BLOCKS, THREADS>>>(weights[t], 1.0f + t);
}

static void
make_tensors(void)
{
    CHECK(cudaMalloc((void **)&output, COUNT * sizeof(float)));
    for (int t = 0; t < TENSORS; ++t) {
        CHECK(cudaMalloc((void **)&weights[t], COUNT * sizeof(float)));
        CHECK(cudaMalloc((void **)&gradients[t], COUNT * sizeof(float)));
        CHECK(cudaMemset(gradients[t], 0, COUNT * sizeof(float)));
    }
    if (!is_mode("early"))
        initialise();
    for (int t = 0; t < TENSORS; ++t) {
        DDP_GRADIENT_GROUP(is_mode("group") ? t : 0);
        DDP_PARAMETER(weights[t], COUNT, DDP_FLOAT32);
        if (!is_mode("parameters"))
            DDP_GRADIENT(gradients[t], COUNT, DDP_FLOAT32);
    }
    if (is_mode("early"))
        initialise();
}

static void
free_tensors(void)
{
    for (int t = 0; t < TENSORS; ++t) {
        DDP_FORGET(weights[t]);
        DDP_FORGET(gradients[t]);
        CHECK(cudaFree(weights[t]));
        CHECK(cudaFree(gradients[t]));
    }
    CHECK(cudaFree(output));
}

/* Ranks train on data of their own; but for what no DDP_STEP averages and would make their parameters differ. */
static float
own_rate(int tensor)
{
    const char *rank = is_mode("group") && tensor == 0 ? NULL : getenv("RANK");
    return 1e-3f * (1.0f + (rank != NULL ? (float)atoi(rank) : 0.0f));
}

static void
pass_forward_and_backward(void)
{
    for (int t = 0; t < TENSORS; ++t) {
        forward<<<BLOCKS, THREADS>>>(weights[t], output);
        if (!is_mode("evaluate"))
            backward<<<BLOCKS, THREADS>>>(gradients[t], output, own_rate(t));
    }
}

static void
step(void)
{
    if (is_mode("group"))
        DDP_STEP_GROUP(1, 0);
    else if (!is_mode("train") && !is_mode("parameters"))
        DDP_STEP(0);
}

static void
pass_update(void)
{
    for (int t = 0; t < TENSORS; ++t)
        update<<<BLOCKS, THREADS>>>(weights[t], gradients[t]);
}

static void
train(int passes)
{
    for (int i = 1; i <= passes; ++i) {
        pass_forward_and_backward();
        if (!is_mode("evaluate")) {
            step();
            pass_update();
        }
        CHECK(cudaDeviceSynchronize());
        printf("pass %d\n", i);
    }
}

static void
accumulate(int ms)
{
    struct timespec begin, now;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    do {
        pass_forward_and_backward();
        CHECK(cudaDeviceSynchronize());
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((now.tv_sec - begin.tv_sec) * 1000 + (now.tv_nsec - begin.tv_nsec) / 1000000 < ms);
    step();
    pass_update();
    CHECK(cudaDeviceSynchronize());
}

static void
end(const char *how)
{
    if (strcmp(how, "leave") == 0)
        _Exit(0);
    if (strcmp(how, "wait") != 0)
        return;
    puts("ready");
    fflush(stdout);
    for (;;)
        pause();
}

#ifdef CORE
extern "C" __attribute__((visibility("default"))) int
run(int argc, char **argv)
#else
int
main(int argc, char **argv)
#endif
{
    mode = argc > 1 ? argv[1] : "train";
    int count = argc > 2 ? atoi(argv[2]) : 1;
    const char *how = argc > 3 ? argv[3] : "return";
    if (is_mode("late")) {
        CHECK(cudaMalloc((void **)&output, COUNT * sizeof(float)));
        for (int i = 0; i < count; ++i)
            fill<<<1, THREADS>>>(output, 0.0f);
        CHECK(cudaDeviceSynchronize());
        CHECK(cudaFree(output));
        count = 8;
    }
    for (int i = 0; i < (is_mode("twice") ? 2 : 1); ++i) {
        make_tensors();
        if (is_mode("accumulate"))
            accumulate(count);
        else
            train(strcmp(how, "loop") == 0 ? 1 << 30 : count);
        if (is_mode("twice"))
            free_tensors();
    }
    end(how);
    return 0;
}
#endif
