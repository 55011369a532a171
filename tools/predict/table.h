/*
 * table.h - what `ddprun predict` prints: a step on each number of ranks, with the batch shared out among them and with
 * the batch kept on each, how many are worth it, and what is assumed.
 */
#ifndef DDPRUN_TOOLS_PREDICT_TABLE_H
#define DDPRUN_TOOLS_PREDICT_TABLE_H

#include "tools/predict/request.h"

/* Borrowed. */
struct forecasts {
    const struct predict_request *request;
    struct model *kept;                        /* each rank has a part of the batch, one of */
    unsigned shares;                           /* so many: 1 is the whole */
    struct model *shared[PREDICT_MOST_COUNTS]; /* each has the share of one of counts[i] ranks; NULL: not looked at */
};

/* To standard output. Error: a number of ranks that cannot be predicted; nothing is printed then. */
bool table_print(const struct forecasts *forecasts, struct error *error) __attribute__((warn_unused_result));

#endif
