/*
 * kernel_files.h - ddprun's own kernels for GPUs come in two files: NAME.fatbin, which drivers of CUDA 13 load, and
 * NAME-cuda12.fatbin, for those of CUDA 12 (cmake/Cuda12Kernels.cmake). The engine loads one, the doctor tries which.
 */
#ifndef DDPRUN_BASE_KERNEL_FILES_H
#define DDPRUN_BASE_KERNEL_FILES_H

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The files to try, the likeliest first; NULL: no more. */
struct kernel_files {
    const char *paths[2];
    char other[PATH_MAX];
};

/* Of NAME.fatbin at `path`, for a driver that serves CUDA `version` (12040 for 12.4; 0: not known). `files` lives as
 * long as its paths are used, and stays in its place. */
static inline void
kernel_files_find(const char *path, int version, struct kernel_files *files)
{
    static const char end[] = ".fatbin";
    size_t length = strlen(path), stem = length - strlen(end);
    files->paths[0] = path;
    files->paths[1] = NULL;
    if (length < strlen(end) || strcmp(path + stem, end) != 0)
        return;
    int used = snprintf(files->other, sizeof(files->other), "%.*s-cuda12%s", (int)stem, path, end);
    if (used < 0 || (size_t)used >= sizeof(files->other) || access(files->other, R_OK) != 0)
        return;
    bool is_of_12 = version > 0 && version < 13000;
    files->paths[is_of_12 ? 0 : 1] = files->other;
    files->paths[is_of_12 ? 1 : 0] = path;
}

#endif
