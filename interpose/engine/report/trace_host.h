/*
 * trace_host.h - what the program does between two calls of DDP_STEP, as its calls show: for lines of the trace.
 *
 * Of the thread that has called DDP_STEP last; calls of other threads do not count. A batch is copied to the device
 * before backward: the loader works until then. In doubt nothing is said of a step.
 */
#ifndef DDPRUN_INTERPOSE_ENGINE_REPORT_TRACE_HOST_H
#define DDPRUN_INTERPOSE_ENGINE_REPORT_TRACE_HOST_H

#include "interpose/engine/core/core.h"

/* From the return of one DDP_STEP to the launch that completes the first gradient: four parts, which add up to it. */
struct host_parts {
    bool is_known;      /* a batch was copied, and nothing was saved meanwhile */
    int64_t other_ns;   /* in other calls of CUDA and of ddprun before the last copy of the batch */
    int64_t loader_ns;  /* outside of calls before the last copy of the batch */
    int64_t copies_ns;  /* in copies of the batch to the device */
    int64_t forward_ns; /* after them */
    bool has_device;    /* events around the copies are recorded */
    uint64_t launches;  /* of kernels and graphs, since the DDP_STEP before */
};

/* Since the program's start. */
struct host_totals {
    uint64_t launches; /* of kernels and graphs */
    int64_t saved_ns;  /* from a copy of an annotated parameter or state to the host to the next call of another kind */
    int64_t worked_ns; /* when the last call was over; 0: none was */
};

/* Makes the events for the next step; once, with the context current. */
void host_parts_prepare(void);
/* DDP_STEP: what has happened since the one before. The events around copies of the batch are exchanged with those at
 * `begin` and `end`. */
void host_parts_take(struct host_parts *parts, CUevent *begin, CUevent *end);
void host_totals_take(struct host_totals *totals);

#endif
