/*
 * verdict.h - are N ranks equal to one, and if not, why? Pure: rows in, a verdict out.
 *
 * Equal is a tensor whose difference from the reference, relative to the larger of the tensor's norm and 1e-4 of the
 * norm of all tensors of its role, scaled to its count (a gradient that is zero in theory is rounding noise), is at
 * most max(ITEMS_FLOOR_FACTOR x floor, tolerance), as a whole and in each block of its elements. The floor of a tensor
 * is what repeating the program on one rank, or starting it one unit in the last place away, makes of it. What began a
 * step with the reference's values is held against what the step has changed (tools/check/format/change.h). A tolerance
 * that hides mistakes makes nothing equal.
 */
#ifndef DDPRUN_TOOLS_CHECK_COMMAND_VERDICT_H
#define DDPRUN_TOOLS_CHECK_COMMAND_VERDICT_H

#include "tools/check/command/evidence.h"

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
    X(PLAN, "plan")               /* ranks that take turns by a plan compute something else */              \
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

/* One tensor over all steps and ranks. Differences are relative, as above; the larger of the whole's and a block's. */
struct check_item {
    struct check_tensor tensor;
    double difference;   /* of the worst step and rank */
    double typical;      /* the largest, beside what tensors of the role typically have: little of noise */
    double floor;        /* of that step */
    uint32_t worst_step; /* 0: never compared */
    int worst_rank;
    bool differs;
    uint32_t first_step; /* in which it differs, by `first_rank`; 0: none */
    double at_first;     /* the difference then, of the worst rank, */
    double limit;        /* and up to where it would have been equal */
    int first_rank;
    unsigned moment;                   /* of this first difference: items_moment() */
    int rank_count;                    /* ranks on which it differs then */
    uint64_t block_first, block_count; /* elements, if a part of it is meant; block_count 0: all of it */
    bool unbounded; /* it has infinities or NaNs that one rank does not have, or the other way round */
    bool endless;   /* and one rank has others */
    bool is_own; /* unannotated memory of each rank's own update, where ranks average parameters: it does not count */
    bool is_scratch; /* unannotated memory that holds nothing from step to step: it does not count */
    bool ignored;    /* a mean that does not repeat on one rank: it does not count */
    bool unweighted; /* a mean over ranks whose shares are unequal: it does not count either */
    bool unclear;    /* it is equal only by a tolerance that hides mistakes, or its change is no more than rounding */
    double hidden;   /* the largest difference that is equal only by such a tolerance; 0: none */
    bool moved;      /* some step has changed it, on one rank */
    uint32_t decided_step; /* in which one rank makes the same difference from a start nearby: a decision near zero,
                              which does not count; 0: none, */
    double decided;        /* so large */
    bool compensated;      /* all of it is one factor, which the update undoes: it does not count */
    double factor; /* what DDP_REDUCE finds is always so many times one rank's: it does not count; 0: it is not */
};

struct check_verdict {
    enum check_result result;
    enum check_cause cause;
    struct check_item *items; /* [item_count]: worst first, those that differ before the others */
    size_t item_count;
    const struct check_item *first; /* that the sentence is about; NULL: none */
    double factor;                  /* of CAUSE_SCALE and CAUSE_UPDATE: of gradients or of a step's change, relative to
                                       one rank's; 0: none */
    bool is_precise;                /* the sentence names the call or the annotation: no closer look */
    double tolerance;               /* that was used */
    double bearable;                /* nothing above it counts as equal */
    double largest, largest_floor;  /* over all items that count */
    char text[1024], advice[1024];  /* the verdict in a sentence, and what to do next; advice may be empty */
};

/* Which further runs would tell causes apart. */
struct check_wishes {
    bool plain;
    bool again;    /* the run that is checked, once more: do its ranks repeat what they do? */
    double factor; /* one rank with so many times the gradients, in rounds with changed results; 0: not */
    bool probe;    /* one rank with changes to unannotated memory */
    bool nudged;   /* one rank whose steps begin a unit in the last place away, once more */
    bool far;      /* one rank with quite other parameters */
};

void check_judge(const struct check_evidence *evidence, struct check_verdict *verdict, struct check_wishes *wishes);
void check_verdict_free(struct check_verdict *verdict);

/* "scale", "direction", ...; NULL for CAUSE_NONE. */
const char *check_cause_name(enum check_cause cause);

/* ---- sentence.c ---- */
/* The parts of a verdict's sentence, and what it decides: between verdict.c and equal.c, which draw the conclusions.
 * Pure. */

