/*
 * play.h - a run by a plan: what the player of each rank (tools/plan/trainer/follow.c) follows in `ddprun scout
 * --prove`, and in a whole training, `ddprun --plan`; and the page on which each player of a proof reports.
 *
 * Down: DDPRUN_ENV_SCOUT_PLAY names the plan's file. Up: the player of rank R maps the file
 * "<pages>-R", which the launcher has made: a struct play_page, hashes, samples. What stands there outlives a trainer
 * that crashes.
 */
#ifndef DDPRUN_TOOLS_PLAN_FORMAT_PLAY_H
#define DDPRUN_TOOLS_PLAN_FORMAT_PLAY_H

#include "tools/near/near.h"
#include "tools/scout/format/log.h"

#include <limits.h>
#include <stdatomic.h>

/* Absolute path of the plan, in the job's folder with --plan (DDPRUN_PLAN_NAME), and of the engine that the player
 * stands in front of; absent: an ordinary run. */
#define DDPRUN_ENV_SCOUT_PLAY   "_DDPRUN_SCOUT_PLAY"
#define DDPRUN_ENV_SCOUT_ENGINE "_DDPRUN_SCOUT_ENGINE"
/* Decimal, from `ddprun check --plan` to the ddprun of a run: one process plays the turns of so many ranks; absent: an
 * ordinary run. */
#define DDPRUN_ENV_PLAN_TURNS "_DDPRUN_PLAN_TURNS"

/* Of run files, and of `turns` in plans: raised when what ranks follow changes its form or its meaning. */
#define PLAY_VERSION 20

enum {
    PLAY_RANKS = 2, /* of proofs, but for (d) of `--plan auto` */
    PLAY_NAME_BYTES = 112,
    PLAY_FRAMES = 24,
    PLAY_SITES = 4,
    PLAY_BUILD_ID_BYTES = 136,
    PLAY_SAMPLES = 4096,
    PLAY_STRETCHES = 9,
    PLAY_FIGURES = 4096,
    PLAY_ROUNDS = 8, /* of a proof by state, at most, whose steps are counted */
    PLAY_WHY_BYTES = 512
};

enum play_role {
    PLAY_PARAMETER = 1,
    PLAY_GRADIENT,
    PLAY_STATE,
    PLAY_COMPARED,  /* state that the engine does not hear of, because it shares bytes with a gradient */
    PLAY_PER_RANK,  /* of turns, as are the next: each rank has its own */
    PLAY_STAYS,     /* other memory that is the same on all ranks */
    PLAY_UNWRITTEN, /* the same, and no operation of the period writes it */
    PLAY_UNREAD,    /* the same, and none reads it */
    PLAY_CHANGES,   /* the mean of what all ranks' steps have changed is added; by gradients: statistics of batches */
    PLAY_STREAM,    /* by state, as are the next: all ranks make its operations in each step: never put back, never
                       averaged, and compared */
    PLAY_SUM,       /* the changes of all ranks are added, in the order of ranks; integers exactly */
    PLAY_LAST,      /* the bytes of the rank that had the round's last step */
};

/* What ranks average. */
enum play_by {
    PLAY_BY_GRADIENTS, /* gradients, in front of one update in each round */
    PLAY_BY_STATE,     /* what each rank's own step, update included, has changed in what stays, at the round's end */
};

/*
 * The fields of a plan's lists, each once: X(kind, member, key, limit) is a member of a struct below, and of its JSON
 * (play_json.c), in this order. Kinds: number (uint64_t) and whole (uint32_t), with the most that it may be; text, with
 * its room; word (uint32_t), with the words of play_json.c for its values. A limit may name `plan`, and what stands
 * above it in `it`.
 */
#define PLAY_OBJECT(X)              \
    X(text, path, "path", PATH_MAX) \
    X(text, build_id, "build_id", PLAY_BUILD_ID_BYTES) /* hexadecimal; "": it has none */

#define PLAY_OPERATION(X)                                                        \
    X(text, name, "name", PLAY_NAME_BYTES)         /* kernel or call, cut off */ \
    X(word, part, "made_by", parts)                /* enum play_part */          \
    X(number, host_bytes, "host_bytes", INT64_MAX) /* of any copy from the host, of one row; else 0 */

/* What an operation brings to the host, of bytes that steps have written: enum play_reads, and of PLAY_READS_STEP the
 * operation that has written them last, so many periods before. */
#define PLAY_READ(X)                                          \
    X(word, reads, "reads", reads)                            \
    X(whole, writer, "written_by", plan->operation_count - 1) \
    X(whole, back, "periods_before", MOST)

