/*
 * auth.c - see auth.h.
 */
#include "nccl/auth.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>

#define GREETING_MAGIC  "SGGREE2"
#define ANSWER_MAGIC    "SGANSW2"
#define BYTE_ORDER_MARK 0x01020304u

bool
auth_random(void *to, size_t bytes)
{
    return getrandom(to, bytes, 0) == (ssize_t)bytes;
}

bool
auth_equal(const void *a, const void *b, size_t bytes)
{
    unsigned char difference = 0;
    for (size_t i = 0; i < bytes; ++i)
        difference |= ((const unsigned char *)a)[i] ^ ((const unsigned char *)b)[i];
    return difference == 0;
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
    static const struct auth_greeting greeting = {.magic = GREETING_MAGIC};
    *door = (struct door){.socket = socket, .deadline_ns = now_ns + AUTH_DEADLINE_NS};
    return send_small(socket, &greeting, sizeof(greeting)) ? DOOR_WAITS : DOOR_SHUT;
}

enum door_state
door_hear(struct door *door, const unsigned char secret[SECRET_BYTES], enum auth_purpose purpose, int *rank_p)
{
    const struct auth_answer *answer = &door->answer;
    ssize_t got =
        recv(door->socket, (unsigned char *)&door->answer + door->got, sizeof(*answer) - door->got, MSG_DONTWAIT);
    if (got < 0)
        return errno == EAGAIN || errno == EINTR ? DOOR_WAITS : DOOR_SHUT;
    if (got == 0)
        return DOOR_SHUT;
    door->got += (size_t)got;
    if (door->got < sizeof(*answer))
        return DOOR_WAITS;

    if (memcmp(answer->magic, ANSWER_MAGIC, sizeof(answer->magic)) != 0 || answer->byte_order != BYTE_ORDER_MARK ||
        answer->purpose != (uint32_t)purpose || !auth_equal(answer->half, secret, sizeof(answer->half)))
        return DOOR_SHUT;
    struct auth_reply reply;
    memcpy(reply.half, secret + SECRET_HALF_BYTES, sizeof(reply.half));
    if (!send_small(door->socket, &reply, sizeof(reply)))
        return DOOR_SHUT;
    *rank_p = answer->rank;
    return DOOR_OPEN;
}

bool
auth_make_answer(const struct auth_greeting *greeting, const unsigned char secret[SECRET_BYTES],
                 enum auth_purpose purpose, int rank, struct auth_answer *answer_p)
{
    if (memcmp(greeting->magic, GREETING_MAGIC, sizeof(greeting->magic)) != 0)
        return false;
    *answer_p =
        (struct auth_answer){.magic = ANSWER_MAGIC, .purpose = purpose, .rank = rank, .byte_order = BYTE_ORDER_MARK};
    memcpy(answer_p->half, secret, sizeof(answer_p->half));
    return true;
}

bool
auth_check_reply(const struct auth_reply *reply, const unsigned char secret[SECRET_BYTES])
{
    return auth_equal(reply->half, secret + SECRET_HALF_BYTES, sizeof(reply->half));
}
