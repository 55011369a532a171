/*
 * closing.h - the closing lines: what a job that trained has done, in four lines at most; with -v what else is known.
 *
 *     wall time 62.4 s, 19.8 steps/s, 1267 items/s; DDP_SHARD divides a batch of 64 items
 *     2 ranks, 1200 steps, 1197 of them overlapped (...); 6 gradients, 68.4 KiB per step, in 3 buckets
 *     exposed communication: 1.2 ms per step (mean of 1184 measured steps); waiting for rank 1: 58 ms per step, ...
 *     annotated parameters bitwise identical on all ranks (...)
 *
 * Called by the supervisor that judges, once, after a good end or one that a signal asked for.
 */
#ifndef DDPRUN_LAUNCHER_REPORT_CLOSING_H
#define DDPRUN_LAUNCHER_REPORT_CLOSING_H

#include "launcher/common/rank_view.h"

struct closing {
    const struct rank_view *ranks; /* [rank_count] */
    int rank_count;
    double seconds;    /* from the first rank's start to the end */
    unsigned restarts; /* of --max-restarts, before this attempt */
    bool summary;      /* not only warnings */
    bool verbose;      /* also what is left out of four lines */
    bool unbound;      /* ranks are bound to no cores, and there is one for each */
    bool interrupted;  /* a signal asked for the end: how far it came is said, and nothing if there was no step */
};

void closing_say(const struct closing *closing, void (*say)(const char *format, ...));

/* After an end that was asked for by a signal: a line to `say` if ranks have trained and nothing was averaged. */
void closing_say_unaveraged(const struct rank_view *ranks, int count, void (*say)(const char *format, ...));

/*
 * Those of closing_say() that say what was averaged, one message_line() each, to `say`. `summary`: not only warnings.
 * Of a program that did not train: that copies of it ran side by side, which is a warning if any of them used the
 * driver; nothing of one that only evaluated.
 */
void closing_lines(const struct rank_view *ranks, int count, bool summary, void (*say)(const char *format, ...));

/* "15.6 KiB". */
enum { CLOSING_BYTES_TEXT = 64 };
const char *closing_bytes_text(uint64_t bytes, char text[CLOSING_BYTES_TEXT]);

/* "2.27.3" of an NCCL_VERSION_CODE. */
const char *closing_nccl_text(unsigned version, char text[32]);

#endif
