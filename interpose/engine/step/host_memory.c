/*
 * host_memory.c - annotated memory that the host reaches as well: managed memory, and the host's own, pinned or not.
 *
 * The host writes such memory without a call, after whatever the device did to it: no touch shows when a gradient is
 * complete. So it is never averaged early (escape_deferral()); DDP_STEP first waits for the context, and so
 * comes after the work of all streams and after what the host wrote before the call; and it returns when the averages
 * are there, for the host may read them at once. NCCL works in memory of the device only: gradients in managed memory
 * are packed (comm/wire.h), those of the host have a copy on the device, which is all that buckets know of them.
 * Managed buffers have a copy, too; parameters and states pass through one piece of memory when they are annotated.
 *
 * That the host's own memory was freed is not seen, so it is read and written through the kernel (core/peek.c): where
 * it is missing, the job ends with the tensor's name. Where a device reaches all memory of the host, the driver does
 * not know it any better, and it is treated alike.
 *
 * Called by annotate.c, agree.c, buffers.c and boundary.c.
 */
#include "interpose/engine/send/send.h"
#include "interpose/engine/step/step.h"

#include "base/message.h"
#include "comm/hash.h"

enum { PIECE_BYTES = 4 << 20 };

/* Memory that a piece of a tensor passes through; the issuer's, but for host_memory_readable(). */
static struct {
    void *pinned;
    CUdeviceptr device;
} piece GUARDED_BY(issuer_role);

static size_t
piece_bytes(const struct tensor *tensor, size_t at)
{
    return tensor->bytes - at < PIECE_BYTES ? tensor->bytes - at : PIECE_BYTES;
}

/* ---- which tensors ---- */

/* Whether DDP_STEP of the group averages it or sends it. */
static bool
is_sent(const struct tensor *tensor, int group)
{
    return tensor->placed && tensor_is_shared(tensor) &&
           (tensor->role == TENSOR_BUFFER || (tensor->averaged && tensor->group == group));
}

/* The next tensor from number *at_p on that a boundary of the group sends; false if there are no more. */
static bool
next_sent(int group, size_t *at_p, struct tensor *tensor_p)
{
    bool found = false;
    engine_lock();
    for (; *at_p < engine_state.tensor_count && !found; ++*at_p) {
        found = is_sent(&memory_state.tensors[*at_p], group);
        if (found)
            *tensor_p = memory_state.tensors[*at_p];
    }
    engine_unlock();
    return found;
}

static bool
sends_any(const struct group *group)
{
    struct tensor tensor;
    size_t at = 0;
    return next_sent(group->id, &at, &tensor);
}

void
host_memory_say(void)
{
    static bool said;
    size_t count = 0, all = 0;
    bool parameters = false;
    struct tensor first = {.placed = false};
    engine_lock();
    for (const struct tensor *tensor = tensor_next(NULL); tensor != NULL; tensor = tensor_next(tensor)) {
        if (!tensor_is_sent(tensor))
            continue;
        ++all;
        parameters = parameters || tensor_is_compared(tensor);
        if (tensor_is_shared(tensor) && count++ == 0)
            first = *tensor;
    }
    engine_unlock();
    if (count == 0 || said || engine_state.rendezvous.rank != 0)
        return;
    said = true;
    message_warning("host_memory",
                    "%zu of %zu %s and buffers are in memory that the host may write: the step waits for the device, "
                    "averages them without overlap, and returns when the averages are there; the first is %s",
                    count, all, parameters ? "averaged tensors" : "gradients", tensor_text(&first));
}

void
host_memory_refuse_capture(int group, const struct ddp_site *site)
{
    struct tensor tensor;
    for (size_t at = 0; next_sent(group, &at, &tensor);) {
        if (tensor.kind == MEMORY_HOST)
            stop_job(
                "DDP_STEP (%s:%d) stands in a capture, and %s is in memory of the host, which a graph cannot wait for: "
                "call DDP_STEP outside of the graph, or allocate it by cudaMallocManaged",
                site->file, site->line, tensor_text(&tensor));
    }
}

