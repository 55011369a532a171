/*
 * threads.c - NCCL's own calls of CUDA are not the trainer's.
 *
 * What NCCL calls itself need not come from its code: an NCCL that is linked with the shared runtime calls that, a
 * plug-in looks the runtime up by itself, and an NCCL that the program has used before has the pointers of hooks. So
 * threads are marked: the engine's while it is inside NCCL, and each that a marked thread starts, for its life. Hooks
 * of a marked thread only forward. (A thread that is inside another hook or the engine passes no mark on: a pool of
 * threads that it happens to start may do the trainer's work later.)
 *
 * The engine calls the first function (struct shim_services), everyone the second.
 */
#include "interpose/shim/shim.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

enum { DEPTH_IN_NCCL = 1 << 16 }; /* hooks nest less deep than that */

void
threads_inside_nccl(bool is_inside)
{
    shim_depth += is_inside ? DEPTH_IN_NCCL : -DEPTH_IN_NCCL;
}

struct start {
    void *(*function)(void *);
    void *argument;
};

static void *
run_marked(void *argument)
{
    struct start start = *(struct start *)argument;
    free(argument);
    shim_depth = DEPTH_IN_NCCL;
    return start.function(start.argument);
}

__attribute__((visibility("default"))) int
pthread_create(pthread_t *restrict thread, const pthread_attr_t *restrict attributes, void *(*function)(void *),
               void *restrict argument)
{
    __typeof__(&pthread_create) next = NEXT(pthread_create);
    if (next == NULL)
        return EAGAIN;
    if (shim_depth < DEPTH_IN_NCCL)
        return next(thread, attributes, function, argument);
    struct start *start = malloc(sizeof(*start));
    if (start == NULL)
        return EAGAIN;
    *start = (struct start){function, argument};
    int failed = next(thread, attributes, run_marked, start);
    if (failed != 0)
        free(start);
    return failed;
}
