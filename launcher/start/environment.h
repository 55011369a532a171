/*
 * environment.h - lists of "NAME=value" that are handed to execve, and what a rank finds in its own.
 *
 * Lists are NULL-terminated arrays of malloc'ed strings, the form that PMIx_server_setup_fork wants.
 */
#ifndef DDPRUN_LAUNCHER_START_ENVIRONMENT_H
#define DDPRUN_LAUNCHER_START_ENVIRONMENT_H

#include "launcher/options/options.h"
#include "launcher/start/devices.h"

/* What the launcher found next to itself, by the folders of the build: bin/ddprun, lib/... All absolute; owned here. */
struct installation {
    char *shim;
    char *engine;
    char *scout;       /* the recorder of `ddprun scout` */
    char *calls;       /* notes which files and clocks a scouted program uses */
    char *files;       /* for runs of `ddprun check`: keeps what a program writes from the user's files */
    char *softgpu_lib; /* folder */
    char *kernels;     /* for the device of this job; NULL: not built */
};

/* Error (DDPRUN_EXIT_NOT_RUN): a part is missing, or lies in a folder whose name LD_PRELOAD or LD_LIBRARY_PATH cannot
 * hold. */
bool installation_find(bool softgpu, struct installation *installation, struct error *error)
    __attribute__((warn_unused_result));

void installation_free(struct installation *installation);

/* Which ranks of the job this launcher starts: all, or one under a cluster's launcher. */
struct job_place {
    int first_rank, rank_count, world_size;
    int first_local_rank, local_size; /* among the ranks of this host, whichever launcher starts them */
    bool has_supervisor;              /* its engine asks this launcher, not PMIx (base/supervisor_link.h) */
};

/* Everything that the ranks' environments are made from; borrowed. Functions below take a rank's number among those
 * that this launcher starts, from 0. */
struct rank_settings {
    struct job_place place;
    const struct options *options;
    const struct device_plan *devices;
    const struct installation *installation;
    const char *job_dir;
    const char *trace_dir; /* absolute, or NULL */
    const char *nccl;      /* absolute or a bare name, or NULL */
};

char **environment_copy(char *const *list);
void environment_set(char ***list, const char *name, const char *value);
void environment_unset(char **list, const char *name);
const char *environment_get(char *const *list, const char *name);
void environment_free(char **list);
/* Adds a library to those that are preloaded, behind those that are there. */
void environment_add_preload(char ***list, const char *library);

/* The program's arguments for a rank, with --subst if that was asked for; release with environment_free().
 */
char **environment_arguments(const struct rank_settings *settings, int index);

/* The environment of a rank: `inherited`, changed. PMIx's variables are added by pmix_server_add_environment(); under a
 * cluster's launcher all that say which process of its job this is are left out, for that is the supervisor. */
char **environment_for_rank(char *const *inherited, const struct rank_settings *settings, int index);

/* What the engines of all ranks find in the status page. */
void environment_fill_options(const struct rank_settings *settings, struct job_options *to);

#endif
