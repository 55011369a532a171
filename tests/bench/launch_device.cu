/*
 * launch_device.cu - how long the first use of a device takes: prints milliseconds. For launch.py, which starts it
 * by itself: what a device's start costs is no matter of ddprun's, but a user waits for both.
 */
#include <cstdio>
#include <cuda_runtime.h>
#include <time.h>

int
main()
{
    struct timespec begin, end;
    float *memory = nullptr;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    if (cudaMalloc(&memory, sizeof(float)) != cudaSuccess)
        return 1;
    clock_gettime(CLOCK_MONOTONIC, &end);
    printf("%.3f\n", 1e3 * (double)(end.tv_sec - begin.tv_sec) + 1e-6 * (double)(end.tv_nsec - begin.tv_nsec));
    return 0;
}
