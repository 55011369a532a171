/*
 * sides.h - __CUDA_ARCH__: device code as nvcc's device pass sees it, host code as its host pass does, in one source.
 *
 * A file that asks for the side is preprocessed twice, the second time with __CUDA_ARCH__. Functions of the device come
 * from the second text; of those for both sides each has both bodies, where these differ, and takes the one of the side
 * that it runs on. All other declarations come from the first text.
 */
#ifndef SOFTGPU_CC_SIDES_H
#define SOFTGPU_CC_SIDES_H

#include "lex.h"

/* Whether one of the user's files that this preprocessed text names asks for the side. */
bool sides_are_asked(const char *text, size_t length, const struct lex_paths *paths);

/* Appends the source of both sides to *out. Returns false after a message; *out is then untouched. */
bool sides_merge(const struct text *host, const struct text *device, const struct lex_paths *paths, struct text *out)
    __attribute__((warn_unused_result));

#endif
