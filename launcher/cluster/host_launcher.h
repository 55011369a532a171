/*
 * host_launcher.h - which launcher of this machine can start ddprun on other hosts, and how it is told from others.
 *
 * Used by hosts.c only. Nothing is started but `mpirun --version` and its like.
 */
#ifndef DDPRUN_LAUNCHER_CLUSTER_HOST_LAUNCHER_H
#define DDPRUN_LAUNCHER_CLUSTER_HOST_LAUNCHER_H

#include "launcher/problem.h"

/* A launcher that we can speak to. */
struct host_launcher {
    char *program;   /* path, as it was found in PATH; malloc'ed */
    const char *mca; /* its option for a parameter of its daemons, which takes a name and a value */
};

/*
 * Finds the first of the known launchers in the folders of `path` (a PATH; NULL: none). Problem (DDPRUN_EXIT_USAGE):
 * there is none; the text says what there is instead and what to install.
 */
bool host_launcher_find(const char *path, struct host_launcher *launcher, struct problem *problem)
    __attribute__((warn_unused_result));

/* That option of `program`, going by what `program --version` printed; NULL: we cannot speak to it. */
const char *host_launcher_recognise(const char *program, const char *version);

#endif
