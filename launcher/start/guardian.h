/*
 * guardian.h - ends what ranks have started, and removes the job folder, when ddprun itself is killed.
 *
 * A rank's first process then ends by PR_SET_PDEATHSIG, and a trainer behind a script notices (the engine's watch
 * thread). What else they have started, such as loaders of data, would live on: the guardian, a process of its own that
 * only waits for the end of a socket, kills the process groups of all ranks, and removes the folder. It is in a session
 * of its own, so that what is sent to ddprun's group does not reach it. One in a process; main thread.
 */
#ifndef DDPRUN_LAUNCHER_START_GUARDIAN_H
#define DDPRUN_LAUNCHER_START_GUARDIAN_H

#include <sys/types.h>

/* Before the first rank. `folder`: path of the job folder. Where no process can be made, there is no guardian. */
void guardian_start(const char *folder);

/*
 * The process group of a rank. Async-signal-safe: the rank's process itself says it before its program runs. The number
 * must not be free before guardian_dismiss().
 */
void guardian_add(pid_t group);

/* When no rank is left: the guardian kills no process, and has ended when this returns. Does nothing without a
 * guardian. */
void guardian_dismiss(void);

/* The guardian's process, which is no rank's; 0: no guardian runs. */
pid_t guardian_process(void);

#endif
