/*
 * kmeans_mistakes.h - for samples/kmeans/main.c as it is: included before its first line (-include). What DDP_REDUCE is
 * called with in the variable KMEANS_FORGOTTEN, "lloyd.counts" for instance, stays what the rank has.
 */
#ifndef TESTS_TOOLS_CHECK_KMEANS_MISTAKES_H
#define TESTS_TOOLS_CHECK_KMEANS_MISTAKES_H

#include <ddprun.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static inline bool
is_forgotten(const char *name)
{
    const char *forgotten = getenv("KMEANS_FORGOTTEN");
    return forgotten != NULL && strcmp(forgotten, name) == 0;
}

#undef DDP_REDUCE
#define DDP_REDUCE(ptr, count, type, op, stream)                                           \
    do {                                                                                   \
        if (!is_forgotten(#ptr))                                                           \
            DDP_CALL_(reduce, ptr, (void *)(ptr), (size_t)(count), (int)(type), (int)(op), \
                      ddp_stream((uintptr_t)(stream)));                                    \
    } while (0)

#endif
