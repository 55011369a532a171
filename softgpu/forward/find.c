/*
 * find.c - forwarders: what a program gets from the stand-in's folder when the host compiler links it with `-lcudart`.
 *
 * nvcc's libraries are found through an RPATH or the system's folders; the stand-in must not lie in those, and the host
 * compiler writes no RPATH by itself. So `-lcudart` links an archive in place of the library: its functions load the
 * library when the first of them is called, and jump on (forward_x86_64.S, forward_aarch64.S). Everything is hidden:
 * each program and shared library has its own. Compiled once for each library of the stand-in, with FORWARD_LIBRARY its
 * name and FORWARD_SONAME its file; FORWARD_TABLE, generated, has its functions.
 *
 * Runs in users' programs, perhaps before their constructors: nothing here may depend on other objects' initialisation.
 */
#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define JOIN2(a, b) a##b
#define JOIN(a, b)  JOIN2(a, b)
#define SLOTS       JOIN(softgpu_forward_slots_, FORWARD_LIBRARY)
#define FIND        JOIN(softgpu_forward_find_, FORWARD_LIBRARY)
#define HOME        JOIN(softgpu_forward_home_, FORWARD_LIBRARY)

/* The exit code of the dynamic loader when it cannot load a library. */
enum { EXIT_NOT_LOADED = 127 };

#define FORWARD(number, name) #name,
static const char *const names[] = {
#include FORWARD_TABLE
};
#undef FORWARD

/* Of the objects that softgpu-cc made in the same program or library (softgpu/object.h); NULL if there are none. */
extern const char softgpu_folder[] __attribute__((weak, visibility("hidden")));

/*
 * Where this archive lies, if the installation has written that in place of the mark: pip puts a wheel anywhere
 * (wheel/softgpu.py). Weak: the compiler takes no value for granted.
 */
extern char HOME[];
char HOME[1024] __attribute__((weak, visibility("hidden"))) = "@SOFTGPU_FOLDER@";

/* The functions, once they are known. */
extern void *SLOTS[] __attribute__((visibility("hidden")));
void *SLOTS[sizeof(names) / sizeof(names[0])];

void *FIND(unsigned number) __attribute__((visibility("hidden")));

static void __attribute__((noreturn, format(printf, 1, 2))) give_up(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("softgpu: ", stderr);
    vfprintf(stderr, format, args);
    va_end(args);
    _exit(EXIT_NOT_LOADED);
}

static bool
holds_stand_in(const char *folder)
{
    char path[PATH_MAX];
    return snprintf(path, sizeof(path), "%s/libsoftgpu.so", folder) < (int)sizeof(path) && access(path, R_OK) == 0;
}

/* That of the stand-in which is in the process already, or which LD_LIBRARY_PATH puts first, as it does with a RUNPATH.
 */
static bool
find_chosen_folder(char folder[PATH_MAX])
{
    void *loaded = dlopen("libsoftgpu.so", RTLD_LAZY | RTLD_NOLOAD);
    if (loaded != NULL && dlinfo(loaded, RTLD_DI_ORIGIN, folder) == 0)
        return true;
    const char *at = getenv("LD_LIBRARY_PATH");
    while (at != NULL && *at != '\0') {
        const size_t length = strcspn(at, ":;");
        if (length > 0 && snprintf(folder, PATH_MAX, "%.*s", (int)length, at) < PATH_MAX && holds_stand_in(folder))
            return true;
        at += length + (at[length] != '\0');
    }
    return false;
}

/*
 * For a program without any object of softgpu-cc's: where this archive is installed, or was built, or a folder of the
 * program's RUNPATH, as CMake writes one.
 */
static const char *
find_usual_folder(char folder[PATH_MAX])
{
    static const char *const folders[] = {HOME, FORWARD_FOLDERS};
    const size_t count = sizeof(folders) / sizeof(folders[0]);
    for (size_t i = 0; i < count; ++i) {
        if (holds_stand_in(folders[i]))
            return folders[i];
    }
    void *loaded = dlopen("libsoftgpu.so", RTLD_LAZY);
    if (loaded != NULL && dlinfo(loaded, RTLD_DI_ORIGIN, folder) == 0)
        return folder;
    return folders[count - 1];
}

static void *
load_library(void)
{
    char folder[PATH_MAX], found[PATH_MAX], path[PATH_MAX + sizeof(FORWARD_SONAME)];
    if (!find_chosen_folder(folder))
        snprintf(folder, sizeof(folder), "%s", softgpu_folder != NULL ? softgpu_folder : find_usual_folder(found));
    snprintf(path, sizeof(path), "%s/" FORWARD_SONAME, folder);
    void *library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    if (library == NULL)
        give_up("this program was linked with the stand-in in %s, which cannot be loaded: %s; start it with ddprun or "
                "with LD_LIBRARY_PATH=FOLDER, the stand-in's folder, or link it again\n",
                folder, dlerror());
    return library;
}

/* Called by a function of forward_*.S that has no slot yet. Any thread; several may come at once, and find the same. */
void *
FIND(unsigned number)
{
    static void *library;
    void *found = __atomic_load_n(&library, __ATOMIC_ACQUIRE);
    if (found == NULL) {
        found = load_library();
        __atomic_store_n(&library, found, __ATOMIC_RELEASE);
    }
    void *function = dlsym(found, names[number]);
    if (function == NULL)
        give_up("%s is not in " FORWARD_SONAME " of the stand-in: %s; link the program again\n", names[number],
                dlerror());
    __atomic_store_n(&SLOTS[number], function, __ATOMIC_RELEASE);
    return function;
}
