/*
 * namespaces.c - a library that dlmopen(3) loads into a namespace of its own has its own libcuda there, and no hooks: a
 * trainer in it would train alone. Such a library ends the job, before it is loaded.
 *
 * Looked at is the file that is named. By a name without a slash it is looked for in LD_LIBRARY_PATH alone; a library
 * that uses CUDA through another one only is not noticed.
 *
 * Called by our dlmopen (look_up_*.S), which jumps to libc's: the caller decides where that looks.
 */
#include "interpose/shim/shim.h"

#include "base/cuda_files.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Jumped to by our dlmopen. */
__attribute__((visibility("hidden"))) void *namespaces_real_dlmopen;

/* CUDA's compilers, libnvrtc and libnvJitLink, need no GPU. */
static bool
is_of_cuda(const char *path)
{
    const char *name = file_name_of(path);
    const bool is_compiler = strncmp(name, "libnv", strlen("libnv")) == 0;
    return (is_library_of_cuda(name) && !is_compiler) || execs_file_uses_cuda(AT_FDCWD, path);
}

static void
refuse(const char *path)
{
    if (is_of_cuda(path))
        shim_stop("rank %d loads %s by dlmopen into a namespace of its own, where ddprun sees no call of CUDA: each "
                  "rank would train alone; load it by dlopen, or by dlmopen with LM_ID_BASE",
                  shim_number_from(DDPRUN_ENV_RANK), path);
}

static void
refuse_found(const char *file)
{
    char path[PATH_MAX];
    const char *folders = getenv("LD_LIBRARY_PATH");
    while (folders != NULL && *folders != '\0') {
        const int length = (int)strcspn(folders, ":;");
        snprintf(path, sizeof(path), "%.*s%s%s", length, folders, length > 0 ? "/" : "", file);
        refuse(path);
        folders += length;
        folders += *folders != '\0';
    }
}

/* As gate.c's answers: the second says whether the first is the result; else libc's function is jumped to. */
struct namespace_answer {
    void *pointer;
    uint64_t answers;
};
__attribute__((visibility("hidden"))) struct namespace_answer namespaces_look(Lmid_t id, const char *file, int flags);

__attribute__((visibility("hidden"))) struct namespace_answer
namespaces_look(Lmid_t id, const char *file, int flags)
{
    (void)flags;
    if (namespaces_real_dlmopen == NULL)
        namespaces_real_dlmopen = shim_real_dlsym(RTLD_NEXT, "dlmopen");
    const bool is_alone =
        file == NULL || id == LM_ID_BASE || !shim_in_job() || shim_number_from(DDPRUN_ENV_WORLD_SIZE) < 2;
    if (is_alone)
        return (struct namespace_answer){NULL, 0};
    refuse(file);
    if (strchr(file, '/') == NULL)
        refuse_found(file);
    return (struct namespace_answer){NULL, 0};
}
