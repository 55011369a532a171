/*
 * elementwise.c - few words of one of a launch's inputs are changed: does each of them change the same element of a
 * result, and nothing else there?
 *
 * Half of the words lie where the launch has changed something: where a gradient is zero, an update leaves its
 * parameter alone, and shows nothing. What depends on the input, and shows nothing in this run either, stays open: the
 * log has it with no samples.
 */
#include "tools/scout/trainer/scout.h"

#include "tools/near/near.h"

enum { FEW = 12, LEAST_HITS = 2, TRIES = 600, CHANGED_AT_MOST = 4096 };

static struct {
    struct part *part;
    size_t words[FEW]; /* relative to the part's first */
    uint32_t changed[FEW];
    size_t count;
    bool is_float32; /* else pairs of words, and single ones, need to be told apart */
} few;

/* How far elements reach that the launch works on, as far as what it wrote shows. */
static size_t
extent(const struct effect *effect)
{
    size_t most = 0;
    FOR_EACH(part, effect->parts, effect->part_count) {
        const struct scout_ranges *lists[] = {&part->killed, &part->modified};
        for (size_t k = 0; k < 2 && part->is_argument; ++k) {
            size_t end = lists[k]->count > 0 ? lists[k]->items[lists[k]->count - 1].hi / sizeof(uint32_t) : 0;
            most = end > part->first + most ? end - part->first : most;
        }
    }
    return most;
}

/* Whether this word of the part, or the number of 8 bytes that it is half of, is among those that are changed. */
static bool
is_taken(size_t word)
{
    return ANY(other, few.words, few.count,
               *other == word ||
                   (!few.is_float32 && (*other / 2 == word || *other == word / 2 || *other / 2 == word / 2)));
}

/* A number below `below`, another one for each try: rows of inputs have lengths that are powers of two, and these must
 * not show. */
static size_t
scatter(size_t try, size_t below)
{
    uint64_t mixed = (try * PARTS_AT_MOST + 1) * UINT64_C(0x9E3779B97F4A7C15);
    mixed = (mixed ^ mixed >> 32) * UINT64_C(0xD6E8FEB86659FD93);
    return (size_t)((mixed ^ mixed >> 32) % (below > 0 ? below : 1));
}

/* The first word of a part, from one of its words on, that the launch has changed and that is not taken; counted from
 * the part's first. SIZE_MAX: there is none. */
static size_t
next_worked(const struct part *part, size_t from)
{
    size_t word = images_next_written(part->image, from, part->end);
    while (word < part->end && is_taken(word - part->first))
        word = images_next_written(part->image, word + 1, part->end);
    return word < part->end ? word - part->first : SIZE_MAX;
}

/* Arguments that the launch has changed: those that may have as many elements as `part`, if there are any, else all. */
static size_t
list_worked(const struct effect *effect, const struct part *part, const struct part **list)
{
    size_t room = part->end - part->first, count = 0;
    for (int any = 0; any < 2 && count == 0; ++any) {
        FOR_EACH(it, effect->parts, effect->part_count) {
            size_t words = it->end - it->first;
            if (it->is_argument && it->image->is_written && (any > 0 || (words <= 2 * room && room <= 2 * words)))
                list[count++] = it;
        }
    }
    return count;
}

/* A word, counted from its argument, that the launch has changed in one of its arguments; from the t-th place on, which
 * are spread over all of them. SIZE_MAX: there is none. */
static size_t
worked_word(const struct part *const *list, size_t count, size_t t)
{
    for (size_t i = 0; i < count; ++i) {
        const struct part *part = list[(t + i) % count];
        size_t from = part->first + scatter(2 * t, part->end - part->first);
        size_t word = next_worked(part, from);
        if (word == SIZE_MAX)
            word = next_worked(part, part->first);
        if (word != SIZE_MAX)
            return word;
    }
    return SIZE_MAX;
}

/* Where the launch has changed something, as the t-th place to try; of an element of another size, too. */
static size_t
word_worked(const struct part *const *list, size_t count, size_t t)
{
    enum { SIZES = 3 };
    size_t word = worked_word(list, count, t);
    if (word == SIZE_MAX || few.is_float32 || t % SIZES == 0)
        return word;
    return t % SIZES == 1 ? word / 2 : 2 * word;
}

