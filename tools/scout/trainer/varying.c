/*
 * varying.c - where launches repeat, and not all else does: which operation differs from step to step (briefs.h).
 *
 * Copies to the host may differ: how many there are may depend on what they bring, as where the host looks for a label.
 * They are left out of what repeats, and of the recording, and count as operations beside the steps. Such a copy is
 * known by its name and its call site. It differs if between two launches there are more of it, or fewer, than a step
 * before, or if one of them is not like that one.
 */
#include "tools/scout/trainer/briefs.h"

#include <stdio.h>

enum {
    ALIKE = 3,               /* steps of launches, to say what differs; */
    ALIKE_BUT_FOR_READS = 8, /* to leave out copies that do */
    LAUNCHES_COMPARED = 4096,
    STEPS_COMPARED = 16,
    READS_AT_MOST = 64
};

/* Copies to the host, by name and call site. */
struct reads {
    struct read {
        uint64_t name;
        uint32_t site;
    } items[READS_AT_MOST];
    size_t count;
};
static struct reads left_out; /* for good */
static struct reads narrowed; /* until varying_settle() */

/* ---- launches that repeat ---- */

/* The last launches: in `list` by their operations, the newest first. */
static size_t
list_launches(size_t list[LAUNCHES_COMPARED])
{
    size_t count = 0;
    for (size_t i = brief_count; i-- > 0 && count < LAUNCHES_COMPARED;)
        if (briefs[i].computes)
            list[count++] = i;
    return count;
}

/* How many of the last launches are like the one `lag` launches before. */
static size_t
count_alike(const size_t *list, size_t count, size_t lag)
{
    size_t alike = 0;
    while (alike + lag < count && briefs[list[alike]].what == briefs[list[alike + lag]].what)
        ++alike;
    return alike;
}

/* After how many launches they repeat, if copies and fills are passed over, and how many do; 0: they do not. What
 * repeats in less than half of all operations may be a loop inside a step. */
static size_t
find_launches(const size_t *list, size_t count, size_t *alike_p)
{
    for (size_t lag = 1; ALIKE * lag <= count; ++lag) {
        *alike_p = count_alike(list, count, lag);
        if (*alike_p < (ALIKE - 1) * lag)
            continue;
        if (*alike_p + lag == count || list[*alike_p] < brief_count / 2)
            return lag;
    }
    return 0;
}

/* ---- copies to the host that differ ---- */

static bool
has_read(const struct reads *reads, const struct brief *brief)
{
    return brief->is_read &&
           ANY(it, reads->items, reads->count, it->name == brief->any_size && it->site == brief->site);
}

static bool
is_narrowed(const struct brief *brief)
{
    return has_read(&narrowed, brief);
}

static bool
is_same_read(const struct brief *a, const struct brief *b)
{
    return a->is_read && b->is_read && a->any_size == b->any_size && a->site == b->site;
}

/* Of copy `i`, one like it after the launch `behind`, which comes after as many others of it as copy `i` does after the
 * launch `after`; SIZE_MAX: there is none before the next launch. */
static size_t
find_counterpart(size_t i, size_t after, size_t behind)
{
    size_t before = 0;
    for (size_t k = after + 1; k < i; ++k)
        before += is_same_read(&briefs[k], &briefs[i]);
    for (size_t k = behind + 1; k < brief_count && !briefs[k].computes; ++k) {
        if (!is_same_read(&briefs[k], &briefs[i]))
            continue;
        if (before == 0)
            return k;
        --before;
    }
    return SIZE_MAX;
}

/* Whether copy `i`, which comes after the launch `after`, differs from what comes after the launch `behind`. */
static bool
differs(size_t i, size_t after, size_t behind)
{
    const size_t other = find_counterpart(i, after, behind);
    const size_t early = other < i ? other : i, late = other < i ? i : other;
    return other == SIZE_MAX || !briefs_are_alike(late, late - early);
}

/* The copies between the launch `after` and the next one that differ from those after the launch `behind`. */
static void
note_differing(size_t after, size_t behind)
{
    for (size_t i = after + 1; i < brief_count && !briefs[i].computes; ++i) {
        bool is_new = briefs[i].is_read && !is_narrowed(&briefs[i]) && narrowed.count < READS_AT_MOST;
        if (is_new && differs(i, after, behind))
            narrowed.items[narrowed.count++] = (struct read){briefs[i].any_size, briefs[i].site};
    }
}

