/*
 * run.h - one run of `ddprun check`: what the launcher asks of the engine, and what the engine answers.
 *
 * Down: DDPRUN_ENV_CHECK_RUN names a file of settings, struct check_run. Up: each rank appends struct
 * check_row to a file of its own, "<results>-<rank>", as it goes; what was written before the rank ended is there,
 * whatever became of it.
 */
#ifndef DDPRUN_TOOLS_CHECK_FORMAT_RUN_H
#define DDPRUN_TOOLS_CHECK_FORMAT_RUN_H

#include "tools/near/norms.h"

#include <limits.h>
#include <stdbool.h>

/* Absolute path of struct check_run; absent: an ordinary run. */
#define DDPRUN_ENV_CHECK_RUN "_DDPRUN_CHECK_RUN"
/* Folder that what such ranks write lies in, one in it for each rank; absent: in the job folder. */
#define DDPRUN_ENV_CHECK_FILES "_DDPRUN_CHECK_FILES"

/* Exit code of the command, and of a run that cannot be compared. */
enum { CHECK_EXIT_NOT_COMPARABLE = 3 };

enum check_mode {
    CHECK_WRITES,   /* the reference */
    CHECK_COMPARES, /* with it */
};

/*
 * Steps of a reference where --steps does not say how many: CHECK_STEPS; fewer, but CHECK_STEPS_LEAST, where they take
 * longer than CHECK_RUN_S behind the start, or half of the room for the reference.
 */
enum { CHECK_STEPS_LEAST = 4, CHECK_STEPS = 64, CHECK_RUN_S = 30 };

struct check_run {
    uint32_t mode;      /* enum check_mode */
    uint32_t steps;     /* after the update of this one the program is ended */
    bool chooses_steps; /* CHECK_WRITES: `steps` is the most that may be made */
    bool perturbed;     /* every parameter begins one unit in the last place away, */
    bool is_far;        /* or far away: only copies are compared then */
    uint32_t turns;     /* one process plays the turns of so many ranks, where the program has turns */
    bool knows_turns;   /* the program has turns: DDP_WORLD_SIZE() is `turns` from the start */
    bool as_rank_0;     /* it has the turns of rank 0 alone, and compares its calls with those in `calls` */
    bool answers_one;   /* it plays all turns, and DDP_WORLD_SIZE() is 1 all the same */
    bool blinds;        /* as_rank_0: what the host copies of other turns' work is overwritten */
    uint32_t nudge;     /* forced: and each a unit in the last place away, by a pattern of this number; 0: not */
    bool forced;        /* each step begins from the reference (tools/check/trainer/compare.c) */
    double units;       /* forced: so many units in the last place of what an update leaves are rounding */
    double factor;      /* forced: gradients are set to so many times the reference's; 0: as is found. Where steps
                           are rounds, not 0: what DDP_REDUCE finds in the first is changed */
    uint32_t look, look_since; /* operations before this DDP_STEP are kept, from that one on; 0: not */
    bool looks_early;          /* also those before the first annotation */
    bool probes;               /* unannotated memory is changed, to see the effect */
    char reference[PATH_MAX];
    char results[PATH_MAX];
    char calls[PATH_MAX]; /* of a program with turns: what rank 0's host calls goes there; empty: no such file */
};

/* A call of the program's that has an effect on rank 0, in the order in which they come; in the file `calls`. */
struct check_call {
    uint64_t hash;      /* of what it is, and of its numbers */
    double own, result; /* of DDP_MEAN: the value of rank 0, and the mean */
    char name[40];
};

/* Of what direct_save() has saved. False with errno. */
bool check_run_load(const char *path, struct check_run *run) __attribute__((warn_unused_result));

enum check_role {
    CHECK_PARAMETER,
    CHECK_GRADIENT,
    CHECK_BUFFER,
    CHECK_MEAN,   /* a value of DDP_MEAN */
    CHECK_MEMORY, /* annotated as nothing, and written by what updates parameters */
    CHECK_STATE,  /* DDP_STATE */
    CHECK_REDUCE, /* what a call of DDP_REDUCE finds */
    CHECK_ROLES,
};
/* "parameter", "gradient", ... */
const char *check_role_name(uint32_t role);

