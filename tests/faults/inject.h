/*
 * inject.h - what is done to a run: each function waits for the run's moment, does it, and notes when (run->fault_ns),
 * if there still was anything to do it to. Called through the table of kinds.c.
 */
#ifndef DDPRUN_TESTS_FAULTS_INJECT_H
#define DDPRUN_TESTS_FAULTS_INJECT_H

#include "tests/faults/kinds.h"

void inject_signal_rank(struct run *run, struct job *job); /* the kind's signal to a process of the target rank */
void inject_signal_launcher(struct run *run, struct job *job);
void inject_kill_connecting(struct run *run, struct job *job); /* from the first parameter on, before it is shared */
void inject_stop_rank(struct run *run, struct job *job);
void inject_kill_daemon(struct run *run, struct job *job); /* mpirun's, on the other host */
void inject_cut(struct run *run, struct job *job);         /* the link between the hosts */
void inject_limit_memory(struct run *run, struct job *job);
void inject_leave_output(struct run *run, struct job *job);
void inject_kill_behind_full_pipe(struct run *run, struct job *job);
void inject_pause_reading(struct run *run, struct job *job);

#endif
