/*
 * reach.c - what repeated launches have shown of later ones like them, so that these need fewer runs and smaller
 * copies: that they use their arguments only, that their results differ by themselves, and how far from each pointer
 * they use memory. repeat.c asks before the first run of a launch, and notes after its runs.
 *
 * Launches are alike by kernel, grid and the places of their pointers. Which memory the pointers lead to does not
 * count: layers of the same shape are one. Kept for as long as the process runs. Threads: with scout_lock() held.
 */
#include "tools/scout/trainer/scout.h"

#include <xxhash.h>

/* Identities of launches of which something was shown. */
struct shown {
    uint64_t *hashes;
    size_t count;
};

static struct shown uses_arguments_only, has_noise;

static bool
has_shown(const struct shown *shown, uint64_t hash)
{
    return ANY_NUMBER(i, 0, shown->count, shown->hashes[i] == hash);
}

static void
note_shown(struct shown *shown, uint64_t hash)
{
    *SCOUT_GROWN(shown->hashes, shown->count) = hash;
}

/* Hash of the launch's kernel, its grid and the places of its pointers among its parameters. */
static uint64_t
identity(const struct noted *launch)
{
    const struct scout_op *op = &launch->op;
    uint64_t hash = XXH3_64bits_withSeed(op->grid, sizeof(op->grid), op->name);
    FOR_EACH(argument, launch->arguments, op->argument_count) {
        uint64_t words[] = {argument->slot, argument->byte};
        hash = XXH3_64bits_withSeed(words, sizeof(words), hash);
    }
    return hash;
}

bool
reach_is_of_arguments(const struct noted *launch)
{
    return has_shown(&uses_arguments_only, identity(launch));
}

void
reach_note_arguments(const struct noted *launch)
{
    note_shown(&uses_arguments_only, identity(launch));
}

bool
reach_has_noise(const struct noted *launch)
{
    return has_shown(&has_noise, identity(launch));
}

void
reach_note_noise(const struct noted *launch)
{
    note_shown(&has_noise, identity(launch));
}

/* ---- how far from its pointers a launch uses memory ---- */

/*
 * As changing all of large memory has shown. The next launch of the kernel that has the same numbers that may be counts
 * reaches as far: it does not get all of such memory copied and changed again.
 */
struct reach {
    uint64_t hash;    /* reach_hash() of the launch */
    bool is_for_now;  /* for the first period: whole numbers have no other contents before the second */
    uint64_t *extent; /* bytes from each pointer that the call names */
};
static struct reach *reaches; /* [reach_count] */
static size_t reach_count;

/* Identity of the launch, its block and the numbers among its parameters that may be counts. */
static uint64_t
reach_hash(const struct noted *launch)
{
    const uint32_t *block = launch->op.block;
    uint64_t words[] = {identity(launch), launch->lengths, launch->named_count, block[0], block[1], block[2]};
    return XXH3_64bits(words, sizeof(words));
}

const uint64_t *
reach_find(const struct noted *launch)
{
    uint64_t hash = reach_hash(launch);
    bool is_first = course_round() == 0;
    const struct reach *found =
        FIND(reach, reaches, reach_count, reach->hash == hash && (is_first || !reach->is_for_now));
    return found != NULL ? found->extent : NULL;
}

/* Whether it is known of each part of large memory that is no argument whether it matters, and none that does lies
 * before all pointers. */
static bool
gaps_are_known(const struct effect *effect)
{
    const struct image *image = NULL;
    FOR_EACH(part, effect->parts, effect->part_count) {
        bool is_first = part->image != image, is_known = part->is_idle || part->is_tested;
        image = part->image;
        if (!part->is_gap || !image->is_large)
            continue;
        if (!is_known || (is_first && !part->is_idle && effect_uses(effect, part)))
            return false;
    }
    return true;
}

bool
reach_is_known(const struct effect *effect, bool gaps_matter)
{
    if (gaps_matter && !gaps_are_known(effect))
        return false;
    return !ANY(image, effect->images.items, effect->images.count, image->is_table);
}

/* The end, in bytes of the allocation, of what a launch reaches from a pointer: parts that it uses, one directly after
 * the other. It may go through the memory of its other arguments, as where the rows of several tensors take turns. */
static uint64_t
end_of_reach(const struct scout_argument *argument, const struct effect *effect, bool gaps_matter)
{
    size_t end = (argument->offset + sizeof(uint32_t) - 1) / sizeof(uint32_t); /* word of the allocation */
    FOR_EACH(part, effect->parts, effect->part_count) {                        /* those of an image are sorted */
        bool is_next = part->image->allocation->number == argument->alloc && part->first <= end && part->end > end;
        bool is_used = !part->is_gap || (gaps_matter && !part->is_idle && effect_uses(effect, part));
        if (is_next && is_used)
            end = part->reach_end != 0 ? part->reach_end : part->end;
    }
    return end * sizeof(uint32_t);
}

/* Whether parts between arguments could not be changed yet: whole numbers have no other contents before the second
 * period. */
static bool
are_gaps_open(const struct effect *effect)
{
    return course_round() == 0 && ANY(part, effect->parts, effect->part_count,
                                      part->is_gap && part->change == CHANGE_INTEGER && part->integers == NULL);
}

void
reach_note(const struct noted *launch, const struct effect *effect, bool gaps_matter)
{
    uint64_t *extent = scout_zeroed(launch->named_count, sizeof(*extent));
    for (size_t i = 0; i < launch->named_count; ++i) {
        const struct scout_argument *argument = &launch->arguments[i];
        extent[i] = end_of_reach(argument, effect, gaps_matter) - argument->offset;
    }
    *SCOUT_GROWN(reaches, reach_count) = (struct reach){reach_hash(launch), are_gaps_open(effect), extent};
}
