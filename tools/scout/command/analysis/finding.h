/*
 * finding.h - what a scouted run shows of a trainer: its period, the role of its memory, where gradients are complete.
 *
 * scout_find() is the whole analysis, pure logic on a log. Texts are for users and belong to the finding.
 * Threads: one at a time for each finding.
 */
#ifndef DDPRUN_TOOLS_SCOUT_COMMAND_ANALYSIS_FINDING_H
#define DDPRUN_TOOLS_SCOUT_COMMAND_ANALYSIS_FINDING_H

#include "tools/scout/format/log.h"

enum scout_role {
    ROLE_PARAMETER = 1,
    ROLE_GRADIENT,
    ROLE_OPTIMIZER_STATE, /* computed from gradients; parameters are computed from it */
    ROLE_AVERAGE,         /* computed from gradients or parameters; no parameter is computed from it */
    ROLE_STATISTICS,      /* per rank: computed from data; no parameter is computed from it */
    ROLE_CARRIED,         /* per rank: computed from data, and read by the next step's forward pass */
    ROLE_RANDOM,          /* per rank: no data enters */
    ROLE_INPUT,           /* steps only read it, and other dates or random bytes give it other contents */
    ROLE_SUSPECT,         /* carried, as far as can be told; it may be a parameter that was missed */
};

enum { GROUP_NONE = UINT32_MAX, PAIR_NONE = UINT32_MAX };

struct scout_tensor {
    enum scout_role role;
    uint32_t alloc;  /* of the log: the last allocation in that place */
    uint64_t lo, hi; /* bytes of it */
    uint32_t type;   /* enum scout_type */
    bool guessed;    /* the type: only its bits say it */
    uint32_t pair;   /* of a parameter: its gradient; of a gradient: its parameter; of optimizer state: the parameter */
    uint32_t group;  /* of parameters and gradients; GROUP_NONE */
    uint32_t writer; /* operation of the log that leaves its value in the first period */
    bool cut;        /* parameter of 16 bits of which some elements may not have changed */
    bool fused;      /* parameter without a gradient of its own: its change is what is to be averaged */
    bool updated;    /* of a suspect: it is written as parameters are */
    bool grows;      /* of a suspect: of its own old value, element by element; a parameter, or a cell */
    bool of_inputs;  /* of a suspect: computed from copies from the host, and from itself, alone: where all ranks do so
                        in  each batch, it is the same on all */
    bool named;      /* carried, by the user's word */
};

/* The gradients that can be averaged at one place. */
struct scout_group {
    uint32_t complete; /* operation of the log that writes the last of them */
    uint32_t before;   /* operation of the log before which they must be averaged */
    uint32_t gradients;
    uint32_t parameters;
    bool fused; /* of parameters without gradients: their change is averaged after `complete` */
};

enum { SCRATCH_AT_MOST = 16 };

/* As the fields of a finding; period 0: none. */
struct scout_window {
    uint32_t first, period, begin, end;
};

struct scout_finding {
    bool found;
    bool is_open;     /* not found, but for a question: which ROLE_SUSPECT is state that each rank carries? */
    bool is_unlike;   /* not found, as the recorded periods show different things: more of them may show one */
    bool is_rough;    /* not found, but only what is trained is not the same in all readings, or other bytes */
    bool is_in_place; /* of scout_find_in_place() */
    bool for_lines;   /* lines are wanted, and no plan: what is settled by lines is no question */
    struct scout_window in_place; /* not found, but steps in which a launch computes gradients and its update */
    bool feeds_back;              /* something leads from a period into its own place in the next one: it is a step */
    char *reason;                 /* why not; NULL if found */
    uint32_t first, period; /* operations [first, first + period) of the log are a period, from border to border */
    uint32_t begin, end;    /* in operations [begin, end) of the log, of the deep pass, the period repeats */
    struct scout_tensor *tensors;
    uint32_t tensor_count;
    struct scout_group *groups;
    uint32_t group_count;
    char **notes; /* what to know, one line each */
    uint32_t note_count;
    char *by_hand;        /* what is left to people, beside lines; NULL: nothing */
    char *varying_reads;  /* where the program makes copies to the host that are in no period; NULL: there are none */
    char instead_of[512]; /* of turns by state: why they are not by gradients; "": it was not asked */
    struct scout_bytes scratch[SCRATCH_AT_MOST]; /* that steps are taken to use as scratch, for a proof to show */
    uint32_t scratch_count;
};

/* Whether two operations are by one call of the program. */
static inline bool
scout_is_same_call(const struct scout_op *a, const struct scout_op *b)
{
    return a->kind == b->kind && a->name == b->name && a->site == b->site;
}
/* Whether an operation is a copy from the host of more than a few numbers. */
bool scout_brings_data(const struct scout_op *op);

/* `without`: NULL, or an earlier finding whose suspects steps are taken to use as scratch, SCRATCH_AT_MOST of them. */
void scout_find(const struct scout_log *log, const struct scout_finding *without, struct scout_finding *finding);
/* Of a program that was refused because a launch computes gradients and its update: what is trained, as far as can be
 * told; all of it is one role, parameters without gradients, and nothing is proved. False: that cannot be told. The
 * finding is released in both cases. */
bool scout_find_in_place(const struct scout_log *log, const struct scout_finding *refused,
                         struct scout_finding *finding) __attribute__((warn_unused_result));
