/*
 * equal.h - is what does not differ from one rank equal? For verdict.c. Pure.
 */
#ifndef DDPRUN_TOOLS_CHECK_COMMAND_EQUAL_H
#define DDPRUN_TOOLS_CHECK_COMMAND_EQUAL_H

#include "tools/check/command/agreement.h"
#include "tools/check/command/pattern.h"

/* Where the ranks' gradients are a multiple of one rank's, and the update is known to undo that, they do not differ;
 * *pattern is then found again. */
void equal_settle_factor(const struct check_evidence *evidence, struct check_verdict *verdict, struct pattern *pattern);

/* Nothing differs: equal, unless all ranks had one batch, a tolerance hides mistakes, or nothing has moved. */
void equal_judge(const struct check_evidence *evidence, struct check_verdict *verdict);

/* A parameter that has become infinite or NaN on one rank, too, at the moment or before it; 0: at any. What comes then
 * proves nothing. True if that is the verdict. */
bool equal_judge_endless(const struct check_evidence *evidence, struct check_verdict *verdict, unsigned moment);

/* The ranks' bits differ, before anything differs from one rank. */
void equal_judge_ranks(const struct check_evidence *evidence, struct check_verdict *verdict,
                       const struct agreement *agreement);

#endif
