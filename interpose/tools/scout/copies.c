/*
 * copies.c - room for copies of the device's memory: one block for all copies of a launch, kept for the next launch.
 *
 * Fresh pages cost as much as copying into them. The block is locked, where the driver can do that: from other memory
 * it copies twice, and into other memory it waits for each copy. A forked child does not get the block: pages that both
 * share are copied at the next write, and the device would keep the old ones.
 */
#include "interpose/tools/scout/scout.h"

#include <stdlib.h>
#include <sys/mman.h>

enum { ALIGNMENT = 64 };

static struct {
    char *begin;
    size_t bytes, used;
    size_t wanted; /* since it was empty: more than `bytes`, if it was too small */
} block;

void *
copies_map(size_t bytes)
{
    void *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED)
        return NULL;
    if (scout_state.driver.cuMemHostRegister_p != NULL && madvise(pages, bytes, MADV_DONTFORK) == 0)
        (void)scout_state.driver.cuMemHostRegister_p(pages, bytes, CU_MEMHOSTREGISTER_PORTABLE);
    return pages;
}

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

void
copies_settle(void)
{
    size_t wanted = block.wanted;
    block.used = block.wanted = 0;
    if (wanted <= block.bytes)
        return;
    copies_free();
    block.begin = copies_map(wanted);
    block.bytes = block.begin != NULL ? wanted : 0;
}

void
copies_free(void)
{
    if (block.begin == NULL)
        return;
    if (scout_state.driver.cuMemHostUnregister_p != NULL)
        (void)scout_state.driver.cuMemHostUnregister_p(block.begin); /* fails where it could not be locked */
    (void)munmap(block.begin, block.bytes);
    block.begin = NULL;
    block.bytes = 0;
}
