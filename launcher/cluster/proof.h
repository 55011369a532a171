/*
 * proof.h - both ends of a connection between supervisors show that they know the job's secret, without saying it.
 *
 *     root  -> leaf   struct proof_challenge: its nonce
 *     leaf  -> root   struct proof_answer:    its nonce, rank, purpose, HMAC-SHA256(secret, "leaf" | all of that)
 *     root  -> leaf   struct proof_welcome:   HMAC-SHA256(secret, "root" | the same)
 *
 * Challenge and response with keyed hashes (RFC 2104 for HMAC, ISO/IEC 9798-4 for the shape). Fresh nonces of both ends
 * make a recorded connection useless, and the labels keep one end's proof from being the other's. What follows on the
 * connection is neither encrypted nor signed: the job's network is trusted as NCCL trusts it.
 *
 * Pure functions over bytes; called by peers.c and peers_dial.c.
 */
#ifndef DDPRUN_LAUNCHER_CLUSTER_PROOF_H
#define DDPRUN_LAUNCHER_CLUSTER_PROOF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PROOF_BYTES = 32, PROOF_MAGIC_BYTES = 8 };

/* What a connection is for. */
enum peer_purpose { PEER_SUPERVISOR = 1, PEER_ENGINE = 2 };

struct proof_challenge {
    char magic[PROOF_MAGIC_BYTES];
    unsigned char nonce[PROOF_BYTES];
};

struct proof_answer {
    char magic[PROOF_MAGIC_BYTES];
    uint32_t purpose; /* enum peer_purpose */
    int32_t rank;
    unsigned char nonce[PROOF_BYTES];
    unsigned char mac[PROOF_BYTES];
};

struct proof_welcome {
    unsigned char mac[PROOF_BYTES];
};

/* Bytes that nobody can guess. False: the system has none. */
bool proof_random(void *to, size_t bytes) __attribute__((warn_unused_result));

bool proof_challenge_make(struct proof_challenge *challenge) __attribute__((warn_unused_result));

/* The leaf's turn. False: these bytes are no challenge of this version of ddprun. */
bool proof_answer_make(const unsigned char secret[PROOF_BYTES], const struct proof_challenge *challenge,
                       enum peer_purpose purpose, int rank, struct proof_answer *answer)
    __attribute__((warn_unused_result));

/* The root's: false if the answer proves nothing, or is of no rank from 1 to world_size - 1. */
bool proof_welcome_make(const unsigned char secret[PROOF_BYTES], const struct proof_challenge *challenge,
                        const struct proof_answer *answer, int world_size, struct proof_welcome *welcome)
    __attribute__((warn_unused_result));

/* The leaf's again. */
bool proof_welcome_holds(const unsigned char secret[PROOF_BYTES], const struct proof_challenge *challenge,
                         const struct proof_answer *answer, const struct proof_welcome *welcome)
    __attribute__((warn_unused_result));

#endif
