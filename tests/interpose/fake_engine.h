/*
 * fake_engine.h - what the tests see of fake_engine.c.
 */
#ifndef DDPRUN_TESTS_INTERPOSE_FAKE_ENGINE_H
#define DDPRUN_TESTS_INTERPOSE_FAKE_ENGINE_H

#include "interpose/engine.h"

enum { LOG_BYTES = 4096 };

struct fake_record {
    unsigned long starts, begins, ends, nested;
    char name[64];       /* of the last operation */
    char log[LOG_BYTES]; /* all that the shim reported since the test emptied the log, as text */
    const struct shim_services *services;
    unsigned agains; /* how often the next operation is to be made once more */
    bool skips;      /* operations are not to be made */
    unsigned grid_x; /* of the last launch */
    CUresult (*call_inside)(CUdeviceptr, CUdeviceptr, size_t); /* a hook to call from within begin() */
};
extern struct fake_record fake_record;

/* Look-ups from the engine's code, which the tests exempt. */
void *fake_look_up(void *handle, const char *name);

#endif
