/*
 * container.h - puts a module into the place of PTX or of a cubin (softgpu/module.h): of libnvrtc, and of softgpu-cc
 * for -ptx and -cubin. Pure.
 */
#ifndef SOFTGPU_NVRTC_CONTAINER_H
#define SOFTGPU_NVRTC_CONTAINER_H

#include "buffer.h"

/* Appends the text that stands for PTX, without a NUL. `module`: the bytes of its shared library. */
void container_write_text(const void *module, size_t bytes, struct buffer *text);

/* Appends the bytes that stand for a cubin. */
void container_write_cubin(const void *module, size_t bytes, struct buffer *cubin);

#endif
