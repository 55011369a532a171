/*
 * state.h - the engine's state that every layer knows: what is constant, the device, the lock and the role. What a
 * folder alone knows of is in its own header.
 *
 * One step: the hook of a launch calls touches_begin() (step/touches.c), the driver, and touches_end(). hits_look()
 * (memory/operand_resolve.c) finds the annotated memory that the kernel reaches; after its last touch a gradient is
 * ready (bucketing/readiness.c). When all gradients of the next bucket are, launch_ready() (send/bucket_launch.c) takes
 * the issuer's role, makes the communication stream wait for the touching streams, and packs and reduces the bucket
 * (send/speculation.c, comm/): gradients keep this rank's values. DDP_STEP is boundary_step() (step/boundary.c):
 * step_open() takes the role and compares the ranks' steps; launch_at_boundary() sends the rest, sends once more what
 * was written after it was packed, and writes the averages; step_release() hashes parameters and makes the trainer's
 * stream wait; planner_vote() (plan/planner.c) may change the plan; role_give() gives the role back. Captures go
 * through step/graph_step.c, launches of graphs through step/graph_launch.c: values that differ from step to step are
 * in device memory, written before the launch. abort.c is the only way to end the job.
 *
 * A step is judged before the program uses it (judgement.c). The judgements, and where the program is held for them:
 *
 *     verify/checks.c        parameters, their bits              judgement_end_step(), in a graph's launch, too
 *     verify/values.c        parameters, their values            values_look(), on all ranks at once
 *     memory/weights.c       weights and shares of all ranks     judgement_wait(JUDGED_IN_NEXT): the next step
 *     verify/unaveraged.c    parameters before the first step    nowhere: the watch thread ends the job
 *     verify/forgotten.c     parameters without annotation       nowhere: nothing ends
 *
 * The rules of this folder and of all above it:
 * - The lock, engine_mutex, is not held across a call into CUDA or NCCL, nor where ranks wait for each other: what
 * looks at the results of these calls says WITHOUT_LOCK.
 * - `issuing` is the role of the one thread that enqueues collectives; it is taken and given back under the lock, and
 * held across such calls.
 * - Each field of this header, of memory_state (memory.h) and of groups (group.h) says what guards it, and clang holds
 * the code to that (capability.h). A function that needs the lock says WITH_LOCK, one that needs the role BY_ISSUER.
 * Fields guarded by group_fields are written by the issuer under the lock, and read with either: the issuer takes the
 * lock by issuer_lock(), others by engine_lock().
 * - What the engine calls of CUDA are the driver's own functions (comm/driver.h): they never come back to the hooks.
 * - In the trainer's process nothing is printed to stdout, and only abort.c ends anything.
 * - A folder calls what stands below it (interpose/engine/README.md), and no two files call each other in a circle.
 */
#ifndef DDPRUN_INTERPOSE_ENGINE_CORE_STATE_H
#define DDPRUN_INTERPOSE_ENGINE_CORE_STATE_H

#include "base/protocol.h"
#include "bucketing/plan.h"
#include "comm/collectives.h"
#include "comm/control.h"
#include "comm/driver.h"
#include "comm/nccl.h"
#include "comm/rendezvous.h"
#include "interpose/engine.h"
#include "interpose/engine/core/capability.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { STREAMS_AT_MOST = 64 }; /* that touch gradients between two boundaries; bits of a mask */

/* Bits of engine_state.off: what an observer, which looks itself, switches off when it opens. */
enum engine_off {
    OFF_LAUNCH_FILTER = 1, /* each launch is reported */
    OFF_NONFINITE = 2,     /* verify/nonfinite.c */
    OFF_UNAVERAGED = 4,    /* verify/unaveraged.c */
    OFF_FORGOTTEN = 8,     /* verify/forgotten.c */
    OFF_TRIALS = 16,       /* plan/trials.c */
};

/* How often addresses of tensors were copied to the device, at some time (engine_state). */
struct escape_count {
    uint64_t all, certain;
};

