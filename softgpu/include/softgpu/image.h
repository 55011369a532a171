/*
 * image.h - how a kernel compiled for the CPU reaches the stand-in's driver.
 *
 * On a GPU, cuLibraryLoadData() takes a fatbin. On the stand-in it takes a `struct softgpu_image`: one kernel as a
 * function of the host program, with the sizes of its parameters. softgpu-cc emits one image for each kernel (and one
 * for each instantiation of a kernel template); the stand-in's cuBLAS and NCCL bring images of their own. From there on
 * a kernel is an ordinary CUkernel/CUfunction: launched by cuLaunchKernel, asked about by cuFuncGetParamInfo, so that
 * an interposer sees what it would see on a GPU.
 *
 * Who reads this: softgpu/device (the stubs), softgpu/cudart, softgpu/cublas, softgpu/nccl (they pass images on),
 * softgpu/cuda (the driver, which runs them). C and C++. Bump SOFTGPU_IMAGE_VERSION when a field changes its meaning or
 * place.
 */
#ifndef SOFTGPU_IMAGE_H
#define SOFTGPU_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SOFTGPU_IMAGE_MAGIC   "SOFTGPU" /* with its NUL: the first 8 bytes of an image */
#define SOFTGPU_IMAGE_VERSION 2u

/* One parameter of a kernel, as cuFuncGetParamInfo reports it. */
struct softgpu_param {
    size_t offset; /* within the parameter block, naturally aligned */
    size_t bytes;
};

/* One launch, as a kernel's run function sees it. Valid for the duration of the call. */
struct softgpu_launch {
    unsigned grid[3];
    unsigned block[3];
    size_t dynamic_shared_bytes;
    const void *const *args; /* args[i]: the driver's copy of parameter i, aligned for its type */
    uint64_t block_begin;    /* the linear blocks that this call is to run, x fastest: [block_begin, block_end) */
    uint64_t block_end;
    /* SOFTGPU_UNRULY: what the order of a block's warps is drawn from. 0: they run in their order. */
    uint64_t draw;
    /* Threads at the begin and the end of each block that this call does not run; set by softgpu_loop_begin() and
       softgpu_loop_next() only. */
    unsigned threads_before, threads_behind;
    /* Blocks that run together, because they may wait for each other: so many in each dimension. 0: each by itself. */
    unsigned group[3];
    bool cooperative; /* the group is the grid; else it is a cluster */
};

/* What a cudaTextureObject_t points to: linear memory, read element by element. */
struct softgpu_texture {
    const void *memory;
    size_t bytes;
};

enum softgpu_image_flags {
    /* run() is one piece of work for the whole grid (a BLAS call, a collective), called once, never divided among
       workers. */
    SOFTGPU_IMAGE_WHOLE_GRID = 1u << 0,
    SOFTGPU_IMAGE_HANDLE = 1u << 1, /* the image has a `handle` */
};

struct softgpu_image {
    char magic[8];    /* SOFTGPU_IMAGE_MAGIC */
    uint32_t version; /* SOFTGPU_IMAGE_VERSION */
    uint32_t flags;   /* enum softgpu_image_flags */
    const char *name; /* what error messages show */
    void (*run)(const struct softgpu_launch *launch);
    uint32_t param_count;
    const struct softgpu_param *params;
    size_t static_shared_bytes;     /* may be filled in late; 0 if unknown */
    unsigned max_threads_per_block; /* __launch_bounds__, or 1024 */
    const char *linked_name;        /* what cuFuncGetName shows: as compilers of C++ write it; NULL: `name` */
    /* The runtime's kernel, a CUkernel, once the image is loaded by the stub or by the runtime: they share it, with its
       attributes. Set once, atomically. */
    void **handle;
};

#ifdef __cplusplus
}
#endif
#endif
