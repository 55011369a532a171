/*
 * fields.h - bytes that go from one supervisor to another, field by field, with bounds kept on both sides.
 *
 * A writer stops at the end of its room, a reader at the end of what came: everything after that is zero, and
 * fields_end() says no. Little functions in the header, as they are used by hello.c and view_frame.c for every field.
 */
#ifndef DDPRUN_LAUNCHER_CLUSTER_FIELDS_H
#define DDPRUN_LAUNCHER_CLUSTER_FIELDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct fields {
    unsigned char *bytes;
    size_t size, at;
    bool failed; /* did not fit, or ended early */
};

static inline void
fields_put_bytes(struct fields *to, const void *from, size_t count)
{
    if (to->failed || count > to->size - to->at) {
        to->failed = true;
        return;
    }
    memcpy(to->bytes + to->at, from, count);
    to->at += count;
}

static inline void
fields_put_number(struct fields *to, uint32_t number)
{
    fields_put_bytes(to, &number, sizeof(number));
}

static inline void
fields_put_long(struct fields *to, uint64_t number)
{
    fields_put_bytes(to, &number, sizeof(number));
}

static inline void
fields_put_text(struct fields *to, const char *text)
{
    size_t length = strlen(text);
    fields_put_number(to, (uint32_t)length);
    fields_put_bytes(to, text, length);
}

static inline void
fields_get_bytes(struct fields *from, void *to, size_t count)
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
fields_number(struct fields *from)
{
    uint32_t number;
    fields_get_bytes(from, &number, sizeof(number));
    return number;
}

static inline uint64_t
fields_long(struct fields *from)
{
    uint64_t number;
    fields_get_bytes(from, &number, sizeof(number));
    return number;
}

/* A text of fewer than `room` bytes without a NUL inside; NUL-terminated in any case. */
static inline void
fields_text(struct fields *from, char *text, size_t room)
{
    uint32_t length = fields_number(from);
    if (length >= room)
        from->failed = true;
    fields_get_bytes(from, text, from->failed ? 0 : length);
    text[from->failed ? 0 : length] = '\0';
    if (!from->failed && strlen(text) != length)
        from->failed = true;
}

/* Everything fitted, and everything was read. */
static inline bool
fields_end(const struct fields *from)
{
    return !from->failed && from->at == from->size;
}

#endif
