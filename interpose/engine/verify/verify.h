/*
 * verify.h - is what the engine believes true? Comparisons across ranks and of content, and warnings.
 */
#ifndef DDPRUN_INTERPOSE_ENGINE_VERIFY_VERIFY_H
#define DDPRUN_INTERPOSE_ENGINE_VERIFY_VERIFY_H

#include "bucketing/drift.h"
#include "interpose/engine/memory/memory.h"

/* ---- checks.c ---- */
void checks_prepare(void) BY_ISSUER;
/* Whether parameters are to be compared at this boundary of the group. */
bool checks_parameters_due(const struct group *group) BY_ISSUER;
/* The issuer, at the boundary, before the trainer's stream is let go: parameters are hashed. */
void checks_before_release(const struct group *group) BY_ISSUER;
/* The issuer, at the boundary, after that: hashes are collected and sent. */
void checks_after_release(void) BY_ISSUER;
/* Waits for the device: the parameters' last hash, kept for the end. */
void checks_final_hash(void);
/* Tensors that it covers have left the table: the end hashes those that are left. */
void checks_drop_final_hash(void);
/* At the end, collective: compares steps and final hashes. Whether ranks have launched different buckets of a step that
 * will not come: the same on all ranks. */
bool checks_at_end(void);

/* ---- values.c: the values of tensors whose hashes differ between ranks ---- */
enum { VALUES_TEXT_BYTES = 160 };
struct values_mistake {
    size_t index;                 /* of tensor_compared() */
    uint64_t after_step;          /* the comparison that saw it first */
    char text[VALUES_TEXT_BYTES]; /* by how much; the same on all ranks */
};
/* Whether a right program may leave other bits on each rank in this tensor of tensor_compared(). Else any difference is
 * a mistake. */
bool values_may_vary(size_t index);
/* The issuer, at a comparison of `count` tensors, in front of the hashes: their movement counts from here on, if it
 * does not count yet. */
void values_prepare(size_t count) BY_ISSUER;
/* Whether a comparison is due because of what the last look has found; the same on all ranks. */
bool values_are_due(void) BY_ISSUER;
/* Hashes of a tensor have differed after that step; which step that was first, `otherwise` if none is known. */
void values_note_suspect(size_t index, uint64_t after_step);
uint64_t values_first_seen(size_t index, uint64_t otherwise);
/* The issuer, at a comparison, before the trainer's stream is let go: suspects[count], tensors whose hashes differed at
 * the last one, the same on all ranks, get rank 0's values. Collective; waits for the device. Whether the job is to
 * end.
 */
bool values_look(size_t *suspects, size_t count, struct values_mistake *mistake_p) BY_ISSUER;
/* The issuer, when the device has done all: what values_judge_end() needs is on its way to the host. */
void values_sample_end(void) BY_ISSUER;
/* At the end, collective: what differs by noise is uncompared from then on, and is counted. Whether there was any.
 * `text` gets by how much a tensor differs that stays. */
bool values_judge_end(uint32_t *differs, size_t count, uint64_t step, char text[VALUES_TEXT_BYTES]);

/* The step after which the last look found rounding alone, or nothing; 0: none. */
uint64_t values_right_step(void);

/* ---- running.c: running statistics that are annotated as parameters ---- */
struct hasher;
/* The issuer, at the first DDP_STEP: gradients of the group are hashed, to see which are zeros. */
void running_before_release(const struct group *group, struct hasher *hasher) BY_ISSUER;
/* Whether all that differs at the first DDP_STEP, differs[count] by tensor_compared(), are parameters without a
 * gradient that anything writes, as far as their counts and types say. */
bool running_are_all(const uint32_t *differs, size_t count);

/* ---- nonfinite.c: which rank was the first to have an infinite element or NaN in a gradient? ---- */
/* The issuer, once the ranks have agreed on annotations. */
void nonfinite_prepare(void) BY_ISSUER;
/* A watcher's: the bucket is about to be sent, and is looked at before, or is not. */
void nonfinite_look(const struct group *group, size_t bucket, bool early) BY_ISSUER;
/* The issuer: the same of a bucket in a capture, of its DDP_STEP number `step`, number `turn` of the group, both from
 * 0. */
