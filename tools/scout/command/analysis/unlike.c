/*
 * unlike.c - see finding.h.
 *
 * Periods disagree where one of them shows less than the others: gradients have overflowed, and nothing is updated. It
 * may be left out. It may not where it shows more: then what the others show is not all that launches do.
 */
#include "tools/scout/command/analysis/rules.h"

enum { PERIODS_COMPARED = 3 };

/* Operations of the log that do the same in their periods. */
struct alike {
    const struct scout_log *log;
    uint32_t number;             /* the one that is compared */
    uint32_t first, end, period; /* the others: every `period` of [first, end) */
};

/* Whether memory of two launches is the same argument of theirs, or one allocation. */
static bool
are_one_memory(const struct scout_op *a, uint32_t alloc, const struct scout_op *b, uint32_t other)
{
    for (uint32_t i = 0; i < a->argument_count && i < b->argument_count; ++i)
        if (a->arguments[i].alloc == alloc && b->arguments[i].alloc == other)
            return true;
    return alloc == other;
}

/* Whether `other` shows that `to` depends on `from`, which are allocations of `op`: they are the same memories in
 * both. */
static bool
has_dependence(const struct scout_op *op, const struct scout_op *other, uint32_t from, uint32_t to)
{
    const struct scout_effect *effect = other->effect;
    return ANY(it, effect->dependences, effect->dependence_count,
               are_one_memory(op, to, other, it->to) &&
                   are_one_memory(op, from, other, effect->segments[it->from].alloc));
}

/* Whether the same operation of another period shows that allocation `to` depends on `from`. */
static bool
is_in_others(const struct alike *it, uint32_t from, uint32_t to)
{
    const struct scout_op *ops = it->log->ops;
    for (uint32_t i = it->first; i < it->end; i += it->period)
        if (has_dependence(&ops[it->number], &ops[i], from, to))
            return true;
    return false;
}

/* Whether a launch has an elementwise map within one memory. */
static bool
has_own_map(const struct scout_effect *effect, uint32_t alloc)
{
    return ANY(it, effect->elementwise, effect->elementwise_count, it->from == alloc && it->to == alloc);
}

/* Whether the same operation of another period shows that the allocation goes element by element to itself. */
static bool
is_elementwise_in_others(const struct alike *it, uint32_t alloc)
{
    const struct scout_op *ops = it->log->ops;
    for (uint32_t i = it->first; i < it->end; i += it->period)
        if (ANY(map, ops[i].effect->elementwise, ops[i].effect->elementwise_count,
                map->from == map->to && are_one_memory(&ops[it->number], alloc, &ops[i], map->from)))
            return true;
    return false;
}

/* Whether an operation shows a dependence that it shows in no other period, or lacks an elementwise map that others
 * have. */
static bool
shows_more(const struct alike *it)
{
    const struct scout_effect *effect = it->log->ops[it->number].effect;
    FOR_EACH(dependence, effect->dependences, effect->dependence_count) {
        const uint32_t from = effect->segments[dependence->from].alloc;
        if (from != dependence->to && !is_in_others(it, from, dependence->to))
            return true;
    }
    FOR_EACH(segment, effect->segments, effect->segment_count) {
        const bool is_whole = segment->hi - segment->lo > ELEMENT_BYTES && segment->modified.count > 0;
        if (is_whole && !has_own_map(effect, segment->alloc) && is_elementwise_in_others(it, segment->alloc))
            return true;
    }
    return false;
}

bool
unlike_show_more(const struct scout_log *log, uint32_t first, uint32_t end, uint32_t period, uint32_t at)
{
    const uint32_t at_end = at + PERIODS_COMPARED * period;
    for (uint32_t i = first; i < end; ++i) {
        const bool is_compared = i >= at && i < at_end;
        if (is_compared || log->ops[i].effect == NULL)
            continue;
        const struct alike alike = {
            .log = log, .number = i, .first = at + (i - first) % period, .end = at_end, .period = period};
        if (shows_more(&alike))
            return true;
    }
    return false;
}
