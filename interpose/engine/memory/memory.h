/*
 * memory.h - what is annotated: tensors, their groups, and what kernels and operands say of them. What kernels reach
 * besides is in escapes.h.
 */
#ifndef DDPRUN_INTERPOSE_ENGINE_MEMORY_MEMORY_H
#define DDPRUN_INTERPOSE_ENGINE_MEMORY_MEMORY_H

#include "bucketing/ranges.h"
#include "bucketing/sequence.h"
#include "interpose/engine/core/core.h"
#include "interpose/engine/memory/group.h"

enum tensor_role { TENSOR_PARAMETER, TENSOR_GRADIENT, TENSOR_BUFFER, TENSOR_STATE, TENSOR_ROLES };

/* Why a gradient is averaged at DDP_STEP, and not as soon as it is complete. Of several reasons the last counts. */
enum deferral {
    DEFERRED_NOT,
    DEFERRED_IRREGULAR, /* what touches it differs from step to step */
    DEFERRED_REWRITTEN, /* it was written after its last learned touch, in more than a few steps */
    DEFERRED_UNLIKE,    /* what touches it last differs between ranks: one may have no work on it */
    DEFERRED_ESCAPED,   /* kernels may reach it unseen, and the program does not say when it is complete */
    DEFERRED_SHARED,    /* the host reaches its memory, and may write it until DDP_STEP */
    DEFERRALS
};

/* One annotated range. Its identity is its number, never its address: it may be freed and annotated again elsewhere. */
struct tensor {
    enum tensor_role role;
    size_t index;           /* among those of its role */
    int group;              /* id; of parameters and states it counts where the group's step averages parameters */
    size_t member;          /* what is averaged: number in the group, as of the last agreement on annotations */
    bool averaged;          /* by its group's boundary: a gradient, or of a group `of_parameters` what can be */
    bool placed;            /* its memory exists */
    bool forgotten;         /* parameters and states: it stays for the end, or until the next annotation or step */
    bool escaped;           /* its address was copied to the device: kernels may reach it unseen (escaped_pointers.c) */
    bool declared;          /* gradients: the program itself says when it is complete */
    enum deferral deferral; /* gradients: the same on all ranks, as of the last exchange */
    CUdeviceptr address;
    enum memory_kind kind; /* MEMORY_DEVICE, MEMORY_MANAGED or MEMORY_HOST; that of one identity stays as it is */
    CUdeviceptr copy;      /* of a buffer, or a gradient of the host's: the engine's, on the device; 0: there is none */
    uint64_t noted; /* gradients that the host reaches: what they held after the first DDP_STEP (host_memory.c) */
    size_t count;   /* elements */
    size_t bytes;
    int type; /* enum ddp_type */
    struct ddp_site site;
    char *ahead;         /* of a copy of this struct: what it holds, on the host; NULL: that is not there */
    uint64_t touched_by; /* gradients: mask of streams since their group's last boundary */
    uint64_t
        stale_steps;   /* gradients: a bit for each of the last 64 steps in which it was written after it was packed */
    bool is_rewritten; /* gradients: that was so too often, at some time */

