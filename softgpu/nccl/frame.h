/*
 * frame.h - what ranks of different hosts send each other: frames, each of which is one thing that the sender has
 * written into its slot or its end of a channel, and what the receiver does with them: the same to its mirror.
 *
 * A frame that does not fit (its kind, its place, its size) is refused before a byte of what it carries is stored.
 * Called by remote.c, from the thread that receives; pure memory, no socket.
 */
#ifndef SOFTGPU_NCCL_FRAME_H
#define SOFTGPU_NCCL_FRAME_H

#include "nccl/segment.h"

enum frame_kind {
    FRAME_PROGRESS = 1, /* `which`: enum progress; `value` */
    FRAME_SIGNATURE,    /* `value`: number of the operation; carries its signature */
    FRAME_STAGED,       /* `which`: enum staging; `value`: stage; `offset`; carries the bytes; another frame follows */
    FRAME_PIECE,        /* of a message: `which`: its type; `value`: its bytes in all; carries the piece */
    FRAME_TAKEN,        /* `value`: pieces that the receiver of messages has taken */
    FRAME_STATE,        /* `which`: enum rank_state; carries the text */
    FRAME_NOTE,         /* `value`: tag; carries the note */
};

struct frame {
    uint32_t kind;
    uint32_t which;
    uint64_t value;
    uint32_t offset;
    uint32_t bytes; /* carried: they follow */
};

/* What arrives from one rank, as far as it has come. Zero at first. */
struct frame_reader {
    struct frame frame;
    size_t header_got;
    unsigned char *target; /* where what it carries goes */
    size_t carried_got;
};

/* Where the next bytes that arrive go, at most *room_p of them (never 0). */
void *frame_room(struct frame_reader *reader, size_t *room_p);

/* Fewer bytes than these complete nothing: of a header, or of what a frame carries, with the progress after it. */
size_t frame_missing(const struct frame_reader *reader);

/*
 * `got` bytes have arrived there. A frame that is complete is applied to the mirror. `*arrived_p` is set if one was
 * that the rank's bell is to ring for. False: the sender is not a rank of this communicator, and nothing more of it may
 * be read.
 */
bool frame_arrived(struct frame_reader *reader, struct mirror *mirror, size_t got, bool *arrived_p);

#endif
