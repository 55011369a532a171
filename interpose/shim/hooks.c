/*
 * hooks.c - the hooks of the driver, generated from hooks.def, where they are more than a jump.
 *
 * Each hook begins in hooks_<machine>.S with the question whether it is only a jump. Else it comes here, to NAME_told:
 * tell the engine what the call is about to touch, make the call, tell the engine that it is enqueued. The driver's
 * answer is returned unchanged. tests/bench/hooks.py limits what a hook adds.
 */
#include "interpose/shim/devices.h"
#include "interpose/shim/layout.h"
#include "interpose/shim/older.h"
#include "interpose/shim/operands.h"
#include "interpose/shim/shim.h"

#include <stdlib.h>
#include <string.h>

static void
note_allocation(void)
{
    if (atomic_load_explicit(&shim.mode, memory_order_relaxed) == SHIM_UNDECIDED && shim_depth == 0)
        (void)shim_become_rank(NULL);
}

#define HIDDEN __attribute__((visibility("hidden")))

/* For reports: threads may overwrite each other's. */
static inline void
shim_note_launch(CUfunction function)
{
    __atomic_store_n(&shim_launches.count, __atomic_load_n(&shim_launches.count, __ATOMIC_RELAXED) + 1,
                     __ATOMIC_RELAXED);
    __atomic_store_n(&shim_launches.last, function, __ATOMIC_RELAXED);
}

/* The assembly's question where its own quick look finds no answer. */
HIDDEN bool hooks_launch_misses(CUfunction function, void *const *params);

HIDDEN bool
hooks_launch_misses(CUfunction function, void *const *params)
{
    if (!filter_launch_misses(&shim_filter, function, params))
        return false;
    shim_note_launch(function);
    return true;
}

_Static_assert(SHIM_PASSIVE == MODE_PASSIVE && SHIM_ALONE == MODE_ALONE && SHIM_UNDECIDED == MODE_UNDECIDED &&
                   SHIM_RANK > SHIM_UNDECIDED && offsetof(struct shim, mode) == 0,
               "layout.h");
_Static_assert(offsetof(struct shim_launches, count) == 0 && offsetof(struct shim_launches, last) == LAUNCHES_LAST,
               "layout.h");
_Static_assert(sizeof(struct route) == ROUTE_BYTES && offsetof(struct route, real) == ROUTE_REAL, "layout.h");
_Static_assert(offsetof(struct filter, kernels) == 0 && offsetof(struct filter, version) == FILTER_VERSION &&
                   offsetof(struct filter, lowest) == FILTER_LOWEST && offsetof(struct filter, span) == FILTER_SPAN,
               "layout.h");
_Static_assert(offsetof(struct filter_kernels, mask) == 0 && offsetof(struct filter_kernels, slots) == KERNELS_SLOTS &&
                   offsetof(struct filter_kernel, key) == KERNEL_KEY &&
                   offsetof(struct filter_kernel, function) == KERNEL_FUNCTION &&
                   offsetof(struct filter_kernel, words) == KERNEL_WORDS,
               "layout.h");
_Static_assert(FILTER_FACTOR == FILTER_HASH_FACTOR && FILTER_END == FILTER_LIST_END &&
                   FILTER_UNROLL == FILTER_WORDS_AT_ONCE,
               "layout.h");

static CUstream
stream_of(CUstream stream, bool per_thread)
{
    if (stream == NULL)
        return per_thread ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
    return stream;
}

/* ---- the hooks ---- */

/* The driver's own function behind hook `fn`, typed; fn##_first until it is known. */
#define REAL(fn) ((__typeof__(&(fn)))atomic_load_explicit(&shim_routes[ROUTE_##fn].real, memory_order_relaxed))

/* What the assembly jumps to where a hook is more than a jump. */
#define DEFINE_TOLD(fn, parameters)         \
    HIDDEN extern __typeof__(fn) fn##_told; \
    HIDDEN CUresult fn##_told parameters

