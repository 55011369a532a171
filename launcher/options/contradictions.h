/*
 * contradictions.h - options that exclude each other, in one table. Pairs that are not in it go together;
 * tests/launcher/test_contradictions.c goes through all of them.
 */
#ifndef DDPRUN_LAUNCHER_OPTIONS_CONTRADICTIONS_H
#define DDPRUN_LAUNCHER_OPTIONS_CONTRADICTIONS_H

#include "launcher/options/options.h"

/*
 * Of two options that exclude each other, one of the command line and one of a setting, the command line's counts;
 * where it is not clear that this is what is wanted, or both have the same source, it is an error (DDPRUN_EXIT_USAGE).
 * `given`: what the command line alone says.
 */
bool contradictions_settle(struct options *options, const struct options *given, struct error *error)
    __attribute__((warn_unused_result));

#endif
