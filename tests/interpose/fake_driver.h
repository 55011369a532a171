/*
 * fake_driver.h - what the tests see of fake_driver.c, and how arguments are compared: as 64-bit words.
 */
#ifndef DDPRUN_TESTS_INTERPOSE_FAKE_DRIVER_H
#define DDPRUN_TESTS_INTERPOSE_FAKE_DRIVER_H

#include "tests/interpose/words.h"

#include <cuda.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct fake_driver {
    CUresult result; /* of every call */
    unsigned argument_count;
    uint64_t arguments[ARGUMENTS_AT_MOST]; /* of the last call */
    bool asks_back;                        /* it looks a function of its own up by dlsym, in every call: */
    void *own;                             /* what it found last */
    bool meets;                            /* calls wait for each other at: */
    pthread_barrier_t meeting;
};
extern struct fake_driver fake_driver;

/* How often the function that is exported as `symbol` was called. */
unsigned long fake_driver_calls(const char *symbol);

#endif
