/*
 * trainer_save.h - the file of parameters that samples/compare reads, of tensors in device memory. For the trainers of
 * all tests; linked with samples/common/parameter_file.c.
 */
#ifndef DDPRUN_TESTS_TRAINER_SAVE_H
#define DDPRUN_TESTS_TRAINER_SAVE_H

extern "C" {
#include "common/parameter_file.h"
}

#include "trainer.h"

#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <vector>

/* One tensor more: letter and number are its name. It waits for the device. */
static inline void
save_add(std::vector<parameter> *to, const char *letter, int number, const float *values, size_t count)
{
    struct parameter one;
    snprintf(one.name, sizeof(one.name), "%s%d", letter, number);
    one.count = count;
    one.values = (float *)malloc(count * sizeof(float));
    REQUIRE(one.values != NULL);
    CHECK(cudaMemcpy(one.values, values, count * sizeof(float), cudaMemcpyDeviceToHost));
    to->push_back(one);
}

/* Writes the file, whose "%d" becomes the rank, and frees what save_add() has taken. */
static inline void
save_write(const char *path, int rank, std::vector<parameter> *tensors)
{
    CHECK(parameter_file_write(path, rank, tensors->data(), tensors->size()));
    for (struct parameter &one : *tensors)
        free(one.values);
    tensors->clear();
}

#endif
