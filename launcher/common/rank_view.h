/*
 * rank_view.h - what is known of one rank: filled in by watch/, cluster/ and the supervisor, judged and reported by
 * others.
 */
#ifndef DDPRUN_LAUNCHER_COMMON_RANK_VIEW_H
#define DDPRUN_LAUNCHER_COMMON_RANK_VIEW_H

#include "base/protocol.h"
#include "launcher/common/waiting.h"

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

/* Why ddprun has killed a rank after a signal that asked it to stop. */
enum rank_killed {
    RANK_KILLED_NOT,
    RANK_KILLED_WAITING, /* it waited for a rank that had left, or had failed */
    RANK_KILLED_LATE,    /* its time was over (--grace) */
};

/* What the types of rank_fields.def are in a view. */
#define VIEW_LONG   uint64_t
#define VIEW_NUMBER unsigned
#define VIEW_FLAG   bool
#define VIEW_INT    int
#define VIEW_TEXT   char

/* What is known of one rank at one moment. Plain data: launchers of one job may send it to each other as it is. */
struct rank_view {
    /* what it says, and what is seen of it: base/rank_fields.def */
#define FACT(type, name, array, ...) VIEW_##type name array;
#define VIEW                         FACT
#include "base/rank_fields.def"
    unsigned mean_count;
    struct mean_view means[RANK_MEANS_AT_MOST];
    struct warnings warnings; /* of the last program; texts are printable */
    int order;                /* 1, 2, ... as ends were noticed; equal if noticed together */

    /* from the supervisor */
    uint64_t pace_step;       /* of rank 0's: its step when pace_note() looked last, */
    unsigned pace_looks;      /* how often it has, */
    unsigned pace_stragglers; /* and of each rank's: in how many of these the others waited for it */
    struct pace_sums {
        uint64_t from; /* start-up of program `generation` ended at this boundary */
        unsigned generation;
        uint64_t count, first, last; /* boundaries since then, without control steps */
        double exposed_ns;
    } pace_sums;                  /* of rank 0's: what pace_note() has added up, */
    struct rank_waits pace_waits; /* and of each rank's */
    uint64_t nonfinite_since_ns;  /* of rank 0's: when a finding that stays was first seen; 0: none, */
    bool nonfinite_said;          /* and that it was reported; */
    uint64_t nonfinite_watch_ns;  /* and of each rank's: watch_ns when it last changed, */
    unsigned nonfinite_looks;     /* and how often it has since then */
    bool left_early;              /* ended amid training, and the others have needed it for some time */
};

#endif
