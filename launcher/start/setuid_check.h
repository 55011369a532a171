/*
 * setuid_check.h - ddprun refuses to run with more rights than its caller has.
 */
#ifndef DDPRUN_LAUNCHER_START_SETUID_CHECK_H
#define DDPRUN_LAUNCHER_START_SETUID_CHECK_H

#include "launcher/common/error.h"

/*
 * Before anything else is done. Error (DDPRUN_EXIT_USAGE): the file of ddprun is setuid or setgid, or has
 * capabilities: it starts any program, and preloads libraries from where the environment says, so it would lend these
 * rights to every user.
 */
bool setuid_check(struct error *error) __attribute__((warn_unused_result));

#endif
