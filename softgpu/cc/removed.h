/*
 * removed.h - calls of the runtime that CUDA 13 no longer has, for removed.c, and for the driver, which gives them to C
 * and C++ sources as macros.
 */
#ifndef SOFTGPU_CC_REMOVED_H
#define SOFTGPU_CC_REMOVED_H

struct removed_call {
    const char *name, *replacement; /* of the same parameters */
};

/* Ends with NULLs. */
extern const struct removed_call removed_calls[];

#endif
