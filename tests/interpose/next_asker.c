/*
 * next_asker.c - a library that asks for the next definition of a function that it defines itself, as wrappers do. If
 * the shim's dlsym were a call instead of a jump, it would find itself.
 */
#include <dlfcn.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT int next_asker_function(void);
EXPORT void *next_asker_next(const char *name);
EXPORT void *next_asker_default(const char *name);
EXPORT void *next_asker_next_version(const char *name, const char *version);

EXPORT int
next_asker_function(void)
{
    return 1;
}

EXPORT void *
next_asker_next(const char *name)
{
    void *volatile found = dlsym(RTLD_NEXT, name);
    return found;
}

EXPORT void *
next_asker_default(const char *name)
{
    void *volatile found = dlsym(RTLD_DEFAULT, name);
    return found;
}

EXPORT void *
next_asker_next_version(const char *name, const char *version)
{
    void *volatile found = dlvsym(RTLD_NEXT, name, version);
    return found;
}
