/*
 * serialize.h - bytes that go from one supervisor to another, field by field, with bounds kept on both sides. One
 * function names the fields of a message, in their order; its buffer says whether they are written or read.
 *
 * A writer stops at the end of its room, a reader at the end of what came: everything after that is zero, and
 * serialize_is_complete() says no. Numbers are in the order of this machine.
 */
#ifndef DDPRUN_LAUNCHER_CLUSTER_SERIALIZE_H
#define DDPRUN_LAUNCHER_CLUSTER_SERIALIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct serialize_buffer {
    unsigned char *bytes;
    size_t size, at;
    bool reads;
    bool failed; /* did not fit, or ended early */
};

static inline struct serialize_buffer
serialize_reader(const void *bytes, size_t count)
{
    return (struct serialize_buffer){.bytes = (unsigned char *)(uintptr_t)bytes, .size = count, .reads = true};
}

static inline void
serialize_bytes(struct serialize_buffer *with, void *value, size_t count)
{
    with->failed = with->failed || count > with->size - with->at;
    if (with->failed && with->reads)
        memset(value, 0, count);
    if (with->failed)
        return;
    unsigned char *at = with->bytes + with->at;
    memcpy(with->reads ? value : at, with->reads ? at : value, count);
    with->at += count;
}

/* A number of 32 bits. */
static inline void
serialize_int(struct serialize_buffer *with, int *value)
{
    serialize_bytes(with, value, sizeof(*value));
}

/* A text of fewer than `room` bytes without a NUL inside; one that is read is NUL-terminated in any case. */
static inline void
serialize_text(struct serialize_buffer *with, char *text, size_t room)
{
    uint32_t length = with->reads ? 0 : (uint32_t)strlen(text);
    serialize_bytes(with, &length, sizeof(length));
    with->failed = with->failed || length >= room;
    serialize_bytes(with, text, with->failed ? 0 : length);
    if (!with->reads)
        return;
    text[with->failed ? 0 : length] = '\0';
    with->failed = with->failed || strlen(text) != length;
}

/* Everything fitted, and everything was read. */
static inline bool
serialize_is_complete(const struct serialize_buffer *from)
{
    return !from->failed && from->at == from->size;
}

#endif