/* As enum ddp_operation. */
enum check_op { CHECK_OP_MEAN = 2, CHECK_OP_MIN = 3, CHECK_OP_MAX = 4 };

/* What a tensor is: an annotation as the program made it, or for CHECK_MEMORY the call that writes it. */
struct check_tensor {
    uint32_t role, number; /* among those of its role, from 0 */
    uint32_t group; /* of gradients; of CHECK_MEMORY 1: where the same call gets annotated parameters; of CHECK_REDUCE:
                       enum check_op; else 0 */
    uint32_t type;  /* as in element.h */
    uint64_t count; /* elements */
    char text[96];  /* the annotated expression; the kernel or library function */
    char file[128];
    int32_t line;
    uint32_t argument; /* of CHECK_MEMORY: place among the call's arguments, from 0; of CHECK_REDUCE: number of the call
                          among those of its line in the step, from 0 */
};

/* Whether it is memory without annotation that a function writes where it gets parameters that it updates. */
bool check_is_in_place_of_parameter(const struct check_tensor *tensor);

/* Unannotated memory, found again in other runs: the n-th call of a function after a step that gets the same annotated
 * tensor, or none, and one of its arguments. */
struct check_memory {
    struct check_tensor tensor;
    uint64_t call; /* hash of its name */
    uint32_t
        owner; /* the annotated tensor that the call gets first: 1 + role, in the upper byte, and number; 0: none */
    uint32_t ordinal;  /* of the call among those, from 0 */
    uint32_t argument; /* with the word of a struct, as the engine numbers them */
    int64_t offset;    /* bytes from where the argument points */
    uint64_t bytes;
};

enum { CHECK_PLACES_AT_MOST = 4 };

/* A function that updates parameters. */
struct check_updater {
    uint64_t call;        /* as in struct check_memory */
    int32_t type;         /* of the parameters, as in element.h; 0: it was not seen to update any */
    uint32_t place_count; /* arguments in which it gets them, numbered as in struct check_memory: */
    uint32_t places[CHECK_PLACES_AT_MOST];
};

/* What a program copies from the host to the device in a step, by call site: hashes (XXH3), which the reference keeps
 * in REFERENCE_COPIES records, and a rank holds against its own. */
struct check_copies {
    uint64_t site;   /* identity of the call site */
    uint64_t bytes;  /* of all copies of the step */
    uint64_t values; /* of what may be floats, of memory that is not annotated; 0: nothing may */
};

/* What a run has copied from one call site in one step, beside the reference (CHECK_ROW_COPY). */
struct check_copy {
    struct check_copies own, whole;
};

