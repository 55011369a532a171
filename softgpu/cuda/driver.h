/*
 * driver.h - what the files of the stand-in's driver (libcuda.so.1) share. Nothing outside this folder includes it.
 *
 * The shape of the driver, from the bottom up:
 *
 *   thread.c   the driver's own threads
 *   state.c    the one process-wide state: options, "initialised / forked / exiting"
 *   object.c   memory of streams, events and contexts, kept type-stable so that a stale handle can be recognised
 *   memory.c   which address belongs to which allocation; mapping.c: guard pages, and freed memory that stays closed;
 *              address.c: where it lies; describe.c: the same as text
 *   command.c  pieces of work; graph.c: graphs of them; capture.c: streams whose commands become a graph
 *   queue.c    streams as threads: commands, their order, waits between streams, legacy default stream rules
 *   context.c  contexts, the current one of a thread, its default streams, sticky errors
 *   timeout.c  SOFTGPU_TIMEOUT_S: ends a program whose kernel does not end
 *   unruly.c   SOFTGPU_UNRULY: what is drawn of the order in which blocks run, and of the device's lag
 *   strict.c   device memory closed between operations; workers.c: blocks of a launch; fault.c: faults of kernels, with
 *              the allocation's name; init.c: puts its handler in place
 *   lookup.c   cuGetProcAddress, from the one table of functions (functions.def)
 *
 * A file uses those of its line and above only: tests/lint/layers.sh.
 *
 * The rest is the driver API itself over these, one subject a file. Every API function begins with driver_enter() or
 * context_enter(), so that calls in a forked child, during exit or from a host function get an error instead of waiting
 * for threads that are not there. Errors are CUDA's own codes; outputs are set on success only.
 *
 * Locks, in the order in which they may be held together: context.submit_lock, then stream.lock. memory.c's lock is a
 * leaf. No lock is held while a kernel, a host function or a callback of the user runs.
 */
#ifndef SOFTGPU_CUDA_DRIVER_H
#define SOFTGPU_CUDA_DRIVER_H

/* Makes cuda.h declare every function under its ABI name (cuMemAlloc_v2, cuLaunchKernel_ptsz) and map no names. */
#ifndef __CUDA_API_VERSION_INTERNAL
#error "compile this folder with __CUDA_API_VERSION_INTERNAL"
#endif
#include <cuda.h>
#include <cudaProfiler.h>

#include "say.h"
#include "softgpu/image.h"
#include "softgpu/module.h"
#include "softgpu/stub.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    DRIVER_VERSION = 13000,
    DEVICE_LIMIT = 64,
    CONTEXT_STACK_LIMIT = 32,    /* depth of cuCtxPushCurrent in one thread */
    STREAM_PENDING_LIMIT = 1024, /* commands in a stream before its next caller has to wait, as on a GPU */
    STAGING_LIMIT = 64 << 20,    /* pageable copies above this are waited for instead of staged */
    THREADS_PER_BLOCK = 1024,
    SHARED_BYTES_PER_BLOCK = 48 << 10,
    STREAM_PRIORITY_GREATEST = -5,
};

/* Which of the two default streams stands behind handle 0. */
enum flavour { LEGACY, PER_THREAD };

/*
 * Defines a function in its two ABI flavours: `name` and `name_ptsz` (or `_ptds`). The body is an expression that may
 * use the parameters and `flavour`. This is the only place where the two differ.
 */
#define BOTH_FLAVOURS(name, suffix, parameters, body) \
    CUresult name parameters                          \
    {                                                 \
        const enum flavour flavour = LEGACY;          \
        return body;                                  \
    }                                                 \
    CUresult name##suffix parameters                  \
    {                                                 \
        const enum flavour flavour = PER_THREAD;      \
        return body;                                  \
    }

/* Returns from the function that it stands in, with the result of the call, unless that is CUDA_SUCCESS. Not where a
 * lock is held, or memory is to be freed. */
