/*
 * cache_folder.c - see cache_folder.h.
 */
#include "base/cache_folder.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

bool
cache_folder(char *path, size_t bytes)
{
    const char *base = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int wanted = 0;
    if (base != NULL && base[0] == '/') /* a relative path is to be ignored (XDG Base Directory Specification) */
        wanted = snprintf(path, bytes, "%s", base);
    else if (home != NULL && home[0] == '/')
        wanted = snprintf(path, bytes, "%s/.cache", home);
    errno = 0;
    if (wanted <= 0 || (size_t)wanted + sizeof("/ddprun") > bytes)
        return false;
    (void)mkdir(path, 0700);
    memcpy(path + wanted, "/ddprun", sizeof("/ddprun"));
    return mkdir(path, 0700) == 0 || errno == EEXIST;
}
