/*
 * effect.c - a part of a launch's memory, changed, and what the run made of it: which of its words were overwritten or
 * modified, and which words elsewhere have another result. Parts are made by parts.c.
 */
#include "tools/scout/trainer/scout.h"

#include "tools/near/near.h"

/* Gaps in what changed are closed up to GAP_WORDS, where no pointer was seen to point into them. */
enum { GAP_WORDS = 128, KILLED_AT_MOST = 65536 };

enum { HALF_BITS = 16 };

enum { BLOCK = 1024 }; /* words that are compared at once */

/* ---- a part, changed ---- */

bool
effect_uses(const struct effect *effect, const struct part *part)
{
    return part->killed.count + part->modified.count > 0 ||
           ANY_NUMBER(k, 0, effect->images.count, part->changed[k].count > 0) ||
           images_next_written(part->image, part->first, part->end) < part->end;
}

uint32_t
effect_type(struct part *part)
{
    if (part->type == SCOUT_UNKNOWN)
        part->type = part->named;
    if (part->type == SCOUT_UNKNOWN)
        part->type = change_type(part->image->before, part->first, part->end, part->change);
    return part->type;
}

/* What `count` words of it, from word `at` of its image on, become. */
static void WITH_WIDE_VECTORS
change_part(const struct part *part, size_t at, size_t count, uint32_t *to)
{
    const struct image *image = part->image;
    bool stays = part->change == CHANGE_INTEGER && part->integers == NULL;
    const uint32_t *integers = part->integers != NULL ? part->integers + (at - part->first) : NULL;
    change_words(stays ? CHANGE_NONE : part->change, image->before + at, integers, image->fills_zeros, count,
                 (uint32_t)at & 1, to);
    for (size_t i = 0; i < count && part->is_lower; ++i)
        to[i] = change_lower(image->before[at + i], image->fills_zeros);
    if (at + count < image->words || image->last_mask == UINT32_MAX)
        return;
    uint32_t *last = &to[count - 1];
    if (change_is_of_floats(part->change) &&
        !change_is_of_pairs(part->change)) /* one half, as the upper one of a pair is changed */
        *last = change_float(image->before[image->words - 1] << HALF_BITS, image->fills_zeros) >> HALF_BITS;
    *last &= image->last_mask;
}

static bool
is_of_integers(const struct part *part)
{
    return part->integers != NULL && part->is_argument && !part->is_whole;
}

/* Whether changing `part` changes `other`, too: arguments of a launch that are whole numbers belong together. */
static bool
goes_with(const struct part *part, const struct part *other)
{
    if (other == part)
        return true;
    if (part->is_alone || other->is_alone)
        return false;
    return is_of_integers(part) && is_of_integers(other);
}

bool
effect_change(struct effect *effect, struct part *part)
{
    if (part->change == CHANGE_NONE || (part->change == CHANGE_INTEGER && part->integers == NULL))
        return false;
    FOR_EACH_MUTABLE(it, effect->parts, effect->part_count) {
        if (!goes_with(part, it))
            continue;
        change_part(it, it->first, it->end - it->first, it->image->now + it->first);
        images_change(it->image, it->first, it->end);
        it->is_tested = true;
        effect->has_integers = effect->has_integers || it->integers != NULL;
    }
    return true;
}

/* Words [first, end); a small gap after the last range is closed. */
static void
append_near(struct scout_ranges *list, const struct allocation *allocation, size_t first, size_t end)
{
    uint64_t at = first * sizeof(uint32_t);
    if (list->count > 0) {
        struct scout_range *last = &list->items[list->count - 1];
        if (at > last->hi && at - last->hi <= GAP_WORDS * sizeof(uint32_t) &&
            allocations_next_offset(allocation, last->hi - 1) > at) {
            last->hi = end * sizeof(uint32_t);
            return;
        }
    }
    ranges_append(list, at, end * sizeof(uint32_t));
}

/* Words [from, to) that have another result. `of`: the part that they were changed as; NULL: they were not. */
static void
list_changed(const struct image *image, size_t from, size_t to, const struct part *of, struct scout_ranges *list)
{
    size_t end;
    for (size_t i = images_next_different(image, from, to); i < to; i = images_next_different(image, end, to)) {
        for (end = i; end < to && !near_are_words(image->now[end], image->after[end], image->tolerance) &&
                      (of == NULL || !images_left_alone(image, end, of->integers[end - of->first]));)
            ++end;
        if (end > i)
            append_near(list, image->allocation, i, end);
        else
            ++end; /* another word, and the same result */
    }
}

