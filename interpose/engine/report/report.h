/*
 * report.h - what happened, for the launcher and for users: the watch thread and the trace.
 */
#ifndef DDPRUN_INTERPOSE_ENGINE_REPORT_REPORT_H
#define DDPRUN_INTERPOSE_ENGINE_REPORT_REPORT_H

#include "bucketing/cost.h"
#include "bucketing/trial.h"
#include "interpose/engine/memory/memory.h"

/* ---- watchdog.c ---- */
/* Calls each_period() in its thread, besides; that must not block. */
void watch_start(void (*each_period)(void));
/* Waits until the watch thread has ended. Once is enough; more do no harm. */
void watch_stop(void);

/* ---- trace.c: what happens in each step; with --trace only ---- */
bool trace_file_is_open(void);
#define TRACED(call)              \
    do {                          \
        if (trace_file_is_open()) \
            call;                 \
    } while (0)
/* What an all-reduce costs on an idle device; `cost` stays. */
void trace_costs(const struct cost *cost) BY_ISSUER;
void trace_plan(const struct group *group) BY_ISSUER;
/* Steps of the group may have so many buckets, whatever its plan has. */
void trace_make_room(const struct group *group, size_t bucket_count) BY_ISSUER;
/* When each gradient was ready, and when backward was done (ready_ns[gradient_count]), on the last rank: ns since the
 * step began. */
void trace_ready(const struct group *group, const int64_t *ready_ns) BY_ISSUER;
/* What a trial has found of steps with other buckets, so many, beside the present ones; 0: of steps with the other way
 * of overlap. */
void trace_trial(const struct group *group, const struct trial_result *result, size_t bucket_count,
                 bool overlaps) BY_ISSUER;
/* Steps overlap from here on, or do not. */
void trace_overlap(const struct group *group, bool overlaps) BY_ISSUER;
/* Its backward is done. `measured`: the event of measure_backward_done(), so that the trace and the closing lines have
 * one time; NULL: the trace records its own. What the group's plan promises: waiting at the boundary, and its lower
 * bound; negative: not known. */
void trace_boundary(const struct group *group, CUstream stream, CUevent measured, int64_t promised_ns,
                    int64_t bound_ns) BY_ISSUER;
void trace_captured_step(int group, const struct shipment *shipment, uint64_t number,
                         bool overlaps);                                 /* passed, in a graph */
void trace_checked(const struct group *group, uint64_t bytes) BY_ISSUER; /* so many bytes were copied to the host */
/* The stream waits for the averages of this step from here on. `measured`: of measure_released(), or NULL. */
void trace_released(const struct group *group, CUstream stream, CUevent measured) BY_ISSUER;
void trace_step_end(const struct group *group, CUstream stream) BY_ISSUER;
/* An operation on the stream, about to be enqueued, completes a gradient of the group. Any thread. */
void trace_completes(const struct group *group, CUstream stream);
/* A watcher's (core/observer.h). */
void trace_bucket_ready(const struct group *group, size_t bucket, uint64_t streams) BY_ISSUER;
void trace_bucket_begin(const struct group *group, size_t bucket, bool early) BY_ISSUER;
void trace_bucket_end(const struct group *group, size_t bucket, bool early) BY_ISSUER;
/* ---- trace_host.c: what the program's host does between two calls of DDP_STEP; any thread ---- */
/* Around an operation; a watcher's. */
void trace_operation_begins(const struct operation *operation);
void trace_operation_ends(const struct operation *operation, bool runs, bool touches);
/* A call that waits for a stream, an event or the device begins; a call of ddprun that works or waits begins; one of
 * these ends. */
void trace_wait_begins(void);
void trace_call_begins(void);
void trace_call_ends(void);
/* What completes the first gradient is about to be launched. */
void trace_host_backward(void);
/* DDP_STEP returns in this thread: what follows belongs to the next step. */
void trace_step_returns(void);

/* ---- trace.c again ---- */
/* A call of DDP_REDUCE. */
void trace_reduce(uint64_t number, const char *text, uint64_t bytes) BY_ISSUER;
void trace_close(void);

#endif
