/* printable.c - see printable.h. */
#include "base/printable.h"

#include <stdarg.h>
#include <stdbool.h>

/* Bytes of the well-formed UTF-8 sequence at `text` (Unicode, table 3-7), 0 if there is no such sequence. */
static size_t
sequence_bytes(const unsigned char *text)
{
    size_t bytes = text[0] < 0x80                       ? 1
                   : text[0] >= 0xc2 && text[0] <= 0xdf ? 2
                   : (text[0] & 0xf0) == 0xe0           ? 3
                   : text[0] >= 0xf0 && text[0] <= 0xf4 ? 4
                                                        : 0;
    for (size_t i = 1; i < bytes; ++i) {
        if ((text[i] & 0xc0) != 0x80)
            return 0;
    }
    bool is_long = (text[0] == 0xe0 && text[1] < 0xa0) || (text[0] == 0xf0 && text[1] < 0x90);
    bool is_surrogate = text[0] == 0xed && text[1] > 0x9f;
    bool is_beyond = text[0] == 0xf4 && text[1] > 0x8f;
    return is_long || is_surrogate || is_beyond ? 0 : bytes;
}

/* C0, DEL, and C1 in its two bytes: all that a terminal obeys. */
static bool
is_control(const unsigned char *text, size_t bytes)
{
    return (bytes == 1 && (text[0] < 0x20 || text[0] == 0x7f)) || (bytes == 2 && text[0] == 0xc2 && text[1] < 0xa0);
}

void
printable_make(char *text, const char *kept)
{
    unsigned char *from = (unsigned char *)text, *to = from;
    while (*from != '\0') {
        size_t bytes = sequence_bytes(from);
        bool is_kept = bytes == 1 && strchr(kept, *from) != NULL;
        if (bytes == 0 || (is_control(from, bytes) && !is_kept)) {
            *to++ = '?';
            from += bytes == 0 ? 1 : bytes;
            continue;
        }
        while (bytes-- > 0)
            *to++ = *from++;
    }
    *to = '\0';
}

void
printable_append(char *text, size_t bytes, const char *format, ...)
{
    size_t used = strlen(text);
    va_list args;
    va_start(args, format);
    vsnprintf(text + used, bytes - used, format, args);
    va_end(args);
}