/* The ranges are rows of a triangular matrix: they begin at multiples of one distance, and their lengths differ widely.
 * No data decide where they are. Elements that data choose begin anywhere, or have one length where signs alternate. */
static bool
are_rows_of_triangle(const struct scout_ranges *ranges)
{
    enum { LEAST_TIMES = 4 }; /* the longest row, of the shortest */
    uint64_t row = UINT64_MAX, shortest = UINT64_MAX, longest = 0;
    FOR_EACH(range, ranges->items, ranges->count) {
        const uint64_t length = range->hi - range->lo;
        shortest = length < shortest ? length : shortest;
        longest = length > longest ? length : longest;
        const uint64_t apart = range > ranges->items ? range->lo - range[-1].lo : UINT64_MAX;
        row = apart < row ? apart : row;
    }
    return longest >= LEAST_TIMES * shortest &&
           ALL(range, ranges->items, ranges->count, (range->lo - ranges->items[0].lo) % row == 0);
}

/*
 * Some words overwritten and others left alone, here and there: which, depends on what they hold (a ReLU in place), so
 * all of it is modified.
 */
static void
settle_scattered(struct part *part, const struct allocation *allocation)
{
    enum { FEW_RANGES = 16, WORDS_EACH = 8 };
    struct scout_ranges all, near = {0}, *killed = &part->killed;
    uint64_t bytes = 0;
    FOR_EACH(range, killed->items, killed->count)
        bytes += range->hi - range->lo;
    if (killed->count <= FEW_RANGES || bytes / killed->count >= WORDS_EACH * sizeof(uint32_t))
        return;
    if (are_rows_of_triangle(killed))
        return;
    all = ranges_merged(killed, &part->modified);
    FOR_EACH(range, all.items, all.count)
        append_near(&near, allocation, range->lo / sizeof(uint32_t), range->hi / sizeof(uint32_t));
    ranges_clear(&all);
    ranges_clear(killed);
    ranges_clear(&part->modified);
    part->modified = near;
}

/* NOT_TRIED: the word could not be changed, and says nothing. */
enum fate { LEFT_ALONE, KILLED, MODIFIED, NOT_TRIED };

/* What the launch did to word i of a part that was changed to `changed` before it ran. */
static enum fate
fate_of_word(const struct image *image, size_t i, uint32_t changed)
{
    if (images_left_alone(image, i, changed))
        return LEFT_ALONE;
    if (!near_are_words(image->now[i], image->after[i], image->tolerance))
        return MODIFIED;
    return changed != image->before[i] ? KILLED : NOT_TRIED;
}

/* Adds words [first, end) of a part, all of one fate, to those that were modified, or overwritten. */
static void
add_fate(struct part *part, const struct image *image, enum fate fate, size_t first, size_t end)
{
    if (fate == MODIFIED)
        append_near(&part->modified, image->allocation, first, end);
    else if (fate == KILLED && part->killed.count < KILLED_AT_MOST)
        ranges_append(&part->killed, first * sizeof(uint32_t), end * sizeof(uint32_t));
}

/* Words of one fate, up to the next one. */
struct stretch {
    enum fate fate;
    size_t begin, not_tried; /* words from here on could not be changed; SIZE_MAX: there are none */
};

/* Whether words [first, end), which could not be changed, count as overwritten: their neighbours were, and they are
 * few, or the launch has written all of them. */
static bool
are_overwritten(const struct part *part, const struct image *image, size_t first, size_t end, enum fate before,
                enum fate behind)
{
    if ((first > part->first && before != KILLED) || (end < part->end && behind != KILLED) ||
        (first == part->first && end == part->end))
        return false;
    if (end - first <= GAP_WORDS)
        return true;
    while (first < end && image->before[first] != image->after[first])
        ++first;
    return first == end;
}

