#ifndef ARENA_H
#define ARENA_H
#include <cuda_runtime.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

/* One big device allocation, bump-allocated. */
typedef struct {
    char *base;
    size_t used, size;
} Arena;

static inline void arena_init(Arena *a, size_t bytes)
{
    if (cudaMalloc((void **)&a->base, bytes) != cudaSuccess) {
        fprintf(stderr, "arena: out of memory\n");
        exit(EXIT_FAILURE);
    }
    cudaMemset(a->base, 0, bytes);
    a->used = 0;
    a->size = bytes;
}

static inline float *arena_floats(Arena *a, size_t n)
{
    size_t bytes = (n * sizeof(float) + 255) & ~(size_t)255;
    if (a->used + bytes > a->size) {
        fprintf(stderr, "arena: exhausted\n");
        exit(EXIT_FAILURE);
    }
    float *p = (float *)(a->base + a->used);
    a->used += bytes;
    return p;
}
#endif
