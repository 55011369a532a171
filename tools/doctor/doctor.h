/*
 * doctor.h - `ddprun doctor [--json] [program]`: what this machine and this program have, and what they lack, before a
 * job finds out.
 *
 * Called by main() when "doctor" stands where a program would. Runs nothing of the program; opens libraries in
 * children only.
 */
#ifndef DDPRUN_TOOLS_DOCTOR_DOCTOR_H
#define DDPRUN_TOOLS_DOCTOR_DOCTOR_H

#include "launcher/options/command.h"

/* Exit code 1: something is a problem. */
extern const struct command doctor_command;

#endif
