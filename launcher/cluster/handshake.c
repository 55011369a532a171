/*
 * handshake.c - see handshake.h.
 *
 * The bytes: magic, then fields in a fixed order, numbers of 32 bits in the order of this machine (the magic holds a
 * number that shows another one), texts as a length and their bytes.
 */
#include "launcher/cluster/handshake.h"

#include "base/protocol.h"
#include "launcher/cluster/serialize.h"

#include <stdio.h>
#include <string.h>

enum { HANDSHAKE_MAGIC = 0x64704833 };

size_t
handshake_encode(const struct handshake *handshake, unsigned char *bytes)
{
    struct serialize_buffer to = {.bytes = bytes, .size = HANDSHAKE_BYTES_AT_MOST};
    serialize_put_number(&to, HANDSHAKE_MAGIC);
    serialize_put_number(&to, DDPRUN_PROTOCOL_VERSION);
    serialize_put_number(&to, (uint32_t)handshake->pid);
    serialize_put_text(&to, handshake->host);
    serialize_put_text(&to, handshake->host_id);
    serialize_put_text(&to, handshake->terms);
    serialize_put_number(&to, (uint32_t)handshake->exit_code);
    serialize_put_text(&to, handshake->error);
    serialize_put_number(&to, handshake->port);
    serialize_put_bytes(&to, handshake->secret, sizeof(handshake->secret));
    serialize_put_number(&to, (uint32_t)handshake->addresses.count);
    for (int i = 0; i < handshake->addresses.count; ++i)
        serialize_put_bytes(&to, &handshake->addresses.items[i], sizeof(handshake->addresses.items[i]));
    return to.at;
}

bool
handshake_decode(const void *bytes, size_t count, struct handshake *handshake_p)
{
    struct handshake handshake = {0};
    struct serialize_buffer from = {.bytes = (unsigned char *)(uintptr_t)bytes, .size = count};
    if (serialize_get_number(&from) != HANDSHAKE_MAGIC || serialize_get_number(&from) != DDPRUN_PROTOCOL_VERSION)
        return false;
    handshake.pid = (int)serialize_get_number(&from);
    serialize_get_text(&from, handshake.host, sizeof(handshake.host));
    serialize_get_text(&from, handshake.host_id, sizeof(handshake.host_id));
    serialize_get_text(&from, handshake.terms, sizeof(handshake.terms));
    handshake.exit_code = (int)(serialize_get_number(&from) & 0xff);
    serialize_get_text(&from, handshake.error, sizeof(handshake.error));
    handshake.port = (uint16_t)serialize_get_number(&from);
    serialize_get_bytes(&from, handshake.secret, sizeof(handshake.secret));
    uint32_t addresses = serialize_get_number(&from);
    if (addresses > ADDRESSES_AT_MOST)
        return false;
    handshake.addresses.count = (int)addresses;
    for (uint32_t i = 0; i < addresses; ++i) {
        serialize_get_bytes(&from, &handshake.addresses.items[i], sizeof(handshake.addresses.items[i]));
        if (handshake.addresses.items[i].family != 4 && handshake.addresses.items[i].family != 6)
            return false;
    }
    if (!serialize_is_complete(&from))
        return false;
    *handshake_p = handshake;
    return true;
}

/* The first line in which two terms differ. */
static void
find_difference(const char **a_p, const char **b_p)
{
    const char *a = *a_p, *b = *b_p;
    for (;;) {
        size_t length = strcspn(a, "\n");
        if (length == 0 || length != strcspn(b, "\n") || strncmp(a, b, length) != 0)
            break;
        a += length + (a[length] == '\n');
        b += length + (b[length] == '\n');
    }
    *a_p = a;
    *b_p = b;
}

bool
handshake_agree(const struct handshake *handshakes, int count, struct error *error)
{
    for (int i = 0; i < count; ++i) {
        int same = 0;
        if (handshakes[i].exit_code == 0)
            continue;
        for (int j = i + 1; j < count; ++j)
            same += handshakes[j].exit_code != 0 && strcmp(handshakes[i].error, handshakes[j].error) == 0;
        if (same == count - 1) /* nothing to do with a host */
            return error_set(error, handshakes[i].exit_code, "%s", handshakes[i].error);
        return error_set(error, handshakes[i].exit_code, "rank %d (host %s): %s", i, handshakes[i].host,
                         handshakes[i].error);
    }
    for (int i = 1; i < count; ++i) {
        const char *a = handshakes[0].terms, *b = handshakes[i].terms;
        if (strcmp(a, b) == 0)
            continue;
        find_difference(&a, &b);
        return error_set(error, DDPRUN_EXIT_USAGE,
                         "ranks 0 (host %s) and %d (host %s) were asked for different things: %.*s and %.*s; give "
                         "all ranks the same options and DDPRUN_ variables",
                         handshakes[0].host, i, handshakes[i].host, (int)strcspn(a, "\n"), a, (int)strcspn(b, "\n"), b);
    }
    return true;
}