/* The word `at` has another fate than those before it; part->end: there is none. */
static void
end_stretch(struct part *part, const struct image *image, struct stretch *stretch, enum fate fate, size_t at)
{
    size_t rest = stretch->not_tried < at ? stretch->not_tried : at;
    bool joins = rest < at && are_overwritten(part, image, rest, at, stretch->fate, fate);
    if (rest < at && !joins) {
        add_fate(part, image, stretch->fate, stretch->begin, rest);
        *stretch = (struct stretch){LEFT_ALONE, rest, SIZE_MAX};
    } else if (joins && rest == part->first) {
        stretch->fate = KILLED;
    }
    if (fate != stretch->fate || at == part->end) {
        add_fate(part, image, stretch->fate, stretch->begin, at);
        *stretch = (struct stretch){fate, at, SIZE_MAX};
    }
    stretch->not_tried = SIZE_MAX;
}

/* Whether each of the words from `at` on was changed, as changed[count] says, and left alone. Without a branch in its
 * loop, which becomes vector instructions: most words of most launches are. */
static bool WITH_WIDE_VECTORS
are_left_alone(const struct image *image, size_t at, size_t count, const uint32_t *changed)
{
    const uint32_t *before = image->before + at, *after = image->after + at, *now = image->now + at;
    uint32_t other = 0;
    for (size_t i = 0; i < count; ++i)
        other |= (now[i] ^ changed[i]) | (after[i] ^ before[i]) | (uint32_t)(changed[i] == before[i]);
    return other == 0;
}

/* The words of the part itself: overwritten, modified, or left alone. */
static void
judge_own(struct part *part)
{
    const struct image *image = part->image;
    uint32_t changed[BLOCK];
    struct stretch stretch = {LEFT_ALONE, part->first, SIZE_MAX};
    for (size_t at = part->first; at < part->end; at += BLOCK) {
        size_t count = part->end - at < BLOCK ? part->end - at : BLOCK;
        change_part(part, at, count, changed);
        bool is_open = stretch.fate != LEFT_ALONE || stretch.not_tried != SIZE_MAX;
        if (!is_open && are_left_alone(image, at, count, changed))
            continue;
        for (size_t i = 0; i < count; ++i) {
            enum fate fate = fate_of_word(image, at + i, changed[i]);
            if (fate == NOT_TRIED && stretch.not_tried == SIZE_MAX)
                stretch.not_tried = at + i;
            else if (fate != NOT_TRIED && (fate != stretch.fate || stretch.not_tried != SIZE_MAX))
                end_stretch(part, image, &stretch, fate, at + i);
        }
    }
    end_stretch(part, image, &stretch, LEFT_ALONE, part->end);
}

/* After a run with the part changed: which words of other parts have another result, and which of its own were
 * overwritten or modified. */
static void
judge_part(struct effect *effect, struct part *part)
{
    FOR_EACH(image, effect->images.items, effect->images.count) {
        struct scout_ranges *changed = &part->changed[image->number];
        size_t from = 0;
        ranges_clear(changed);
        FOR_EACH(it, effect->parts, effect->part_count) { /* those of an image are sorted */
            if (it->image != image || !goes_with(part, it))
                continue;
            list_changed(image, from, it->first, NULL, changed);
            if (it != part)
                list_changed(image, it->first, it->end, it, changed);
            from = it->end;
        }
        list_changed(image, from, image->words, NULL, changed);
        part->matters = part->matters || changed->count > 0;
    }
    judge_own(part);
    part->image->is_settled = /* all its arguments have been changed, and were left alone */
        part->killed.count == 0 && part->modified.count == 0 &&
        ALL(other, effect->parts, effect->part_count,
            other->image != part->image || !other->is_argument ||
                (other->is_tested && other->killed.count == 0 && other->modified.count == 0));
    settle_scattered(part, part->image->allocation);
    part->matters = part->matters || part->modified.count > 0;
}

bool
effect_may_be_least(const struct effect *effect, const struct part *part)
{
    bool is_number = part->killed.count == 1 && part->modified.count == 0 &&
                     part->killed.items[0].hi - part->killed.items[0].lo <= sizeof(uint64_t) &&
                     ALL_NUMBERS(k, 0, effect->images.count, part->changed[k].count == 0);
    bool is_float = change_is_of_floats(part->change) && !change_is_of_pairs(part->change);
    return is_number && is_float && !part->is_lower;
}

