/*
 * place.h - where the step of N ranks and that of one process first part: an operation, and what is known of it.
 */
#ifndef DDPRUN_TOOLS_CHECK_PLACE_PLACE_H
#define DDPRUN_TOOLS_CHECK_PLACE_PLACE_H

#include <stdbool.h>
#include <stdint.h>

enum place_kind {
    PLACE_SCALAR,  /* an argument */
    PLACE_INPUT,   /* memory that nothing compares */
    PLACE_BEFORE,  /* the same, which was written before DDP_STEP */
    PLACE_UNNAMED, /* the same: a gradient */
    PLACE_CHANGED, /* gradients, which an operation after backward changes */
    PLACE_DATA,    /* a copy of other parts of the batch than the shares */
    PLACE_HOST,    /* a copy of all that one process copies from the host */
    PLACE_SHARE,   /* an operation that computes over the rows of a share, or the host does before a copy */
    PLACE_MISSING, /* an operation that not all make */
    PLACE_TERM,    /* a number of one of several terms of a gradient */
    PLACE_UPDATED, /* the host's update: no operation makes it */
};

enum { PLACE_TEXT_BYTES = 840 };

struct place {
    enum place_kind kind;
    bool is_lost;                /* there is none, for a file of a rank could not be written */
    bool is_before;              /* it comes in a step before */
    bool is_probable;            /* some memory before it was not kept; or an argument may mean something else */
    uint32_t tensor;             /* that the text speaks of, as in struct look_argument; 0: of none */
    char text[PLACE_TEXT_BYTES]; /* "`bce` (train.cu:71) is the first operation that differs: ..." */
    const char *advice;          /* static storage; NULL: the verdict has it */
    const char *rule;            /* the name of the row that gave it (rows.h), static storage; NULL: none did */
};

#endif
