/*
 * rows.h - the rows of which verdict.c makes a verdict: each is a cause, the facts to which it applies, its sentence
 * and its advice. Functions of a row are pure, and see facts alone.
 *
 * Of the rows that apply, the one of the earliest stage is the verdict. Rows of one stage exclude each other, so their
 * order means nothing (test_verdict.c holds that). A row is added to the family that it belongs to, in the stage that
 * says what it must go before.
 */
#ifndef DDPRUN_TOOLS_CHECK_VERDICT_ROWS_H
#define DDPRUN_TOOLS_CHECK_VERDICT_ROWS_H

#include "tools/check/verdict/verdict.h"

#include "base/printable.h"

#include <math.h>
#include <stddef.h>

/* In the order of what can be known. Whatever a stage finds makes all later ones uncertain, for the reason given. */
enum verdict_stage {
    /* -- can anything be said? -- */
    STAGE_PROVED,   /* by a plan that a proof refuses nothing is trained */
    STAGE_REPEATED, /* a program that does not repeat itself tells nothing */
    STAGE_COMPARED, /* a run that did not end, results that are NaN in one process, and nothing at all, prove nothing */
    STAGE_RANKS,    /* what makes ranks differ from each other makes them differ from one process later */
    STAGE_ALARMED,  /* what would have ended the job was found by the engine, from more than tensors */
    /* -- steps are rounds of DDP_REDUCE -- */
    STAGE_ROUNDS_READ,   /* results that are not there, or do not repeat, do not differ either */
    STAGE_ROUNDS_DIFFER, /* a difference is more than a doubt */
    /* -- nothing differs -- */
    STAGE_CONTINUES, /* a different number of steps is a difference that no step shows */
    STAGE_UNPROVED,  /* both sides take steps where the plan does: where it is wrong, both are */
    STAGE_ONE_BATCH, /* ranks that compute the same are equal to anything that one process computes, too */
    STAGE_DOUBT,     /* a tolerance that hides mistakes says nothing of all that comes then */
    STAGE_UNMOVED,   /* parameters that never move; results of rounds that cannot tell */
    STAGE_BESIDES,   /* beside equal tensors a result of DDP_REDUCE may differ on purpose: it is shown */
    STAGE_HOST,      /* the same of what the host copies, which is seen less directly */
    STAGE_EQUAL,     /* nothing is left that speaks against it */
    /* -- something differs: how does it come about? -- */
    STAGE_UNSTEADY,      /* ranks that do not repeat the difference: its size means nothing */
    STAGE_OVERLAP,       /* without overlap it is right: the program is */
    STAGE_PLAN,          /* by plan a program has no annotations that could be wrong */
    STAGE_UNBOUNDED,     /* infinite or NaN: norms and factors of such a tensor mean nothing */
    STAGE_MEMORY,        /* unannotated memory that differs makes annotated tensors differ later */
    STAGE_START,         /* before the first step no gradient and no update can be wrong */
    STAGE_PACE,          /* ranks that update in another step than one process: all later steps are of other batches */
    STAGE_TYPE,          /* a gradient of the wrong type is read as other numbers: all later rows would be misled */
    STAGE_UNEVEN,        /* unequal shares explain any difference of gradients */
    STAGE_FACTOR,        /* so does a factor, and more precisely than what comes then */
    STAGE_WHOLE_BATCHES, /* each rank computes another batch than its share: gradients differ in any way */
    STAGE_LAST,          /* gradients, or an update, that no stage before explains */
};

struct verdict_row {
    const char *name; /* for people and tests; NULL ends a family */
    enum verdict_stage stage;
    enum check_result result; /* of the verdict, as is `cause` */
    enum check_cause cause;
    bool (*applies)(const struct check_facts *facts);
    /* The rest is asked of the row that decides alone. */
    const struct check_item *(*about)(
        const struct check_facts *facts); /* that the sentence is about; NULL: no tensor */
    void (*say)(const struct check_facts *facts, char text[VERDICT_BYTES]); /* the sentence; NULL: none */
    const char *advice; /* what to do next; NULL: nothing, or `advise` says it */
    void (*advise)(const struct check_facts *facts,
                   char text[VERDICT_BYTES]);          /* where the advice has numbers or names */
    double (*factor)(const struct check_facts *facts); /* as in struct check_verdict; NULL: none */
    bool is_precise; /* as there: the sentence names the call, and no further run looks for the operation */
};

/* ---- the families: each ends with a row without a name ---- */
extern const struct verdict_row verdict_rows_of_runs[];     /* runs.c: what they say of themselves, and overlap */
extern const struct verdict_row verdict_rows_of_ranks[];    /* ranks.c: the ranks among themselves */
extern const struct verdict_row verdict_rows_of_rounds[];   /* rounds.c: DDP_REDUCE */
extern const struct verdict_row verdict_rows_of_equality[]; /* equal.c: nothing differs */
extern const struct verdict_row
    verdict_rows_of_memory[]; /* unannotated.c: memory and annotations, before any gradient */
extern const struct verdict_row verdict_rows_of_gradients[]; /* gradients.c */
extern const struct verdict_row verdict_rows_of_updates[];   /* update.c: between a DDP_STEP and the next one */

/* All of them: families[0] to a NULL. */
extern const struct verdict_row *const verdict_families[];

/* The row that decides: there is always one. */
const struct verdict_row *verdict_find_row(const struct check_facts *facts);

/* ---- what several families ask ---- */
/* A tensor differs from one process; in rounds: a result. */
static inline bool
verdict_has_difference(const struct check_facts *facts)
{
    return facts->in_rounds ? facts->reduced.first != NULL : facts->first.item != NULL;
}

static inline const struct check_item *
verdict_about_first(const struct check_facts *facts)
{
    return facts->first.item;
}

static inline const struct check_item *
verdict_about_memory(const struct check_facts *facts)
{
    return facts->memory;
}

/* ---- unannotated.c ---- */
/* Of unannotated memory that differs: the sentence and the advice. */
void memory_say(const struct check_facts *facts, char text[VERDICT_BYTES]);
void memory_advise(const struct check_facts *facts, char text[VERDICT_BYTES]);

/* ---- seeded.c ---- */
/* To the advice: which clock or random bytes the program reads, and where. */
/* "the clock", "random bytes", of which the program has read. */
const char *seeded_source(const struct check_facts *facts);
void seeded_add_readings(const struct check_facts *facts, char text[VERDICT_BYTES]);

/* ---- sentence.c ---- */
/* "after step 3 parameter 2 ... differs ...", and the rest. */
void sentence_say_place(const struct check_facts *facts, const struct check_item *item, char text[VERDICT_BYTES],
                        const char *rest, ...) __attribute__((format(printf, 4, 5)));

#endif
