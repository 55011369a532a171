/*
 * relation.h - how memory of N ranks relates to that of one rank, operation by operation of a step, from what look.h
 * keeps: it is the same; the ranks have its rows, in any layout; or theirs add up to it, once or N times. A relation
 * holds within 1e-4: mistakes differ by more, rounding by less. Between the files and place.c, which says where it
 * ends.
 */
#ifndef DDPRUN_TOOLS_CHECK_COMMAND_RELATION_H
#define DDPRUN_TOOLS_CHECK_COMMAND_RELATION_H

#include "tools/check/command/origin.h"
#include "tools/check/command/place_question.h"
#include "tools/check/evidence/evidence.h"
#include "tools/check/evidence/looked.h"
#include "tools/check/place/operation.h"
#include "tools/common/each.h"

struct finding {
    const struct place_question *question;
    struct looked one, *ranks; /* [ranks] */
    uint32_t *matters;         /* [operations of the one rank]: the arguments by which each matters, as bits */
    struct place *place;
};

/* MATTERS_UNSEEN: it copies to memory that no operation gets, such as a variable of the device's. */
#define MATTERS_ALL    0x7fffffffU
#define MATTERS_UNSEEN 0x80000000U

/* RELATION_DATA: each rank gets what the one rank gets, from some place on. Of what DDP_STEP_PARAMETERS averages
 * RELATION_SUM is the mean, and RELATION_PART a sum. */
enum relation {
    RELATION_NONE,
    RELATION_SAME,
    RELATION_ROWS,
    RELATION_DATA,
    RELATION_SUM,
    RELATION_PART,
    RELATION_EXCUSED, /* whole numbers of rows that a kernel computes: as indices they may begin anew in each share */
    RELATION_UNKNOWN
};

/* Of its share, as DDP_WEIGHT says in this step: N times its part of the batch. */
double relation_weight(const struct finding *finding, int rank);

/* Of one memory: in which argument of an operation, before it or after it. */
struct where {
    size_t operation, argument;
    bool after;
};

/* False: the files do not tell, or, *lost_p, one is not there. They are removed. To be freed in any case. */
bool relation_load(struct finding *finding, bool *lost_p);
void relation_free(struct finding *finding);

/* Of the one rank: -1. NULL: that rank does not make the operation. */
const struct look_argument *relation_argument(const struct finding *finding, int rank, const struct where *where);

/* The first rank that does not make the one rank's operation; -1: all make it. */
int relation_missing_on(const struct finding *finding, size_t at);

enum relation relation_of(const struct finding *finding, const struct where *where);

/* Each rank has changed as many bytes of an argument as one process: they are no rows. */
bool relation_is_result(const struct finding *finding, const struct where *where);

/* Of rows of equal shares: rank 0's are the first ones of one process, and another rank's are not those that follow. */
bool relation_are_rows_of_rank_0(const struct finding *finding, const struct where *where);

/* Of what all operations of the call have changed there, in the interval: rows, a sum, or the last is part of a sum. */
enum relation relation_of_call(const struct finding *finding, const struct where *where);

/* Copies from the host that come from one call of the program's. */
bool relation_is_same_call(const struct look_operation *a, const struct look_operation *b);

/* Of all that a rank copies by the call of operation `at` in its interval: a part of what the one rank copies by it
 * then, items that it copies by it in some step, or others. */
enum copied { COPIED_OTHERS, COPIED_ITEMS, COPIED_PART };
struct part {
    bool begins; /* its first item, or all of it, is at byte `begin` of the one rank's `all` bytes */
    uint64_t begin, bytes, all;
    uint64_t copies, all_copies; /* in so many copies */
    uint64_t each, layers; /* of an item, in so many rows, as of data by time; all of these bytes are as if in one */
};
enum copied relation_of_copies(const struct finding *finding, size_t at, int rank, struct part *part);

/* The ranks' `number`, in memory or a scalar, adds up to one process's, and weighed by it what they have at `where`
 * makes what the one rank has. */
bool relation_is_weighted(const struct finding *finding, const struct where *number, const struct where *where);

