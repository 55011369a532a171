/*
 * copies.c - room for copies of the device's memory: one block for all copies of a launch, kept for the next launch.
 *
 * Fresh pages cost as much as copying into them. The block is locked, where the driver can do that: from other memory
 * it copies twice, and into other memory it waits for each copy.
 */
#include "interpose/scout/scout.h"

#include <stdlib.h>

enum { ALIGNMENT = 64 };

static struct {
    char *begin;
    size_t bytes, used;
    size_t wanted; /* since it was empty: more than `bytes`, if it was too small */
    bool is_locked;
} block;

void *
copies_get(size_t bytes)
{
    size_t rounded = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (rounded > block.bytes - block.used) {
        void *copy = malloc(bytes);
        block.wanted += copy != NULL ? rounded : 0;
        return copy;
    }
    block.wanted += rounded;
    block.used += rounded;
    return block.begin + block.used - rounded;
}

void
copies_put(void *copy)
{
    if ((uintptr_t)copy - (uintptr_t)block.begin >= block.bytes)
        free(copy);
}

bool
copies_lock(void *begin, size_t bytes)
{
    const struct driver *driver = &scout_state.driver;
    return driver->cuMemHostRegister_p != NULL && driver->cuMemHostUnregister_p != NULL &&
           driver->cuMemHostRegister_p(begin, bytes, CU_MEMHOSTREGISTER_PORTABLE) == CUDA_SUCCESS;
}

void
copies_settle(void)
{
    if (block.wanted > block.bytes) {
        if (block.is_locked)
            (void)scout_state.driver.cuMemHostUnregister_p(block.begin);
        free(block.begin);
        block.bytes = (block.wanted + COPIES_PAGE_BYTES - 1) / COPIES_PAGE_BYTES * COPIES_PAGE_BYTES;
        block.begin = aligned_alloc(COPIES_PAGE_BYTES, block.bytes);
        if (block.begin == NULL)
            block.bytes = 0;
        block.is_locked = block.begin != NULL && copies_lock(block.begin, block.bytes);
    }
    block.used = block.wanted = 0;
}