    bool was_zero; /* gradients: all of it, at the first DDP_STEP: running.c */

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

/* Goes through the network at boundaries, so that work on it is followed. */
static inline bool
tensor_is_sent(const struct tensor *tensor)
{
    return tensor->averaged || tensor->role == TENSOR_BUFFER;
}

/* Whether the host reaches its memory: then it is never averaged before DDP_STEP, and NCCL never works in it. */
static inline bool
tensor_is_shared(const struct tensor *tensor)
{
    return tensor->kind != MEMORY_DEVICE;
}

/* Where it is on the device: a gradient of the host's is there from the beginning of its boundary to the end. */
static inline CUdeviceptr
tensor_on_device(const struct tensor *tensor)
{
    return tensor->kind == MEMORY_HOST ? tensor->copy : tensor->address;
}

struct memory_state {
    struct ranges ranges GUARDED_BY(engine_mutex);   /* of placed tensors; id: place in tensors[] */
    struct tensor *tensors GUARDED_BY(engine_mutex); /* [engine_state.tensor_count] */
    size_t tensor_capacity GUARDED_BY(engine_mutex);
    size_t parameter_count GUARDED_BY(engine_mutex);
    size_t gradient_count GUARDED_BY(engine_mutex);
    size_t buffer_count GUARDED_BY(engine_mutex);
    size_t state_count GUARDED_BY(engine_mutex);
    /* Without memory now: tensors, the first of which is not before this one; parameters and states. */
    size_t freed_count GUARDED_BY(engine_mutex), first_freed GUARDED_BY(engine_mutex);
    size_t freed_compared_count GUARDED_BY(engine_mutex);
    size_t forgotten_count GUARDED_BY(engine_mutex);
    size_t compared_index GUARDED_BY(engine_mutex), compared_at GUARDED_BY(engine_mutex); /* of tensor_compared() */
    _Atomic uint64_t lowest, highest; /* bounds of all but parameters: read without lock, for a quick miss */
    bool annotations_changed GUARDED_BY(engine_mutex); /* the ranks must compare again at the next boundary */
    uint64_t annotation_changes GUARDED_BY(engine_mutex);
    /* On annotations, so far: numbers of gradients in groups hold until the next. */
    uint64_t agreements GUARDED_BY(engine_mutex);
    _Atomic bool any_escaped;   /* some tensor's address has escaped: kernels may touch gradients unseen */
    _Atomic bool filter_is_old; /* ranges have changed since launch_filter_refresh() */

    bool no_sync GUARDED_BY(engine_mutex);    /* touches do not count, and nothing leaves early */
    bool turn_holds GUARDED_BY(engine_mutex); /* nothing leaves early: the round's last turn is not this rank's */
    /* Mask: buffers or states were touched on them since the last boundary. */
    uint64_t buffer_streams GUARDED_BY(engine_mutex);

