/*
 * toolchain.c - see toolchain.h. CMake gives the folders that this build was configured with: SOFTGPU_CUDA_INCLUDE_DIR,
 * SOFTGPU_CUBLAS_INCLUDE_DIR, SOFTGPU_NCCL_INCLUDE_DIR.
 */
#include "toolchain.h"

#include "process.h"

#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CUDA_MAJOR = 13 }; /* of the libraries that programs are linked with: libcudart.so.13 */

static bool
has_file(const char *dir, const char *name)
{
    char *path = text_format("%s/%s", dir, name);
    const bool exists = access(path, R_OK) == 0;
    free(path);
    return exists;
}

bool
toolchain_is_cuda_dir(const char *dir)
{
    return has_file(dir, "cuda_runtime.h") && has_file(dir, "cuda_runtime_api.h");
}

/* The X of `#define CUDART_VERSION X`, or 0. */
static int
cudart_version(const char *dir)
{
    char *path = text_format("%s/cuda_runtime_api.h", dir);
    FILE *file = fopen(path, "re");
    free(path);
    if (file == NULL)
        return 0;
    char line[512];
    int version = 0;
    while (version == 0 && fgets(line, sizeof(line), file) != NULL) {
        if (sscanf(line, " #define CUDART_VERSION %d", &version) != 1)
            version = 0;
    }
    fclose(file);
    return version;
}

static bool
find_self(struct toolchain *toolchain)
{
    char self[PATH_MAX];
    const ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);
    if (length < 0) {
        complain("cannot read /proc/self/exe: %s", strerror(errno));
        return false;
    }
    self[length] = '\0';
    char *wanted = text_format("%s/../lib/softgpu", dirname(self));
    toolchain->library_dir = realpath(wanted, NULL);
    if (toolchain->library_dir == NULL || !has_file(toolchain->library_dir, "include/softgpu_prelude.h")) {
        complain("the stand-in's libraries and headers are not in %s, where they belong; build or install them",
                 wanted);
        free(wanted);
        return false;
    }
    free(wanted);
    toolchain->header_dir = text_format("%s/include", toolchain->library_dir);
    return true;
}

/* The include folder beside the nvcc on the PATH, or NULL. */
static char *
nvcc_neighbour(void)
{
    const char *path = getenv("PATH");
    struct text candidate = {0};
    while (path != NULL && *path != '\0') {
        const size_t length = strcspn(path, ":");
        candidate.length = 0;
        text_append(&candidate, path, length);
        text_append_string(&candidate, "/nvcc");
        char *real = access(candidate.data, X_OK) == 0 ? realpath(candidate.data, NULL) : NULL;
        if (real != NULL) {
            char *found = text_format("%s/../include", dirname(real));
            free(real);
            text_free(&candidate);
            return found;
        }
        path += length + (path[length] == ':');
    }
    text_free(&candidate);
    return NULL;
}

static void
add_dir(struct list *dirs, const char *dir)
{
    char *real = realpath(dir, NULL);
    if (real != NULL && !list_has(dirs, real))
        list_add(dirs, real);
    free(real);
}

/* Where CUDA's headers may be: the user's choice, those of this installation, those of the system. */
static void
list_candidates(const struct toolchain *toolchain, struct list *candidates)
{
    const char *home = getenv("CUDA_HOME");
    if (home != NULL && home[0] != '\0')
        list_add_format(candidates, "%s/include", home);
    list_add_format(candidates, "%s/toolkit/include", toolchain->library_dir);
    char *neighbour = nvcc_neighbour();
    if (neighbour != NULL)
        list_add(candidates, neighbour);
    free(neighbour);
    list_add(candidates, "/usr/local/cuda/include");
    list_add(candidates, SOFTGPU_CUDA_INCLUDE_DIR);
}

