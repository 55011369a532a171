/*
 * room.h - main memory that may be taken, and other limits of the job's control groups. Pure, but for the files.
 */
#ifndef DDPRUN_TOOLS_COMMON_ROOM_H
#define DDPRUN_TOOLS_COMMON_ROOM_H

#include <stdbool.h>
#include <stdint.h>

/* Bytes, of the machine and of the job's control groups: taking more would be answered by the end of a process, and not
 * by an error. `root`: where /proc and /sys are; "". */
uint64_t room_available(const char *root);

/* The tightest limit of that name, as "pids.max", of this process's control group (version 2) and those around it;
 * UINT64_MAX: there is none. */
uint64_t room_limit(const char *name);

/* The number after `name` in a file of lines "name number", or the whole first line if `name` is "". False: there is
 * none; "max" is no number. */
bool room_number(const char *path, const char *name, uint64_t *number_p);

#endif
