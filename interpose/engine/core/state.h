/*
 * state.h - the engine's state, and what its files know of each other.
 *
 * Data flow of a step: touches.c sees operations on gradients -> history and readiness (bucketing/) of their group ->
 * bucket_launch.c sends the buckets that may leave (comm/) -> boundary.c sends the rest, makes the trainer's stream
 * wait, and lets planner.c learn a better plan. checks.c looks over all their shoulders; abort.c is the only way to end
 * the job. What is captured into CUDA graphs goes another way, from touches.c and boundary.c on: graphs.h. What kernels
 * reach through memory: escapes.h.
 *
 * The rules of this folder:
 * - `lock` guards everything below it in struct engine_state; it is never held across a call into CUDA, NCCL or PMIx.
 * - `issuing` is the role of the one thread that enqueues collectives; it is taken and given back under `lock`, and
 * held across such calls. Fields that belong to the role say so.
 * - What the engine calls of CUDA are the driver's own functions (comm/driver.h): they never come back to the hooks.
 * - In the trainer's process nothing is printed to stdout, and only abort.c ends anything.
 */
#ifndef DDPRUN_INTERPOSE_ENGINE_CORE_STATE_H
#define DDPRUN_INTERPOSE_ENGINE_CORE_STATE_H

#include "base/check/run.h"
#include "base/flight.h"
#include "base/protocol.h"
#include "bucketing/ranges.h"
#include "bucketing/sequence.h"
#include "comm/collectives.h"
#include "comm/control.h"
#include "comm/driver.h"
#include "comm/nccl.h"
#include "comm/rendezvous.h"
#include "interpose/engine.h"
#include "interpose/engine/memory/group.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { STREAMS_AT_MOST = 64 }; /* that touch gradients between two boundaries; bits of a mask */

struct options {
    uint64_t bucket_bytes; /* of each bucket at most; 0: as measured times and costs make best */
    bool cost_cache;       /* what an all-reduce costs is kept from run to run */
    bool overlap;
    uint64_t check_every; /* steps; 0: never */
    bool verify;          /* everything, in every step */
    bool unannotated;     /* nothing is averaged, as the user knows */
    int unannotated_ms;   /* how long an annotation may be waited for after the first launch */
    int timeout_s;
    enum ddprun_reduction reduction;
    enum ddprun_compression compression;
    unsigned communicator_count;
    const char *kernels_path; /* or NULL */
    const char *nccl_path;
    const char *trace_dir; /* or NULL */
};

/* How often addresses of tensors were copied to the device, at some time (engine_state). */
struct escape_count {
    uint64_t all, certain;
};

enum tensor_role { TENSOR_PARAMETER, TENSOR_GRADIENT, TENSOR_BUFFER, TENSOR_STATE, TENSOR_ROLES };

/* One annotated range. Its identity is its number, never its address: it may be freed and annotated again elsewhere. */
struct tensor {
    enum tensor_role role;
    size_t index;     /* among those of its role */
    int group;        /* gradients: id */
    size_t member;    /* gradients: number in the group, as of the last agreement on annotations */
    bool placed;      /* its memory exists */
    bool held;        /* its address escaped: a gradient is reduced at the boundary only (escaped_pointers.c) */
    bool by_library;  /* gradients: a library call has touched it, by its documented arguments */
    bool declared;    /* gradients: the program itself says when it is complete */
    bool held_by_any; /* on some rank, as of the last exchange: the same on all ranks */
    CUdeviceptr address;
    size_t count; /* elements */
    size_t bytes;
    int type; /* enum ddp_type */
    struct ddp_site site;
    uint64_t touched_by; /* gradients: mask of streams since their group's last boundary */

    /* Parameters before the first DDP_STEP: unaveraged.c. */
    bool looked_at;
    uint64_t look_hash;
    unsigned changes; /* in so many looks running */
};

/* Parameters and optimizer state: sent from rank 0 once, and compared across ranks. */
static inline bool
tensor_is_compared(const struct tensor *tensor)
{
    return tensor->role == TENSOR_PARAMETER || tensor->role == TENSOR_STATE;
}

