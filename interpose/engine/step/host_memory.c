/*
 * host_memory.c - annotated memory that the host reaches as well: managed memory.
 *
 * The host writes such memory without a call, after whatever the device did to it: no touch shows when a gradient is
 * complete. So it is never averaged early (escape_deferral_of_kind()); DDP_STEP first waits for the context, and so
 * comes after the work of all streams and after what the host wrote before the call; and it returns when the averages
 * are there, for the host may read them at once. NCCL works in memory of the device only: gradients are packed
 * (comm/wire.h), parameters, states and buffers pass through memory of the engine's.
 *
 * Called by annotate.c, agree.c, buffers.c and boundary.c.
 */
#include "interpose/engine/step/step.h"

#include "base/message.h"
#include "base/mutant.h"

enum { PIECE_BYTES = 4 << 20 };

/* ---- which tensors ---- */

/* With lock held: whether DDP_STEP of the group averages it or sends it. */
static bool
is_concerned(const struct tensor *tensor, const struct group *group) WITH_LOCK
{
    return tensor_is_shared(tensor) && tensor->placed &&
           (tensor->role == TENSOR_BUFFER || (tensor->role == TENSOR_GRADIENT && tensor->group == group->id));
}

static bool
concerns(const struct group *group)
{
    bool found = false;
    engine_lock();
    for (size_t i = 0; i < engine_state.tensor_count && !found; ++i)
        found = is_concerned(&memory_state.tensors[i], group);
    engine_unlock();
    return found;
}

void
host_memory_say(void)
{
    static bool said;
    size_t count = 0, all = 0;
    struct tensor first = {.placed = false};
    engine_lock();
    for (size_t i = 0; i < engine_state.tensor_count; ++i) {
        const struct tensor *tensor = &memory_state.tensors[i];
        if (tensor_is_compared(tensor))
            continue;
        ++all;
        if (tensor_is_shared(tensor) && count++ == 0)
            first = *tensor;
    }
    engine_unlock();
    if (count == 0 || said || engine_state.rendezvous.rank != 0)
        return;
    said = true;
    char text[TENSOR_TEXT_BYTES];
    message_line("%zu of %zu gradients and buffers are in memory that the host may write: DDP_STEP waits for the "
                 "device, averages them without overlap, and returns when the averages are there; the first is %s",
                 count, all, tensor_describe(&first, text));
}

/* ---- DDP_STEP ---- */

void
host_memory_begin(const struct group *group)
{
    if (concerns(group) && !MUTANT(CONTEXT_NOT_WAITED))
        context_synchronize("at a DDP_STEP with memory that the host may write");
}

void
host_memory_end(const struct group *group)
{
    if (concerns(group) && !MUTANT(AVERAGES_NOT_WAITED))
        streams_wait_for_buckets();
}

/* ---- memory of the engine's in its place ---- */

static CUdeviceptr
allocate(size_t bytes)
{
    CUdeviceptr memory;
    CUstreamCaptureMode mode = context_exchange_capture_mode(CU_STREAM_CAPTURE_MODE_RELAXED);
    require_cuda(engine_state.driver.cuMemAlloc_p(&memory, bytes), "cuMemAlloc for a copy of annotated memory");
    (void)context_exchange_capture_mode(mode);
    return memory;
}

static void
copy(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    require_cuda(engine_state.driver.cuMemcpyDtoDAsync_p(to, from, bytes, stream), "copying managed memory");
}

/* The copy of a tensor that is sent in each step; made when it is first needed. */
static CUdeviceptr
copy_of(const struct tensor *tensor) BY_ISSUER
{
    if (tensor->copy != 0)
        return tensor->copy;
    CUdeviceptr made = allocate(tensor->bytes);
    engine_lock();
    for (size_t i = 0; i < engine_state.tensor_count; ++i) {
        struct tensor *of = &memory_state.tensors[i];
        if (of->role == tensor->role && of->index == tensor->index)
            of->copy = made;
    }
    engine_unlock();
    return made;
}

CUdeviceptr
host_memory_lend(const struct tensor *tensor, CUstream stream)
{
    if (!tensor_is_shared(tensor))
        return tensor->address;
    CUdeviceptr lent = copy_of(tensor);
    copy(lent, tensor->address, tensor->bytes, stream);
    return lent;
}

void
host_memory_take_back(const struct tensor *tensor, CUdeviceptr lent, CUstream stream)
{
    if (lent != tensor->address)
        copy(tensor->address, lent, tensor->bytes, stream);
}

void
host_memory_forget(CUdeviceptr copy)
{
    if (copy != 0)
        require_cuda(engine_state.driver.cuMemFree_p(copy), "cuMemFree of a copy of annotated memory");
}

bool
host_memory_broadcast(const struct tensor *tensor, struct comm_error *error)
{
    static CUdeviceptr piece GUARDED_BY(issuer_role);
    CUstream stream = engine_state.collectives.stream;
    if (!tensor_is_shared(tensor))
        return collectives_broadcast(&engine_state.collectives, tensor->address, tensor->bytes, error);
    if (piece == 0)
        piece = allocate(PIECE_BYTES);
    for (size_t at = 0; at < tensor->bytes; at += PIECE_BYTES) {
        size_t here = tensor->bytes - at < PIECE_BYTES ? tensor->bytes - at : PIECE_BYTES;
        copy(piece, tensor->address + at, here, stream);
        if (!collectives_broadcast(&engine_state.collectives, piece, here, error))
            return false;
        copy(tensor->address + at, piece, here, stream);
    }
    require_cuda(engine_state.driver.cuStreamSynchronize_p(stream), "waiting for rank 0's values");
    return true;
}
