/*
 * rows.h - the rows of which choose.c makes a place: each is a name, the facts to which it applies, its sentence and
 * its advice. Functions of a row are pure, and see operation.h alone.
 *
 * Of the rows that apply, the one of the earliest stage is the place. Rows of one stage exclude each other, so their
 * order means nothing (test_place.c holds that).
 */
#ifndef DDPRUN_TOOLS_CHECK_PLACE_ROWS_H
#define DDPRUN_TOOLS_CHECK_PLACE_ROWS_H

#include "tools/check/place/operation.h"

#include <stddef.h>

/* What is seen directly goes before what follows from it. Each stage says why it goes before the next. */
enum place_stage {
    STAGE_CALL,       /* a DDP_REDUCE has no kernel whose arguments could be wrong */
    STAGE_SWAPPED,    /* an annotation that names other memory: what comes then takes it for what it says */
    STAGE_EARLY_SUM,  /* memory that was written before DDP_STEP: the sum that it got is its cause */
    STAGE_EARLY,      /* ... which is to be the same on all ranks, so no share explains it */
    STAGE_COPY,       /* a copy has no arguments that compute: what comes then speaks of kernels */
    STAGE_CLEARED,    /* a gradient that is not cleared is not computed yet: what comes then speaks of what it is of */
    STAGE_ONE_BATCH,  /* ranks that compute the same items: their numbers are right for these items */
    STAGE_SHARE_SIZE, /* memory is the same, or shares are unequal: then any number that differs is the cause */
    STAGE_COUNT,      /* a number that no equal share explains is wrong whatever memory is */
    STAGE_INTEGERS,   /* integers that differ pick other rows: rows differ then, and no number is wrong */
    STAGE_SUM_INTO_ROWS, /* rows that are computed by a sum over the share differ by that sum */
    STAGE_PART,          /* a number that is the share's part may be right, where memory is such a sum */
    STAGE_INPUT,         /* memory in no relation to one process's, which is seen: no guess at the operation itself */
    STAGE_SUM,           /* a sum over the share is right for a gradient: it is suspected after all other memory */
    STAGE_RISES,         /* a number that rises with the rank is right for most operations */
    STAGE_INPUT_OF_ROWS, /* so are rows of a share, of memory that is not the batch */
    STAGE_INPUT_BESIDES, /* and what the operation overwrites */
    STAGE_LAST,          /* the operation itself */
};

struct place_row {
    const char *name;
    enum place_stage stage;
    enum place_kind kind;
    bool (*applies)(const struct operation *operation);
    void (*say)(const struct operation *operation, char text[PLACE_TEXT_BYTES]);
    const char *advice;                                            /* NULL: none, or by `advise` */
    const char *(*advise)(const struct operation *operation);      /* static storage */
    enum place_kind (*kind_of)(const struct operation *operation); /* NULL: `kind` */
};

/* ---- the families: each ends with a row without a name ---- */
extern const struct place_row place_rows_of_calls[];   /* calls.c: DDP_REDUCE, copies, and what comes before DDP_STEP */
extern const struct place_row place_rows_of_scalars[]; /* scalars.c: numbers among the arguments */
extern const struct place_row place_rows_of_memory[];  /* received.c: what the operation gets */
extern const struct place_row place_rows_of_results[]; /* results.c: the operation itself */

/* All of them: families[0] to a NULL. */
extern const struct place_row *const place_families[];

/* NULL: no row applies. */
const struct place_row *place_find_row(const struct operation *operation);

/* The place that the operation is; false: no row applies, and *place is as before. */
bool place_choose(const struct operation *operation, struct place *place);

/* ---- say.c ---- */
/* "`bce` (train.cu:71) is the first operation that differs: ..." */
void place_begin(const char *name, bool is_probable, char text[PLACE_TEXT_BYTES], const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void place_append(char text[PLACE_TEXT_BYTES], const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- scalars.c ---- */
/* Of a number in an operation, which need not be the place's first: the kind, the sentence and the advice. */
void place_put_scalar(const struct place_scalar *scalar, bool is_update, bool is_uneven, bool is_probable,
                      struct place *place);

/* ---- advice that several rows give ---- */
extern const char place_same_update[], place_weigh_shares[], place_move_step[], place_reduce_value[], place_add_first[],
    place_read_checkpoint[];

#endif
