/*
 * host_launcher.h - which launcher of this machine can start ddprun on other hosts, and how it is recognised among
 * others.
 *
 * Used by hosts.c only. Nothing is started but `mpirun --version` and its like.
 */
#ifndef DDPRUN_LAUNCHER_HOST_LAUNCHER_H
#define DDPRUN_LAUNCHER_HOST_LAUNCHER_H

#include "launcher/common/error.h"

/* How a launcher is spoken to. */
struct launcher_traits {
    const char *mca; /* its option for a parameter of its daemons, which takes a name and a value */
    /* It ends well, with exit code 0, if it is the first to notice that a host is lost: it must not be then. */
    bool hides_lost_hosts;
};

/* A launcher that we can speak to. */
struct host_launcher {
    char *program; /* path, as it was found in PATH; malloc'ed */
    struct launcher_traits traits;
};

/*
 * Finds the first of the known launchers in the folders of `path` (a PATH; NULL: none). Error (DDPRUN_EXIT_USAGE):
 * no such launcher; the text says what there is instead and what to install.
 */
bool host_launcher_find(const char *path, struct host_launcher *launcher, struct error *error)
    __attribute__((warn_unused_result));

/* The traits of `program`, going by what `program --version` printed; NULL: we cannot speak to it. */
const struct launcher_traits *host_launcher_recognise(const char *program, const char *version);

#endif
