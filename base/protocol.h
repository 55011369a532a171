/*
 * protocol.h - everything that passes between `ddprun` and the processes that it starts, in one place.
 *
 * Down: environment variables (below), the job folder (mode 0700, made and removed by the launcher), and in it the
 * options, at the end of the status page. Both ways: supervisor_link.h. Up: the status page, a file in the job folder
 * that both map. It outlives a rank that is killed, so the launcher can always say how far each rank came.
 *
 * Bump DDPRUN_PROTOCOL_VERSION when the meaning of a variable or the layout of the page changes: shim, engine and
 * launcher refuse to work with another version than their own.
 */
#ifndef DDPRUN_BASE_PROTOCOL_H
#define DDPRUN_BASE_PROTOCOL_H

#include "base/message.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define DDPRUN_PROTOCOL_VERSION 26

/*
 * ---- environment: launcher to shim and engine ----
 * Variables that only ddprun's own parts read begin with "_DDPRUN_"; those that users write or read, with "DDPRUN_".
 */
#define DDPRUN_ENV_PROTOCOL "_DDPRUN_PROTOCOL" /* decimal DDPRUN_PROTOCOL_VERSION; absent: the shim stays passive */
#define DDPRUN_ENV_JOB_DIR  "_DDPRUN_JOB_DIR"  /* absolute path of the job folder */
/* Records in the status file, one for each rank of this launcher, and which of them is this rank's. Decimal. */
#define DDPRUN_ENV_STATUS_COUNT "_DDPRUN_STATUS_COUNT"
#define DDPRUN_ENV_STATUS_INDEX "_DDPRUN_STATUS_INDEX"
/* Absolute path of the socket of base/supervisor_link.h. */
#define DDPRUN_ENV_SUPERVISOR "_DDPRUN_SUPERVISOR"
#define DDPRUN_ENV_ENGINE     "_DDPRUN_ENGINE" /* absolute path of libddprun-engine.so */

/* Decimal MiB by which cuMemGetInfo answers less (--reserve); absent: none, or a world of one. */
#define DDPRUN_ENV_RESERVE "_DDPRUN_RESERVE"
/* How many devices a rank that sees one GPU is shown: all of them are that one. Not set: one. */
#define DDPRUN_ENV_DEVICES "_DDPRUN_DEVICES"

/* What /proc/self/fd/1 leads to in a rank whose stdout ddprun made: written line by line; absent: left as it is. */
#define DDPRUN_ENV_STDOUT "_DDPRUN_STDOUT"

/* What --plan follows, in the job folder. */
#define DDPRUN_PLAN_NAME "plan"

/* From `python -m ddprun` to ddprun: the Python that starts a program *.py; absent or empty: none does. */
#define DDPRUN_ENV_PYTHON "_DDPRUN_PYTHON"
/* From the ddprun of a host to that of a rank on it: "LOCAL_RANK:RANKS" (launcher/cluster/launched.h). */
#define DDPRUN_ENV_MEMBER "_DDPRUN_MEMBER"
/*
 * From a ddprun to itself, across exec: "PID:COUNT:", the count of DDPRUN_ENV_RESTART, and how its attempts ended
 * (launcher/report/summary.h); of another process, it is of a ddprun around this one.
 */
#define DDPRUN_ENV_RESTARTED "_DDPRUN_RESTARTED"

/* For users' programs: decimal, how often --max-restarts has begun anew; absent: not yet. */
#define DDPRUN_ENV_RESTART "DDPRUN_RESTART"

/* For tests. Decimal ms after its first launch for which a program is given to annotate without a warning;
 * bucket_bytes of one rank, in place of what the launcher says; what a byte costs, in place of what is measured; 1:
 * the buckets of a learned plan are sent at DDP_STEP; 0: no trial switches overlap off, in programs so small that it
 * gains nothing; decimal ms after which a first collective is said not to end; and after how many steps without a
 * repair --commit trust begins. */
#define DDPRUN_ENV_UNANNOTATED_MS "DDPRUN_TEST_UNANNOTATED_MS"
#define DDPRUN_ENV_BUCKET_BYTES   "DDPRUN_TEST_BUCKET_BYTES"
#define DDPRUN_ENV_NS_PER_BYTE    "DDPRUN_TEST_NS_PER_BYTE"
#define DDPRUN_ENV_AT_STEP        "DDPRUN_TEST_AT_STEP"
#define DDPRUN_ENV_TRIALS         "DDPRUN_TEST_TRIALS"
#define DDPRUN_ENV_FIRST_MS       "DDPRUN_TEST_FIRST_MS"
#define DDPRUN_ENV_TRUST_AFTER    "DDPRUN_TEST_TRUST_AFTER"

