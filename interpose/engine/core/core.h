/*
 * core.h - what stands below the whole engine: the end of the job, the role of the issuer, messages between ranks, the
 * device, streams, and what is reported. hashing.h has the hashes of device memory.
 *
 * Any thread, unless a function says otherwise; none with the lock held, unless its comment requires it.
 */
#ifndef DDPRUN_INTERPOSE_ENGINE_CORE_CORE_H
#define DDPRUN_INTERPOSE_ENGINE_CORE_CORE_H

#include "base/assertion.h"
#include "base/flight.h"
#include "base/printable.h"
#include "interpose/engine/core/state.h"

#include <stdlib.h>

/* ---- abort.c ---- */
/* Before anything else of the engine: what names a kernel for reports; and an ASSERT that fails ends the job. */
void stop_open(const char *(*name_of)(CUfunction function));

/* Ends the whole job: tells the launcher why, and does not return. Any thread that may block. The text is one line
 * without the rank, which the launcher adds. A failure of comm/ says its cause: where that is, or may be, what another
 * rank's end did to this one, the launcher prefers the other's words. */
#define stop_job(...) stop_job_by(COMM_OWN, __VA_ARGS__)
void stop_job_by(enum comm_cause cause, const char *format, ...) __attribute__((noreturn, format(printf, 2, 3)));

/* The same from a place that must not block or call CUDA (a host function): a judgement has found a mistake. The
 * launcher can read why at once; DDP_STEP, which waits for judgements, ends the job, or the watch thread does soon.
 * `wrong_step`: the first step, from 1, whose averages may be wrong. `says`: RANK_SAYS_STEP or RANK_SAYS_ALL. */
