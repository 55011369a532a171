/*
 * reductions.h - what the results of DDP_REDUCE say: all there is of a program without DDP_STEP, whose steps are rounds
 * of such calls, and something besides of others. Pure.
 */
#ifndef DDPRUN_TOOLS_CHECK_COMMAND_REDUCTIONS_H
#define DDPRUN_TOOLS_CHECK_COMMAND_REDUCTIONS_H

#include "tools/check/command/verdict.h"

/* Results that are the number of ranks times one rank's, or that part of it, do not count as different: the program may
 * divide by it. */
void reductions_settle(const struct check_evidence *evidence, struct check_verdict *verdict);

/* Of a program whose steps are rounds; false: it has others. Nothing has ended it. */
bool reductions_judge_rounds(const struct check_evidence *evidence, struct check_verdict *verdict,
                             struct check_wishes *wishes);

/* Of another one, that is equal but for these: the verdict if some differ. */
void reductions_judge_besides(const struct check_evidence *evidence, struct check_verdict *verdict);

#endif
