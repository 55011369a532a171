/*
 * message.h - lines to the user, on stderr, all of one form: "ddprun: what happened, where, what to do".
 *
 * Each line leaves in one write(), so that lines of several ranks do not mix. Never stdout: that belongs to the
 * trainer. What would speak to the terminal, from names of unknown origin, is replaced (printable.h). Safe in any
 * thread; not in a signal handler.
 */
#ifndef DDPRUN_BASE_MESSAGE_H
#define DDPRUN_BASE_MESSAGE_H

#include <stdatomic.h>
#include <stdint.h>

/*
 * What was warned of, once for each key. A rank's list is in its status record (protocol.h), written by its engine and
 * read by the launcher, which believes nothing of it; the launcher has one of its own. Written without a lock, in any
 * thread.
 */
enum { WARNINGS_AT_MOST = 16, WARNING_KEY_BYTES = 32, WARNING_TEXT_BYTES = 384 };

struct warning {
    _Atomic uint64_t count;        /* how often; 0: what follows is not written yet */
    uint64_t step, at_ns;          /* boundaries passed before the first one, and when it was (CLOCK_MONOTONIC) */
    char key[WARNING_KEY_BYTES];   /* such as "forgotten_tensor"; NUL-terminated, as is: */
    char text[WARNING_TEXT_BYTES]; /* the first one, cut, printable */
};

struct warnings {
    _Atomic uint32_t claimed; /* how many of `all` have been given away, or asked for */
    struct warning all[WARNINGS_AT_MOST];
};

/* Writes "ddprun: " and the formatted text and a newline. */
void message_line(const char *format, ...) __attribute__((format(printf, 1, 2)));

/*
 * The same, and keeps the text as a warning under `key`, of which the first text and the count stay: in the summary, on
 * the page and in the trace. Warnings beyond WARNINGS_AT_MOST keys are printed only. The key is a string that stays.
 */
void message_warning(const char *key, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* From now on warnings are kept in this list; `step`: boundaries passed. At first: in a list of the process. */
void message_warnings_to(struct warnings *list, const _Atomic uint64_t *step);

/* The list of the process. */
const struct warnings *message_warnings(void);

/* Writes a text of several lines as it is. */
void message_text(const char *text);

/* From now on all goes to this descriptor; what one that is non-blocking does not take is lost. At first: stderr. */
void message_to(int fd);
int message_target(void);

#endif
