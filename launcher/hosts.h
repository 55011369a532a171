/*
 * hosts.h - `ddprun --hosts h1:8,h2:8 ./train`: starts itself on all of the hosts by the launcher that is installed.
 *
 * Called by main() in place of a job of this machine. ddprun has no daemon of its own on other hosts: mpirun or prterun
 * reaches them, usually by ssh, and starts one ddprun a rank there.
 */
#ifndef DDPRUN_LAUNCHER_HOSTS_H
#define DDPRUN_LAUNCHER_HOSTS_H

#include "launcher/common/error.h"
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
bool hosts_enter_folder(struct error *error) MUST_USE;

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

/* ---- host_launcher.c ---- */
/*
 * Which launcher of this machine can start ddprun on other hosts, and how it is recognised among others.
 *
 * Used by hosts.c only. Nothing is started but `mpirun --version` and its like.
 */

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
bool host_launcher_find(const char *path, struct host_launcher *launcher, struct error *error) MUST_USE;

/* The traits of `program`, going by what `program --version` printed; NULL: we cannot speak to it. */
const struct launcher_traits *host_launcher_recognise(const char *program, const char *version);

#endif
