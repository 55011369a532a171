/*
 * findings.h - what `ddprun doctor` found, in order: collected by its examinations, printed once at the end.
 *
 * Texts may hold names from files and variables whose content is not trusted; control characters and broken UTF-8 are
 * replaced when they come in, so that they reach no terminal. Main thread.
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

struct findings;

struct findings *findings_new(void);
void findings_free(struct findings *findings);

/* What follows is about this: "this machine", "the program ./train". */
void findings_section(struct findings *findings, const char *title);

/* All is well with `subject`. The text is one line, without a full stop. */
void findings_ok(struct findings *findings, const char *subject, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* It is not, or something is to be known of it; `advice` says what to do. */
void findings_say(struct findings *findings, enum finding_state state, const char *subject, const char *advice,
                  const char *format, ...) __attribute__((format(printf, 5, 6)));

/* From the text of a struct error, "what; what to do". */
void findings_say_error(struct findings *findings, enum finding_state state, const char *subject, const char *text);

int findings_count(const struct findings *findings, enum finding_state state);

/* A line each, what to do beneath it, at the end how many there are of each state. */
void findings_print(const struct findings *findings, bool colour, FILE *out);

#endif