bool
elementwise_change(struct effect *effect, struct part *part)
{
    const struct part *worked[PARTS_AT_MOST];
    struct image *image = part->image;
    size_t room = part->end - part->first, reach = extent(effect), near = reach > 0 && reach < room ? reach : room;
    few.part = part;
    few.count = 0;
    few.is_float32 = effect_type(part) == SCOUT_FLOAT32;
    if (!change_is_of_floats(part->change))
        return false;
    size_t worked_count = list_worked(effect, part, worked), share = near / 4, count = 0;
    size_t wanted = share < FEW ? share : FEW; /* others show what is not so */
    wanted = wanted < LEAST_HITS ? LEAST_HITS : wanted;
    size_t far_end = room; /* of what is tried: next to what is near, too */
    bool has_far = room / 2 >= near;
    for (size_t t = 0; t < TRIES && few.count < FEW && (has_far || count < wanted); ++t) {
        size_t turn = has_far ? t / 2 : t; /* what is far shows that it is used, too */
        bool far = has_far && t % 2 == 1;
        size_t word = !far && turn % 2 == 0 ? word_worked(worked, worked_count, turn / 2) : SIZE_MAX;
        if (far)
            far_end = far_end / 2 > near ? far_end / 2 : room;
        if (word >= room)
            word = far ? near + scatter(t, far_end - near) : scatter(t, near);
        uint32_t value = image->before[part->first + word];
        bool is_noise = part->named == SCOUT_FLOAT64 && word % 2 == 0; /* the lower bits of a fraction */
        if ((!far && count == wanted) || is_noise || is_taken(word) ||
            !change_one(&value, part->change, image->fills_zeros))
            continue;
        count += !far;
        few.changed[few.count] = value;
        few.words[few.count++] = word;
        image->now[part->first + word] = value;
        images_change(image, part->first + word, part->first + word + 1);
    }
    return few.count > 0;
}

/* From which words to which: the same ones; each to the pair that it is the number of; each pair to one. */
enum ratio { RATIO_ONE, RATIO_WIDER, RATIO_NARROWER, RATIO_PAIRS, RATIOS };

/* Whether changed word `from` of an input explains changed word `to` of a result, if elements have sizes in this
 * ratio. */
static bool
fits(enum ratio ratio, size_t from, size_t to)
{
    bool from_pairs = ratio == RATIO_NARROWER || ratio == RATIO_PAIRS;
    bool to_pairs = ratio == RATIO_WIDER || ratio == RATIO_PAIRS;
    return (from_pairs ? from / 2 : from) == (to_pairs ? to / 2 : to);
}

/* Bytes of an element on both sides of an elementwise map, by the ratio of words that was seen and by the input's
 * type. */
static void
bytes_of_ratio(enum ratio ratio, uint32_t from_type, uint32_t *from_p, uint32_t *to_p)
{
    bool is_half = from_type == SCOUT_FLOAT16 || from_type == SCOUT_BFLOAT16, is_double = from_type == SCOUT_FLOAT64;
    static const uint32_t whole[RATIOS][2] = {{4, 4}, {4, 8}, {4, 2}, {8, 8}};
    *from_p = whole[ratio][0];
    *to_p = whole[ratio][1];
    if (ratio == RATIO_ONE && (is_half || is_double))
        *from_p = *to_p = is_half ? 2 : 8;
    else if (ratio == RATIO_WIDER && is_half)
        *from_p = 2, *to_p = 4;
    else if (ratio == RATIO_NARROWER && is_double)
        *from_p = 8, *to_p = 4;
}

/* The changed words of one argument, relative to it. */
struct changed_words {
    size_t words[CHANGED_AT_MOST], count;
    bool many;
};

/* Whether the word of an image was itself changed on purpose, and the launch has left it as it was changed. */
static bool
was_left_alone(const struct image *image, size_t word)
{
    for (size_t k = 0; k < few.count && few.part->image == image; ++k)
        if (few.part->first + few.words[k] == word)
            return images_left_alone(image, word, few.changed[k]);
    return false;
}

static size_t
end_of_base(const struct effect *effect, const struct base *base)
{
    bool has_next = base + 1 < effect->bases + effect->base_count && base[1].image == base->image;
    return has_next ? base[1].word : base->image->words;
}

/* Collects the words behind a base, as numbers from it, whose result changed in this run; `many`: more than fit. */
static void
collect_changed(const struct effect *effect, const struct base *base, struct changed_words *changed)
{
    const struct image *image = base->image;
    size_t end = end_of_base(effect, base);
    changed->count = 0;
    changed->many = false;
    for (size_t i = images_next_different(image, base->word, end); i < end && !changed->many;
         i = images_next_different(image, i + 1, end)) {
        if (near_are_words(image->now[i], image->after[i], image->tolerance) || was_left_alone(image, i))
            continue;
        if (changed->count == CHANGED_AT_MOST)
            changed->many = true;
        else
            changed->words[changed->count++] = i - base->word;
    }
}

/* Whether all that has changed are elements that were changed in the input. */
static bool
explains(enum ratio ratio, const struct changed_words *changed)
{
    return ALL(word, changed->words, changed->count, ANY_NUMBER(k, 0, few.count, fits(ratio, few.words[k], *word)));
}

/* How many of the elements that were changed show in `changed`. */
static size_t
count_hits(enum ratio ratio, const struct changed_words *changed)
{
    bool has_pairs = ratio == RATIO_NARROWER || ratio == RATIO_PAIRS; /* two of its words are one element */
    size_t hits = 0;
    for (size_t k = 0; k < few.count; ++k) {
        bool is_counted = has_pairs && ANY_NUMBER(i, 0, k, few.words[i] / 2 == few.words[k] / 2);
        hits += !is_counted && ANY_NUMBER(c, 0, changed->count, fits(ratio, few.words[k], changed->words[c]));
    }
    return hits;
}

/* Adds to the effect that the part goes element by element to the memory at `base`, as `hits` changed words have
 * shown. */
