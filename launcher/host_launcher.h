/*
 * host_launcher.h - which launcher of this machine can start ddprun on other hosts, and how it is told from others.
 *
 * Used by hosts.c only. Nothing is started but `mpirun --version` and its like.
 */
#ifndef DDPRUN_LAUNCHER_HOST_LAUNCHER_H
#define DDPRUN_LAUNCHER_HOST_LAUNCHER_H

#include "launcher/problem.h"

/*
 * Finds the first of the known launchers in the folders of `path` (a PATH; NULL: none) and gives its path as it was
 * found there, malloc'ed. Problem (DDPRUN_EXIT_USAGE): there is none; the text says what there is instead and what to
 * install.
 */
bool host_launcher_find(const char *path, char **program, struct problem *problem) __attribute__((warn_unused_result));

/* Whether what `program --version` printed is that of a launcher that we can speak to. */
bool host_launcher_recognise(const char *program, const char *version);

#endif
