/*
 * frame.c - see frame.h.
 */
#include "nccl/frame.h"

#include <string.h>

void *
frame_room(struct frame_reader *reader, size_t *room_p)
{
    if (reader->header_got < sizeof(reader->frame)) {
        *room_p = sizeof(reader->frame) - reader->header_got;
        return (unsigned char *)&reader->frame + reader->header_got;
    }
    *room_p = reader->frame.bytes - reader->carried_got;
    return reader->target + reader->carried_got;
}

size_t
frame_missing(const struct frame_reader *reader)
{
    if (reader->header_got < sizeof(reader->frame))
        return sizeof(reader->frame) - reader->header_got;
    return reader->frame.bytes - reader->carried_got + (reader->frame.kind == FRAME_STAGED ? sizeof(reader->frame) : 0);
}

/* ---- where what a frame carries goes; NULL: it cannot be ---- */

static unsigned char *
target_of_signature(const struct frame *frame, struct mirror *mirror)
{
    struct operation_signature *signature = &mirror->slot.signatures[frame->value % 2];
    return frame->bytes == sizeof(*signature) && frame->value <= UINT32_MAX ? (unsigned char *)signature : NULL;
}

static unsigned char *
target_of_staged(const struct frame *frame, struct mirror *mirror)
{
    if (frame->which >= STAGING_COUNT || frame->value >= SEGMENT_STAGES || frame->bytes == 0 ||
        frame->offset > SEGMENT_CHUNK_BYTES || frame->bytes > SEGMENT_CHUNK_BYTES - frame->offset)
        return NULL;
    return mirror->slot.staging[frame->which][frame->value] + frame->offset;
}

/* The sender has counted what was taken, and so never has more under way than there are buffers. */
static unsigned char *
target_of_piece(const struct frame *frame, struct mirror *mirror)
{
    struct channel *channel = &mirror->from;
    uint32_t written = atomic_load_explicit(&channel->written, memory_order_relaxed);
    uint32_t taken = atomic_load_explicit(&channel->taken, memory_order_acquire);
    if (frame->bytes > SEGMENT_CHANNEL_BYTES || frame->bytes > frame->value || written - taken >= SEGMENT_STAGES)
        return NULL;
    return channel->data[written % SEGMENT_STAGES];
}

/* A text is read once the state says that it is there; one that comes after another could be read while it changes. */
static unsigned char *
target_of_state(const struct frame *frame, struct mirror *mirror)
{
    bool is_end = frame->which == RANK_LEFT || frame->which == RANK_FAILED || frame->which == RANK_ABORTED;
    if (!is_end || frame->bytes != SEGMENT_TEXT_BYTES || atomic_load(&mirror->slot.state) != RANK_JOINED)
        return NULL;
    return (unsigned char *)mirror->slot.text;
}

static unsigned char *
target_of(const struct frame *frame, struct mirror *mirror)
{
    static unsigned char nothing[1];
    switch ((enum frame_kind)frame->kind) {
    case FRAME_SIGNATURE:
        return target_of_signature(frame, mirror);
    case FRAME_STAGED:
        return target_of_staged(frame, mirror);
    case FRAME_PIECE:
        return target_of_piece(frame, mirror);
    case FRAME_STATE:
        return target_of_state(frame, mirror);
    case FRAME_NOTE:
        return frame->bytes > 0 && frame->bytes <= SEGMENT_NOTE_BYTES ? mirror->slot.note : NULL;
    case FRAME_PROGRESS:
        return frame->which < PROGRESS_BELL && frame->bytes == 0 && frame->value <= UINT32_MAX ? nothing : NULL;
    case FRAME_TAKEN:
        return frame->bytes == 0 && frame->value <= UINT32_MAX ? nothing : NULL;
    }
    return NULL;
}

/* ---- a frame is complete ---- */

static void
apply_piece(const struct frame *frame, struct channel *channel)
{
    uint32_t written = atomic_load_explicit(&channel->written, memory_order_relaxed);
    channel->header[written % SEGMENT_STAGES].message_bytes = frame->value;
    channel->header[written % SEGMENT_STAGES].type = frame->which;
    channel->header[written % SEGMENT_STAGES].bytes = frame->bytes;
    atomic_store_explicit(&channel->written, written + 1, memory_order_release);
}

/* Returns whether the bell is to ring. */
static bool
apply(const struct frame *frame, struct mirror *mirror)
{
    struct rank_slot *slot = &mirror->slot;
    switch ((enum frame_kind)frame->kind) {
    case FRAME_PROGRESS:
        segment_counter_set(&slot->progress[frame->which], (uint32_t)frame->value);
        return false;
    case FRAME_SIGNATURE:
        segment_counter_set(&slot->progress[PROGRESS_OPERATION], (uint32_t)frame->value + 1);
        return false;
    case FRAME_PIECE:
        apply_piece(frame, &mirror->from);
        return true;
    case FRAME_TAKEN:
        atomic_store_explicit(&mirror->to.taken, (uint32_t)frame->value, memory_order_release);
        return true;
    case FRAME_STATE:
        slot->text[SEGMENT_TEXT_BYTES - 1] = '\0';
        atomic_store(&slot->state, frame->which);
        return true;
    case FRAME_NOTE:
        atomic_store_explicit(&slot->note_tag, frame->value, memory_order_release);
        return false;
    case FRAME_STAGED:
        return false;
    }
    return false;
}

bool
frame_arrived(struct frame_reader *reader, struct mirror *mirror, size_t got, bool *arrived_p)
{
    struct frame *frame = &reader->frame;
    if (reader->header_got < sizeof(*frame)) {
        reader->header_got += got;
        if (reader->header_got < sizeof(*frame))
            return true;
        reader->target = target_of(frame, mirror);
        reader->carried_got = 0;
        if (!reader->target)
            return false;
    } else {
        reader->carried_got += got;
    }
    if (reader->carried_got < frame->bytes)
        return true;
    if (apply(frame, mirror))
        *arrived_p = true;
    reader->header_got = 0;
    return true;
}
