/*
 * findings.h - what `ddprun doctor` finds: a line each, as it is found, and at the end how many there are of each
 * state.
 *
 * Texts may hold names from files and variables whose content is not trusted; control characters and broken UTF-8 are
 * replaced, so that they reach no terminal. Main thread.
 */
#ifndef DDPRUN_TOOLS_DOCTOR_FINDINGS_H
#define DDPRUN_TOOLS_DOCTOR_FINDINGS_H

#include <stdbool.h>
#include <stdio.h>

enum finding_state {
    FINDING_OK,
    FINDING_NOTE,    /* works; good to know */
    FINDING_WARNING, /* works now, but not in every job */
    FINDING_PROBLEM, /* ddprun cannot work with this */
    FINDING_STATE_COUNT,
};

struct findings {
    FILE *out; /* nothing of it waits in its buffer: examinations fork */
    bool colour;
    int counts[FINDING_STATE_COUNT];
    const char *title; /* what follows is about this: "this machine", "the program ./train"; printed once */
};

/* `advice` says what to do; NULL: nothing. The text is one line, without a full stop. */
void findings_say(struct findings *findings, enum finding_state state, const char *subject, const char *advice,
                  const char *format, ...) __attribute__((format(printf, 5, 6)));

/* All is well with `subject`. */
#define findings_ok(findings, subject, ...) findings_say(findings, FINDING_OK, subject, NULL, __VA_ARGS__)

/* From the text of a struct error, "what; what to do". */
void findings_say_error(struct findings *findings, enum finding_state state, const char *subject, const char *text);

/* The last line. */
void findings_say_counts(const struct findings *findings);

#endif
