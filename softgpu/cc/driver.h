/*
 * driver.h - does what the options ask for: preprocess, rewrite, compile, link.
 */
#ifndef SOFTGPU_CC_DRIVER_H
#define SOFTGPU_CC_DRIVER_H

#include "options.h"
#include "toolchain.h"

/* Returns the exit status of softgpu-cc: 0, 2 for what cannot be done as asked, or that of the command that failed. */
int driver_run(const struct options *options, const struct toolchain *toolchain) __attribute__((warn_unused_result));

#endif
