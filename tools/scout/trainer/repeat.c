/*
 * repeat.c - a launch is made again and again, each time with other inputs, and what came of it is compared.
 *
 * The call itself is repeated by the hook (struct operation, `again`), so between two repetitions this file is left and
 * entered again: `next` says what the run that was just made was for. Before each repetition the launch's memory is as
 * it was before the first run, but for what is changed on purpose; when all is known it is as the first run has left
 * it.
 *
 * What cannot be repeated safely has one run, and its name says why.
 */
#include "base/clock.h"
#include "base/printable.h"
#include "tools/scout/trainer/scout.h"

#include <xxhash.h>

enum {
    LEARNING_RUNS = 3,     /* further repetitions where the first one differs */
    CHANCES = 16,          /* repetitions that agree where sums may have come in another order */
    POINTERS_LOOKED = 512, /* words of an argument's memory that may be pointers */
};

enum run {
    RUN_FIRST,    /* the trainer's */
    RUN_AGAIN,    /* is the result the same? */
    RUN_LEARNING, /* how much do results differ? */
    RUN_HIDDEN,   /* with all memory changed that is no argument */
    RUN_PART,     /* with one part changed */
    RUN_GROUP,    /* with all parts of an allocation changed that are no arguments */
    RUN_FEW,      /* with few words of a part changed */
    RUN_EDGE,     /* with the first or the last words of a part changed, of which a number may choose some */
    RUN_REACH,    /* with a half changed of where the reach of a launch may end */
    RUN_END,
};

static struct effect effect = {.record = {.hidden_write = SCOUT_NONE, .why = SCOUT_NONE}};
static const struct noted *noted;
static enum run next;
static enum run
    unsure; /* made again after repetitions have said whether results differ by themselves; RUN_FIRST: none */
static uint32_t learned;     /* repetitions for that */
static size_t at;            /* the part, or the image of a group */
static const char *excluded; /* why there is no repetition; NULL: there is one */
static bool too_large, looks_hidden;
static uint64_t kernel_and_grid; /* struct scout_left_out.launch */
static bool chooses;             /* numbers of the launch are other ones than a period before */

/* The search for where the words begin, or `is_last` end, that a launch uses of the part `at`: changing `none` words
 * from that end on shows nothing, changing `some` does. */
static struct {
    size_t none, some;
    bool is_last;
} edge;

/* The search for where the reach of a launch ends in the part `at` between arguments: not before word `from`, and not
 * after word `to`. */
static struct {
    size_t from, to;
} rim;

/* What earlier launches have shown, by hashes. */
struct shown {
    uint64_t *hashes;
    size_t count;
};

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

/* Launches of which it is known that they use their arguments only: the kernel, its grid and the places of its
 * pointers. Which memory the pointers lead to does not count: layers of the same shape are one. */
static struct shown clean;

static uint64_t
identity(void)
{
    const struct scout_op *op = &noted->op;
    uint64_t hash = XXH3_64bits_withSeed(op->grid, sizeof(op->grid), op->name);
    FOR_EACH(argument, noted->arguments, op->argument_count) {
        uint64_t words[] = {argument->slot, argument->byte};
        hash = XXH3_64bits_withSeed(words, sizeof(words), hash);
    }
    return hash;
}

/*
 * How far from each of its pointers a launch uses large memory, as changing all of such memory has shown. The next
 * launch of the kernel that has the same numbers that may be counts reaches as far: it does not get all of such memory
 * copied and changed again.
 */
struct reach {
    uint64_t hash;    /* of the launch, without what its pointers lead to */
    bool is_for_now;  /* for the first period: whole numbers have no other contents before the second */
    uint64_t *extent; /* bytes from each pointer that the call names */
};
static struct reach *reaches; /* [reach_count] */
static size_t reach_count;
static const uint64_t *extents;       /* of this launch; NULL: not known, all of its memory is looked at */
static bool groups_done, gaps_matter; /* what lies between arguments was tried; something came of it */

static uint64_t
reach_hash(void)
{
    const struct scout_op *op = &noted->op;
    uint64_t words[] = {identity(), noted->lengths, noted->named_count, op->block[0], op->block[1], op->block[2]};
    return XXH3_64bits(words, sizeof(words));
}

static const uint64_t *
find_extents(void)
{
    uint64_t hash = reach_hash();
    bool is_first = course_round() == 0;
    const struct reach *found =
        FIND(reach, reaches, reach_count, reach->hash == hash && (is_first || !reach->is_for_now));
    return found != NULL ? found->extent : NULL;
}

