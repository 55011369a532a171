/*
 * warnings.h - what was warned of: message_warning() (message.h) prints a line and keeps it here, once for each key.
 *
 * A rank's list is in its status record (protocol.h), written by its engine and read by the launcher, which believes
 * nothing of it; the launcher has one of its own. Written without a lock, in any thread.
 */
#ifndef DDPRUN_BASE_WARNINGS_H
#define DDPRUN_BASE_WARNINGS_H

#include <stdatomic.h>
#include <stdint.h>

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

#endif
