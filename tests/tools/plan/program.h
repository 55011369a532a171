/*
 * program.h - what the trainers of plans have in common, each of which is one file of CUDA: ways, of which the first
 * word of the command line names one, options, and what a run of several ranks must come to (oracle.h).
 *
 *     PROGRAM WAY [--steps N] [--save FILE] [--oracle RANKS | --oracle-gradients RANKS] [--offset BATCHES] [MORE]
 *
 * Without a word a program prints its ways. --oracle, --oracle-gradients: the oracle's turns are by state, or by
 * gradients. --offset: so many batches are as in one process, before the first round. MORE are options of the program.
 */
#ifndef TESTS_TOOLS_PLAN_PROGRAM_H
#define TESTS_TOOLS_PLAN_PROGRAM_H

#include "tests/lib/trainer_memory.h"
#include "tests/lib/trainer_options.h"
#include "tests/tools/plan/oracle.h"

#include <stdio.h>
#include <string.h>

static const char *way, *path = "/dev/null";
static int steps = 60;

static inline bool
is(const char *name)
{
    return strcmp(way, name) == 0;
}

static inline bool
begins(const char *with)
{
    return strncmp(way, with, strlen(with)) == 0;
}

/* The command line, whose first word is one of `ways`, else the program ends here. Options begin at word `first`. */
template <size_t N>
static void
program_take(int argc, char **argv, const char *const (&ways)[N], std::vector<option_row> more = {}, int first = 2)
{
    int by_gradients = 0;
    for (const char *name : ways) {
        if (argc < 2)
            puts(name);
        else if (strcmp(name, argv[1]) == 0)
            way = name;
    }
    if (argc < 2)
        exit(0);
    if (way == NULL) {
        fprintf(stderr, "%s: %s is no way; without a word it prints all of them\n", argv[0], argv[1]);
        exit(2);
    }
    more.insert(more.end(), {{"--steps", &steps},
                             {"--save", &path},
                             {"--oracle", &oracle.ranks},
                             {"--oracle-gradients", &by_gradients},
                             {"--offset", &oracle.offset}});
    take_options(argc, argv, first, more);
    oracle.by_gradients = by_gradients > 0;
    if (by_gradients > 0)
        oracle.ranks = by_gradients;
}

#endif
