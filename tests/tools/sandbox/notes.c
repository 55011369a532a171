/*
 * notes.c FOLDER LIBRARY - opens files and, through LIBRARY (late.cpp), asks std::random_device; then prints what
 * libddprun-files.so has noted of it, a line each. FOLDER is what files.sh has made.
 *
 * Property: a file is noted once, by the name that the program gave, with its own folder before it; a folder's
 * descriptor, a pipe, a device and a failed call are not noted. A library that is loaded late, with RTLD_LOCAL, still
 * gets numbers that differ.
 */
#include "tools/sandbox/notes.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int __open_2(const char *path, int flags);

static void
require(int condition, const char *what)
{
    if (condition)
        return;
    printf("%s\n", what);
    exit(1);
}

static void
use_files(const char *folder)
{
    char path[4096];
    require(chdir(folder) == 0, "chdir");
    for (int i = 0; i < 2; ++i)
        close(open("kept", O_RDONLY));
    close(__open_2("sub/one", O_RDONLY));
    snprintf(path, sizeof(path), "%s/log.txt", folder);
    FILE *log = fopen(path, "a");
    require(log != NULL, "fopen");
    fclose(log);
    int sub = open("sub", O_RDONLY | O_DIRECTORY);
    close(openat(sub, "two", O_RDONLY));
    close(openat(AT_FDCWD, "untouched", O_RDWR));
    close(sub);
    require(open("none", O_RDONLY) < 0, "a file that is not there");
    close(open("/dev/null", O_WRONLY));
    close(open("/proc/self/stat", O_RDONLY));
    close(open("/dev/urandom", O_RDONLY));
}

static void
use_random(const char *library)
{
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    require(handle != NULL, "dlopen");
    unsigned (*ask)(void) = (unsigned (*)(void))dlsym(handle, "late_random");
    require(ask != NULL, "dlsym");
    unsigned first = ask();
    require(first != ask() || first != ask(), "random numbers that are all the same");
}

int
main(int argc, char **argv)
{
    static const char *const kinds[] = {[CALL_READS] = "reads", [CALL_WRITES] = "writes"};
    const struct host_call *list;
    require(argc == 3, "usage: notes FOLDER LIBRARY");
    use_files(argv[1]);
    use_random(argv[2]);
    __typeof__(&ddprun_host_calls) calls = (__typeof__(calls))dlsym(RTLD_DEFAULT, "ddprun_host_calls");
    require(calls != NULL, "no list");
    size_t count = calls(&list);
    for (size_t i = 0; i < count; ++i) {
        require(list[i].depth > 0, "no stack");
        printf("%s %s %d\n", kinds[list[i].kind], list[i].text, (int)list[i].bytes);
    }
    return 0;
}
