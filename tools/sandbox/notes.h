/*
 * notes.h - what libddprun-files.so notes for `ddprun scout`, if FILES_ENV_NOTES asks for it: which files a program
 * opens, and where it asks for what differs from run to run. The recorder (tools/scout/trainer/host.c) reads the
 * list; in other processes it is not read.
 */
#ifndef DDPRUN_TOOLS_SANDBOX_NOTES_H
#define DDPRUN_TOOLS_SANDBOX_NOTES_H

#include <stddef.h>
#include <stdint.h>

enum call_kind { CALL_READS, CALL_WRITES, CALL_CLOCK };

enum { CALL_FRAMES = 16 };

/* A call, once for each file and direction, and once for each place that asks a clock. */
struct host_call {
    uint32_t kind;            /* enum call_kind */
    int depth;                /* of stack */
    uint64_t bytes;           /* of a file: its size when it was opened */
    const char *text;         /* path as the program said it, absolute; name of the call */
    void *stack[CALL_FRAMES]; /* return addresses, innermost first */
};

/* The list so far; what it holds stays. Any thread. NULL in processes without the library. */
size_t ddprun_host_calls(const struct host_call **list_p) __attribute__((weak, visibility("default")));

#endif
