/* play.c - see play.h. */
#include "tools/plan/format/play.h"

#include "tools/common/direct.h"
#include "tools/near/element.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>

/* The lists of a play, each with its length: they follow the plan in its file. */
#define LIST(list, length)                                                                                    \
    {                                                                                                         \
        offsetof(struct play, list), offsetof(struct play, plan.length), sizeof(*((struct play *)NULL)->list) \
    }
enum { LISTS = 4 };
static const struct {
    size_t items, count, size;
} lists[LISTS] = {LIST(tensors, tensor_count), LIST(operations, operation_count), LIST(objects, object_count),
                  LIST(written, written_count)};

static void **
list_of(const struct play *play, int i)
{
    return (void **)(void *)((char *)(uintptr_t)play + lists[i].items);
}

static size_t
bytes_of(const struct play *play, int i)
{
    return *(const uint32_t *)(const void *)((const char *)play + lists[i].count) * lists[i].size;
}

bool
play_save(const char *path, const struct play *play)
{
    int fd = open_direct(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    bool ok = fd >= 0 && direct_write(fd, &play->plan, sizeof(play->plan), -1);
    for (int i = 0; i < LISTS && ok; ++i)
        ok = direct_write(fd, *list_of(play, i), bytes_of(play, i), -1);
    return fd >= 0 && close(fd) == 0 && ok;
}

bool
play_tensor_fits(const struct play_plan *plan, const struct play_tensor *tensor)
{
    bool is_float = tensor->type >= ELEMENT_FLOAT32 && tensor->type <= ELEMENT_BFLOAT16;
    if (plan->by != PLAY_BY_STATE && tensor->role != PLAY_CHANGES)
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
    FOR_EACH(tensor, play->tensors, play->plan.tensor_count) {
        uint64_t size = element_size((int)tensor->type), wide = size > sizeof(float) ? size : sizeof(float);
        if (tensor->role == PLAY_CHANGES || tensor->role == PLAY_SUM)
            bytes += (tensor->hi - tensor->lo) + (tensor->hi - tensor->lo) / size * wide;
        else if (tensor->role == PLAY_LAST)
            bytes += tensor->hi - tensor->lo;
    }
    return bytes;
}

/* Whether the lists end where the file ends: none is made for numbers that a damaged file names. */
static bool
has_bytes(int fd, const struct play *play)
{
    struct stat status;
    uint64_t bytes = sizeof(play->plan);
    for (int i = 0; i < LISTS; ++i)
        bytes += bytes_of(play, i);
    return fstat(fd, &status) == 0 && (uint64_t)status.st_size == bytes;
}

bool
play_load(const char *path, struct play *play)
{
    OWNED_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
    *play = (struct play){0};
    bool ok = fd >= 0 && direct_read(fd, &play->plan, sizeof(play->plan), -1);
    if (ok && (play->plan.version != PLAY_VERSION || !has_bytes(fd, play))) {
        errno = EINVAL;
        ok = false;
    }
    for (int i = 0; i < LISTS && ok; ++i) {
        *list_of(play, i) = calloc(1, bytes_of(play, i) + lists[i].size);
        ok = *list_of(play, i) != NULL && direct_read(fd, *list_of(play, i), bytes_of(play, i), -1);
    }
    int cause = errno;
    if (!ok)
        play_free(play);
    errno = cause;
    return ok;
}

void
play_free(struct play *play)
{
    for (int i = 0; i < LISTS; ++i)
        free(*list_of(play, i));
    *play = (struct play){0};
}

/* ---- pages ---- */

struct play_seen *
play_seen(const struct play_plan *plan, struct play_page *page, uint32_t step, uint32_t tensor)
{
    return (struct play_seen *)(void *)(page + 1) + (size_t)step * plan->tensor_count + tensor;
}

float *
play_sample(const struct play_plan *plan, struct play_page *page, uint32_t tensor)
{
    return (float *)(void *)play_seen(plan, page, plan->steps + 1, 0) + (size_t)tensor * PLAY_SAMPLES;
}

static size_t
page_bytes(const struct play_plan *plan)
{
    return sizeof(struct play_page) + ((size_t)plan->steps + 1) * plan->tensor_count * sizeof(struct play_seen) +
           (size_t)plan->tensor_count * PLAY_SAMPLES * sizeof(float);
}

int
play_compared_type(const struct play_tensor *tensor)
{
    const bool is_open = tensor->type == 0 || tensor->type == ELEMENT_UINT32;
    if (!is_open)
        return (int)tensor->type;
    const bool is_of_floats = (tensor->lo | tensor->hi) % sizeof(float) == 0;
    return is_of_floats ? ELEMENT_FLOAT32 : ELEMENT_UINT8;
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
