/*
 * error.h - how functions of comm/ say what went wrong: a status, and one line for the user.
 *
 * The function that first decides an error writes the line; callers may put words of their own in front of it. It also
 * says whose doing it is: when a rank fails, others soon fail too, and users are to read about the first.
 */
#ifndef DDPRUN_COMM_ERROR_H
#define DDPRUN_COMM_ERROR_H

#include "base/must_use.h"

#include <stdbool.h>

enum comm_cause {
    COMM_UNCLEAR, /* this rank's or another's */
    COMM_OWN,     /* it would have failed without other ranks too */
    COMM_OTHERS,  /* another rank has failed, or does not come */
    COMM_LEFT,    /* another rank's process has ended, or has become another program */
    COMM_FAULT,   /* a kernel failed on this rank's device: by a fault of its own, or by another rank's end */
};

struct comm_error {
    char text[512]; /* one line, without a newline */
    enum comm_cause cause;
};

/* Writes the line, and whose doing it is. Always false, so that `return comm_fail(error, "...")` reads as what it is.
 * Needs no memory. */
#define comm_fail(error, ...) comm_fail_by(error, COMM_UNCLEAR, __VA_ARGS__)
bool comm_fail_by(struct comm_error *error, enum comm_cause cause, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