static bool
part_was_used(const struct part *part)
{
    return part->killed.count + part->modified.count > 0 ||
           ANY_NUMBER(k, 0, effect.images.count, part->changed[k].count > 0) ||
           images_next_written(part->image, part->first, part->end) < part->end;
}

/* Whether it is known of each part of large memory that is no argument whether it matters, and none that does lies
 * before all pointers. */
static bool
gaps_are_known(void)
{
    const struct image *image = NULL;
    FOR_EACH(part, effect.parts, gaps_matter ? effect.part_count : 0) {
        bool is_first = part->image != image, is_known = part->is_idle || part->is_tested;
        image = part->image;
        if (part->is_gap && image->is_large && (!is_known || (is_first && !part->is_idle && part_was_used(part))))
            return false;
    }
    return true;
}

/* The end, in bytes, of what a launch reaches from a pointer: parts that it uses, one directly after the other. It may
 * go through the memory of its other arguments, as where the rows of several tensors take turns. */
static uint64_t
end_of_reach(const struct scout_argument *argument)
{
    size_t end = (argument->offset + sizeof(uint32_t) - 1) / sizeof(uint32_t);
    FOR_EACH(part, effect.parts, effect.part_count) { /* those of an image are sorted */
        bool is_next = part->image->allocation->number == argument->alloc && part->first <= end && part->end > end;
        bool is_used = !part->is_gap || (gaps_matter && !part->is_idle && part_was_used(part));
        if (is_next && is_used)
            end = part->reach_end != 0 ? part->reach_end : part->end;
    }
    return end * sizeof(uint32_t);
}

/* Whole numbers between arguments have no other contents before the second period. */
static bool
are_gaps_open(void)
{
    return course_round() == 0 && ANY(part, effect.parts, effect.part_count,
                                      part->is_gap && part->change == CHANGE_INTEGER && part->integers == NULL);
}

/* Whether all runs of a launch, which got all of its memory copied, have shown how far it reaches. */
static bool
shows_reach(void)
{
    bool is_whole =
        extents == NULL && groups_done && effect.record.verdict != SCOUT_DIFFERS && effect.part_count < PARTS_AT_MOST;
    return is_whole && gaps_are_known() && !ANY(image, effect.images.items, effect.images.count, image->is_table);
}

static void
note_reach(void)
{
    uint64_t *extent = scout_zeroed(noted->named_count, sizeof(*extent));
    for (size_t i = 0; i < noted->named_count; ++i)
        extent[i] = end_of_reach(&noted->arguments[i]) - noted->arguments[i].offset;
    *SCOUT_GROWN(reaches, reach_count) = (struct reach){reach_hash(), are_gaps_open(), extent};
}

/* Launches that had other bits when one like them was repeated. */
static struct shown noisy;

/* ---- before the first run ---- */

/* `extent`: that much from there on, at least; all of it where no extents are known. */
static bool
add_image(struct allocation *allocation, uint64_t offset, uint64_t extent)
{
    if (!images_add(&effect.images, allocation))
        return false;
    struct image *image = images_find(&effect.images, allocation->number);
    if (extents == NULL) {
        images_look(image, 0, allocation->bytes);
        return true;
    }
    uint64_t rest = allocation->bytes - offset, next_offset = allocations_next_offset(allocation, offset);
    uint64_t reached = offset + (extent < rest ? extent : rest);
    images_look(image, offset, reached > next_offset ? reached : next_offset);
    return true;
}

/* All that the call names; false: there is no room. */
static bool
add_named(void)
{
    for (size_t i = 0; i < noted->named_count; ++i) {
        const struct scout_argument *argument = &noted->arguments[i];
        struct allocation *allocation = allocations_numbered(argument->alloc);
        if (allocation != NULL && !add_image(allocation, argument->offset, extents != NULL ? extents[i] : 0))
            return false;
    }
    return true;
}

