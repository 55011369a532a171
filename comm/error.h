/*
 * error.h - how functions of comm/ say what went wrong: a status, and one line for the user.
 *
 * The function that first decides an error writes the line; callers may put words of their own in front of it.
 */
#ifndef DDPRUN_COMM_ERROR_H
#define DDPRUN_COMM_ERROR_H

#include <stdbool.h>

struct comm_error {
    char text[512]; /* one line, without a newline */
};

/* Writes the line. Always false, so that `return comm_fail(error, "...")` reads as what it is. */
bool comm_fail(struct comm_error *error, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
