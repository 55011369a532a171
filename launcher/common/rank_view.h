/*
 * rank_view.h - what is known of one rank: filled in by watch/, cluster/ and the supervisor, judged and reported by
 * others.
 */
#ifndef DDPRUN_LAUNCHER_COMMON_RANK_VIEW_H
#define DDPRUN_LAUNCHER_COMMON_RANK_VIEW_H

#include "base/protocol.h"

#include <stdbool.h>
#include <stdint.h>

/* What DDP_MEAN found last at one place of the program (struct rank_mean). */
struct mean_view {
    char name[32], place[48];
    uint64_t step;
    double value;
};

/* What a rank waits for. */
enum rank_wait {
    RANK_WAIT_NONE,
    RANK_WAIT_EXCHANGE,   /* on the host, for all to reach the same place */
    RANK_WAIT_COLLECTIVE, /* its device, in a collective that others have not reached */
    RANK_WAIT_DEVICE,     /* for its own device, which has not reached a collective yet */
};

/* What is known of one rank at one moment. Plain data: launchers of one job may send it to each other as it is. */
struct rank_view {
    /* from its status page */
    unsigned generation; /* how many programs were this rank before; what follows is of the last */
    unsigned stage;      /* enum rank_stage */
    uint64_t step, overlapped_step, graph_step, gradient_count, gradient_bytes, bucket_count;
    uint64_t batch_count;           /* --plan: of the program; 0: no plan */
    uint64_t plan_count, plan_step; /* the plan with these buckets: its number, and after which step it was adopted */
    uint64_t averaged_parameter_count, averaged_state_count; /* of gradient_count (DDP_STEP_PARAMETERS) */
    uint64_t sync_count, sync_bytes, step_bytes;             /* --sync-every */
    uint64_t outer_bytes;                                    /* --outer-lr */
    uint64_t gradient_elements, parameter_elements;
    uint64_t check_count, checked_step, parameter_hash;
    uint64_t parameter_count;
    uint64_t launch_count;               /* kernels and library calls, but for some that touched no gradient */
    uint64_t gradient_work;              /* of them before the first step, those that may have worked on gradients */
    uint64_t changed_count;              /* how often a parameter was seen to change before the first step */
    uint64_t reduce_count, reduce_bytes; /* calls of DDP_REDUCE, and what they were given */
    bool unannotated;                    /* --unannotated: nothing of this is to be said */
    uint64_t exposed_count, exposed_ns;
    uint64_t exposed_bound_ns, exposed_planned_ns;     /* UINT64_MAX: not known */
    uint64_t exposed_steps[RANK_EXPOSED_STEPS];        /* of the last boundaries, each (rank_exposed_pack()) */
    uint64_t trial_count, slowed_ns, overlap_off_step; /* what overlap costs a step's own work (struct rank_status) */
    uint64_t frees_amid, loads_amid; /* calls in backward that may wait for other ranks (struct rank_status) */
    uint64_t training_us;            /* from the first boundary to the last */
    bool sums;                       /* gradients became sums, not means */
    uint64_t shard_total;            /* items that each DDP_SHARD shared out; 0: none; UINT64_MAX: not always as many */
    uint64_t shard_calls;            /* how often DDP_SHARD was called */
    unsigned nccl_version;           /* as NCCL_VERSION_CODE; 0: not opened */
    unsigned mean_count;
    struct mean_view means[RANK_MEANS_AT_MOST];
    unsigned nonfinite;      /* enum rank_nonfinite: what it was about to send, */
    uint64_t nonfinite_step; /* first in this step, from 1; */
    bool nonfinite_in_part;  /* not all of it is looked at in each step */
    char nonfinite_what[288];
    bool failure_follows; /* it says that another rank's end stopped it, */
    bool failure_unclear; /* or cannot tell whether one did */
    char failure[1024];

    /* what it waits for and does, for hang.h; durations are as of the moment of the view, by the clock of its host */
    uint64_t watch_ns; /* changes while its process continues: what follows is as of then */
    enum rank_wait wait;
    uint64_t wait_count; /* grows whenever it waits for something else */
    uint64_t wait_step;  /* the step, from 1, that a collective belongs to which it waits for */
    uint64_t wait_ns;    /* for so long */
    char wait_for[128];  /* "bucket 3 of step 8", "the end of the program" */
    uint64_t call_count; /* of the driver's functions that are hooked; grows while it makes progress */
    char call[40];       /* the call that it is in, or was in last; empty: none so far */
    bool in_call;
    int call_thread;
    uint64_t call_ns; /* in it for so long, or left it so long ago */
    char kernel[128]; /* that was launched last; empty: not known */

    /* where it is */
    char host[64];
    int pid;      /* of the process that is the rank, or that was started for it */
    char gpu[64]; /* "GPU 3", "device 3 of the stand-in" */

    /* from the system */
    bool stopped;       /* by SIGSTOP, or a debugger */
    bool exiting;       /* it has exited cleanly, and the process that was the rank still continues */
    bool out_of_memory; /* it was killed, and the kernel has killed processes for lack of memory since the start */
    bool ended;
    int order;           /* 1, 2, ... as ends were noticed; equal if noticed together */
    int exit_code;       /* if it ended by itself */
    int signal;          /* that ended it, or 0 */
    char last_line[208]; /* that it wrote to stderr, if it failed and ddprun reads that */
    int left_pid;        /* it ended well and left this process running, which may be its trainer; or 0 */
    char left_name[64];

    bool connected; /* its engine has joined, and not left (start/engine_link.h) */
    bool severed;   /* and its socket is closed: the process ends, or has closed it */

    /* from the supervisor */
    uint64_t pace_step;          /* of rank 0's: its step when pace_note() looked last, */
    unsigned pace_looks;         /* how often it has, */
    unsigned pace_stragglers;    /* and of each rank's: in how many of these the others waited for it */
    uint64_t nonfinite_since_ns; /* of rank 0's: when a finding that stays was first seen; 0: none, */
    bool nonfinite_said;         /* and that it was reported; */
    uint64_t nonfinite_watch_ns; /* and of each rank's: watch_ns when it last changed, */
    unsigned nonfinite_looks;    /* and how often it has since then */
    bool left_early;             /* ended with exit code 0, and the others have needed it for some time */
    bool missed_preload;         /* the CUDA driver was seen in one of its processes, and our library was not */
    int preload_suspect;         /* such a process that has gone on for too long, or 0 */
};

#endif
