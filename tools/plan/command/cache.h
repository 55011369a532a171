/*
 * cache.h - plans that `--plan auto` has made, kept in ${XDG_CACHE_HOME:-~/.cache}/ddprun/plans.
 *
 * A file is a plan of `ddprun scout --prove --json`, with the member "cache": for which program and arguments it was
 * proved, the build-ids of all objects of the program, and the files that it reads, with size and date. The sizes of
 * parameters are not known before a run; so plans of other arguments are candidates, which have to be proved again.
 *
 * The folder and its files are the user's own: what another user could have written is an error. A file is written
 * beside its place and renamed. Main thread.
 */
#ifndef DDPRUN_TOOLS_PLAN_COMMAND_CACHE_H
#define DDPRUN_TOOLS_PLAN_COMMAND_CACHE_H

#include "launcher/common/error.h"

#include <json-c/json.h>
#include <stdbool.h>
#include <stddef.h>

struct plan_cache {
    char *folder;
    char *path;                  /* for the plan of this program and these arguments */
    struct json_object *subject; /* the two */
    char prefix[24];             /* of the names of all plans of the program */
    char **names;                /* of files that may hold a plan, the likeliest first */
    size_t count, next;
};

/* `program`: its file; `arguments`: its argv; `folder`: in which it is started. Error, with the exit code of wrong
 * usage: there is no folder to keep plans in, or it is not the user's own. plan_cache_close() releases it, whatever was
 * returned. */
bool plan_cache_open(const char *program, char *const *arguments, const char *folder, bool softgpu,
                     struct plan_cache *cache, struct error *error) __attribute__((warn_unused_result));

/*
 * The next plan that was made for this build; *is_proved: for these arguments, and the files that it reads are as they
 * were. *plan: NULL if there is none, else for json_object_put(). A damaged file, and one of another build or version,
 * is removed, the first with a message. Error, with the exit code of wrong usage: a file is not the user's own.
 */
bool plan_cache_next(struct plan_cache *cache, struct json_object **plan, bool *is_proved, struct error *error)
    __attribute__((warn_unused_result));

/* Keeps a plan that is proved for these arguments. Error: it cannot be written. */
bool plan_cache_keep(const struct plan_cache *cache, struct json_object *plan, struct error *error)
    __attribute__((warn_unused_result));

void plan_cache_close(struct plan_cache *cache);

#endif
