/*
 * rank_describe.h - what one rank waits for, what it does and where it is, as text.
 *
 * For the lines about ranks that hang (hang.h) and for reports. Pure; the words follow from the view alone.
 */
#ifndef DDPRUN_LAUNCHER_WATCH_RANK_DESCRIBE_H
#define DDPRUN_LAUNCHER_WATCH_RANK_DESCRIBE_H

#include "launcher/common/rank_view.h"

#include <stdbool.h>
#include <stddef.h>

/* What the rank waits for, as text that follows "rank 1 ": "waits for bucket 3 of step 8 (12.3 s)". Into text[bytes].
 */
void rank_describe_wait(const struct rank_view *view, char *text, size_t bytes);

/* What the rank does itself, a clause of its own: "it is in cuStreamSynchronize (73.0 s)", "its GPU has not reached
 * bucket 0 of step 5". */
void rank_describe_activity(const struct rank_view *view, char *text, size_t bytes);

/* " (host a, process 12, GPU 3)", as far as it is known. */
void rank_describe_place(const struct rank_view *view, char *text, size_t bytes);

/* Nothing on the host keeps the rank from continuing: its device has to end its work. */
bool rank_is_on_device(const struct rank_view *view);

#endif
