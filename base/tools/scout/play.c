/*
 * play.c - see play.h.
 */
#include "base/tools/scout/play.h"

#include "base/tools/direct.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static bool
write_whole(FILE *file, const void *bytes, size_t size, size_t count)
{
    return fwrite(bytes, size, count, file) == count;
}

static size_t
all_operations(const struct play *play)
{
    return (size_t)play->plan.operation_count + play->plan.load_count;
}

bool
play_save(const char *path, const struct play *play)
{
    int fd = open_direct(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    FILE *file = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (file == NULL)
        return false;
    bool ok = write_whole(file, &play->plan, sizeof(play->plan), 1) &&
              write_whole(file, play->tensors, sizeof(*play->tensors), play->plan.tensor_count) &&
              write_whole(file, play->operations, sizeof(*play->operations), all_operations(play)) &&
              write_whole(file, play->objects, sizeof(*play->objects), play->plan.object_count);
    return fclose(file) == 0 && ok;
}

/* malloc'ed; NULL with errno. */
static void *
read_list(FILE *file, size_t size, size_t count)
{
    void *list = calloc(count + 1, size);
    if (list != NULL && fread(list, size, count, file) != count) {
        free(list);
        errno = EINVAL;
        return NULL;
    }
    return list;
}

bool
play_load(const char *path, struct play *play)
{
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return false;
    bool ok = fread(&play->plan, sizeof(play->plan), 1, file) == 1 && play->plan.version == PLAY_VERSION;
    play->tensors = NULL;
    play->operations = NULL;
    play->objects = NULL;
    if (!ok)
        errno = EINVAL;
    else
        play->tensors = read_list(file, sizeof(*play->tensors), play->plan.tensor_count);
    if (play->tensors != NULL)
        play->operations = read_list(file, sizeof(*play->operations), all_operations(play));
    if (play->operations != NULL)
        play->objects = read_list(file, sizeof(*play->objects), play->plan.object_count);
    int cause = errno;
    fclose(file);
    errno = cause;
    play->plan.pages[sizeof(play->plan.pages) - 1] = '\0';
    return play->objects != NULL;
}

/* ---- pages ---- */

static size_t
hashes_bytes(const struct play_plan *plan)
{
    return ((size_t)plan->steps + 1) * plan->tensor_count * sizeof(uint64_t);
}

static size_t
page_bytes(const struct play_plan *plan)
{
    return sizeof(struct play_page) + hashes_bytes(plan) + (size_t)plan->tensor_count * PLAY_SAMPLES * sizeof(float);
}

struct play_page *
play_page_map(const struct play_plan *plan, int rank, bool create)
{
    char path[PATH_MAX + 16];
    snprintf(path, sizeof(path), "%s-%d", plan->pages, rank);
    int fd = open_direct(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | (create ? O_CREAT | O_TRUNC : 0), 0600);
    if (fd < 0)
        return NULL;
    void *page = MAP_FAILED;
    if (!create || ftruncate(fd, (off_t)page_bytes(plan)) == 0)
        page = mmap(NULL, page_bytes(plan), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    int cause = errno;
    close(fd);
    errno = cause;
    return page != MAP_FAILED ? page : NULL;
}

void
play_page_unmap(const struct play_plan *plan, struct play_page *page)
{
    if (page != NULL)
        munmap(page, page_bytes(plan));
}

uint64_t *
play_hash(const struct play_plan *plan, struct play_page *page, uint32_t step, uint32_t tensor)
{
    return (uint64_t *)(void *)(page + 1) + (size_t)step * plan->tensor_count + tensor;
}

float *
play_sample(const struct play_plan *plan, struct play_page *page, uint32_t tensor)
{
    char *samples = (char *)(page + 1) + hashes_bytes(plan);
    return (float *)(void *)samples + (size_t)tensor * PLAY_SAMPLES;
}
