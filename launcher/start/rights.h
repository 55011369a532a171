/*
 * rights.h - ddprun refuses to run with other rights than its caller has.
 */
#ifndef DDPRUN_LAUNCHER_START_RIGHTS_H
#define DDPRUN_LAUNCHER_START_RIGHTS_H

#include "launcher/common/problem.h"

/*
 * Before anything else is done. Problem (DDPRUN_EXIT_USAGE): the file of ddprun is setuid or setgid, or has
 * capabilities: it starts any program, and preloads libraries from where the environment says, so it would lend these
 * rights to everybody.
 */
bool rights_check(struct problem *problem) __attribute__((warn_unused_result));

#endif
