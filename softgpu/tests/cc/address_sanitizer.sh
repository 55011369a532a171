#!/bin/bash
# address_sanitizer.sh SOFTGPU_CC - a program that is built with -fsanitize=address: each access of a kernel outside of an allocation, or to one
# that was freed, is reported with its source line: at the end of a page, too, in device, pinned and managed memory. Correct programs
# hear nothing, also where the same addresses are given out again (SOFTGPU_UNRULY).
softgpu_cc=$(realpath "$1")
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
export ASAN_OPTIONS=detect_leaks=0
cat >memory.cu <<'CU'
#include <cstdio>
#include <cstdlib>
#include <cstring>

__global__ void set(int *x, int first, int count)
{
    if (threadIdx.x < count)
        x[first + (int)threadIdx.x] = 1; // line 8
}

static int *take(const char *kind, int count)
{
    int *x = nullptr;
    if (strcmp(kind, "device") == 0)
        cudaMalloc(&x, count * sizeof(int));
    else if (strcmp(kind, "pool") == 0)
        cudaMallocAsync(&x, count * sizeof(int), 0);
    else if (strcmp(kind, "pinned") == 0)
        cudaMallocHost(&x, count * sizeof(int));
    else
        cudaMallocManaged(&x, count * sizeof(int));
    return x;
}

static void give(const char *kind, int *x)
{
    if (strcmp(kind, "pinned") == 0)
        cudaFreeHost(x);
    else
        cudaFree(x);
}

int main(int, char **arguments)
{
    const char *kind = arguments[1], *mistake = arguments[2];
    const int elements = atoi(arguments[3]);
    for (int i = 0; i < 3000; ++i) { // more than are kept closed
        const int count = 1 + i * 37 % 2000;
        int *x = take(kind, count);
        set<<<1, 1>>>(x, count - 1, 1);
        cudaDeviceSynchronize();
        give(kind, x);
        free(calloc(count, 64));
    }
    int *x = take(kind, elements);
    if (strcmp(mistake, "end") == 0)
        set<<<1, 1>>>(x, elements, 1);
    if (strcmp(mistake, "begin") == 0)
        set<<<1, 1>>>(x, -1, 1);
    if (strcmp(mistake, "freed") == 0) {
        give(kind, x);
        set<<<1, 1>>>(x, 0, 1);
    }
    std::printf("error %d\n", cudaDeviceSynchronize());
}
CU
run 0 "$softgpu_cc" -g -O1 -Xcompiler -fsanitize=address memory.cu -o memory

# reported ARGUMENT...: the program ends with AddressSanitizer's report, which names the line.
reported() {
    case_ "$*"
    run 1 ./memory "$@"
    says 'ERROR: AddressSanitizer: use-after-poison'
    says 'memory.cu:8'
}

for kind in device pool pinned managed; do
    case_ "$kind, no mistake"
    run 0 ./memory $kind none 1000
    prints 'error 0'
    run 0 env SOFTGPU_UNRULY=1:1 ./memory $kind none 1000
    prints 'error 0'
    for elements in 1000 1024; do
        reported $kind end $elements
        reported $kind begin $elements
    done
done
reported device freed 1000
reported device freed 1024
reported managed freed 1024
finish "$cases cases"
