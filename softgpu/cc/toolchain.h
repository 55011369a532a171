/*
 * toolchain.h - where things are: the stand-in's libraries and headers, CUDA's headers, the host compiler.
 */
#ifndef SOFTGPU_CC_TOOLCHAIN_H
#define SOFTGPU_CC_TOOLCHAIN_H

#include "text.h"

struct toolchain {
    char *library_dir;     /* lib/softgpu beside the folder of this executable */
    char *header_dir;      /* lib/softgpu/include */
    struct list cuda_dirs; /* CUDA's header folders, in search order */
    struct list compiler;  /* the host C++ compiler; more than a word if $NVCC_CCBIN has options */
};

/* `compiler`: -ccbin, or NULL. Returns false after a message. */
bool toolchain_find(struct toolchain *toolchain, const char *compiler) __attribute__((warn_unused_result));

/* Whether `dir` holds CUDA's headers. */
bool toolchain_is_cuda_dir(const char *dir);

/* Where things are, on stderr in the form in which `nvcc -v` says it, for build systems that look for it there. */
void toolchain_show(const struct toolchain *toolchain);

#endif
