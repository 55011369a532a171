/*
 * job.h - one run of ddprun, as the campaign sees it: its processes, its output, its end.
 *
 * Everything of a run carries a mark in its environment and has folders of its own; that is how leftovers.c knows it
 * again. One run at a time.
 */
#ifndef DDPRUN_TESTS_FAULTS_JOB_H
#define DDPRUN_TESTS_FAULTS_JOB_H

#include "tests/faults/place.h"
#include "tests/faults/record.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define JOB_MARK    "FAULTS_MARK"
#define JOB_RECORDS "records" /* the name of the file of records, in the folder of the run */

enum { JOB_TEXT_BYTES = 64 * 1024, JOB_ARGUMENTS_AT_MOST = 64 };

/* What is to be started. */
struct job_order {
    const struct place *place;
    const char *folder;                           /* of this run alone; made by job_start() */
    const char *arguments[JOB_ARGUMENTS_AT_MOST]; /* NULL-terminated, the program first */
    const char *link;                             /* value of SOFTGPU_LINK; NULL: none */
    bool closed_output;                           /* stdout and stderr are closed from the start */
    bool small_pipe;                              /* stdout is a pipe that is soon full */
};

struct job {
    pid_t pid; /* of the process that was started; it leads a session of its own */
    int pidfd;
    const struct place *place;
    int ranks;
    char mark[64]; /* value of JOB_MARK */
    char folder[256];
    struct rank_record *records; /* [RECORD_RANKS_AT_MOST] */
    int output, error;           /* what it prints; -1: closed */
    bool reads;                  /* stdout is read */
    size_t output_lines;         /* of rank 0 */
    char line[256];              /* of stdout, unfinished */
    size_t line_used;
    char text[JOB_TEXT_BYTES]; /* stderr, NUL-terminated, cut at this size */
    size_t text_used;
    int64_t begin_ns, end_ns; /* CLOCK_MONOTONIC; end: 0 while it runs */
    int exit_code;            /* 128 + signal */
    bool killed;              /* ended by a signal, not by itself */
};

int64_t job_now_ns(void);

/* What /proc/PROCESS/NAME has, as far as there is room, with a NUL behind it. Returns its length; 0: no such file. */
size_t read_process(const char *process, const char *name, char *text, size_t bytes);

/* Starts a run of `ranks` ranks. Ends the campaign with exit code 2 where the system refuses. */
void job_start(struct job *job, const struct job_order *order, int ranks);

/* Reads output and looks for the end for at most `us`. Returns whether the run has ended. */
bool job_poll(struct job *job, int us);

/* The same until the end, or for `limit_ns`. */
bool job_wait(struct job *job, int64_t limit_ns);

enum job_process {
    JOB_TRAINER, /* or, before that is known, what ddprun started as the rank */
    JOB_PARENT,  /* the trainer's: a shell, or under mpirun the rank's ddprun */
};

/* A process of a rank; 0 if the process does not exist yet. */
pid_t job_process(const struct job *job, int rank, enum job_process which);

/* From now on stdout is not read: its pipe is closed, or just left to fill. */
void job_close_output(struct job *job);

/* Kills what is left of the run, reads what is left of its output, and releases all but the folder. */
void job_release(struct job *job);

#endif
