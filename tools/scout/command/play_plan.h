/*
 * play_plan.h - from what was found to what players follow (tools/plan/format/play.h). Pure.
 */
#ifndef DDPRUN_TOOLS_SCOUT_COMMAND_PLAY_PLAN_H
#define DDPRUN_TOOLS_SCOUT_COMMAND_PLAY_PLAN_H

#include "tools/plan/format/play.h"
#include "tools/scout/command/analysis/finding.h"
#include "tools/scout/command/analysis/turns.h"

/* Fills in all of `play` but plan.data and plan.pages; play_plan_free() releases it. `by_turns`: ranks take turns (d),
 * else they have different data (b, c). False with the reason in `why`, PLAY_WHY_BYTES: this finding cannot be played.
 */
bool play_plan_make(const struct scout_log *log, const struct scout_finding *finding, const struct turns *turns,
                    bool by_turns, struct play *play, char *why) __attribute__((warn_unused_result));
void play_plan_free(struct play *play);

/* enum ddp_type of an enum scout_type. What is no float is known as bytes. */
uint32_t play_plan_type(uint32_t type);

/* Whether halves of what the copies bring may be exchanged; if not, why. */
bool play_plan_has_halves(const struct scout_log *log, const struct scout_finding *finding, char *why);

#endif