/* A pointer in the memory of an argument: what it points to is an argument, too. */
static bool
follow_pointer(struct noted *launch, uint64_t address, uint32_t at, uint32_t type)
{
    struct allocation *target = allocations_known(address);
    if (target == NULL || target->memory == SCOUT_PINNED)
        return false;
    uint64_t offset = address - target->address;
    if (ANY(argument, launch->arguments, launch->op.argument_count,
            argument->alloc == target->number && argument->offset == offset))
        return true;
    if (launch->op.argument_count == ARGUMENTS_AT_MOST) {
        launch->too_many = true;
        return true;
    }
    allocations_note_offset(target, offset);
    launch->arguments[launch->op.argument_count++] =
        (struct scout_argument){.slot = UINT16_MAX,
                                .byte = at,
                                .alloc = target->number,
                                .offset = offset,
                                .end = allocations_next_offset(target, offset),
                                .type = type};
    too_large = too_large || !add_image(target, offset, 0);
    return true;
}

/* Memory that holds addresses of other memory: what they point to counts as arguments, and they stay as they are. */
static void
follow_tables(struct noted *launch)
{
    for (uint32_t i = 0; i < launch->op.argument_count && !too_large; ++i) {
        const struct scout_argument argument = launch->arguments[i];
        struct image *image = images_find(&effect.images, argument.alloc);
        uint64_t looked = argument.offset + POINTERS_LOOKED * sizeof(uint64_t);
        uint64_t end = argument.end < looked ? argument.end : looked;
        for (uint64_t at = (argument.offset + 7) / 8 * 8; at + sizeof(uint64_t) <= end && !too_large; at += 8) {
            uint64_t word;
            memcpy(&word, (const char *)image->before + at, sizeof(word));
            if (follow_pointer(launch, word, (uint32_t)at, argument.table)) {
                image = images_find(&effect.images, argument.alloc); /* may have moved */
                image->is_table = true;
            }
        }
    }
}

/* How many runs such a launch has ended, with other integers or with other inputs; a hang counts twice. */
static uint32_t
ended_runs(enum scout_changed changed)
{
    uint32_t count = 0;
    FOR_EACH(it, scout_state.settings.left_out, SCOUT_LEFT_OUT_AT_MOST)
        count += it->launch == kernel_and_grid && it->changed == changed ? 1 + it->hung : 0;
    return count;
}

static const char *
reason_to_exclude(void)
{
    if (ended_runs(SCOUT_CHANGED_INPUTS) > 1)
        return "it failed when it was repeated with other inputs";
    if (noted->unknown)
        return "its parameters are not known";
    if (noted->too_many)
        return "it has more arguments than are followed";
    if (noted->opaque && noted->op.argument_count == 0)
        return "what it works on is not known";
    if (noted->cooperative)
        return "a cooperative launch";
    if (noted->op.answers)
        return "it gives the host a result, besides what it writes";
    return NULL;
}

void
repeat_begin(struct noted *begun, CUstream stream)
{
    memory_follow(stream);
    noted = begun;
    chooses = course_has_other_numbers(noted);
    next = RUN_FIRST;
    at = learned = 0;
    unsure = RUN_FIRST;
    kernel_and_grid = XXH3_64bits_withSeed(noted->op.grid, sizeof(noted->op.grid), kernels_hash(noted->text));
    excluded = reason_to_exclude();
    groups_done = gaps_matter = false;
    extents = excluded == NULL && has_shown(&clean, identity()) ? find_extents() : NULL;
    too_large = !add_named();
    if (!too_large)
        follow_tables(begun);
    excluded = reason_to_exclude();
    images_note_host(&effect.images);
    looks_hidden = !too_large && !has_shown(&clean, identity());
    if (too_large)
        images_free(&effect.images);
    if (looks_hidden)
        hidden_begin(&effect.images);
    (void)plain_name(noted->text, scout_state.progress->kernel, sizeof(scout_state.progress->kernel));
    atomic_store(&scout_state.progress->repeat_ms, (uint64_t)clock_now_ms());
}

/* ---- from run to run ---- */

/* The parts of the image `at` that are no arguments; how many. */
static size_t
list_gaps(struct part *list[PARTS_AT_MOST])
{
    size_t count = 0;
    FOR_EACH_MUTABLE(part, effect.parts, effect.part_count)
        if (part->image->number == at && !part->is_argument)
            list[count++] = part;
    return count;
}

static size_t
middle_of_rim(void)
{
    return rim.from + (rim.to - rim.from) / 2;
}

