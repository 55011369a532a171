/*
 * run.h - one run of `ddprun scout`: what the launcher asks of the recorder, and how far the recorder is.
 *
 * Down: DDPRUN_ENV_SCOUT_RUN names a file that holds struct scout_run_settings. Up: the log
 * (tools/scout/format/log.h), and struct scout_progress in a file that both map, which outlives a trainer that crashes.
 */
#ifndef DDPRUN_TOOLS_SCOUT_FORMAT_RUN_H
#define DDPRUN_TOOLS_SCOUT_FORMAT_RUN_H

#include <limits.h>
#include <stdatomic.h>
#include <stdint.h>

/* Absolute path of struct scout_run_settings; absent: an ordinary run. */
#define DDPRUN_ENV_SCOUT_RUN "_DDPRUN_SCOUT_RUN"

/* What a launch was made again with. */
enum scout_changed {
    SCOUT_CHANGED_INPUTS,        /* none of them whole numbers */
    SCOUT_CHANGED_INTEGERS,      /* of all arguments, as they were in another period */
    SCOUT_CHANGED_SOME_INTEGERS, /* a part of those of one argument, to find which of them count */
};

/* A launch that ended a run when it was made again: its kernel and its grid, and what was changed. The next run leaves
 * these integers as they are, or zeros: among numbers with a fraction they may be indices. A launch that fails with
 * zeros as they are, too, or has not ended, is made once. */
struct scout_left_out {
    uint64_t launch;        /* 0: none */
    uint32_t changed, hung; /* enum scout_changed; 1: it did not end */
};
enum { SCOUT_LEFT_OUT_AT_MOST = 8 };

struct scout_run_settings {
    uint32_t periods;    /* that are recorded with repeated launches */
    uint32_t goes_on;    /* 1: the trainer continues after them; 0: it is ended */
    uint64_t ends_after; /* 0: no; else no launch is repeated, and the trainer is ended after so many operations */
    struct scout_left_out left_out[SCOUT_LEFT_OUT_AT_MOST];
    char log[PATH_MAX];
    char progress[PATH_MAX];
};

enum scout_stage { SCOUT_STAGE_NONE, SCOUT_STAGE_LIGHT, SCOUT_STAGE_DEEP, SCOUT_STAGE_OVER };

/* Where nothing repeats but launches: what another operation differs in from step to step. */
enum scout_varies { SCOUT_VARIES_NOT, SCOUT_VARIES_IN_NUMBER, SCOUT_VARIES_IN_SIZE, SCOUT_VARIES_IN_PLACE };

enum scout_answer {
    SCOUT_ANSWER_NO_STEP, /* nothing feeds back in the period: to go on with another one */
    SCOUT_ANSWER_STEP,
    SCOUT_ANSWER_UNLIKE, /* a step, of which the recorded periods show different things: to record more of them */
};

/* Written by the recorder, but for the launcher's answers. */
struct scout_progress {
    _Atomic uint32_t stage;        /* enum scout_stage */
    _Atomic uint64_t operations;   /* so far */
    _Atomic uint64_t period;       /* operations; 0: not found yet */
    _Atomic uint64_t deep, wanted; /* operations of the deep pass: done, to do */
    _Atomic uint64_t tests;        /* repetitions so far */
    _Atomic uint64_t repeat_ms;    /* CLOCK_MONOTONIC, when the running repetition began; 0: none runs */
    char kernel[128];              /* that is repeated, or was last */
    struct scout_left_out launch;  /* the same, before each repetition */

    _Atomic uint32_t varies;       /* enum scout_varies; of the next two */
    _Atomic uint32_t varying_site; /* in the log */
    char varying[128];             /* for readers: many of that operation, or a kernel */

    /* Copies to the host that differ from step to step, and are left out of the recording: from so many places in the
     * program, and the first of these, in the log. */
    _Atomic uint32_t read_places, read_site;

    /* Where the program has read the date or random bytes: the first lines of FILES_READINGS; "": it has not. */
    char readings[2048];

    /* The recorder asks what it has recorded, waits, and goes on as enum scout_answer says. */
    _Atomic uint32_t asked;
    _Atomic uint32_t answered; /* by the launcher: == asked: `answer` is there */
    _Atomic uint32_t answer;   /* enum scout_answer */
};

#endif
