/*
 * plain_name.h - a function's name for readers: of a name of C++ as the linker knows it (Itanium C++ ABI, 5.1) the last
 * of its words, "sgd" of _Z3sgdPf and _ZN3net3sgdEPf; any other name as it is. Pure.
 */
#ifndef DDPRUN_BASE_PLAIN_NAME_H
#define DDPRUN_BASE_PLAIN_NAME_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Returns `text`, which is cut where the room ends. */
static inline char *
plain_name(const char *linked, char *text, size_t room)
{
    snprintf(text, room, "%s", linked);
    const char *at = strncmp(linked, "_Z", 2) == 0 ? linked + strcspn(linked, "0123456789") : "";
    while (*at >= '1' && *at <= '9') {
        char *name;
        unsigned long length = strtoul(at, &name, 10);
        if (length > strlen(name))
            break;
        snprintf(text, room, "%.*s", (int)(length < room ? length : room), name);
        at = name + length;
    }
    return text;
}

#endif
