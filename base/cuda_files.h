/*
 * cuda_files.h - is a file of CUDA's? Told by names: of libraries, and of the sections that a program with kernels has.
 *
 * Asked by the launcher of programs and what they load, and by the shim between fork and exec: only compares.
 */
#ifndef DDPRUN_BASE_CUDA_FILES_H
#define DDPRUN_BASE_CUDA_FILES_H

#include "base/printable.h"

#include <stdbool.h>

/* Whether a library of this name or path is one of CUDA's, of which the stand-in has some and NVIDIA's toolkit all. */
static inline bool
is_library_of_cuda(const char *name)
{
    static const char *const families[] = {"libcuda.so",     "libcudart.so",   "libcublas.so", "libcublasLt.so",
                                           "libcurand.so",   "libcudnn",       "libnccl.so",   "libcufft.so",
                                           "libcusparse.so", "libcusolver.so", "libnvrtc",     "libnvJitLink.so"};
    for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); ++i) {
        if (strncmp(file_name_of(name), families[i], strlen(families[i])) == 0)
            return true;
    }
    return false;
}

/* Whether a section of this name holds kernels, by nvcc or softgpu-cc; of a file of symbols it is SHT_NOBITS. */
static inline bool
is_section_of_kernels(const char *name)
{
    return strcmp(name, ".nv_fatbin") == 0 || strcmp(name, ".softgpu_kernels") == 0;
}

#endif
