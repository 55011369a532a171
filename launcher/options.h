/*
 * options.h - what the user asked for on the command line of `ddprun`.
 *
 * One table in options.c is the source of both the parser and `--help`. Called by main() once, and by the unit tests.
 */
#ifndef DDPRUN_LAUNCHER_OPTIONS_H
#define DDPRUN_LAUNCHER_OPTIONS_H

#include "base/protocol.h"
#include "launcher/gpu_list.h"
#include "launcher/problem.h"

#include <stdint.h>
#include <stdio.h>

/* Ranks on one machine; two pipes each must fit the usual limit of 1024 open files. */
#define OPTIONS_MOST_RANKS 256

enum device_choice {
    DEVICE_AUTO, /* what the program was built for */
    DEVICE_GPU,
    DEVICE_SOFTGPU,
};

/* Strings point into argv. Release with options_free(). */
struct options {
    int rank_count; /* 0: not given */
    enum device_choice device;
    struct gpu_list gpus; /* empty: not given */
    bool share_gpu;
    uint64_t bucket_bytes; /* 0: as measured */
    bool overlap;
    enum ddprun_reduction reduction;
    enum ddprun_compression compression;
    unsigned communicator_count;
    const char *nccl; /* path or name; NULL: not given */
    bool verify;
    unsigned check_every;
    unsigned timeout_s;
    const char *trace_dir; /* NULL: no trace */
    bool quiet;
    char **program; /* argv of the trainer, NULL-terminated, at least one word */
};

enum options_result {
    OPTIONS_RUN,
    OPTIONS_HELP,    /* --help was given; nothing else was checked after it */
    OPTIONS_VERSION, /* the same for --version */
    OPTIONS_BAD,     /* `problem` says why */
};

/* Options end at the first word that is none: the program. `options` is set only when the result is OPTIONS_RUN. Not
 * thread-safe (getopt). */
enum options_result options_parse(int argc, char **argv, struct options *options, struct problem *problem)
    __attribute__((warn_unused_result));

void options_free(struct options *options);

/* Writes the help, made from the table. */
void options_print_help(FILE *out);

#endif