/* What the operation is about, by the statements that follow; then the call. */
#define REPORT_AND_CALL(fn, arguments, stream_, ...)                                              \
    do {                                                                                          \
        struct operand few[FEW_OPERANDS];                                                         \
        struct listing listing = {.operation = {.name = #fn, .stream = stream_, .operands = few}, \
                                  .capacity = FEW_OPERANDS};                                      \
        __VA_ARGS__;                                                                              \
        ++shim_depth;                                                                             \
        struct rank_call *call = calls_enter(#fn);                                                \
        shim.engine->begin(&listing.operation);                                                   \
        CUresult result;                                                                          \
        do {                                                                                      \
            result = listing.operation.skip ? CUDA_SUCCESS : REAL(fn) arguments;                  \
            shim.engine->end(&listing.operation, result == CUDA_SUCCESS);                         \
        } while (listing.operation.again);                                                        \
        calls_leave(call, !listing.operation.skip);                                               \
        --shim_depth;                                                                             \
        free(listing.many);                                                                       \
        return result;                                                                            \
    } while (0)

#define DEFINE_OPERATION(fn, per_thread, parameters, arguments, stream_, operands_) \
    DEFINE_TOLD(fn, parameters)                                                     \
    {                                                                               \
        if (!shim_is_watched())                                                     \
            return REAL(fn) arguments;                                              \
        REPORT_AND_CALL(fn, arguments, stream_of(stream_, per_thread), operands_);  \
    }

/* The configuration of a launch, from the arguments of cuLaunchKernel and of cuLaunchKernelEx. */
#define CONFIG_OF_PLAIN                                                                  \
    &(const CUlaunchConfig)                                                              \
    {                                                                                    \
        grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream, NULL, 0 \
    }
#define CONFIG_OF_CONFIG config

#define DEFINE_LAUNCH(shape, fn, per_thread, parameters, arguments, stream_, function_, params_, extra_)       \
    DEFINE_TOLD(fn, parameters)                                                                                \
    {                                                                                                          \
        note_allocation();                                                                                     \
        devices_work();                                                                                        \
        if (!shim_is_watched())                                                                                \
            return REAL(fn) arguments;                                                                         \
        __atomic_store_n(&shim_launches.last, function_, __ATOMIC_RELAXED);                                    \
        REPORT_AND_CALL(fn, arguments, stream_of(stream_, per_thread), listing.operation.function = function_; \
                        listing.operation.params = params_; listing.operation.extra = extra_;                  \
                        listing.operation.config = CONFIG_OF_##shape);                                         \
    }

#define DEFINE_LAUNCH_PLAIN(...)  DEFINE_LAUNCH(PLAIN, __VA_ARGS__)
#define DEFINE_LAUNCH_CONFIG(...) DEFINE_LAUNCH(CONFIG, __VA_ARGS__)

/* Memory of the device that the program takes. A module's variables are there since the module was loaded. */
static inline bool
is_work(const char *symbol, enum memory_kind kind)
{
    return kind != MEMORY_HOST && kind != MEMORY_PINNED && strstr(symbol, "GetGlobal") == NULL;
}
#define KIND_OF(address, bytes, kind) kind

#define DEFINE_ALLOCATION(fn, per_thread, parameters, arguments, memory) \
    DEFINE_TOLD(fn, parameters)                                          \
    {                                                                    \
        note_allocation();                                               \
        if (is_work(#fn, KIND_OF memory))                                \
            devices_work();                                              \
        bool noted = shim_is_watched();                                  \
        struct rank_call *call = noted ? calls_enter(#fn) : NULL;        \
        CUresult result = REAL(fn) arguments;                            \
        if (result == CUDA_SUCCESS && shim_is_watched()) {               \
            ++shim_depth;                                                \
            shim.engine->allocated memory;                               \
            --shim_depth;                                                \
        }                                                                \
        if (noted)                                                       \
            calls_leave(call, true);                                     \
        return result;                                                   \
    }

/* It is reported to the engine first: afterwards the address or handle may belong to something else. */
#define NOTIFY_AND_CALL(fn, arguments, before, after) \
    if (!shim_is_trainers_call())                     \
        return REAL(fn) arguments;                    \
    ++shim_depth;                                     \
    struct rank_call *call = calls_enter(#fn);        \
    const struct engine *engine = shim.engine;        \
    before;                                           \
    CUresult result = REAL(fn) arguments;             \
    after;                                            \
    calls_leave(call, true);                          \
    --shim_depth;                                     \
    return result

#define DEFINE_NOTIFICATION(fn, per_thread, parameters, arguments, before, after) \
    DEFINE_TOLD(fn, parameters)                                                   \
    {                                                                             \
        NOTIFY_AND_CALL(fn, arguments, before, after);                            \
    }
#define DEFINE_NOTIFICATION_DEVICE(fn, per_thread, parameters, arguments, before) \
    DEFINE_TOLD(fn, parameters)                                                   \
    {                                                                             \
        to_driver(device);                                                        \
        NOTIFY_AND_CALL(fn, arguments, before, (void)0);                          \
    }

/* The numbers of devices change on the way to the driver, and back. */
#define DEFINE_DEVICE(fn, per_thread, parameters, arguments, before, after) \
    DEFINE_TOLD(fn, parameters)                                             \
    {                                                                       \
        before;                                                             \
        CUresult result = REAL(fn) arguments;                               \
        const bool done = result == CUDA_SUCCESS;                           \
        (void)done;                                                         \
        after;                                                              \
        return result;                                                      \
    }

#define DEFINE_RELEASE_ASYNC(fn, per_thread, parameters, arguments, address, bytes) \
    DEFINE_NOTIFICATION(fn, per_thread, parameters, arguments, engine->before_release(address, bytes), (void)0)
#define DEFINE_RELEASE(fn, per_thread, parameters, arguments, address, bytes)           \
    DEFINE_NOTIFICATION(fn, per_thread, parameters, arguments, engine->may_wait(false); \
                        engine->before_release(address, bytes), (void)0)

/* Captures and graphs: `before` may list work, as an operation does. */
#define DEFINE_GRAPH_STREAM(fn, per_thread, parameters, arguments, stream_, before, after)          \
    DEFINE_TOLD(fn, parameters)                                                                     \
    {                                                                                               \
        if (!shim_is_watched())                                                                     \
            return REAL(fn) arguments;                                                              \
        ++shim_depth;                                                                               \
        const struct engine *engine = shim.engine;                                                  \
        const CUstream on_stream = stream_of(stream_, per_thread);                                  \
        struct operand few[FEW_OPERANDS];                                                           \
        struct listing listing = {.operation = {.name = #fn, .stream = on_stream, .operands = few}, \
                                  .capacity = FEW_OPERANDS};                                        \
        before;                                                                                     \
        CUresult result = REAL(fn) arguments;                                                       \
        const bool done = result == CUDA_SUCCESS;                                                   \
        after;                                                                                      \
        (void)done;                                                                                 \
        (void)engine;                                                                               \
        --shim_depth;                                                                               \
        free(listing.many);                                                                         \
        return result;                                                                              \
    }

#define DEFINE_GRAPH(fn, per_thread, parameters, arguments, before, after) \
    DEFINE_GRAPH_STREAM(fn, false, parameters, arguments, 0, before, after)

#define DEFINE_MODULE(fn, per_thread, parameters, arguments) \
    DEFINE_TOLD(fn, parameters)                              \
    {                                                        \
        if (shim_is_watched())                               \
            shim.engine->may_wait(true);                     \
        return REAL(fn) arguments;                           \
    }

#define DEFINE_WAIT(fn, per_thread, parameters, arguments) \
    DEFINE_TOLD(fn, parameters)                            \
    {                                                      \
        if (!shim_is_watched())                            \
            return REAL(fn) arguments;                     \
        struct rank_call *call = calls_enter(#fn);         \
        if (shim.engine->wait_begins != NULL)              \
            shim.engine->wait_begins();                    \
        CUresult result = REAL(fn) arguments;              \
        calls_leave(call, true);                           \
        if (shim.engine->waited != NULL)                   \
            shim.engine->waited();                         \
        return result;                                     \
    }

#define DEFINE_WAIT_ALL(fn, per_thread, parameters, arguments) \
    DEFINE_TOLD(fn, parameters)                                \
    {                                                          \
        if (!shim_is_watched())                                \
            return REAL(fn) arguments;                         \
        struct rank_call *call = calls_enter(#fn);             \
        if (shim.engine->wait_begins != NULL)                  \
            shim.engine->wait_begins();                        \
        if (shim.engine->waits != NULL)                        \
            shim.engine->waits();                              \
        CUresult result = REAL(fn) arguments;                  \
        calls_leave(call, true);                               \
        if (shim.engine->waited != NULL)                       \
            shim.engine->waited();                             \
        return result;                                         \
    }

#define DEFINE_QUERY(fn, per_thread, parameters, arguments) \
    DEFINE_TOLD(fn, parameters)                             \
    {                                                       \
        CUresult result = REAL(fn) arguments;               \
        if (result != CUDA_SUCCESS || !shim_is_watched())   \
            return result;                                  \
        if (shim.engine->waited != NULL)                    \
            shim.engine->waited();                          \
        return result;                                      \
    }

#define DEFINE_LEAVING(fn, parameters, arguments, for_good) \
    DEFINE_TOLD(fn, parameters)                             \
    {                                                       \
        if (!shim_is_watched())                             \
            return REAL(fn) arguments;                      \
        struct rank_call *call = calls_enter(#fn);          \
        if (shim.engine->leaves != NULL)                    \
            shim.engine->leaves(for_good);                  \
        CUresult result = REAL(fn) arguments;               \
        calls_leave(call, true);                            \
        return result;                                      \
    }
#define DEFINE_EXIT(fn, per_thread, parameters, arguments)   DEFINE_LEAVING(fn, parameters, arguments, false)
#define DEFINE_EXPORT(fn, per_thread, parameters, arguments) DEFINE_LEAVING(fn, parameters, arguments, true)

/* What the program may take of so many bytes, so that NCCL finds memory at its start. */
static size_t
less_reserve(size_t bytes)
{
    int reserve_mib = shim_in_job() ? shim_number_from(DDPRUN_ENV_RESERVE) : 0;
    size_t reserve = reserve_mib > 0 ? (size_t)reserve_mib << 20 : 0;
    return bytes > reserve ? bytes - reserve : 0;
}

/* Also before this process is the rank: programs ask first, and then allocate. */
#define DEFINE_FREE_MEMORY(fn, per_thread, parameters, arguments, bytes) \
    DEFINE_TOLD(fn, parameters)                                          \
    {                                                                    \
        CUresult result = REAL(fn) arguments;                            \
        if (result == CUDA_SUCCESS && shim_depth == 0)                   \
            *(bytes) = less_reserve(*(bytes));                           \
        return result;                                                   \
    }

#define DEFINE_RECORDED(fn, per_thread, parameters, arguments)                                     \
    DEFINE_TOLD(fn, parameters)                                                                    \
    {                                                                                              \
        if (shim_depth == 0)                                                                       \
            atomic_fetch_add_explicit(&shim_routes[ROUTE_##fn].recorded, 1, memory_order_relaxed); \
        return REAL(fn) arguments;                                                                 \
    }

#define ONE(kind, symbol, name, version, ...) DEFINE_##kind(symbol, false, __VA_ARGS__)
#define TWO(kind, symbol, twin, name, version, twin_version, ...) \
    extern __typeof__(symbol) symbol##twin;                       \
    DEFINE_##kind(symbol, false, __VA_ARGS__) DEFINE_##kind(symbol##twin, true, __VA_ARGS__)
#include "interpose/shim/hooks.def"
