/*
 * options.h - the trainer's command line. The plain C reference takes the same options.
 */
#ifndef CHARGPT_OPTIONS_H
#define CHARGPT_OPTIONS_H

#include "adamw.h"
#include "layout.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct options {
    struct shape shape;       /* vocabulary: 0, it comes with the text */
    size_t batch, accumulate; /* sequences a backward pass, of all ranks together; backward passes a step */
    size_t steps;             /* counted from the beginning, also after --resume */
    float rate, decay, clip;  /* learning rate, weight decay, most norm of the gradients */
    size_t warmup;            /* steps over which the rate rises to its value */
    uint64_t seed;            /* of the initial values, the batches and the sample */
    const char *data;         /* a text */
    size_t eval_every;        /* steps between two lines with the losses */
    size_t eval_batches;      /* batches of the validation part that are evaluated */
    const char *save;         /* where the parameters go at the end, or NULL */
    const char *checkpoint;   /* where checkpoints go, or NULL */
    size_t checkpoint_every;  /* steps between two of them; 0: at the end only */
    const char *resume;       /* the checkpoint to continue from, or NULL */
    size_t sample;            /* characters to write at the end */
    float temperature;        /* of the sample */
    bool quiet;               /* print errors only */
};

/* Ends the program: after --help with exit code 0, after a mistake with one line and exit code 2. */
struct options options_parse(int argc, char **argv);

/* The optimizer's constants for step 1, 2, ... */
struct adamw options_adamw(const struct options *options, size_t step);

#endif
