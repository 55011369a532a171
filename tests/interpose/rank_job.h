/*
 * rank_job.h - a test program that becomes a rank: it starts itself again with the shim preloaded, outside any job and
 * as the only rank of a job folder made for it.
 */
#ifndef DDPRUN_TESTS_INTERPOSE_RANK_JOB_H
#define DDPRUN_TESTS_INTERPOSE_RANK_JOB_H

#include <stdbool.h>

struct rank_job {
    const char *shim, *engine; /* files */
    const char *libraries;     /* the search path; empty: the environment's */
};

/*
 * The rest of main(): runs `passive` (NULL: nothing) in a process outside any job, and then `in_job` in one that may
 * become the rank. Each returns an exit status. Returns the first that is not 0.
 */
int rank_job_run(int argc, char **argv, const struct rank_job *job, int (*passive)(void), int (*in_job)(void));

/*
 * Makes a job folder by mkdtemp's template `folder`, and sets the environment in which the next program is its only
 * rank. False after a line on stderr. rank_job_end() removes the folder.
 */
bool rank_job_begin(char *folder, const char *engine);
void rank_job_end(const char *folder);

#endif