    struct group groups[GROUPS_AT_MOST];                 /* group.h has the rules */
    struct sequence boundaries GUARDED_BY(engine_mutex); /* of all groups */
    /* Whose boundary comes next, or SEQUENCE_NONE: no group launches buckets early. */
    int expected_group GUARDED_BY(engine_mutex);
};

extern struct memory_state memory_state;

/* ---- tensors.c: the table of what is annotated ---- */
/* With lock held: the tensor after this one in the table, the first after NULL; NULL: there are no more. */
static inline struct tensor *
tensor_next(const struct tensor *tensor) WITH_LOCK
{
    size_t at = tensor != NULL ? (size_t)(tensor - memory_state.tensors) + 1 : 0;
    return at < engine_state.tensor_count ? &memory_state.tensors[at] : NULL;
}

/* Names the tensor in a message: "parameter 4 of 6 (`w[l]`, 16 float32, train.cu:169)", for annotations stand in loops.
 * Takes the lock; works in host functions. Returns `text`. */
enum { TENSOR_TEXT_BYTES = 256 };
const char *tensor_describe(const struct tensor *tensor, char text[TENSOR_TEXT_BYTES]);
/* The same; the text stays until the next call in this thread. */
const char *tensor_text(const struct tensor *tensor);

/* For the launcher: how many tensors are averaged, and their bytes; `added`: one more, NULL: all are looked at. With
 * lock held. */
void tensor_report_averaged(const struct tensor *added) WITH_LOCK;

/* Number of tensors that are compared across ranks; takes the lock. With lock held: the index-th of them by annotation,
 * or NULL. */
size_t tensor_compared_count(void);
const struct tensor *tensor_compared(size_t index) WITH_LOCK;
/* A copy of it as it is now; not placed if its memory is freed. Takes the lock. */
struct tensor tensor_copy_compared(size_t index);

/* Whether memory of the host is among them; takes the lock. The same on all ranks. */
bool tensor_compares_host(void);

/* Whether one is in memory of a device, or managed; takes the lock. */
bool tensor_any_on_device(void);

/* "parameter", "gradient", "buffer", "state"; static storage. */
const char *tensor_role_name(enum tensor_role role);

/* With lock held: number `index` of the role; NULL if not found. */
struct tensor *tensor_find(enum tensor_role role, size_t index) WITH_LOCK;

/* Ends the job, naming the annotation, if what is to be sent or to be looked at has no memory any more; at a step. */
void tensor_refuse_freed(const struct tensor *tensor);
void tensor_refuse_freed_parameters(void);
/* Ends the job: memory of the host cannot be read, or written, any more. */
void tensor_refuse_missing(const struct tensor *tensor, const char *what) __attribute__((noreturn));
/* With lock held: whose memory a range of memory_state.ranges is. */
static inline struct tensor *
tensor_of_range(const struct range *range) WITH_LOCK
{
    ASSERT(range->id < engine_state.tensor_count);
    struct tensor *tensor = &memory_state.tensors[range->id];
    ASSERT(tensor->placed && tensor->address == range->begin);
    return tensor;
}
/* With lock held: what is annotated at the address, or NULL. */
struct tensor *tensor_at(CUdeviceptr address) WITH_LOCK;
/* With lock held: how many of the role there are. */
size_t *tensor_count_of(enum tensor_role role) WITH_LOCK;

/* ---- placing.c; all with lock held ---- */
enum tensor_placing {
    PLACED_NEW,
    PLACED_AGAIN,   /* it has its identity back, in other memory */
    PLACED_BEFORE,  /* the very same annotation stands already */
    PLACED_OVERLAP, /* another one is in the way */
    PLACED_NO_MEMORY,
};

/* Whether its group's boundary averages it. */
bool tensor_will_be_averaged(const struct tensor *tensor) WITH_LOCK;

/* DDP_STEP_PARAMETERS is the group's boundary from now on: its parameters, and states of float types, are averaged. */
void tensor_average_parameters(struct group *group) WITH_LOCK;

/* The number among those of its role that the tensor gets when it is entered. */
size_t tensor_index_for(const struct tensor *wanted) WITH_LOCK;

/* Enters the tensor, whose identity is set. *other: what stands there already, where something does. */
enum tensor_placing tensor_place(struct tensor *wanted, struct tensor *other) WITH_LOCK;

/* Takes the tensor's memory away; its identity waits for the next annotation like it. */
void tensor_unplace(struct tensor *tensor) WITH_LOCK;

/* Removes the tensor for good; others move in the table. */
void tensor_drop(struct tensor *tensor) WITH_LOCK;

/* Takes its memory away, as tensor_unplace(), of a tensor that DDP_FORGET names: tensor_drop_forgotten() removes it.
 */
void tensor_set_forgotten(struct tensor *tensor) WITH_LOCK;

/* Removes those for good. Whether there was one. */
bool tensor_drop_forgotten(void) WITH_LOCK;

/* ---- groups.c; all with lock held ---- */
/* The macro that is the group's boundary, for messages; static storage. Reads what its first step has set. */
const char *group_step_name(const struct group *group);
/* Whether a gradient of the group is annotated, or, if `parameters`, a parameter. */
bool group_has(int id, bool parameters) WITH_LOCK;
/* Whether it may be one that DDP_STEP_PARAMETERS will average, and whose group has not come to its first step: the
 * program has named the group, which has no gradients. Not for ever: else it would never be compared. */
bool tensor_waits_for_group(const struct tensor *tensor) WITH_LOCK;
/* What number `member` of the group averages, as of the last tensor_index_gradients(). */
static inline struct tensor *
tensor_gradient(const struct group *group, size_t member) WITH_LOCK
{
    ASSERT(member < group->gradient_count);
    struct tensor *tensor = &memory_state.tensors[group->places[member]];
    ASSERT(memory_state.annotations_changed || (tensor->member == member && tensor->group == group->id));
    return tensor;
}
/* The issuer: a copy of it as it is now. */
static inline struct tensor
tensor_copy_gradient(const struct group *group, size_t member) BY_ISSUER
{
    return ISSUER_LOCKED(*tensor_gradient(group, member));
}
/* The issuer makes groups follow the annotations. False when memory runs out. */
bool tensor_index_gradients(void) ISSUER_WITH_LOCK;
/* Whether it is averaged, pieces of it are launched, and the boundary has not come. */
/* A gradient came or went. Until the ranks have agreed again, everything waits for the boundary. */
void groups_annotations_changed(void) WITH_LOCK;
/* Whether buckets of any group are launched and their boundary has not come. */
bool groups_have_sent(void) WITH_LOCK;
/* The group whose boundary comes next, as far as it can be known. */
int groups_expected(void) WITH_LOCK;

/* ---- weights.c: DDP_WEIGHT ---- */
void weight_add(size_t count, size_t total, const struct ddp_site *site);
/* DDP_SHARD was called; `is_uneven`: this is rank 0, which reports that shares are of unequal size. */
void weight_note_shard(size_t total, bool is_uneven, const struct ddp_site *site);
/* What this rank's gradients are multiplied with before the mean over ranks: exactly 1 without DDP_WEIGHT, and where
 * this rank's share is the mean share. */
double weight_factor(const struct weight *weight);
/* With lock not held: the group's weight as it is now. */
struct weight weight_of(const struct group *group);
/* At a boundary, by the thread that steps: ranks that use DDP_WEIGHT for the first time compare their weights by a
 * message; always, where all ranks are sure to ask; `captured`: for the message, should they not. Says once, on rank 0,
 * if shares are unequal and not weighted. */
void weight_agree(const struct group *group, bool all_ask, bool captured);
/* The issuer, at a boundary, after the trainer's stream is let go: weights are compared across ranks on their way; and,
 * if `shards`, whether DDP_SHARD is given the same on all. */
void weight_compare(const struct weight *weight, bool shards) BY_ISSUER;
/* In a world of one: all items are this rank's. */
void weight_refuse_share(const struct group *group);
/* A graph whose DDP_STEP was captured with `captured` is about to be launched: ends the job if calls since say
 * otherwise. */
void weight_refuse_launch(const struct group *group, const struct weight *captured, const struct ddp_site *site);

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
void functions_kernels_found(const CUkernel *kernels, unsigned room, CUlibrary library, bool done); /* see engine.h */
/* The name of a kernel that was launched, as far as it is known without asking the driver; else NULL. */
const char *function_name(CUfunction function);
/* Around the unloading of a module, which may give its kernels' handles to others. */
void functions_before_unload(void);
void functions_after_unload(void);
/* From now on hooks report every launch: memory_state.any_escaped was set. */
void functions_report_all(void);
/* The same until `each` is false for all who have asked. */
enum report_for { REPORT_FORGOTTEN = 1, REPORT_TURNS = 2, REPORT_TRACE = 4 };
void functions_report_each(enum report_for whom, bool each);
uint64_t call_identity(const char *name);

/* ---- launch_filter.c: what the hooks of launches know ---- */
/* Memory that counts as tensors do. The bounds are looked at without the lock. */
struct bounded_ranges {
    struct ranges ranges;
    _Atomic uint64_t lowest, highest;
};
static inline bool
bounded_may_hold(const struct bounded_ranges *bounded, uint64_t address, size_t bytes)
{
    return address < atomic_load_explicit(&bounded->highest, memory_order_relaxed) &&
           address + bytes > atomic_load_explicit(&bounded->lowest, memory_order_relaxed);
}
/* With lock held: ranges have come, gone or moved: of tensors (NULL), or these, which are kept for ever. */
void launch_filter_ranges_changed(struct bounded_ranges *bounded) WITH_LOCK;
/* At a launch that reached the engine, if memory_state.filter_is_old: does the work that changes have postponed. */
void launch_filter_refresh(void);
/* functions.c, with its lock held: */
void launch_filter_add_kernel(CUfunction function, const struct function_layout *layout);
void launch_filter_forget_kernels(void);
void launch_filter_pause(bool pause);

/* ---- operands.c ---- */
/* Whether the operand, with its holes, shares a byte with [begin, end). */
bool operand_reaches(const struct operand *operand, uint64_t begin, uint64_t end);

/* ---- pointers.c ---- */
/* The pointers that an operation names, and what is annotated where they point: for those who look at what an update
 * writes (tools/check/trainer/written_beside.c, verify/forgotten.c). */

enum { POINTER_WORD_SHIFT = 16 }; /* of a word's place in a struct, beside its argument's */

/* A pointer that an operation was given. */
struct pointed {
    uint32_t argument;
    CUdeviceptr address;
    size_t bytes; /* 0: not known */
    bool is_read; /* by a library that never writes there */
};

typedef void (*pointed_fn)(void *arg, const struct pointed *pointed);

/* Where a launch has the argument of a parameter that `layout` knows, in kernelParams or in `extra`. NULL: nowhere. */
const void *pointers_argument(const struct operation *operation, const struct function_layout *layout, unsigned number);

/* Hands over every pointer that the operation names; operands that it only reads if `reads`. `layout` NULL: a library's
 * call. */
void pointers_visit(const struct operation *operation, const struct function_layout *layout, bool reads,
                    pointed_fn visit, void *arg);

/* Whether it may update parameters: a launch whose arguments are known, with its layout, or a call of a library, not
 * captured. Copies and memsets bring data, they update nothing. */
bool pointers_may_update(const struct operation *operation, const struct function_layout **layout_p);

/* The annotated range that holds the address, or where the next one after it begins in *next_p; takes the lock. */
bool pointers_annotated(CUdeviceptr address, struct tensor *tensor_p, CUdeviceptr *next_p);

/* ---- operand_resolve.c: what one operation touches; touches.c and graph_edits.c draw the conclusions ---- */

enum { HITS_AT_HAND = 16 };

struct hit {
    struct group *group;
    size_t gradient; /* number in the group */
    size_t place;    /* in tensors[] */
    struct ddp_site site;
    uint32_t argument;
    const char *operand_name; /* as in struct operand */
    bool uncounted;           /* it is between DDP_NO_SYNC_BEGIN and its end */
    bool unfollowed;          /* TOUCH_UNCOUNTED: readiness does not count it */
    bool begun; /* the group's readiness follows it, in the interval after this boundary and by this plan: */
    uint64_t boundary;
    const struct plan *plan; /* compared only */
    CUevent ready_event;     /* to record after the touch that makes the gradient ready, where that is measured */
};

/* What one operation touches; one for each thread, because operations do not nest. */
struct hits {
    struct hit *items; /* few[], or malloc'ed while an operation touches more than fit there */
    struct hit few[HITS_AT_HAND];
    size_t count;
    size_t capacity;
    uint64_t call;
    const char *call_name;
    uint64_t agreements; /* when the gradients got their numbers */
    bool is_library;     /* it is a call of a library, not of the driver */
    bool on_buffer;      /* it touches a buffer */
    bool on_state;       /* it touches optimizer state */
    bool on_host;        /* a kernel gets a pointer into memory that the host reaches, or may have one */

    const void **sources; /* [source_count]: memory of the host that its kernels read where it is; malloc'ed */
    size_t source_count, source_capacity; /* while there are captures */
};

void hits_clear(struct hits *hits);

/* With lock held: it touches the tensor, too. */
void hits_add(struct hits *hits, const struct tensor *tensor, const struct operand *operand) WITH_LOCK;

/* Fills `hits` with what the operation names; what a graph does that it launches is not among that. Returns whether
 * it may touch anything. *through_pointers_p: it goes through pointers in memory. */
bool hits_look(struct hits *hits, const struct operation *operation, bool *through_pointers_p);

/* A copy is about to bring bytes to the device, which may be addresses of gradients. hits_look() does that, too. */
void scan_copied_pointers(const struct operation *operation);

#endif