/* Of a tensor, and of what an operation brings to the host: 1 + the operation by which it differs in its last bits from
 * run to run; 0: it does not. */
#define PLAY_NOISE(X) X(whole, noise, "noise_of", plan->operation_count)

/* Bytes [lo, hi) of allocation `alloc` in the recording, for messages: live ones of as many bytes have ordinals. */
#define PLAY_PLACE(X)                         \
    X(whole, alloc, "allocation", UINT32_MAX) \
    X(whole, ordinal, "ordinal", UINT32_MAX)  \
    X(number, bytes, "bytes", INT64_MAX)      \
    X(number, lo, "begin", it->bytes)         \
    X(number, hi, "end", it->bytes)

#define PLAY_TENSOR(X)                                     \
    X(word, role, "role", roles)      /* enum play_role */ \
    X(whole, type, "type", TYPES - 1) /* enum ddp_type */  \
    PLAY_PLACE(X)

/* Which operation of a period writes something, by turn; whether it is elsewhere in other periods; whether nothing on
 * the device reads it, in managed memory: the host does, once it has waited. */
#define PLAY_WRITTEN(X)                                                               \
    X(whole, writer, "by", plan->operation_count > 0 ? plan->operation_count - 1 : 0) \
    X(whole, moves, "moves", 1)                                                       \
    X(whole, unread, "unread", 1)                                                     \
    PLAY_PLACE(X)

/* What both runs of proof (d) took: a round of so many ranks, 0: it was not timed; a batch of one process. */
#define PLAY_TIMES(X)                                                                           \
    X(whole, ranks, "ranks", UINT32_MAX)                                                        \
    X(number, round_ns, "round_ns", INT64_MAX)                                                  \
    X(number, batch_ns, "batch_ns", INT64_MAX)                                                  \
    X(whole, low, "low", UINT32_MAX)   /* hundredths: how many times as fast as one process, */ \
    X(whole, high, "high", UINT32_MAX) /* never above the ranks */

#define PLAY_number(name, limit)            uint64_t name;
#define PLAY_whole(name, limit)             uint32_t name;
#define PLAY_word(name, limit)              uint32_t name;
#define PLAY_text(name, limit)              char name[limit];
#define PLAY_MEMBER(kind, name, key, limit) PLAY_##kind(name, limit)

struct play_tensor {
    PLAY_TENSOR(PLAY_MEMBER);
    PLAY_NOISE(PLAY_MEMBER);
    char allocated_at[64]; /* where the program allocates it, for messages; "": not known */
    /* Of proof (complete) of what changes, before a plan is made of it: no element comes from its own old value alone;
     * but its launches read all they write; nothing but the host reads it, and a trial has to show what it is. */
    bool is_overwritten, is_in_place, may_be_sum;
    bool may_decide;         /* a sum of one whole number: about a variable, if each step adds one. Of the same proof */
    uint32_t written_before; /* the operation after the last that writes it; 0: none does. Of the same proof */
};

/* Who makes an operation, where ranks take turns: of a round's periods, rank r plays period r. */
enum play_part {
    PLAY_BY_ALL,    /* all, in each period */
    PLAY_BY_TURN,   /* the rank whose turn the period is */
    PLAY_BY_LAST,   /* all, in the last period of a round: the update; not by state */
    PLAY_BY_CHOICE, /* by state, as PLAY_BY_TURN, if it comes: without it what stays is as it was, and nothing else is
                     * missing. A program skips updates, as where half precision has overflowed */
};

/* What an operation brings to the host, of bytes that steps have written. */
enum play_reads {
    PLAY_READS_NOTHING,
    PLAY_READS_ALIKE, /* the same on all ranks */
    PLAY_READS_STEP,  /* what the rank has whose step has written them last */
    PLAY_READS_MIXED, /* several steps have written them */
    PLAY_READS_FIRST, /* alike but for noise: what rank 0 has */
};

/* A place in the program that calls an operation: the stack, innermost first. Objects are of the plan. */
struct play_site {
    uint32_t frame_count;
    struct scout_frame frames[PLAY_FRAMES];
};

/* A file of the program's code. */
struct play_object {
    PLAY_OBJECT(PLAY_MEMBER);
};

/* An operation of the period, which the copies of loaders (scout_op, `ahead`) are not. */
struct play_operation {
    PLAY_OPERATION(PLAY_MEMBER);
    PLAY_READ(PLAY_MEMBER);
    PLAY_NOISE(PLAY_MEMBER);
    uint32_t site_count; /* one or more: all places that called it in the recorded periods */
    struct play_site sites[PLAY_SITES];
};

struct play_written {
    PLAY_WRITTEN(PLAY_MEMBER);
};

