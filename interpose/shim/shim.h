/*
 * shim.h - what the files of the shim know of each other.
 *
 * The rules of this folder: nothing but libc is needed; nothing runs before a hooked function is called (no
 * constructors, but that of stdout.c); never `dlsym`, always shim_real_dlsym(); no lock is held across a call into the
 * driver or the loader; what is not hooked is passed on unchanged. The process-wide state is in
 * state.c.
 */
#ifndef DDPRUN_INTERPOSE_SHIM_H
#define DDPRUN_INTERPOSE_SHIM_H

#include "base/protocol.h"
#include "interpose/engine.h"
#include "interpose/filter.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

/* In this order, so that a hook finds out with one comparison whether it is only a jump. */
enum shim_mode {
    SHIM_PASSIVE = 0, /* not part of a job, or not the rank: every hook is a jump */
    SHIM_ALONE,       /* the rank of a world of one: only releases are reported */
    SHIM_UNDECIDED,   /* nothing has happened yet that makes a rank */
    SHIM_RANK,
};

struct shim {
    _Atomic int mode;                     /* enum shim_mode */
    const struct engine *engine;          /* set before mode becomes SHIM_ALONE or SHIM_RANK */
    _Atomic(struct rank_status *) status; /* this rank's record, or NULL */
    int lock_fd;                          /* the claim to be the rank; closed in forked children */
};
extern struct shim shim __attribute__((visibility("hidden")));

/* Written by the engine. */
extern struct filter shim_filter __attribute__((visibility("hidden")));

/* What launches that touch no gradient leave behind, in two instructions each: written by the hooks of every thread, so
 * some are not counted; the engine's watch thread looks at it from time to time. */
extern struct shim_launches shim_launches __attribute__((visibility("hidden"))); /* see engine.h */
extern uint32_t shim_library_types __attribute__((visibility("hidden")));        /* the same */

/* How deep this thread is inside hooks and the engine. Hooks at depth > 0 only forward. */
extern __thread int shim_depth __attribute__((tls_model("initial-exec")));

/* Whether this call is the trainer's own, in the process that is the rank. */
static inline bool
shim_is_trainers_call(void)
{
    int mode = atomic_load_explicit(&shim.mode, memory_order_acquire);
    return (mode == SHIM_RANK || mode == SHIM_ALONE) && shim_depth == 0;
}

/* The same, and operations are reported to the engine. */
static inline bool
shim_is_watched(void)
{
    return atomic_load_explicit(&shim.mode, memory_order_acquire) == SHIM_RANK && shim_depth == 0;
}

/* ---- state.c ---- */

/* Whether this process was started by ddprun: reads the environment. */
bool shim_in_job(void);

/* A variable of the environment as a number; -1 if it is not set. */
int shim_number_from(const char *variable);

/* Maps the status page; NULL (and passive) if this is not a job that we understand. */
struct rank_status *shim_map_status(void);

/* Tells the launcher that the gate is in effect in this rank's process tree. */
void shim_note_gate(void);