/* ---- memory of the engine's in its place ---- */

static const char allocated_for[] = "cuMemAlloc for a copy of annotated memory";

static void
ensure_piece(void) BY_ISSUER
{
    if (piece.device != 0)
        return;
    piece.device = device_allocate(PIECE_BYTES, allocated_for);
    piece.pinned = device_allocate_pinned(PIECE_BYTES);
}

/* The copy of a tensor that is sent in each step; made when it is first needed. */
static CUdeviceptr
copy_of(const struct tensor *tensor) BY_ISSUER
{
    if (tensor->copy != 0)
        return tensor->copy;
    CUdeviceptr made = device_allocate(tensor->bytes, allocated_for);
    issuer_lock();
    struct tensor *of = tensor_find(tensor->role, tensor->index);
    if (of != NULL)
        of->copy = made;
    issuer_unlock();
    return made;
}

void
host_memory_forget(const struct tensor *tensor)
{
    if (tensor->copy != 0)
        CUDA("cuMemFree of a copy of annotated memory", cuMemFree, tensor->copy);
}

/* ---- between a tensor and memory of the device ---- */

static void
wait_for_copy(void)
{
    CUDA("copying annotated memory", cuStreamSynchronize, first_stream());
}

static void
copy_on_device(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    CUDA("copying managed memory", cuMemcpyDtoDAsync, to, from, bytes, stream);
}

/* Bytes [at, at + bytes) of the tensor go to `to`; it waits for those of the host. */
static void
copy_in(const struct tensor *tensor, size_t at, size_t bytes, CUdeviceptr to) BY_ISSUER
{
    if (tensor->kind != MEMORY_HOST) {
        copy_on_device(to, tensor->address + at, bytes, first_stream());
        return;
    }
    if (peek(tensor->address + at, piece.pinned, bytes) < bytes)
        tensor_refuse_missing(tensor, "read");
    CUDA("copying memory of the host", cuMemcpyHtoDAsync, to, piece.pinned, bytes, first_stream());
    wait_for_copy();
}

static void
copy_out(const struct tensor *tensor, size_t at, size_t bytes, CUdeviceptr from) BY_ISSUER
{
    if (tensor->kind != MEMORY_HOST) {
        copy_on_device(tensor->address + at, from, bytes, first_stream());
        return;
    }
    CUDA("copying to memory of the host", cuMemcpyDtoHAsync, piece.pinned, from, bytes, first_stream());
    wait_for_copy();
    if (poke(tensor->address + at, piece.pinned, bytes) < bytes)
        tensor_refuse_missing(tensor, "written");
}

CUdeviceptr
host_memory_lend(const struct tensor *tensor, CUstream stream)
{
    if (!tensor_is_shared(tensor))
        return tensor->address;
    CUdeviceptr lent = copy_of(tensor);
    if (tensor->kind == MEMORY_MANAGED)
        copy_on_device(lent, tensor->address, tensor->bytes, stream);
    return lent;
}

void
host_memory_take_back(const struct tensor *tensor, CUdeviceptr lent, CUstream stream)
{
    if (tensor->kind == MEMORY_MANAGED)
        copy_on_device(tensor->address, lent, tensor->bytes, stream);
}

/* ---- annotations ---- */

size_t
host_memory_readable(const struct tensor *tensor)
{
    static char page[1 << 16];
    static pthread_mutex_t page_lock = PTHREAD_MUTEX_INITIALIZER; /* guards it: nothing reads what is there */
    size_t at = 0, got = 1;
    pthread_mutex_lock(&page_lock);
    while (at < tensor->bytes && got > 0) {
        size_t here = tensor->bytes - at < sizeof(page) ? tensor->bytes - at : sizeof(page);
        got = peek(tensor->address + at, page, here);
        at += got;
    }
    pthread_mutex_unlock(&page_lock);
    return at;
}

