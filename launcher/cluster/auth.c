/*
 * auth.c - see auth.h. The hash is libcrypto's.
 */
#include "launcher/cluster/auth.h"

#include "base/protocol.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <string.h>
#include <sys/random.h>

#define TEXT_OF(number)   #number
#define MAGIC_OF(version) "DDPRUN" TEXT_OF(version)
static const char magic[AUTH_MAGIC_BYTES] = MAGIC_OF(DDPRUN_PROTOCOL_VERSION);

/* What is hashed. */
struct auth_text {
    char label[8];
    uint32_t purpose;
    int32_t rank;
    unsigned char root_nonce[AUTH_BYTES];
    unsigned char client_nonce[AUTH_BYTES];
};

bool
auth_random(void *to, size_t bytes)
{
    return getrandom(to, bytes, 0) == (ssize_t)bytes;
}

static bool
hash(const unsigned char secret[AUTH_BYTES], const char *label, const struct auth_challenge *challenge,
     const struct auth_answer *answer, unsigned char mac[AUTH_BYTES])
{
    struct auth_text text = {.purpose = answer->purpose, .rank = answer->rank};
    memcpy(text.label, label, strlen(label));
    memcpy(text.root_nonce, challenge->nonce, AUTH_BYTES);
    memcpy(text.client_nonce, answer->nonce, AUTH_BYTES);
    unsigned length = 0;
    return HMAC(EVP_sha256(), secret, AUTH_BYTES, (const unsigned char *)&text, sizeof(text), mac, &length) != NULL &&
           length == AUTH_BYTES;
}

bool
auth_challenge_make(struct auth_challenge *challenge, const unsigned char *mark)
{
    memcpy(challenge->magic, magic, sizeof(magic));
    if (!auth_random(challenge->nonce, sizeof(challenge->nonce)))
        return false;
    if (mark != NULL)
        memcpy(challenge->nonce, mark, AUTH_MARK_BYTES);
    return true;
}

bool
auth_answer_make(const unsigned char secret[AUTH_BYTES], const struct auth_challenge *challenge,
                 enum peer_purpose purpose, int rank, struct auth_answer *answer)
{
    *answer = (struct auth_answer){.purpose = purpose, .rank = rank};
    memcpy(answer->magic, magic, sizeof(magic));
    return memcmp(challenge->magic, magic, sizeof(magic)) == 0 && auth_random(answer->nonce, sizeof(answer->nonce)) &&
           hash(secret, "client", challenge, answer, answer->mac);
}

bool
auth_welcome_make(const unsigned char secret[AUTH_BYTES], const struct auth_challenge *challenge,
                  const struct auth_answer *answer, int world_size, struct auth_welcome *welcome)
{
    unsigned char mac[AUTH_BYTES];
    return memcmp(answer->magic, magic, sizeof(magic)) == 0 && hash(secret, "client", challenge, answer, mac) &&
           CRYPTO_memcmp(mac, answer->mac, AUTH_BYTES) == 0 && answer->rank >= 1 && answer->rank < world_size &&
           (answer->purpose == PEER_SUPERVISOR || answer->purpose == PEER_ENGINE) &&
           hash(secret, "root", challenge, answer, welcome->mac);
}

bool
auth_welcome_holds(const unsigned char secret[AUTH_BYTES], const struct auth_challenge *challenge,
                   const struct auth_answer *answer, const struct auth_welcome *welcome)
{
    unsigned char mac[AUTH_BYTES];
    return hash(secret, "root", challenge, answer, mac) && CRYPTO_memcmp(mac, welcome->mac, AUTH_BYTES) == 0;
}

bool
auth_derive(const void *secret, size_t secret_bytes, const char *label, const void *text, size_t bytes,
            unsigned char derived[AUTH_BYTES])
{
    unsigned char whole[1024] = {0};
    size_t label_bytes = strlen(label) + 1;
    unsigned length = 0;
    if (label_bytes + bytes > sizeof(whole))
        return false;
    memcpy(whole, label, label_bytes);
    memcpy(whole + label_bytes, text, bytes);
    return HMAC(EVP_sha256(), secret, (int)secret_bytes, whole, label_bytes + bytes, derived, &length) != NULL &&
           length == AUTH_BYTES;
}