void sentence_say(char text[1024], const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The verdict, about an item or NULL, in a sentence; `advice` NULL: what to do stays as it is. */
void sentence_conclude(struct check_verdict *verdict, enum check_result result, enum check_cause cause,
                       const struct check_item *first, const char *advice, const char *format, ...)
    __attribute__((format(printf, 6, 7)));

/* As the program annotates it: "gradient 3, `g` (train.cu:12), 400 elements", valid in the block around, as the next
 * two. */
const char *sentence_name_tensor(const struct check_tensor *tensor, char text[400]);
#define TENSOR_NAME(tensor) sentence_name_tensor((tensor), (char[400]){""})

/* "parameter 2 of 6, `w1` (train.cu:12), 400 elements", "unannotated memory 2, which `adam` writes (argument 3)". */
const char *sentence_name_item(const struct check_verdict *verdict, const struct check_item *item, char text[400]);
#define ITEM_NAME(verdict, item) sentence_name_item((verdict), (item), (char[400]){""})

/* How a verdict on an item that differs begins: "after step 3 parameter 2 of 6, `w1` (train.cu:12), 400 elements,
 * differs from one rank's by 0.5 on all ranks". */
const char *sentence_place(const struct check_evidence *evidence, const struct check_verdict *verdict,
                           const struct check_item *item, char text[600]);
#define ITEM_PLACE(evidence, verdict, item) sentence_place((evidence), (verdict), (item), (char[600]){""})

/* To the advice: what the program reads, and where. */
void sentence_add_readings(const struct check_evidence *evidence, struct check_verdict *verdict);
/* Where ranks with one date do what one rank does, and ranks with dates and random bytes of their own do not. */
void sentence_say_seeded(const struct check_evidence *evidence, struct check_verdict *verdict);

/* The place comes first, then what differs; the place's advice replaces the verdict's, but where that has a factor. */
struct place;
void sentence_put_place(const struct check_evidence *evidence, struct check_verdict *verdict,
                        const struct place *place);

/* ---- items.c ---- */
/* From rows to tensors: how far each is from the reference, where it begins to differ, and what its floor is.
 * Between verdict.c, which says what that means, and the rows. Pure. */

/* Every tensor that occurs in the runs, by role and number; `*count_p` of them, malloc'ed. `ranked`: the run that is
 * judged. */
struct check_item *items_make(const struct check_evidence *evidence, const struct check_rows *ranked, size_t *count_p);

/* When something is compared, as a number that grows: parameters and unannotated memory when step `step` begins,
 * gradients, buffers and means when its averages are there. 0: never. */
unsigned items_moment(uint32_t role, uint32_t step);
unsigned items_moment_of(const struct check_row *row);

/* The step that made the first difference: of a parameter or memory the one whose update left it so, 0: none had. */
uint32_t items_step(const struct check_item *item);

/* The relative difference that counts as equal in a type of element.h; above ITEMS_BEARABLE times that, nothing does.
 * So does ITEMS_FLOOR_FACTOR times the floor. */
enum { ITEMS_BEARABLE = 4, ITEMS_FLOOR_FACTOR = 20 };
double items_tolerance(int type);

/* Puts those that differ first, and the worst of them before others. */
void items_sort(struct check_item *items, size_t count);

/* The order of pointers to rows by tensor and step, for qsort(). */
int items_compare_rows(const void *a, const void *b);

/* Whether a tensor of the role differs on one rank with gradients, or results, that were multiplied. */
bool items_scaled_differ(const struct check_evidence *evidence, uint32_t role);

/* ---- carried.c ---- */
/* Does the host keep what is trained, and copy it to the device, where no annotation names it? From what ranks copy,
 * by call site (struct check_copy). */

/* Of what is equal otherwise. A weight or a state of the host's may differ from rank to rank by too little to show in
 * gradients, as at a small learning rate; its bits tell. Data may differ, too: a run of one rank from parameters that
 * are far away tells them apart, for it copies the same data. */
void carried_judge(const struct check_evidence *evidence, struct check_verdict *verdict, struct check_wishes *wishes);

/* ---- reductions.c ---- */
/* What the results of DDP_REDUCE say: all there is of a program without DDP_STEP, whose steps are rounds of such
 * calls, and something besides of others. Pure. */

/* Results that are the number of ranks times one rank's, or that part of it, do not count as different: the program may
 * divide by it. */
void reductions_settle(const struct check_evidence *evidence, struct check_verdict *verdict);

/* Of another one, that is equal but for these: the verdict if some differ. */
void reductions_judge_besides(const struct check_evidence *evidence, struct check_verdict *verdict);

#endif
