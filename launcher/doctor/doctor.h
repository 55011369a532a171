/*
 * doctor.h - `ddprun doctor [--json] [program]`: what this machine and this program have, and what they lack, before a
 * job finds out.
 *
 * Called by main() when "doctor" stands where a program would. Runs nothing of the program; opens libraries in
 * children only.
 */
#ifndef DDPRUN_LAUNCHER_DOCTOR_DOCTOR_H
#define DDPRUN_LAUNCHER_DOCTOR_DOCTOR_H

#include "launcher/options/options.h"

/* Examines, prints, and returns the exit code: 0, 1 if something is an error, 2 for a mistake on the command line. */
int doctor_command(const struct options *options);

#endif
