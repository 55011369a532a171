/*
 * hook_table.h - hooks.def as the tests read it. Included by one file of each program.
 */
#ifndef DDPRUN_TESTS_INTERPOSE_HOOK_TABLE_H
#define DDPRUN_TESTS_INTERPOSE_HOOK_TABLE_H

#include "interpose/shim/older.h"

enum kind { /* the first three are work */
            KIND_OPERATION,
            KIND_LAUNCH_PLAIN,
            KIND_LAUNCH_CONFIG,
            KIND_ALLOCATION,
            KIND_RELEASE,
            KIND_RELEASE_ASYNC,
            KIND_NOTIFICATION,
            KIND_NOTIFICATION_DEVICE,
            KIND_DEVICE,
            KIND_MODULE,
            KIND_GRAPH,
            KIND_GRAPH_STREAM,
            KIND_WAIT,
            KIND_WAIT_ALL,
            KIND_QUERY,
            KIND_EXIT,
            KIND_EXPORT,
            KIND_FREE_MEMORY,
            KIND_RECORDED
};

struct hooked {
    enum kind kind;
    const char *symbol, *name;
    int version;
    cuuint64_t flags;
    const char *base; /* the symbol without the twin's ending */
};

#define ONE(kind, s, n, v, ...)           {KIND_##kind, #s, n, v, 0, #s},
#define TWO(kind, s, twin, n, v, tv, ...) {KIND_##kind, #s, n, v, 0, #s}, {KIND_##kind, #s #twin, n, tv, 2, #s},
static const struct hooked hook_table[] = {
#include "interpose/shim/hooks.def"
};
enum { HOOKS = sizeof(hook_table) / sizeof(hook_table[0]) };

#endif
