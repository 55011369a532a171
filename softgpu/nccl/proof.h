/*
 * proof.h - how the two ends of a TCP connection prove to each other that they know the secret of a unique id, before
 * either looks at anything else that the other says.
 *
 * Whoever was connected to (the host) sends a challenge, a nonce. The guest answers with its own nonce, its rank and
 *     HMAC-SHA256(secret, "guest" | what for | the host's nonce | the guest's nonce | rank)
 * and the host, if that is right, with the same of "host". The labels keep an answer from being sent back as a
 * question, "what for" from being carried from one kind of connection to another, the nonces from being used again
 * (challenge and response with keyed hashes: RFC 2104 for HMAC, ISO/IEC 9798-4 for the shape). The secret never
 * travels. What follows on the connection is neither encrypted nor signed: NCCL's own sockets are not either.
 *
 * Called by bootstrap*.c and spread.c.
 */
#ifndef SOFTGPU_NCCL_PROOF_H
#define SOFTGPU_NCCL_PROOF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PROOF_BYTES = 32 };

/* A stranger has this long to prove itself. */
#define PROOF_DEADLINE_NS 10000000000LL

/* What a connection is for. */
enum proof_purpose {
    PROOF_ROOT = 1, /* a rank's to whoever serves the unique id */
    PROOF_PEER,     /* one rank's to another */
};

/* The host's first word. */
struct proof_challenge {
    char magic[8];
    unsigned char nonce[PROOF_BYTES];
};

/* The guest's. */
struct proof_answer {
    char magic[8];
    unsigned char nonce[PROOF_BYTES];
    int32_t rank;
    uint32_t byte_order; /* of the guest, which must be the host's */
    unsigned char mac[PROOF_BYTES];
};

/* The host's last. */
struct proof_reply {
    unsigned char mac[PROOF_BYTES];
};

/* The host's end of a connection, while the guest is a stranger. */
struct door {
    int socket; /* non-blocking; -1: none */
    int64_t deadline_ns;
    unsigned char nonce[PROOF_BYTES];
    struct proof_answer answer; /* `got` bytes of it */
    size_t got;
};

enum door_state {
    DOOR_WAITS, /* for more of the answer */
    DOOR_OPEN,  /* the guest knows the secret, and has been told that we do */
    DOOR_SHUT,  /* it does not, or is gone: close the connection */
};

/* Fills `bytes` of random numbers; false without. */
bool proof_random(void *to, size_t bytes);

/* HMAC-SHA256 of `bytes` under `key`. */
void proof_hash(const unsigned char key[PROOF_BYTES], const void *data, size_t bytes, unsigned char mac[PROOF_BYTES]);

/* Whether two values are equal, in a time that does not tell where they differ. */
bool proof_equal(const void *a, const void *b, size_t bytes);

/* Greets a new connection with a challenge. DOOR_WAITS or DOOR_SHUT. */
enum door_state door_greet(struct door *door, int socket, int64_t now_ns);

/* Takes what has arrived; `*rank_p` is set when the door opens. Never waits. */
enum door_state door_hear(struct door *door, const unsigned char secret[PROOF_BYTES], enum proof_purpose purpose,
                          int *rank_p);

/* The guest's part, in two steps, between which the caller reads and writes. False: the host is not one of ours. */
bool proof_make_answer(const struct proof_challenge *challenge, const unsigned char secret[PROOF_BYTES],
                       enum proof_purpose purpose, int rank, struct proof_answer *answer_p);
bool proof_check_reply(const struct proof_challenge *challenge, const struct proof_answer *answer,
                       const unsigned char secret[PROOF_BYTES], enum proof_purpose purpose,
                       const struct proof_reply *reply);

#endif