#define stop_job_soon(wrong_step, ...) stop_job_soon_by(RANK_SAYS_STEP, wrong_step, __VA_ARGS__)
void stop_job_soon_by(enum rank_follows says, uint64_t wrong_step, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Ends this process: there is no launcher any more that could end the job. */
void stop_orphan(void) __attribute__((noreturn));

/* Does not return if stop_job_soon() was called. Any thread that may block. */
void stop_if_asked(void);

/* Checks a result of the driver; ends the job, naming `what`, when it is a failure. */
void stop_by_driver(CUresult result, const char *what) __attribute__((noreturn));
static inline void
require_cuda(CUresult result, const char *what) WITHOUT_LOCK
{
    if (result != CUDA_SUCCESS)
        stop_by_driver(result, what);
}
/* CUDA("waiting for a bucket", cuStreamWaitEvent, stream, event, 0): the driver's function, and its result checked. */
#define CUDA(what, function, ...) require_cuda(engine_state.driver.function##_p(__VA_ARGS__), what)

/* The same of a function of comm/. */
static inline void
require_comm(bool done, const struct comm_error *error) WITHOUT_LOCK
{
    if (!done)
        stop_job_by(error->cause, "%s", error->text);
}

/* The stream of the engine's communicator, on which buckets and all else go. */
static inline CUstream
first_stream(void)
{
    return engine_state.collectives.stream;
}

/* ---- memory of the host: where there is none, the job ends ---- */
static inline void
require_allocated(bool is_there)
{
    if (!is_there)
        stop_job("out of memory");
}

/* As calloc() and realloc(), and the job ends where they return NULL. */
static inline void *
engine_calloc(size_t count, size_t bytes)
{
    void *memory = calloc(count, bytes);
    require_allocated(memory != NULL);
    return memory;
}

static inline void *
engine_realloc(void *old, size_t bytes)
{
    void *memory = realloc(old, bytes);
    require_allocated(memory != NULL);
    return memory;
}

/* The array of `count` elements of `bytes` bytes each, with room for one more: *capacity grows with it. */
static inline void *
engine_grow(void *array, size_t count, size_t *capacity, size_t bytes)
{
    if (count < *capacity)
        return array;
    *capacity = *capacity == 0 ? 16 : 2 * *capacity;
    return engine_realloc(array, *capacity * bytes);
}

/* ---- role.c ---- */
void role_take(void) TAKES_ROLE;
void role_give(void) GIVES_ROLE;
/* Takes the role if it is free; whether it was. role_release() gives it back. clang sees neither. */
bool role_try(void) WITHOUT_LOCK;
void role_release(void) WITHOUT_LOCK;
/* Whether this thread has it by one of these. */
bool role_is_mine(void);

/* ---- status.c ---- */
/* This rank waits on the host for all others to reach `place`, up to status_waits_no_more(). One thread at a time. */
void status_waits_at(const char *place);
void status_waits_no_more(void);
/* The rank has come to this stage; one that has come further stays there: a failure is not forgotten at the end. Any
 * thread. */
void status_reach(enum rank_stage stage);
/* What it did last, for reports; any thread. */
void flight_note(enum flight_kind kind, uint64_t number, uint64_t bytes, const char *text);
void flight_note_site(enum flight_kind kind, uint64_t number, const struct ddp_site *site);

/* ---- user_metrics.c: what the program says ---- */
/* DDP_MEAN found `value`; `label`: what DDP_MEAN_AS calls it, or NULL. One thread at a time. */
void user_metrics_mean(double value, const char *label, const struct ddp_site *site);

/* ---- inflight.c ---- */
/* What first_sum.c sends. */
#define FIRST_SUM "the first all-reduce"
/* The issuer: makes the events, before the first collective. */
void inflight_prepare(void) BY_ISSUER;
/* The issuer: a collective is about to be sent through a communicator, whose stream waits for all that it needs; `what`
 * is in static storage. */
void inflight_sending(const char *what, uint64_t number, unsigned communicator) BY_ISSUER;
/* The issuer: it was sent. */
void inflight_sent(const char *what, uint64_t number, unsigned communicator) BY_ISSUER;
/* The first that is remembered has ended. */
struct awaited;
void inflight_forget_first(struct awaited *awaited) WITH_LOCK;

/* ---- judgement.c ---- */
/* When the host has the result at the latest: before DDP_STEP of the step that is judged returns, or at the next one.
 */
enum judged { JUDGED_IN_STEP, JUDGED_IN_NEXT, JUDGED_TIMES };
/* Any thread, before the device's work for it. */
void judgement_begins(enum judged judged);
/* Its result has come, and stop_job_soon() was called if it is wrong. Any thread, host functions too. */
void judgement_ends(enum judged judged);
/* Waits until those of this rank that have begun are over; does not return if one was wrong. */
void judgement_wait(enum judged judged);
/* The last of a step, after it was counted: returns when its judgements were right. */
void judgement_end_step(void);

/* ---- requests.c: a rank whose device waits for a bucket asks others to launch it ---- */
/* This rank waits for buckets of the step, from 1. Any thread, without a wait. */
void request_ask(uint64_t step);
/* Whether another rank waits for buckets of the step. */
bool request_has_come(uint64_t step);

/* ---- ranges.c ---- */
/* At the start, before any other of these. Where no tool listens, they do nothing. */
void ranges_open(void);
/* From here to range_end() in the same thread; ranges may be inside one another. */
void range_begin(const char *format, ...) __attribute__((format(printf, 1, 2)));
void range_end(void);

/* ---- exchange.c ---- */
/* Gives this rank's bytes to all and gets theirs; ends the job when ranks have reached different places. */
void exchange(const char *about, const void *mine, size_t bytes, struct control_messages *all) WITHOUT_LOCK;
/* The same where ranks may have launched buckets of a step that is not over: while it waits, it launches the rest of
 * them if another rank asks for that. With or without the issuer's role. */
void exchange_in_step(const char *about, const void *mine, size_t bytes, struct control_messages *all) WITHOUT_LOCK;
/* Each of these becomes the least that a rank has; the greatest that a rank has. */
void least_of_ranks(const char *about, uint64_t *words, size_t count) WITHOUT_LOCK;
uint64_t greatest_of_ranks(const char *about, uint64_t word) WITHOUT_LOCK;
/* An exchange of ranks that reach one kind of place in different ways: `place` is where reports say it waits. */
void exchange_at(const char *place, const char *about, const void *mine, size_t bytes,
                 struct control_messages *all) WITHOUT_LOCK;
/* At the end of the program, where ranks still average; see struct engine. */
void exchange_programs_end(void) WITHOUT_LOCK;
/* At the end of the program, with the same result on all ranks that are there: false if one has left before. */
bool exchange_last(const void *mine, size_t bytes, struct control_messages *all) WITHOUT_LOCK;
/* When this rank was in one of them, by its monotonic clock. Ranks number them alike. */
struct exchange_time {
    uint64_t number;
    int64_t begin_ns, end_ns;
    char about[64];
};
/* From now on, times are kept. Any thread. */
void exchange_times_keep(void);
/* Those since the last call: *times_p is malloc'ed, or NULL. Returns how many. Any thread. */
size_t exchange_times_take(struct exchange_time **times_p);

/* ---- same_device.c ---- */
/* Ends the job where two ranks have one GPU that must not be shared. Collective; the context is current. */
void device_refuse_shared(void) WITHOUT_LOCK;

/* ---- device.c ---- */
/* Waits on the host for an event that was created with these flags: it looks for a moment, then sleeps in the driver,
 * which wakes it at once. Sleeping and looking in turn would interrupt the threads that work meanwhile, each time. Ends
 * the job where the device has failed, or a judgement has asked for the end. Captures are relaxed. */
enum { DEVICE_AWAITED_EVENT = CU_EVENT_DISABLE_TIMING | CU_EVENT_BLOCKING_SYNC };
void device_await(CUevent event, const char *what) WITHOUT_LOCK;

void device_ensure_driver(const struct ddp_site *site);

/* Of memory that is not the host's: ends the job if the program has not loaded the driver that this process has. */
void device_refuse_unseen(const struct ddp_site *site);

/* Where memory of the host is all that was named so far: the engine's context becomes that of the calling thread, or
 * the primary one of the first device. */
void device_adopt_any(void);
void device_refuse_after_reset(const char *macro, const struct ddp_site *site);
void device_ensure_events(void); /* of the stream table */
void device_ensure_collectives(void);
/* The issuer: the communicator of DDP_REDUCE, once. Collective. */
void device_open_program_communicator(void) BY_ISSUER;
/* The first memory that ddprun is to work on is of this context and device: they are the engine's from now on. NULL:
 * the calling thread's context. Whether it is the first. */
bool device_adopt_context(CUcontext context, int device);

/* What the driver knows of an address. */
struct memory_facts {
    unsigned type; /* CUmemorytype; 0: no memory of the driver's */
    unsigned is_managed;
    int device;
    CUcontext context;
    CUdeviceptr begin; /* of the allocation */
    size_t bytes;
};

struct memory_facts device_ask_about(CUdeviceptr address);
/* MEMORY_MANAGED, wherever its pages are, MEMORY_DEVICE, or MEMORY_HOST: what the driver does not know as a device's is
 * the host's. */
enum memory_kind device_kind_of(const struct memory_facts *facts);
/* Ends the job, with `what`, if there is no memory; while streams are captured, too. */
CUdeviceptr device_allocate(size_t bytes, const char *what);
void *device_allocate_pinned(size_t bytes); /* memory of the host */

/* ---- types.c ---- */
size_t type_bytes(int type); /* 0: not an enum ddp_type */
const char *type_name(int type);
bool type_is_of_gradients(int type); /* not an integer */
ncclDataType_t type_nccl(int type);  /* of such a type */
uint64_t type_exponent(int type);    /* bits that are all set where an element is infinite or NaN; 0: integers */

/* ---- context.c: the trainer's context, whichever thread calls ---- */
/* Makes it current; returns what was, for context_leave(). */
CUcontext context_enter(void);
void context_leave(CUcontext before);
static inline void
context_leave_at(const CUcontext *before)
{
    context_leave(*before);
}
/* Makes it current until the end of the block. */
#define ENTER_CONTEXT() CUcontext context_was_ __attribute__((unused, cleanup(context_leave_at))) = context_enter()
/* Ends a sentence about memory or a stream in "...": what is wrong with it, and what to do. */
#define CONTEXT_FOREIGN                                                                                      \
    "a context that is not the device's primary one, in which NCCL works: make the primary context current " \
    "(cuDevicePrimaryCtxRetain, cuCtxSetCurrent; the CUDA runtime does so by itself) in place of one of cuCtxCreate"
/* Whether the driver's own exit handler has run, so that each call fails, and nothing is on its way. */
bool context_driver_is_gone(void);
/* Whether the context is the primary one of its device. Changes nothing. */
bool context_is_primary(CUcontext context, int device);
/* Ends the job if the stream is a default stream, which belongs to the current context, and that is not the annotated
 * memory's. `current`: the trainer's, of this thread. `site` may be NULL. */
void context_require(CUstream stream, CUcontext current, const char *what, const struct ddp_site *site);
/* How the trainer's captures restrict this thread: returns what was, to be put back. With
 * CU_STREAM_CAPTURE_MODE_RELAXED allocating, waiting and asking are allowed while a stream is captured, and do not end
 * its capture. */
CUstreamCaptureMode context_exchange_capture_mode(CUstreamCaptureMode mode);
static inline void
context_end_relaxed(const CUstreamCaptureMode *before)
{
    (void)context_exchange_capture_mode(*before);
}
/* Until the end of the block. */
#define RELAX_CAPTURES()                                                                     \
    CUstreamCaptureMode mode_before_ __attribute__((unused, cleanup(context_end_relaxed))) = \
        context_exchange_capture_mode(CU_STREAM_CAPTURE_MODE_RELAXED)

/* Waits for all work of the device; ends the job where a capture forbids that. `when` begins a sentence. */
void context_synchronize(const char *when);

/* ---- streams.c: on which streams gradients are touched ---- */
/* With lock held: the entry of a stream, added if need be; ends the job when there are too many. */
unsigned stream_index(CUstream handle) WITH_LOCK;
/* Whether what is enqueued on it becomes part of a graph; so it is taken where the driver cannot say. */
bool stream_is_captured(CUstream stream);
/* Makes the stream wait for the last reduction, once after each boundary. */
void stream_wait_for_reduction(CUstream handle);
/* With lock held, after a boundary: all streams wait once more, where the event of the last reduction was recorded
 * anew. */
void streams_wait_again(void) WITH_LOCK;
CUevent timing_event(void); /* a new one */
/* Records the event after what the trainer has enqueued there; ends the job, naming `what` or the foreign context, if
 * that fails. */
void stream_record(CUstream handle, CUevent event, const char *what);
/* Ends the job if the stream is of another context. */
void stream_refuse_foreign(CUstream handle);
/* Work is enqueued on the stream: where only this thread could record its event later, the event is recorded now. */
void stream_note_work(CUstream handle);
void streams_before_destroy(CUstream stream);
/* With lock held, after a boundary: entries that are not in the mask `named`, which a later boundary waits for, are
 * free again; `released` has waited. */
void streams_forget(CUstream released, uint64_t named) WITH_LOCK;
/* The issuer: makes a communicator's stream wait for what is enqueued on the streams of `mask`. */
void streams_wait_for_producers(uint64_t mask, CUstream waiter) BY_ISSUER;
/* Whether the mask is of one stream, which an event can be recorded on here. */
bool streams_is_one(uint64_t mask, CUstream *stream_p) BY_ISSUER;
/* The issuer: waits on the host for everything that is on its way. */
void streams_wait_for_buckets(void) BY_ISSUER;

/* ---- ending.c ---- */
/* At the engine's start: the program's end calls `end` if its code is 0, else `failure`, which calls no CUDA. */
void ending_open(void (*end)(void), void (*failure)(void));
/* At the program's end the engine is called before what has registered itself until now: the driver has. */
void ending_before_driver(void);

/* ---- notice.c: lines to the user from places that must not block ---- */
/* Any thread, host functions too; a few at a time. */
void notice_soon(const char *key, const char *format, ...) __attribute__((format(printf, 2, 3)));
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
/* Whether that is of a word that differs between ranks. */
bool gather_differs(uint32_t differs);
/* Makes room for so many words, the same on all ranks; waits if others are on their way. */
void gather_prepare(struct gathered *gathered, size_t count);
/* The issuer: what host functions on the engine's stream have left in mine[] goes to all ranks; then
 * compare(arg), a host function too, finds all[rank * count], or differs[]. `what` is in static storage. */
void gather_send(struct gathered *gathered, const char *what, uint64_t number, CUhostFn compare, void *arg) BY_ISSUER;

/* ---- reduce_calls.c: which calls of DDP_REDUCE were made, as ranks compare them ---- */
/* One combination of place, count, type and operation. Lives as long as the process. */
struct reduce_kind {
    uint64_t key;
    char text[112]; /* "DDP_REDUCE (main.c:50), 160 int64, sum" */
};

/* Words in which a rank says which calls it has made: their number, a hash of their sequence, and the last keys. */
enum { REDUCE_CALLS_KEPT = 64, REDUCE_WORDS = 2 + REDUCE_CALLS_KEPT };

/* A call as the program made it. */
struct reduce_call {
    size_t count;
    int type, op;
    bool on_host; /* the memory is the host's, or managed */
    const struct ddp_site *site;
};

/* "sum"; NULL: not an enum ddp_operation. */
const char *reduce_operation_name(int op);

/* Takes down a call: its number, from 1, and its kind. Whether it is the first of its kind. The issuer. */
bool reduce_calls_add(const struct reduce_call *call, uint64_t *number_p, const struct reduce_kind **kind_p) BY_ISSUER;

/* What this rank says of its calls so far. Any thread. */
void reduce_calls_say(uint64_t words[REDUCE_WORDS]);

/* Of what all ranks said at the same place, `offset` bytes into their messages: if two have made different calls, ends
 * the job with a message that names both. */
void reduce_calls_compare(const struct control_messages *all, size_t offset);

/* ---- peek.c ---- */
/* Copies up to `bytes` bytes of the process's memory to `to`; returns how many could be read, from `address` on. */
size_t peek(uint64_t address, void *to, size_t bytes);
/* The other way; returns how many could be written. */
size_t poke(uint64_t address, const void *from, size_t bytes);
/* Whether the first and the last of the bytes can be read, and `written`, if they are to be. */
bool memory_is_usable(const void *from, size_t bytes, bool written);

/* ---- mappings.c ---- */
/* Whether a part of the process's memory [begin, end) is a file's, which other processes may map; its name. Each rank
 * would write its averages into the others'. */
bool mapping_of_file(uint64_t begin, uint64_t end, char *file, size_t file_bytes);

/* ---- inflight.c ---- */
/* Which collectives are on their way: between inflight.c, which notes them, and watchdog.c, which looks at them. */

/* Something that is being sent, as text: "bucket 3 of step 8". */
struct collective_in_flight {
    const char *what;
    uint64_t number, step;
};

enum { AWAITED_AT_MOST = 128 }; /* more than short steps send between two looks of the watch thread */

/* Collectives on their way through one communicator, as the watch thread sees them: a ring of those that were sent
 * last, between two events each. When it is full, what follows is only known to have been sent, until all of it is
 * done. */
struct awaited {
    struct {
        CUevent begin, end; /* recorded before they are counted, and not again before they have come */
        struct collective_in_flight of;
    } sent[AWAITED_AT_MOST];
    unsigned first GUARDED_BY(engine_mutex), count GUARDED_BY(engine_mutex);
    bool more GUARDED_BY(engine_mutex);                        /* others were sent since, without events */
    bool tail_pending GUARDED_BY(engine_mutex);                /* `tail` was recorded after all of those */
    CUevent tail;                                              /* the watch thread's */
    struct collective_in_flight last GUARDED_BY(engine_mutex); /* of them */
    /* What the issuer sends now, around NCCL's call; what == NULL: nothing. */
    struct collective_in_flight calling GUARDED_BY(engine_mutex);
    bool recording GUARDED_BY(issuer_role); /* that has events */

    /* The watch thread's own: what it saw last. */
    enum rank_collective state;
    struct collective_in_flight of;
    uint64_t since_ns;
};

/* Of each communicator. */
extern struct awaited in_flight[COMMUNICATORS];

#endif
