/*
 * prove.h - proofs (c) and (d) of `ddprun scout --prove`: the plan, played on two ranks under the engine, without a
 * change of the program (tools/plan/trainer/follow.c).
 */
#ifndef DDPRUN_TOOLS_SCOUT_COMMAND_PROOFS_PROVE_H
#define DDPRUN_TOOLS_SCOUT_COMMAND_PROOFS_PROVE_H

#include "tools/plan/format/play.h"
#include "tools/scout/command/analysis/by_state.h"
#include "tools/scout/command/analysis/finding.h"
#include "tools/scout/command/analysis/turns.h"
#include "tools/scout/command/report/proofs.h"
#include "tools/scout/command/run.h"

/*
 * Makes the runs, of a finding that has found gradients, and says what came of them. Main thread. Error: a run
 * could not be started, or a signal asked for the end.
 */
bool scout_prove(const struct scout_order *order, const struct scout_log *log, const struct scout_finding *finding,
                 struct scout_proofs *proofs, struct error *error) __attribute__((warn_unused_result));

/* The same of turns by state, of a period alone; without `prove` only what they would play is made. Threads and errors
 * as above. */
bool scout_prove_by_state(const struct scout_order *order, const struct scout_log *log,
                          const struct scout_finding *finding, const struct by_state *by_state, bool prove,
                          struct scout_proofs *proofs, struct error *error) __attribute__((warn_unused_result));

struct rehearsal {
    uint64_t round_ns;  /* what a round of order->ranks takes; 0: the program ended after too few */
    uint64_t period_ns; /* and a period of one process without a plan: medians */
    uint32_t count;     /* pairs of runs */
    uint32_t low, high; /* of all pairs, hundredths: how many times as fast; never above order->ranks */
    bool is_noisy;      /* a pair was above that, or pairs differ by more than a tenth */
    char why[512];      /* why the plan cannot be followed; "": it can */
};

/* Trains by turns, with all that belongs to a training, for about sixty rounds or three seconds; then one process, for
 * as many periods; and again, until pairs of these differ by less than a tenth, five were made, or half a minute has
 * passed. What the program writes goes nowhere. Threads and errors as above. */
bool scout_rehearse(const struct scout_order *order, struct json_object *turns, struct rehearsal *rehearsal,
                    struct error *error) __attribute__((warn_unused_result));

/* ---- play_plan.c: from what was found to what players follow (tools/plan/format/play.h). Pure ---- */
/* Fills in all of `play` but plan.data and plan.pages; play_free() releases it. False with the reason in `why`,
 * PLAY_WHY_BYTES: this finding cannot be played. */
bool play_plan_make(const struct scout_log *log, const struct scout_finding *finding, const struct turns *turns,
                    struct play *play, char *why) __attribute__((warn_unused_result));
/* The same of turns by state, of a period alone. */
bool play_plan_make_by_state(const struct scout_log *log, const struct scout_finding *finding,
                             const struct by_state *by_state, struct play *play, char *why)
    __attribute__((warn_unused_result));

/* enum ddp_type of an enum scout_type. What is no float is known as bytes. */
uint32_t play_plan_type(uint32_t type);

/* Whether halves of what the copies bring may be exchanged; if not, why. */
bool play_plan_has_halves(const struct scout_log *log, const struct scout_finding *finding, char *why);

#endif
