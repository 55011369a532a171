/*
 * child.h - does something that may crash, hang or spoil the process in a child, and brings back what it wrote.
 *
 * The doctor asks libraries and programs that it has just met: a driver that is half installed, an mpirun that waits
 * for a network. None of them may take the doctor along. Main thread, before any other is started.
 */
#ifndef DDPRUN_LAUNCHER_START_CHILD_H
#define DDPRUN_LAUNCHER_START_CHILD_H

#include <stdbool.h>
#include <stddef.h>

enum { CHILD_TEXT_BYTES = 65536 };

enum child_end {
    CHILD_EXITED,   /* code: its exit code */
    CHILD_KILLED,   /* code: the signal */
    CHILD_TOO_SLOW, /* it was killed when its time was over */
    CHILD_NOT_RUN,  /* code: errno */
};

struct child_result {
    enum child_end end;
    int code;
    size_t length;               /* of the text */
    char text[CHILD_TEXT_BYTES]; /* what it wrote to stdout and stderr, cut if it was longer; a NUL after it */
};

/* Runs `function` in a child, its exit code being what the function returns. */
void child_call(int (*function)(void *context), void *context, int limit_s, struct child_result *result);

/* Runs the program arguments[0], an absolute path, with this environment; stdin is /dev/null. */
void child_run(char *const *arguments, char *const *environment, int limit_s, struct child_result *result);

/* "it was ended by signal 11", and the like; for a child that did not exit by itself. */
const char *child_end_text(const struct child_result *result, char text[64]);

#endif
