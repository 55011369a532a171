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

/* By its name. CUDA's compilers, libnvrtc and libnvJitLink, need no GPU. */
static bool
is_cudas_own(const char *path)
{
    const char *name = file_name_of(path);
    const bool is_compiler = strncmp(name, "libnv", strlen("libnv")) == 0;
    return is_library_of_cuda(name) && !is_compiler;
}

static void __attribute__((noreturn)) refuse(const char *file)
{
    shim_stop(
        "rank %d loads %s by dlmopen into a namespace of its own, where ddprun sees no call of CUDA: each rank would "
        "train alone; load it by dlopen, or by dlmopen with LM_ID_BASE",
        shim_number_from(DDPRUN_ENV_RANK), file);
}

/* Whether a file of this name in a folder of LD_LIBRARY_PATH uses CUDA. */
static bool
uses_cuda_where_found(const char *file)
{
    char path[PATH_MAX];
    bool uses = false;
    const char *folders = getenv("LD_LIBRARY_PATH");
    while (!uses && folders != NULL && *folders != '\0') {
        const int length = (int)strcspn(folders, ":;");
        snprintf(path, sizeof(path), "%.*s%s%s", length, folders, length > 0 ? "/" : "", file);
        uses = execs_file_uses_cuda(AT_FDCWD, path);
        folders += length;
        folders += *folders != '\0';
    }
    return uses;
}

static bool
uses_cuda(const char *file)
{
    if (is_cudas_own(file))
        return true;
    return strchr(file, '/') != NULL ? execs_file_uses_cuda(AT_FDCWD, file) : uses_cuda_where_found(file);
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
    const bool has_ranks = shim_in_job() && shim_number_from(DDPRUN_ENV_WORLD_SIZE) > 1;
    if (has_ranks && file != NULL && id != LM_ID_BASE && uses_cuda(file))
        refuse(file);
    return (struct namespace_answer){NULL, 0};
}
