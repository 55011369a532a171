/*
 * rank_view_wire.h - what a supervisor sees of its rank, as bytes for supervisor 0. Pure; a field of struct rank_view
 * that supervisor 0 is to know has a row in base/rank_fields.def.
 */
#ifndef DDPRUN_LAUNCHER_CLUSTER_RANK_VIEW_WIRE_H
#define DDPRUN_LAUNCHER_CLUSTER_RANK_VIEW_WIRE_H

#include "launcher/common/rank_view.h"

#include <stddef.h>

enum { RANK_VIEW_BYTES_AT_MOST = 16384 };

/* Writes the view into bytes[RANK_VIEW_BYTES_AT_MOST]; returns how many. */
size_t rank_view_encode(const struct rank_view *view, unsigned char *bytes);

/* Takes over what was sent; fields that are no part of it (such as `order`) stay. False and untouched: no view. */
bool rank_view_decode(const void *bytes, size_t count, struct rank_view *view) __attribute__((warn_unused_result));

/* Whether supervisor 0 should hear of the change at once; else it does with the next heartbeat. */
bool rank_view_is_urgent(const struct rank_view *before, const struct rank_view *after);

#endif
