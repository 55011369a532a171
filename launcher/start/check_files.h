/*
 * check_files.h - a rank of `ddprun check`: the folder that what it writes goes to, and what makes it go there.
 */
#ifndef DDPRUN_LAUNCHER_START_CHECK_FILES_H
#define DDPRUN_LAUNCHER_START_CHECK_FILES_H

#include "launcher/common/error.h"
#include "launcher/start/environment.h"

/*
 * Makes the folder and adds to the environment of rank `index` what loads interpose/files/, if this job is a run of a
 * check, or proves a plan of `ddprun scout`; else nothing. Error (DDPRUN_EXIT_FAILURE): the folder cannot be made.
 */
bool check_files_add(const struct rank_settings *settings, int index, char ***environment, struct error *error)
    __attribute__((warn_unused_result));

#endif
