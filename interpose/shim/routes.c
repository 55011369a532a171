/*
 * routes.c - the table of hooked functions, generated from hooks.def: where each really is.
 *
 * Called by the hooks, which jump through it, and by the gate, which fills it in.
 */
#include "interpose/shim/older.h"
#include "interpose/shim/shim.h"

#include <dlfcn.h>

void *
shim_loaded_driver(void)
{
    if (shim_real_dlsym(RTLD_NEXT, "cuInit") != NULL)
        return RTLD_NEXT;
    return dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD); /* never closed: hooks jump into it */
}

bool
shim_load_driver(void)
{
    return dlopen("libcuda.so.1", RTLD_LAZY) != NULL && shim_loaded_driver() != NULL;
}

/* The driver's own function behind shim_routes[index], which the program has not looked up: it was called through a
 * symbol of the shim. NULL if not found. */
static void *
find_real(unsigned index)
{
    struct route *route = &shim_routes[index];
    void *driver = shim_loaded_driver();
    void *found = driver != NULL ? shim_real_dlsym(driver, route->symbol) : NULL;
    if (found != NULL)
        atomic_store(&route->real, found);
    return found;
}

/* ---- what a hook jumps to until the driver's function is known ---- */

#define DEFINE_FIRST(fn, parameters, arguments)                                            \
    static CUresult fn##_first parameters                                                  \
    {                                                                                      \
        void *found = find_real(ROUTE_##fn);                                               \
        return found != NULL ? ((__typeof__(&(fn)))found)arguments : CUDA_ERROR_NOT_FOUND; \
    }

#define ONE(kind, symbol, name, version, parameters, arguments, ...) DEFINE_FIRST(symbol, parameters, arguments)
#define TWO(kind, symbol, twin, name, version, twin_version, parameters, arguments, ...) \
    extern __typeof__(symbol) symbol##twin;                                              \
    DEFINE_FIRST(symbol, parameters, arguments)                                          \
    DEFINE_FIRST(symbol##twin, parameters, arguments)
#include "interpose/shim/hooks.def"

/* ---- the routing table ---- */
enum {
    WAIT,
    WAIT_ALL,
    QUERY,
    EXIT,
    EXPORT,
    DEVICE,
    FREE_MEMORY,
    OPERATION,
    LAUNCH_PLAIN,
    LAUNCH_CONFIG,
    ALLOCATION,
    RELEASE,
    RELEASE_ASYNC,
    NOTIFICATION,
    NOTIFICATION_DEVICE,
    MODULE,
    GRAPH,
    GRAPH_STREAM,
    RECORDED
};
#define ROW(symbol_, name_, version_, flags_, only_waits_) \
    {.symbol = #symbol_,                                   \
     .name = name_,                                        \
     .version = version_,                                  \
     .flags = flags_,                                      \
     .hook = (void *)symbol_,                              \
     .first = (void *)symbol_##_first,                     \
     .real = (void *)symbol_##_first,                      \
     .only_waits = only_waits_},
#define ONE(kind, symbol, name, version, ...) ROW(symbol, name, version, 0, kind <= FREE_MEMORY)
#define TWO(kind, symbol, twin, name, version, twin_version, ...) \
    ROW(symbol, name, version, 0, kind <= FREE_MEMORY)            \
    ROW(symbol##twin, name, twin_version, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, kind <= FREE_MEMORY)
struct route shim_routes[] = {
#include "interpose/shim/hooks.def"
};
const unsigned shim_route_count = ROUTE_COUNT;
