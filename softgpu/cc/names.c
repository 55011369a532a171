/*
 * names.c - see names.h. Open addressing, linear probing, at most half full.
 */
#include "names.h"

#include "text.h"

#include <stdlib.h>
#include <string.h>

/* FNV-1a, 64 bits. */
static uint64_t
hash(const char *word, uint32_t length)
{
    uint64_t value = 0xcbf29ce484222325u;
    for (uint32_t i = 0; i < length; ++i)
        value = (value ^ (unsigned char)word[i]) * 0x100000001b3u;
    return value;
}

static struct name *
slot_of(struct name *slots, size_t capacity, const char *word, uint32_t length)
{
    for (size_t i = hash(word, length) & (capacity - 1);; i = (i + 1) & (capacity - 1)) {
        struct name *slot = &slots[i];
        if (slot->word == NULL || (slot->length == length && memcmp(slot->word, word, length) == 0))
            return slot;
    }
}

static void
grow(struct names *names)
{
    const size_t capacity = names->capacity == 0 ? 1024 : 2 * names->capacity;
    struct name *slots = memory_grow(NULL, capacity * sizeof(*slots));
    memset(slots, 0, capacity * sizeof(*slots));
    for (size_t i = 0; i < names->capacity; ++i) {
        const struct name *old = &names->slots[i];
        if (old->word != NULL)
            *slot_of(slots, capacity, old->word, old->length) = *old;
    }
    free(names->slots);
    names->slots = slots;
    names->capacity = capacity;
}

struct name *
names_add(struct names *names, const char *word, uint32_t length)
{
    if (2 * (names->count + 1) > names->capacity)
        grow(names);
    struct name *slot = slot_of(names->slots, names->capacity, word, length);
    if (slot->word == NULL) {
        slot->word = word;
        slot->length = length;
        ++names->count;
    }
    return slot;
}

const struct name *
names_find(const struct names *names, const char *word, uint32_t length)
{
    if (names->capacity == 0)
        return NULL;
    const struct name *slot = slot_of(names->slots, names->capacity, word, length);
    return slot->word != NULL ? slot : NULL;
}

uint32_t
names_bits(const struct names *names, const char *word, uint32_t length)
{
    const struct name *found = names_find(names, word, length);
    return found != NULL ? found->bits : 0;
}

void
names_free(struct names *names)
{
    free(names->slots);
    *names = (struct names){0};
}
