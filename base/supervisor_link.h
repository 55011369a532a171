/*
 * supervisor_link.h - what a rank's engine and its supervisor say to each other in a job under a cluster's launcher.
 *
 * A Unix socket of kind SOCK_SEQPACKET in the job folder (DDPRUN_ENV_SUPERVISOR names it), one struct
 * supervisor_message a packet, both ends of the same user and the same version:
 *
 *     engine      JOIN                             I am the rank
 *     supervisor  PLACE                            rank, world size, local rank
 *     supervisor  LINKS ... (several)              descriptors of sockets to other ranks, proven to be theirs
 *                 or REFUSED                       `text` says why there are none
 *     engine      ABORT                            the whole job is to end; `text` says why
 *     engine      BYE                              the rank leaves cleanly
 *
 * A supervisor that is gone closes the socket: the engine then ends its process.
 */
#ifndef DDPRUN_BASE_SUPERVISOR_LINK_H
#define DDPRUN_BASE_SUPERVISOR_LINK_H

#include <stdint.h>

#define SUPERVISOR_SOCKET_NAME "supervisor" /* in the job folder */

enum supervisor_message_kind {
    SUPERVISOR_JOIN = 1,
    SUPERVISOR_PLACE,
    SUPERVISOR_LINKS,
    SUPERVISOR_REFUSED,
    SUPERVISOR_ABORT,
    SUPERVISOR_BYE,
};

/* Descriptors in one packet; the system takes up to 253 (SCM_MAX_FD, unix(7)). */
#define SUPERVISOR_LINKS_AT_MOST 128

struct supervisor_message {
    uint32_t protocol; /* DDPRUN_PROTOCOL_VERSION */
    uint32_t kind;     /* enum supervisor_message_kind */
    int32_t rank;      /* PLACE; LINKS: of the first descriptor, the others follow in order */
    int32_t world_size;
    int32_t local_rank;
    int32_t count;   /* LINKS: descriptors in this packet */
    int32_t status;  /* ABORT: exit code */
    char text[1024]; /* NUL-terminated */
};

#endif
