/*
 * printable.h - texts for people: names of functions and files, and what comes from outside (arguments, names in files,
 * variables) on its way to a terminal.
 *
 * Called by what prints messages and findings. No allocation, no locale; safe in any thread.
 */
#ifndef DDPRUN_BASE_PRINTABLE_H
#define DDPRUN_BASE_PRINTABLE_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Puts '?' for each control character that is not in `kept`, and for each byte that belongs to no UTF-8. In place; the
 * text does not get longer. */
void printable_make(char *text, const char *kept);

/* Behind what text[bytes] holds; cut where the room ends. */
void printable_append(char *text, size_t bytes, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* The part of a path after its folders. */
static inline const char *
file_name_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

/* Rust ends a name with a hash, "h" and 16 digits, and calls a closure "_$u7b$$u7b$closure$u7d$$u7d$" (legacy
 * mangling): the function's own name is before them. */
static inline bool
is_added_by_rust(const char *word, unsigned long length)
{
    enum { HASH_BYTES = 17 };
    if (memchr(word, '$', length) != NULL)
        return true;
    return length == HASH_BYTES && word[0] == 'h' && strspn(word + 1, "0123456789abcdef") >= HASH_BYTES - 1;
}

/* Of a function's name of C++ or Rust, as the linker knows it (Itanium C++ ABI, 5.1), its last word, "sgd" of
 * _Z3sgd5Table, _ZN3net3sgdEPf and _ZN3net3sgd17h0123456789abcdefE; any other name as it is. Returns `text`, which is
 * cut where the room ends. */
static inline char *
plain_name(const char *linked, char *text, size_t room)
{
    snprintf(text, room, "%s", linked);
    size_t begin = strncmp(linked, "_Z", 2) == 0 ? strcspn(linked, "0123456789") : strlen(linked);
    bool is_nested = memchr(linked, 'N', begin) != NULL; /* else what follows the first word are parameters */
    const char *at = linked + begin;
    for (bool more = true; more && *at >= '1' && *at <= '9'; more = is_nested) {
        char *name;
        unsigned long length = strtoul(at, &name, 10);
        if (length > strlen(name))
            break;
        at = name + length;
        if (is_nested && is_added_by_rust(name, length))
            continue;
        snprintf(text, room, "%.*s", (int)(length < room ? length : room - 1), name);
    }
    return text;
}

#endif
