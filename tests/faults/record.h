/*
 * record.h - what each rank's trainer reports to the campaign, in memory that outlives it: a file that both map.
 *
 * Written by one rank (trainer.c), read by the campaign, which makes the file. A rank that is killed leaves behind how
 * far it came, so that a verdict can be held against what really happened.
 */
#ifndef DDPRUN_TESTS_FAULTS_RECORD_H
#define DDPRUN_TESTS_FAULTS_RECORD_H

#include <stdatomic.h>
#include <stdint.h>

enum { RECORD_RANKS_AT_MOST = 8 };

struct rank_record {
    _Atomic int32_t pid;     /* 0: main() has not begun */
    _Atomic uint32_t step;   /* steps whose average was seen on the host */
    _Atomic uint32_t points; /* places passed at which a fault of its own could be */
    _Atomic uint32_t wrong;  /* the first step with a wrong average; 0: none */
    _Atomic int64_t hit_ns;  /* CLOCK_MONOTONIC, when it began a fault of its own; 0: not yet */
    _Atomic int64_t done_ns; /* when main() was about to return; 0: not yet */
};

#endif
