/*
 * environment.h - lists of "NAME=value" that are handed to execve, and what a rank finds in its own.
 *
 * Lists are NULL-terminated arrays of malloc'ed strings; words_free() releases them.
 */
#ifndef DDPRUN_LAUNCHER_START_ENVIRONMENT_H
#define DDPRUN_LAUNCHER_START_ENVIRONMENT_H

#include "launcher/options/options.h"
#include "launcher/start/devices.h"
#include "launcher/start/placement.h"
#include "launcher/start/program.h"

#include <stdio.h>

/* What the launcher found next to itself, by the folders of the build: bin/ddprun, lib/... All absolute; owned here. */
struct installation {
    char *shim;
    char *engine;
    char *softgpu_lib; /* folder */
    char *kernels;     /* for the device of this job; NULL: not built */
};

/* Error (DDPRUN_EXIT_NOT_RUN): a part is missing, or lies in a folder whose name LD_PRELOAD or LD_LIBRARY_PATH cannot
 * hold. */
bool installation_find(bool softgpu, struct installation *installation, struct error *error) MUST_USE;

void installation_free(struct installation *installation);

/* Error (DDPRUN_EXIT_NOT_RUN): this part of it, called `what`, is missing, or lies in such a folder. */
bool installation_check(const char *path, const char *what, struct error *error) MUST_USE;

/* Path of a library among ddprun's own, malloc'ed; it may not be there. */
char *installation_library(const char *name);

/* Which ranks of the job this launcher starts: all, or one under a cluster's launcher. */
struct job_place {
    int first_rank, rank_count, world_size;
    int first_local_rank, local_size; /* among the ranks of this host, whichever launcher starts them */
};

struct rank_settings;

/* What a tool loads into ranks besides. */
struct rank_equipment {
    /* The libraries, the one in the engine's place too (DDPRUN_ENV_ENGINE): at the end of environment_for_rank(). */
    void (*choose)(const struct rank_settings *settings, char ***environment);
    /* Rank `index` is about to be started: makes what these libraries need. Error: they or their needs are not there.
     */
    bool (*prepare)(const struct rank_settings *settings, int index, char ***environment, struct error *error);
};

/* Everything that the ranks' environments are made from; borrowed. Functions below take a rank's number among those
 * that this launcher starts, from 0. */
struct rank_settings {
    struct job_place place;
    const struct options *options;
    const struct device_plan *devices;
    const struct installation *installation;
    const struct rank_equipment *equipment; /* NULL: none */
    const struct program *program;          /* NULL: not known, like the next */
    const struct placement *placement;
    const char *job_dir;
    unsigned free_port; /* of this host, for programs with a rendezvous of their own; 0: not asked for */
};

char **environment_copy(char *const *list);
void environment_set(char ***list, const char *name, const char *value);
void environment_unset(char **list, const char *name);
const char *environment_get(char *const *list, const char *name); /* `name` ends at a "=", if it has one */

/* The program's arguments for a rank, with --subst if that was asked for; release with words_free(). */
char **environment_arguments(const struct rank_settings *settings, int index);

/* The environment of a rank: `inherited`, changed. Under a cluster's launcher all that say which process of its job
 * this is are left out, for that is the supervisor. */
char **environment_for_rank(char *const *inherited, const struct rank_settings *settings, int index);

/* ---- dry_run.c: what ddprun would start, printed instead of started ---- */
/*
 * One command for each rank, which a shell understands: variables that differ from the environment that ddprun has, the
 * program, its arguments; by taskset where a rank is bound to processors. Not in it: a rank's memory node, and
 * the job's folder with the options for the engine. Returns ddprun's exit code.
 */
int dry_run_print(FILE *out, const struct rank_settings *settings, const struct program *program,
                  const struct placement *placement);

#endif