/* Changes what `run` is for. False: there is nothing to change, so no run is needed. */
static bool
prepare_repeat(enum run run)
{
    struct part *parts[PARTS_AT_MOST] = {&effect.parts[at]};
    bool any = false;
    switch (run) {
    case RUN_AGAIN:
    case RUN_LEARNING:
        return true;
    case RUN_HIDDEN:
        hidden_change();
        return true;
    case RUN_PART:
        effect.parts[at].was_tried = true;
        return effect_change(&effect, &effect.parts[at]);
    case RUN_GROUP:
        FOR_EACH(part, parts, list_gaps(parts))
            any = effect_change(&effect, *part) || any;
        return any;
    case RUN_FEW:
        parts[0]->had_few = true;
        return elementwise_change(&effect, parts[0]);
    case RUN_EDGE: {
        size_t count = (edge.none + edge.some) / 2, begin = edge.is_last ? parts[0]->end - count : parts[0]->first;
        effect_change_words(&effect, parts[0], begin, begin + count);
        return true;
    }
    case RUN_REACH:
        effect_change_words(&effect, parts[0], middle_of_rim(), rim.to);
        return true;
    default:
        return false;
    }
}

/* Parts between arguments, after they were changed together: nothing depends on them, or each is looked at. */
static void
judge_group(void)
{
    struct part *group[PARTS_AT_MOST] = {NULL};
    size_t count = list_gaps(group);
    bool any = effect_any(&effect, (const struct part *const *)group, count);
    gaps_matter = gaps_matter || any;
    if (any && count == 1)
        effect_judge(&effect, group[0]);
    for (size_t i = 0; i < count && !(any && count == 1); ++i) {
        group[i]->is_tested = false;
        group[i]->is_idle = !any;
        group[i]->is_argument = group[i]->matters = any; /* to be tested by itself; until then it counts as read */
    }
}

/* A single number that was overwritten is tried once more, where results do not differ by chance: one more run is one
 * more chance. */
static void
try_lower(struct part *part)
{
    if (!effect_may_be_least(&effect, part) || effect.record.verdict == SCOUT_TOLERANCE)
        return;
    part->is_lower = true;
    part->is_tested = part->was_tried = false;
    ranges_clear(&part->killed);
}

/* Whether `run` differs by so little that its sums may have come in another order, although all repetitions had the
 * same bits: a launch of few threads often adds up in the same order by chance. Once a launch. */
static bool
is_unsure(enum run run)
{
    return run > RUN_LEARNING && (effect.record.verdict == SCOUT_TESTED || run == RUN_HIDDEN) && learned == 0 &&
           images_are_near(&effect.images);
}

/* Repetitions come first, unless a launch like it has shown noise. Returns whether they do. */
static bool
set_aside(void)
{
    if (has_shown(&noisy, identity())) {
        effect.record.verdict = SCOUT_TOLERANCE;
        images_widen(&effect.images);
        return false;
    }
    if (next == RUN_HIDDEN)
        hidden_change_back(noted->text);
    unsure = next;
    next = RUN_LEARNING;
    return true;
}

static void
judge_repeat(enum run run)
{
    bool differs = false;
    switch (run) {
    case RUN_AGAIN:
    case RUN_LEARNING:
        if (!images_learn(&effect.images, &differs)) {
            effect.record.verdict = SCOUT_DIFFERS;
            effect.record.why = names_put("the same launch twice gives different results");
        } else if (differs) {
            effect.record.verdict = SCOUT_TOLERANCE;
            note_shown(&noisy, identity());
        }
        break;
    case RUN_HIDDEN:
        hidden_change_back(noted->text);
        effect.record.hidden_read = effect_any(&effect, NULL, 0);
        if (!effect.record.hidden_read)
            note_shown(&clean, identity());
        break;
    case RUN_PART:
        effect_judge(&effect, &effect.parts[at]);
        effect_set_apart(&effect, &effect.parts[at]);
        try_lower(&effect.parts[at]);
        break;
    case RUN_GROUP:
        judge_group();
        break;
    case RUN_FEW:
        elementwise_judge(&effect);
        break;
    case RUN_EDGE: {
        const struct part *part = &effect.parts[at];
        size_t *side = effect_any(&effect, &part, 1) ? &edge.some : &edge.none;
        *side = (edge.none + edge.some) / 2;
        break;
    }
    case RUN_REACH:
        if (effect_any_of(&effect, &effect.parts[at], middle_of_rim(), rim.to))
            rim.from = middle_of_rim();
        else
            effect.parts[at].reach_end = rim.to = middle_of_rim();
        break;
    default:
        break;
    }
}

