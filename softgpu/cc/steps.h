/*
 * steps.h - what driver.c puts together: the steps from an input to a program.
 *
 * Each returns the exit status of softgpu-cc: 0, EXIT_USAGE after a message for what cannot be done as asked, or that
 * of the command that failed.
 */
#ifndef SOFTGPU_CC_STEPS_H
#define SOFTGPU_CC_STEPS_H

#include "options.h"
#include "toolchain.h"

enum { EXIT_USAGE = 2 };

struct driver {
    const struct options *options;
    const struct toolchain *toolchain;
    struct list objects; /* for each input of the command line, in order: what goes to the linker */
};

/* ---- steps.c: what compile.c and link.c share ---- */

/* Shows a command if that was asked for, runs it unless that was not, and frees it. */
int step_run(const struct driver *driver, struct list *command) __attribute__((warn_unused_result));

/* What -o says, or `name`, in the folder of -odir; the caller frees it. */
char *step_output(const struct options *options, const char *name);

/* ---- compile.c ---- */

/* Compiles an input, or takes it as it is if it is for the linker; adds its object to driver->objects. `number` tells
 * inputs of the same name apart. */
int step_compile(struct driver *driver, const struct item *item, size_t number) __attribute__((warn_unused_result));

/* -E, -M */
int step_preprocess(const struct driver *driver, const struct item *item) __attribute__((warn_unused_result));

/* ---- module.c ---- */

/* Writes the shared library of a module as the options ask for it: to standard output, or in the place of PTX or of a
 * cubin to a file. */
int step_write_module(const struct driver *driver, const char *library) __attribute__((warn_unused_result));

/* ---- link.c: from driver->objects ---- */

int step_link(const struct driver *driver) __attribute__((warn_unused_result));
int step_archive(const struct driver *driver) __attribute__((warn_unused_result));
int step_device_link(const struct driver *driver) __attribute__((warn_unused_result));

/* --run: runs a program, with the arguments of --run-args. Returns its exit code. */
int step_run_program(const struct driver *driver, const char *program) __attribute__((warn_unused_result));

#endif
