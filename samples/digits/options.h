/*
 * options.h - the trainer's command line.
 */
#ifndef DIGITS_OPTIONS_H
#define DIGITS_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct options {
    size_t batch; /* images a step; with several ranks, of all ranks together */
    size_t steps;
    float rate;
    uint64_t seed;    /* of the initial weights and of the order of the images */
    const char *data; /* a CSV file */
    const char *save; /* where the parameters go at the end, or NULL */
    size_t log_every; /* steps between two lines with the loss */
    bool quiet;       /* print errors only */
};

/* Ends the program: after --help with exit code 0, after a mistake with one line and exit code 2. */
struct options options_parse(int argc, char **argv);

#endif
