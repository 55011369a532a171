/*
 * turn_keep.c - gradients of a batch wait for the end of its round in memory of the engine.
 *
 * Until then the program may use their memory otherwise: it clears them before the next batch, another optimizer's
 * backward pass adds to them, or they are allocated in each step. Called by turns.c at DDP_STEP.
 */
#include "interpose/engine/core/core.h"
#include "interpose/engine/step/step.h"
#include "interpose/engine/step/turns.h"

enum { ALIGNMENT = 256 };

/* One gradient, and where its copy is. */
struct kept {
    size_t index; /* among all gradients */
    size_t bytes, at;
};

/* The copies of a group. */
static struct copies {
    struct kept *items; /* [count] */
    size_t count, capacity;
    CUdeviceptr memory; /* bytes; the copies of gradients in memory of the host are in `host`, at the same places */
    char *host;
    size_t bytes;
    bool are_there;
} all_copies[GROUPS_AT_MOST];

/* With lock held: enters the gradients of the group. Returns the bytes of their copies. */
static size_t
list_gradients(int group, struct copies *copies) WITH_LOCK
{
    size_t at = 0;
    copies->count = 0;
    for (const struct tensor *tensor = tensor_next(NULL); tensor != NULL; tensor = tensor_next(tensor)) {
        if (tensor->role != TENSOR_GRADIENT || tensor->group != group)
            continue;
        copies->items = engine_grow(copies->items, copies->count, &copies->capacity, sizeof(*copies->items));
        copies->items[copies->count++] = (struct kept){.index = tensor->index, .bytes = tensor->bytes, .at = at};
        at += (tensor->bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    }
    return at;
}

/* The gradient as it is now; ends the job if it has no memory. */
static struct tensor
gradient_of(const struct kept *kept)
{
    engine_lock();
    const struct tensor *found = tensor_find(TENSOR_GRADIENT, kept->index);
    struct tensor tensor = found != NULL ? *found : (struct tensor){0};
    engine_unlock();
    if (found == NULL || tensor.bytes != kept->bytes)
        stop_job("a gradient was forgotten, or annotated with another size, after a turn of its round (DDP_TURN_BEGIN) "
                 "has computed it: do that after the round's last DDP_STEP");
    tensor_refuse_freed(&tensor);
    return tensor;
}

static void
make_room(struct copies *copies, size_t bytes)
{
    if (bytes <= copies->bytes)
        return;
    if (copies->memory != 0) {
        CUDA("waiting for kept gradients", cuStreamSynchronize, first_stream());
        CUDA("giving memory of kept gradients back", cuMemFree, copies->memory);
    }
    copies->memory = device_allocate(bytes, "memory for the gradients of a turn");
    free(copies->host);
    copies->host = NULL;
    copies->bytes = bytes;
}

/* The host may write it at any time: it is copied here and now. */
static void
copy_on_host(struct copies *copies, const struct kept *kept, const struct tensor *tensor, bool keeps)
{
    char *of_program = (char *)(uintptr_t)tensor->address;
    if (copies->host == NULL)
        copies->host = engine_calloc(1, copies->bytes);
    char *copy = copies->host + kept->at;
    memcpy(keeps ? copy : of_program, keeps ? of_program : copy, kept->bytes);
}

static bool
any_on_host(const struct copies *copies)
{
    for (size_t i = 0; i < copies->count; ++i) {
        const struct tensor tensor = gradient_of(&copies->items[i]);
        if (tensor_is_shared(&tensor))
            return true;
    }
    return false;
}

/* All of them, to the copies or back. */
static void
copy_gradients(struct copies *copies, bool keeps) BY_ISSUER
{
    if (any_on_host(copies))
        context_synchronize("at a turn's DDP_STEP");
    for (size_t i = 0; i < copies->count; ++i) {
        const struct kept *kept = &copies->items[i];
        const struct tensor tensor = gradient_of(kept);
        CUdeviceptr copy = copies->memory + kept->at;
        if (tensor_is_shared(&tensor))
            copy_on_host(copies, kept, &tensor, keeps);
        else
            CUDA("copying a gradient of a turn", cuMemcpyDtoDAsync, keeps ? copy : tensor.address,
                 keeps ? tensor.address : copy, kept->bytes, first_stream());
    }
    copies->are_there = keeps;
}

void
turn_keep(int group, CUstream stream)
{
    struct copies *copies = &all_copies[group];
    ENTER_CONTEXT();
    RELAX_CAPTURES();
    role_take();
    (void)step_wait_for_producers(&memory_state.groups[group], stream);
    size_t bytes = ISSUER_LOCKED(list_gradients(group, copies));
    make_room(copies, bytes);
    copy_gradients(copies, true);
    CUDA("cuEventRecord", cuEventRecord, engine_state.reduced, first_stream());
    CUDA("waiting for the copies of gradients", cuStreamWaitEvent, stream, engine_state.reduced, 0);
    issuer_lock();
    streams_wait_again();
    issuer_unlock();
    role_give();
}

void
turn_put_back(int group, CUstream stream)
{
    struct copies *copies = &all_copies[group];
    if (!copies->are_there)
        return;
    ENTER_CONTEXT();
    RELAX_CAPTURES();
    role_take();
    (void)step_wait_for_producers(&memory_state.groups[group], stream);
    copy_gradients(copies, false);
    role_give();
}
