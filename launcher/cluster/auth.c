/* auth.c - see auth.h. */
#include "launcher/cluster/auth.h"

#include "base/protocol.h"

#include <stdio.h>
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

static void
hash(const unsigned char secret[AUTH_BYTES], const char *label, const struct auth_challenge *challenge,
     const struct auth_answer *answer, unsigned char mac[AUTH_BYTES])
{
    struct auth_text text = {.purpose = answer->purpose, .rank = answer->rank};
    memcpy(text.label, label, strlen(label));
    memcpy(text.root_nonce, challenge->nonce, AUTH_BYTES);
    memcpy(text.client_nonce, answer->nonce, AUTH_BYTES);
    seal_hmac(secret, AUTH_BYTES, &(struct seal_part){&text, sizeof(text)}, 1, mac);
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

int
auth_other_version(const struct auth_challenge *challenge)
{
    char text[AUTH_MAGIC_BYTES + 1] = "";
    int version = 0;
    memcpy(text, challenge->magic, AUTH_MAGIC_BYTES);
    return sscanf(text, "DDPRUN%d", &version) == 1 && version != DDPRUN_PROTOCOL_VERSION ? version : 0;
}

bool
auth_answer_make(const unsigned char secret[AUTH_BYTES], const struct auth_challenge *challenge,
                 enum peer_purpose purpose, int rank, struct auth_answer *answer)
{
    *answer = (struct auth_answer){.purpose = purpose, .rank = rank};
    memcpy(answer->magic, magic, sizeof(magic));
    if (memcmp(challenge->magic, magic, sizeof(magic)) != 0 || !auth_random(answer->nonce, sizeof(answer->nonce)))
        return false;
    hash(secret, "client", challenge, answer, answer->mac);
    return true;
}

bool
auth_welcome_make(const unsigned char secret[AUTH_BYTES], const struct auth_challenge *challenge,
                  const struct auth_answer *answer, int world_size, struct auth_welcome *welcome)
{
    unsigned char mac[AUTH_BYTES];
    hash(secret, "client", challenge, answer, mac);
    if (memcmp(answer->magic, magic, sizeof(magic)) != 0 || !seal_is_equal(mac, answer->mac, AUTH_BYTES) ||
        answer->rank < 1 || answer->rank >= world_size ||
        (answer->purpose != PEER_SUPERVISOR && answer->purpose != PEER_ENGINE))
        return false;
    hash(secret, "root", challenge, answer, welcome->mac);
    return true;
}

bool
auth_welcome_holds(const unsigned char secret[AUTH_BYTES], const struct auth_challenge *challenge,
                   const struct auth_answer *answer, const struct auth_welcome *welcome)
{
    unsigned char mac[AUTH_BYTES];
    hash(secret, "root", challenge, answer, mac);
    return seal_is_equal(mac, welcome->mac, AUTH_BYTES);
}

void
auth_session_key(const unsigned char secret[AUTH_BYTES], const struct auth_challenge *challenge,
                 const struct auth_answer *answer, unsigned char key[AUTH_BYTES])
{
    hash(secret, "session", challenge, answer, key);
}

void
auth_derive(const void *secret, size_t secret_bytes, const char *label, const void *text, size_t bytes,
            unsigned char derived[AUTH_BYTES])
{
    const struct seal_part parts[] = {{label, strlen(label) + 1}, {text, bytes}};
    seal_hmac(secret, secret_bytes, parts, 2, derived);
}
