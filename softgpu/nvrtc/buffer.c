/*
 * buffer.c - see buffer.h.
 */
#include "buffer.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool
make_room(struct buffer *buffer, size_t more)
{
    const size_t wanted = buffer->length + more + 1;
    if (buffer->failed)
        return false;
    if (wanted <= buffer->room)
        return true;
    char *grown = realloc(buffer->data, 2 * wanted);
    if (grown == NULL) {
        buffer->failed = true;
        return false;
    }
    buffer->data = grown;
    buffer->room = 2 * wanted;
    return true;
}

void
buffer_add(struct buffer *buffer, const void *bytes, size_t length)
{
    if (!make_room(buffer, length))
        return;
    if (length > 0)
        memcpy(buffer->data + buffer->length, bytes, length);
    buffer->length += length;
    buffer->data[buffer->length] = '\0';
}

void
buffer_add_string(struct buffer *buffer, const char *string)
{
    buffer_add(buffer, string, strlen(string));
}

void
buffer_add_format(struct buffer *buffer, const char *format, ...)
{
    char *made = NULL;
    va_list values;
    va_start(values, format);
    const int length = vasprintf(&made, format, values);
    va_end(values);
    if (length < 0) {
        buffer->failed = true;
        return;
    }
    buffer_add(buffer, made, (size_t)length);
    free(made);
}

bool
buffer_add_file(struct buffer *buffer, int file)
{
    enum { PIECE_BYTES = 1 << 16 };
    if (lseek(file, 0, SEEK_SET) < 0)
        return false;
    while (make_room(buffer, PIECE_BYTES)) {
        const ssize_t got = read(file, buffer->data + buffer->length, PIECE_BYTES);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) {
            buffer->data[buffer->length] = '\0';
            return got == 0;
        }
        buffer->length += (size_t)got;
    }
    errno = ENOMEM;
    return false;
}

void
buffer_free(struct buffer *buffer)
{
    free(buffer->data);
    *buffer = (struct buffer){NULL, 0, 0, false};
}

/* Takes the string over. */
static void
take(struct strings *strings, char *string)
{
    if (string != NULL && strings->count + 2 > strings->room) {
        const size_t room = 2 * (strings->room + 8);
        char **grown = realloc(strings->items, room * sizeof(*grown));
        if (grown != NULL) {
            strings->items = grown;
            strings->room = room;
        }
    }
    if (string == NULL || strings->count + 2 > strings->room) {
        free(string);
        strings->failed = true;
        return;
    }
    strings->items[strings->count++] = string;
    strings->items[strings->count] = NULL;
}

void
strings_add(struct strings *strings, const char *string)
{
    take(strings, strdup(string));
}

void
strings_add_format(struct strings *strings, const char *format, ...)
{
    char *made = NULL;
    va_list values;
    va_start(values, format);
    if (vasprintf(&made, format, values) < 0)
        made = NULL;
    va_end(values);
    take(strings, made);
}

void
strings_free(struct strings *strings)
{
    for (size_t i = 0; i < strings->count; ++i)
        free(strings->items[i]);
    free(strings->items);
    *strings = (struct strings){NULL, 0, 0, false};
}
