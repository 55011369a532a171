/*
 * elementwise.c - few words of a launch's inputs are changed, all inputs at once: does each of them change the same
 * element of a result, and nothing else there?
 */
#include "interpose/tools/scout/scout.h"

#include <stdlib.h>

enum { FEW = 12, LEAST_FEW = 4, LEAST_HITS = 2, TRIES = 600, PAIRS_AT_MOST = 64, CHANGED_AT_MOST = 4096 };

static struct few {
    struct part *part;
    size_t base;       /* word of the image */
    size_t words[FEW]; /* relative to the base */
    uint32_t changed[FEW];
    size_t count;
} few[PARTS_AT_MOST];
static size_t few_count;
static bool few_are_alike; /* all of float32: elements of different size need not be told apart */

/* How far elements reach that the launch works on, as far as what it wrote shows. */
static size_t
extent(const struct effect *effect)
{
    size_t most = 0;
    for (size_t i = 0; i < effect->part_count; ++i) {
        const struct part *part = &effect->parts[i];
        const struct ranges_list *lists[] = {&part->killed, &part->modified};
        for (size_t k = 0; k < 2 && part->is_argument; ++k) {
            size_t end = lists[k]->count > 0 ? lists[k]->items[lists[k]->count - 1].hi / sizeof(uint32_t) : 0;
            most = end > part->first + most ? end - part->first : most;
        }
    }
    return most;
}

static bool
is_taken(size_t word)
{
    for (size_t i = 0; i < few_count; ++i) {
        for (size_t k = 0; k < few[i].count; ++k) {
            size_t other = few[i].words[k];
            if (other == word || (!few_are_alike && (other / 2 == word || other == word / 2 || other / 2 == word / 2)))
                return true;
        }
    }
    return false;
}

static void
choose_few(struct effect *effect, struct part *part, size_t of, size_t reach)
{
    struct image *image = &effect->images.items[part->image];
    struct few *chosen = &few[few_count];
    *chosen = (struct few){.part = part, .base = part->first};
    size_t room = part->end - part->first;
    size_t near = reach > 0 && reach < room ? reach : room;
    if (part->change != CHANGE_FLOAT)
        return;
    ++few_count;
    size_t wanted = near / (4 * of) < FEW ? near / (4 * of) : FEW;
    for (size_t t = 0; t < TRIES && chosen->count < (wanted > LEAST_FEW ? wanted : LEAST_FEW); ++t) {
        size_t word = (size_t)((t * UINT64_C(2654435761) + part->first + 12345) %
                               (t % 2 == 0 ? near : room)); /* what is far shows that it is used, too */
        uint32_t value = image->before[part->first + word];
        if (is_taken(word) || !change_one(&value, image->allocation->held_floats))
            continue;
        chosen->changed[chosen->count] = value;
        chosen->words[chosen->count++] = word;
    }
    for (size_t i = 0; i < chosen->count; ++i) {
        size_t at = part->first + chosen->words[i];
        image->now[at] = chosen->changed[i];
        images_change(image, at, at + 1);
    }
    part->few = chosen->count;
    if (chosen->count == 0)
        --few_count;
}

bool
elementwise_change(struct effect *effect, struct part *const *parts, size_t count)
{
    size_t reach = extent(effect);
    few_count = 0;
    few_are_alike = true;
    for (size_t i = 0; i < count; ++i)
        few_are_alike = few_are_alike && effect_type(effect, parts[i]) == SCOUT_FLOAT32;
    for (size_t i = 0; i < count; ++i)
        choose_few(effect, parts[i], count, reach);
    return few_count > 0;
}

/* From which words to which: the same ones; each to the pair that it is the number of; each pair to one. */
enum ratio { RATIO_ONE, RATIO_WIDER, RATIO_NARROWER, RATIO_PAIRS, RATIOS };

static bool
fits(enum ratio ratio, size_t from, size_t to)
{
    switch (ratio) {
    case RATIO_ONE:
        return from == to;
    case RATIO_WIDER:
        return from == to / 2;
    case RATIO_NARROWER:
        return from / 2 == to;
    default:
        return from / 2 == to / 2;
    }
}

static void
bytes_of(enum ratio ratio, uint32_t from_type, uint32_t *from_p, uint32_t *to_p)
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

