/*
 * turns.h - the mean of the gradients that one rank computes from each share in turn, beside the gradient of the whole
 * batch: does the program's gradient of a batch depend on how the batch is divided?
 */
#ifndef DDPRUN_LAUNCHER_CHECK_TURNS_H
#define DDPRUN_LAUNCHER_CHECK_TURNS_H

#include "launcher/check/evidence.h"

/*
 * Compares the mean (`sums`: the sum) of the gradients of step 1 in files[count] with those of `reference`, one row a
 * gradient. False: a file cannot be read, and there are no rows.
 */
bool turns_compare(const char *reference, char *const *files, int count, bool sums, struct check_rows *rows)
    __attribute__((warn_unused_result));

#endif