/* Set for users' programs and scripts, with the names that torchrun made common. */
#define DDPRUN_ENV_RANK             "RANK"
#define DDPRUN_ENV_WORLD_SIZE       "WORLD_SIZE"
#define DDPRUN_ENV_LOCAL_RANK       "LOCAL_RANK"
#define DDPRUN_ENV_LOCAL_WORLD_SIZE "LOCAL_WORLD_SIZE"

#define DDPRUN_DEFAULT_BUCKET_BYTES   (25u << 20) /* until times are measured */
#define DDPRUN_DEFAULT_CHECK_EVERY    100
#define DDPRUN_DEFAULT_TIMEOUT_S      900
#define DDPRUN_DEFAULT_GRACE_S        30
#define DDPRUN_LONGEST_GRACE_S        86400
#define DDPRUN_DEFAULT_UNANNOTATED_MS 10000
#define DDPRUN_DEFAULT_NCCL           "libnccl.so.2"

/* What a gradient becomes: the mean over all ranks, or their sum. */
enum ddprun_reduction { DDPRUN_REDUCE_MEAN, DDPRUN_REDUCE_SUM, DDPRUN_REDUCTION_COUNT };

/* The type in which gradients of type float32 are sent. */
enum ddprun_compression {
    DDPRUN_COMPRESS_NONE,
    DDPRUN_COMPRESS_FP16,
    DDPRUN_COMPRESS_BF16,
    DDPRUN_COMPRESSION_COUNT,
};

/* When averages of buckets that were launched before DDP_STEP are used: when all ranks have found them right, and the
 * host knows; or on trust, before the host knows. */
enum ddprun_commit { DDPRUN_COMMIT_WAIT, DDPRUN_COMMIT_TRUST, DDPRUN_COMMIT_COUNT };

/* ---- job folder ---- */
#define DDPRUN_STATUS_FILE                                                                     \
    "status" /* DDPRUN_ENV_STATUS_COUNT records of struct rank_status, then struct job_options \
              */
#define DDPRUN_RANK_LOCK_FORMAT                                                                   \
    "rank-%d.lock" /* %d: its record's index; flock(LOCK_EX) held by the process that is the rank \
                    */

/*
 * The launcher's options that the engine needs; the same for all ranks of a launcher. The launcher's parser fills in
 * this very struct (launcher/options/options.def); it is written to the page before the first rank is started, and not
 * changed after that. Paths: NUL-terminated; empty: none.
 */
enum { JOB_PATH_BYTES = 4096 };
struct job_options {
    uint32_t protocol;              /* DDPRUN_PROTOCOL_VERSION */
    uint32_t reduction;             /* enum ddprun_reduction; this one and the next are the same on all ranks */
    uint32_t compression;           /* enum ddprun_compression */
    uint32_t commit;                /* enum ddprun_commit */
    uint64_t bucket_bytes;          /* upper bound of a bucket; 0: as measured */
    uint32_t check_every;           /* steps between two comparisons of parameter hashes; 0: never */
    uint32_t timeout_s;             /* for which a rank may wait for the others */
    uint32_t grace_s;               /* for which ranks may continue once a signal has asked for the end */
    bool overlap;                   /* false: reduce everything at the boundary */
    bool verify;                    /* check everything in every step */
    bool stop_on_nan;               /* NaN in parameters, or in a DDP_MEAN, ends the job */
    bool unannotated;               /* the user knows that nothing is averaged: no warning, no exit code for it */
    bool own_device;                /* each rank was given a device that no other rank has */
    char nccl[JOB_PATH_BYTES];      /* path or name to open as NCCL */
    char kernels[JOB_PATH_BYTES];   /* comm/kernels.h */
    char trace_dir[JOB_PATH_BYTES]; /* folder for rank-N.jsonl */
};

/* ---- exit codes that ddprun itself produces ---- */
#define DDPRUN_EXIT_FAILURE 1 /* a rank stopped the job with ddprun's message */
#define DDPRUN_EXIT_USAGE   2
#define DDPRUN_EXIT_NOT_RUN 127 /* the program cannot be started */

