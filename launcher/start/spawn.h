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
    int input;        /* what becomes its stdin; -1: rank 0 has the launcher's own, other ranks /dev/null */
    bool pipe_output; /* its stdout is to be a pipe; else the launcher's own */
    bool pipe_error;  /* likewise stderr */
    bool one_pipe;    /* with both: stderr goes into the pipe of stdout, so that their order is kept */
    int output_file;  /* descriptor that becomes its stdout, -1: none */
    int error_file;   /* likewise stderr */
    int output_copy;  /* which a relay writes what comes through the pipe of stdout to; -1: none */
    int error_copy;   /* likewise stderr */
    unsigned limit_s; /* in which the program must have been started */
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
bool spawn_rank(const struct spawn_order *order, struct spawned *spawned, struct error *error) MUST_USE;

/* ---- guardian.c: ends what ranks have started, and removes the job folder, when ddprun itself is killed ---- */
/*
 * A rank's first process then ends by PR_SET_PDEATHSIG, and a trainer that a script starts notices (the engine's watch
 * thread). What else they have started, such as loaders of data, would live on: the guardian, a process of its own
 * that only waits for the end of a socket, kills the process groups of all ranks, and removes the folder. It is in a
 * session of its own, so that what is sent to ddprun's group does not reach it. One in a process; main thread.
 */

/* As soon as there is the job folder, whose path is `folder`; `file`, if not NULL, is one that is whole under another
 * name only, and goes too. Where no process can be made, there is no guardian. */
void guardian_start(const char *folder, const char *file);

/* The process group of a rank, whose number is not free before guardian_forget_groups(). Async-signal-safe: the rank's
 * process itself says it before its program runs. */
void guardian_add(pid_t group);

/* When no rank is left: the guardian kills no process, and still removes the folder. */
void guardian_forget_groups(void);

/* ddprun is about to end without order: the guardian kills all ranks, which are gone, or about to be, when this
 * returns, and removes the folder when ddprun has ended. Within 1 s; any thread, with any lock; async-signal-safe. */
void guardian_end_ranks(void);

/* When the folder is removed. The guardian has ended when this returns; one that does not end within 1 s, as it is
 * stopped, is killed. Does nothing without a guardian. */
void guardian_dismiss(void);

/* The guardian's process, which is no rank's; 0: no guardian runs. */
pid_t guardian_process(void);

#endif
