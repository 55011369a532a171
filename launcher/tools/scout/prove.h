/*
 * prove.h - proofs (b), (c) and (d) of `ddprun scout --prove`: the plan, played on two ranks under the engine, without
 * a change of the program (interpose/tools/scout/play.c).
 */
#ifndef DDPRUN_LAUNCHER_TOOLS_SCOUT_PROVE_H
#define DDPRUN_LAUNCHER_TOOLS_SCOUT_PROVE_H

#include "launcher/tools/scout/analysis/finding.h"
#include "launcher/tools/scout/report/proofs.h"
#include "launcher/tools/scout/run.h"

/*
 * Makes the runs, of a finding that has found gradients, and says what came of them. Main thread. Error: a run
 * could not be started, or a signal asked for the end.
 */
bool scout_prove(const struct scout_order *order, const struct scout_log *log, const struct scout_finding *finding,
                 struct scout_proofs *proofs, struct error *error) __attribute__((warn_unused_result));

#endif
