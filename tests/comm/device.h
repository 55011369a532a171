/*
 * device.h - the stand-in's device with the kernels that jobs use, for tests of comm/kernels. What fails ends the test.
 */
#ifndef DDPRUN_TESTS_COMM_DEVICE_H
#define DDPRUN_TESTS_COMM_DEVICE_H

#include "comm/kernels.h"

#include <cuda.h>
#include <stddef.h>

/* As the engine fills it; after device_open(). */
extern struct driver driver;

void require(CUresult result);

/*
 * Opens device 0 and loads the kernels: those of the build, or of the file that the program's first argument names.
 * Returns device memory of `bytes`.
 */
CUdeviceptr device_open(struct kernels *kernels, size_t bytes);

void to_device(CUdeviceptr to, const void *from, size_t bytes);

/* Copies, and waits for all that the calling thread's stream has got before. */
void from_device(void *to, CUdeviceptr from, size_t bytes);

/* Random numbers and bytes, which follow from `seed`. */
extern unsigned seed;
size_t below(size_t limit);
void fill_random(unsigned char *bytes, size_t count);

#endif
