/*
 * scouted.h - for `ddprun check --scout`: which memory stays from step to step, besides what is annotated.
 */
#ifndef DDPRUN_LAUNCHER_CHECK_SCOUTED_H
#define DDPRUN_LAUNCHER_CHECK_SCOUTED_H

#include "launcher/check/session.h"

/*
 * Scouts the program of the check, in one process, and writes a list of struct check_scouted: parameters, optimizer
 * state and averages that no annotation has, by the calls that write them. Returns its path, malloc'ed; NULL: error, if
 * the program cannot be scouted. Main thread.
 */
char *scouted_write(const struct check *check, struct error *error) __attribute__((warn_unused_result));

#endif