struct play_times {
    PLAY_TIMES(PLAY_MEMBER);
};

/* What the copies bring that bring data. */
enum play_data {
    PLAY_STEP_BEFORE, /* in one step, to rank 1: what they brought in the step before; both make all operations */
    PLAY_HALVES,      /* the same, but the second halves are exchanged between the ranks */
    PLAY_TURNS,       /* what the program brings; each rank plays its turns. A step is a round, here and in the next */
    PLAY_ALONE,       /* one process plays the turns of all ranks, `turns`, and writes all their pages */
    PLAY_BORDERS, /* of plans by state: one process trains as it is, and what has a class is hashed at each border, */
    PLAY_REST_EXCHANGED,  /* and what has none gets there what it held at the border before, */
    PLAY_STATE_EXCHANGED, /* or what ranks average and add up does, */
    PLAY_SUMS_EXCHANGED,  /* or what is added up does, */
    PLAY_FIRST_HALVES,    /* or the first halves of what copies bring in one step are those of the step before, */
    PLAY_SECOND_HALVES,   /* or the second ones; */
    PLAY_SAME_READS,      /* of any plan: what the host reads from the third step on is what it read in the second, */
    PLAY_OTHER_READS,     /* and in the third what it read in the first: `reads` is what it sends after that */
    PLAY_WRITES,          /* of any plan: one process shows which operations write what is trained, */
    PLAY_REFERENCE,       /* and one plays all turns, which change where these have come */
    PLAY_TRAINING,        /* turns, for as long as the program trains; there are no pages. `turns` > 0: one process
                             plays all */
};

/* Noise grows in training. So that it is that of one step, each step of a run begins with the bytes of another run. */
enum play_begun {
    PLAY_BEGINS_ITSELF,
    PLAY_KEEPS_BEGUN, /* what has noise is written to a file as each step leaves it, */
    PLAY_TAKES_BEGUN  /* or held against that (struct near_apart), and the next step begins with that */
};

struct play_plan {
    uint32_t version; /* PLAY_VERSION */
    uint32_t data;    /* enum play_data */
    uint32_t steps;   /* after which all has been seen; with borders, the last one is after a pass outside of steps */
    uint32_t outside; /* of PLAY_REST_EXCHANGED: the border after the first such pass; 0: none was seen; of
                       * PLAY_REFERENCE: batches in front of the first round */
    uint32_t tensor_count, operation_count, object_count, written_count;
    uint32_t reads_own; /* the host reads what its own rank has */
    uint32_t turns;     /* of a round, all of which one process plays; else 0 */
    uint32_t is_timed;  /* once PLAY_TURNS has shown all, ranks train until a round's time is known; once PLAY_ALONE
                         * has, the program goes on as it is, until its batch's is. Rank 0 writes it on its page */
    uint32_t by;        /* enum play_by */
    uint32_t average_before;    /* operation of the period, the last if there are several; by state, the one after the
                                 * last that writes what each rank changes in its own step; operation_count: the
                                 * period's end */
    uint32_t state_before;      /* by state: the operation after the last that writes what is averaged, at most
                                 * average_before: from there on a step sees what stays as the round has begun, and the
                                 * round's last step sees the mean. By gradients: 0 */
    struct play_times forecast; /* of training */
    uint32_t date_stands;       /* of PLAY_TURNS: the date of all ranks goes on by readings, and not by time */
    uint32_t begun;             /* enum play_begun, of what has noise */
    uint32_t round_steps[PLAY_ROUNDS]; /* of PLAY_REFERENCE: how many steps with an update each round has */
    char begun_path[PATH_MAX];
    char pages[PATH_MAX];
};

struct play {
    struct play_plan plan;
    struct play_tensor *tensors;       /* [plan.tensor_count] */
    struct play_operation *operations; /* [plan.operation_count] */
    struct play_object *objects;       /* [plan.object_count] */
    struct play_written *written;      /* [plan.written_count] */
};

enum { PLAY_ANY_FIGURE = 0 };

/* What ranks compare, for messages: what the program has copied. */
#define PLAY_BATCHES "the batches that the program copies to its device"

enum play_stage { PLAY_BEFORE_FIRST, PLAY_RUNNING, PLAY_OVER, PLAY_IMPOSSIBLE };

/* As which type of element.h bytes of a tensor are compared with another run's: of those that have no type, and of
 * histories, as floats. */
int play_compared_type(const struct play_tensor *tensor);

/* Of a tensor as step `step` has left it, and 0: as it begins. */
struct play_seen {
    uint64_t hash; /* with other data, of gradients in step 1: this rank's own in the step that has it, and of other
                      tensors that must be alike after it. 0: it is not there */
    struct near_apart apart;
    int32_t whole; /* of four bytes: the whole number that they are */
};

