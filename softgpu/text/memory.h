/*
 * memory.h - memory for what reads sources: programs of one thread that live for seconds. Running out of memory ends
 * them with a message, so that nothing can fail.
 */
#ifndef SOFTGPU_TEXT_MEMORY_H
#define SOFTGPU_TEXT_MEMORY_H

#include <stddef.h>

/* realloc() that does not return NULL. */
void *memory_grow(void *block, size_t bytes);

#endif
