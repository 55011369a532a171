/*
 * proof.c - see proof.h. The hash is libcrypto's.
 */
#include "nccl/proof.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <pthread.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>

#define CHALLENGE_MAGIC "SGCHAL1"
#define ANSWER_MAGIC    "SGANSW1"
#define BYTE_ORDER_MARK 0x01020304u

/* What both ends hash. */
struct proof_text {
    char label[8]; /* "guest" or "host" */
    uint32_t purpose;
    int32_t rank;
    unsigned char host_nonce[PROOF_BYTES];
    unsigned char guest_nonce[PROOF_BYTES];
};

bool
proof_random(void *to, size_t bytes)
{
    return getrandom(to, bytes, 0) == (ssize_t)bytes;
}

/* The library's threads may hash while the process exits: nothing is cleaned up under them. */
static void
start_libcrypto(void)
{
    OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, NULL);
}

void
proof_hash(const unsigned char key[PROOF_BYTES], const void *data, size_t bytes, unsigned char mac[PROOF_BYTES])
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, start_libcrypto);
    unsigned length = 0;
    if (!HMAC(EVP_sha256(), key, PROOF_BYTES, data, bytes, mac, &length) || length != PROOF_BYTES) {
        /* Nothing that anybody can guess: without a hash nobody proves anything. */
        if (!proof_random(mac, PROOF_BYTES))
            __builtin_trap();
    }
}

bool
proof_equal(const void *a, const void *b, size_t bytes)
{
    return CRYPTO_memcmp(a, b, bytes) == 0;
}

static void
prove(const char *label, enum proof_purpose purpose, int rank, const unsigned char host_nonce[PROOF_BYTES],
      const unsigned char guest_nonce[PROOF_BYTES], const unsigned char secret[PROOF_BYTES],
      unsigned char mac[PROOF_BYTES])
{
    struct proof_text text = {.purpose = purpose, .rank = rank};
    strncpy(text.label, label, sizeof(text.label) - 1);
    memcpy(text.host_nonce, host_nonce, PROOF_BYTES);
    memcpy(text.guest_nonce, guest_nonce, PROOF_BYTES);
    proof_hash(secret, &text, sizeof(text), mac);
}

/* A few dozen bytes into the empty buffer of a new connection fit, or it is no connection. */
static bool
send_small(int socket, const void *message, size_t bytes)
{
    return send(socket, message, bytes, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)bytes;
}

enum door_state
door_greet(struct door *door, int socket, int64_t now_ns)
{
    struct proof_challenge challenge = {.magic = CHALLENGE_MAGIC};
    *door = (struct door){.socket = socket, .deadline_ns = now_ns + PROOF_DEADLINE_NS};
    if (!proof_random(door->nonce, sizeof(door->nonce)))
        return DOOR_SHUT;
    memcpy(challenge.nonce, door->nonce, sizeof(challenge.nonce));
    return send_small(socket, &challenge, sizeof(challenge)) ? DOOR_WAITS : DOOR_SHUT;
}

enum door_state
door_hear(struct door *door, const unsigned char secret[PROOF_BYTES], enum proof_purpose purpose, int *rank_p)
{
    const struct proof_answer *answer = &door->answer;
    ssize_t got =
        recv(door->socket, (unsigned char *)&door->answer + door->got, sizeof(*answer) - door->got, MSG_DONTWAIT);
    if (got < 0)
        return errno == EAGAIN || errno == EINTR ? DOOR_WAITS : DOOR_SHUT;
    if (got == 0)
        return DOOR_SHUT;
    door->got += (size_t)got;
    if (door->got < sizeof(*answer))
        return DOOR_WAITS;

    unsigned char expected[PROOF_BYTES];
    prove("guest", purpose, answer->rank, door->nonce, answer->nonce, secret, expected);
    if (memcmp(answer->magic, ANSWER_MAGIC, sizeof(answer->magic)) != 0 || answer->byte_order != BYTE_ORDER_MARK ||
        !proof_equal(answer->mac, expected, sizeof(expected)))
        return DOOR_SHUT;
    struct proof_reply reply;
    prove("host", purpose, answer->rank, door->nonce, answer->nonce, secret, reply.mac);
    if (!send_small(door->socket, &reply, sizeof(reply)))
        return DOOR_SHUT;
    *rank_p = answer->rank;
    return DOOR_OPEN;
}

bool
proof_make_answer(const struct proof_challenge *challenge, const unsigned char secret[PROOF_BYTES],
                  enum proof_purpose purpose, int rank, struct proof_answer *answer_p)
{
    struct proof_answer answer = {.magic = ANSWER_MAGIC, .rank = rank, .byte_order = BYTE_ORDER_MARK};
    if (memcmp(challenge->magic, CHALLENGE_MAGIC, sizeof(challenge->magic)) != 0 ||
        !proof_random(answer.nonce, sizeof(answer.nonce)))
        return false;
    prove("guest", purpose, rank, challenge->nonce, answer.nonce, secret, answer.mac);
    *answer_p = answer;
    return true;
}

bool
proof_check_reply(const struct proof_challenge *challenge, const struct proof_answer *answer,
                  const unsigned char secret[PROOF_BYTES], enum proof_purpose purpose, const struct proof_reply *reply)
{
    unsigned char expected[PROOF_BYTES];
    prove("host", purpose, answer->rank, challenge->nonce, answer->nonce, secret, expected);
    return proof_equal(reply->mac, expected, sizeof(expected));
}