void
effect_set_apart(struct effect *effect, const struct part *part)
{
    struct part *apart[PARTS_AT_MOST];
    size_t count = 0, together = 0;
    FOR_EACH_MUTABLE(it, effect->parts, effect->part_count) {
        bool goes = goes_with(part, it), is_written = images_next_written(it->image, it->first, it->end) < it->end;
        together += goes;
        if (goes && is_written && it->modified.count > 0)
            apart[count++] = it;
    }
    for (size_t i = 0; i < count && together > 1; ++i) {
        apart[i]->is_alone = true;
        apart[i]->is_tested = apart[i]->was_tried = apart[i]->matters = false;
        ranges_clear(&apart[i]->killed);
        ranges_clear(&apart[i]->modified);
    }
}

void
effect_judge(struct effect *effect, struct part *part)
{
    FOR_EACH_MUTABLE(it, effect->parts, effect->part_count)
        if (goes_with(part, it))
            judge_part(effect, it);
}

/* ---- several parts at once ---- */

/* Whether words [from, to) have another result; of those that were changed as `part`, which may be NULL, others than
 * those that were left alone. */
static bool
has_other(const struct image *image, const struct part *part, size_t from, size_t to)
{
    uint32_t changed[BLOCK];
    size_t count, at = images_next_different(image, from, to);
    for (; at < to; at = images_next_different(image, at + count, to)) {
        count = to - at < BLOCK ? to - at : BLOCK;
        if (part != NULL)
            change_part(part, at, count, changed);
        if (part != NULL && are_left_alone(image, at, count, changed))
            continue;
        for (size_t i = at; i < at + count; ++i)
            if (!near_are_words(image->now[i], image->after[i], image->tolerance) &&
                (part == NULL || !images_left_alone(image, i, changed[i - at])))
                return true;
    }
    return false;
}

bool
effect_any(const struct effect *effect, const struct part *const *parts, size_t count)
{
    bool any = false;
    FOR_EACH_UNTIL(image, effect->images.items, effect->images.count, any) {
        size_t from = 0;
        for (size_t p = 0; p < count && !any; ++p) { /* those of an image are sorted */
            const struct part *part = parts[p];
            if (part->image != image)
                continue;
            /* A part that is overwritten is no less of interest. */
            any = has_other(image, NULL, from, part->first) || has_other(image, part, part->first, part->end) ||
                  images_next_written(image, part->first, part->end) < part->end;
            from = part->end;
        }
        any = any || has_other(image, NULL, from, image->words);
    }
    return any;
}

bool
effect_any_of(const struct effect *effect, const struct part *part, size_t first, size_t end)
{
    struct part of = *part;
    const struct part *list = &of;
    of.first = first;
    of.end = end;
    if (of.integers != NULL)
        of.integers += first - part->first;
    return effect_any(effect, &list, 1);
}

/* ---- what a number chooses ---- */

bool
effect_may_be_chosen(const struct part *part)
{
    enum { LEAST_WORDS = 16 };
    if (!part->is_argument || !part->is_tested || !part->matters || part->end - part->first < LEAST_WORDS)
        return false;
    const bool is_written = part->killed.count + part->modified.count > 0 || part->image->is_written;
    return !is_written && part->image->allocation->kinds == NULL;
}

void
effect_change_words(struct effect *effect, const struct part *part, size_t first, size_t end)
{
    change_part(part, first, end - first, part->image->now + first);
    images_change(part->image, first, end);
    effect->has_integers = effect->has_integers || part->integers != NULL;
}

/* ---- the log ---- */

/* Few numbers look like any type; one among floats may have been found to be whole by this launch. */
static uint32_t
type_to_put(struct part *part)
{
    const uint8_t *kinds = part->image->allocation->kinds;
    bool is_whole =
        kinds != NULL && part->end - part->first == 1 && whole_next(kinds, part->first, part->end) < part->end;
    uint32_t type = part->change == CHANGE_INTEGER || is_whole ? SCOUT_INTEGER : effect_type(part);
    bool is_guess = part->named == SCOUT_UNKNOWN && type != SCOUT_INTEGER;
    return is_guess && !change_shows_type(part->image->before, part->first, part->end) ? SCOUT_UNKNOWN : type;
}

/* As bytes of the allocation, whose last word may be a part of one. */
static struct scout_ranges
ranges_to_put(const struct scout_ranges *list, const struct allocation *allocation)
{
    if (list->count > 0 && list->items[list->count - 1].hi > allocation->bytes)
        list->items[list->count - 1].hi = allocation->bytes;
    return *list;
}

