/*
 * operation.h - what is known of the first operation that changes memory into something that N ranks and one process do
 * not have in common. Each fact is computed once (command/operation.c), and has a name. The rows of rows.h are
 * functions of these facts alone.
 */
#ifndef DDPRUN_TOOLS_CHECK_PLACE_OPERATION_H
#define DDPRUN_TOOLS_CHECK_PLACE_OPERATION_H

#include "tools/check/place/place.h"

enum {
    OPERATION_NAME_BYTES = 320,     /* "`bce` (train.cu:71)" */
    OPERATION_ARGUMENT_BYTES = 96,  /* "argument 5 (`touched`)" */
    OPERATION_VALUES_BYTES = 200,   /* "0.125 on rank 0, 0.11 on rank 1 and 0.0625 in one process" */
    OPERATION_ELEMENT_BYTES = 260,  /* " (element 3: 0.125 on all ranks and 0.0625 in one process)"; may be empty */
    OPERATION_SENTENCE_BYTES = 700, /* a part of a sentence, which begins with its comma or semicolon; may be empty */
};

/* How the ranks' numbers in an argument relate to one process's: the larger, the more it says. */
enum scalar_level {
    SCALAR_ALIKE,
    SCALAR_SIZE,        /* whole numbers that add up, as sizes of shares do; or that are where a share ends */
    SCALAR_RISES,       /* whole numbers that rise with the rank, as where a share begins */
    SCALAR_PART,        /* the share's part of one process's, or N times that */
    SCALAR_COUNT,       /* they, or what divides, add up, but are not alike: a count */
    SCALAR_SEED,        /* whole numbers that rise with the rank as its own number does, or from a date on */
    SCALAR_UNEXPLAINED, /* no share explains them */
    SCALAR_WEIGHS,      /* a count by which the ranks' gradients, weighed, are one process's */
};

/* The number among the arguments of an operation that says most. */
struct place_scalar {
    enum scalar_level level;
    char operation[OPERATION_NAME_BYTES]; /* whose argument it is */
    char argument[OPERATION_ARGUMENT_BYTES];
    char values[OPERATION_VALUES_BYTES];
    bool is_of_mean;           /* it is one divided by the size of the share, as a mean over the share has it */
    bool is_first_item;        /* it is so many items beyond one process's as the share is */
    bool scales_average;       /* after DDP_STEP, of a gradient: 1/N or N times one process's number, on all ranks */
    bool advances_by_share;    /* since the step before, where one process's advances by the batch */
    char variable[96];         /* the program's, from which the argument gets its value; empty: not known */
    char line[120];            /* where the variable gets it; empty: not known */
    char computed_from[300];   /* ", computed from `seen` (train.cu:12)", or empty */
    bool is_computed_of_share; /* what it is computed from is the rank's share */
    char host_reads[OPERATION_SENTENCE_BYTES]; /* what the host has read before the operation; empty: nothing */
};

/* Memory that another operation of the step has added up over the share. */
struct place_sum {
    bool is_there;
    char argument[OPERATION_ARGUMENT_BYTES]; /* that points to it */
    char element[OPERATION_ELEMENT_BYTES];
    char writer[OPERATION_NAME_BYTES];
    struct place_scalar scalar; /* of the writer; SCALAR_ALIKE if not all ranks make it */
    bool weighs;                /* weighed by it, the mean of the ranks' gradients is one process's */
};

struct operation {
    /* ---- what is asked: a tensor that ---- */
    bool is_update;    /* is changed after DDP_STEP: all that leads to it must be the same on all ranks */
    bool is_early;     /* is changed before DDP_STEP, and is no gradient */
    bool is_averaged;  /* DDP_STEP_PARAMETERS averages */
    bool is_of_reduce; /* DDP_REDUCE finds */
    bool is_uneven;    /* has unequal shares in this step */

