/*
 * engine.h - the whole contract between the shim (libddprun.so) and the engine (libddprun-engine.so).
 *
 * The shim is in every process of a rank's process tree and needs nothing but libc; the engine has all the dependencies
 * and is loaded by the shim, with RTLD_LOCAL, when a process becomes the rank. They are built together: bump ENGINE_ABI
 * when a field changes its meaning or place, and each refuses another version than its own.
 *
 * Threads: unless said otherwise, every function may be called in any thread. The engine's calls into CUDA never come
 * back to the hooks: it uses the driver's own pointers.
 */
#ifndef DDPRUN_INTERPOSE_ENGINE_H
#define DDPRUN_INTERPOSE_ENGINE_H

#include "interpose/include/ddprun.h"

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ENGINE_ABI   28u
#define ENGINE_ENTRY "ddprun_engine_start"

/* What a call does with an operand, by its documentation. */
enum operand_access {
    ACCESS_UNKNOWN = 0, /* the call is one of the driver's, or its documentation leaves it open */
    ACCESS_READ,        /* never written */
    ACCESS_WRITE,       /* written, and perhaps read */
};

/* Of `argument`: entry i of a list that is argument a has the place a | i << OPERAND_LIST_SHIFT. */
enum { OPERAND_LIST_SHIFT = 16 };

/* Which bytes of an operand are meant, where that is not all of them: `bytes` at each of `inner_count` places that are
 * `inner_stride` apart (the columns of a matrix, the elements of a vector), and that `outer_count` times,
 * `outer_stride` apart (a batch). Between them may lie other gradients. */
struct pieces {
    size_t bytes; /* 0: the operand has no holes, and the rest means nothing */
    size_t inner_count, inner_stride;
    size_t outer_count, outer_stride;
};

/* Device memory that an operation names: [address, address + bytes). bytes = 1: only a pointer into it is known. */
struct operand {
    uint32_t argument; /* place in the call's argument list */
    CUdeviceptr address;
    size_t bytes;
    struct pieces pieces;
    enum operand_access access;
    const char *name; /* what the call's documentation calls it ("C", "bias"), static storage; or NULL */
    uint32_t type;    /* enum ddp_type of its elements, where the call says that it is a float; else 0 */

    /* Not 0: [address, address + bytes) is read, and holds so many device pointers; the operation goes through each of
     * them, and does there what `access` says. What the pointers are cannot be seen in the call: an engine that does
     * not know them takes the operation for opaque. */
    size_t pointer_count;
};

/* One call that enqueues work, as its hook saw it. Lives on the hook's stack, from `begin` to `end`. */
struct operation {
    const char *name;         /* symbol of the hooked function; static storage */
    CUstream stream;          /* never NULL: CU_STREAM_LEGACY or CU_STREAM_PER_THREAD where the caller said 0 */
    struct operand *operands; /* [operand_count], the hook's: they live as long as the operation */
    unsigned operand_count;
    const void *host_source; /* of a copy from the host: host_bytes bytes; else NULL */
    size_t host_bytes;
    bool opaque;                  /* enqueues work that cannot be looked into */
    bool answers;                 /* returns a result that the device has computed */
    CUgraphExec graph;            /* of a graph's launch, else NULL: the engine knows what was captured */
    CUfunction function;          /* of a launch, else NULL: the engine looks at its parameters */
    void *const *params;          /* kernelParams of the launch, or NULL */
    void *const *extra;           /* `extra` of the launch, or NULL */
    void *notes;                  /* the engine's, NULL when the operation touches nothing tracked */
    const CUlaunchConfig *config; /* of a launch, else NULL: its grid, its attributes */

    /* Set by `end`: the same call is to be made once more, with `end` after it, and without `begin` before. Only an
     * engine that has waited for the call's work may ask for it. */
    bool again;

    /* Set by `begin`: the call is not made, and answers success; then comes `end`, as if it had been. */
    bool skip;
};

enum memory_kind {
    MEMORY_DEVICE,  /* the host cannot read it */
    MEMORY_MANAGED, /* the host can, at the cost of moving it */
    MEMORY_HOST,    /* the host's own, pinned */
    MEMORY_MAPPED,  /* a chunk of an address range: the host cannot read it, and another chunk may follow */
    MEMORY_PINNED,  /* the host's own, pinned by cuMemHostRegister: it is there before and after that */
};