#define TRY(call)                           \
    do {                                    \
        const CUresult try_result = (call); \
        if (try_result != CUDA_SUCCESS) {   \
            return try_result;              \
        }                                   \
    } while (false)

/* The same with an error, unless the condition holds; and with that for what callers pass. */
#define REQUIRE_ELSE(condition, error) TRY((condition) ? CUDA_SUCCESS : (error))
#define REQUIRE(condition)             REQUIRE_ELSE(condition, CUDA_ERROR_INVALID_VALUE)

/* ---- state.c ---- */

/* What a device pretends to be: where the kinds differ, and programs look. */
struct profile {
    const char *name;  /* SOFTGPU_DEVICE */
    const char *title; /* with its article */
    int major, minor;  /* compute capability */
    int multiprocessors;
    int shared_bytes_per_multiprocessor;
    int shared_bytes_opt_in;   /* most dynamic shared memory of a block, when asked for */
    int shared_bytes_reserved; /* of each block, by the system */
    int l2_bytes;
    int clock_khz, memory_clock_khz, memory_bus_bits;
    int copy_engines;
};

struct driver {
    const struct profile *profile; /* of all devices */
    int device_count;
    int device_index[DEVICE_LIMIT]; /* device -> physical number: CUDA_VISIBLE_DEVICES */
    size_t memory_bytes;            /* SOFTGPU_MEMORY_BYTES: of each device */
    int version;                    /* SOFTGPU_DRIVER: what cuDriverGetVersion answers */
    unsigned worker_count;          /* SOFTGPU_WORKERS: threads that share one launch's blocks */
    bool poison;                    /* SOFTGPU_POISON: fresh device memory is filled with NaNs */
    bool chaos;                     /* SOFTGPU_CHAOS: streams pause at random */
    uint64_t chaos_seed;
    bool unruly;           /* SOFTGPU_UNRULY: blocks and warps run in a drawn order, the device lags */
    uint64_t unruly_key;   /* its seed, the number of this run, the rank */
    int memory_key;        /* SOFTGPU_UNRULY: of device memory (pkeys(7)); -1: there is none */
    bool launches_block;   /* CUDA_LAUNCH_BLOCKING: each launch waits for its kernel */
    CUresult fault_result; /* SOFTGPU_FAULT_RESULT: of each fault of a kernel; 0: by its kind */
    bool managed_apart;    /* SOFTGPU_MANAGED_APART: the host may not reach managed memory beside kernels */
    bool strict;           /* SOFTGPU_STRICT: device memory can be reached only while an operation runs */
    bool real_addresses;   /* SOFTGPU_ADDRESSES=real: device memory lies where NVIDIA's driver puts it */
    uint64_t timeout_s;    /* SOFTGPU_TIMEOUT_S: of each launch; 0: none */
    uint64_t host_function_ns, copy_ns; /* SOFTGPU_HOST_FUNCTION_US, SOFTGPU_COPY_US: what each costs its stream */
    bool scrambles_maps;                /* SOFTGPU_TENSOR_MAPS: the address does not stand in a tensor map as it is */
};

extern struct driver driver; /* constant once driver_enter() has succeeded */

/* ---- profile.c ---- */

/* By name; NULL (or no name) is the default. An unknown name is said, and the default. */
const struct profile *profile_find(const char *name);

/* SOFTGPU_DRIVER, at any time. A value that is no version is said, by driver_open(). */
int driver_version(void);

/* Reads the options, once: before everything else. False, after a line that says why: the driver cannot be used. */
bool driver_open(void) __attribute__((warn_unused_result));
void driver_ready(void); /* from now on driver_enter() succeeds, if there is a device */
bool driver_forked(void);

/* CUDA_SUCCESS if the driver can be used in this process now; otherwise the error to return. */
CUresult driver_enter(void) __attribute__((warn_unused_result));

/* True from the first handler of exit() on: streams take no further command. */
bool driver_exiting(void);

bool device_valid(CUdevice device);

