/*
 * serialize.h - bytes that go from one supervisor to another, field by field, with bounds kept on both sides.
 *
 * A writer stops at the end of its room, a reader at the end of what came: everything after that is zero, and
 * serialize_is_complete() says no. Little functions in the header, as they are used by handshake.c and rank_view_wire.c
 * for every field.
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
    bool failed; /* did not fit, or ended early */
};

static inline void
serialize_put_bytes(struct serialize_buffer *to, const void *from, size_t count)
{
    if (to->failed || count > to->size - to->at) {
        to->failed = true;
        return;
    }
    memcpy(to->bytes + to->at, from, count);
    to->at += count;
}

static inline void
serialize_put_number(struct serialize_buffer *to, uint32_t number)
{
    serialize_put_bytes(to, &number, sizeof(number));
}

static inline void
serialize_put_long(struct serialize_buffer *to, uint64_t number)
{
    serialize_put_bytes(to, &number, sizeof(number));
}

static inline void
serialize_put_text(struct serialize_buffer *to, const char *text)
{
    size_t length = strlen(text);
    serialize_put_number(to, (uint32_t)length);
    serialize_put_bytes(to, text, length);
}

static inline void
serialize_get_bytes(struct serialize_buffer *from, void *to, size_t count)
{
    if (from->failed || count > from->size - from->at) {
        from->failed = true;
        memset(to, 0, count);
        return;
    }
    memcpy(to, from->bytes + from->at, count);
    from->at += count;
}

static inline uint32_t
serialize_get_number(struct serialize_buffer *from)
{
    uint32_t number;
    serialize_get_bytes(from, &number, sizeof(number));
    return number;
}

static inline uint64_t
serialize_get_long(struct serialize_buffer *from)
{
    uint64_t number;
    serialize_get_bytes(from, &number, sizeof(number));
    return number;
}

/* A text of fewer than `room` bytes without a NUL inside; NUL-terminated in any case. */
static inline void
serialize_get_text(struct serialize_buffer *from, char *text, size_t room)
{
    uint32_t length = serialize_get_number(from);
    if (length >= room)
        from->failed = true;
    serialize_get_bytes(from, text, from->failed ? 0 : length);
    text[from->failed ? 0 : length] = '\0';
    if (!from->failed && strlen(text) != length)
        from->failed = true;
}

/* Everything fitted, and everything was read. */
static inline bool
serialize_is_complete(const struct serialize_buffer *from)
{
    return !from->failed && from->at == from->size;
}

#endif
