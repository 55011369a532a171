/*
 * turn_keep.c - gradients of a batch wait for the end of its round in memory of the engine.
 *
 * Until then the program may use their memory otherwise: it clears them before the next batch, another optimizer's
 * backward pass adds to them, or they are allocated in each step. Called by turns.c at DDP_STEP.
 */
#include "interpose/engine/core/core.h"
#include "interpose/engine/step/step.h"
#include "interpose/engine/step/turns.h"

/* One gradient, and where its copy is. */
struct kept {
    size_t index; /* among all gradients */
    size_t bytes;
    bool is_shared; /* its memory is the host's, too: so is that of its copy, from `at` on */
    size_t at;
};

/* The copies of a group. Those in device memory are one packed bucket, which no rank sends: one kernel copies them, and
 * another writes them back. */
static struct copies {
    struct kept *items; /* [count] */
    size_t count, capacity;
    struct bucket_wire wire;
    CUdeviceptr memory; /* memory_bytes of the device, lent to `wire` */
    size_t memory_bytes;
    char *host; /* host_bytes */
    size_t host_bytes;
    bool are_there;
} all_copies[GROUPS_AT_MOST];

/* With lock held: enters the gradients of the group. */
static void
list_gradients(int group, struct copies *copies) WITH_LOCK
{
    size_t at = 0;
    copies->count = 0;
    for (const struct tensor *tensor = tensor_next(NULL); tensor != NULL; tensor = tensor_next(tensor)) {
        if (tensor->role != TENSOR_GRADIENT || tensor->group != group)
            continue;
        const bool is_shared = tensor_is_shared(tensor);
        copies->items = engine_grow(copies->items, copies->count, &copies->capacity, sizeof(*copies->items));
        copies->items[copies->count++] = (struct kept){tensor->index, tensor->bytes, is_shared, at};
        at += is_shared ? tensor->bytes : 0;
    }
    if (at <= copies->host_bytes)
        return;
    free(copies->host);
    copies->host = engine_calloc(1, at);
    copies->host_bytes = at;
}

/* The gradient as it is now; ends the job if it has no memory. */
static struct tensor
gradient_of(const struct kept *kept)
{
    engine_lock();
    const struct tensor *found = tensor_find(TENSOR_GRADIENT, kept->index);
    struct tensor tensor = found != NULL ? *found : (struct tensor){0};
    engine_unlock();
    if (found == NULL || tensor.bytes != kept->bytes || tensor_is_shared(&tensor) != kept->is_shared)
        stop_job(
            "a gradient was forgotten, or annotated with another size or kind of memory, after a turn of its round "
            "(DDP_TURN_BEGIN) has computed it: do that after the round's last DDP_STEP");
    tensor_refuse_freed(&tensor);
    return tensor;
}

/* ---- in memory of the host, which may write it at any time: it is copied here and now ---- */

static bool
any_shared(const struct copies *copies)
{
    for (size_t i = 0; i < copies->count; ++i) {
        if (copies->items[i].is_shared)
            return true;
    }
    return false;
}

static void
copy_shared(struct copies *copies, bool keeps)
{
    if (!any_shared(copies))
        return;
    context_synchronize("at a turn's DDP_STEP");
    for (size_t i = 0; i < copies->count; ++i) {
        const struct kept *kept = &copies->items[i];
        if (!kept->is_shared)
            continue;
        const struct tensor tensor = gradient_of(kept);
        char *of_program = (char *)(uintptr_t)tensor.address, *copy = copies->host + kept->at;
        if (keeps)
            memcpy(copy, of_program, kept->bytes);
        else
            memcpy(of_program, copy, kept->bytes);
    }
}

/* ---- in device memory ---- */

static void
require_wire(bool done, const struct comm_error *error)
{
    if (!done)
        stop_job("%s", error->text);
}

/* Bits are moved, and nothing is computed: not what the job's buckets are sent with. */
static const struct wire_setting *
plain_setting(void)
{
    static struct wire_setting setting;
    setting = engine_state.collectives.setting;
    setting.compression = DDPRUN_COMPRESS_NONE;
    setting.reduction = DDPRUN_REDUCE_SUM;
    return &setting;
}

static void
make_room(struct copies *copies, size_t bytes)
{
    if (bytes <= copies->memory_bytes)
        return;
    if (copies->memory != 0) {
        CUDA("waiting for kept gradients", cuStreamSynchronize, first_stream());
        wire_free(&copies->wire, &engine_state.driver);
        CUDA("giving memory of kept gradients back", cuMemFree, copies->memory);
    }
    copies->memory = device_allocate(bytes, "memory for the gradients of a turn");
    copies->memory_bytes = bytes;
    copies->wire = (struct bucket_wire){0};
    wire_lend(&copies->wire, copies->memory, bytes, true);
}

/* The wire has the gradients where they are now. Returns whether there are any. */
static bool
follow_gradients(struct copies *copies) BY_ISSUER
{
    struct bucket_member *members = engine_calloc(copies->count + 1, sizeof(*members));
    size_t count = 0, bytes = 0;
    for (size_t i = 0; i < copies->count; ++i) {
        if (copies->items[i].is_shared)
            continue;
        const struct tensor tensor = gradient_of(&copies->items[i]);
        members[count++] = (struct bucket_member){tensor.address, tensor.bytes, true};
        bytes += tensor.bytes;
    }
    if (count > 0)
        make_room(copies, bytes);
    if (count > 0 && !wire_has(&copies->wire, members, count)) {
        struct comm_error error;
        require_wire(wire_place(&copies->wire, plain_setting(), members, count, ncclFloat16, first_stream(), &error),
                     &error);
    }
    free(members);
    return count > 0;
}

/* All of them, to the copies or back. */
static void
copy_gradients(struct copies *copies, bool keeps) BY_ISSUER
{
    struct comm_error error;
    copy_shared(copies, keeps);
    copies->are_there = keeps;
    if (!follow_gradients(copies))
        return;
    if (keeps)
        require_wire(wire_pack(&copies->wire, plain_setting(), 1, first_stream(), &error), &error);
    else
        require_wire(wire_unpack(&copies->wire, plain_setting(), first_stream(), &error), &error);
}

void
turn_keep(int group, CUstream stream)
{
    struct copies *copies = &all_copies[group];
    ENTER_CONTEXT();
    RELAX_CAPTURES();
    role_take();
    (void)step_wait_for_producers(&memory_state.groups[group], stream);
    issuer_lock();
    list_gradients(group, copies);
    issuer_unlock();
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
