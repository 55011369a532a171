/*
 * hook_table.h - hooks.def as the tests read it. Included by one file of each program.
 */
#ifndef DDPRUN_TESTS_INTERPOSE_HOOK_TABLE_H
#define DDPRUN_TESTS_INTERPOSE_HOOK_TABLE_H

#include "interpose/shim/older.h"

enum kind {
    KIND_OPERATION,
    KIND_LAUNCH,
    KIND_ALLOCATION,
    KIND_RELEASE,
    KIND_NOTIFICATION,
    KIND_MODULE,
    KIND_GRAPH,
    KIND_WAIT,
    KIND_RECORDED
};

struct hooked {
    enum kind kind;
    const char *symbol, *name;
    int version;
    cuuint64_t flags;
    const char *base; /* the symbol without the twin's ending */
};

#define BOTH(kind, symbol, twin, name, version, twin_version) \
    {kind, #symbol, name, version, 0, #symbol}, {kind, #symbol #twin, name, twin_version, 2, #symbol},
#define OPERATION(s, twin, n, v, tv, ...)     BOTH(KIND_OPERATION, s, twin, n, v, tv)
#define LAUNCH(s, twin, shape, n, v, tv, ...) BOTH(KIND_LAUNCH, s, twin, n, v, tv)
#define ALLOCATION(s, twin, n, v, tv, ...)    BOTH(KIND_ALLOCATION, s, twin, n, v, tv)
#define RELEASE(s, twin, n, v, tv, ...)       BOTH(KIND_RELEASE, s, twin, n, v, tv)
#define ALLOCATION_SINGLE(s, n, v, ...)       {KIND_ALLOCATION, #s, n, v, 0, #s},
#define RELEASE_SINGLE(s, n, v, ...)          {KIND_RELEASE, #s, n, v, 0, #s},
#define NOTIFICATION(s, n, v, ...)            {KIND_NOTIFICATION, #s, n, v, 0, #s},
#define MODULE(s, n, v, ...)                  {KIND_MODULE, #s, n, v, 0, #s},
#define GRAPH(s, n, v, ...)                   {KIND_GRAPH, #s, n, v, 0, #s},
#define GRAPH_STREAM(s, twin, n, v, tv, ...)  BOTH(KIND_GRAPH, s, twin, n, v, tv)
#define WAIT(s, twin, n, v, tv, ...)          BOTH(KIND_WAIT, s, twin, n, v, tv)
#define WAIT_SINGLE(s, n, v, ...)             {KIND_WAIT, #s, n, v, 0, #s},
#define RECORDED(s, n, v, ...)                {KIND_RECORDED, #s, n, v, 0, #s},
static const struct hooked hook_table[] = {
#include "interpose/shim/hooks.def"
};
#include "interpose/shim/hooks_undef.h"
enum { HOOKS = sizeof(hook_table) / sizeof(hook_table[0]) };

#endif
