/*
 * error.h - why something did not work, on its way from the function that noticed to main(), which prints it once.
 *
 * The function that notices fills it in ("what, where, what to do", without "ddprun: ") and returns false; its callers
 * only pass it on. Plain data, no ownership, no thread rules.
 */
#ifndef DDPRUN_LAUNCHER_COMMON_ERROR_H
#define DDPRUN_LAUNCHER_COMMON_ERROR_H

#include "base/must_use.h"

#include <stdbool.h>

struct error {
    int exit_code; /* what ddprun exits with: one of DDPRUN_EXIT_* */
    int rank;      /* that the text is about; -1: none, or several */
    char text[2048];
};

/* Fills in `error` and returns false, so that a caller can `return error_set(...)`. A longer text is cut. */
bool error_set(struct error *error, int exit_code, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
