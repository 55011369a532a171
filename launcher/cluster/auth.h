/*
 * auth.h - both ends of a connection between supervisors show that they know the job's secret, without saying it.
 *
 *     root   -> client  struct auth_challenge: its nonce
 *     client -> root    struct auth_answer:    its nonce, rank, purpose, HMAC-SHA256(secret, "client" | all of that)
 *     root   -> client  struct auth_welcome:   HMAC-SHA256(secret, "root" | the same)
 *
 * Challenge and response with keyed hashes (RFC 2104 for HMAC, ISO/IEC 9798-4 for the shape). Fresh nonces of both ends
 * make a recorded connection useless, and the labels keep one end's code from being the other's. Of the same bytes both
 * make a key that is never sent, by which each frame that follows is sealed (base/seal.h): who only stands between them
 * can pass frames on, or cut the connection. Nothing is encrypted.
 *
 * Pure functions over bytes; called by supervisor_server.c and supervisor_connect.c.
 */
#ifndef DDPRUN_LAUNCHER_CLUSTER_AUTH_H
#define DDPRUN_LAUNCHER_CLUSTER_AUTH_H

#include "base/must_use.h"

#include "base/seal.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { AUTH_BYTES = SEAL_HASH_BYTES, AUTH_MAGIC_BYTES = 8 };

/* What a connection is for. */
enum peer_purpose { PEER_SUPERVISOR = 1, PEER_ENGINE = 2 };

/* With these many bytes a listener's nonce begins by which others know whose it is: of a meeting, half of them those of
 * its run, half its own (address/search.h). */
enum { AUTH_MARK_BYTES = 16 };

struct auth_challenge {
    char magic[AUTH_MAGIC_BYTES];
    unsigned char nonce[AUTH_BYTES];
};

struct auth_answer {
    char magic[AUTH_MAGIC_BYTES];
    uint32_t purpose; /* enum peer_purpose */
    int32_t rank;
    unsigned char nonce[AUTH_BYTES];
    unsigned char mac[AUTH_BYTES];
};

struct auth_welcome {
    unsigned char mac[AUTH_BYTES];
};

/* Random bytes that cannot be predicted. False: the system has none. */
bool auth_random(void *to, size_t bytes) MUST_USE;

/* `mark`: AUTH_MARK_BYTES for the nonce to begin with, which then are no secret; NULL: all of it is random. */
bool auth_challenge_make(struct auth_challenge *challenge, const unsigned char *mark) MUST_USE;

/* The client's turn. False: these bytes are no challenge of this version of ddprun. */
bool auth_answer_make(const unsigned char secret[AUTH_BYTES], const struct auth_challenge *challenge,
                      enum peer_purpose purpose, int rank, struct auth_answer *answer) MUST_USE;

/* The root's: false if the answer proves nothing, or is of no rank from 1 to world_size - 1. */
bool auth_welcome_make(const unsigned char secret[AUTH_BYTES], const struct auth_challenge *challenge,
                       const struct auth_answer *answer, int world_size, struct auth_welcome *welcome) MUST_USE;

/* The client's again. */
bool auth_welcome_holds(const unsigned char secret[AUTH_BYTES], const struct auth_challenge *challenge,
                        const struct auth_answer *answer, const struct auth_welcome *welcome) MUST_USE;

/* Both, once the other end is proven: HMAC-SHA256(secret, "session" | the same). */
void auth_session_key(const unsigned char secret[AUTH_BYTES], const struct auth_challenge *challenge,
                      const struct auth_answer *answer, unsigned char key[AUTH_BYTES]);

/* The protocol of the ddprun whose challenge this is, if it is not ours; else 0. */
int auth_other_version(const struct auth_challenge *challenge);

/* Another secret, made of one: HMAC-SHA256(secret, "label" | text). */
void auth_derive(const void *secret, size_t secret_bytes, const char *label, const void *text, size_t bytes,
                 unsigned char derived[AUTH_BYTES]);

#endif
