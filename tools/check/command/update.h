/*
 * update.h - why parameters, optimizer state or later gradients differ, where the gradients of the step are equal: what
 * comes between DDP_STEP and the next one. In the order of evidence, beside verdict.c. Pure.
 */
#ifndef DDPRUN_TOOLS_CHECK_COMMAND_UPDATE_H
#define DDPRUN_TOOLS_CHECK_COMMAND_UPDATE_H

#include "tools/check/command/pattern.h"

/* Of unannotated memory, before other causes: true if it is the cause. */
bool update_judge_memory(const struct check_evidence *evidence, struct check_verdict *verdict,
                         const struct pattern *pattern);

/* Of gradients: true if they are clipped before they are averaged. */
bool update_judge_clipping(const struct check_evidence *evidence, struct check_verdict *verdict,
                           const struct check_item *first);

void update_judge(const struct check_evidence *evidence, struct check_verdict *verdict, const struct pattern *pattern);

#endif
