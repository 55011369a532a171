/*
 * seal.c - see seal.h.
 */
#include "base/seal.h"

/* Only these functions come without the rest of libcrypto. */
#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/sha.h>
#include <string.h>

void
seal_hash(const void *bytes, size_t count, unsigned char hash[SEAL_HASH_BYTES])
{
    SHA256_CTX state;
    SHA256_Init(&state);
    SHA256_Update(&state, bytes, count);
    SHA256_Final(hash, &state);
}

/* The inner or the outer hash, begun: of the key, filled up to a block, with each byte changed by `mask`. */
static void
begin(SHA256_CTX *state, const unsigned char key[SHA256_CBLOCK], unsigned char mask)
{
    unsigned char block[SHA256_CBLOCK];
    for (size_t i = 0; i < sizeof(block); ++i)
        block[i] = key[i] ^ mask;
    SHA256_Init(state);
    SHA256_Update(state, block, sizeof(block));
}

void
seal_hmac(const void *key, size_t key_bytes, const struct seal_part *parts, int count,
          unsigned char code[SEAL_HASH_BYTES])
{
    unsigned char filled[SHA256_CBLOCK] = {0}, inner[SEAL_HASH_BYTES];
    SHA256_CTX state;
    if (key_bytes > sizeof(filled))
        seal_hash(key, key_bytes, filled);
    else if (key_bytes > 0)
        memcpy(filled, key, key_bytes);
    begin(&state, filled, 0x36);
    for (int i = 0; i < count; ++i)
        SHA256_Update(&state, parts[i].bytes, parts[i].count);
    SHA256_Final(inner, &state);
    begin(&state, filled, 0x5c);
    SHA256_Update(&state, inner, sizeof(inner));
    SHA256_Final(code, &state);
}

bool
seal_is_equal(const unsigned char *a, const unsigned char *b, size_t count)
{
    unsigned char differ = 0;
    for (size_t i = 0; i < count; ++i)
        differ |= a[i] ^ b[i];
    return differ == 0;
}

/* ---- a connection ---- */

void
seal_open(struct seal *seal, const unsigned char key[SEAL_HASH_BYTES], bool is_root)
{
    const struct seal_part from_root = {"frames of the root", 18}, from_client = {"frames of a client", 18};
    *seal = (struct seal){.is_on = true};
    seal_hmac(key, SEAL_HASH_BYTES, is_root ? &from_root : &from_client, 1, seal->out_key);
    seal_hmac(key, SEAL_HASH_BYTES, is_root ? &from_client : &from_root, 1, seal->in_key);
}

static void
code_of(const unsigned char key[SEAL_HASH_BYTES], uint64_t number, const struct seal_part parts[2],
        unsigned char code[SEAL_HASH_BYTES])
{
    const struct seal_part all[] = {{&number, sizeof(number)}, parts[0], parts[1]};
    seal_hmac(key, SEAL_HASH_BYTES, all, 3, code);
}

void
seal_make(struct seal *seal, const struct seal_part parts[2], unsigned char code[SEAL_CODE_BYTES])
{
    unsigned char whole[SEAL_HASH_BYTES] = {0};
    if (seal->is_on)
        code_of(seal->out_key, seal->sent++, parts, whole);
    memcpy(code, whole, SEAL_CODE_BYTES);
}

bool
seal_holds(struct seal *seal, const struct seal_part parts[2], const unsigned char code[SEAL_CODE_BYTES])
{
    unsigned char whole[SEAL_HASH_BYTES];
    if (!seal->is_on)
        return true;
    code_of(seal->in_key, seal->received++, parts, whole);
    return seal_is_equal(whole, code, SEAL_CODE_BYTES);
}
