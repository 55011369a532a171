/*
 * recipe_training.h - the training that the program of docs/recipes.md, "Stop at the same step", leaves to its reader.
 * Compiled in front of that program (tests/end_to_end/stops.sh).
 */
#ifndef TESTS_TRAINERS_RECIPE_TRAINING_H
#define TESTS_TRAINERS_RECIPE_TRAINING_H

#include "../lib/trainer.h"

#include <cuda_runtime_api.h>
#include <ddprun.h>
#include <unistd.h>

enum { STEPS = 1 << 20, COUNT = 64 };

static void *weights, *gradients;
static float host[COUNT];

static int
prepare(const char *path)
{
    int step = 0;
    FILE *file = fopen(path, "r");
    if (file != NULL) {
        REQUIRE(fscanf(file, "%d", &step) == 1);
        fclose(file);
    }
    CHECK(cudaMalloc(&weights, sizeof(host)));
    CHECK(cudaMalloc(&gradients, sizeof(host)));
    CHECK(cudaMemset(weights, 0, sizeof(host)));
    DDP_PARAMETER(weights, COUNT, DDP_FLOAT32);
    DDP_GRADIENT(gradients, COUNT, DDP_FLOAT32);
    return step;
}

static int last_step;

static void __attribute__((destructor)) say(void)
{
    printf("rank %d leaves after step %d\n", DDP_RANK(), last_step);
}

static void
train(int step)
{
    for (int i = 0; i < COUNT; ++i)
        host[i] = (float)(step % 7 + 2 * DDP_RANK());
    CHECK(cudaMemcpy(gradients, host, sizeof(host), cudaMemcpyHostToDevice));
    DDP_STEP(0);
    CHECK(cudaMemcpy(host, gradients, sizeof(host), cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(weights, host, sizeof(host), cudaMemcpyHostToDevice));
    last_step = step + 1;
    printf("step %d\n", last_step);
    usleep(1000);
}

static int
write_checkpoint(const char *path, int step)
{
    FILE *file = fopen(path, "w");
    REQUIRE(file != NULL);
    fprintf(file, "%d\n", step);
    return fclose(file);
}

#endif