/* Of an update: it changes memory visibly, and all as on the one rank, or it leaves the same bits. */
bool relation_changes_same(const struct finding *finding, size_t at);

/* Of an update: over what was not one process's, it has written what one process has, so that it does not read it. */
bool relation_is_anew(const struct finding *finding, size_t at, size_t argument);

/* Of what the ranks' operations have added there, none where a rank does not make it, to what one rank's has added; or
 * of what it has then. */
enum relation relation_adds(const struct finding *finding, const struct where *where, bool of_change);

/* Of what a gradient's memory holds after the operation: the ranks' mean is one process's. */
bool relation_is_mean(const struct finding *finding, const struct where *where);

/* The element there by which ranks differ most, values[1 + rank], from one process, values[0]. Of rows of the ranks'
 * shares, *of_share_p, the first that differs on the first rank with one, whose value is not NaN. RELATION_COUNTS: they
 * are elements, so many on each. SIZE_MAX: not known. */
#define RELATION_COUNTS (SIZE_MAX - 1)
size_t relation_element(const struct finding *finding, const struct where *where, bool *of_share_p, double values[]);

/* ---- place_sentences.c ---- */
/* Where the host sets what an operation copies from it (ORIGIN_OF_COPY), if these are three lines at most; or by which
 * condition it decides whether to make the operation (ORIGIN_OF_DECISION). All that describe return `text`, a part of a
 * sentence, which may be empty. */
const char *place_describe_origin(const struct looked_operation *op, uint32_t number,
                                  char text[OPERATION_SENTENCE_BYTES]);

/* The last two places before an operation where the host reads, by a copy, what ranks have each of its own share: where
 * the values that it hands out may come from. */
const char *place_describe_read(const struct finding *finding, size_t at, char text[OPERATION_SENTENCE_BYTES]);
void place_add_read(const struct finding *finding, size_t at);

/* The place is the operation: "`bce` (train.cu:71) is the first operation that differs: ..."; then place_add_values(),
 * unless `values` is NULL. Always true, as all that append. */
bool place_say(const struct finding *finding, enum place_kind kind, const struct looked_operation *op,
               const struct where *values, const char *advice, const char *format, ...)
    __attribute__((format(printf, 6, 7)));