/* The next part that is an argument, and was not changed yet; `few`: that matters, and of which few words were not. */
static bool
find_part(bool few)
{
    const struct part *part = FIND(
        it, effect.parts, effect.part_count,
        it->is_argument && (few ? it->is_tested && it->matters && !it->had_few : !it->is_tested && !it->was_tried));
    at = part != NULL ? (size_t)(part - effect.parts) : effect.part_count;
    return part != NULL;
}

/* Whether so little is written that sums in other orders may have the same bits by chance. */
static bool
writes_few(void)
{
    enum { FEW_WORDS = 64 };
    size_t count = 0;
    FOR_EACH(image, effect.images.items, effect.images.count)
        for (size_t k = images_next_written(image, 0, image->words); k < image->words && count <= FEW_WORDS; ++count)
            k = images_next_written(image, k + 1, image->words);
    return count > 0 && count <= FEW_WORDS;
}

/* Whether some of a part's whole numbers must not be changed without the others, as offsets beside lengths: runs of
 * such a launch have ended so. */
static bool
must_stay_together(const struct part *part)
{
    return part->change == CHANGE_INTEGER &&
           (ended_runs(SCOUT_CHANGED_INTEGERS) > 0 || ended_runs(SCOUT_CHANGED_SOME_INTEGERS) > 0);
}

/* The next run of a search for an edge, or the first of another one. */
static bool
find_edge(void)
{
    struct part *part = at < effect.part_count ? &effect.parts[at] : NULL;
    if (part != NULL && edge.some - edge.none > 1)
        return true;
    if (part != NULL && !edge.is_last) {
        part->used_first = part->first + edge.none;
        edge.none = 0;
        edge.some = part->end - part->first;
        edge.is_last = true;
        return true;
    }
    if (part != NULL && part->used_first < part->end - edge.none)
        part->used_end = part->end - edge.none;
    do
        ++at;
    while (at < effect.part_count &&
           (must_stay_together(&effect.parts[at]) || !effect_may_be_chosen(&effect.parts[at])));
    edge.none = 0;
    edge.some = at < effect.part_count ? effect.parts[at].end - effect.parts[at].first : 0;
    edge.is_last = false;
    return at < effect.part_count;
}

/* The next run of a search for the end of a reach, or the first of another one: where a part of large memory between
 * arguments matters, which may be all of the rest of a pool. */
static bool
find_rim(bool is_begin)
{
    if (is_begin && !(gaps_matter && shows_reach()))
        return false;
    if (!is_begin && rim.to - rim.from > 1)
        return true;
    for (at = is_begin ? 0 : at + 1; at < effect.part_count; ++at) {
        const struct part *part = &effect.parts[at];
        bool is_open = part->is_gap && part->image->is_large && !part->is_idle && part_was_used(part);
        rim.from = part->first;
        rim.to = part->end;
        if (is_open && part->end - part->first > 1)
            return true;
    }
    return false;
}

/* What a number chooses, then how far the launch reaches; after each of these, the next. */
static enum run
next_of_extent(void)
{
    if (chooses && find_edge())
        return RUN_EDGE;
    return find_rim(true) ? RUN_REACH : RUN_END;
}

/* The same, from the first part on. */
static enum run
first_of_extent(void)
{
    at = (size_t)-1;
    return next_of_extent();
}

/*
 * What comes after `run`; sets `at`. Order: the same again, hidden memory, arguments, what lies between them (which may
 * make more parts of arguments), few words of each, what a number chooses, how far the launch reaches.
 */
static enum run
following(enum run run)
{
    switch (run) {
    case RUN_FIRST:
        return RUN_AGAIN;
    case RUN_AGAIN:
    case RUN_LEARNING:
        if (effect.record.verdict == SCOUT_DIFFERS)
            return RUN_END;
        if (unsure != RUN_FIRST)
            return ++learned < CHANCES && effect.record.verdict == SCOUT_TESTED ? RUN_LEARNING : unsure;
        if (effect.record.verdict == SCOUT_TOLERANCE && effect.record.tests < 1 + LEARNING_RUNS)
            return RUN_LEARNING;
        if (effect.record.verdict == SCOUT_TESTED && effect.record.tests < LEARNING_RUNS && writes_few())
            return RUN_LEARNING;
        if (looks_hidden)
            return RUN_HIDDEN;
        /* fallthrough */
    case RUN_HIDDEN:
    case RUN_PART:
        if (find_part(false))
            return RUN_PART;
        if (groups_done)
            return find_part(true) ? RUN_FEW : first_of_extent();
        at = (size_t)-1;
        /* fallthrough */
    case RUN_GROUP:
        groups_done = true;
        if (++at < effect.images.count)
            return RUN_GROUP;
        if (find_part(false))
            return RUN_PART;
        /* fallthrough */
    case RUN_FEW:
        return find_part(true) ? RUN_FEW : first_of_extent();
    case RUN_EDGE:
        return next_of_extent();
    case RUN_REACH:
        return find_rim(false) ? RUN_REACH : RUN_END;
    default:
        return RUN_END;
    }
}

