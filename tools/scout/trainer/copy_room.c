/*
 * copy_room.c - room for copies of the device's memory: one block for all copies of a launch, kept for the next launch.
 *
 * Fresh pages cost as much as copying into them. The block is locked, where the driver can do that: from other memory
 * it copies twice, and into other memory it waits for each copy. A forked child does not get the block: pages that both
 * share are copied at the next write, and the device would keep the old ones.
 *
 * Three copies of a large allocation are views of one file in memory: pages that are alike in all of them are there
 * once. Such pages cannot be locked.
 */
#include "tools/scout/trainer/scout.h"

#include <sys/mman.h>
#include <unistd.h>

enum { ALIGNMENT = 64 };

static struct {
    char *begin;
    size_t bytes, used;
    size_t wanted; /* since it was empty: more than `bytes`, if it was too small */
} block;

static struct views {
    void *view[COPIES_VIEWS];
    size_t bytes;
    bool taken;
} * views;
static size_t views_count;

/* Another file. */
static bool
views_map(struct views *made, size_t bytes)
{
    *made = (struct views){.bytes = bytes};
    int fd = memfd_create("ddprun-scout", MFD_CLOEXEC);
    bool ok = fd >= 0 && ftruncate(fd, (off_t)bytes) == 0;
    for (size_t i = 0; i < COPIES_VIEWS; ++i) {
        const int how = i == 0 ? MAP_SHARED : MAP_PRIVATE | MAP_NORESERVE;
        void *pages = ok ? mmap(NULL, bytes, PROT_READ | PROT_WRITE, how, fd, 0) : MAP_FAILED;
        ok = pages != MAP_FAILED && madvise(pages, bytes, MADV_DONTFORK) == 0;
        made->view[i] = pages != MAP_FAILED ? pages : NULL;
    }
    if (fd >= 0)
        close(fd);
    for (size_t i = 0; i < COPIES_VIEWS && !ok; ++i)
        if (made->view[i] != NULL)
            (void)munmap(made->view[i], bytes);
    return ok;
}

bool
copies_get_views(size_t bytes, void **view)
{
    struct views made, *found = FIND(it, views, views_count, !it->taken && it->bytes == bytes);
    if (found == NULL) {
        if (COPIES_LARGE_TIMES * bytes > room_available("") || !views_map(&made, bytes))
            return false;
        found = SCOUT_GROWN(views, views_count);
        *found = made;
    }
    for (size_t i = 0; i < COPIES_VIEWS; ++i) {
        view[i] = found->view[i];
        if (i > 0) /* as the first one again */
            (void)madvise(view[i], bytes, MADV_DONTNEED);
    }
    found->taken = true;
    return true;
}

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

/* Unlocks and unmaps the block of copies, if there is one. */
static void
free_block(void)
{
    if (block.begin == NULL)
        return;
    if (scout_state.driver.cuMemHostUnregister_p != NULL)
        (void)scout_state.driver.cuMemHostUnregister_p(block.begin); /* fails where it could not be locked */
    (void)munmap(block.begin, block.bytes);
    block.begin = NULL;
    block.bytes = 0;
}

void
copies_settle(void)
{
    size_t wanted = block.wanted;
    block.used = block.wanted = 0;
    for (size_t i = 0; i < views_count; ++i)
        views[i].taken = false;
    if (wanted <= block.bytes)
        return;
    free_block();
    block.begin = copies_map(wanted);
    block.bytes = block.begin != NULL ? wanted : 0;
}

void
copies_free(void)
{
    free_block();
    for (size_t i = 0; i < views_count * COPIES_VIEWS; ++i)
        (void)munmap(views[i / COPIES_VIEWS].view[i % COPIES_VIEWS], views[i / COPIES_VIEWS].bytes);
    free(views);
    views = NULL;
    views_count = 0;
}