/* What DDP_MEAN found last at one place of the program. A place that is in use keeps its number. */
enum { RANK_MEANS_AT_MOST = 6 };
struct rank_mean {
    char name[32];          /* the annotated expression without '&', NUL-terminated; written before the place counts */
    char place[48];         /* "train.c:87" */
    _Atomic uint64_t step;  /* boundaries passed before it */
    _Atomic uint64_t value; /* bits of a double */
};

/* Values that the program averages. */
struct rank_told {
    _Atomic uint32_t mean_count;
    struct rank_mean means[RANK_MEANS_AT_MOST]; /* [mean_count] */
};

/*
 * How long the trainer's stream waited at one boundary, with the number of the boundary: the launcher compares what
 * ranks waited at the same one. Packed into one word, which is read whole; 0: none. RANK_EXPOSED_CONTROL: a control
 * step of a trial.
 */
#define RANK_EXPOSED_CONTROL (UINT64_C(1) << (RANK_EXPOSED_NS_BITS - 1))
enum { RANK_EXPOSED_STEPS = 256, RANK_EXPOSED_SPARSE = 16, RANK_EXPOSED_NS_BITS = 40 };

static inline uint64_t
rank_exposed_pack(uint64_t boundary, uint64_t ns)
{
    uint64_t most = RANK_EXPOSED_CONTROL - 1;
    return boundary << RANK_EXPOSED_NS_BITS | (ns < most ? ns : most);
}

/* The same place on all ranks, for boundaries in a row as well as for every RANK_EXPOSED_SPARSE-th. */
static inline unsigned
rank_exposed_place(uint64_t boundary)
{
    return (unsigned)((boundary + boundary / RANK_EXPOSED_SPARSE) % RANK_EXPOSED_STEPS);
}

/* A step whose buckets a rank has asked for, with the program that it is of: a launcher may hear of it late, and write
 * it into the record of the next program. */
static inline uint64_t
rank_wanted_pack(uint32_t generation, uint64_t step)
{
    return (uint64_t)generation << RANK_EXPOSED_NS_BITS | step;
}

enum rank_stage {
    RANK_STAGE_NONE = 0, /* nothing heard yet */
    RANK_STAGE_GATE, /* the shim answered a look-up of the CUDA driver in this rank's process tree, or a process becomes
                        the rank */
    RANK_STAGE_RANK, /* a process became the rank; its engine runs */
    RANK_STAGE_TRAINING, /* the first boundary was passed */
    RANK_STAGE_ENDED,    /* left cleanly; another program may follow it */
    RANK_STAGE_FAILED,   /* `failure` says why; written by the rank before it asks for the end of the job */
};

/* Where a rank waits whose program has reached its end: it will send nothing any more. */
#define RANK_PLACE_END "the end of the program"

/* Of a rank with fewer steps, and its left_out_step (rank_fields.def): its number, and that step as unsigned long
 * long. */
#define RANK_LEFT_OUT                                                                                                  \
    "DDP_STEP was left out on rank %d: its work before its DDP_STEP number %llu is that of two steps; all ranks must " \
    "make the same steps"

/* What a rank waits for on its device within DDP_STEP, when it has launched all buckets of the step. */
#define RANK_WAIT_COMPARISON "the comparison of buckets"

/* What a rank waits for that has launched a graph with collectives in it: others, or a kernel of the graph's own. */
#define RANK_WAIT_GRAPH "CUDA graph"

/* A call of the driver that the trainer is in, or was in last. Claimed for each call by its thread (RANK_CALLS_AT_ONCE
 * are seen at a time), and left as it is afterwards. */
enum { RANK_CALLS_AT_ONCE = 8, RANK_CALL_NAME_WORDS = 5 };
struct rank_call {
    _Atomic int32_t thread;                      /* its thread while it lasts; 0: it is over */
    _Atomic int32_t last_thread;                 /* the same, and kept */
    _Atomic uint64_t entered_ns, left_ns;        /* CLOCK_MONOTONIC; entered_ns as of a tick before */
    _Atomic uint64_t name[RANK_CALL_NAME_WORDS]; /* symbol of the hooked function, NUL-terminated */
};

/* Collectives that a rank has sent and that are not done, as its watch thread saw them last. */
enum rank_collective {
    RANK_COLLECTIVE_NONE = 0,
    RANK_COLLECTIVE_WAITS,  /* its device has reached the collective, and waits in it for other ranks */
    RANK_COLLECTIVE_BEHIND, /* its device has not done yet what was enqueued before the collective */
};

