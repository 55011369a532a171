/*
 * fake_cublas.h - what the test's own cuBLAS (fake_cublas.c) records about the last call. There are two copies of the
 * library, as in a process that has loaded two versions.
 */
#ifndef TESTS_INTERPOSE_LIBRARIES_FAKE_CUBLAS_H
#define TESTS_INTERPOSE_LIBRARIES_FAKE_CUBLAS_H

#include "tests/interpose/words.h"

#include <cublas_api.h>
#include <stdbool.h>

struct fake_cublas {
    unsigned long calls;
    const char *symbol; /* of the last call */
    uint64_t seen[ARGUMENTS_AT_MOST];
    unsigned seen_count;
    cublasStatus_t answer; /* what every call returns */
    cudaStream_t stream;   /* every handle's */
    bool has_no_stream;    /* cublasGetStream fails */
};
extern struct fake_cublas fake_cublas_first, fake_cublas_second;

#endif
