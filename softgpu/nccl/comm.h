/*
 * comm.h - struct ncclComm: a communicator's life from ncclCommInitRank to ncclCommDestroy, and how the library reports
 * errors.
 *
 * Private to the library. A communicator is used by one thread at a time, as NCCL asks; visit.h checks that, and has
 * the exceptions.
 */
#ifndef SOFTGPU_NCCL_COMM_H
#define SOFTGPU_NCCL_COMM_H

#include "library/driver.h"
#include "nccl/bootstrap.h"
#include "nccl/conduct.h"
#include "nccl/exchange.h"
#include "nccl/work.h"

#include <nccl.h>
#include <pthread.h>
#include <stdbool.h>

#define COMM_MAGIC 0x6c63636eu

/* Reduction operators of one communicator made by ncclRedOpCreatePreMulSum. */
enum { PREMULSUM_MAX = 256 };

struct premulsum {
    bool is_used;
    ncclDataType_t type;
    const void *device_scalar; /* read when the operation runs; NULL: `value` */
    unsigned char value[8];    /* one element */
};

enum comm_stage {
    COMM_INITIALISING,
    COMM_READY,
    COMM_FINALIZING,
    COMM_FINALIZED,
    COMM_BROKEN, /* initialisation failed */
};

struct ncclComm;

/* Where a communicator comes from, if not from a unique id that the program hands round: from another one. */
struct comm_origin {
    struct ncclComm *parent; /* NULL: from comm->id; otherwise it outlives the initialisation */
    /* Finds id, rank and rank_count (0: this rank is in none of the new ones), in the thread that initialises. The
     * reason of a failure goes into init_error. */
    ncclResult_t (*meet)(struct ncclComm *comm);
    int color, key;                      /* of a split */
    bool is_excluded[SEGMENT_MAX_RANKS]; /* of a shrink */
    uint64_t note_tag;                   /* of a shrink: the note with the unique id */
};

/* The sets of ranks that a communicator has shrunk to, as numbers, in order. */
enum { SHRINKS_MAX = 64 };

struct comm_shrinks {
    int count;
    uint64_t sets[SHRINKS_MAX];
};

/* A stream capture in which the communicator has operations. */
struct comm_capture {
    uint64_t id;    /* 0: none */
    CUevent behind; /* recorded in the capture, after the last of them; NULL before the first use */
};

/* The captures that a communicator can be part of at the same time. */
enum { CAPTURES_MAX = 8 };

/* Memory that was registered; its handle. */
struct registration {
    const char *buffer;
    size_t bytes;
    struct registration *next;
};

struct ncclComm {
    uint32_t magic; /* COMM_MAGIC; 0 once destroyed */
    struct comm_origin origin;
    struct exchange exchange;
    ncclUniqueId id;
    int rank;
    int rank_count;
    bool is_blocking;
    CUdevice device;
    CUcontext context; /* the one that was current at initialisation; every launch is made in it */

    _Atomic uint64_t visit;   /* the thread that is inside the library with it, and its call; 0: none. See visit.c */
    int visit_depth;          /* that thread's */
    struct work *work;        /* not blocking: the last call's, until the program asks how it went; or NULL */
    ncclResult_t work_result; /* the first error of such a call */

    struct conduct conduct;
    CUdeviceptr taken; /* SOFTGPU_NCCL_TAKES; 0: nothing */
    /* Touched by what enqueues operations; see connect.h. */
    unsigned connected;                           /* algorithms, a bit for each */
    uint32_t connections_begun, connections_made; /* by all ranks in the same order */
    uint32_t meetings;

    struct bootstrap_wait wait;
    bool has_worker; /* a thread initialises or finalizes; joined before the next step */
    pthread_t worker;
    _Atomic int stage;        /* enum comm_stage */
    ncclResult_t init_result; /* valid once stage is COMM_BROKEN, and so is the text */
    struct bootstrap_error init_error;

    /* Recorded after each operation, in a graph each time that it is launched: the next one, wherever it is, comes
     * after it. NULL before the first. */
    CUevent last_operation;
    CUstream last_stream;                       /* valid while nothing has been captured */
    struct comm_capture captures[CAPTURES_MAX]; /* the oldest one is forgotten for a new one */
    unsigned capture_count;                     /* captures so far */
    struct ncclComm *next_ended;                /* comm.c keeps what graphs may still refer to */
    struct premulsum premulsums[PREMULSUM_MAX];
    struct comm_shrinks shrinks;
    struct registration *registrations;
};

/*
 * Keeps `text` for ncclGetLastError, prints it if NCCL_DEBUG asks for warnings, and returns `result`. Any thread.
 */
ncclResult_t nccl_error(ncclResult_t result, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* "name failed with CUDA_ERROR_..." as an error of kind ncclUnhandledCudaError; ncclSuccess for CUDA_SUCCESS. */
ncclResult_t nccl_cuda(CUresult result, const char *name);

/* NULL and destroyed communicators are ncclInvalidArgument. */
ncclResult_t comm_check(const struct ncclComm *comm, const char *call);

/* As above, and the communicator must be ready for an operation: an asynchronous error is returned as it is. By the
 * visitor. */
ncclResult_t comm_check_ready(struct ncclComm *comm, const char *call);

/* Makes a communicator and starts the thread that initialises it, in the current context (without one:
 * device 0). */
ncclResult_t comm_start(struct ncclComm **comm_p, int rank_count, const ncclUniqueId *id, int rank, bool is_blocking);

/* The same for one that comes from another; it has its parent's device and link. */
ncclResult_t comm_start_child(struct ncclComm **comm_p, const struct comm_origin *origin, bool is_blocking);

/* Waits for that thread. On failure, and where this rank has no part in it, destroys the communicator and clears
 * *comm_p; returns why. */
ncclResult_t comm_finish_start(struct ncclComm **comm_p);

/* Takes `blocking` out of a configuration (may be NULL); *is_blocking_p stays as it is if that does not say. */
ncclResult_t comm_config(const ncclConfig_t *config, bool *is_blocking_p);

/* The result of the last call of a communicator that does not block; ncclInProgress while it is under way. */
ncclResult_t comm_work_state(struct ncclComm *comm);

/* Waits until the last call of a communicator that does not block is done. */
void comm_end_work(struct ncclComm *comm);

/* Waits until all operations so far are done, or have failed. */
void comm_wait_for_operations(struct ncclComm *comm);

/* Waits for the thread that initialises or finalizes, if there is one. */
void comm_join_worker(struct ncclComm *comm);

/* What ncclCommFinalize does: waits for the operations, in a thread if the communicator does not block. */
ncclResult_t comm_finalize(struct ncclComm *comm);

/* Waits for all that is under way, leaves the others in order unless that has failed or was aborted, and frees it. */
void comm_end(struct ncclComm *comm);

/* Makes the communicator's context current; *previous_p is for comm_leave_context(). */
CUresult comm_enter_context(const struct ncclComm *comm, CUcontext *previous_p);
void comm_leave_context(const struct ncclComm *comm, CUcontext previous);

#endif
