/*
 * stacks.h - the host stacks of a process's threads, taken from outside, for the report of a hang or a crash.
 *
 * By ptrace and libunwind: each thread is stopped for some milliseconds, and continues as it was; a process that was
 * stopped stays so. For descendants of the launcher, which yama's ptrace_scope of 1 still allows. Functions and lines
 * of the source are looked up by libdw, if the build has it.
 */
#ifndef DDPRUN_LAUNCHER_REPORT_STACKS_H
#define DDPRUN_LAUNCHER_REPORT_STACKS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct stacks_subject {
    pid_t pid;
    bool continues; /* the process is to live: threads in calls that a stop would end with EINTR are left alone */
    pid_t crashed;  /* this thread is in the handler of `signal`, which is about to end the process; 0: none */
    int signal;
    _Atomic uint32_t *seen; /* set to 1 as soon as the process is not needed any more; or NULL */
};

/*
 * Writes lines into text[bytes], each indented by `indent` blanks and ended by a newline: for each thread, or group of
 * threads with one stack, its number, name and state, then a frame a line, the innermost first: "function+0x12
 * (module+0x3456) at file.c:12", and before it, for a call that the compiler has inlined, "function (inlined) at
 * file.c:7". A thread that has crashed is the first. At most 64 threads and 64 frames each; takes three seconds at
 * most, and two for the names (helper.h). Says why if there is nothing to see. The supervisor's thread.
 */
void stacks_describe(const struct stacks_subject *subject, int indent, char *text, size_t bytes);

#endif
