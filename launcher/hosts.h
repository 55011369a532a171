/*
 * hosts.h - `ddprun --hosts h1:8,h2:8 ./train`: starts itself on all of the hosts by the launcher that is installed.
 *
 * Called by main() in place of a job of this machine. ddprun has no daemon of its own on other hosts: mpirun or prterun
 * reaches them, usually by ssh, and starts one ddprun a rank there.
 */
#ifndef DDPRUN_LAUNCHER_HOSTS_H
#define DDPRUN_LAUNCHER_HOSTS_H

#include "launcher/host_launcher.h"
#include "launcher/options/host_list.h"
#include "launcher/options/options.h"

/*
 * Becomes the launcher, without a shell in between. Returns only if that fails, or with --dry-run, which prints the
 * command as a shell takes it: an exit code, after one line that says why.
 */
int hosts_run(const struct options *options);

/*
 * In a ddprun that was started so, on any host: enters the folder that the first one was started in, before any option
 * is read. Elsewhere it does nothing. Error (DDPRUN_EXIT_USAGE): this host has no such folder. Launchers could enter
 * it themselves, but PRRTE ends without a message where it is missing, after it has started ranks elsewhere.
 */
bool hosts_enter_folder(struct error *error) __attribute__((warn_unused_result));

/* ---- for tests ---- */

/* What a command is made of. */
struct hosts_order {
    const struct options *options;
    const struct host_list *list;
    const struct host_launcher *launcher;
    const char *ddprun;     /* path of ddprun */
    const char *folder;     /* that ranks start in */
    char *const *variables; /* "NAME=value" of this process; NULL-terminated */
    bool root;
};

/* The command, malloc'ed and NULL-terminated, as words_free() releases it. */
char **hosts_command(const struct hosts_order *order);

#endif
