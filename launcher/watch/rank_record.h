/*
 * rank_record.h - reads what a rank says of itself in its status record (base/protocol.h).
 *
 * The record is the trainer's memory, which a defect of the trainer may fill with anything: texts are made printable,
 * and numbers are only shown. Called where the rank lives, by the supervisor's thread.
 */
#ifndef DDPRUN_LAUNCHER_WATCH_RANK_RECORD_H
#define DDPRUN_LAUNCHER_WATCH_RANK_RECORD_H

#include "launcher/common/rank_view.h"

#include <stddef.h>

struct rank_status;

/* Fills in what the rank waits for and does, as of `now_ns` (CLOCK_MONOTONIC); nothing else of the view. */
void rank_record_read_activity(const struct rank_status *status, uint64_t now_ns, struct rank_view *view);

/* Copies a text that may be half written, or no text at all: printable, NUL-terminated. */
void rank_record_copy_text(char *to, size_t to_bytes, const char *from, size_t from_bytes);

#endif
