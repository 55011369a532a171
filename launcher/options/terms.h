/*
 * terms.h - what must be equal on all ranks of a job: their options, ddprun's version, GPU or stand-in.
 */
#ifndef DDPRUN_LAUNCHER_OPTIONS_TERMS_H
#define DDPRUN_LAUNCHER_OPTIONS_TERMS_H

#include "launcher/options/options.h"

#include <stddef.h>

/* Writes "name value\n" ... into terms[bytes]; a longer text is cut. Pure. */
void terms_write(const struct options *options, bool softgpu, char *terms, size_t bytes);

#endif
