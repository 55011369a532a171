/*
 * parts.c - the parts of a launch's memory, and as what each is changed. repeat.c has them made once, after the first
 * run.
 *
 * A part reaches from where an argument points to the next offset of the allocation that any pointer was seen at; what
 * lies between parts of arguments is a part, too.
 */
#include "tools/scout/trainer/scout.h"

#include <xxhash.h>

/* Adds words [first, end) of an image as a part; NULL: it is empty, or there is no room. */
static struct part *
add_part(struct effect *effect, struct image *image, size_t first, size_t end, bool is_argument)
{
    if (end <= first || effect->part_count == PARTS_AT_MOST)
        return NULL;
    struct part *part = &effect->parts[effect->part_count++];
    *part = (struct part){.image = image, .first = first, .end = end, .is_argument = is_argument};
    part->changed = scout_zeroed(effect->images.count, sizeof(*part->changed));
    uint64_t place[] = {allocations_name(image->allocation), first, course_turn()};
    part->key = XXH3_64bits(place, sizeof(place));
    return part;
}

/* Where arguments begin, in bytes of the allocation, and how far the launch reaches from there. */
struct begin {
    uint64_t at, end;
};

COMPARES(compare_begins, struct begin, (a->at > b->at) - (a->at < b->at))

/* What the arguments that point there say; SCOUT_UNKNOWN: nothing, or different things. */
static uint32_t
type_said(const struct noted *noted, uint32_t alloc, size_t offset)
{
    uint32_t said = SCOUT_UNKNOWN;
    FOR_EACH(argument, noted->arguments, noted->op.argument_count) {
        if (argument->alloc != alloc || argument->offset != offset || argument->type == SCOUT_UNKNOWN)
            continue;
        if (said != SCOUT_UNKNOWN && said != argument->type)
            return SCOUT_UNKNOWN;
        said = argument->type;
    }
    return said;
}

/* An argument may point elsewhere in each period: to the batch, in all data. What memory that it points to holds is
 * known by its place only: `key`. */
static uint64_t
key_of_argument(const struct noted *noted, uint32_t alloc, size_t offset, uint64_t key)
{
    FOR_EACH(argument, noted->arguments, noted->op.argument_count) {
        uint64_t words[] = {argument->slot, argument->byte, course_turn()};
        if (argument->alloc == alloc && argument->offset == offset && argument->slot != UINT16_MAX)
            return XXH3_64bits(words, sizeof(words));
    }
    return key;
}

/* The words [first, end) to which an argument leads: whole numbers among floats are parts of their own, but where they
 * are so many that they are no counts in a struct, or numbers near to zero show what they may be. */
static void
add_argument(struct effect *effect, const struct noted *noted, struct image *image, size_t first, size_t end,
             uint64_t offset)
{
    enum { WHOLE_AT_MOST = 16 };
    const struct allocation *allocation = image->allocation;
    const uint8_t *kinds = allocation->held_floats ? allocation->kinds : NULL;
    size_t count = 0;
    size_t at = kinds != NULL ? whole_next(kinds, first, end) : end;
    for (; at < end; at = whole_next(kinds, at + 1, end))
        ++count;
    for (at = first; at < end && count > 0; ++at)
        count = change_is_tiny(image->before[at]) ? 0 : count;
    size_t next;
    for (at = first; at < end; at = next) {
        size_t whole = count > 0 && count <= WHOLE_AT_MOST ? whole_next(kinds, at, end) : end;
        next = whole == at ? at + 1 : whole;
        struct part *part = add_part(effect, image, at, next, true);
        if (part == NULL)
            return;
        part->is_whole = whole == at;
        if (!part->is_whole)
            part->named = type_said(noted, allocation->number, offset);
        if (at == first)
            part->key = key_of_argument(noted, allocation->number, offset, part->key);
    }
}

/* A part between arguments: up to the end of what the launch reaches, where that is known. */
static void
add_gap(struct effect *effect, struct image *image, size_t first, size_t end, uint64_t reached)
{
    uint64_t limit = reached / sizeof(uint32_t) + (reached % sizeof(uint32_t) != 0);
    struct part *part = add_part(effect, image, first, limit < end ? (size_t)limit : end, false);
    if (part != NULL)
        part->is_gap = true;
}

