/*
 * images.c - what the memory of a launch held before it, after it, and holds now.
 *
 * `now` is always what the device holds, as far as it was read: so only what differs is written back. Memory that no
 * run writes, as changing it has shown, is read at the end only.
 */
#include "interpose/scout/scout.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* Repetitions may differ by this much of the largest number, and what counts as the same by FACTOR times as much as
 * was seen. */
static const float MOST_DIFFERENCE = 1e-2F, FACTOR = 8.0F;

enum { BLOCK_BYTES = 16384 };

bool
images_add(struct images *images, struct allocation *allocation)
{
    if (images_find(images, allocation->number) != NULL)
        return true;
    struct image *grown = realloc(images->items, (images->count + 1) * sizeof(*grown));
    if (grown == NULL)
        return false;
    images->items = grown;
    size_t room = allocation->bytes + sizeof(uint32_t);
    struct image image = {.allocation = allocation,
                          .words = allocation->bytes / sizeof(uint32_t),
                          .before = malloc(room),
                          .after = malloc(room),
                          .now = malloc(room)};
    images->items[images->count++] = image;
    if (image.before == NULL || image.after == NULL || image.now == NULL)
        return false;
    memory_read(allocation, 0, image.before, allocation->bytes);
    images->bytes += 3 * room;
    if (images->bytes > scout_state.copied_bytes)
        scout_state.copied_bytes = images->bytes;
    return true;
}

void
images_note_host(const struct images *images)
{
    for (size_t i = 0; i < images->count; ++i) {
        struct allocation *allocation = images->items[i].allocation;
        allocation->is_shared =
            allocation->is_shared ||
            (allocation->left_known && XXH3_64bits(images->items[i].before, allocation->bytes) != allocation->left);
    }
}

void
images_note_left(const struct images *images)
{
    for (size_t i = 0; i < images->count; ++i) {
        struct allocation *allocation = images->items[i].allocation;
        allocation->left_known = allocation->memory == SCOUT_MANAGED;
        if (allocation->left_known)
            allocation->left = XXH3_64bits(images->items[i].after, allocation->bytes);
    }
}

struct image *
images_find(const struct images *images, uint32_t alloc)
{
    for (size_t i = 0; i < images->count; ++i) {
        if (images->items[i].allocation->number == alloc)
            return &images->items[i];
    }
    return NULL;
}

bool
images_first_run(struct images *images)
{
    bool host_changed = false;
    for (size_t i = 0; i < images->count; ++i)
        memory_read_later(images->items[i].allocation, 0, images->items[i].after, images->items[i].allocation->bytes);
    memory_wait();
    for (size_t i = 0; i < images->count; ++i) {
        struct image *image = &images->items[i];
        size_t bytes = image->allocation->bytes;
        memcpy(image->now, image->after, bytes);
        image->is_written = memcmp(image->before, image->after, bytes) != 0;
        image->allocation->held_floats =
            image->allocation->held_floats || change_looks_like_floats(image->after, image->words);
        host_changed = host_changed || (image->is_written && image->allocation->memory == SCOUT_PINNED);
    }
    return host_changed;
}

void
images_read(struct images *images, bool all)
{
    for (size_t i = 0; i < images->count; ++i) {
        struct image *image = &images->items[i];
        if (!all && !image->is_written && image->is_settled)
            continue;
        memory_read_later(image->allocation, 0, image->now, image->allocation->bytes);
        image->is_untouched = false;
    }
    memory_wait();
}

void
images_restore(struct images *images, bool after)
{
    for (size_t i = 0; i < images->count; ++i) {
        struct image *image = &images->items[i];
        const char *wanted = (const char *)(after ? image->after : image->before);
        char *now = (char *)image->now;
        size_t bytes = image->allocation->bytes;
        if (image->is_untouched && !(after && image->is_written))
            continue;
        image->is_untouched = !after;
        for (size_t at = 0; at < bytes;) {
            size_t block = bytes - at < BLOCK_BYTES ? bytes - at : BLOCK_BYTES, end = at;
            while (end < bytes && memcmp(wanted + end, now + end, block) != 0) {
                end += block;
                block = bytes - end < BLOCK_BYTES ? bytes - end : BLOCK_BYTES;
            }
            if (end > at) {
                memcpy(now + at, wanted + at, end - at);
                memory_write(image->allocation, at, wanted + at, end - at);
            }
            at = end + block;
        }
    }
}

void
images_free(struct images *images)
{
    for (size_t i = 0; i < images->count; ++i) {
        free(images->items[i].before);
        free(images->items[i].after);
        free(images->items[i].now);
    }
    free(images->items);
    *images = (struct images){0};
}

bool
images_learn(struct images *images, bool *differs_p)
{
    bool within = true;
    for (size_t i = 0; i < images->count; ++i) {
        struct image *image = &images->items[i];
        float most = 0, largest = 0;
        if (memcmp(image->now, image->after, image->allocation->bytes) == 0)
            continue;
        *differs_p = true;
        for (size_t k = 0; k < image->words; ++k) {
            if (image->now[k] == image->after[k])
                continue;
            float difference = fabsf(change_as_float(image->now[k]) - change_as_float(image->after[k]));
            within = within && isfinite(difference);
            most = fmaxf(most, difference);
            largest = fmaxf(largest, fabsf(change_as_float(image->after[k])));
        }
        within = within && most > 0 && most <= MOST_DIFFERENCE * largest;
        image->tolerance = fmaxf(image->tolerance, FACTOR * most);
    }
    return within;
}
