/*
 * hits.h - what one operation touches: operand_resolve.c finds out; touches.c and graph_edits.c draw the conclusions.
 */
#ifndef DDPRUN_INTERPOSE_ENGINE_MEMORY_HITS_H
#define DDPRUN_INTERPOSE_ENGINE_MEMORY_HITS_H

#include "interpose/engine/memory/memory.h"

enum { HITS_AT_HAND = 16 };

struct hit {
    struct group *group;
    size_t gradient; /* number in the group */
    size_t place;    /* in tensors[] */
    struct ddp_site site;
    uint32_t argument;
    const char *operand_name; /* as in struct operand */
    bool uncounted;           /* it is between DDP_NO_SYNC_BEGIN and its end */
    bool declared;            /* TOUCH_UNCOUNTED: readiness does not count it */
    bool begun;               /* the group's readiness follows it, in the interval after: */
    uint64_t boundary;
    bool late;
    bool anew;                   /* late, and such touches begin a step */
    struct late_touch *measured; /* of a late touch whose effect is not known yet */
    CUevent ready_event;         /* to record after the touch that makes the gradient ready, where that is measured */
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

    const void **sources; /* [source_count]: memory of the host that its kernels read where it is; malloc'ed */
    size_t source_count, source_capacity; /* while there are captures */
};

void hits_clear(struct hits *hits);

/* With lock held: it touches the tensor, too. */
void hits_add(struct hits *hits, const struct tensor *tensor, const struct operand *operand) WITH_LOCK;

/*
 * Fills `hits` with what the operation names; what a graph does that it launches is not among that. Returns whether
 * it may touch anything. *through_pointers_p: it goes through pointers in memory.
 */
bool hits_look(struct hits *hits, const struct operation *operation, bool *through_pointers_p);

/* A copy is about to bring bytes to the device: are there addresses among them? */
void sight_source(const struct operation *operation);

#endif