/* A stream on which gradients were touched. */
struct stream_entry {
    CUstream handle;     /* NULL: the entry is free */
    pid_t owner;         /* of CU_STREAM_PER_THREAD: the thread; else 0 */
    bool destroyed;      /* its event holds its last state */
    CUevent event;       /* last recorded when its work was last waited for */
    uint64_t waited_for; /* number of the boundary whose reduction it waits for */
};

/*
 * For clang alone. The lock shares group_fields, and so does the issuer's role: either may read. Both together have it:
 * the issuer may write under the lock.
 */
extern struct capability issuer_role, group_fields;

extern pthread_mutex_t engine_mutex; /* "the lock" */
extern pthread_mutex_t
    captures_mutex; /* of graphs/captures.c: taken after it, and not held across such a call either */

struct engine_state {
    /* ---- constant once the engine has started ---- */
    const struct shim_services *services;
    struct rank_status *status;
    struct job_options options; /* a copy of the launcher's: see ddprun_engine_start() */
    struct rendezvous rendezvous;
    struct control control;
    int status_count, status_index; /* records of the ranks of this launcher; which is `status` */
    pid_t pid;
    const struct observer *observer; /* observer.h; NULL in a job */
    const struct watcher *watchers;  /* observer.h: [WATCHES] */
    void (*before_wait)(void);       /* send/serve.c: serve_before_wait() */
    void (*serves)(void);            /* send/serve.c: serve_request() */
    unsigned off;                    /* of enum engine_off: what an observer has switched off */
    uint64_t trust_after;            /* steps in a row without a repair after which --commit trust begins */
    bool sends_at_step;              /* for tests: buckets of a plan are sent at DDP_STEP all the same */
    bool alone;                      /* a world of one, in which nothing is averaged and nothing is recorded */

    /* ---- set once, at the first annotation of memory ---- */
    struct driver driver;
    _Atomic bool driver_ready;
    CUcontext context; /* of the annotated memory: current in every call of the engine */
    int device;        /* its ordinal */
    struct nccl nccl;
    struct collectives collectives;
    CUevent reduced; /* the issuer records it after everything of a boundary, whichever group's */
    _Atomic bool collectives_ready;

    /* ---- guarded by the lock ---- */
    pthread_cond_t role_free; /* signalled when `issuing` becomes false */
    bool issuing GUARDED_BY(engine_mutex);

    struct stream_entry streams[STREAMS_AT_MOST] GUARDED_BY(engine_mutex);

    /* What a tensor's place means, which graphs keep: it holds while `placements` stays as it is. */
    size_t tensor_count GUARDED_BY(engine_mutex); /* places in memory_state.tensors[] */
    uint64_t placements GUARDED_BY(engine_mutex); /* gradients and buffers came, went or moved */
    _Atomic uint64_t escapes;                     /* tensors that were deferred, so far */
    _Atomic uint64_t certain_escapes; /* copies that did that and are full of addresses: no chance hits (memory/) */

    /* ---- read without lock ---- */
    _Atomic unsigned watching;        /* mask of enum watch: those that are on */
    _Atomic uint64_t operation_count; /* that hooks have reported, whatever they touch */
    _Atomic uint64_t boundary_count;  /* of all groups; written by the issuer */
    _Atomic uint64_t stream_changes;  /* streams destroyed, captures begun */
    _Atomic unsigned captures_open;   /* seen to begin, and not to end */
    _Atomic uint64_t graph_count;     /* captures with DDP_STEP on which ranks have agreed */
    _Atomic uint64_t turn_regions;    /* so many have begun (DDP_TURN_BEGIN): then all ranks load the same batches */

    /* ---- the issuer's role ---- */
    uint64_t graph_launches GUARDED_BY(issuer_role); /* of graphs with DDP_STEP, since graph_count last grew */

    /* ---- the end ---- */
    _Atomic bool device_closed; /* our end has been made, on the device */
    bool alone_at_end;          /* a rank had left when this one reached the end: no collective any more */
    _Atomic bool context_ended; /* the trainer has reset the device: no call into CUDA any more */
};

