/*
 * verdict.h - are N ranks equal to one, and if not, why? Pure: facts in (tools/check/evidence/facts.h), a verdict out.
 */
#ifndef DDPRUN_TOOLS_CHECK_VERDICT_VERDICT_H
#define DDPRUN_TOOLS_CHECK_VERDICT_VERDICT_H

#include "tools/check/evidence/facts.h"

enum check_result { CHECK_EQUAL, CHECK_DIFFERENT, CHECK_NOT_COMPARABLE };

/* X(CAUSE, its name). */
#define CHECK_CAUSES(X)                                                                                     \
    X(NONE, NULL)                                                                                           \
    /* different */                                                                                         \
    X(DATA, "data")               /* what ranks copy from the host is not the batch, in shares */           \
    X(SCALE, "scale")             /* every gradient is off by one factor */                                 \
    X(DIRECTION, "direction")     /* already the first gradients are other ones */                          \
    X(UPDATE, "update")           /* gradients are equal, parameters are not */                             \
    X(TENSOR, "tensor")           /* one tensor or a few */                                                 \
    X(START, "start")             /* parameters differ before the first step */                             \
    X(UNANNOTATED, "unannotated") /* memory that is annotated as nothing */                                 \
    X(SAME_BATCH, "same_batch")   /* equal, and so are all ranks' own gradients */                          \
    X(OVERFLOW, "overflow")       /* infinite or NaN on the ranks alone */                                  \
    X(OVERLAP, "overlap")         /* right without overlap */                                               \
    X(RANKS, "ranks")             /* ranks differ from each other */                                        \
    X(SEEDED, "seeded")           /* by the clock or by random bytes; also not comparable */                \
    X(REDUCTION, "reduction")     /* what DDP_REDUCE finds; beside equal parameters: not comparable */      \
    X(PLAN, "plan")               /* ranks by a plan compute something else; also not comparable */         \
    X(TURNS, "turns")             /* a batch depends on others, which ranks leave out (DDP_TURN_BEGIN) */   \
    X(STOPPED, "stopped")         /* ddprun ended the run */                                                \
    /* not comparable */                                                                                    \
    X(NOT_REPEATABLE, "not_repeatable")                                                                     \
    X(CHAOTIC, "chaotic")                                                                                   \
    X(BATCH_DEPENDENT, "batch_dependent") /* the mean over shares is not the gradient of the whole batch */ \
    X(INDIVISIBLE, "indivisible")                                                                           \
    X(DATA_SET, "data_set")        /* each rank takes a whole batch */                                      \
    X(NOTHING, "nothing_compared") /* nothing was compared */                                               \
    X(UNMOVED, "not_moved")        /* no step has changed a parameter */                                    \
    X(ENDLESS, "not_finite")       /* infinite or NaN on one rank, too */                                   \
    X(INDEPENDENT, "independent")  /* no result of DDP_REDUCE depends on another */                         \
    X(CARRIED, "host_memory")      /* what each rank computes for itself on the host, and copies to the device */

enum check_cause {
#define CAUSE(cause, name) CAUSE_##cause,
    CHECK_CAUSES(CAUSE) CAUSE_COUNT
#undef CAUSE
};

enum { VERDICT_BYTES = 1024, VERDICT_ALSO_MOST = 3 };

/* A further cause, which the first one does not explain. */
struct verdict_also {
    char text[VERDICT_BYTES], advice[VERDICT_BYTES];
};

struct check_verdict {
    enum check_result result;
    enum check_cause cause;
    const char *rule;                /* the name of the row that decided (rows.h); static storage */
    const char *place_rule;          /* that of the place in the text; NULL: no place, or none that a row gives */
    const struct check_facts *facts; /* that it was made of, which outlive it */
    const struct check_item *first;  /* that the sentence is about; NULL: none */
    double factor;                   /* of CAUSE_SCALE and CAUSE_UPDATE: of gradients or of a step's change, relative to
                                        one rank's; 0: none */
    bool is_precise;                 /* the sentence names the call or the annotation: no closer look */
    bool is_advised_by_place;   /* the advice is that of the operation that differs first, and holds in turns, too */
    char text[VERDICT_BYTES];   /* the verdict in a sentence; empty: equal */
    char advice[VERDICT_BYTES]; /* what to do next; may be empty */
    struct verdict_also also[VERDICT_ALSO_MOST];
    size_t also_count;
};

/* By the row of rows.h that applies. */
void verdict_judge(const struct check_facts *facts, struct check_verdict *verdict);

/* "scale", "direction", ...; NULL for CAUSE_NONE. */
const char *check_cause_name(enum check_cause cause);

/* ---- wishes.c ---- */
/* Which further runs would tell causes apart. */
struct check_wishes {
    bool plain;    /* the ranks without overlap */
    bool again;    /* the run that is checked, once more: do its ranks repeat what they do? */
    double factor; /* one rank with so many times the gradients, in rounds with changed results; 0: not */
    bool probe;    /* one rank with changes to unannotated memory */
    bool nudged;   /* one rank whose steps begin a unit in the last place away, once more */
    bool far;      /* one rank with quite other parameters */
};

void verdict_wish(const struct check_facts *facts, const struct check_verdict *verdict, struct check_wishes *wishes);

/* ---- sentence.c ---- */
/* Into `text`. */
void sentence_say(char text[VERDICT_BYTES], const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Another verdict in its place, about an item or NULL, in a sentence; `advice` NULL: what to do stays as it is. For
 * what is found after the verdict, by other evidence than facts. */
void sentence_conclude(struct check_verdict *verdict, enum check_result result, enum check_cause cause,
                       const struct check_item *first, const char *advice, const char *format, ...)
    __attribute__((format(printf, 6, 7)));

/* As the program annotates it: "gradient 3, `g` (train.cu:12), 400 elements", valid in the block around, as the next
 * two. */
const char *sentence_name_tensor(const struct check_tensor *tensor, char text[400]);
#define TENSOR_NAME(tensor) sentence_name_tensor((tensor), (char[400]){""})

/* "parameter 2 of 6, `w1` (train.cu:12), 400 elements", "unannotated memory 2, which `adam` writes (argument 3)". */
const char *sentence_name_item(const struct check_facts *facts, const struct check_item *item, char text[400]);
#define ITEM_NAME(facts, item) sentence_name_item((facts), (item), (char[400]){""})

/* How a verdict on an item that differs begins: "after step 3 parameter 2 of 6, `w1` (train.cu:12), 400 elements,
 * differs from one rank's by 0.5 on all ranks". */
const char *sentence_place(const struct check_facts *facts, const struct check_item *item, char text[600]);
#define ITEM_PLACE(facts, item) sentence_place((facts), (item), (char[600]){""})

/* ", the number of ranks", ", the reciprocal of the number of ranks", or nothing. */
const char *sentence_factor(const struct check_facts *facts, double factor);

/* ---- seeded.c ---- */
/* Another verdict in its place: ranks with dates and random bytes of their own do not do what one rank does. `is_all`:
 * ranks with one date do; else they do something else. What is to be annotated stays the cause: then it may start from
 * any seed. */
void verdict_say_seeded(struct check_verdict *verdict, bool is_all);

/* The other's sentence and advice, as a further cause; the first few are kept. */
void verdict_add(struct check_verdict *verdict, const struct check_verdict *other);

#endif