/* Appends to what it says. */
bool place_add(const struct finding *finding, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The operation changes the tensor that differs, by this argument; or it is the DDP_REDUCE that finds it. */
bool place_is_target(const struct place_question *question, const struct looked_operation *op, uint32_t at);

/* Weighed by what the operation counts of each share, the ranks' gradients are one process's. */
bool place_weighs(const struct finding *finding, const struct where *counts);

/* The operation is one of those between which the difference comes about. */
bool place_has(const struct place_question *question, const struct looked_operation *op);
/* "`bce` (train.cu:71)", valid in the block around, as the next two. */
const char *place_name_operation(const struct looked_operation *op, char text[320]);
#define NAME_OF(op) place_name_operation((op), (char[320]){""})
/* "argument 5 (`touched`)", "a number in argument 5". */
#define ARGUMENT_OF(op, it) \
    place_name_argument((op)->header->place, (it)->number & 0xffff, (it)->is_member, (char[PLACE_ARGUMENT_BYTES]){""})
/* Advice for an operation that not all make as often. */
extern const char *const place_same_decision;

/* "0.125 on rank 0, 0.11 on rank 1 and 0.0625 in one process"; the ranks' are one where they are the same. */
char *place_list_values(const struct finding *finding, const struct where *where, char text[200]);
#define VALUES_AT(finding, where) place_list_values((finding), (where), (char[200]){""})

/* What an element of the memory is on the ranks and in one process, where that is known. */
const char *place_describe_element(const struct finding *finding, const struct where *where,
                                   char text[OPERATION_ELEMENT_BYTES]);
bool place_add_values(const struct finding *finding, const struct where *where);

/* ---- place_writers.c ---- */
static inline bool
place_is_of(const struct look_argument *it, uint32_t role)
{
    return it->tensor >> 24 == 1 + role;
}

/* The argument has changed something behind the other one's pointer. */
bool place_reaches(const struct look_argument *it, const struct look_argument *of);

/* The operation before `at`, of no interval before `least`, that changed what the argument points to. False: none did.
 */
bool place_find_writer(const struct looked *one, size_t at, const struct look_argument *of, uint32_t least,
                       struct where *by);

/* Whether all ranks get the one process's number there. */
bool place_is_alike(const struct finding *finding, const struct where *where);

/* ---- place_scalars.c ---- */
/* The number of the operation that says most; SCALAR_ALIKE: none does. All ranks make the operation. */
void place_find_scalar(const struct finding *finding, size_t at, struct place_scalar *scalar);

/* Makes that number the finding's place if its level is at least `least`. Whether it has. */
bool place_say_scalar(const struct finding *finding, size_t at, enum scalar_level least);

/* ", and `n`, which depends on the size of the share, is ...": the first argument that adds up over the shares. */
const char *place_describe_share(const struct finding *finding, size_t at, char text[OPERATION_SENTENCE_BYTES]);

/* A number that is the size of the rank's share, and in one process that of the batch. All ranks make the operation. */
bool place_is_size(const struct finding *finding, const struct where *where);

/* ---- place_divisor.c ---- */
/* Gradients are the Nth part of one rank's: the number that divides them is of the whole batch, on each rank. Only a
 * number that the batch explains is named. */
bool place_find_divisor(const struct finding *finding);

/* ---- place_data.c ---- */
/* Of data that stay on the device, which an operation gets: rank 0, whose share begins where the batch does, begins
 * elsewhere than one process. */
bool place_begins_elsewhere(const struct finding *finding, const struct where *read);
bool place_say_begin(const struct finding *finding, const struct where *read);

/* The rank makes the one process's operation with a pointer that leads to no memory. */
bool place_say_no_memory(const struct finding *finding, const struct looked_operation *one, int rank);

/* ---- place_inputs.c ---- */
/* The place is what the operation gets, and no operation of the step has changed, if that is in no relation to the one
 * rank's; `rows_too`: or has its rows, which need not be those of the batch. A sum that it only reads comes first: a
 * gradient. `changed`: -1, or an argument that it has changed, into something without relation; then what it changes
 * besides counts, as it was before, and what the step has changed in part. */
bool place_find_input(const struct finding *finding, size_t at, bool rows_too, int changed);

/* ---- operation.c ---- */
/* All facts of an operation that has changed the argument into something without relation; all ranks make it. */
void operation_find(const struct finding *finding, size_t at, uint32_t changed, struct operation *operation);

/* It clears a gradient, which all have alike before it, and leaves the average of the step before in a part of it on a
 * rank. */
bool operation_clears_part(const struct finding *finding, const struct where *where);

/* ---- place_parts.c ---- */
/* One call changes a gradient several times in the step, as a loop over micro-batches does. */
bool place_is_in_parts(const struct finding *finding);
bool place_find_in_parts(const struct finding *finding);

/* ---- place_turns.c ---- */
/* Of ranks that take turns, in such a step: a call that all ranks together make more, or less, often than one process,
 * or with another argument in the same turn. */
bool place_find_in_turns(const struct finding *finding);

/* In one process, too, an update reads a gradient that was computed anew since the last DDP_STEP. */
bool place_say_without_step(const struct finding *finding);

/* ---- place_host.c ---- */
/* The operations make no difference: the host does, of a gradient before DDP_STEP, of a parameter after it. */
bool place_say_host(const struct finding *finding);

/* ---- place_copies.c ---- */
/* Each rank copies as much as one rank. */
bool place_copies_whole(const struct finding *finding, size_t at);

/* Rank 0 copies its share of what the one rank copies, and no other rank copies its own. */
bool place_has_rank_0_its_share(const struct finding *finding, size_t at);

/* This copy, or one that follows (labels are too small to tell), brings items of the batch or of others that are not
 * the ranks' shares; false: values that one rank never copies. */
bool place_say_items(const struct finding *finding, size_t at);

#endif
