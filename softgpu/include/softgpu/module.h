/*
 * module.h - kernels that a program compiles while it runs: how they get from libnvrtc to the driver.
 *
 * `softgpu-cc --softgpu-module` makes a module: a shared library with kernels and device variables, which calls
 * libsoftgpu.so alone and lists its kernels. libnvrtc, and softgpu-cc with -ptx or -cubin, hand it out in a container
 * of one of two forms, and cuModuleLoad... and cuLibraryLoad... of the stand-in take both:
 *
 *   in the place of a cubin   struct softgpu_cubin, then the bytes of the library
 *   in the place of PTX       SOFTGPU_PTX_BEGIN, lines of comments, and the library in base64 (RFC 4648, section 4) as
 *                             lines of text, up to the NUL. No line of it is PTX.
 *
 * Who reads this: softgpu/device (what a module holds), softgpu/nvrtc and softgpu/cc (write containers), softgpu/cuda
 * (reads them). C and C++. Raise SOFTGPU_MODULE_VERSION when a form, or struct softgpu_module_kernel, changes.
 */
#ifndef SOFTGPU_MODULE_H
#define SOFTGPU_MODULE_H

#include "softgpu/image.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SOFTGPU_MODULE_VERSION 1

#define SOFTGPU_CUBIN_MAGIC "SOFTMOD" /* with its NUL */

struct softgpu_cubin {
    char magic[8];    /* SOFTGPU_CUBIN_MAGIC */
    uint32_t version; /* SOFTGPU_MODULE_VERSION */
    uint32_t unused;  /* 0 */
    uint64_t bytes;   /* of the library, which begins after this struct */
};

/* The first line of the text, and the last comment before the base64. */
#define SOFTGPU_PTX_BEGIN "// softgpu module 1: code for the CPU, for the stand-in's driver. It is not PTX.\n"
#define SOFTGPU_PTX_CODE  "// code\n"

/* A kernel of a module. A module's list is never changed after its constructors have run. */
struct softgpu_module_kernel {
    const struct softgpu_image *(*image)(void); /* the same pointer each time; static storage of the module */
    const struct softgpu_module_kernel *next;
};

/* The symbol of a module: a `const struct softgpu_module_kernel *`, its first kernel or NULL. */
#define SOFTGPU_MODULE_KERNELS "softgpu_module_kernels"

#ifdef __cplusplus
}
#endif
#endif
