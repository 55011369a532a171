/* play.c - see play.h. */
#include "tools/plan/format/play.h"

#include "tools/check/format/element.h"
#include "tools/common/direct.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static bool
write_whole(FILE *file, const void *bytes, size_t size, size_t count)
{
    return count == 0 || fwrite(bytes, size, count, file) == count;
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
              write_whole(file, play->operations, sizeof(*play->operations), play->plan.operation_count) &&
              write_whole(file, play->objects, sizeof(*play->objects), play->plan.object_count) &&
              write_whole(file, play->written, sizeof(*play->written), play->plan.written_count);
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

/* Whether the lists end where the file ends: none is made for numbers that a damaged file names. */
static bool
has_bytes(FILE *file, const struct play *play)
{
    struct stat status;
    uint64_t bytes = sizeof(play->plan) + play->plan.tensor_count * (uint64_t)sizeof(*play->tensors) +
                     play->plan.operation_count * (uint64_t)sizeof(*play->operations) +
                     play->plan.object_count * (uint64_t)sizeof(*play->objects) +
                     play->plan.written_count * (uint64_t)sizeof(*play->written);
    return fstat(fileno(file), &status) == 0 && (uint64_t)status.st_size == bytes;
}

bool
play_tensor_fits(const struct play_plan *plan, const struct play_tensor *tensor)
{
    bool is_float = tensor->type >= ELEMENT_FLOAT32 && tensor->type <= ELEMENT_BFLOAT16;
    if (plan->by != PLAY_BY_STATE)
        return tensor->role >= PLAY_PARAMETER && tensor->role <= PLAY_UNREAD;
    if (tensor->role == PLAY_CHANGES || tensor->role == PLAY_SUM) {
        size_t size = element_size((int)tensor->type);
        return (is_float || (tensor->role == PLAY_SUM && element_bytes((int)tensor->type) >= sizeof(uint32_t))) &&
               tensor->lo % size == 0 && tensor->hi % size == 0;
    }
    return tensor->role >= PLAY_PER_RANK && tensor->role <= PLAY_LAST;
}

uint64_t
play_state_bytes(const struct play *play)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < play->plan.tensor_count; ++i) {
        const struct play_tensor *tensor = &play->tensors[i];
        uint64_t size = element_size((int)tensor->type), wide = size > sizeof(float) ? size : sizeof(float);
        if (tensor->role == PLAY_CHANGES || tensor->role == PLAY_SUM)
            bytes += (tensor->hi - tensor->lo) + (tensor->hi - tensor->lo) / size * wide;
        else if (tensor->role == PLAY_LAST)
            bytes += tensor->hi - tensor->lo;
    }
    return bytes;
}

bool
play_load(const char *path, struct play *play)
{
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return false;
    *play = (struct play){0};
    bool ok = fread(&play->plan, sizeof(play->plan), 1, file) == 1 && play->plan.version == PLAY_VERSION &&
              has_bytes(file, play);
    errno = EINVAL;
    ok = ok && (play->tensors = read_list(file, sizeof(*play->tensors), play->plan.tensor_count)) != NULL &&
         (play->operations = read_list(file, sizeof(*play->operations), play->plan.operation_count)) != NULL &&
         (play->objects = read_list(file, sizeof(*play->objects), play->plan.object_count)) != NULL &&
         (play->written = read_list(file, sizeof(*play->written), play->plan.written_count)) != NULL;
    int cause = errno;
    fclose(file);
    if (!ok)
        play_free(play);
    errno = cause;
    return ok;
}

void
play_free(struct play *play)
{
    free(play->tensors);
    free(play->operations);
    free(play->objects);
    free(play->written);
    *play = (struct play){0};
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
    return direct_map(path, page_bytes(plan), create);
}

struct play_exchange *
play_exchange_map(const char *path, bool create)
{
    char reads[PATH_MAX + 16];
    snprintf(reads, sizeof(reads), "%s.reads", path);
    return direct_map(reads, sizeof(struct play_exchange), create);
}

void
play_exchange_unmap(struct play_exchange *exchange)
{
    if (exchange != NULL)
        munmap(exchange, sizeof(*exchange));
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
