/*
 * out_of_memory.h - how many processes has the kernel killed for lack of memory?
 *
 * A process that the kernel kills just ends by SIGKILL, as if a user had sent it by hand; that this number grew
 * meanwhile tells the two apart. Asked at the start and when a rank ended.
 */
#ifndef DDPRUN_LAUNCHER_WATCH_OUT_OF_MEMORY_H
#define DDPRUN_LAUNCHER_WATCH_OUT_OF_MEMORY_H

#include <stdint.h>

/*
 * Of this process's control group, by version 2 (memory.events) or 1 (memory.oom_control); where neither is to be seen,
 * of the whole machine (/proc/vmstat); 0 if nothing is. `root`: "" but for tests, which have files of their own below.
 */
uint64_t out_of_memory_kills(const char *root);

#endif