/* driver_enter(), and that there is such a device. */
CUresult device_enter(CUdevice device) __attribute__((warn_unused_result));

/* What a call returns that has one answer: it goes to `out`, unless `entered` is an error. */
#define ANSWER(entered, out, value)                       \
    ((entered) != CUDA_SUCCESS ? (entered)                \
     : (out) == NULL           ? CUDA_ERROR_INVALID_VALUE \
                               : (*(out) = (value), CUDA_SUCCESS))

/* ---- thread.c ---- */

/*
 * Starts a thread of the driver, never joined, that runs no handler of the program's: signals are blocked, but for
 * those that a kernel's own faults raise. False, after a line that says why, if the system allows no more.
 */
bool driver_thread(void *(*run)(void *), void *argument, const char *name) __attribute__((warn_unused_result));

/* True in threads of the driver. */
bool driver_is_thread(void);

/* ---- export.c ---- */

/* What dlsym answers to this library itself, asked for the exported name `abi`; NULL without SOFTGPU_SELF_LOOKUP. */
void *self_look_up(const char *abi);

/* Begins an exported function: with SOFTGPU_SELF_LOOKUP its code is what dlsym answers, which ought to be itself. */
#define SELF_LOOK_UP(name, arguments)                                     \
    do {                                                                  \
        union {                                                           \
            void *object;                                                 \
            __typeof__(&(name)) function;                                 \
        } looked_up = {.object = self_look_up(#name)};                    \
        if (looked_up.function != NULL && looked_up.function != (name)) { \
            return looked_up.function arguments;                          \
        }                                                                 \
    } while (0)

/* ---- object.c ---- */

/* What a handle points to begins with one of these; 0 once the handle is destroyed. */
enum magic {
    MAGIC_CONTEXT = 0x43545831,
    MAGIC_STREAM = 0x53545231,
    MAGIC_EVENT = 0x45565431,
    MAGIC_LIBRARY = 0x4c494231,
    MAGIC_LINKER = 0x4c4e4b31,
    MAGIC_KERNEL = 0x4b524e31,
    MAGIC_FUNCTION = 0x46554e31,
    MAGIC_POOL = 0x504f4c31,
    MAGIC_CHUNK = 0x43484e31,
    MAGIC_GRAPH = 0x47524631,
    MAGIC_NODE = 0x4e4f4431,
    MAGIC_EXEC = 0x45584531,
};

/* Zeroed memory for an object; given back, it serves only objects of the same kind. Any thread. NULL: no memory. */
enum object_kind {
    OBJECT_CONTEXT,
    OBJECT_STREAM,
    OBJECT_EVENT,
    OBJECT_LIBRARY,
    OBJECT_LINKER,
    OBJECT_KERNEL,
    OBJECT_POOL,
    OBJECT_CHUNK,
    OBJECT_GRAPH,
    OBJECT_NODE,
    OBJECT_EXEC,
    OBJECT_KIND_COUNT
};
void *object_take(enum object_kind kind, size_t bytes);
void object_give(enum object_kind kind, void *object);

/* ---- queue.c ---- */

struct context;

enum stream_kind { STREAM_CREATED, STREAM_LEGACY, STREAM_PER_THREAD };

struct stream {
    /* MAGIC_STREAM until the handle is destroyed; the object lives on while it is referred to. */
    _Atomic uint32_t magic;
    _Atomic unsigned refs;
    struct context *context;
    uint64_t id;
    unsigned flags; /* CU_STREAM_DEFAULT or CU_STREAM_NON_BLOCKING */
    int priority;
    bool blocking; /* takes part in the legacy default stream's barriers */
    enum stream_kind kind;

    /* guarded by context->submit_lock */
    struct stream *next, *previous; /* in context->streams */
    uint64_t submitted;             /* number of the last command */
    uint64_t legacy_covered;        /* the legacy stream's command that this stream has waited for */
    uint64_t covered_by_legacy;     /* this stream's command that the legacy stream has waited for */

    /* guarded by capture.c's lock; `capture` may be read without, to see that there is no capture */
    _Atomic(struct capture *) capture;
    struct stream *capture_next; /* in the capture's list */
    struct node **tail;          /* what the next captured work comes after */
    size_t tail_count;

    _Atomic uint64_t completed; /* number of the last command that has run; never decreases */
    _Atomic uint64_t awaited;   /* at most the first command that a thread in `progress` waits for; else UINT64_MAX */
    _Atomic uint64_t arrived;   /* number of the last command that its thread is to run */
    unsigned to_leave_out, left_out; /* its thread's own: at how many ends of its work it does not linger; so far */
    uint64_t draws;                  /* its thread's own: launches that have been drawn */
    struct command
        *running; /* its thread's own: keeps what that has taken within reach of leak checkers in forked children */

    pthread_mutex_t lock;
    pthread_cond_t arrival;  /* a command came, or `closing` was set */
    pthread_cond_t progress; /* `completed` reached `awaited` */
    struct command *first;   /* guarded by lock, as all below */
    struct command **end;
    bool started; /* has a thread */
    bool idle;    /* its thread waits in `arrival` */
    bool closing; /* destroyed: the thread ends when it has run what is there */
};

/* "After command `number` of `stream`": the only kind of ordering between streams. Holds a reference. */
struct wait {
    struct stream *stream;
    uint64_t number;
};

enum { NODE_NONE = -1 };

/* One piece of work in a stream. Lives in malloc'ed memory of the caller's layout, with this as its first member. */
struct command {
    struct command *next;
    uint64_t number;
    void (*run)(struct command *command,
                struct stream *stream); /* NULL: only waits. Also called when the context has failed */
    void (*end)(
        struct command *command); /* frees what the command owns; NULL: nothing. Run may be called again before */
    int node_type;                /* CUgraphNodeType, or NODE_NONE if it cannot be part of a graph */
    bool is_short;                /* its host sees no difference if it runs at its submission, in microseconds */
    struct wait after;            /* stream NULL: nothing */
    unsigned legacy_wait_count;   /* the barrier of the legacy default stream */
    struct wait *legacy_waits;
};

/* NULL without memory. Released by the stream's thread after `run`, or by command_drop() if it was never submitted. */
void *command_new(size_t bytes, void (*run)(struct command *, struct stream *));
void command_drop(void *command);

/*
 * Appends `command` to the stream with CUDA's implicit ordering; takes ownership, also on failure. *number_p (may be
 * NULL) receives its number. May wait while the stream is full.
 */
CUresult stream_submit(struct stream *stream, struct command *command, uint64_t *number_p)
    __attribute__((warn_unused_result));

/* True once the command is through, with everything that it wrote visible to the caller. */
bool stream_reached(struct stream *stream, uint64_t number);
void stream_wait(struct stream *stream, uint64_t number);

/* In a stream's thread: lets that much time pass, without using the CPU. */
void stream_spend(uint64_t ns);

/* How long the link was in use until a moment, and what share of such time is lost to other work (spend.c). */
struct beside {
    int64_t at_ns, used_ns;
    double lost;
};
/* Around a kernel or host function, in its stream's thread: the second one lets pass what the link has cost it. */
struct beside beside_begin(void);
void beside_end(struct beside before);

/* The stream whose thread the caller is; NULL in all other threads. */
struct stream *stream_of_thread(void);

/*
 * Makes the calling thread that of a stream whose own one will never return from the command that it runs: that one
 * counts as through. Returns when the stream is closed.
 */
void stream_resume(struct stream *stream);

/* Waits for all that was submitted before the call; the legacy default stream's includes all blocking streams. */
CUresult stream_drain(struct stream *stream) __attribute__((warn_unused_result));
CUresult stream_idle(struct stream *stream)
    __attribute__((warn_unused_result)); /* CUDA_SUCCESS or CUDA_ERROR_NOT_READY */

CUresult stream_create(struct context *context, enum stream_kind kind, unsigned flags, int priority,
                       struct stream **stream_p) __attribute__((warn_unused_result));
void stream_close(struct stream *stream); /* the handle is gone; submitted work completes */
struct stream *stream_hold(struct stream *stream);
void stream_release(struct stream *stream);

/* ---- context.c ---- */

struct context {
    _Atomic uint32_t magic;
    CUdevice device;
    uint64_t id;
    bool primary;
    _Atomic unsigned flags;
    _Atomic int failure; /* CUresult; once it is not CUDA_SUCCESS every call returns it */

    pthread_mutex_t submit_lock; /* guards the order of submission: streams and their numbers */
    struct stream *streams;
    struct stream *legacy; /* the legacy default stream, made with the context */

    _Atomic unsigned blocking_captures; /* blocking streams that are being captured */

    _Atomic size_t dynamic_limits[CU_LIMIT_MAX];
};

/* driver_enter(), and the calling thread's current context, unless that has failed. */
CUresult context_enter(struct context **context_p) __attribute__((warn_unused_result));

/* The calling thread's stack of current contexts. NULL: empty. A push fails when it is full. */
struct context *context_current(void);
CUresult context_push(struct context *context) __attribute__((warn_unused_result));
struct context *context_pop(void);

CUresult context_create(CUdevice device, unsigned flags, bool is_primary, struct context **context_p)
    __attribute__((warn_unused_result));

/* Ends what a program made there: work finishes, created streams (if asked default ones too) and memory go. */
CUresult context_empty(struct context *context, bool with_defaults) __attribute__((warn_unused_result));
CUresult context_from_handle(CUcontext handle, struct context **context_p) __attribute__((warn_unused_result));

/* driver_enter() and the context behind a handle; NULL: context_enter(). */
CUresult context_enter_handle(CUcontext handle, struct context **context_p) __attribute__((warn_unused_result));

/* The first failure stays. `what` is said once. Any thread. */
void context_fail(struct context *context, CUresult failure, const char *what);

/* Waits for everything that was submitted to any stream of the context. */
CUresult context_drain(struct context *context) __attribute__((warn_unused_result));

/* context_enter() and the stream behind a handle: 0, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD or a created one. */
CUresult stream_enter(CUstream handle, enum flavour flavour, struct stream **stream_p)
    __attribute__((warn_unused_result));

/* ---- launch.c, stream.c, fill.c: commands that are not submitted yet ---- */

CUresult launch_command_new(const CUlaunchConfig *config, CUfunction function, void **parameters, void **extra,
                            struct command **command_p) __attribute__((warn_unused_result));
/* In the place of another launch: blocks wait for each other as they did there. */
void launch_command_inherit(struct command *command, const struct command *before);
/* What a launch was made from; the pointers are the command's own. */
void launch_command_parameters(struct command *command, CUDA_KERNEL_NODE_PARAMS *parameters);
CUresult fill_command_new(const CUDA_MEMSET_NODE_PARAMS *parameters, struct command **command_p)
    __attribute__((warn_unused_result));
CUresult host_command_new(const CUDA_HOST_NODE_PARAMS *parameters, struct command **command_p)
    __attribute__((warn_unused_result));

/* ---- event.c ---- */

/* The moment at which a record passes through a stream. Shared by the event and the streams and threads that wait
 * for that record. */
CUresult event_record(CUevent event, CUstream handle, enum flavour flavour, unsigned flags)
    __attribute__((warn_unused_result));
CUresult event_wait(CUstream handle, enum flavour flavour, CUevent event, unsigned flags)
    __attribute__((warn_unused_result));

/*
 * Event nodes of graphs. Before a launch its stream waits for the events of its wait nodes, as they are then. Each
 * record node gets a moment, which becomes the event's latest record once the launch has its number: so such a record
 * is reached when the whole launch is over, no earlier than CUDA promises; its time is that of the node.
 */
struct moment;
CUresult event_node_new(CUevent event, CUgraphNodeType type, struct command **command_p)
    __attribute__((warn_unused_result));
CUresult event_node_wait(struct command *node, struct stream *stream) __attribute__((warn_unused_result));
struct moment *event_node_moment(struct stream *stream); /* with two references; NULL without memory */
/* Takes one of them. */
void event_node_publish(struct command *node, struct moment *moment, uint64_t number);
void event_node_reached(struct moment *moment);
void event_node_drop(struct moment *moment);

/* ---- capture.c: stream capture ---- */

struct node;

/* The stream is being captured: what is submitted to it becomes a part of a graph. */
bool capture_is_on(struct stream *stream);

/* Takes the command, also on failure. */
CUresult capture_take(struct stream *stream, struct command *command) __attribute__((warn_unused_result));

/*
 * What may not be done while there are captures, which ends them: to wait for or ask about a stream that is captured,
 * or the legacy stream while a blocking one is; a context; and calls that may depend on other streams' work.
 */
CUresult capture_check_stream(struct stream *stream) __attribute__((warn_unused_result));
CUresult capture_check_context(struct context *context) __attribute__((warn_unused_result));
CUresult capture_check_unsafe(void) __attribute__((warn_unused_result));

/* A stream's capture cannot continue: every later call reports the capture as invalid. */
void capture_invalidate(struct stream *stream);

/* An event that was recorded in a captured stream: what stands before it. */
struct mark {
    uint64_t capture_id; /* 0: none */
    struct node **nodes;
    size_t node_count;
};
CUresult capture_mark(struct stream *stream, struct mark *mark) __attribute__((warn_unused_result));
/* The stream waits for such an event, and so joins its capture. */
CUresult capture_join(struct stream *stream, const struct mark *mark) __attribute__((warn_unused_result));

/* ---- memory.c ---- */

enum memory_kind {
    MEMORY_DEVICE,
    MEMORY_MANAGED,
    MEMORY_HOST,       /* cuMemHostAlloc: page-locked, known to the device */
    MEMORY_REGISTERED, /* cuMemHostRegister */
    MEMORY_GLOBAL,     /* a __device__ variable of the program */
    MEMORY_MAPPED,     /* cuMemMap: part of an address range */
};

/* Pages from the system, with closed ones on both sides. */
struct mapping {
    uintptr_t base;     /* what the program gets */
    uintptr_t pages;    /* the pages that can be used: base lies on the first of them or, of device memory, after */
    size_t pages_bytes; /* 0: the driver has not mapped them */
    uintptr_t region;   /* with the closed pages around them */
    size_t region_bytes;
};

struct allocation {
    uintptr_t base;
    size_t bytes; /* as asked for */
    struct mapping mapping;
    enum memory_kind kind;
    struct context *context;
    unsigned flags;
    uint64_t buffer_id;
    CUdevice device;
    struct pool *pool;        /* of cuMemAllocAsync; NULL otherwise */
    bool freeing;             /* cuMemFreeAsync was called, and has not run yet */
    struct chunk *chunk;      /* of MEMORY_MAPPED: what is mapped there; holds a reference */
    CUmemAccess_flags access; /* of MEMORY_MAPPED; everything else can be read and written */
};

CUresult memory_allocate(struct context *context, size_t bytes, enum memory_kind kind, unsigned flags,
                         struct pool *pool, uintptr_t *base_p) __attribute__((warn_unused_result));
CUresult memory_register(struct context *context, uintptr_t base, size_t bytes, enum memory_kind kind, unsigned flags)
    __attribute__((warn_unused_result));

/* A call that takes memory of the one kind takes it: cuMemFree takes device and managed memory alike. */
bool memory_kind_matches(enum memory_kind have, enum memory_kind want);

/* Copies the record of the allocation that holds `address`; false if none does. */
bool memory_find(uintptr_t address, struct allocation *found);

/* The same, and __managed__ variables: they lie in the program, and libsoftgpu.so knows where. pointer.c */
bool pointer_find(CUdeviceptr address, struct allocation *found);

/* Forgets (and unmaps) the allocation that begins at `base`. INVALID_VALUE if no allocation of this kind
 * begins there. */
CUresult memory_free(uintptr_t base, enum memory_kind kind) __attribute__((warn_unused_result));
/* Marks an allocation as about to be freed in stream order: a second free fails. */
CUresult memory_mark_freeing(uintptr_t base) __attribute__((warn_unused_result));
void memory_free_all(struct context *context);
size_t memory_used(CUdevice device);

/* Takes so much of a device's memory, or gives it back. False: there is not so much left. */
bool memory_reserve(CUdevice device, size_t bytes) __attribute__((warn_unused_result));
void memory_unreserve(CUdevice device, size_t bytes);

/* How many bytes from `address` on can be copied or set at once: to the end of its allocation, or of adjacent maps. */
size_t memory_reach(uintptr_t address);

/* Enters a map of virtual.c, takes one out (INVALID_VALUE: none begins at `base`), sets what may be done there. */
CUresult memory_map(const struct allocation *record) __attribute__((warn_unused_result));
CUresult memory_unmap(uintptr_t base) __attribute__((warn_unused_result));
void memory_set_access(uintptr_t base, CUmemAccess_flags access);

/* Where an address lies, as text for messages; safe in a handler of a fault. False: nowhere near memory that the driver
 * manages. */
bool memory_describe(uintptr_t address, char *text, size_t room);

/* The address lies in device memory, or in the closed pages around it, or in freed memory. */
bool memory_is_ours(uintptr_t address);

/* Says why `base` cannot be freed by `call`, if there is more to say than that the driver did not allocate it. */
void memory_explain_free(const char *call, uintptr_t base);

/* Opens or closes all device memory to every thread. */
void memory_protect(bool open);

/* True, and an allocation, if the program wrote past the last bytes of one. */
bool memory_overrun(struct allocation *found);

struct pool *pool_default(CUdevice device);
CUresult pool_from_handle(CUmemoryPool handle, struct pool **pool_p) __attribute__((warn_unused_result));

/* Counts an allocation from the pool, or its end. */
void pool_note(struct pool *pool, size_t bytes, bool allocated);

/* ---- library.c, kernel.c, module.c ---- */

struct kernel {
    uint32_t magic; /* MAGIC_KERNEL: a CUkernel */
    struct {
        uint32_t magic; /* MAGIC_FUNCTION: a CUfunction */
        struct kernel *kernel;
    } function;
    struct library *library;
    struct kernel *next; /* of the same library */
    const struct softgpu_image *image;
    size_t param_bytes;
    _Atomic int max_dynamic_shared_bytes; /* CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES */
    _Atomic int carveout;
    _Atomic bool loaded; /* SOFTGPU_UNRULY: see kernel_load() */
};

/* What libnvrtc has compiled (softgpu/module.h), once it is loaded. */
struct module {
    const struct softgpu_module_kernel *kernels; /* NULL: none */
    /* libsoftgpu's softgpu_variable_at(): of all modules and of the program. */
    __typeof__(softgpu_variable_at) *variable_at;
    uintptr_t begin, end; /* where its variables are */
};

/* Whether `data` is a module in one of its two forms, or in that of a text: reads its first 8 bytes, or up to a NUL. */
bool module_is(const void *data);
bool module_is_text(const void *data);

/*
 * A copy of a module of which at most *bytes are known, with a NUL after them; the caller frees it. *bytes becomes its
 * length, that of a text with its NUL. `what`: the module, for messages. CUDA_ERROR_NO_BINARY_FOR_GPU (it is something
 * else) or CUDA_ERROR_INVALID_IMAGE (it has been cut) after a message.
 */
CUresult module_copy(const char *what, const void *data, size_t *bytes, char **copy_p)
    __attribute__((warn_unused_result));

/* The same from a file. CUDA_ERROR_FILE_NOT_FOUND: `path` cannot be opened, or is no file. */
CUresult module_read(const char *path, size_t *bytes, char **copy_p) __attribute__((warn_unused_result));

/* Nothing is compiled: the logs that these options ask for are empty, and the time is 0. */
void module_clear_logs(unsigned count, const CUjit_option *options, void **values);

/*
 * Loads one more copy of a module. It stays loaded for good, as all libraries with kernels do: a launch may still be in
 * a stream. CUDA_ERROR_INVALID_IMAGE or CUDA_ERROR_INVALID_PTX after a message.
 */
CUresult module_load(const void *data, struct module *module_p) __attribute__((warn_unused_result));

/* SOFTGPU_UNRULY: a kernel is loaded when it is asked for in a module, by cuFuncLoad() or at its first launch. True: it
 * was not until now. */
bool kernel_load(struct kernel *kernel);

/* The kernel behind a CUfunction, or behind a CUkernel passed in its place. */
CUresult kernel_from_function(CUfunction function, struct kernel **kernel_p) __attribute__((warn_unused_result));

/* Threads per block, and bytes of dynamic shared memory, that this kernel may be launched with. */
unsigned kernel_thread_limit(const struct kernel *kernel);
int kernel_shared_limit(const struct kernel *kernel);

/* ---- unruly.c: SOFTGPU_UNRULY ---- */

/* In the stream's thread: what its next launch is drawn from; 0 without the switch. Comes of the seed, the run, the
 * rank, the physical device, the stream and how many launches it has had. */
uint64_t unruly_draw(struct stream *stream);

/* In a stream's thread, before a command: lets a drawn time pass, mostly none. `random` is the stream's. */
void unruly_lag(uint64_t *random);

enum { RESIDENT_BLOCKS = 256 };

/* The blocks of a launch that have started, as far as the program can see, and wait for their turn. */
struct window {
    pthread_mutex_t lock; /* guards all below */
    const struct softgpu_image *image;
    uint64_t random;
    uint64_t next, block_count; /* blocks become resident in ascending order: the next */
    bool ascends;               /* they are taken in that order, too */
    uint64_t taken, seen;       /* how many were taken; and at the last window_is_stuck(), before it UINT64_MAX */
    unsigned count;
    uint64_t resident[RESIDENT_BLOCKS];
};

void window_open(struct window *window, const struct softgpu_image *image, uint64_t draw, uint64_t block_count);
bool window_take(struct window *window, uint64_t *block_p); /* false: none is left */
void window_close(struct window *window);                   /* none is left from now on */
bool window_is_open(struct window *window);

/* No block was taken since the last call, and some wait: one that runs may wait for them. From then on the lowest is
 * taken first, in this launch and in later ones of the kernel, and another thread has to help. */
bool window_is_stuck(struct window *window);

/* ---- timeout.c: SOFTGPU_TIMEOUT_S ---- */

/* A launch that runs. */
struct timed_launch {
    struct timed_launch *next;
    const char *kernel;
    const struct softgpu_launch *launch;
    uint64_t number; /* the first launch of the process has number 1 */
    uint64_t ticks;
};

/* Between these two calls a launch runs: if that takes too long, the program ends. The caller owns `timed`, `image` and
 * `launch`, which stay until timeout_end(). Any thread. */
void timeout_begin(struct timed_launch *timed, const struct softgpu_image *image, const struct softgpu_launch *launch);
void timeout_end(struct timed_launch *timed);

/* ---- workers.c ---- */

/* The kernel that the calling thread runs; NULL: none. */
const char *workers_kernel(void);

/* So many characters of a kernel's name stand in a line. That of a template's instance can be longer than the line. */
enum { KERNEL_NAME_SHOWN = 300 };

/* Runs all blocks of a launch on the calling thread and, if SOFTGPU_WORKERS asks for it, on helpers. */
void workers_run(struct context *context, const struct softgpu_image *image, const struct softgpu_launch *launch,
                 uint64_t block_count);

#include "guard.h" /* mapping.c, strict.c, fault.c */

#endif
