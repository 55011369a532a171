/*
 * rank_job.h - a test program that becomes a rank: it starts itself again with the shim preloaded, outside any job and
 * as the only rank of a job folder made for it.
 */
#ifndef DDPRUN_TESTS_INTERPOSE_RANK_JOB_H
#define DDPRUN_TESTS_INTERPOSE_RANK_JOB_H

struct rank_job {
    const char *shim, *engine; /* files */
    const char *libraries;     /* the search path; empty: the environment's */
};

/*
 * The rest of main(): runs `passive` (NULL: nothing) in a process outside any job, and then `in_job` in one that may
 * become the rank. Each returns an exit status. Returns the first that is not 0.
 */
int rank_job_run(int argc, char **argv, const struct rank_job *job, int (*passive)(void), int (*in_job)(void));

#endif
