/*
 * integers.c - other contents for memory that holds whole numbers: what was there in another period.
 *
 * Whole numbers say where something is, or how much of it there is: tokens, offsets, shapes. Any other number may lead
 * a kernel out of its memory, and so may the same ones in another order. What the program itself has put there for the
 * same launch does not. What is the same in all periods stays: nothing of a step can depend on it.
 */
#include "base/mutant.h"
#include "tools/scout/trainer/scout.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum { KEPT_AT_MOST = 1 << 26 }; /* bytes of copies */

struct copy {
    uint32_t *words; /* NULL: none, or no room */
    size_t count;
};

static struct held {
    uint64_t key, hash;
    bool is_known;
    struct copy last, other;
} * held;
static size_t held_count, held_room, kept_bytes;

static struct held *
find_held(uint64_t key)
{
    for (size_t i = 0; i < held_count; ++i) {
        if (held[i].key == key)
            return &held[i];
    }
    held = scout_grown(held, held_count + 1, &held_room, sizeof(*held));
    held[held_count] = (struct held){.key = key};
    return &held[held_count++];
}

static struct copy
copy_of(const uint32_t *words, size_t count)
{
    size_t bytes = count * sizeof(*words);
    struct copy copy = {.count = count};
    copy.words = bytes <= KEPT_AT_MOST - kept_bytes ? malloc(bytes) : NULL;
    if (copy.words == NULL)
        return copy;
    kept_bytes += bytes;
    memcpy(copy.words, words, bytes);
    return copy;
}

static void
forget(struct copy *copy)
{
    if (copy->words != NULL)
        kept_bytes -= copy->count * sizeof(*copy->words);
    free(copy->words);
    *copy = (struct copy){0};
}

/* For tests: what is there, one place further. */
static void
turn(struct held *it, const uint32_t *words, size_t count)
{
    it->other = copy_of(words, count);
    if (it->other.words == NULL)
        return;
    memmove(it->other.words, words + 1, (count - 1) * sizeof(*words));
    it->other.words[count - 1] = words[0];
}

const uint32_t *
integers_other(uint64_t key, const uint32_t *words, size_t count, size_t *other_count_p, bool *lost_p)
{
    struct held *it = find_held(key);
    uint64_t hash = XXH3_64bits(words, count * sizeof(*words));
    if (!it->is_known || it->hash != hash) {
        forget(&it->other);
        it->other = it->last;
        *lost_p = it->is_known && it->other.words == NULL;
        it->last = copy_of(words, count);
    }
    it->is_known = true;
    it->hash = hash;
    if (MUTANT(SCOUT_INTEGERS_TURNED) && it->other.words == NULL && count > 1)
        turn(it, words, count);
    *other_count_p = it->other.count;
    return it->other.words;
}