/* Launches that hooks let pass because they touch no gradient: for reports, so that some may be lost. */
struct shim_launches {
    uint64_t count;
    CUfunction last; /* of all launches */
};

/* Of element types that calls of libraries have named, those that are narrower than a float; a bit for each. */
enum library_type { LIBRARY_FLOAT16 = 1, LIBRARY_BFLOAT16 = 2 /* and narrower ones */ };

/* What the shim offers to the engine. */
struct filter;
struct shim_services {
    unsigned abi; /* ENGINE_ABI */

    /* The driver's own function `name` as of `version` (as cuGetProcAddress takes them), plain stream flavour; NULL if
     * the driver does not have it, or if no driver was seen yet. */
    void *(*driver_function)(const char *name, int version);

    /* Loads the driver where the program has not: its annotated memory may all be the host's. False: there is none. */
    bool (*load_driver)(void);

    /* Code of the loaded library that holds `address` gets the driver's own pointers from now on. For NCCL. */
    void (*exempt_library)(const void *address);

    /* The calling thread enters and leaves NCCL: what it calls of CUDA meanwhile, and what threads call that it starts
     * there, is not reported. In pairs. */
    void (*inside_nccl)(bool is_inside);

    /* Calls that the shim could only record, since the process started: unknown versions, and RECORDED ones. */
    uint64_t (*unknown_calls)(const char **name_p);

    /* What hooks of launches compare with before they call the engine; see interpose/filter.h. The engine writes it. */
    struct filter *filter;

    /* Written by the hooks in any thread, with plain instructions; to be read as such, word by word. */
    const struct shim_launches *launches;

    /* Of enum library_type, so far; to be read with an atomic load. */
    const uint32_t *library_types;

    const bool *holds; /* while true, no gradient is sent before its step; to be read with an atomic load; or NULL */
    bool by_plan;      /* annotations come from a plan: all ranks see the same data, and compute some of it each */
};

/* What the engine offers to the shim. Functions that get `site` end the job when they fail. No stream is NULL. */
struct engine {
    unsigned abi; /* ENGINE_ABI */
    int rank;
    int world_size;
    int local_rank;
    bool watching; /* hooks report operations; false in a world of one, where only frees are reported */

    void (*parameter)(void *ptr, size_t count, int type, const struct ddp_site *site);
    void (*gradient)(void *ptr, size_t count, int type, const struct ddp_site *site);
    void (*gradient_group)(int id, const struct ddp_site *site);
    void (*step)(int group, void *stream, const struct ddp_site *site);
    void (*step_parameters)(int group, void *stream, const struct ddp_site *site);
    /* `type`: DDP_FLOAT32 or DDP_FLOAT64; `label` NULL: called as the site's text. */
    void (*mean)(const char *label, void *value, int type, const struct ddp_site *site);
    /* Whether a rank's flag is not 0. `site` lives as long as the call. */
    int (*any)(volatile int *flag, const struct ddp_site *site);
    void (*shard)(size_t total, size_t *first, size_t *count, const struct ddp_site *site);
    void (*forget)(void *ptr, const struct ddp_site *site);
    void (*no_sync)(int begins, const struct ddp_site *site);
    void (*buffer)(void *ptr, size_t count, int type, const struct ddp_site *site);
    void (*gradient_ready)(void *ptr, void *stream, const struct ddp_site *site);
    void (*state)(void *ptr, size_t count, int type, const struct ddp_site *site);
    void (*weight)(size_t count, size_t total, const struct ddp_site *site);
    /* As in struct ddp_interface. */
    uint64_t (*turn_begin)(const struct ddp_site *site);
    void (*turn_end)(uint64_t region, const struct ddp_site *site);
    int (*turn_mine)(void);
    int (*turn_updates)(void);
    void (*reduce)(void *ptr, size_t count, int type, int op, void *stream, const struct ddp_site *site);
    /* This rank's program has ended, and ranks still average: waits until all programs have ended. The job ends if a
     * rank that has not ended waits for this one. */
    void (*programs_end)(void);

    /* Around each hooked operation: before it goes to the driver, and after the driver answered. */
    void (*begin)(struct operation *operation);
    void (*end)(struct operation *operation, bool enqueued);

