/*
 * stacks.h - the host stacks of a process's threads, taken from outside, for the report of a hang.
 *
 * By ptrace and libunwind: each thread is stopped for some milliseconds, and continues as it was; a process that was
 * stopped stays so. For descendants of the launcher, which yama's ptrace_scope of 1 still allows.
 */
#ifndef DDPRUN_LAUNCHER_REPORT_STACKS_H
#define DDPRUN_LAUNCHER_REPORT_STACKS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/*
 * Writes lines into text[bytes], each indented by `indent` blanks and ended by a newline: for each thread, or group of
 * threads with one stack, its number, name and state, then a frame a line, the innermost first: "function+0x12
 * (module+0x3456)". At most 64 threads and 64 frames each; takes three seconds at most. Says why if there is nothing to
 * see. Any thread.
 *
 * A thread is stopped for a moment, which ends some system calls with EINTR. `continues`: the process is to live, and
 * threads in such calls are left alone.
 */
void stacks_describe(pid_t pid, bool continues, int indent, char *text, size_t bytes);

#endif
