/*
 * ddprun_lines.h - memory that the lines of `ddprun scout --patch` call by a number. C and C++.
 */
#ifndef DDPRUN_LINES_H
#define DDPRUN_LINES_H

#include <ddprun.h>

#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>

#define DDP_LINES_END(...) (fprintf(stderr, "ddprun_lines.h: " __VA_ARGS__), exit(1))

/*
 * Memory without a variable in reach of an annotation, in the order of its allocation: `#define cudaMalloc ddp_malloc`
 * stands before the function that allocates it. Managed memory is that of all streams, whatever flags the call has.
 */
enum { DDP_MADE_AT_MOST = 1024 };
struct ddp_made {
    void *memory;
    size_t bytes;
};
__attribute__((weak)) struct ddp_made ddp_made[DDP_MADE_AT_MOST];
__attribute__((weak)) unsigned ddp_made_count;

static inline cudaError_t
ddp_note(void *memory, size_t bytes, cudaError_t result)
{
    if (ddp_made_count++ < DDP_MADE_AT_MOST) {
        ddp_made[ddp_made_count - 1].memory = *(void **)memory;
        ddp_made[ddp_made_count - 1].bytes = bytes;
    }
    return result;
}

static inline cudaError_t
ddp_malloc(void *memory, size_t bytes)
{
    return ddp_note(memory, bytes, cudaMalloc((void **)memory, bytes));
}

static inline cudaError_t
ddp_malloc_managed(void *memory, size_t bytes, ...)
{
    return ddp_note(memory, bytes, cudaMallocManaged((void **)memory, bytes, cudaMemAttachGlobal));
}

/* Ends a program that has made more or fewer allocations than scout saw. */
static inline void
ddp_check_made(unsigned count)
{
    if (ddp_made_count != count)
        DDP_LINES_END(
            "ddp_malloc() was called %u times, and ddprun scout saw %u allocations: scout with these arguments, or see "
            "whether an allocation between '#define cudaMalloc ddp_malloc' and '#undef cudaMalloc' is by another "
            "call\n",
            ddp_made_count, count);
}

#endif