    /* Memory that the device reaches exists: *address and `bytes` bytes on; bytes = 0: the driver knows how many. An
     * address in memory that was not reported is never looked for among copied addresses. `address` may be NULL. */
    void (*allocated)(const CUdeviceptr *address, size_t bytes, enum memory_kind kind);

    /* A copy is about to bring `rows` rows of `bytes` bytes each, `pitch` bytes apart, from the host to the device:
     * called before `begin`, any number of times, for what struct operation cannot say. pitch = 0: the call itself
     * holds the bytes, and the same in each launch if it is captured. */
    void (*copied_from_host)(const void *source, size_t bytes, size_t pitch, size_t rows);

    /* A tensor map was encoded with this address, in a world of more than one; `done`: whether the driver did it. */
    void (*tensor_map_encoded)(CUdeviceptr address, bool done);

    /* The driver's call that follows may wait for all work of the device: it gives memory back, or loads code. */
    void (*may_wait)(bool loads);
    /* This thread is about to wait for a stream, an event or the device, by a call of the driver. NULL: not needed. */
    void (*wait_begins)(void);
    /* The whole device is about to be waited for, by a call of the driver. NULL: not needed. */
    void (*waits)(void);

    /* This thread has waited for a stream, an event, or the device, or has found that work is done; the driver's call
     * is over. NULL: not needed. */
    void (*waited)(void);
    /* By the call that follows, a result of the device may leave it: to the host, or to another process. `for_good`:
     * the other process may look at any time from then on. NULL: not needed. */
    void (*leaves)(bool for_good);

    /* Device memory from `address` on goes; bytes = 0: the allocation that begins there. Before the driver's call. */
    void (*before_release)(CUdeviceptr address, size_t bytes);
    void (*before_stream_destroy)(CUstream stream);
    void (*before_context_destroy)(CUcontext context);
    void (*before_device_reset)(CUdevice device);    /* its primary context goes, even if others hold it */
    void (*before_primary_release)(CUdevice device); /* the trainer gives its hold of the primary context back */

    /* A library has given out kernels[0 .. room): fewer if `library` is not NULL and has fewer. `done`: whether the
     * driver has filled them in. */
    void (*kernels_found)(const CUkernel *kernels, unsigned room, CUlibrary library, bool done);

    /* Around the unloading of a module: its kernels' handles may be used again, and its variables are gone. */
    void (*before_unload)(void);
    void (*after_unload)(void);

    /* Captures and graphs, in a world of more than one. Called after the driver unless it says before; `done`: whether
     * the driver has done what it was asked for, else what pointers point to means nothing. */
    void (*capture_begun)(CUstream stream, bool into_graph, bool done); /* into_graph: of the trainer's own making */
    void (*capture_changes)(CUstream stream); /* before: what comes next depends on other nodes than came last */
    void *(*capture_ends)(CUstream stream);   /* before; for: */
    void (*capture_ended)(void *ended, const CUgraph *graph, bool done);
    void (*graph_cloned)(CUgraph from, const CUgraph *clone, bool done);
    /* An executable graph, with these flags of its instantiation. */
    void (*graph_made)(CUgraph from, const CUgraphExec *made, uint64_t flags, bool done);
    void (*graph_updated)(CUgraphExec exec, CUgraph graph, bool done);
    void (*graph_goes)(void *handle); /* before; of a graph or of an executable one; then: */
    void (*graph_gone)(void *handle, bool done);
    void (*graph_changes)(CUgraph graph, const char *call); /* before: nodes come, or dependencies go */
    void (*graph_nested)(CUgraph graph, const char *call);  /* before: it becomes a part of another */
    /* Before a node of a graph, or of an executable one if that is not NULL, does other work, or goes (opaque). */
    void (*node_changes)(CUgraphExec exec, CUgraphNode node, struct operation *work);

    /* In a forked child, from the fork handler: forget descriptors that the child must not hold. Async-signal-safe. */
    void (*after_fork_in_child)(void);
    void (*end_in_order)(void); /* at the program's end, or before: all ranks come; the job's training is over */
};

/* Starts the engine: joins the job, finds out rank and world. Returns the engine, which lives as long as the process,
 * or does not return (the job ends with a message). `status` is this rank's record in the status page. */
struct rank_status;
typedef const struct engine *(*engine_start_fn)(const struct shim_services *services, struct rank_status *status);

#endif