static void
note_elementwise(struct effect *effect, const struct base *base, enum ratio ratio, size_t hits)
{
    struct part *part = few.part;
    struct scout_elementwise found = {.from = part->image->allocation->number,
                                      .to = base->image->allocation->number,
                                      .from_base = part->first * sizeof(uint32_t),
                                      .to_base = base->word * sizeof(uint32_t),
                                      .samples = (uint32_t)hits};
    bytes_of_ratio(ratio, effect_type(part), &found.from_bytes, &found.to_bytes);
    *SCOUT_GROWN(effect->record.elementwise, effect->record.elementwise_count) = found;
}

/* Bytes of the ranges within words [first, end). */
static uint64_t
bytes_within(const struct scout_ranges *list, size_t first, size_t end)
{
    uint64_t bytes = 0;
    FOR_EACH(range, list->items, list->count) {
        uint64_t lo = range->lo > first * sizeof(uint32_t) ? range->lo : first * sizeof(uint32_t);
        uint64_t hi = range->hi < end * sizeof(uint32_t) ? range->hi : end * sizeof(uint32_t);
        bytes += lo < hi ? hi - lo : 0;
    }
    return bytes;
}

/* Whether several elements of a base depend on a part, as changing all of it has shown. */
static bool
depends(const struct effect *effect, const struct part *part, const struct base *base)
{
    enum { ELEMENT_BYTES = 8 };
    size_t first = base->word, end = end_of_base(effect, base);
    uint64_t bytes = bytes_within(&part->changed[base->image->number], first, end);
    if (base->image == part->image)
        bytes += bytes_within(&part->modified, first, end);
    return part->is_tested && bytes > ELEMENT_BYTES;
}

/* The part gets the first ratio by which some of its words show, and that explains all that has changed. */
static void
judge_base(struct effect *effect, const struct base *base, const struct changed_words *changed)
{
    enum ratio ratio = RATIO_ONE;
    size_t hits = 0;
    for (enum ratio it = 0; it < RATIOS && hits == 0; ++it) {
        size_t found = count_hits(it, changed);
        if ((found >= LEAST_HITS || (found > 0 && few.count == 1)) && explains(it, changed)) {
            hits = found;
            ratio = it;
        }
    }
    bool is_explained = hits > 0 || (changed->count < 2 && explains(RATIO_ONE, changed));
    if (hits > 0 || (is_explained && depends(effect, few.part, base)))
        note_elementwise(effect, base, ratio, hits);
}

void
elementwise_judge(struct effect *effect)
{
    static struct changed_words changed; /* large */
    FOR_EACH(base, effect->bases, effect->base_count) {
        collect_changed(effect, base, &changed);
        if (!changed.many)
            judge_base(effect, base, &changed);
    }
}

/* Whether each of `count` words could be changed. Without a branch in its loop, as most words of most parts could. */
static bool WITH_WIDE_VECTORS
are_tried(const uint32_t *words, uint32_t count, bool fills_zeros)
{
    uint32_t same = 0;
    for (uint32_t i = 0; i < count; ++i)
        same |= (uint32_t)(change_float(words[i], fills_zeros) == words[i]);
    return same == 0;
}

/* Words [*at, *end) of a part could not be changed, the first ones from *at on; false: there are none. */
static bool
find_not_tried(const struct image *image, const struct part *part, size_t *at, size_t *end)
{
    enum { PIECE = 1024 };
    const uint32_t *words = image->before;
    while (*at + PIECE <= part->end && are_tried(words + *at, PIECE, image->fills_zeros))
        *at += PIECE;
    while (*at < part->end && change_float(words[*at], image->fills_zeros) != words[*at])
        ++*at;
    for (*end = *at; *end < part->end && change_float(words[*end], image->fills_zeros) == words[*end];)
        ++*end;
    return *at < part->end;
}

void
elementwise_fill(struct effect *effect)
{
    enum { RUNS_AT_MOST = 1024 }; /* of words that could not be changed, in a part */
    FOR_EACH(found, effect->record.elementwise, effect->record.elementwise_count) {
        struct part *part =
            FIND(it, effect->parts, effect->part_count,
                 found->from == it->image->allocation->number && found->from_base == it->first * sizeof(uint32_t));
        const struct image *image = part->image, *to = images_find(&effect->images, found->to);
        struct scout_ranges *list = &part->changed[to->number];
        size_t at = part->first, end, runs = 0, base = found->to_base / sizeof(uint32_t);
        bool outside = to != image || base < part->first || base >= part->end;
        if (found->samples == 0 || change_is_of_pairs(part->change) || found->from_bytes != found->to_bytes ||
            !outside || list->count == 0)
            continue;
        for (; runs < RUNS_AT_MOST && find_not_tried(image, part, &at, &end); at = end, ++runs) {
            size_t first = at - part->first + base, last = end - part->first + base;
            struct scout_range open = {first * sizeof(uint32_t), last * sizeof(uint32_t)};
            struct scout_ranges all = ranges_merged(list, &(struct scout_ranges){&open, last <= to->words});
            ranges_clear(list);
            *list = all;
        }
    }
}
