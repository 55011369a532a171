/*
 * memory.c - see memory.h.
 */
#include "text/memory.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

void *
memory_grow(void *block, size_t bytes)
{
    void *grown = realloc(block, bytes);
    if (grown == NULL) {
        fprintf(stderr, "%s: error: out of memory\n", program_invocation_short_name);
        exit(EXIT_FAILURE);
    }
    return grown;
}
