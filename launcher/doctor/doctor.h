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

/* Was the doctor asked for? A program of this name is started as ./doctor. */
bool doctor_is_asked(const struct options *options);

/* Examines, prints, and returns the exit code: 0, 1 if something is an error, 2 for a mistake on the command line. */
int doctor_run(const struct options *options, const char *version);

#endif
