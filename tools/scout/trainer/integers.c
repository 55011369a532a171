/*
 * integers.c - other contents for memory that holds whole numbers: what was there in another period.
 *
 * Whole numbers say where something is, or how much of it there is: tokens, offsets, shapes. Any other number may lead
 * a kernel out of its memory, and so may the same ones in another order, or an offset of one period beside a length of
 * another. What the program itself has put there for the same launch, all of it in one period, does not. What is the
 * same in all periods stays: nothing of a step can depend on it.
 */
#include "tools/scout/trainer/scout.h"

#include <xxhash.h>

enum { KEPT_AT_MOST = 1 << 26 }; /* bytes of copies */

/* What one launch found in one period. */
struct set {
    struct integers_part *parts; /* copies; NULL: none, or no room */
    size_t count, bytes;
};

static struct held {
    uint64_t turn, hash;
    bool is_known;
    struct set last, other;
} * held;
static size_t held_count, kept_bytes;

/* What is kept of the integers of a launch at this place of the period; added if there is nothing yet. */
static struct held *
find_held(uint64_t turn)
{
    struct held *found = FIND(it, held, held_count, it->turn == turn);
    if (found == NULL) {
        found = SCOUT_GROWN(held, held_count);
        found->turn = turn;
    }
    return found;
}

/* One piece of memory: the list, and after it the words. */
static struct set
copy_of(const struct integers_part *parts, size_t count)
{
    struct set set = {.count = count, .bytes = count * sizeof(*parts)};
    FOR_EACH(part, parts, count)
        set.bytes += part->words != NULL ? part->count * sizeof(*part->words) : 0;
    set.parts = set.bytes <= KEPT_AT_MOST - kept_bytes ? malloc(set.bytes) : NULL;
    if (set.parts == NULL)
        return set;
    kept_bytes += set.bytes;
    uint32_t *to = (uint32_t *)(set.parts + count);
    memcpy(set.parts, parts, count * sizeof(*parts));
    FOR_EACH_MUTABLE(part, set.parts, count) {
        if (part->words == NULL)
            continue;
        part->words = memcpy(to, part->words, part->count * sizeof(*to));
        to += part->count;
    }
    return set;
}

bool
integers_note(uint64_t turn, const struct integers_part *parts, size_t count)
{
    struct held *it = find_held(turn);
    uint64_t hash = count;
    bool lost = false;
    FOR_EACH(part, parts, count) {
        hash = XXH3_64bits_withSeed(&part->key, sizeof(part->key), hash);
        hash = XXH3_64bits_withSeed(part->words, part->words != NULL ? part->count * sizeof(uint32_t) : 0, hash);
    }
    if (!it->is_known || it->hash != hash) {
        kept_bytes -= it->other.parts != NULL ? it->other.bytes : 0;
        free(it->other.parts);
        it->other = it->last;
        lost = it->is_known && it->other.parts == NULL;
        it->last = copy_of(parts, count);
    }
    it->is_known = true;
    it->hash = hash;
    return !lost;
}

const struct integers_part *
integers_other(uint64_t turn, uint64_t key)
{
    const struct set *other = &find_held(turn)->other;
    return FIND(part, other->parts, other->parts != NULL ? other->count : 0, part->key == key);
}
