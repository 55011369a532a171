/*
 * auth.h - how the two ends of a TCP connection show each other that they have the same unique id, before either looks
 * at anything else that the other sends.
 *
 * The process that was connected to (the host) sends a greeting. The process that connected (the guest) answers with
 * its rank, what the connection is for and its half of the id's secret; if that is right, the host answers with the
 * other half. The halves are sent as they are, and what follows is neither encrypted nor signed: NCCL, too, compares
 * one random number of its unique id (ncclSocket's magic). The secret keeps other users of a host and stray connections
 * out; a network that others can read must be a trusted one.
 *
 * Called by bootstrap*.c, meeting.c and spread.c.
 */
#ifndef SOFTGPU_NCCL_AUTH_H
#define SOFTGPU_NCCL_AUTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SECRET_BYTES = 32, SECRET_HALF_BYTES = SECRET_BYTES / 2 };

/* A stranger has this long to show the secret. */
#define AUTH_DEADLINE_NS 10000000000LL

/* What a connection is for. */
enum auth_purpose {
    AUTH_ROOT = 1, /* a rank's to the root, which serves the unique id */
    AUTH_PEER,     /* one rank's to another */
};

/* The host's first word. */
struct auth_greeting {
    char magic[8];
};

/* The guest's. */
struct auth_answer {
    char magic[8];
    uint32_t purpose;
    int32_t rank;
    uint32_t byte_order; /* of the guest, which must be the host's */
    unsigned char half[SECRET_HALF_BYTES];
};

/* The host's last. */
struct auth_reply {
    unsigned char half[SECRET_HALF_BYTES];
};

/* The host's end of a connection, while the guest is a stranger. */
struct door {
    int socket; /* non-blocking; -1: none */
    int64_t deadline_ns;
    struct auth_answer answer; /* `got` bytes of it */
    size_t got;
};

enum door_state {
    DOOR_WAITS, /* for more of the answer */
    DOOR_OPEN,  /* the guest knows the secret, and has got the reply */
    DOOR_SHUT,  /* it does not, or is gone: close the connection */
};

/* Fills `bytes` of random numbers; false without. */
bool auth_random(void *to, size_t bytes);

/* Whether two values are equal, in a time that does not tell where they differ. */
bool auth_equal(const void *a, const void *b, size_t bytes);

/* Greets a new connection. DOOR_WAITS or DOOR_SHUT. */
enum door_state door_greet(struct door *door, int socket, int64_t now_ns);

/* Takes what has arrived; `*rank_p` is set when the door opens. Never waits. */
enum door_state door_hear(struct door *door, const unsigned char secret[SECRET_BYTES], enum auth_purpose purpose,
                          int *rank_p);

/* The guest's part, in two steps, between which the caller reads and writes. False: invalid host. */
bool auth_make_answer(const struct auth_greeting *greeting, const unsigned char secret[SECRET_BYTES],
                      enum auth_purpose purpose, int rank, struct auth_answer *answer_p);
bool auth_check_reply(const struct auth_reply *reply, const unsigned char secret[SECRET_BYTES]);

#endif
