/*
 * tensors.h - annotations, from annotate.c, which takes them, over tensors.c, the table of what is annotated, to
 * unmap.c, where its memory goes. What the whole engine asks of the table is in state.h.
 */
#ifndef DDPRUN_INTERPOSE_ENGINE_MEMORY_TENSORS_H
#define DDPRUN_INTERPOSE_ENGINE_MEMORY_TENSORS_H

#include "interpose/engine/core/state.h"

/* ---- annotate.c: may end the job; without lock ---- */
void tensor_annotate_parameter(void *ptr, size_t count, int type, const struct ddp_site *site);
void tensor_annotate_gradient(void *ptr, size_t count, int type, const struct ddp_site *site);
void tensor_annotate_state(void *ptr, size_t count, int type, const struct ddp_site *site);
/* Anything that needs no more than to be known: gradients and buffers. */
void tensor_annotate(enum tensor_role role, void *ptr, size_t count, int type, const struct ddp_site *site);
void tensor_forget(void *ptr, const struct ddp_site *site);
/* Gradients annotated from here on belong to group `id`. */
void tensor_choose_group(int id, const struct ddp_site *site);

/* ---- tensors.c and placing.c; all with lock held ---- */
/* How many of the role there are. */
size_t *tensor_count_of(enum tensor_role role);

enum tensor_placing {
    PLACED_NEW,
    PLACED_AGAIN,    /* it has its identity back, in other memory */
    PLACED_BEFORE,   /* the very same annotation stands already */
    PLACED_OVERLAP,  /* another one is in the way */
    PLACED_TOO_LATE, /* the gradient was averaged in this step, where its memory was before */
    PLACED_NO_MEMORY,
};

/* The number among those of its role that the tensor gets when it is entered. */
size_t tensor_index_for(const struct tensor *wanted);

/* Enters the tensor, whose identity is set. *other: what stands there already, where something does. */
enum tensor_placing tensor_place(struct tensor *wanted, struct tensor *other);

/* Takes the tensor's memory away; its identity waits for the next annotation like it. */
void tensor_unplace(struct tensor *tensor);

/* Removes the tensor for good; others move in the table. */
void tensor_drop(struct tensor *tensor);

/* ---- unmap.c: what holds gradients goes; without lock ---- */
/* Memory is about to be freed; `bytes` 0: all of the allocation. */
void releases_before_free(CUdeviceptr address, size_t bytes);
void releases_before_unload(void);
void releases_after_unload(void);
void releases_before_primary_release(CUdevice device);

#endif