void nonfinite_look_captured(const struct group *group, struct bucket_wire *wire, size_t step, size_t turn) BY_ISSUER;
/* The issuer, before a graph is launched and the trainer's stream let go: it has steps of the groups, one bit each. */
void nonfinite_launch(uint32_t groups) BY_ISSUER;
/* Whether parameters are looked at, at this boundary of the group (NULL: the launch of a graph). Once a boundary,
 * before the others of it. */
bool nonfinite_due(const struct group *group) BY_ISSUER;
/* As for checks. */
void nonfinite_before_release(void) BY_ISSUER;
void nonfinite_after_release(void) BY_ISSUER;
/* The issuer, at a boundary or before the launch of a graph, after step_release(); collective. With --stop-on-nan: ends
 * the job if a finding of a step before stays. */
void nonfinite_stop(void) BY_ISSUER;
/* The same at the end of the program, of this rank's findings. */
void nonfinite_stop_at_end(void);
/* The same of a DDP_MEAN, called `name`, that is NaN because of that rank's value; all ranks call it. */
void nonfinite_stop_for_mean(int rank, const char *name, const struct ddp_site *site);
/* What was found goes to the launcher. Any thread, without a wait for the device. */
void nonfinite_tell(void);
/* The issuer, when the device has done all: what was found last, with a look at the parameters. */
void nonfinite_at_end(void) BY_ISSUER;
/* The device is about to be closed: there is no look any more. */
void nonfinite_close(void);

/* ---- duplicate_batch.c: do ranks train on the same data? ---- */
/* A watcher's: what is copied, and this rank's own gradients before they are sent, are hashed in the first steps. */
void duplicate_batch_copied(const struct operation *operation);
void duplicate_batch_own_gradients(const struct group *group, size_t bucket, bool early) BY_ISSUER;
/* The issuer: makes room, once the ranks have agreed on annotations. */
void duplicate_batch_prepare(void) BY_ISSUER;
/* The issuer, at a boundary, collective at one of them: reports it once. */
void duplicate_batch_compare(void) BY_ISSUER;

/* ---- coverage.c ---- */
/* The ranks have agreed on annotations: counts their elements for reports; rank 0 warns of what seems forgotten. */
void coverage_look(void);

/* ---- forgotten.c: launches that change memory without annotation as they update parameters ---- */
/* A watcher's, on rank 0. */
void forgotten_begin(const struct operation *operation);
void forgotten_end(const struct operation *operation, bool runs, bool touches);
/* DDP_REDUCE gets this memory. */
void forgotten_reduced(CUdeviceptr address, size_t bytes);
/* A boundary begins. */
void forgotten_step(void);
void forgotten_period(void); /* the watch thread's */

/* ---- unaveraged.c: nothing is annotated, or no DDP_STEP comes ---- */
/* At the engine's start, when options, rank and world are known. `wait_ms`: how long an annotation may be waited for
 * after the first launch. */
void unaveraged_open(int64_t wait_ms);
/* DDP_STEP came. */
void unaveraged_step(void);
/* A watcher's (core/observer.h): counts operations that run kernels. */
void unaveraged_launched(const struct operation *operation);
void unaveraged_ended(const struct operation *operation, bool runs, bool touches);
/* The issuer: a parameter was annotated, and holds what all ranks begin with. */
void unaveraged_annotated(const struct tensor *parameter) BY_ISSUER;
/* Parameters in [begin, end) are about to go: waits for the device, if there is reason to look at them. */
void unaveraged_last_look(CUdeviceptr begin, CUdeviceptr end);
/* The program ends well: ends the job if it has trained, and nothing was averaged. */
void unaveraged_refuse_end(void);
/* In the watch thread: warnings. */
void unaveraged_tell(void);

#endif