/* A process that cannot do what it was started for: reports why and ends, before it trains alone. */
void shim_stop(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

/* ---- rank.c ---- */

/* The site of a question: the process becomes the rank if it can, and stays without effect if another process is. */
extern const struct ddp_site shim_question __attribute__((visibility("hidden")));

/* Makes this process the rank if it is not decided yet; `site` is NULL unless an annotation or a question asks. Returns
 * whether it is the rank. An annotated process that cannot be ends with a message. Without `site` it may return false
 * while another thread is deciding: nothing is tracked before the first annotation. */
bool shim_become_rank(const struct ddp_site *site);

/* ---- crash.c ---- */

/* From now on a signal that ends this process, if it is the rank, first shows the launcher where. Any thread, often. */
void crash_watch(void);

/* In a forked child, which is not the rank. */
void crash_watch_no_more(void);

/* ---- execs.c ---- */

/* Once, by the constructor: what the hooks of exec and open need, which may look nothing up. */
void execs_begin(void);

/* Whether the file at `path`, seen from `folder`, uses CUDA: it names CUDA's libraries, or holds kernels. "": the file
 * `folder` itself. */
bool execs_file_uses_cuda(int folder, const char *path);

/* The definition of a function of libc after ours: libc's, or another interposer's. */
/* clang-format off */
#define LIBC_FUNCTIONS(X)                                                     \
    X(execve) X(execvpe) X(fexecve) X(posix_spawn) X(posix_spawnp) X(open)    \
    X(open64) X(openat) X(openat64) X(creat) X(creat64) X(fopen) X(fopen64) X(rename) \
    X(pthread_create)
/* clang-format on */
#define LIBC_NUMBER(fn) LIBC_##fn,
enum libc_function { LIBC_FUNCTIONS(LIBC_NUMBER) LIBC_COUNT };
void *libc_next(enum libc_function function);
#define NEXT(fn) ((__typeof__(&(fn)))libc_next(LIBC_##fn))

/* ---- original.c ---- */

/* Finds libc's own dlsym and dlvsym, once. */
void original_find(void);

/* The real dlsym, called so that `caller`-relative handles keep their meaning only for the shim itself. */
void *shim_real_dlsym(void *handle, const char *name);

/* ---- routes.c ---- */

/* One hooked driver function: how to find it, what replaces it, where it really is. */
struct route {
    const char *symbol; /* exported name: one for each ABI and flavour */
    const char *name;   /* as cuGetProcAddress is asked */
    int version;
    cuuint64_t flags;
    void *hook;
    void *first;               /* what `real` is until the function is known: finds it and calls it */
    _Atomic(void *) real;      /* never NULL: from cuGetProcAddress, else from dlsym, else `first` */
    _Atomic(void *) alias;     /* another address of the same function, or NULL */
    _Atomic uint64_t recorded; /* calls, of those that are only recorded */
    uint64_t only_waits; /* 1: it touches no memory, so what a version of it does that we do not know is no matter */
};
extern struct route shim_routes[] __attribute__((visibility("hidden")));
extern const unsigned shim_route_count __attribute__((visibility("hidden")));

/* The places of hooked functions in shim_routes[], generated from hooks.def: ROUTE_symbol. */
#define ONE(kind, symbol, ...)       ROUTE_##symbol,
#define TWO(kind, symbol, twin, ...) ROUTE_##symbol, ROUTE_##symbol##twin,
enum {
#include "interpose/shim/hooks.def"
    ROUTE_COUNT
};

/* Where to look the driver's functions up that the program has not: after this library, or, where libcuda is in the
 * scope of one library only (which has opened it, or is itself an extension of Python's, say), in libcuda. NULL if it
 * is not loaded. */
void *shim_loaded_driver(void);

/* For struct shim_services. */
bool shim_load_driver(void);

/* ---- gate.c ---- */

/* For struct shim_services. */
void *gate_driver_function(const char *name, int version);

/* ---- exempt.c ---- */

/* A loaded object: [begin, end) holds its code and data. */
struct code_range {
    uintptr_t begin, end;
};

static inline bool
is_inside(const struct code_range *object, uintptr_t address)
{
    return address >= object->begin && address < object->end;
}

/* Finds the object that holds `address`, or with `file` one whose file's name begins so. False: there is none. */
struct object_search {
    uintptr_t address;
    const char *file;
    struct code_range object;
    const char *path;
};
bool object_find(struct object_search *search);

/* Code of the loaded library that holds `address` gets the driver's own pointers from now on. */
void exempt_add(const void *address);
bool exempt_has(const void *caller);

/* The same, and the driver's own code whether it was added or not. */
bool exempt_has_driver(const void *caller);

/* ---- threads.c ---- */

/* Around each call of NCCL by the engine, in its thread: what that thread calls, and those that it starts there, is
 * NCCL's own. */
void threads_inside_nccl(bool is_inside);

/* ---- recorder.c ---- */

enum { THUNKS = 64, THUNK_BYTES = 64 }; /* also in look_up_*.S */

/* A counted jump to `target`, a function that is looked up as `name`; the same one for the same target. */
void *recorder_thunk(const char *name, void *target);

/* How many calls were counted so far; *name_p: one of them, if there are any. */
uint64_t recorder_calls(const char **name_p);

/* ---- calls.c ---- */

/* Around a call of the trainer's, `name` being the hooked function's symbol, static storage. What calls_enter() returns
 * may be NULL. A call that was not made has taken no time. */
struct rank_call *calls_enter(const char *name);
void calls_leave(struct rank_call *call, bool was_made);

/* ---- libraries/: hooks of libraries above the driver ---- */

/* The hook for the library function `name`, given the function that a look-up found; NULL if it is not hooked. */
void *library_route(const char *name, void *real);

#endif
