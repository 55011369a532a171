/*
 * problem.h - why something did not work, on its way from where it was noticed to main(), which prints it once.
 *
 * The function that notices fills it in ("what, where, what to do", without "ddprun: ") and returns false; everybody
 * above only passes it on. Plain data, no ownership, no thread rules.
 */
#ifndef DDPRUN_LAUNCHER_COMMON_PROBLEM_H
#define DDPRUN_LAUNCHER_COMMON_PROBLEM_H

#include <stdbool.h>

struct problem {
    int exit_code; /* what ddprun exits with: one of DDPRUN_EXIT_* */
    int rank;      /* of whom the text speaks; -1: of nobody, or of several */
    char text[2048];
};

/* Fills in `problem` and returns false, so that a caller can `return problem_set(...)`. A longer text is cut. */
bool problem_set(struct problem *problem, int exit_code, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
