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
    LEARNING_RUNS = 3, /* further repetitions where the first one differs */
    CHANCES = 16,      /* repetitions that agree where sums may have come in another order */
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

static const uint64_t *extents;       /* reach_find() of this launch; NULL: all of its memory is looked at */
static bool groups_done, gaps_matter; /* what lies between arguments was tried; something came of it */

/* Whether the runs so far show how far the launch reaches: it had all of its memory copied, parts between arguments
 * were tried, and its results repeat. */
static bool
shows_reach(void)
{
    bool is_whole =
        extents == NULL && groups_done && effect.record.verdict != SCOUT_DIFFERS && effect.part_count < PARTS_AT_MOST;
    return is_whole && reach_is_known(&effect, gaps_matter);
}

/* ---- before the first run ---- */

/* How many runs such a launch has ended, with other integers or with other inputs; a hang counts twice. */
static uint32_t
ended_runs(enum scout_changed changed)
{
    uint32_t count = 0;
    FOR_EACH(it, scout_state.settings.left_out, SCOUT_LEFT_OUT_AT_MOST)
        count += it->launch == kernel_and_grid && it->changed == changed ? 1 + it->hung : 0;
    return count;
}

/* Why the launch is not repeated; NULL: it is. Asked before the first run, and again when its memory is known. */
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
    extents = excluded == NULL && reach_is_of_arguments(noted) ? reach_find(noted) : NULL;
    too_large = !arguments_take_images(begun, extents, &effect.images);
    excluded = reason_to_exclude();
    images_note_host(&effect.images);
    looks_hidden = !too_large && !reach_is_of_arguments(noted);
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
    if (reach_has_noise(noted)) {
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

/* After the run `run`, whose results the images hold: adds what it shows to `effect`, and narrows the searches. */
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
            reach_note_noise(noted);
        }
        break;
    case RUN_HIDDEN:
        hidden_change_back(noted->text);
        effect.record.hidden_read = effect_any(&effect, NULL, 0);
        if (!effect.record.hidden_read)
            reach_note_arguments(noted);
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

/* Sets `at` to the next part that is an argument and was not changed yet; `few`: that matters, and of which few
 * words were not. False: there is none. */
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

/* Prepares the next run of a search for an edge, or the first of another one. False: all have been made. */
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

/* Prepares the next run of a search for the end of a reach, or the first of another one (`is_begin`: the first of
 * all): where a part of large memory between arguments matters, which may be all of the rest of a pool. False: all
 * have been made. */
static bool
find_rim(bool is_begin)
{
    if (is_begin && !(gaps_matter && shows_reach()))
        return false;
    if (!is_begin && rim.to - rim.from > 1)
        return true;
    for (at = is_begin ? 0 : at + 1; at < effect.part_count; ++at) {
        const struct part *part = &effect.parts[at];
        bool is_open = part->is_gap && part->image->is_large && !part->is_idle && effect_uses(&effect, part);
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

/* As next_of_extent(), from the first part on. */
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
        reach_note(noted, &effect, gaps_matter);
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