bool
varying_narrow(void)
{
    static size_t list[LAUNCHES_COMPARED];
    size_t alike, count = list_launches(list), lag = find_launches(list, count, &alike);
    size_t compared = (ALIKE_BUT_FOR_READS - 1) * lag;
    narrowed.count = 0;
    briefs_likeness = LIKE_IN_ALL;
    if (lag == 0 || alike < compared)
        return false;
    for (size_t k = 1; k < compared; ++k) { /* the last launch may have more after it */
        note_differing(list[k], list[k + lag]);
        note_differing(list[k + lag], list[k]);
    }
    if (narrowed.count == 0)
        return false;
    briefs_narrow(is_narrowed);
    return true;
}

void
varying_settle(bool kept)
{
    briefs_settle(kept);
    for (size_t i = 0; i < narrowed.count && kept && left_out.count < READS_AT_MOST; ++i)
        left_out.items[left_out.count++] = narrowed.items[i];
    if (left_out.count == 0)
        return;
    atomic_store(&scout_state.progress->read_site, left_out.items[0].site);
    atomic_store(&scout_state.progress->read_places, (uint32_t)left_out.count);
}

bool
varying_leaves_out(const struct noted *noted)
{
    if (left_out.count == 0)
        return false;
    const struct brief brief = briefs_outline(noted);
    return has_read(&left_out, &brief);
}

/* ---- what differs ---- */

/* Shows the launcher what differs from step to step, and where it is called. */
static void
tell_of(enum scout_varies varies, const struct brief *brief)
{
    struct scout_progress *progress = scout_state.progress;
    snprintf(progress->varying, sizeof(progress->varying), "%s", brief->words);
    atomic_store(&progress->varying_site, brief->site);
    atomic_store(&progress->varies, varies);
}

/* Of the operations after `a`, a launch, and those after `b`, the same a step before, up to the next launches: the
 * first that has no counterpart, or NULL. */
static const struct brief *
find_uncounted(size_t a, size_t b)
{
    for (++a, ++b; a < brief_count; ++a, ++b) {
        const struct brief *one = &briefs[a], *other = &briefs[b];
        if (one->any_size != other->any_size || one->site != other->site)
            return one->computes ? other : one;
        if (one->computes)
            break;
    }
    return NULL;
}

/* Of the same, how the first of them differ, and in *brief_p which. */
static enum scout_varies
find_difference(size_t a, size_t b, const struct brief **brief_p)
{
    *brief_p = find_uncounted(a, b);
    if (*brief_p != NULL) /* where the number differs, so may the places */
        return SCOUT_VARIES_IN_NUMBER;
    for (++a, ++b; a < brief_count; ++a, ++b) {
        const struct brief *one = &briefs[a], *other = &briefs[b];
        *brief_p = one;
        if (one->what != other->what || one->count != other->count)
            return SCOUT_VARIES_IN_SIZE;
        if (!briefs_are_alike(a, a - b))
            return SCOUT_VARIES_IN_PLACE;
        if (one->computes)
            break;
    }
    return SCOUT_VARIES_NOT;
}

void
varying_tell(void)
{
    static size_t list[LAUNCHES_COMPARED];
    size_t alike, count = list_launches(list), lag = find_launches(list, count, &alike);
    enum scout_varies told = SCOUT_VARIES_NOT;
    briefs_likeness = LIKE_IN_ALL;
    for (size_t k = 1; lag > 0 && k < alike && k < STEPS_COMPARED * lag; ++k) {
        const struct brief *brief;
        enum scout_varies found = find_difference(list[k], list[k + lag], &brief);
        if (found == SCOUT_VARIES_IN_NUMBER || (found != SCOUT_VARIES_NOT && told == SCOUT_VARIES_NOT))
            tell_of(found, brief);
        if (found == SCOUT_VARIES_IN_NUMBER)
            return;
        told = told == SCOUT_VARIES_NOT ? found : told;
    }
}
