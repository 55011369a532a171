/*
 * kernels.h - kernels for the tests of the stand-in's driver and runtime: hand-written images, as softgpu-cc would make
 * them.
 */
#ifndef TESTS_SOFTGPU_CUDA_KERNELS_H
#define TESTS_SOFTGPU_CUDA_KERNELS_H

#include "softgpu/image.h"

#include <cuda.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* add(float *values, float by, unsigned count): values[i] += by, one thread an element. */
extern const struct softgpu_image add_image;

/* gate(atomic_int *open): runs until *open is not 0; gives up after 20 s and notes that in gate_gave_up. */
extern const struct softgpu_image gate_image;
extern atomic_int gate_gave_up;

/* span(struct span *): notes when it begins and ends, on a clock that never repeats a value. */
struct span {
    atomic_ulong begin, end; /* 0: not yet */
};
extern const struct softgpu_image span_image;

/* mixed(char a, double b, struct { char text[24]; } c, short d, void *out): writes what it was given to *(struct mixed
 * *)out. */
struct mixed {
    char a;
    double b;
    char text[24];
    short d;
    uint64_t blocks_seen;
    unsigned grid[3], block[3];
    size_t dynamic_shared_bytes;
    bool aligned;
};
extern const struct softgpu_image mixed_image;

/* whole(atomic_int *calls): counts calls of its run function; SOFTGPU_IMAGE_WHOLE_GRID. */
extern const struct softgpu_image whole_image;

/* bounded(): __launch_bounds__(128), 1000 bytes of static shared memory. */
extern const struct softgpu_image bounded_image;

/* fail(): reports to the driver that it failed. */
extern const struct softgpu_image fail_image;

/* In a test: a call of the driver or the runtime that must succeed. */
#define OK(call) ck_assert_int_eq(call, 0)

/* Loads an image through the driver; ends the test if that fails. */
CUfunction load_function(const struct softgpu_image *image);

/* One launch of one block of one thread in a stream; ends the test if that fails. */
void launch_one(CUfunction function, CUstream stream, void *pointer);

/* One launch of add_image, a block for each element; ends the test if that fails. */
void launch_add(CUfunction add, CUstream stream, CUdeviceptr values, float by, unsigned count);

/* Makes the primary context of device 0 current. */
void use_device(void);

/* A stream of the current context; ends the test if there is none. */
CUstream new_stream(unsigned flags);

/* Memory that stays until it is freed or the process ends; ends the test if there is none. */
CUdeviceptr device_memory(size_t bytes);
CUdeviceptr managed_memory(size_t bytes);
void *pinned_memory(size_t bytes);

/* An event without a time. */
CUevent new_event(void);

/* Waits until *flag is not 0, at most 20 s; false if it stayed 0. */
bool wait_for(atomic_int *flag);

#endif
