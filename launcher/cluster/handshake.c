/*
 * handshake.c - see handshake.h.
 *
 * The bytes: magic, then fields in a fixed order, numbers of 32 bits in the order of this machine (the magic holds a
 * number that shows another one), texts as a length and their bytes.
 */
#include "launcher/cluster/handshake.h"

#include "base/printable.h"
#include "base/protocol.h"
#include "launcher/cluster/serialize.h"
#include "launcher/common/xcalloc.h"

#include <stdio.h>
#include <stdlib.h>
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
    serialize_put_text(&to, handshake->command);
    serialize_put_bytes(&to, handshake->command_hash, sizeof(handshake->command_hash));
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
    serialize_get_text(&from, handshake.command, sizeof(handshake.command));
    serialize_get_bytes(&from, handshake.command_hash, sizeof(handshake.command_hash));
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

void
handshake_take_command(struct handshake *handshake, char *const *program)
{
    size_t bytes = 0;
    for (int i = 0; program[i] != NULL; ++i)
        bytes += strlen(program[i]) + 1;
    char *words = xcalloc(1, bytes + 1), *to = words;
    for (int i = 0; program[i] != NULL; ++i) {
        to = stpcpy(to, program[i]) + 1; /* with the NUL, which keeps words apart */
        printable_append(handshake->command, sizeof(handshake->command), "%s%s", i > 0 ? " " : "", program[i]);
    }
    printable_make(handshake->command, "");
    seal_hash(words, bytes, handshake->command_hash);
    free(words);
}

int
handshake_find_other_command(const struct handshake *handshakes, int count, char text[2 * HANDSHAKE_COMMAND_BYTES])
{
    enum { SHOWN = HANDSHAKE_COMMAND_BYTES - 24 };
    for (int i = 1; i < count; ++i) {
        if (memcmp(handshakes[i].command_hash, handshakes[0].command_hash, SEAL_HASH_BYTES) == 0)
            continue;
        snprintf(text, 2 * (size_t)HANDSHAKE_COMMAND_BYTES, "\n  rank 0: %.*s\n  rank %d: %.*s", SHOWN,
                 handshakes[0].command, i, SHOWN, handshakes[i].command);
        return i;
    }
    return 0;
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
