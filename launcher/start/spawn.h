/*
 * spawn.h - starts one rank: a process group of its own, its descriptors, and death together with the launcher.
 */
#ifndef DDPRUN_LAUNCHER_START_SPAWN_H
#define DDPRUN_LAUNCHER_START_SPAWN_H

#include "launcher/common/error.h"
#include "launcher/common/signals.h"
#include "launcher/start/placement.h"

#include <sys/types.h>

/* What to start; borrowed for the call. */
struct spawn_order {
    int rank;
    const char *path;
    char *const *arguments; /* argv, NULL-terminated */
    char ***environment;    /* NULL-terminated; gets DDPRUN_ENV_STDOUT, or loses it */
    const struct signals *signals;
    int input;        /* rank 0: what becomes its stdin, -1 for the launcher's own; other ranks get /dev/null */
    bool pipe_output; /* its stdout is to be a pipe; else the launcher's own */
    bool pipe_error;  /* likewise stderr */
    bool one_pipe;    /* with both: stderr goes into the pipe of stdout, so that their order is kept */
    int output_file;  /* descriptor that becomes its stdout, -1: none */
    int error_file;   /* likewise stderr */
    bool by_lines;    /* what it prints to a pipe or a file of ddprun's is to come line by line */
    unsigned limit_s; /* in which the program must have been started */
    const char *cwd;  /* folder that it starts in; NULL: the launcher's */
    const struct rank_place *place; /* what it runs on; NULL: what the launcher does */
};

struct spawned {
    pid_t pid;  /* also the number of its process group */
    int output; /* read end of its stdout; -1: not piped */
    int error;  /* the same for stderr; -1 too with one_pipe */
};

/*
 * Starts a rank, and returns when the program runs in it. It is killed when the launcher's main thread dies, so call
 * this there. Error (DDPRUN_EXIT_NOT_RUN): the system refused to run the program; (DDPRUN_EXIT_FAILURE): no process
 * or pipe to be had, its processors are gone, or the process does not reach the program within limit_s seconds; (128
 * + signal): a signal asked for the end before it came there.
 */
bool spawn_rank(const struct spawn_order *order, struct spawned *spawned, struct error *error)
    __attribute__((warn_unused_result));

#endif
