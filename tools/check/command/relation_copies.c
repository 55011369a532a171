/*
 * relation_copies.c - what the ranks copy from the host by one call of the program's, beside what one process copies by
 * it (relation.h).
 */
#include "tools/check/command/relation_parts.h"

#include "launcher/common/xcalloc.h"
#include "tools/common/owned.h"

static void
free_contents(const struct contents *contents)
{
    free((char *)contents->data);
}

#define OWNED_CONTENTS __attribute__((cleanup(free_contents))) struct contents

bool
relation_is_same_call(const struct look_operation *a, const struct look_operation *b)
{
    return a->from_host && b->from_host && strcmp(a->place, b->place) == 0 && strcmp(a->name, b->name) == 0;
}

/* Appends the bytes to `all`, which owns its data. */
static void
append_bytes(struct contents *all, const struct contents *own)
{
    char *data = xrealloc((char *)all->data, all->bytes + own->bytes + 1);
    memcpy(data + all->bytes, own->data, own->bytes);
    all->data = data;
    all->bytes += own->bytes;
}

/* All that the call has copied in the interval, malloc'ed; data NULL: it is not known. `hash`: the number of copies. */
static struct contents
copied_by(const struct looked *looked, const struct look_operation *its, uint32_t interval)
{
    struct contents all = {.data = xcalloc(1, 1)};
    FOR_EACH(op, looked->operations, looked->count) {
        const struct contents *own = relation_is_same_call(op->header, its) && op->header->interval == interval
                                         ? looked_find_contents(looked, op->arguments[0].after)
                                         : NULL;
        if (own == NULL)
            continue;
        if (op->arguments[0].is_part) {
            free_contents(&all);
            return (struct contents){.data = NULL};
        }
        append_bytes(&all, own);
        ++all.hash;
    }
    return all;
}

/* Whether some items have one process's numbers in another order, as pictures that are shifted otherwise, and the
 * others are one process's. */
static bool
are_mixed_up(const struct contents *all, const struct contents *one, uint64_t items)
{
    uint64_t each = items > 0 && one->bytes % items == 0 ? one->bytes / items : 0, mixed = 0;
    for (uint64_t at = 0; each > 0 && at + each <= one->bytes; at += each) {
        OWNED_NUMBERS left = numbers_read(all, 0, at, at + each), right = numbers_read(one, 0, at, at + each);
        bool same = memcmp(all->data + at, one->data + at, each) == 0, are = same || numbers_are_rows(&left, &right, 1);
        mixed += !same;
        if (!are)
            return false;
    }
    return mixed > 0;
}

enum relation
relation_of_copied(const struct finding *finding, const struct where *where)
{
    const struct look_operation *its = finding->one.operations[where->operation].header;
    OWNED_CONTENTS one = copied_by(&finding->one, its, its->interval), all = {.data = xcalloc(1, 1)};
    bool same = one.data != NULL, known = same;
    for (int r = 0; r < finding->question->ranks; ++r) {
        OWNED_CONTENTS own = copied_by(&finding->ranks[r], its, its->interval);
        known = known && own.data != NULL;
        same = same && known && own.bytes == one.bytes && memcmp(own.data, one.data, one.bytes) == 0;
        if (known)
            append_bytes(&all, &own);
    }
    OWNED_NUMBERS left = numbers_read(&all, 0, 0, all.bytes), right = numbers_read(&one, 0, 0, known ? one.bytes : 0);
    if (!known)
        return RELATION_UNKNOWN;
    if (same)
        return RELATION_SAME;
    if (all.bytes == one.bytes && numbers_are_rows(&left, &right, 1) &&
        !are_mixed_up(&all, &one, finding->question->items))
        return RELATION_ROWS;
    if (its->is_aside) /* a loader is ahead by any number of steps */
        return RELATION_UNKNOWN;
    bool is_where_share_begins = finding->matters[where->operation] == MATTERS_UNSEEN && right.are_whole;
    return is_where_share_begins ? RELATION_ROWS : RELATION_NONE;
}

/* Of bytes[count], the place of what begins there; false: it is not there. */
static bool
is_among(const struct contents *all, const char *bytes, size_t count, uint64_t *begin_p)
{
    const char *found = count <= all->bytes ? memmem(all->data, all->bytes, bytes, count) : NULL;
    *begin_p = found != NULL ? (uint64_t)(found - all->data) : 0;
    return found != NULL;
}

