/*
 * device.cu - the calls of device.h for trainers that are linked in all shapes: compiled twice, with MATRIX_DRIVER for
 * those that call the driver.
 */
#define DEVICE_CALL
#include "device.h"

#ifdef MATRIX_DRIVER
extern const bool device_by_driver = true;
#else
extern const bool device_by_driver = false;

void
device_launch(const void *, unsigned, cudaStream_t, unsigned, void **, void *, size_t)
{
    fprintf(stderr, "device_launch: only for trainers that call the driver\n");
    exit(1);
}
#endif
