/*
 * view_frame.h - what a supervisor sees of its rank, as bytes for supervisor 0. Pure; a field of struct rank_view that
 * supervisor 0 is to know has a row in view_frame.c.
 */
#ifndef DDPRUN_LAUNCHER_CLUSTER_VIEW_FRAME_H
#define DDPRUN_LAUNCHER_CLUSTER_VIEW_FRAME_H

#include "launcher/common/rank_view.h"

#include <stddef.h>

enum { VIEW_BYTES_AT_MOST = 8192 };

/* Writes the view into bytes[VIEW_BYTES_AT_MOST]; returns how many. */
size_t view_encode(const struct rank_view *view, unsigned char *bytes);

/* Takes over what was sent; fields that are no part of it (such as `order`) stay. False and untouched: no view. */
bool view_decode(const void *bytes, size_t count, struct rank_view *view) __attribute__((warn_unused_result));

/* Whether supervisor 0 should hear of the change at once; else it does with the next heartbeat. */
bool view_is_news(const struct rank_view *before, const struct rank_view *after);

#endif