/* `seen`: what was found of other versions. */
static void
complain_of_no_headers(const struct toolchain *toolchain, const char *seen)
{
    char *link = text_format("%s/toolkit/include", toolchain->library_dir);
    char target[PATH_MAX];
    const ssize_t length = readlink(link, target, sizeof(target) - 1);
    target[length > 0 ? length : 0] = '\0';
    char *points = length > 0 ? text_format(" (a link to %s)", target) : text_format("%s", "");
    complain("no headers of CUDA %d found in $CUDA_HOME, in %s%s, beside nvcc, in /usr/local/cuda or in %s%s; set "
             "CUDA_HOME to a toolkit of CUDA %d, or `pip install nvidia-cuda-runtime nvidia-cuda-crt "
             "nvidia-cuda-cccl`, then `python3 -m softgpu toolkit`",
             CUDA_MAJOR, link, points, SOFTGPU_CUDA_INCLUDE_DIR, seen, CUDA_MAJOR);
    free(points);
    free(link);
}

/* CUDA's headers: the first candidate of the version that the stand-in's libraries have. */
static bool
find_cuda(struct toolchain *toolchain)
{
    struct list candidates = {0};
    list_candidates(toolchain, &candidates);
    struct text seen = {0};
    text_append(&seen, "", 0);
    for (size_t i = 0; i < candidates.count; ++i) {
        const char *dir = candidates.items[i];
        if (!toolchain_is_cuda_dir(dir))
            continue;
        const int version = cudart_version(dir);
        if (version / 1000 != CUDA_MAJOR) {
            text_append_format(&seen, "; %s is version %d.%d", dir, version / 1000, version % 1000 / 10);
            continue;
        }
        add_dir(&toolchain->cuda_dirs, dir);
        char *cccl = text_format("%s/cccl", dir);
        add_dir(&toolchain->cuda_dirs, cccl);
        free(cccl);
        add_dir(&toolchain->cuda_dirs, SOFTGPU_CUBLAS_INCLUDE_DIR);
        add_dir(&toolchain->cuda_dirs, SOFTGPU_NCCL_INCLUDE_DIR);
        char *nccl = text_format("%s/../../nccl/include", toolchain->cuda_dirs.items[0]); /* of NVIDIA's wheels */
        add_dir(&toolchain->cuda_dirs, nccl);
        free(nccl);
        text_free(&seen);
        list_free(&candidates);
        return true;
    }
    complain_of_no_headers(toolchain, seen.data);
    return false;
}

/* A folder means the g++ in it, as for nvcc. */
static void
find_compiler(struct toolchain *toolchain, const char *compiler)
{
    struct stat info;
    if (compiler == NULL || compiler[0] == '\0')
        compiler = getenv("NVCC_CCBIN");
    if (compiler == NULL || compiler[0] == '\0')
        compiler = "g++";
    if (stat(compiler, &info) == 0 && S_ISDIR(info.st_mode)) {
        list_add_format(&toolchain->compiler, "%s/g++", compiler);
        return;
    }
    if (access(compiler, X_OK) == 0)
        list_add(&toolchain->compiler, compiler); /* a path, perhaps with blanks in it */
    else
        list_add_words(&toolchain->compiler, compiler);
}

bool
toolchain_find(struct toolchain *toolchain, const char *compiler)
{
    if (!find_self(toolchain) || !find_cuda(toolchain))
        return false;
    find_compiler(toolchain, compiler);
    return true;
}

void
toolchain_show(const struct toolchain *toolchain)
{
    const char *path = getenv("PATH");
    fprintf(stderr, "#$ TOP=%s/toolkit\n", toolchain->library_dir);
    fprintf(stderr, "#$ PATH=%s/toolkit/bin:%s\n", toolchain->library_dir, path != NULL ? path : "");
    fprintf(stderr, "#$ INCLUDES=\"-I%s\"\n", toolchain->cuda_dirs.items[0]);
    struct list libraries = {0};
    list_add_format(&libraries, "-L%s", toolchain->library_dir);
    list_add(&libraries, "-lcudart");
    fputs("#$ LIBRARIES=", stderr);
    process_show_words(&libraries);
    list_free(&libraries);
}
