/*
 * pointers.h - the pointers that an operation names, and what is annotated where they point: for those who look at what
 * an update writes (check/updaters.c, verify/forgotten_state.c).
 */
#ifndef DDPRUN_INTERPOSE_ENGINE_MEMORY_POINTERS_H
#define DDPRUN_INTERPOSE_ENGINE_MEMORY_POINTERS_H

#include "interpose/engine/memory/memory.h"

enum { POINTER_WORD_SHIFT = 16 }; /* of a word's place in a struct, beside its argument's */

/* A pointer that an operation was given. */
struct pointed {
    uint32_t argument;
    CUdeviceptr address;
    size_t bytes; /* 0: not known */
    bool is_read; /* by a library that never writes there */
};

typedef void (*pointed_fn)(void *arg, const struct pointed *pointed);

/* Where a launch has the argument of a parameter that `layout` knows, in kernelParams or in `extra`. NULL: nowhere. */
const void *pointers_argument(const struct operation *operation, const struct function_layout *layout, unsigned number);

/* Hands over every pointer that the operation names, but for operands that it only reads; or those, too. `layout` NULL:
 * a library's call. */
void pointers_visit(const struct operation *operation, const struct function_layout *layout, pointed_fn visit,
                    void *arg);
void pointers_visit_all(const struct operation *operation, const struct function_layout *layout, pointed_fn visit,
                        void *arg);

/* Whether it may update parameters: a launch whose arguments are known, with its layout, or a call of a library, not
 * captured. Copies and memsets bring data, they update nothing. */
bool pointers_may_update(const struct operation *operation, const struct function_layout **layout_p);

/* The annotated range that holds the address, or where the next one behind it begins in *next_p; takes the lock. */
bool pointers_annotated(CUdeviceptr address, struct tensor *tensor_p, CUdeviceptr *next_p);

#endif