/* An infinite element or NaN that a rank was about to send. */
enum rank_nonfinite {
    RANK_NONFINITE_NONE = 0,
    RANK_NONFINITE_FOUND, /* which the program may leave out of the update: parameters were not looked at yet */
    RANK_NONFINITE_STAYS, /* parameters are not finite any more */
    RANK_NONFINITE_ENDS,  /* the same, with --stop-on-nan: the rank ends the job for it, with a line */
};

/* Whose doing a rank's failure is, and what its text names itself. */
enum rank_follows {
    RANK_FOLLOWS_NOBODY = 0, /* its own */
    RANK_FOLLOWS = 1,        /* what another rank's end did to it */
    RANK_MAY_FOLLOW = 2,     /* one or the other: a call that needs other ranks failed, and its message names no rank */
    RANK_SAYS_STEP = 3,      /* its own; the text names a step, which is not the rank's last */
    RANK_SAYS_ALL = 4,       /* its own, or that of all; the text names ranks and step */
};

/* What the types of rank_fields.def are in a record. */
#define RECORD_LONG   _Atomic uint64_t
#define RECORD_NUMBER _Atomic uint32_t
#define RECORD_FLAG   _Atomic uint32_t
#define RECORD_TEXT   char

/* One rank's record. Written by that rank only, read by the launcher; fields beyond `stage` are for messages and
 * reports. Texts may be seen half written. */
struct rank_status {
    _Atomic uint32_t protocol;   /* DDPRUN_PROTOCOL_VERSION once the rank has written anything */
    _Atomic uint32_t generation; /* how many programs were this rank before, one after the other */
    _Atomic uint32_t stage;      /* enum rank_stage; never decreases, but for the next generation */
    _Atomic int32_t pid;         /* the process that is the rank; a next generation clears all below, from `step` */
#define FACT(type, name, array, ...) RECORD_##type name array;
#include "base/rank_fields.def"
    struct rank_told told;            /* the program, of itself */
    _Atomic uint32_t failure_follows; /* enum rank_follows: what `failure` is (set before stage) */

    /* What this rank waits for: on the host at `place`, and on the device for a collective. Times: CLOCK_MONOTONIC. */
    _Atomic uint32_t waits;           /* 1: this rank waits for the others at `place` (written before) */
    _Atomic uint64_t waits_ns;        /* since when */
    char place[128];                  /* such as "the end of the program" */
    _Atomic uint64_t watch_ns;        /* when the watch thread looked last: what follows is as of then */
    _Atomic uint32_t collective;      /* enum rank_collective */
    _Atomic uint64_t collective_ns;   /* since when it is so */
    _Atomic uint64_t collective_step; /* the step, from 1, that it belongs to */
    char collective_text[64];         /* such as "bucket 3 of step 8" */
    _Atomic uint64_t wait_count;      /* grows whenever a rank waits for something else, on the host or on the device */

    /* What it does. A rank makes progress while these grow. */
    _Atomic uint64_t call_count; /* hooked calls that returned, but for launches that touch no gradient */
    struct rank_call calls[RANK_CALLS_AT_ONCE];
    _Atomic uint64_t launch_count; /* launches that touch no gradient, as the watch thread has seen them, */
    _Atomic uint64_t launch_ns;    /* when it saw the last of them, */
    char kernel[128];              /* and the kernel that was launched last, if its name is known */

    struct warnings warnings;

    /* A signal that is about to end it, and waits until the launcher has taken its stacks (interpose/shim/crash.c): */
    _Atomic uint32_t crash;          /* its number, written last; 0: none */
    _Atomic int32_t crash_thread;    /* which has received it */
    _Atomic uint32_t crash_seen;     /* 1: the launcher has taken them; written by the launcher, as is: */
    _Atomic uint64_t buckets_wanted; /* where each rank has its own launcher: rank_wanted_pack(); 0: none */

    char failure[1024]; /* one line without "ddprun: ", then details; NUL-terminated */
};

/*
 * Each record has pages of its own, so that ranks do not share cache lines: the status, and after it what the rank did
 * last (base/flight.h).
 */
#define RANK_STATUS_BYTES  (4 * 4096)
#define RANK_STATUS_STRIDE (10 * 4096)
#define JOB_OPTIONS_BYTES  (4 * 4096)

_Static_assert(sizeof(struct rank_status) <= RANK_STATUS_BYTES, "a status record fits its page");
_Static_assert(sizeof(struct job_options) <= JOB_OPTIONS_BYTES, "the options fit their pages");

#endif
