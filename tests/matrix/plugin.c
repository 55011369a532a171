/*
 * plugin.c - a program that opens its trainer, the library PROGRAM.so, with RTLD_LOCAL: as Python opens its extensions.
 * The library is linked with libcuda, which is in no other scope then.
 */
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

int
main(int argc, char **argv)
{
    char path[PATH_MAX];
    int (*trainer)(int argc, char **argv) = NULL;
    snprintf(path, sizeof(path), "%s.so", argv[0]);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    void *found = library != NULL ? dlsym(library, "plugin_main") : NULL;
    memcpy(&trainer, &found, sizeof(trainer));
    if (trainer == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    return trainer(argc, argv);
}
