/*
 * step.h - from the hooks to a step: annotations, operations, DDP_STEP, and graphs in which it was captured. For
 * start.c, which gives them to the hooks, and for each other.
 */
#ifndef DDPRUN_INTERPOSE_ENGINE_STEP_STEP_H
#define DDPRUN_INTERPOSE_ENGINE_STEP_STEP_H

#include "interpose/engine/graphs/graphs.h"
#include "interpose/engine/memory/memory.h"

/* ---- annotate.c: may end the job; without lock ---- */
void tensor_annotate_parameter(void *ptr, size_t count, int type, const struct ddp_site *site);
void tensor_annotate_gradient(void *ptr, size_t count, int type, const struct ddp_site *site);
void tensor_annotate_state(void *ptr, size_t count, int type, const struct ddp_site *site);
/* Anything that needs no more than to be known: gradients and buffers. */
void tensor_annotate(enum tensor_role role, void *ptr, size_t count, int type, const struct ddp_site *site);
void tensor_forget(void *ptr, const struct ddp_site *site);
/* Before the table is used for a step or an annotation: parameters and states that DDP_FORGET has named leave it. */
void annotations_drop_forgotten(void);
/* Gradients annotated from here on belong to group `id`. */
void tensor_choose_group(int id, const struct ddp_site *site);

/* ---- unmap.c: what holds gradients goes; without lock ---- */
/* A call that may wait for all work of the device is about to give memory back, or to load code. Any thread. */
void unmap_may_wait(bool loads);
/* Memory is about to be freed; `bytes` 0: all of the allocation. */
void unmap_before_free(CUdeviceptr address, size_t bytes);
void unmap_before_unload(void);
void unmap_after_unload(void);
void unmap_before_primary_release(CUdevice device);

/* ---- touches.c ---- */
void touches_begin(struct operation *operation);
/* The same in two halves: whether a region of turns leaves the operation out, and what follows if it does not. */
bool touches_leave_out(struct operation *operation);
void touches_follow(struct operation *operation);
void touches_end(struct operation *operation, bool enqueued);
/* Between the two: the group with a gradient that the operation completes; NULL: there is none. */
const struct group *touches_complete(const struct operation *operation);
void touches_copied_from_host(const void *source, size_t bytes, size_t pitch, size_t rows); /* see engine.h */

/* ---- exits.c ---- */
/* Whether a result of the device may leave it by the operation; `is_opaque`: as hits_look() answers. */
bool exits_by(const struct operation *operation, const struct hits *hits, bool is_opaque);

/* ---- intervals.c: what the program says of an interval ---- */
void interval_no_sync(int begins, const struct ddp_site *site);
void interval_gradient_ready(void *ptr, void *stream, const struct ddp_site *site);
/* Ends the job if the step, of this macro, stands where touches do not count. */
void interval_refuse_step(const char *name, const struct ddp_site *site);

/* ---- turns.c: ranks take turns at batches; may end the job ---- */
uint64_t region_begin(const struct ddp_site *site); /* these four: see engine.h */
void region_end(uint64_t number, const struct ddp_site *site);
int region_is_mine(void);
int region_updates(void);
/* At DDP_STEP, and DDP_STEP_PARAMETERS: whether it has an effect. On all ranks alike. */
bool turn_step(int group, CUstream stream, const struct ddp_site *site);
/* Ends the job where ranks would exchange what one of them has computed, or where batches are divided. */
void turn_refuse_exchange(const char *macro, const struct ddp_site *site);
void turn_refuse_share(const char *macro, const struct ddp_site *site);
/* After a DDP_MEAN that has waited `waited_ns` for other ranks: says what that costs, where every batch has one. */
void turn_note_mean(uint64_t waited_ns, const struct ddp_site *site);
/* A group whose parameters ranks have trained in a round that will not be complete: they are to be averaged now. -1:
 * there is none. On all ranks alike. */
int turn_take_rest(void);
/* Whether such parameters are in this memory; `bytes` 0: there is one allocation. */
bool turn_rest_is_in(CUdeviceptr address, size_t bytes);
/* At the end of the program. */
void turn_refuse_end(void);

/* ---- turn_work.c: what a region leaves out ---- */
/* A thread has a region open: else no operation is left out. Read without lock. */
extern _Atomic bool turn_any_open;
/* Before an operation goes to the driver: whether it is left out; then `skip` is set. */
bool turn_leaves_out(struct operation *operation);
/* The operation that follows in this thread copies from the host. */
void turn_copies_from_host(void);
/* Memory came, or goes; see engine.h. */
void turn_allocated(const CUdeviceptr *address, size_t bytes);
void turn_released(CUdeviceptr address, size_t bytes);

/* ---- turn_batches.c ---- */
/* The thread is about to copy this to the device. */
void turn_batch_copied(const void *source, size_t bytes);

/* ---- buffers.c ---- */
void buffer_annotate(void *ptr, size_t count, int type, const struct ddp_site *site);
/* How many are annotated; takes the lock. */
size_t buffers_count(void);
/* The issuer, at a boundary: rank 0's bytes are on their way to all. */
void buffers_send(void) BY_ISSUER;
/* The same on an internal stream that is captured. */
void buffers_send_on(CUstream stream) BY_ISSUER;

/* ---- host_memory.c: tensors in memory that the host reaches ---- */
/* At an annotation: how many bytes of the tensor, in memory of the host, can be read, from its beginning on. */
size_t host_memory_readable(const struct tensor *tensor);
/* Rank 0, once, when gradients are agreed on: DDP_STEP waits because of them. */
void host_memory_say(void);
/* Ends the job if a captured DDP_STEP of the group would have to wait for the host. */
void host_memory_refuse_capture(int group, const struct ddp_site *site);
/* At a boundary of the group, before anything of it is looked at: waits for the context if the host may write what the
 * boundary sends. */