/* Written by the player only. After it: struct play_seen [steps + 1][tensor_count], then float
 * [tensor_count][PLAY_SAMPLES]. */
struct play_page {
    _Atomic uint32_t stage;            /* enum play_stage */
    _Atomic uint32_t steps;            /* that are complete */
    _Atomic uint64_t reads;            /* hash of what copies have brought to the host up to the last border, */
    _Atomic uint64_t exchanged;        /* and how many bytes that are exchanged were others at the border before */
    _Atomic uint32_t outside;          /* the border after a pass outside of steps, as validation; 0: none was seen */
    uint32_t round_steps[PLAY_ROUNDS]; /* by state: how many steps with an update each round had; */
    uint32_t whole;                    /* and how many rounds had as many steps as ranks; */
    uint32_t punctual; /* how many steps ended with the operation that writes state last by the plan, and not later */
    _Atomic uint32_t stretches; /* where it is timed: 0, too few rounds were made, or so many stretches of them, */
    uint64_t stretch_ns[PLAY_STRETCHES]; /* and what a round takes in each, or a batch of one process */
    uint32_t figure_count;               /* of (d): what copies have brought to the host, in the program's order, */
    uint64_t figures[PLAY_FIGURES];      /* a hash of each, or PLAY_ANY_FIGURE; those that have no room are not kept */
    uint32_t number_count;        /* of what copies have brought to the host that has noise: it is not in `reads`, */
    double numbers[PLAY_SAMPLES]; /* and these are its first numbers */
    char date_path[PATH_MAX];     /* of turns: the object that has read the date last since the first batch began, */
    uint64_t date_offset;         /* and where that call returns to, as in struct scout_frame; 0: none has */
    char why[PLAY_WHY_BYTES];
    struct scout_bytes scratch; /* what `why` is about, if it may be scratch */
};

/* Creates the file, mode 0600. False with errno. */
bool play_save(const char *path, const struct play *play) __attribute__((warn_unused_result));
/* play_free() releases it. False with errno; EINVAL: it is of another version, or not as long as it says. */
bool play_load(const char *path, struct play *play) __attribute__((warn_unused_result));
void play_free(struct play *play);

/* Whether a tensor has a role that plans of this kind know, and the type that its role asks for: floats that change,
 * a number that is added; its bytes are whole elements of it. Any thread. */
bool play_tensor_fits(const struct play_plan *plan, const struct play_tensor *tensor);
/* Bytes of device memory that a rank takes by a plan by state besides the program's: what stays as the round began, and
 * its changes. 0: by gradients. */
uint64_t play_state_bytes(const struct play *play);

/* The page of a rank; `create`: makes the file, mode 0600. NULL with errno. */
struct play_page *play_page_map(const struct play_plan *plan, int rank, bool create)
    __attribute__((warn_unused_result));
void play_page_unmap(const struct play_plan *plan, struct play_page *page);

/* ---- what the host reads, from rank to rank of one supervisor ---- */

/* An exchange brings up to a slot's bytes; more are several exchanges. Exchange x, from 0, has slot x % PLAY_SLOTS. */
enum { PLAY_SLOTS = 64, PLAY_SLOT_BYTES = 64 << 10, PLAY_READERS = 256 };

struct play_exchange {
    _Atomic uint32_t changes;             /* of all below; what waits for one is woken */
    _Atomic uint32_t ended[PLAY_READERS]; /* 1: the rank has ended */
    _Atomic uint32_t unsure;              /* reads of which ranks had different values, and none is known to be right */
    struct play_slot {
        _Atomic uint64_t holds; /* the exchange whose bytes are there, + 1 */
        _Atomic uint64_t taken; /* how often ranks have read it, in all exchanges */
    } slots[PLAY_SLOTS];
    char bytes[PLAY_SLOTS][PLAY_SLOT_BYTES];
};

/* The pages beside the plan's file, "<path>.reads"; `create`: makes the file, mode 0600. NULL with errno. */
struct play_exchange *play_exchange_map(const char *path, bool create) __attribute__((warn_unused_result));
void play_exchange_unmap(struct play_exchange *exchange);

struct play_seen *play_seen(const struct play_plan *plan, struct play_page *page, uint32_t step, uint32_t tensor);
/* [PLAY_SAMPLES]: elements at equal distances, 0 where there are fewer: of an averaged gradient in the step that has
 * other data, of memory that each rank has for itself after it; by state: of what ranks average, after the step in
 * which halves are exchanged. */
float *play_sample(const struct play_plan *plan, struct play_page *page, uint32_t tensor);

#endif