bool
host_memory_broadcast(const struct tensor *tensor, struct comm_error *error)
{
    if (!tensor_is_shared(tensor))
        return collectives_broadcast(&engine_state.collectives, tensor->address, tensor->bytes, error);
    ensure_piece();
    for (size_t at = 0; at < tensor->bytes; at += PIECE_BYTES) {
        size_t here = piece_bytes(tensor, at);
        copy_in(tensor, at, here, piece.device);
        if (!collectives_broadcast(&engine_state.collectives, piece.device, here, error))
            return false;
        copy_out(tensor, at, here, piece.device);
    }
    wait_for_copy();
    return true;
}

/* ---- DDP_STEP ---- */

void
host_memory_begin(const struct group *group)
{
    if (sends_any(group) || tensor_compares_host())
        context_synchronize("at a DDP_STEP with memory that the host may write");
}

static void
send_tensor(const struct tensor *tensor) BY_ISSUER
{
    if (tensor->kind != MEMORY_HOST)
        return;
    ensure_piece();
    CUdeviceptr copy = copy_of(tensor);
    for (size_t at = 0; at < tensor->bytes; at += PIECE_BYTES)
        copy_in(tensor, at, piece_bytes(tensor, at), copy + at);
}

void
host_memory_send(const struct group *group)
{
    struct tensor tensor;
    for (size_t i = 0; next_sent(group->id, &i, &tensor);)
        send_tensor(&tensor);
}

/* Of a gradient: a hash of what it holds; 0: zeros alone, or it cannot be read. */
static uint64_t
content_of(const struct tensor *tensor) BY_ISSUER
{
    static const char zeros[1024];
    uint64_t hash = 0;
    bool any = false;
    ensure_piece();
    for (size_t at = 0; at < tensor->bytes; at += PIECE_BYTES) {
        size_t here = piece_bytes(tensor, at);
        if (peek(tensor->address + at, piece.pinned, here) < here)
            return 0;
        for (size_t i = 0; i < here && !any; i += sizeof(zeros))
            any = memcmp((char *)piece.pinned + i, zeros, here - i < sizeof(zeros) ? here - i : sizeof(zeros)) != 0;
        hash = hash_chain(hash, hash_bytes(piece.pinned, here));
    }
    return any ? hash | 1 : 0;
}

bool
host_memory_may_change(const struct group *group, const struct ddp_site *site)
{
    struct tensor tensor;
    bool any = false, changed = false;
    role_take();
    for (size_t i = 0; next_sent(group->id, &i, &tensor) && !changed;) {
        any = any || tensor.averaged;
        changed = tensor.averaged && (tensor.noted == 0 || content_of(&tensor) != tensor.noted);
    }
    role_give();
    if (any && !changed) /* nothing ends: a gradient may be the same in two steps */
        message_warning("same_gradients",
                        "rank %d: at DDP_STEP (%s:%d) all gradients that the host may write are unchanged since the "
                        "previous step; do the annotations name the memory that backward writes?",
                        engine_state.rendezvous.rank, site->file, site->line);
    return any;
}

/* After the first averages: what the gradients hold now, before the program goes on. */
static void
note_content(const struct group *group) BY_ISSUER
{
    struct tensor tensor;
    for (size_t i = 0; next_sent(group->id, &i, &tensor);) {
        uint64_t content = tensor.averaged ? content_of(&tensor) : 0;
        issuer_lock();
        memory_state.tensors[i - 1].noted = content;
        issuer_unlock();
    }
}

void
host_memory_end(const struct group *group)
{
    struct tensor tensor;
    if (!sends_any(group))
        return;
    streams_wait_for_buckets();
    speculation_await_verdict(); /* the host reads them now */
    for (size_t i = 0; next_sent(group->id, &i, &tensor);) {
        for (size_t at = 0; at < tensor.bytes && tensor.kind == MEMORY_HOST; at += PIECE_BYTES)
            copy_out(&tensor, at, piece_bytes(&tensor, at), tensor.copy + at);
    }
    if (group->boundary_count == 0)
        note_content(group);
}