void host_memory_begin(const struct group *group);
/* At the second boundary, after that, if nothing was seen to touch the group's gradients: whether the host may have
 * written them. Says so if none of them has changed. */
bool host_memory_may_change(const struct group *group, const struct ddp_site *site);
/* The issuer, before buckets and buffers of the boundary are sent: what is the host's is copied to the device. */
void host_memory_send(const struct group *group) BY_ISSUER;
/* The issuer, when all of it is sent: waits until the host may read it, where it was. */
void host_memory_end(const struct group *group) BY_ISSUER;
/* The issuer, around a collective that is enqueued on the stream: memory of the device with the tensor's bytes, and the
 * tensor with the bytes that are there. Of a tensor that the host does not reach: its own. Of one of the host's: what
 * host_memory_send() has filled. */
CUdeviceptr host_memory_lend(const struct tensor *tensor, CUstream stream) BY_ISSUER;
void host_memory_take_back(const struct tensor *tensor, CUdeviceptr lent, CUstream stream);
/* With nothing on its way: the tensor is gone for good. */
void host_memory_forget(const struct tensor *tensor);
/* The issuer: all ranks take rank 0's bytes, now. */
bool host_memory_broadcast(const struct tensor *tensor, struct comm_error *error) BY_ISSUER MUST_USE;

/* ---- host_values.c: see engine.h ---- */
/* DDP_MEAN; may end the job. `label`: what the value is called in reports; NULL: as the program's source calls it. */
void host_value_mean(const char *label, void *value, int type, const struct ddp_site *site);
/* DDP_ANY; may end the job. `site` need not outlive the call. */
int host_value_any(volatile int *flag, const struct ddp_site *site);

/* ---- reduce.c ---- */
/* DDP_REDUCE; may end the job. */
void reduce_memory(void *ptr, size_t count, int type, int op, void *stream, const struct ddp_site *site);
/* The issuer, at a boundary where parameters are compared: the calls so far are, too. */
void reduce_compare_at_boundary(void) BY_ISSUER;

/* ---- agree.c ---- */
void agree_on_annotations(bool captured);
/* What all ranks are about to take from rank 0. */
void agree_on_shared(const struct tensor *tensor, const char *place);
/* The issuer, at a boundary of `group` before anything of it is sent: do all ranks reach the same one? */
void agree_on_boundary(const struct group *group, const struct ddp_site *site) BY_ISSUER;
/* The issuer: what comes is recording number `number`, or a step outside of graphs (0): do all ranks reach that? */
void agree_on_coming(uint64_t number, const char *what, const struct ddp_site *site) BY_ISSUER;
/* The issuer: waits for the device if that was put off when the ranks agreed during a capture. */
void agree_wait_owed(void) BY_ISSUER;

/* ---- boundary.c ---- */
void boundary_step(int group, void *stream, const struct ddp_site *site);
void boundary_step_parameters(int group, void *stream, const struct ddp_site *site);

/* ---- step.c: what every step has, outside of graphs and in them ---- */
/* Ends the job if calls were made that the engine cannot follow, or none were seen at all. */
void step_refuse_unseen(const struct ddp_site *site);
/* With lock held, after boundary_count grew: for the launcher. */
void step_report(void) WITH_LOCK;
/* Takes the issuer's role, and finds out whether all ranks reach this step; `number` and `what` as in
 * agree_on_coming().
 */
void step_open(uint64_t number, const char *what, const struct ddp_site *site) TAKES_ROLE;
/* All others by the issuer, from step_open() on. Collectives wait for all streams that touched the group's gradients,
 * and for the one that the trainer names. Where parameters are compared, for those of other groups too: their
 * optimizers have read their gradients there. `group` NULL: those of all groups. */
uint64_t step_wait_for_producers(const struct group *group, CUstream stream) BY_ISSUER;
/* The stream, and others before they touch gradients, wait for all collectives so far, and for their checks. */
void step_release(const struct group *group, CUstream stream) BY_ISSUER;
/* The group's interval is over; whether it repeated the one before. `in_graph`: the step is one of a graph. */
bool step_close_interval(struct group *group, CUstream stream, bool in_graph) BY_ISSUER;
/* The next interval begins, with what is compared once a step. */
void step_close(void) BY_ISSUER;
/* For the launcher: a step was made. */
void step_is_training(void);

/* ---- graph_step.c ---- */
/* DDP_STEP on a captured stream. */
void capture_step(struct capture *capture, struct group *group, CUstream stream, const struct ddp_site *site);
void capture_ended(void *ended, const CUgraph *graph, bool done); /* for struct engine */

/* ---- graph_launch.c ---- */
/* Before the launch of a graph with steps, on a stream that is not captured: takes the issuer's role and orders it
 * after all before. */
void launch_begin(struct recording *recording, CUstream stream) TAKES_ROLE;
/* After it, in the same thread. */
void launch_end(struct recording *recording, CUstream stream, bool enqueued) GIVES_ROLE;

/* ---- graph_edits.c; for struct engine ---- */
void graph_changes(CUgraph graph, const char *call);
void graph_nested(CUgraph graph, const char *call);
void graph_node_changes(CUgraphExec exec, CUgraphNode node, struct operation *work);
void graph_made(CUgraph from, const CUgraphExec *made, uint64_t flags, bool done);
void graph_updated(CUgraphExec exec, CUgraph graph, bool done);

#endif
