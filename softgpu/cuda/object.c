/*
 * object.c - memory for the objects behind handles.
 *
 * A program may use a handle after it destroyed it; CUDA answers with an error. To be able to look at a stale handle at
 * all, memory of one kind of object is never used for anything else and never returned: the magic word of a destroyed
 * object reads 0, and a recycled one is at least of the right kind.
 */
#include "driver.h"

#include <stdlib.h>
#include <string.h>

enum { OBJECTS_PER_CHUNK = 64 };

struct free_object {
    max_align_t magic_stays; /* the object's first words keep saying "destroyed" */
    struct free_object *next;
};

static struct {
    pthread_mutex_t lock; /* guards this kind's free list */
    struct free_object *free;
    void *chunks; /* linked through their first word, so that leak checkers see them */
} kinds[OBJECT_KIND_COUNT] = {
    [0 ... OBJECT_KIND_COUNT - 1] = {PTHREAD_MUTEX_INITIALIZER, NULL, NULL},
};

/* Objects are as large as the largest of their kind, which is always asked for with the same size. */
static void
add_chunk(enum object_kind kind, size_t bytes)
{
    unsigned char *chunk = calloc(OBJECTS_PER_CHUNK + 1, bytes);
    if (chunk == NULL) {
        return;
    }
    *(void **)chunk = kinds[kind].chunks;
    kinds[kind].chunks = chunk;
    for (int i = 1; i <= OBJECTS_PER_CHUNK; ++i) {
        struct free_object *object = (struct free_object *)(chunk + (size_t)i * bytes);
        object->next = kinds[kind].free;
        kinds[kind].free = object;
    }
}

void *
object_take(enum object_kind kind, size_t bytes)
{
    bytes = (bytes + 63) & ~(size_t)63;
    pthread_mutex_lock(&kinds[kind].lock);
    if (kinds[kind].free == NULL) {
        add_chunk(kind, bytes);
    }
    struct free_object *object = kinds[kind].free;
    if (object != NULL) {
        kinds[kind].free = object->next;
    }
    pthread_mutex_unlock(&kinds[kind].lock);
    if (object != NULL) {
        memset((unsigned char *)object + sizeof(uint32_t), 0, bytes - sizeof(uint32_t));
    }
    return object;
}

void
object_give(enum object_kind kind, void *memory)
{
    struct free_object *object = memory;
    pthread_mutex_lock(&kinds[kind].lock);
    object->next = kinds[kind].free;
    kinds[kind].free = object;
    pthread_mutex_unlock(&kinds[kind].lock);
}