/* The bytes of items, each of `each` bytes, of which every layer has one column, laid one item after the other;
 * malloc'ed. */
static struct contents
lay_items(const struct contents *all, uint64_t each, uint64_t layers)
{
    struct contents laid = {.bytes = all->bytes, .data = memcpy(xcalloc(1, all->bytes + 1), all->data, all->bytes)};
    uint64_t part = each / layers, count = layers > 1 ? all->bytes / each * layers : 0;
    for (uint64_t k = 0; k < count; ++k)
        memcpy((char *)laid.data + (k % (count / layers) * layers + k / (count / layers)) * part, all->data + k * part,
               part);
    return laid;
}

/* Whether the one rank copies each item of these in some step; or many of them elsewhere than in the rank's share. */
static bool
are_known(const struct finding *finding, const struct look_operation *its, const struct contents *own, int rank,
          const struct part *part)
{
    enum { PIECES = 64, AT_SHARE, ELSEWHERE };
    uint64_t count = own->bytes / part->each, apart = count / PIECES + 1, tried = 0, known = 0, elsewhere = 0, at;
    uint32_t last = finding->one.operations[finding->one.count - 1].header->interval;
    OWNED char *found = xcalloc(count + 1, 1);
    for (uint32_t interval = 0; interval <= last; ++interval) {
        OWNED_CONTENTS all = copied_by(&finding->one, its, interval),
                       one = all.data != NULL ? lay_items(&all, part->each, part->layers)
                                              : (struct contents){.data = NULL};
        for (uint64_t i = 0; i < count && one.data != NULL; i += apart)
            if (is_among(&one, own->data + i * part->each, part->each, &at))
                found[i] = interval == its->interval && at == (uint64_t)rank * own->bytes + i * part->each ? AT_SHARE
                                                                                                           : ELSEWHERE;
    }
    for (uint64_t i = 0; i < count; i += apart, ++tried)
        known += found[i] != 0, elsewhere += found[i] == ELSEWHERE;
    return tried > 0 && (known == tried || 4 * elsewhere >= tried);
}

/* With items that lie in part->layers, if that is more than the least. */
static enum copied
relate_items(const struct finding *finding, const struct look_operation *its, int rank, const struct contents *all,
             const struct contents *mine, enum copied least, struct part *part)
{
    enum { LEAST_BYTES = 16 };
    OWNED_CONTENTS one = lay_items(all, part->each, part->layers), own = lay_items(mine, part->each, part->layers);
    enum copied copied = COPIED_OTHERS;
    if (is_among(&one, own.data, own.bytes, &part->begin))
        copied = COPIED_PART;
    else if (part->each >= LEAST_BYTES && least < COPIED_ITEMS && are_known(finding, its, &own, rank, part))
        copied = COPIED_ITEMS;
    part->begins = copied == COPIED_PART || (copied == COPIED_ITEMS && finding->question->items > 0 &&
                                             is_among(&one, own.data, part->each, &part->begin));
    return copied;
}

enum copied
relation_of_copies(const struct finding *finding, size_t at, int rank, struct part *part)
{
    enum { PIECE_BYTES = 64 };
    const struct look_operation *its = finding->one.operations[at].header;
    OWNED_CONTENTS one = copied_by(&finding->one, its, its->interval),
                   own = copied_by(&finding->ranks[rank], its, its->interval);
    uint64_t items = finding->question->items, each = own.bytes < PIECE_BYTES ? own.bytes : PIECE_BYTES;
    bool in_items = items > 0 && one.bytes > 0 && one.bytes % items == 0;
    each = in_items ? one.bytes / items : each;
    *part = (struct part){.bytes = own.bytes, .all = one.bytes, .copies = own.hash, .all_copies = one.hash};
    enum copied copied = COPIED_OTHERS;
    uint64_t most = in_items && own.bytes % each == 0 ? each / sizeof(float) : 1;
    struct part so = *part;
    so.each = each;
    for (so.layers = 1; so.layers <= most && copied < COPIED_PART && one.data != NULL && own.bytes > 0; ++so.layers) {
        enum copied here =
            each % so.layers == 0 ? relate_items(finding, its, rank, &one, &own, copied, &so) : COPIED_OTHERS;
        *part = here > copied ? so : *part;
        copied = here > copied ? here : copied;
    }
    return copied;
}
