/*
 * assertion.h - ASSERT(condition): an invariant, which is looked at where code relies on it.
 *
 * A false one is a mistake in ddprun itself. It ends the job before anything is computed from it, with one line:
 * "internal error: bucketing/ranges.c:61: CONDITION is false; ...". How a process ends, its handler says: that of
 * the engine ends the job and names the rank (interpose/engine/core/abort.c), that of the launcher ends all ranks
 * (launcher/main.c). Without a handler the line goes to stderr, and the process ends with DDPRUN_EXIT_FAILURE.
 *
 * In release builds, too, so a condition takes few instructions: whether an array is sorted is looked at where the
 * array is made, not at each search. None on the way of a launch that touches no tensor (interpose/filter.h, the hooks
 * of launches). Not for what a program, a file or another process can cause: these are errors, with messages that say
 * what to do. No condition has an effect.
 *
 * Any thread, with any lock held. Handlers allocate nothing and take no lock of their callers.
 */
#ifndef DDPRUN_BASE_ASSERTION_H
#define DDPRUN_BASE_ASSERTION_H

#define ASSERT(condition) \
    (__builtin_expect(!(condition), 0) ? assertion_failed(#condition, __FILE__, __LINE__) : (void)0)

/* Of ASSERT. `file`: as the compiler knows it; the line has its path in the repository. */
void assertion_failed(const char *condition, const char *file, int line) __attribute__((noreturn, cold));

/* Gets the line, without "ddprun: ". If it returns, the line is written and the process ends, as without a handler. */
typedef void (*assertion_handler)(const char *line);

/* From now on, for all threads of this process. NULL: there is none. */
void assertion_handle(assertion_handler handler);

#endif
