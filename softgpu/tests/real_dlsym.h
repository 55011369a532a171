/*
 * real_dlsym.h - libc's dlsym, for a program that defines its own, as an interposer does. It takes this program for the
 * caller: good enough where no library asks for RTLD_NEXT, which the runtimes of sanitizers do.
 */
#ifndef SOFTGPU_TESTS_REAL_DLSYM_H
#define SOFTGPU_TESTS_REAL_DLSYM_H

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

static void *
real_dlsym(void *library, const char *name)
{
    static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.17", "GLIBC_2.2.5"};
    static void *(*real)(void *, const char *);
    for (int i = 0; i < 3 && real == NULL; ++i) {
        void *found = dlvsym(RTLD_NEXT, "dlsym", versions[i]);
        memcpy(&real, &found, sizeof(found));
    }
    return real(library, name);
}

#endif