/* Of parts between arguments that matter, no more is put down than what the launch reaches. */
static void
cut_off_gaps(void)
{
    FOR_EACH_MUTABLE(part, effect.parts, effect.part_count) {
        size_t end = part->reach_end;
        bool is_within =
            (part->killed.count == 0 || part->killed.items[part->killed.count - 1].hi <= end * sizeof(uint32_t)) &&
            (part->modified.count == 0 || part->modified.items[part->modified.count - 1].hi <= end * sizeof(uint32_t));
        if (end > part->first && is_within)
            part->end = end;
    }
}

/* Returns that there is no further run. */
static bool
finish_repeat(bool repeated)
{
    if (shows_reach())
        note_reach();
    if (repeated) {
        images_read(&effect.images, true, false);
        images_restore(&effect.images, true);
        memory_wait();
    }
    if (too_large)
        excluded = "there is no room for copies of its memory";
    if (excluded != NULL) {
        effect.record.verdict = SCOUT_EXCLUDED;
        effect.record.why = names_put(excluded);
    }
    elementwise_fill(&effect);
    cut_off_gaps();
    effect_put(&effect);
    effect_free(&effect);
    memory_follow(NULL);
    atomic_store(&scout_state.progress->repeat_ms, 0);
    return false;
}

/* After the trainer's own run: whether it can be repeated. */
static bool
look_at_first_run(CUresult answer)
{
    if (too_large || answer != CUDA_SUCCESS)
        return false;
    static char text[64];
    const struct allocation *of_host = images_first_run(&effect.images);
    images_note_left(&effect.images);
    if (excluded == NULL && of_host != NULL) {
        snprintf(text, sizeof(text), "it writes memory of the host, a%" PRIu32, of_host->number);
        excluded = text;
    }
    if (looks_hidden)
        effect.record.hidden_write = hidden_written();
    if (excluded == NULL && effect.record.hidden_write != SCOUT_NONE)
        excluded = "it writes memory that is not among its arguments";
    effect_make_parts(&effect, noted, extents, ended_runs(SCOUT_CHANGED_INTEGERS) > 0,
                      ended_runs(SCOUT_CHANGED_INPUTS) > 0);
    return excluded == NULL;
}

/* What a run changes. */
static enum scout_changed
changed_by(enum run run)
{
    const bool is_part = run == RUN_EDGE || run == RUN_REACH;
    if (!effect.has_integers)
        return SCOUT_CHANGED_INPUTS;
    return is_part ? SCOUT_CHANGED_SOME_INTEGERS : SCOUT_CHANGED_INTEGERS;
}

bool
repeat_next(CUresult answer)
{
    if (next == RUN_FIRST) {
        if (!look_at_first_run(answer))
            return finish_repeat(false);
    } else {
        if (answer != CUDA_SUCCESS)
            scout_stop("%s failed with %s when it was repeated with other %s", noted->text,
                       driver_result_name(&scout_state.driver, answer), effect.has_integers ? "integers" : "inputs");
        images_read(&effect.images, next == RUN_AGAIN || next == RUN_HIDDEN, true);
        if (!is_unsure(next) || !set_aside())
            judge_repeat(next);
    }
    next = following(next);
    effect.has_integers = false;
    if (next != RUN_END)
        images_restore(&effect.images, false);
    while (next != RUN_END && !prepare_repeat(next))
        next = following(next);
    if (next == RUN_END)
        return finish_repeat(true);
    if (noted->opaque) /* it may run on another stream */
        memory_wait();
    ++effect.record.tests;
    scout_state.progress->launch = (struct scout_left_out){kernel_and_grid, changed_by(next), 0};
    atomic_fetch_add(&scout_state.progress->tests, 1);
    atomic_store(&scout_state.progress->repeat_ms, (uint64_t)clock_now_ms());
    return true;
}