static bool
was_left_alone(const struct image *image, size_t image_index, size_t word)
{
    for (size_t i = 0; i < few_count; ++i) {
        for (size_t k = 0; k < few[i].count && few[i].part->image == image_index; ++k) {
            if (few[i].base + few[i].words[k] == word)
                return images_left_alone(image, word, few[i].changed[k]);
        }
    }
    return false;
}

static void
collect(const struct effect *effect, size_t base, struct changed_words *changed)
{
    size_t index = effect->base_images[base];
    const struct image *image = &effect->images.items[index];
    bool has_next = base + 1 < effect->base_count && effect->base_images[base + 1] == index;
    size_t end = has_next ? effect->bases[base + 1] : image->words;
    changed->count = 0;
    changed->many = false;
    for (size_t i = images_next_different(image, effect->bases[base], end); i < end && !changed->many;
         i = images_next_different(image, i + 1, end)) {
        if (images_same(image, image->now[i], image->after[i]) || was_left_alone(image, index, i))
            continue;
        if (changed->count == CHANGED_AT_MOST)
            changed->many = true;
        else
            changed->words[changed->count++] = i - effect->bases[base];
    }
}

static bool
explains(const struct few *from, enum ratio ratio, size_t word)
{
    for (size_t k = 0; k < from->count; ++k) {
        if (fits(ratio, from->words[k], word))
            return true;
    }
    return false;
}

/* How many of the words that were changed in `from` show in `changed`. */
static size_t
count_hits(const struct few *from, enum ratio ratio, const struct changed_words *changed)
{
    size_t hits = 0;
    for (size_t k = 0; k < from->count; ++k) {
        bool hit = false;
        for (size_t c = 0; c < changed->count && !hit; ++c)
            hit = fits(ratio, from->words[k], changed->words[c]);
        hits += hit;
    }
    return hits;
}

static void
note_elementwise(struct effect *effect, const struct few *from, size_t base, enum ratio ratio, size_t hits)
{
    struct elementwise_found *grown = realloc(effect->found, (effect->found_count + 1) * sizeof(*grown));
    if (grown == NULL)
        scout_stop("out of memory");
    effect->found = grown;
    struct elementwise_found found = {.from = (size_t)(from->part - effect->parts),
                                      .to = effect->base_images[base],
                                      .to_base = effect->bases[base],
                                      .samples = (uint32_t)hits};
    bytes_of(ratio, effect_type(effect, from->part), &found.from_bytes, &found.to_bytes);
    for (size_t i = 0; i < effect->found_count; ++i) {
        if (effect->found[i].from == found.from && effect->found[i].to == found.to &&
            effect->found[i].to_base == found.to_base)
            return;
    }
    effect->found[effect->found_count++] = found;
}

/* Each part gets the first ratio by which some of its words show, if all that changed is explained so. */
static bool
judge_base(struct effect *effect, size_t base, const struct changed_words *changed)
{
    enum ratio ratios[PARTS_AT_MOST] = {0};
    size_t hits[PARTS_AT_MOST] = {0};
    for (size_t i = 0; i < few_count; ++i) {
        for (enum ratio ratio = 0; ratio < RATIOS && hits[i] == 0; ++ratio) {
            size_t found = count_hits(&few[i], ratio, changed);
            if (found >= LEAST_HITS || (found > 0 && few[i].count == 1)) {
                hits[i] = found;
                ratios[i] = ratio;
                /* Prefer a ratio that alone explains all, when there is one part only. */
                bool all = true;
                for (size_t c = 0; few_count == 1 && c < changed->count; ++c)
                    all = all && explains(&few[i], ratio, changed->words[c]);
                if (!all)
                    hits[i] = 0;
            }
        }
    }
    for (size_t c = 0; c < changed->count; ++c) {
        bool explained = false;
        for (size_t i = 0; i < few_count && !explained; ++i)
            explained = hits[i] > 0 && explains(&few[i], ratios[i], changed->words[c]);
        if (!explained)
            return false;
    }
    for (size_t i = 0; i < few_count; ++i) {
        if (hits[i] > 0)
            note_elementwise(effect, &few[i], base, ratios[i], hits[i]);
    }
    return true;
}

bool
elementwise_judge(struct effect *effect)
{
    static struct changed_words changed; /* large */
    bool clean = true;
    for (size_t base = 0; base < effect->base_count; ++base) {
        collect(effect, base, &changed);
        if (changed.count == 0)
            continue;
        if (changed.many || !judge_base(effect, base, &changed))
            clean = false;
    }
    return clean;
}
