/*
 * file_limit.h - how many files ddprun may have open: the limit is raised for a job, and given back to the programs
 * that ddprun starts.
 *
 * Each rank takes two pipes and its engine's socket, in a cluster supervisor 0 two sockets. Where no descriptor is
 * left, ranks would wait for ever, and PMIx and libevent end the process.
 */
#ifndef DDPRUN_LAUNCHER_START_FILE_LIMIT_H
#define DDPRUN_LAUNCHER_START_FILE_LIMIT_H

#include "launcher/common/error.h"

/*
 * Raises the soft limit to `wanted` more files than are open now, as far as the hard one goes. Error
 * (DDPRUN_EXIT_FAILURE): fewer than `needed` more may be opened then. Main thread, before others.
 */
bool file_limit_raise(unsigned wanted, unsigned needed, struct error *error) MUST_USE;

/* In a process that is about to become another program: the soft limit that ddprun was started with. Async-signal-safe.
 */
void file_limit_give_back(void);

#endif