/* `extents`: by argument; NULL: not known. */
static void
make_parts_of(struct effect *effect, const struct noted *noted, struct image *image, const uint64_t *extents)
{
    struct begin begins[ARGUMENTS_AT_MOST];
    size_t count = 0, covered = 0;
    bool is_limited = extents != NULL && image->is_large;
    uint64_t reached = is_limited ? 0 : UINT64_MAX;
    for (size_t i = 0; i < noted->op.argument_count; ++i) {
        const struct scout_argument *argument = &noted->arguments[i];
        if (argument->alloc == image->allocation->number)
            begins[count++] = (struct begin){
                argument->offset, argument->offset + (is_limited && i < noted->named_count ? extents[i] : 0)};
    }
    qsort(begins, count, sizeof(*begins), compare_begins);
    for (size_t i = 0; i < count; ++i) {
        if (i > 0 && begins[i].at == begins[i - 1].at) {
            reached = is_limited && begins[i].end > reached ? begins[i].end : reached;
            continue;
        }
        size_t first = (begins[i].at + sizeof(uint32_t) - 1) / sizeof(uint32_t);
        uint64_t next = allocations_next_offset(image->allocation, begins[i].at);
        size_t end = next == image->allocation->bytes ? image->words : next / sizeof(uint32_t);
        add_gap(effect, image, covered, first, reached);
        add_argument(effect, noted, image, first, end, begins[i].at);
        reached = is_limited ? begins[i].end : reached;
        covered = end > first ? end : first;
        if (effect->base_count < BASES_AT_MOST)
            effect->bases[effect->base_count++] = (struct base){image, begins[i].at / sizeof(uint32_t)};
    }
    add_gap(effect, image, covered, image->words, reached);
}

/* Whole numbers become what they were in another period, if that was something else. */
static void
choose_integers(struct part *part, const uint32_t *words)
{
    const struct integers_part *other = integers_other(course_turn(), part->key);
    size_t count = part->end - part->first, same = other != NULL && other->count < count ? other->count : count;
    uint32_t *integers;
    if (other == NULL || (part->change == CHANGE_NONE && other->words == NULL))
        return;
    integers = scout_zeroed(count, sizeof(*integers));
    if (other->words != NULL)
        memcpy(integers, other->words, same * sizeof(*integers));
    memcpy(integers + same, words + same, (count - same) * sizeof(*integers));
    if (memcmp(integers, words, count * sizeof(*integers)) != 0) {
        part->change = CHANGE_INTEGER;
        part->integers = integers;
    } else {
        free(integers);
    }
}

/* A whole number among floats becomes the one that is nearer to zero, and zero 1: where it is an index it stays one. */
static void
choose_whole(struct part *part, uint32_t word, bool stays)
{
    part->change = CHANGE_INTEGER;
    if (stays)
        return;
    part->integers = scout_zeroed(1, sizeof(*part->integers));
    part->integers[0] = word == 0 || word >> 31 != 0 ? word + 1 : word - 1;
}

/* How each part is to be changed. Whole numbers of a launch all become what they were in one other period: what is zero
 * now may be another one then. */
static void
choose_changes(struct effect *effect, bool integers_stay)
{
    struct integers_part found[PARTS_AT_MOST];
    struct part *parts[PARTS_AT_MOST];
    size_t count = 0;
    FOR_EACH_MUTABLE(part, effect->parts, effect->part_count) {
        const struct image *image = part->image;
        if (image->is_table || image->allocation->memory == SCOUT_PINNED)
            continue;
        if (part->is_whole) {
            choose_whole(part, image->before[part->first], integers_stay);
            continue;
        }
        part->change = change_choose(image->before, part->first, part->end, image->fills_zeros, part->named);
        parts[count] = part;
        if (part->change == CHANGE_NONE || part->change == CHANGE_INTEGER)
            found[count++] = (struct integers_part){
                part->key, part->change == CHANGE_NONE ? NULL : image->before + part->first, part->end - part->first};
    }
    if (count > 0 && !integers_note(course_turn(), found, count))
        effect->record.why = names_put("it has more integers than are kept");
    for (size_t i = 0; i < count && !integers_stay; ++i)
        choose_integers(parts[i], parts[i]->image->before + parts[i]->first);
}

void
effect_make_parts(struct effect *effect, const struct noted *noted, const uint64_t *extents, bool integers_stay,
                  bool zeros_stay)
{
    FOR_EACH_MUTABLE(image, effect->images.items, effect->images.count) {
        image->fills_zeros = image->allocation->held_floats && !zeros_stay;
        make_parts_of(effect, noted, image, extents);
    }
    choose_changes(effect, integers_stay);
}