    /* ---- the operation ---- */
    char name[OPERATION_NAME_BYTES];
    bool is_probable;      /* memory before it was not kept: another operation may be the first */
    bool is_reduce;        /* it is a DDP_REDUCE */
    char reduced[104];     /* of such a call: what it gets, as the program has it */
    bool is_copy;          /* it copies from the host */
    bool gets_same;        /* all memory that it gets is the same on all ranks and in one process */
    bool are_alike;        /* the numbers that it gets, and its results, are the same on all ranks */
    bool gets_averageless; /* it gets parameters, or state, that the rank's own update has changed */
    bool is_late;          /* it gets gradients that the rank's own operation has changed */
    bool is_backward;      /* it changes a parameter, and no operation before DDP_STEP changes an annotated gradient */
    uint64_t blocks;       /* of its grid, in one process; */
    int blocks_rank;       /* the first rank that has others; -1: none */
    uint64_t rank_blocks;  /* and how many that has */

    /* ---- the memory that it changes ---- */
    char changed[OPERATION_ARGUMENT_BYTES];        /* the argument that points to it */
    char changed_element[OPERATION_ELEMENT_BYTES]; /* after the operation */
    bool is_tensor;                                /* it is the tensor that is asked for, by its annotation */
    bool is_target;                                /* the same, or the memory that is asked for */
    bool is_of_gradient;                           /* it is an annotated gradient */
    bool is_annotated;                             /* it is annotated */
    bool clears_part; /* it clears a gradient that DDP_STEP has averaged, and on a rank less of it */
    bool makes_rows;  /* it is rows of the share, not a result of the same size on all; never of an update */
    char first_rows[OPERATION_ARGUMENT_BYTES]; /* the argument that points to rows of the share: rank 0's are the first
                                                  ones of one process; another rank's are not those that follow; empty:
                                                  none */
    char first_rows_element[OPERATION_ELEMENT_BYTES];
    bool is_part;                                /* the ranks' changes add up to one process's */
    bool adds_same_term;                         /* each rank adds what one process adds */
    char equal_number[OPERATION_SENTENCE_BYTES]; /* ", and alpha is 0.1 ..." of such a term; may be empty */

    /* ---- what it gets ---- */
    struct place_scalar scalar;
    char share_size[OPERATION_SENTENCE_BYTES]; /* ", and `n`, which depends on the size of the share, is ..." */
    struct place_sum sum;
    bool gets_rows;                          /* it reads memory that is neither one process's, nor adds up to that */
    char unmoved[OPERATION_VALUES_BYTES];    /* "; `x` points to the same values on all ranks: ..." */
    char integers[OPERATION_ARGUMENT_BYTES]; /* whole numbers of rows that are not one process's; empty: none */
    char integers_element[OPERATION_ELEMENT_BYTES];
    char integers_writer[OPERATION_NAME_BYTES];
    char gradient[OPERATION_ARGUMENT_BYTES]; /* the first annotated gradient that it gets; empty: none */
    char gradient_element[OPERATION_ELEMENT_BYTES];

    /* ---- memory that nothing compares: the place that it shows (place_inputs.c); kind and text, or no text ---- */
    struct place input;         /* without relation to one process's */
    struct place input_of_rows; /* or rows, which need not be those of the batch */
    struct place input_besides; /* or what it changes besides, as it was before */

    /* ---- of a copy from the host ---- */
    bool copies_whole;         /* each rank copies as much as one process */
    bool comes_again;          /* the same call copies in later steps, too */
    bool has_rank_0_its_share; /* rank 0 copies its share of one process's batch, and no other rank copies its own */
    struct place
        items; /* items of the batch or of others, which are not the ranks' shares (place_copies.c); or no text */
    char host_reads[OPERATION_SENTENCE_BYTES];  /* what the host has read before it; may be empty */
    char host_writes[OPERATION_SENTENCE_BYTES]; /* where the host sets the values; may be empty */
};

#endif
