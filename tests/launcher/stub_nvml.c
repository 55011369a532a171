/*
 * stub_nvml.c - plays libnvidia-ml.so.1 for run.sh: a machine with $STUB_GPUS GPUs.
 */
#include <stdlib.h>

int nvmlInit_v2(void);
int nvmlShutdown(void);
int nvmlDeviceGetCount_v2(unsigned *count);

#define EXPORT __attribute__((visibility("default")))

EXPORT int
nvmlInit_v2(void)
{
    return 0;
}

EXPORT int
nvmlShutdown(void)
{
    return 0;
}

EXPORT int
nvmlDeviceGetCount_v2(unsigned *count)
{
    const char *gpus = getenv("STUB_GPUS");
    *count = gpus != NULL ? (unsigned)atoi(gpus) : 0;
    return 0;
}
