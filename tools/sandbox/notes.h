/*
 * notes.h - what libddprun-files.so notes for `ddprun scout`, if FILES_ENV_NOTES asks for it: which files a program
 * opens. The recorder (tools/scout/trainer/host.c) reads the list; in other processes it is not read.
 */
#ifndef DDPRUN_TOOLS_SANDBOX_NOTES_H
#define DDPRUN_TOOLS_SANDBOX_NOTES_H

#include <stddef.h>
#include <stdint.h>

enum call_kind { CALL_READS, CALL_WRITES };

enum { CALL_FRAMES = 16 };

/* A call, once for each file and direction. */
struct host_call {
    uint32_t kind;            /* enum call_kind */
    int depth;                /* of stack */
    uint64_t bytes;           /* of the file, when it was opened */
    const char *text;         /* path as the program said it, absolute */
    void *stack[CALL_FRAMES]; /* return addresses, innermost first */
};

/* The list so far; what it holds stays. Any thread. NULL in processes without the library. */
size_t ddprun_host_calls(const struct host_call **list_p) __attribute__((weak, visibility("default")));

#endif
