/*
 * progress.h - the progress line: steps, steps a second, exposed communication, a rank that the others wait for,
 * as the closing lines would have them now (watch/pace.h); and what the program reports by DDP_MEAN.
 *
 *     ddprun: step 1200, 458.6 steps/s, exposed 1.2 ms, waiting for rank 3: 58 ms per step, loss 0.4312
 *
 * On a terminal it stands at the bottom (status_line.h), redrawn at most four times a second. With --progress on where
 * stderr is no terminal, it is a whole line every ten seconds. The supervisor calls it at each look; one thread.
 */
#ifndef DDPRUN_LAUNCHER_REPORT_PROGRESS_H
#define DDPRUN_LAUNCHER_REPORT_PROGRESS_H

#include "launcher/common/rank_view.h"
#include "launcher/options/options.h"

struct progress;

/* NULL if none is to be shown; the functions below do nothing with NULL. */
struct progress *progress_new(enum progress_choice choice);

/* What is known of the ranks now; draws if it is time to. Begins a second after the first step. */
void progress_show(struct progress *progress, const struct rank_view *ranks, int count, uint64_t now_ns);

/* Takes the line off the terminal, before the job ends or is suspended. The next progress_show() brings it back. */
void progress_hide(struct progress *progress);

void progress_free(struct progress *progress);

/* ---- for the unit test ---- */

/* Writes the line into text[bytes] (without "ddprun: "). */
void progress_compose(const struct rank_view *ranks, int count, char *text, size_t bytes);

#endif
