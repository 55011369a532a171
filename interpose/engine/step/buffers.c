/*
 * buffers.c - DDP_BUFFER: memory that all ranks take from rank 0 at each boundary, such as running statistics.
 *
 * Sent by the issuer after the buckets, in the order of annotation; the boundary's event releases the trainer's stream
 * after them. A buffer belongs to no group: every boundary sends all.
 */
#include "interpose/engine/step/step.h"

void
buffer_annotate(void *ptr, size_t count, int type, const struct ddp_site *site)
{
    tensor_annotate(TENSOR_BUFFER, ptr, count, type, site);
}

static void
send(size_t index, CUstream stream) BY_ISSUER
{
    struct comm_error error;
    issuer_lock();
    const struct tensor *found = tensor_find(TENSOR_BUFFER, index);
    struct tensor buffer =
        found != NULL ? *found : (struct tensor){.role = TENSOR_BUFFER, .index = index, .site = {"?", "?", 0}};
    issuer_unlock();
    tensor_refuse_freed(&buffer);
    CUdeviceptr lent = host_memory_lend(&buffer, stream);
    if (!collectives_send_from_zero(&engine_state.collectives, lent, lent, buffer.bytes, stream, &error))
        stop_job_by(error.cause, "%s: %s", tensor_text(&buffer), error.text);
    host_memory_take_back(&buffer, lent, stream);
}

size_t
buffers_count(void)
{
    return LOCKED(memory_state.buffer_count);
}

void
buffers_send_on(CUstream stream)
{
    for (size_t i = 0; i < buffers_count(); ++i)
        send(i, stream);
}

void
buffers_send(void)
{
    for (size_t i = 0; i < buffers_count(); ++i) {
        inflight_sending("buffer", i, 0);
        send(i, first_stream());
        inflight_sent("buffer", i, 0);
    }
}
