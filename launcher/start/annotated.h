/*
 * annotated.h - does a program hold kernels, and is any of it annotated? Told from files alone: its own, and those of
 * the libraries that it needs, CUDA's excepted. Nothing of the program runs.
 *
 * Evidence of an annotation is the name `ddprun_interface` (ddprun.h looks it up) in what is loaded of a file; evidence
 * of kernels is nvcc's section .nv_fatbin, or the functions that kernels of softgpu-cc call. What a program loads
 * later, or starts, is not known. Called before anything is started, and by the doctor. Main thread.
 */
#ifndef DDPRUN_LAUNCHER_START_ANNOTATED_H
#define DDPRUN_LAUNCHER_START_ANNOTATED_H

#include "launcher/start/trial.h"

enum annotated {
    ANNOTATED_YES,
    ANNOTATED_NO,         /* it holds kernels, and none of the files is annotated */
    ANNOTATED_NO_KERNELS, /* none of the files is annotated, and none holds kernels: it may start or load a trainer */
    ANNOTATED_UNKNOWN,    /* a file was not found, or cannot be read */
};

/* Of the program `path`, whose libraries `trial` lists; `shim`: that one of them does not count. *where: the file that
 * is annotated, if one is; it is `path`, or belongs to `trial`. */
enum annotated annotated_judge(const char *path, const struct trial *trial, const char *shim, const char **where);

/* The same of a program that would be started with this environment: asks the loader for the libraries. Says
 * ANNOTATED_NO_KERNELS where there are none, without a look for annotations. */
enum annotated annotated_ask(const char *path, char *const *environment, const char *shim);

#endif
