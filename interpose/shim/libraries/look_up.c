/*
 * look_up.c - which hook is behind the name of a library's function, for the gate.
 *
 * A pointer from dlsym means the library that it was looked up in, so that each look-up gets a thunk, which leaves the
 * real function in a thread-local variable for the hook.
 */
#include "interpose/shim/libraries/library.h"

#include <string.h>

static struct library *const libraries[] = {&library_cublas, &library_cublas_legacy, &library_cublaslt, &library_cudnn};
enum { LIBRARIES = sizeof(libraries) / sizeof(libraries[0]) };

struct thunk {
    void *real, *hook;
};
extern const char library_thunks[] __attribute__((visibility("hidden")));
__attribute__((visibility("hidden"))) struct thunk library_thunk_table[LIBRARY_THUNKS];
static _Atomic unsigned thunk_count;

/* The thunk for `real`, the same one each time; `real` itself when there are no more: its kernels are seen instead. */
static void *
thunk_for(void *real, void *hook)
{
    unsigned count = atomic_load(&thunk_count);
    for (unsigned i = 0; i < count && i < LIBRARY_THUNKS; ++i) {
        if (library_thunk_table[i].real == real && library_thunk_table[i].hook == hook)
            return (void *)(library_thunks + (size_t)i * LIBRARY_THUNK_BYTES);
    }
    unsigned at = atomic_fetch_add(&thunk_count, 1);
    if (at >= LIBRARY_THUNKS) {
        atomic_store(&thunk_count, LIBRARY_THUNKS);
        return real;
    }
    library_thunk_table[at] = (struct thunk){real, hook};
    return (void *)(library_thunks + (size_t)at * LIBRARY_THUNK_BYTES);
}

void *
library_route(const char *name, void *real)
{
    if (strncmp(name, "cublas", 6) != 0 && strncmp(name, "cudnn", 5) != 0)
        return NULL;
    for (unsigned i = 0; i < LIBRARIES; ++i) {
        for (unsigned j = 0; j < libraries[i]->function_count; ++j) {
            const struct library_function *function = &libraries[i]->functions[j];
            if (strcmp(function->name, name) == 0)
                return real == NULL || real == function->hook ? function->hook : thunk_for(real, function->hook);
        }
    }
    return NULL;
}
