/*
 * device.h - device memory for the tests of the stand-in's libraries, by the driver API: what is not expected to fail
 * ends the test if it does.
 */
#ifndef TESTS_SOFTGPU_CUBLAS_DEVICE_H
#define TESTS_SOFTGPU_CUBLAS_DEVICE_H

#include "tests/lib/test.h"

#include <cuda.h>
#include <stdatomic.h>

/* Makes the primary context of device 0 current. */
void device_start(void);

/* Device memory holding a copy of `bytes` at `source` (NULL: undefined contents), which all streams see. */
void *device_copy_of(const void *source, size_t bytes);

/* Waits for all streams, then copies back. */
void device_read(void *destination, const void *device, size_t bytes);

void device_free(void *device);

/*
 * A test for _i from 0 up to, without, `count`: for all of them, or with TEST_PART=k/n in the environment for the k-th
 * of n parts, at least one. So ../modes.sh goes through all of them once while it goes through n modes.
 */
#define PART_TEST(test, count) LOOP_TEST(test, device_part_begin(count, 0), device_part_begin(count, 1))
int device_part_begin(int count, int after);

/* What is put into the stream from here on waits until *gate is true. */
void device_hold(CUstream stream, _Atomic bool *gate);

#endif