/* A stream on which gradients were touched. */
struct stream_entry {
    CUstream handle;     /* NULL: the entry is free */
    pid_t owner;         /* of CU_STREAM_PER_THREAD: the thread; else 0 */
    bool destroyed;      /* its event holds its last state */
    CUevent event;       /* last recorded when its work was last waited for */
    uint64_t waited_for; /* number of the boundary whose reduction it waits for */
};

/* Something that travels, in words: "bucket 3 of step 8". */
struct traveller {
    const char *what;
    uint64_t number, step;
};

enum { AWAITED_AT_MOST = 32 };

/*
 * Collectives on their way through one communicator, as the watch thread sees them: a ring of those that were sent
 * last, between two events each. When it is full, what follows is only known to have been sent, until all of it is
 * done.
 */
struct awaited {
    struct {
        CUevent begin, end; /* recorded before they are counted, and not again before they have come */
        struct traveller of;
    } sent[AWAITED_AT_MOST];
    unsigned first, count;
    bool more;                /* others were sent since, without events */
    bool tail_pending;        /* `tail` was recorded after all of those */
    CUevent tail;             /* the watch thread's */
    struct traveller last;    /* of them */
    struct traveller calling; /* what the issuer sends now, around NCCL's call; what == NULL: nothing */

    /* The watch thread's own: what it saw last. */
    enum rank_collective state;
    struct traveller of;
    uint64_t since_ns;
};

struct engine_state {
    /* ---- constant once the engine has started ---- */
    const struct shim_services *services;
    struct rank_status *status;
    struct options options;
    struct rendezvous rendezvous;
    struct control control;
    int status_count, status_index; /* records of the ranks of this launcher; which is `status` */
    pid_t pid;
    const struct check_run *check; /* of `ddprun check`; NULL: this is none */

    /* ---- set once, at the first annotation of memory ---- */
    struct driver driver;
    _Atomic bool driver_ready;
    CUcontext context; /* of the annotated memory: current in every call of ours */
    int device;        /* its ordinal */
    struct nccl nccl;
    struct collectives collectives;
    _Atomic bool collectives_ready;

    /* ---- guarded by lock ---- */
    pthread_mutex_t lock;
    pthread_cond_t role_free; /* signalled when `issuing` becomes false */
    bool issuing;

    struct ranges ranges; /* of placed tensors; id: place in tensors[] */
    struct tensor *tensors;
    size_t tensor_count, tensor_capacity;
    size_t gradient_count, parameter_count, buffer_count, state_count;
    size_t freed_compared_count;      /* parameters and states without memory now */
    _Atomic uint64_t lowest, highest; /* bounds of all but parameters: read without lock, for a quick miss */
    bool annotations_changed;         /* the ranks must compare again at the next boundary */
    uint64_t agreements;              /* on annotations, so far: numbers of gradients in groups hold until the next */
    _Atomic bool holds;               /* some tensor is held, or was: kernels may touch gradients unseen */
    _Atomic bool blind;               /* the driver does not tell kernels' parameters */
    int annotated_group;              /* gradients annotated from here on belong to it */

    bool no_sync; /* touches do not count, and nothing leaves early */
    struct ddp_site no_sync_site;
    uint64_t buffer_streams; /* mask: buffers or states were touched on them since the last boundary */

    struct group groups[GROUPS_AT_MOST];
    struct sequence boundaries; /* of all groups */
    int expected_group;         /* whose boundary comes next, or SEQUENCE_NONE: nobody sends early */

    struct stream_entry streams[STREAMS_AT_MOST];
    _Atomic uint64_t operation_count; /* that hooks have reported, whatever they touch */
    _Atomic uint64_t boundary_count;  /* of all groups; written by the issuer, read without lock */
    _Atomic uint64_t stream_changes;  /* streams destroyed, captures begun */
    _Atomic unsigned captures_open;   /* seen to begin, and not to end */
    uint64_t placements;              /* gradients and buffers came, went or moved */
    _Atomic uint64_t escapes;         /* tensors that were held, so far */
    _Atomic uint64_t certain_escapes; /* copies that did that and are full of addresses: no chance hits (escapes.c) */
    _Atomic uint64_t graph_count;     /* captures with DDP_STEP on which ranks have agreed */

