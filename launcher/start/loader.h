/*
 * loader.h - would the dynamic loader put the shim into a program, and what else does it find for it? Asked of the
 * loader itself, which lists what it would load (LD_TRACE_LOADED_OBJECTS) and runs nothing of the program's.
 * Only for a loader that is known to do so: the one that runs ddprun.
 *
 * Called by the doctor, and where a program's annotations are looked for (annotated.c). loader_parse() is pure,
 * for any text.
 */
#ifndef DDPRUN_LAUNCHER_START_LOADER_H
#define DDPRUN_LAUNCHER_START_LOADER_H

#include "base/cuda_files.h"

#include <stdbool.h>
#include <stddef.h>

/* One library of the list. */
struct loader_library {
    char *name; /* as it was asked for; for a preloaded one its path */
    char *path; /* where the loader found it; NULL: nowhere */
};

/* Release with loader_list_free(). */
struct loader_list {
    struct loader_library *libraries; /* in the order in which symbols are looked for */
    size_t count;
    char *complaint; /* the first thing that the loader was not content with; NULL: nothing */
};

/* Whether this loader is the one that runs ddprun. Any other could be any program, and is not asked. */
bool loader_is_own(const char *loader);

/*
 * Asks the loader `loader` about `program`, as it would be started with `environment`. False: it gave no answer, and
 * why[96] says why.
 */
bool loader_ask(const char *loader, const char *program, char *const *environment, struct loader_list *loaded,
                char *why) __attribute__((warn_unused_result));

/* What the loader wrote: lines "\tNAME => PATH (0xADDRESS)", "\tPATH (0xADDRESS)", "\tNAME => not found", errors. */
void loader_parse(const char *text, size_t length, struct loader_list *loaded);

/* The place of the library that is the file `path`; -1: it is not in the list. */
int loader_place_of(const struct loader_list *loaded, const char *path);

void loader_list_free(struct loader_list *loaded);

/* ---- annotated.c ---- */
/*
 * Does a program hold kernels, and is any of it annotated? Told from files alone: its own, and those of the
 * libraries that it needs, CUDA's excepted. Nothing of the program runs.
 *
 * Evidence of an annotation is the name `ddprun_interface` (ddprun.h looks it up) in what is loaded of a file;
 * evidence of kernels is nvcc's section .nv_fatbin, or the functions that kernels of softgpu-cc call. What a program
 * loads later, or starts, is not known. Called before anything is started, and by the doctor. Main thread.
 */

enum annotated {
    ANNOTATED_YES,
    ANNOTATED_NO,         /* it holds kernels, and none of the files is annotated */
    ANNOTATED_NO_KERNELS, /* none of the files is annotated, and none holds kernels: it may start or load a trainer */
    ANNOTATED_UNKNOWN,    /* a file was not found, or cannot be read */
};

/* Of the program `path`, whose libraries `loaded` lists; `shim`: that one of them does not count. *where: the file that
 * is annotated, if one is; it is `path`, or belongs to `loaded`. */
enum annotated annotated_judge(const char *path, const struct loader_list *loaded, const char *shim,
                               const char **where);

/* The same of a program that would be started with this environment: asks the loader for the libraries. Says
 * ANNOTATED_NO_KERNELS where there are none, without a look for annotations. */
enum annotated annotated_ask(const char *path, char *const *environment, const char *shim);

#endif
