/*
 * carried.h - does the host keep what is trained, and copy it to the device, where no annotation names it? From what
 * ranks copy, by call site (tools/check/format/copies.h).
 */
#ifndef DDPRUN_TOOLS_CHECK_COMMAND_CARRIED_H
#define DDPRUN_TOOLS_CHECK_COMMAND_CARRIED_H

#include "tools/check/command/verdict.h"

/*
 * Of what is equal otherwise. A weight or a state of the host's may differ from rank to rank by too little to show in
 * gradients, as at a small learning rate; its bits tell. Data may differ, too: a run of one rank from parameters that
 * are far away tells them apart, for it copies the same data.
 */
void carried_judge(const struct check_evidence *evidence, struct check_verdict *verdict, struct check_wishes *wishes);

#endif
