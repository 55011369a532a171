/*
 * integers.c - other contents for memory that holds whole numbers: what was there in another period.
 *
 * Whole numbers say where something is, or how much of it there is: tokens, offsets, shapes. Any other number may lead
 * a kernel out of its memory, and so may the same ones in another order. What the program itself has put there for the
 * same launch does not. What is the same in all periods stays: nothing of a step can depend on it.
 */
#include "base/mutant.h"
#include "interpose/tools/scout/scout.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum { KEPT_AT_MOST = 1 << 26 }; /* bytes of copies */

static struct held {
    uint64_t key, hash;
    size_t count;
    uint32_t *last, *other; /* NULL: none, or no room */
} * held;
static size_t held_count, kept_bytes;

static struct held *
find(uint64_t key)
{
    for (size_t i = 0; i < held_count; ++i) {
        if (held[i].key == key)
            return &held[i];
    }
    struct held *grown = realloc(held, (held_count + 1) * sizeof(*held));
    if (grown == NULL)
        scout_stop("out of memory");
    held = grown;
    held[held_count] = (struct held){.key = key};
    return &held[held_count++];
}

static uint32_t *
copy_of(const uint32_t *words, size_t count)
{
    size_t bytes = count * sizeof(*words);
    uint32_t *copy = bytes <= KEPT_AT_MOST - kept_bytes ? malloc(bytes) : NULL;
    if (copy == NULL)
        return NULL;
    kept_bytes += bytes;
    return memcpy(copy, words, bytes);
}

static void
forget(struct held *it, uint32_t **copy)
{
    if (*copy != NULL)
        kept_bytes -= it->count * sizeof(**copy);
    free(*copy);
    *copy = NULL;
}

const uint32_t *
integers_other(uint64_t key, const uint32_t *words, size_t count, bool *lost_p)
{
    struct held *it = find(key);
    uint64_t hash = XXH3_64bits(words, count * sizeof(*words));
    if (it->count != count) { /* or another pointer was seen since then, which ends the part elsewhere */
        forget(it, &it->last);
        forget(it, &it->other);
    } else if (it->hash != hash) {
        forget(it, &it->other);
        it->other = it->last;
        it->last = NULL;
        *lost_p = it->other == NULL;
    }
    it->count = count;
    it->hash = hash;
    if (it->last == NULL)
        it->last = copy_of(words, count);
    if (MUTANT(SCOUT_INTEGERS_TURNED) && it->other == NULL && count > 1) {
        it->other = copy_of(words, count);
        if (it->other != NULL)
            memmove(it->other, words + 1, (count - 1) * sizeof(*words)), it->other[count - 1] = words[0];
    }
    return MUTANT(SCOUT_INTEGERS_STAY) ? NULL : it->other;
}