enum check_row_kind {
    CHECK_ROW_TENSOR,   /* `norms` of a tensor at a step */
    CHECK_ROW_OWN,      /* in rounds: `value`: hash of this rank's own floats before DDP_REDUCE */
    CHECK_ROW_SHARD,    /* `value`: items of the first DDP_SHARD, and where they change; `uneven`: not the same for each
                           rank */
    CHECK_ROW_COPIED,   /* `value`: bytes that the host copies to the device in a step, of all but the first two */
    CHECK_ROW_STEP,     /* a boundary was reached; `value`: the number of ranks; tensor.file and .line: the
                            DDP_STEP, where that is known */
    CHECK_ROW_GRAPHS,   /* DDP_STEP is captured: only launches are compared */
    CHECK_ROW_ALARM,    /* text: what would have ended the job */
    CHECK_ROW_STOPPED,  /* text: why ddprun ended the job; exit code in `value` */
    CHECK_ROW_RETAINED, /* `norms.product`: how much of a change is left; `value` 1: other calls get it, too */
    CHECK_ROW_END,      /* `step` steps were made; `value` 1: the program was ended, 0: it ended by itself */
    CHECK_ROW_ASKED,    /* at the end: the program has called DDP_WORLD_SIZE() */
    CHECK_ROW_WEIGHT,   /* DDP_WEIGHT gave this rank a share that is not the mean share */
    CHECK_ROW_AVERAGED, /* `tensor` is a parameter or state that DDP_STEP_PARAMETERS averages */
    CHECK_ROW_SHORT,    /* fewer steps than CHECK_STEPS were made: they take too long, or too much room */
    CHECK_ROW_UNSTEPPED, /* `tensor` is a gradient of a group that made no step */
    CHECK_ROW_ENDLESS,   /* `tensor` is a parameter, infinite or NaN in the run that writes the reference */
    CHECK_ROW_TYPES,     /* at the end: `value` has CHECK_TYPES_... of what calls of libraries have named */
    CHECK_ROW_FORCED,    /* the gradients of tensor.group were set to norms.product times the reference's */
    CHECK_ROW_DATE,      /* `value`: the date with which compared runs begin, microseconds since 1970 */
    CHECK_ROW_READING,   /* at the end: text: ",OUTER,OUTER CALL OBJECT", which has read the date or random bytes;
                            `value`: where in the object, and OUTER the calls around it */
    CHECK_ROW_COPY,      /* `copy`: what a call site has copied to the device in a step */
    CHECK_ROW_SITE,      /* text: frames of call site `value`, "OBJECT OFFSET" a line; the launcher makes it a place */
    CHECK_ROW_AFTER,     /* an updater has changed `tensor`, a parameter or memory without annotation, norms.own times
                            after the last DDP_STEP: more often than between two of them, at most norms.reference */
    CHECK_ROW_TURNS,     /* DDP_TURN_BEGIN has come; `value`: turns of a round, which is a step */
    CHECK_ROW_BATCHES,   /* at the end: `value`: batches of turns that have begun */
    CHECK_ROW_LEFT,      /* `tensor`: unannotated memory that the rank's batch leaves otherwise than one process;
                            `of_change`: the batch has changed it, `uneven`: it has also found it otherwise, `moved`:
                            both have added the same to it, tensor.group 1: the host has copied to it in this batch;
                            `value`: turn; text: frames of the call that gets it */
    CHECK_ROW_CALL,      /* what the host copies of left out work changes this call, of name tensor.text; text: frames;
                            `value`: enum check_called */
    CHECK_ROW_STALE,     /* after a DDP_STEP without effect a copy brings the host what left out work should have
                            written; text: frames */
    CHECK_ROW_COUNTED,   /* the host gives an update that is left out another number, argument tensor.argument, than the
                            update before: norms.reference and .own; text: frames */
    CHECK_ROW_REPEATED,  /* after a DDP_STEP without effect this call, of name tensor.text, changes memory again that it
                            has changed before and no other has changed since; text: frames */
    CHECK_ROW_ROUNDS,    /* no DDP_STEP came: a step is a round of DDP_REDUCE calls */
    CHECK_ROW_ASKED_EARLY, /* in one process DDP_WORLD_SIZE() was asked for before DDP_TURN_BEGIN came, and was 1 */
};

/* Of a CHECK_ROW_CALL: the call has other numbers, or is another; it is a DDP_MEAN of another value; the program ends
 * before it; it comes after the program's end. */
enum check_called { CHECK_CALLED_OTHERWISE, CHECK_CALLED_MEAN, CHECK_CALLED_NONE, CHECK_CALLED_MORE };

enum { CHECK_TYPES_FLOAT16 = 1, CHECK_TYPES_BFLOAT16 = 2 }; /* or narrower */

struct check_row {
    uint32_t kind;   /* enum check_row_kind */
    uint32_t step;   /* of gradients: of their group */
    uint32_t during; /* step of the first group, where that is another; 0: the same */
    struct check_tensor tensor;
    struct check_norms norms;
    uint64_t value; /* of a tensor: hash of what this rank has; 0: not known */
    bool uneven, same_bits, of_change;
    bool moved;    /* the step before has changed what the reference has */
    bool averaged; /* by DDP_STEP_PARAMETERS */
    union {
        char text[512];
        struct check_copy copy;
    };
};

/* Opens "<results>-<rank>" for appending; -1 with errno. */
int check_rows_open(const char *results, int rank) __attribute__((warn_unused_result));
bool check_rows_add(int fd, const struct check_row *row) __attribute__((warn_unused_result));

/* All whole rows of a rank so far, malloc'ed, NULL with *count_p 0 if there are none. */
struct check_row *check_rows_load(const char *results, int rank, size_t *count_p);

#endif