/* Of the segment that comes next. */
static void
put_dependences(const struct effect *effect, const struct part *part, struct scout_effect *record)
{
    FOR_EACH(image, effect->images.items, part->is_tested ? effect->images.count : 0) {
        const struct scout_ranges *changed = &part->changed[image->number];
        if (changed->count > 0)
            *SCOUT_GROWN(record->dependences, record->dependence_count) = (struct scout_dependence){
                record->segment_count, image->allocation->number, ranges_to_put(changed, image->allocation)};
    }
}

/* Notes which words of a part are whole numbers among floats. 16-bit numbers are two in a word, and one may be zero. */
static void
note_whole(struct part *part)
{
    const struct image *image = part->image;
    struct allocation *allocation = image->allocation;
    uint32_t type = part->change == CHANGE_INTEGER ? SCOUT_INTEGER : effect_type(part);
    size_t at = images_next_written(image, part->first, part->end);
    if (type == SCOUT_FLOAT16 || type == SCOUT_BFLOAT16 || at == part->end)
        return;
    if (allocation->kinds == NULL)
        allocation->kinds = scout_zeroed(image->words, sizeof(*allocation->kinds));
    for (; at < part->end; at = images_next_written(image, at + 1, part->end))
        whole_look(allocation->kinds, image->before, image->after, at, part->end, type == SCOUT_FLOAT64);
}

/* Adds to the record the bytes of an image that the launch has written with other ones. */
static void
put_written(const struct image *image, struct scout_effect *record)
{
    struct scout_ranges written = {0};
    size_t end, i = images_next_written(image, 0, image->words);
    for (; i < image->words; i = images_next_written(image, end, image->words)) {
        for (end = i; end < image->words && image->before[end] != image->after[end];)
            ++end;
        append_near(&written, image->allocation, i, end);
    }
    if (written.count > 0)
        *SCOUT_GROWN(record->written, record->written_count) =
            (struct scout_written){image->allocation->number, ranges_to_put(&written, image->allocation)};
}

/* Adds to the record what runs have shown of a part. */
static void
put_part(const struct effect *effect, struct part *part, struct scout_effect *record)
{
    const struct allocation *allocation = part->image->allocation;
    uint64_t end = part->end * sizeof(uint32_t);
    note_whole(part);
    /* No run was made for it: the launch counts as reading it, unless a test of several found nothing there. */
    if (!part->is_argument && !part->matters && !part->is_tested)
        return;
    put_dependences(effect, part, record);
    *SCOUT_GROWN(record->segments, record->segment_count) =
        (struct scout_segment){.alloc = allocation->number,
                               .lo = part->first * sizeof(uint32_t),
                               .hi = end < allocation->bytes ? end : allocation->bytes,
                               .type = type_to_put(part),
                               .tested = part->is_tested,
                               .used_lo = part->used_first * sizeof(uint32_t),
                               .used_hi = part->used_end * sizeof(uint32_t),
                               .killed = ranges_to_put(&part->killed, allocation),
                               .modified = ranges_to_put(&part->modified, allocation)};
}

void
effect_put(struct effect *effect)
{
    FOR_EACH(image, effect->images.items, effect->images.count)
        put_written(image, &effect->record);
    FOR_EACH_MUTABLE(part, effect->parts, effect->part_count)
        put_part(effect, part, &effect->record);
    (void)scout_writer_put(&scout_state.log, SCOUT_EFFECT, &effect->record);
}

void
effect_free(struct effect *effect)
{
    FOR_EACH_MUTABLE(part, effect->parts, effect->part_count) {
        ranges_clear(&part->killed);
        ranges_clear(&part->modified);
        for (size_t k = 0; k < effect->images.count; ++k)
            ranges_clear(&part->changed[k]);
        free(part->changed);
        free(part->integers);
    }
    FOR_EACH(written, effect->record.written, effect->record.written_count)
        free(written->ranges.items);
    free(effect->record.segments);
    free(effect->record.written);
    free(effect->record.dependences);
    free(effect->record.elementwise);
    images_free(&effect->images);
    *effect = (struct effect){.record = {.hidden_write = SCOUT_NONE, .why = SCOUT_NONE}};
}
