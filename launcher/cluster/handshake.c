/*
 * handshake.c - see handshake.h.
 *
 * The bytes: magic, then fields in a fixed order, numbers in the order of this machine (the magic holds a number that
 * shows another one), texts as a length and their bytes.
 */
#include "launcher/cluster/handshake.h"

#include "base/printable.h"
#include "base/protocol.h"
#include "launcher/cluster/serialize.h"
#include "launcher/common/xcalloc.h"

enum { HANDSHAKE_MAGIC = 0x64704834 };

static void
handshake_fields(struct serialize_buffer *with, struct handshake *handshake)
{
    int magic = HANDSHAKE_MAGIC, version = DDPRUN_PROTOCOL_VERSION;
    struct host_addresses *addresses = &handshake->addresses;
    serialize_int(with, &magic);
    serialize_int(with, &version);
    serialize_int(with, &handshake->pid);
    serialize_text(with, handshake->host, sizeof(handshake->host));
    serialize_text(with, handshake->host_id, sizeof(handshake->host_id));
    serialize_text(with, handshake->terms, sizeof(handshake->terms));
    serialize_text(with, handshake->command, sizeof(handshake->command));
    serialize_bytes(with, handshake->command_hash, sizeof(handshake->command_hash));
    serialize_text(with, handshake->visible, sizeof(handshake->visible));
    serialize_int(with, &handshake->exit_code);
    serialize_text(with, handshake->error, sizeof(handshake->error));
    serialize_int(with, &handshake->plan_bytes);
    serialize_bytes(with, &handshake->port, sizeof(handshake->port));
    serialize_bytes(with, handshake->secret, sizeof(handshake->secret));
    serialize_int(with, &addresses->count);
    with->failed = with->failed || magic != HANDSHAKE_MAGIC || version != DDPRUN_PROTOCOL_VERSION ||
                   handshake->plan_bytes < 0 || addresses->count < 0 || addresses->count > ADDRESSES_AT_MOST ||
                   handshake->exit_code < 0 || handshake->exit_code > 255;
    for (int i = 0; !with->failed && i < addresses->count; ++i) {
        serialize_bytes(with, &addresses->items[i], sizeof(addresses->items[i]));
        with->failed = with->failed || (addresses->items[i].family != 4 && addresses->items[i].family != 6);
    }
}

size_t
handshake_encode(const struct handshake *handshake, unsigned char *bytes)
{
    struct serialize_buffer to = {.bytes = bytes, .size = HANDSHAKE_BYTES_AT_MOST};
    handshake_fields(&to, (struct handshake *)(uintptr_t)handshake);
    return to.at;
}

bool
handshake_decode(const void *bytes, size_t count, struct handshake *handshake_p)
{
    struct handshake handshake = {0};
    struct serialize_buffer from = serialize_reader(bytes, count);
    handshake_fields(&from, &handshake);
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

struct handshake_neighbours
handshake_find_neighbours(const struct handshake *handshakes, int count, int rank)
{
    struct handshake_neighbours found = {0};
    const struct handshake *mine = &handshakes[rank];
    for (int i = 0; i < count; ++i) {
        if (strcmp(handshakes[i].host_id, mine->host_id) != 0)
            continue;
        bool sees_same = strcmp(handshakes[i].visible, mine->visible) == 0;
        ++found.on_host;
        found.among += sees_same;
        found.place += sees_same && i < rank;
    }
    return found;
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
