/*
 * seal.h - keyed hashes, and frames that a process without the connection's key can neither change, repeat, leave out
 * nor add.
 *
 * Both ends of a connection between hosts have made a key from their secret when it was opened
 * (launcher/cluster/auth.h). Each frame carries a code over its direction, its number, its header and its bytes, and
 * the other end takes the next number only. Where the transport is trusted (a pair of sockets inside a host) the code
 * is left zero. Used by base/peer_link.c.
 *
 * HMAC-SHA256 (RFC 2104, FIPS 198-1), cut to 128 bits (RFC 2104, section 5). The hash is libcrypto's, of which five
 * object files are linked in and none of their names is shown: the trainer may have a libcrypto of its own. No lock: a
 * seal is its connection's.
 */
#ifndef DDPRUN_BASE_SEAL_H
#define DDPRUN_BASE_SEAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SEAL_HASH_BYTES = 32, SEAL_CODE_BYTES = 16 };

struct seal_part {
    const void *bytes;
    size_t count;
};

/* HMAC-SHA256 of the parts, one after the other. */
void seal_hmac(const void *key, size_t key_bytes, const struct seal_part *parts, int count,
               unsigned char code[SEAL_HASH_BYTES]);
/* SHA-256. */
void seal_hash(const void *bytes, size_t count, unsigned char hash[SEAL_HASH_BYTES]);
/* In a time that does not depend on where they differ. */
bool seal_is_equal(const unsigned char *a, const unsigned char *b, size_t count);

/* One connection. All zero: its transport is trusted. */
struct seal {
    bool is_on;
    unsigned char out_key[SEAL_HASH_BYTES], in_key[SEAL_HASH_BYTES];
    uint64_t sent, received; /* frames */
};

/* `is_root`: this end is the one that listened. */
void seal_open(struct seal *seal, const unsigned char key[SEAL_HASH_BYTES], bool is_root);

/* The code of the next frame that is sent: of two parts, such as its header and its bytes. */
void seal_make(struct seal *seal, const struct seal_part parts[2], unsigned char code[SEAL_CODE_BYTES]);
/* Whether it is the code of the next frame of the other end. False: nothing on this connection can be believed any
 * more. */
bool seal_holds(struct seal *seal, const struct seal_part parts[2], const unsigned char code[SEAL_CODE_BYTES])
    __attribute__((warn_unused_result));

#endif