    /* ---- the issuer's role ---- */
    CUevent reduced; /* after everything of the last boundary, whichever group's */
    bool wait_owed;  /* for work on gradients before their annotation, at the next boundary or launch of a graph */
    uint64_t graph_launches; /* of graphs with DDP_STEP, since graph_count last grew */
    struct sequence kinds;   /* of boundaries, once there are graphs with DDP_STEP: graph_launch.c */

    _Atomic bool device_closed; /* our end has been made, on the device */
    bool alone_at_end;          /* a rank had left when this one came to the end: no collective any more */
    _Atomic bool context_ended; /* the trainer has reset the device: no call into CUDA any more */
    pthread_t watcher;
    _Atomic bool watching; /* there is a watch thread */
    _Atomic bool closing;  /* it ends */

    /* ---- for watchdog.c, guarded by lock ---- */
    struct awaited awaited[DDPRUN_MOST_COMMUNICATORS];
};

extern struct engine_state engine_state;

/* ---- abort.c ---- */

/* What the end of the job asks of files above this one. */
struct stop_asked {
    const char *(*kernel_name)(CUfunction function);
    bool (*takes_alarm)(const char *text); /* what would end the job soon; true: it is not to end */
    void (*notes_stop)(const char *text);  /* it ends for this reason */
};
/* Before anything else of the engine. */
void stop_ask(const struct stop_asked *asked);

/*
 * Ends the whole job: tells the launcher why, and does not return. Any thread that may block. `message` is one line
 * without the rank, which the launcher adds.
 */
