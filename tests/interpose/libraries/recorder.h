/*
 * recorder.h - what the recording engine (recorder.c) lays down for the tests, and how they start with it.
 */
#ifndef TESTS_INTERPOSE_LIBRARIES_RECORDER_H
#define TESTS_INTERPOSE_LIBRARIES_RECORDER_H

#include "interpose/engine.h"

enum { RECORDED_OPERANDS = 40 };

/* The last operation, and how many there were. */
struct record {
    unsigned long begins, ends, enqueued;
    char name[64];
    CUstream stream;
    bool opaque;
    unsigned operand_count;
    struct operand operands[RECORDED_OPERANDS];
    void (*inside)(void); /* called from within begin() */
    bool paused;          /* by a test, whose own calls are not to be recorded */
};

/* The engine's record; NULL until this process is the rank. */
struct record *recorder_find(void);

/*
 * Starts this program again with the shim preloaded, with `libraries` as the search path (empty: the environment's, so
 * that LD_LIBRARY_PATH can put NVIDIA's libraries in the stand-in's place), as rank 0 of a job of its own; then once
 * more outside any job, with --passive. Returns main's exit code. In the children, argv[1] says which.
 */
int recorder_run(char **argv, const char *libraries);

#endif
