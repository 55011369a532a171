/*
 * fake_cudnn.h - what the test's own cuDNN (fake_cudnn.c) records about the last call, and what its descriptors are.
 */
#ifndef TESTS_INTERPOSE_LIBRARIES_FAKE_CUDNN_H
#define TESTS_INTERPOSE_LIBRARIES_FAKE_CUDNN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FAKE_CUDNN_ARGUMENTS = 34 };

struct fake_cudnn {
    unsigned long calls;
    const char *symbol;   /* of the last call */
    uint64_t first, last; /* of its arguments */
    int answer;           /* what every call returns */
    void *stream;         /* every handle's */
    bool has_no_attributes;
};
extern struct fake_cudnn fake_cudnn;

/* Behind every descriptor of a tensor, a filter, a variant pack or a plan. */
struct fake_descriptor {
    size_t bytes;
    void *pointers[40];
    int64_t pointer_count;
    void *workspace;
    int64_t workspace_bytes;
};

#endif
