/*
 * options.h - what the sample is asked for.
 */
#ifndef KMEANS_OPTIONS_H
#define KMEANS_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

struct options {
    size_t points;     /* of all ranks together */
    size_t iterations; /* of Lloyd's algorithm */
    const char *save;  /* or NULL */
    bool quiet;
};

/* Ends the program with exit code 2 and one line where it is asked for something else, with 0 after --help. */
struct options options_parse(int argc, char **argv);

#endif
