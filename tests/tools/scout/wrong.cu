/*
 * wrong.cu HABIT - programs that cannot be scouted: `traps` and `hangs` do so when an input is not what it was, `once`
 * does not repeat itself, `same` trains nothing.
 */
#include "tests/lib/trainer.h"

#include <cstring>

enum { COUNT = 64 };

extern "C" __global__ void
wrong_step(float *y, const float *x, int mode)
{
    int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (mode == 1 && x[i] != 1.0f) {
        volatile int *nowhere = (volatile int *)8;
        *nowhere = 1;
    }
    while (mode == 2 && *(volatile const float *)&x[i] != 1.0f) {
    }
    y[i] += x[i];
}

int
main(int argc, char **argv)
{
    const char *habit = argc > 1 ? argv[1] : "";
    int mode = strcmp(habit, "traps") == 0 ? 1 : strcmp(habit, "hangs") == 0 ? 2 : 0;
    int steps = strcmp(habit, "once") == 0 ? 1 : 40;
    float ones[COUNT], *x, *y, *z;
    for (int i = 0; i < COUNT; ++i)
        ones[i] = 1.0f;
    for (float **to : {&x, &y, &z}) {
        CHECK(cudaMalloc(to, sizeof(ones)));
        CHECK(cudaMemcpy(*to, ones, sizeof(ones), cudaMemcpyHostToDevice));
    }
    for (int step = 0; step < steps; ++step) {
        wrong_step<<<1, COUNT>>>(y, x, mode);
        wrong_step<<<1, COUNT>>>(z, x, mode);
    }
    CHECK(cudaDeviceSynchronize());
    return 0;
}