void stop_job(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

/* The same for a failure of comm/: where that is, or may be, what another rank's end did to this one, the launcher
 * prefers the other's words. */
void stop_job_by(enum comm_cause cause, const char *format, ...) __attribute__((noreturn, format(printf, 2, 3)));

/*
 * The same from a place that must not block or call CUDA (a host function): the launcher can read why at once, and the
 * watch thread ends the job soon.
 */
void stop_job_soon(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Ends this process: there is no launcher any more that could end the job. */
void stop_orphan(void) __attribute__((noreturn));

/* Does not return if somebody has asked for the end that way. Any thread that may block. */
void stop_if_asked(void);

/* Checks a result of the driver; ends the job, naming `what`, when it is a failure. */
void require_cuda(CUresult result, const char *what);

/* ---- role.c ---- */
void issue_take_role(void);
void issue_give_role(void);

/* ---- status.c ---- */
/* This rank waits on the host for all others to come to `place`; and no more. One thread at a time. */
void watch_waits_at(const char *place);
void watch_waits_no_more(void);

/* ---- inflight.c ---- */
/* The issuer: makes the events, before the first collective. */
void watch_prepare(void);
/* The issuer: a collective is about to be sent through a communicator, whose stream waits for all that it needs; `what`
 * is in static storage. */
void watch_sending(const char *what, uint64_t number, unsigned communicator);
/* The issuer: it was sent. */
void watch_sent(const char *what, uint64_t number, unsigned communicator);

/* ---- exchange.c ---- */
/* Gives this rank's bytes to all and gets theirs; ends the job when ranks have come to different places. */
void agree_exchange(const char *about, const void *mine, size_t bytes, struct control_messages *all);
/* The same for those who come to one kind of place in different ways: `place` is what this rank is said to wait at. */
void agree_exchange_at(const char *place, const char *about, const void *mine, size_t bytes,
                       struct control_messages *all);
/* At the end of the program, with the same result on all ranks that are there: false if one has left before. */
bool agree_exchange_last(const void *mine, size_t bytes, struct control_messages *all);

/* ---- device.c ---- */
void agree_ensure_driver(const struct ddp_site *site);
void agree_refuse_after_reset(const char *macro, const struct ddp_site *site);
void agree_ensure_events(void); /* of the stream table */
void agree_ensure_collectives(void);

/* What the driver knows of an address. */
struct memory_facts {
    unsigned type; /* CUmemorytype; 0: no memory of the driver's */
    unsigned is_managed;
    int device;
    CUcontext context;
    CUdeviceptr begin; /* of the allocation */
    size_t bytes;
};

struct memory_facts tensor_ask_driver(CUdeviceptr address);

/* ---- types.c ---- */
size_t type_bytes(int type); /* 0: no type of ours */
const char *type_name(int type);
bool type_is_of_gradients(int type); /* not an integer */
ncclDataType_t type_nccl(int type);  /* of such a type */
uint64_t type_exponent(int type);    /* bits that are all set where an element is infinite or NaN; 0: integers */

/* ---- context.c: the trainer's context, whichever thread calls ---- */
/* Makes it current; returns what was, for context_leave(). */
CUcontext context_enter(void);
void context_leave(CUcontext before);
/* Ends a sentence about memory or a stream in "...": what is wrong with it, and what to do. */
#define CONTEXT_FOREIGN                                                                                      \
    "a context that is not the device's primary one, in which NCCL works: make the primary context current " \
    "(cuDevicePrimaryCtxRetain, cuCtxSetCurrent; the CUDA runtime does so by itself) in place of one of cuCtxCreate"
/* Whether the context is the primary one of its device. Changes nothing. */
bool context_is_primary(CUcontext context, int device);
/* Ends the job if the stream is a default stream, which belongs to the current context, and that is not the annotated
 * memory's. `current`: the trainer's, of this thread. `site` may be NULL. */
void context_require(CUstream stream, CUcontext current, const char *what, const struct ddp_site *site);
/*
 * How the trainer's captures restrict this thread: returns what was, to be put back. With
 * CU_STREAM_CAPTURE_MODE_RELAXED allocating, waiting and asking are allowed while a stream is captured, and do not end
 * its capture.
 */
CUstreamCaptureMode context_exchange_capture_mode(CUstreamCaptureMode mode);

/* Waits for all work of the device; ends the job where a capture forbids that. `when` begins a sentence. */
void context_synchronize(const char *when);

/* ---- ending.c ---- */
/* At the engine's start: the program's end calls `end` if it is one with code 0. */
void ending_open(void (*end)(void));
/* The program's end comes to the engine before it comes to what has registered itself until now: the driver has. */
void ending_before_driver(void);

/* ---- tensors.c: the table of what is annotated; tensors.h has the rest ---- */
/* With lock held: gradient number `member` of the group, as of the last tensor_index_gradients(). */
struct tensor *tensor_gradient(const struct group *group, size_t member);

/*
 * Names the tensor in a message: "parameter 4 of 6 (`w[l]`, 16 float32, train.cu:169)", for annotations stand in loops.
 * Takes the lock; works in host functions. Returns `text`.
 */
enum { TENSOR_TEXT_BYTES = 256 };
const char *tensor_describe(const struct tensor *tensor, char text[TENSOR_TEXT_BYTES]);

/* Number of tensors that are compared across ranks. With lock held: the index-th of them by annotation, or NULL. */
size_t tensor_compared_count(void);
const struct tensor *tensor_compared(size_t index);

/* "parameter", "gradient", "buffer", "state"; static storage. */
const char *tensor_role_name(enum tensor_role role);

/* Ends the job, naming the annotation, if what is to travel or to be looked at has no memory any more; at a step. */
void tensor_refuse_freed(const struct tensor *tensor);
void tensor_refuse_freed_parameters(void);
/* With lock held: makes groups follow the annotations. False when memory runs out. */
bool tensor_index_gradients(void);

/* ---- functions.c: what is known of a kernel ---- */
struct function_layout {
    uint64_t call;    /* identity: hash of the name, the same on every rank */
    const char *name; /* kept for the life of the process */
    bool known;       /* the parameters below are all there are */
    unsigned param_count;
    struct {
        size_t offset, bytes;
    } params[];
};
const struct function_layout *function_layout(CUfunction function);
/* Whether the driver tells the parameters of kernels at all: if not, no kernel is `known`. */
bool functions_are_told(void);
void functions_kernels_found(const CUkernel *kernels, unsigned room, CUlibrary library, bool done); /* see engine.h */
/* The name of a kernel that was launched, as far as it is known without asking the driver; else NULL. */
const char *function_name(CUfunction function);
/* Around the unloading of a module, which may give its kernels' handles to others. */
void functions_before_unload(void);
void functions_after_unload(void);
/* From now on hooks report every launch: engine_state.holds was set. */
void functions_none_misses(void);
uint64_t call_identity(const char *name);

/* ---- launch_filter.c: what the hooks of launches know ---- */
/* With lock held: ranges have come, gone or moved: of tensors (NULL), or of memory that counts as they do, whose owner
 * keeps `ranges` for ever. */
void miss_ranges_changed(const struct ranges *ranges);
/* At a launch that came to the engine: does what changes have left to do. */
void miss_refresh(void);
/* functions.c, with its lock held: */
void miss_add_kernel(CUfunction function, const struct function_layout *layout);
void miss_forget_kernels(void);

/* ---- operands.c ---- */
/* Whether the operand, with its holes, shares a byte with [begin, end). */
bool operand_reaches(const struct operand *operand, uint64_t begin, uint64_t end);

/* ---- touches.c ---- */
void touches_begin(struct operation *operation);
void touches_end(struct operation *operation, bool enqueued);
void touches_copied_from_host(const void *source, size_t bytes, size_t pitch, size_t rows); /* see engine.h */

/* ---- streams.c: on which streams gradients are touched ---- */
/* With lock held: the entry of a stream, added if need be; ends the job when there are too many. */
unsigned stream_index(CUstream handle);
/* Whether what is enqueued on it becomes part of a graph; so it is taken where the driver cannot say. */
bool stream_is_captured(CUstream stream);
/* Makes the stream wait for the last reduction, once after each boundary. */
void stream_wait_for_reduction(CUstream handle);
/* Records the event behind what the trainer has enqueued there; ends the job, naming `what` or the foreign context, if
 * that fails. */
void stream_record(CUstream handle, CUevent event, const char *what);
/* Work is enqueued on the stream: where only this thread can say so later, its event says so now. */
void stream_note_work(CUstream handle);
void streams_before_destroy(CUstream stream);
/* With lock held, after a boundary: entries that are not in the mask `named`, which a later boundary waits for, are
 * free again; `released` has waited. */
void streams_forget(CUstream released, uint64_t named);
/* The issuer: makes a communicator's stream wait for what is enqueued on the streams of `mask`. */
void issue_wait_for_streams(uint64_t mask, unsigned communicator);
/* The issuer: the first communicator's stream waits for all buckets of the others. */
void issue_join(void);
/* The issuer: waits on the host for everything that is on its way. */
void issue_wait_for_buckets(void);
/* Collectives in flight may still be writing to memory that is about to be something else: waits for them. */
void releases_wait_for_collectives(void);

/* ---- bucket_launch.c ---- */
void issue_ready(void);
/* The issuer: sends one bucket. */
void issue_bucket(struct group *group, size_t bucket, bool early);
/* With lock held: whether it is a gradient of which pieces have left, and the boundary has not come. */
bool issue_has_left(const struct tensor *tensor);
/* The issuer: prepares wires and events for the plan in force, releasing those of the last. */
void issue_prepare_plan(struct group *group);
/* The issuer: prepares the shipment of a step in a capture, whose plan is set; `places` are the group's. Enqueues on no
 * captured stream. */
void issue_prepare_captured(struct shipment *shipment, const size_t *places);

/* ---- boundary.c ---- */
void boundary_step(int group, void *stream, const struct ddp_site *site);

/* ---- agree.c ---- */
void agree_on_annotations(const struct ddp_site *site, bool captured);
/* With lock held: a gradient came or went. Until the ranks have agreed again, everything waits for the boundary. */
void agree_annotations_changed(void);
/* What all ranks are about to take from rank 0. */
void agree_on_shared(const struct tensor *tensor, const char *place);
/* With lock held: the group whose boundary comes next, as far as it can be known. */
int agree_expected_group(void);
/* The issuer, at a boundary of `group` before anything of it is sent: do all ranks come to the same one? */
void agree_on_boundary(const struct group *group, const struct ddp_site *site);
/* The issuer: what comes is recording number `number`, or a step outside of graphs (0): do all ranks come to that? */
void launch_agree(uint64_t number, const char *what, const struct ddp_site *site);

/* ---- coverage.c ---- */
/* The ranks have agreed on annotations: counts their elements for reports; rank 0 warns once of what seems forgotten.
 */
void coverage_look(void);

/* ---- planner.c: plans of buckets ---- */
/* The issuer: what ranks have agreed on begins with a plan that sends everything at the boundary. */
void learn_nothing_yet(struct group *group);
/* The issuer, at a boundary, with lock not held: adopts a learned plan when all ranks have one. */
void learn_vote(struct group *group, bool repeats);
/* Collective: the plan of a step in a capture, in which gradients are complete in `order`, the same on all ranks. */
struct plan *learn_plan_for_graph(const struct group *group, const size_t *order);
/* For the report: so many buckets are launched early from here on; 0: none, until the next plan. */
void learn_report_buckets(size_t count);

/* ---- plans.c ---- */
/* The issuer: ends the job, naming the first difference, unless all ranks have come to this plan. */
void plans_compare(const struct group *group, const struct plan *plan);

/* ---- intervals.c: what the program says of an interval ---- */
void interval_no_sync(int begins, const struct ddp_site *site);
void interval_gradient_ready(void *ptr, void *stream, const struct ddp_site *site);
/* Ends the job if DDP_STEP stands where touches do not count. */
void interval_refuse_step(const struct ddp_site *site);

/* ---- weights.c: DDP_WEIGHT ---- */
void weight_add(size_t count, size_t total, const struct ddp_site *site);
/* DDP_SHARD on rank 0 gave ranks shares of unequal size. */
void weight_note_shard(size_t total, const struct ddp_site *site);
/* What this rank's gradients are multiplied with before the mean over ranks: exactly 1 without DDP_WEIGHT, and where
 * this rank's share is the mean share. */
double weight_factor(const struct weight *weight);
/* With lock not held: the group's weight as it is now. */
struct weight weight_of(const struct group *group);
/* The issuer, at a boundary: ranks that use DDP_WEIGHT for the first time compare their weights by a message; always,
 * where all ranks are sure to ask; `captured`: for the message, should they not. Says once, on rank 0, if shares are
 * unequal and not weighted. */
void weight_agree(const struct group *group, bool all_ask, bool captured);
/* The issuer, at a boundary, after the trainer's stream is let go: weights are compared across ranks on their way. */
void weight_compare(const struct weight *weight);
/* In a world of one: all items are this rank's. */
void weight_refuse_share(const struct group *group);
/* A graph whose DDP_STEP was captured with `captured` is about to be launched: ends the job if calls since say
 * otherwise. */
void weight_refuse_launch(const struct group *group, const struct weight *captured, const struct ddp_site *site);

/* ---- buffers.c ---- */
void buffer_annotate(void *ptr, size_t count, int type, const struct ddp_site *site);
/* The issuer, at a boundary: rank 0's bytes are on their way to all. */
void buffers_send(void);
/* The same on a stream of ours that is captured. */
void buffers_send_on(CUstream stream);

/* ---- notice.c: lines to the user from places that must not block ---- */
/* Any thread, host functions too; a few at a time. */
void notice_soon(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Prints what has been said so. May block. */
void notice_print(void);

/* ---- gather.c: words of all ranks, without a wait on the host; zeroed at first, but for `compares` ---- */
struct gathered {
    bool compares;             /* the words are hashes: how they differ is wanted, not the words of all ranks */
    bool on_device;            /* and is found there */
    size_t count;              /* words of each rank */
    CUdeviceptr send, receive; /* device: count, and count for each rank */
    CUdeviceptr found;         /* device: `differs` */
    uint64_t *mine, *all;      /* pinned: the same as `send` and `receive`; on_device: all[count] is rank 0's */
    uint32_t *differs;         /* pinned, if it compares: as of device_hash_compare() */
};
/* Makes room for so many words, the same on all ranks; waits if others are on their way. */
void gather_prepare(struct gathered *gathered, size_t count);
/* The issuer: what host functions on the first communicator's stream have left in mine[] goes to all ranks; then
 * compare(arg), a host function too, finds all[rank * count], or differs[]. `what` is in static storage. */
void gather_send(struct gathered *gathered, const char *what, uint64_t number, CUhostFn compare, void *arg);

/* ---- unaveraged.c: nothing is annotated, or no DDP_STEP comes ---- */
/* At the engine's start, when options, rank and world are known. */
void unaveraged_open(void);
/* DDP_STEP came. */
void unaveraged_step(void);
/* Of any operation: counts those that run kernels. */
void unaveraged_launched(const struct operation *operation);
/* It is enqueued; `touches`: gradients or buffers, on a stream that is not captured. */
void unaveraged_ended(const struct operation *operation, bool touches);
/* The issuer: a parameter was annotated, and holds what all ranks begin with. */
void unaveraged_annotated(const struct tensor *parameter);
/* Parameters in [begin, end) are about to go: waits for the device, if there is reason to look at them. */
void unaveraged_last_look(CUdeviceptr begin, CUdeviceptr end);
/* The program ends well: ends the job if it has trained, and nothing was averaged. */
void unaveraged_refuse_end(void);
/* In the watch thread: warnings. */
void unaveraged_tell(void);

/* ---- checks.c ---- */
void checks_prepare(void);
/* The issuer: gradients of a bucket that has just left early are remembered, if this interval is checked. */
void checks_bucket_sent(const struct group *group, size_t bucket);
/* Whether parameters are to be compared at this boundary of the group. */
bool checks_parameters_due(const struct group *group);
/* The issuer, at the boundary, before the trainer's stream is let go: gradients are compared, parameters hashed. */
void checks_before_release(const struct group *group);
/* The issuer, at the boundary, after that: hashes are collected and travel. */
void checks_after_release(void);
/* The issuer: a new interval of the group begins; is it one to check? */
void checks_next_interval(const struct group *group);
/* Waits for the device: the parameters' last hash, kept for the end. */
void checks_final_hash(void);
/* At the end, collective: compares steps and final hashes. */
void checks_at_end(void);

/* ---- late_write.c: a touch after its bucket has left: was it a write? Around the operation. ---- */
enum { CALL_TEXT_BYTES = 256 };
struct late_touch;
/* `anew`: a step begins with such work, so the DDP_STEP before it was left out. */
struct late_touch *late_begin(const struct operation *operation, const char *call_text, const struct tensor *gradient,
                              size_t bucket, bool anew);
void late_end(struct late_touch *late, CUstream stream);

/* ---- duplicate_batch.c: do ranks train on the same data? ---- */
void batches_copied(const void *host, size_t bytes);
/* The issuer: makes room, once the ranks have agreed on annotations. */
void batches_prepare(void);
/* The issuer, before a bucket is sent: this rank's own gradients in it are hashed, in the first steps. */
void batches_own_gradients(const struct group *group, size_t bucket);
/* The issuer, at a boundary, collective at one of them: reports it once. */
void batches_compare(void);

/* ---- watchdog.c ---- */
/* Calls each_period() in its thread, besides; that must not block. */
void watch_start(void (*each_period)(void));
/* Waits until the watch thread has ended. Once is enough; more do no harm. */
void watch_stop(void);

/* ---- flight.c: what this rank did last, for reports; any thread ---- */
void flight_note(enum flight_kind kind, uint64_t number, uint64_t bytes, const char *text);
void flight_note_site(enum flight_kind kind, uint64_t number, const struct ddp_site *site);

/* ---- trace.c: one line of JSON for each step ---- */
void trace_open(void);
void trace_plan(const struct group *group);
void trace_bucket_begin(const struct group *group, size_t bucket, bool early);
void trace_bucket_end(const struct group *group, size_t bucket);
/* Its backward is done. What the group's plan promises: waiting at the boundary, and its lower bound; negative: not
 * known. */
void trace_boundary(const struct group *group, CUstream stream, int64_t promised_ns, int64_t bound_ns);
void trace_captured_step(int group, const struct shipment *shipment, uint64_t number,
                         bool overlaps);                       /* passed, in a graph */
void trace_sent(const struct group *group);                    /* all buckets are on their way */
void trace_checked(const struct group *group, uint64_t bytes); /* so many bytes came to the host */
void trace_step_end(const struct group *group);
void trace_close(void);

/* ---- stack.c ---- */
/* The trainer's stack in one line, "function+offset < function+offset < ...", into text[bytes]. */
void stack_describe(char *text, size_t bytes);

/* ---- user_metrics.c: what the program says of itself, for the launcher's reports ---- */

/* DDP_MEAN found `value`; `label`: what DDP_MEAN_AS calls it, or NULL. One thread at a time. */
void told_mean(float value, const char *label, const struct ddp_site *site);

/* DDP_SHARD shared out `total` items. */
void told_shard(size_t total);

#endif
