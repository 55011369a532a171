/*
 * walk.c - the walk of one operation through the engine: which functions are entered, in their order. Part of the
 * engine of mutants.sh, whose functions all report here (-finstrument-functions).
 *
 * With DDPRUN_TEST_WALK=FILE the file has the walk of the last call of a library that has sent a bucket: a line for
 * each function, its address in the library. walk.sh reads it.
 */
#include "interpose/engine/memory/memory.h"
#include "interpose/engine/send/send.h"
#include "interpose/engine/step/step.h"

#include <dlfcn.h>

#define SILENT __attribute__((no_instrument_function))

enum { CALLS_AT_MOST = 4096 };

static __thread struct {
    void *calls[CALLS_AT_MOST];
    size_t count, begun; /* calls, of the hook's `begin` and of what came since */
    size_t depth;
} walk;

void __cyg_profile_func_enter(void *function, void *caller) SILENT;
void __cyg_profile_func_exit(void *function, void *caller) SILENT;

static bool SILENT
has(const void *function, size_t from)
{
    bool found = false;
    for (size_t i = from; i < walk.count; ++i)
        found = found || walk.calls[i] == function;
    return found;
}

static void SILENT
save(const char *path)
{
    Dl_info engine;
    FILE *file = dladdr((void *)launch_bucket, &engine) != 0 ? fopen(path, "w") : NULL;
    for (size_t i = 0; file != NULL && i < walk.count; ++i)
        fprintf(file, "%#zx\n", (size_t)((const char *)walk.calls[i] - (const char *)engine.dli_fbase));
    if (file != NULL)
        fclose(file);
}

void
__cyg_profile_func_enter(void *function, void *caller)
{
    (void)caller;
    if (walk.depth++ == 0)
        walk.count = walk.begun; /* what came since `begin` is no part of the operation, or its end */
    if (walk.count < CALLS_AT_MOST)
        walk.calls[walk.count++] = function;
}

void
__cyg_profile_func_exit(void *function, void *caller)
{
    const char *path;
    (void)function, (void)caller;
    if (--walk.depth > 0)
        return;
    if (has((void *)touches_begin, walk.begun)) {
        memmove(walk.calls, walk.calls + walk.begun, (walk.count - walk.begun) * sizeof(walk.calls[0]));
        walk.begun = walk.count -= walk.begun;
    } else if (has((void *)touches_end, walk.begun)) {
        if (has((void *)launch_bucket, walk.begun) && !has((void *)function_layout, 0) &&
            (path = getenv("DDPRUN_TEST_WALK")) != NULL)
            save(path);
        walk.begun = 0;
    }
}
