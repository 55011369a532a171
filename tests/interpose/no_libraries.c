/*
 * no_libraries.c - a shim without hooks of libraries, for aarch64.sh.
 */
#include "interpose/shim/shim.h"

void *
library_route(const char *name, void *real)
{
    (void)name, (void)real;
    return NULL;
}
