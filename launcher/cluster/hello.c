/*
 * hello.c - see hello.h.
 *
 * The bytes: magic, then fields in a fixed order, numbers of 32 bits in the order of this machine (the magic holds a
 * number that shows another one), texts as a length and their bytes.
 */
#include "launcher/cluster/hello.h"

#include "base/protocol.h"
#include "launcher/cluster/fields.h"

#include <stdio.h>
#include <string.h>

enum { HELLO_MAGIC = 0x64704833 };

size_t
hello_encode(const struct hello *hello, unsigned char *bytes)
{
    struct fields to = {.bytes = bytes, .size = HELLO_BYTES_AT_MOST};
    fields_put_number(&to, HELLO_MAGIC);
    fields_put_number(&to, DDPRUN_PROTOCOL_VERSION);
    fields_put_number(&to, (uint32_t)hello->pid);
    fields_put_text(&to, hello->host);
    fields_put_text(&to, hello->host_id);
    fields_put_text(&to, hello->terms);
    fields_put_number(&to, (uint32_t)hello->exit_code);
    fields_put_text(&to, hello->problem);
    fields_put_number(&to, hello->port);
    fields_put_bytes(&to, hello->secret, sizeof(hello->secret));
    fields_put_number(&to, (uint32_t)hello->addresses.count);
    for (int i = 0; i < hello->addresses.count; ++i)
        fields_put_bytes(&to, &hello->addresses.items[i], sizeof(hello->addresses.items[i]));
    return to.at;
}

bool
hello_decode(const void *bytes, size_t count, struct hello *hello_p)
{
    struct hello hello = {0};
    struct fields from = {.bytes = (unsigned char *)(uintptr_t)bytes, .size = count};
    if (fields_number(&from) != HELLO_MAGIC || fields_number(&from) != DDPRUN_PROTOCOL_VERSION)
        return false;
    hello.pid = (int)fields_number(&from);
    fields_text(&from, hello.host, sizeof(hello.host));
    fields_text(&from, hello.host_id, sizeof(hello.host_id));
    fields_text(&from, hello.terms, sizeof(hello.terms));
    hello.exit_code = (int)(fields_number(&from) & 0xff);
    fields_text(&from, hello.problem, sizeof(hello.problem));
    hello.port = (uint16_t)fields_number(&from);
    fields_get_bytes(&from, hello.secret, sizeof(hello.secret));
    uint32_t addresses = fields_number(&from);
    if (addresses > ADDRESSES_AT_MOST)
        return false;
    hello.addresses.count = (int)addresses;
    for (uint32_t i = 0; i < addresses; ++i) {
        fields_get_bytes(&from, &hello.addresses.items[i], sizeof(hello.addresses.items[i]));
        if (hello.addresses.items[i].family != 4 && hello.addresses.items[i].family != 6)
            return false;
    }
    if (!fields_end(&from))
        return false;
    *hello_p = hello;
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
hello_agree(const struct hello *hellos, int count, struct problem *problem)
{
    for (int i = 0; i < count; ++i) {
        int same = 0;
        if (hellos[i].exit_code == 0)
            continue;
        for (int j = i + 1; j < count; ++j)
            same += hellos[j].exit_code != 0 && strcmp(hellos[i].problem, hellos[j].problem) == 0;
        if (same == count - 1) /* nothing to do with a host */
            return problem_set(problem, hellos[i].exit_code, "%s", hellos[i].problem);
        return problem_set(problem, hellos[i].exit_code, "rank %d (host %s): %s", i, hellos[i].host, hellos[i].problem);
    }
    for (int i = 1; i < count; ++i) {
        const char *a = hellos[0].terms, *b = hellos[i].terms;
        if (strcmp(a, b) == 0)
            continue;
        find_difference(&a, &b);
        return problem_set(problem, DDPRUN_EXIT_USAGE,
                           "ranks 0 (host %s) and %d (host %s) were asked for different things: %.*s and %.*s; give "
                           "all ranks the same options, DDPRUN_ variables and settings file",
                           hellos[0].host, i, hellos[i].host, (int)strcspn(a, "\n"), a, (int)strcspn(b, "\n"), b);
    }
    return true;
}
