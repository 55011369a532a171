/*
 * place_question.h - where do the step of N ranks and that of one rank first part? From what look.h keeps of every
 * operation.
 */
#ifndef DDPRUN_TOOLS_CHECK_COMMAND_PLACE_QUESTION_H
#define DDPRUN_TOOLS_CHECK_COMMAND_PLACE_QUESTION_H

#include "tools/check/place/place.h"

struct place_question {
    const char *results[2]; /* of the run of one rank, and of all: look.h's files are beside them */
    int ranks;
    uint32_t tensor;          /* that differs, as in struct look_argument; 0: memory that */
    const char *by;           /* this function writes, where its */
    uint32_t argument;        /* points */
    uint32_t since, interval; /* in which it comes about; of what DDP_REDUCE finds: the latter is the step */
    uint32_t unseen;          /* of an update: gradients from this interval on were not compared */
    bool differs;             /* false: only a test asks, of a program that is equal */
    bool is_reduced;          /* DDP_REDUCE finds it */
    bool is_update;           /* it is changed after DDP_STEP: all that leads to it must be the same on all ranks */
    bool is_early;            /* a parameter, state or buffer that is changed before DDP_STEP, */
    bool is_averaged;         /* which DDP_STEP_PARAMETERS averages */
    bool is_uneven;           /* the ranks' shares of the step are not equal */
    uint64_t items;           /* of the batch, by DDP_SHARD; 0: not known */
    bool lacks_gradients;     /* gradients have fewer elements in all than the parameters that are updated */
    bool has_graphs;          /* DDP_STEP is captured: a graph's operations are not seen one by one */
    bool has_groups;          /* DDP_GRADIENT_GROUP is used */
    bool is_rounded;          /* some of it is in 16 bits: relations of what leads to a gradient are probable */
    bool is_divided;          /* all gradients are the Nth part of one rank's */
    bool is_undone;           /* they are, and the update undoes that, as one that divides sums by the share does */
    bool takes_turns;         /* DDP_TURN_BEGIN: each rank has whole batches */
    const struct check_tensor *forgotten; /* what differs, if a parameter of its size has no annotated gradient */
};

/* False: no operation is the place, or what is kept does not tell. Reads the program's debug information, and removes
 * the files. */
bool place_find(const struct place_question *question, struct place *place);

#endif
