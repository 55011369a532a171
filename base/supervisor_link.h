/*
 * supervisor_link.h - what a rank's engine and its supervisor say to each other.
 *
 * A Unix socket of kind SOCK_SEQPACKET in the job folder (DDPRUN_ENV_SUPERVISOR names it), one struct
 * supervisor_message a packet, both ends of the same user and the same version:
 *
 *     engine      JOIN                             I am the rank of record `rank`, in program `generation`
 *     supervisor  PLACE                            rank, world size, local rank
 *     supervisor  LINK ... (one for each)          descriptor of a socket to rank `rank`, proven to be its, and the key
 * of its frames, if it leads to another host (seal.h) or REFUSED                       `text` says why there are none
 *     engine      ABORT                            the whole job is to end; the rank's record says why
 *     engine      BYE                              the rank leaves cleanly
 *
 * A supervisor that is gone closes the socket: the engine then ends its process.
 */
#ifndef DDPRUN_BASE_SUPERVISOR_LINK_H
#define DDPRUN_BASE_SUPERVISOR_LINK_H

#include "base/seal.h"

#include <stdint.h>

#define SUPERVISOR_SOCKET_NAME "supervisor" /* in the job folder */

enum supervisor_message_kind {
    SUPERVISOR_JOIN = 1,
    SUPERVISOR_PLACE,
    SUPERVISOR_LINK,
    SUPERVISOR_REFUSED,
    SUPERVISOR_ABORT,
    SUPERVISOR_BYE,
};

struct supervisor_message {
    uint32_t protocol;   /* DDPRUN_PROTOCOL_VERSION */
    uint32_t kind;       /* enum supervisor_message_kind */
    uint32_t generation; /* JOIN: how many programs were this rank before */
    int32_t rank;        /* JOIN: index of its record among those of its supervisor's ranks */
    int32_t world_size;
    int32_t local_rank;
    uint32_t is_sealed; /* LINK: by `key` */
    unsigned char key[SEAL_HASH_BYTES];
    char text[1024]; /* NUL-terminated */
};

#endif