extern struct engine_state engine_state;

#define WITHOUT_LOCK     EXCLUDES(engine_mutex, captures_mutex)
#define WITH_LOCK        REQUIRES(engine_mutex) REQUIRES_SHARED(group_fields)
#define BY_ISSUER        REQUIRES(issuer_role) REQUIRES_SHARED(group_fields)
#define ISSUER_WITH_LOCK REQUIRES(engine_mutex, issuer_role, group_fields)
#define TAKES_ROLE       ACQUIRES(issuer_role) ACQUIRES_SHARED(group_fields)
#define GIVES_ROLE       RELEASES(issuer_role) RELEASES_SHARED(group_fields)

/* A thread that does not have the issuer's role. */
static inline void
engine_lock(void) ACQUIRES(engine_mutex) ACQUIRES_SHARED(group_fields)
{
    pthread_mutex_lock(&engine_mutex);
    capability_share(&group_fields);
}

static inline void
engine_unlock(void) RELEASES(engine_mutex) RELEASES_SHARED(group_fields)
{
    capability_give(&group_fields);
    pthread_mutex_unlock(&engine_mutex);
}

/* The issuer. */
static inline void
issuer_lock(void) REQUIRES(issuer_role) ACQUIRES(engine_mutex) RELEASES_SHARED(group_fields) ACQUIRES(group_fields)
{
    pthread_mutex_lock(&engine_mutex);
    capability_give(&group_fields);
    capability_take(&group_fields);
}

static inline void
issuer_unlock(void) REQUIRES(issuer_role) RELEASES(group_fields) RELEASES(engine_mutex) ACQUIRES_SHARED(group_fields)
{
    capability_give(&group_fields);
    capability_share(&group_fields);
    pthread_mutex_unlock(&engine_mutex);
}

/* What an expression is with the lock held: for a thread that does not have the issuer's role, and for the issuer. */
#define LOCKED(expression)                  \
    __extension__({                         \
        engine_lock();                      \
        __auto_type locked_ = (expression); \
        engine_unlock();                    \
        locked_;                            \
    })
#define ISSUER_LOCKED(expression)           \
    __extension__({                         \
        issuer_lock();                      \
        __auto_type locked_ = (expression); \
        issuer_unlock();                    \
        locked_;                            \
    })

/* ---- buckets as they are sent: those of a group outside of graphs, or those of one captured step ---- */
/* What calls of DDP_WEIGHT add up to: this rank's items, and all ranks' together. 0 of 0: there was none. */
struct weight {
    uint64_t count, total;
};

/* A bucket that may be launched before its boundary: send/speculation.c. */
struct speculation {
    bool is_allowed;         /* the same on all ranks */
    struct bucket_wire wire; /* packed into memory of the shipment's */
    bool is_early;           /* in this interval it was launched before the boundary */
    bool was_early;          /* the same of the last step that was committed on trust */
    double factor;           /* what this rank's gradients were multiplied with then */
    bool is_compared;        /* at this boundary a kernel has found out whether it is stale */
    uint64_t stale_steps;    /* on any rank, in the last 64 steps: a bit for each; the same on all ranks */
};

/* How many words of 32 bits a step of so many buckets adds up: one of each bucket, and one that is known. */
#define SPECULATION_WORDS(bucket_count) ((size_t)(bucket_count) + 1)

/* The issuer's. */
struct shipment {
    const struct plan *plan;
    struct bucket_wire *wires; /* [wire_count]: one for each of the plan's buckets, as it is sent at its boundary */
    struct speculation *speculations; /* [wire_count] */
    size_t wire_count;
    CUdeviceptr packed; /* memory that buckets are packed into; 0: none */
    size_t packed_bytes;
    bool owns_packed;   /* else another shipment does */
    size_t *send_order; /* places among the plan's pieces: within each bucket as its members are sent */
};

#endif
