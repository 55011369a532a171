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
    bool skips;           /* calls are not to be made */
    bool paused;          /* by a test, whose own calls are not to be recorded */
};

/* The engine's record; NULL until this process is the rank. */
struct record *recorder_find(void);

/* Makes this process the rank, by a call of the driver, and returns the record. */
struct record *recorder_begin(void);

/* The operand of this name in the last operation; NULL: it has none. */
const struct operand *recorder_operand(const struct record *record, const char *name);

/* The names in a list of parameters or arguments, the last identifier before each comma; returns how many there are. */
unsigned recorder_names(const char *list, char (*names)[32]);

/* Fails unless the arguments are named as the parameters are, in their order. */
void recorder_check_order(const char *symbol, const char *parameter_list, const char *argument_list);

/*
 * rank_job_run() (tests/interpose/rank_job.h) with the recording engine and `libraries` as the search path (empty: the
 * environment's, so that LD_LIBRARY_PATH can put NVIDIA's libraries in the stand-in's place).
 */
int recorder_run(int argc, char **argv, const char *libraries, int (*passive)(void), int (*in_job)(void));

#endif