/* Whether steps are taken to use bytes [lo, hi) of an allocation as scratch. */
static inline bool
scout_is_scratch(const struct scout_finding *finding, uint32_t alloc, uint64_t lo, uint64_t hi)
{
    return ANY(it, finding->scratch, finding->scratch_count, it->alloc == alloc && it->lo <= lo && hi <= it->hi);
}
/* The user says which suspects are state that each rank carries: "a3,a7". When no suspect is left, the finding is
 * found. What is written as parameters are stays a suspect, and what grows, unless a proof is going to test it
 * (`is_tested`). False: the list names something else. */
/* Takes the first name of such a list. False: it has none. */
bool scout_list_next(const char **list, uint32_t *alloc) __attribute__((warn_unused_result));
#define SCOUT_UNASKED "--per-rank %s names memory that scout does not ask about; name only the memory in its question"
bool scout_finding_name(struct scout_finding *finding, const char *list, bool is_tested)
    __attribute__((warn_unused_result));
/* Whether an operation was looked at, and has changed nothing, as it was and with other inputs. */
static inline bool
scout_writes_nothing(const struct scout_effect *effect)
{
    return effect != NULL && effect->written_count == 0 && effect->dependence_count == 0 &&
           ALL(segment, effect->segments, effect->segment_count,
               segment->killed.count == 0 && segment->modified.count == 0);
}
/* Whether the program copies any of it to the host. */
bool scout_is_read_by_host(const struct scout_log *log, const struct scout_tensor *tensor);
/* Whether an allocation is made or freed in each step. */
bool scout_is_remade(const struct scout_log *log, const struct scout_finding *finding, uint32_t alloc);
/* Whether it is a variable of the program's code, which each kernel of its module reaches. */
bool scout_is_variable(const struct scout_log *log, uint32_t alloc);
/* Whether it shares bytes with a gradient, as momentum that is kept in a gradient's buffer. */
bool scout_is_in_gradient(const struct scout_finding *finding, const struct scout_tensor *tensor);
void scout_finding_free(struct scout_finding *finding);

/* "parameter", "gradient" ... Static storage. */
const char *scout_role_name(enum scout_role role);
/* "a3[0:64]". Returns `text`. */
const char *scout_tensor_place(const struct scout_tensor *tensor, char text[64]);
/* "float32" ... and its bytes; 0: unknown. */
const char *scout_type_name(uint32_t type);
uint32_t scout_type_bytes(uint32_t type);

/* The operation for readers: a kernel's name as in the source, without its arguments' types, or what else it is.
 * Returns `text`. */
enum { SCOUT_NAME_BYTES = 96 };
const char *scout_op_name(const struct scout_log *log, const struct scout_op *op, char text[SCOUT_NAME_BYTES]);

/* ---- period.c: after how many operations a trainer repeats itself ---- */
/* Operations [end - run - lag, end) of the log repeat after `lag` operations: each of the last `run` is like the one
 * `lag` before. */
struct period {
    uint32_t lag, run, end;
};

/* What may be any in operations that are alike, as the recorder has it (trainer/course.c). */
enum period_likeness {
    PERIOD_EQUAL,      /* nothing */
    PERIOD_ANY_PLACE,  /* where in an allocation copies from the host go */
    PERIOD_ANY_SIZE,   /* grids of launches and bytes of copies */
    PERIOD_LIKENESSES, /* how many there are */
};

/* All lags of operations [first, end) of the log, which have effects, whose longest run is at least twice the lag, so
 * that three periods are alike, ascending: up to `room` of them are stored. Returns their number. Time: count squared
 * divided by 3. */
uint32_t periods_find(const struct scout_log *log, uint32_t first, uint32_t end, enum period_likeness likeness,
                      struct period *periods, uint32_t room);

/* ---- unlike.c ---- */
/* Whether, of operations [first, end) of the log, which repeat after `period` operations, any period shows what none of
 * the three from operation `at` on shows: that other memory depends on an argument, or that an argument's new value
 * comes of its old one not element by element. */
bool unlike_show_more(const struct scout_log *log, uint32_t first, uint32_t end, uint32_t period, uint32_t at);

/* ---- parting.c ---- */
/* Where steps of a program part: after operation `op` of the log comes sometimes a call as `one`, sometimes one as
 * `other`. `read`: the last copy to the host before it; UINT32_MAX: there is none. */
struct parting {
    uint32_t op, one, other, read;
};
/* False: steps part nowhere. */
bool parting_find(const struct scout_log *log, struct parting *parting) __attribute__((warn_unused_result));

/* ---- renewed.c ---- */
/* Why a program whose deep pass ends before operation `end` of the log has no period: a text for users, which the
 * caller frees. */
char *renewed_reason(const struct scout_log *log, uint32_t end);

/* ---- borrow.c ---- */
/* Not every period shows all: of a launch with more inputs than the recorder tries at a time each shows other ones,
 * and in a step that a flag leaves out launches do nothing. What one period shows is lent to the others. */

/* What periods show differs with their age, and what stayed open may be one thing or the other. */
enum reading {
    READING_OLD,  /* each operation does what it did in its own period */
    READING_NEW,  /* what it did in the last one that was recorded */
    READING_OPEN, /* as READING_OLD, and what stayed open goes element by element */
};

/* The log with effects that are completed, as far as operations [first, end), which repeat after `period` operations,
 * show it. The log itself stays as it is, and must outlive the other one, which borrow_free() releases. */
void borrow_make(const struct scout_log *log, uint32_t first, uint32_t end, uint32_t period, enum reading reading,
                 struct scout_log *lent);
/* The first operation of [first, end) of which something stayed open; UINT32_MAX: there is none. */
uint32_t borrow_find_open(const struct scout_log *log, uint32_t first, uint32_t end);
void borrow_free(struct scout_log *lent);

#endif
