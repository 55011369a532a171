/*
 * proof.c - see proof.h. The hash is libcrypto's.
 */
#include "launcher/cluster/proof.h"

#include "base/protocol.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <string.h>
#include <sys/random.h>

#define TEXT_OF(number)   #number
#define MAGIC_OF(version) "DDPRUN" TEXT_OF(version)
static const char magic[PROOF_MAGIC_BYTES] = MAGIC_OF(5);
_Static_assert(DDPRUN_PROTOCOL_VERSION == 5, "the magic names the version");

/* What is hashed. */
struct proof_text {
    char label[8];
    uint32_t purpose;
    int32_t rank;
    unsigned char root_nonce[PROOF_BYTES];
    unsigned char leaf_nonce[PROOF_BYTES];
};

bool
proof_random(void *to, size_t bytes)
{
    return getrandom(to, bytes, 0) == (ssize_t)bytes;
}

static bool
hash(const unsigned char secret[PROOF_BYTES], const char *label, const struct proof_challenge *challenge,
     const struct proof_answer *answer, unsigned char mac[PROOF_BYTES])
{
    struct proof_text text = {.purpose = answer->purpose, .rank = answer->rank};
    memcpy(text.label, label, strlen(label));
    memcpy(text.root_nonce, challenge->nonce, PROOF_BYTES);
    memcpy(text.leaf_nonce, answer->nonce, PROOF_BYTES);
    unsigned length = 0;
    return HMAC(EVP_sha256(), secret, PROOF_BYTES, (const unsigned char *)&text, sizeof(text), mac, &length) != NULL &&
           length == PROOF_BYTES;
}

bool
proof_challenge_make(struct proof_challenge *challenge)
{
    memcpy(challenge->magic, magic, sizeof(magic));
    return proof_random(challenge->nonce, sizeof(challenge->nonce));
}

bool
proof_answer_make(const unsigned char secret[PROOF_BYTES], const struct proof_challenge *challenge,
                  enum peer_purpose purpose, int rank, struct proof_answer *answer)
{
    *answer = (struct proof_answer){.purpose = purpose, .rank = rank};
    memcpy(answer->magic, magic, sizeof(magic));
    return memcmp(challenge->magic, magic, sizeof(magic)) == 0 && proof_random(answer->nonce, sizeof(answer->nonce)) &&
           hash(secret, "leaf", challenge, answer, answer->mac);
}

bool
proof_welcome_make(const unsigned char secret[PROOF_BYTES], const struct proof_challenge *challenge,
                   const struct proof_answer *answer, int world_size, struct proof_welcome *welcome)
{
    unsigned char mac[PROOF_BYTES];
    return memcmp(answer->magic, magic, sizeof(magic)) == 0 && hash(secret, "leaf", challenge, answer, mac) &&
           CRYPTO_memcmp(mac, answer->mac, PROOF_BYTES) == 0 && answer->rank >= 1 && answer->rank < world_size &&
           (answer->purpose == PEER_SUPERVISOR || answer->purpose == PEER_ENGINE) &&
           hash(secret, "root", challenge, answer, welcome->mac);
}

bool
proof_welcome_holds(const unsigned char secret[PROOF_BYTES], const struct proof_challenge *challenge,
                    const struct proof_answer *answer, const struct proof_welcome *welcome)
{
    unsigned char mac[PROOF_BYTES];
    return hash(secret, "root", challenge, answer, mac) && CRYPTO_memcmp(mac, welcome->mac, PROOF_BYTES) == 0;
}
