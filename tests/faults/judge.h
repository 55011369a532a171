/*
 * judge.h - what must have come of a run, for each kind of fault. Each says in `why` what is wrong, or leaves it empty,
 * and returns whether the fault changed anything. Called through the table of kinds.c, after the end.
 */
#ifndef DDPRUN_TESTS_FAULTS_JUDGE_H
#define DDPRUN_TESTS_FAULTS_JUDGE_H

#include "tests/faults/kinds.h"

/* The kind's signal ended the rank; a success is right where the rank had been done before. */
bool judge_signal(const struct run *run, const struct job *job, char why[KINDS_WHY_BYTES]);
bool judge_stop(const struct run *run, const struct job *job, char why[KINDS_WHY_BYTES]);
bool judge_leave(const struct run *run, const struct job *job, char why[KINDS_WHY_BYTES]);
bool judge_exit(const struct run *run, const struct job *job, char why[KINDS_WHY_BYTES]);
bool judge_asked(const struct run *run, const struct job *job, char why[KINDS_WHY_BYTES]);
bool judge_launcher_killed(const struct run *run, const struct job *job, char why[KINDS_WHY_BYTES]);
bool judge_supervisor_killed(const struct run *run, const struct job *job, char why[KINDS_WHY_BYTES]);
bool judge_torn(const struct run *run, const struct job *job, char why[KINDS_WHY_BYTES]); /* hosts lost each other */
bool judge_memory(const struct run *run, const struct job *job, char why[KINDS_WHY_BYTES]);
bool judge_reader_left(const struct run *run, const struct job *job, char why[KINDS_WHY_BYTES]);
bool judge_none(const struct run *run, const struct job *job, char why[KINDS_WHY_BYTES]);

#endif
