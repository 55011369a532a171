/* borrow.c - see finding.h. */

#include "launcher/common/xcalloc.h"
#include "tools/common/grown.h"
#include "tools/common/owned.h"
#include "tools/scout/command/analysis/rules.h"

/* A launch, and the one that lends to it. */
struct loan {
    const uint32_t *memory_of;
    const struct scout_op *to, *from;
    struct scout_effect *effect; /* of `to`, a copy */
};

/* The lender's allocation as the borrower has it. */
static uint32_t
alloc_here(const struct loan *loan, uint32_t alloc)
{
    for (uint32_t i = 0; i < loan->from->argument_count && i < loan->to->argument_count; ++i)
        if (loan->from->arguments[i].alloc == alloc)
            return loan->to->arguments[i].alloc;
    return alloc;
}

static void
lend_segment(struct loan *loan, struct scout_segment *segment, const struct scout_segment *theirs)
{
    const struct scout_effect *lender = loan->from->effect;
    struct scout_effect *effect = loan->effect;
    uint32_t alloc = segment->alloc, number = (uint32_t)(segment - effect->segments);
    if (segment->lo == theirs->lo && segment->hi == theirs->hi)
        *segment = *theirs;
    segment->alloc = alloc;
    segment->tested = theirs->tested;
    FOR_EACH(lent, lender->dependences, lender->dependence_count) {
        if (&lender->segments[lent->from] != theirs)
            continue;
        struct scout_dependence *here = GROWN(effect->dependences, effect->dependence_count);
        *here = *lent;
        here->from = number;
        here->to = alloc_here(loan, here->to);
    }
    FOR_EACH(lent, lender->elementwise, lender->elementwise_count) {
        if (lent->from != theirs->alloc || lent->from_base != segment->lo)
            continue;
        struct scout_elementwise *here = GROWN(effect->elementwise, effect->elementwise_count);
        *here = *lent;
        here->from = alloc;
        here->to = alloc_here(loan, here->to);
    }
}

/* Whole numbers are tried once they have changed, which the first period cannot show. */
static bool
is_wanted(const struct loan *loan, const struct scout_segment *segment)
{
    return segment->tested == 0 && (loan->to->effect->why != SCOUT_NONE || segment->type == SCOUT_INTEGER);
}

/* Whole numbers at another place in each period: the batch, in all data. */
static bool
is_same_argument(const struct loan *loan, const struct scout_segment *segment, const struct scout_segment *theirs)
{
    bool same = false,
         is_here = segment->lo == theirs->lo && loan->memory_of[theirs->alloc] == loan->memory_of[segment->alloc];
    for (uint32_t i = 0; !is_here && i < loan->to->argument_count && i < loan->from->argument_count && !same; ++i) {
        const struct scout_argument *to = &loan->to->arguments[i], *from = &loan->from->arguments[i];
        same = to->alloc == segment->alloc && to->offset == segment->lo && from->alloc == theirs->alloc &&
               from->offset == theirs->lo;
    }
    return same && segment->type == SCOUT_INTEGER;
}

/* What the lender has tried, and the borrower has not. Returns whether anything is still open. */
static bool
lend(struct loan *loan)
{
    bool open = false;
    FOR_EACH_MUTABLE(segment, loan->effect->segments, loan->effect->segment_count) {
        FOR_EACH_UNTIL(theirs, loan->from->effect->segments, loan->from->effect->segment_count,
                       !is_wanted(loan, segment)) {
            bool same = theirs->lo == segment->lo && theirs->hi == segment->hi &&
                        loan->memory_of[theirs->alloc] == loan->memory_of[segment->alloc];
            if (theirs->tested != 0 && (same || is_same_argument(loan, segment, theirs)))
                lend_segment(loan, segment, theirs);
        }
        open = open || segment->tested == 0;
    }
    return open;
}

/* A list that can grow (GROWN). */
static void *
copy_of(const void *items, uint32_t count, size_t item)
{
    size_t room = 1;
    while (room < count)
        room *= 2;
    void *copy = xcalloc(room, item);
    if (count > 0)
        memcpy(copy, items, count * item);
    return copy;
}

static struct scout_effect *
copy_effect(const struct scout_effect *old)
{
    struct scout_effect *effect = xcalloc(1, sizeof(*effect));
    *effect = *old;
    effect->segments = copy_of(old->segments, old->segment_count, sizeof(*old->segments));
    effect->dependences = copy_of(old->dependences, old->dependence_count, sizeof(*old->dependences));
    effect->elementwise = copy_of(old->elementwise, old->elementwise_count, sizeof(*old->elementwise));
    effect->written = copy_of(old->written, old->written_count, sizeof(*old->written));
    return effect;
}

static struct scout_effect *
complete(const struct scout_log *log, const uint32_t *memory_of, uint32_t first, uint32_t end, uint32_t period,
         uint32_t number)
{
    const struct scout_effect *old = log->ops[number].effect;
    struct loan loan = {.memory_of = memory_of, .to = &log->ops[number], .effect = copy_effect(old)};
    bool open = true;
    for (uint32_t i = first + (number - first) % period; i < end && open; i += period) {
        loan.from = &log->ops[i];
        if (i != number && loan.from->name == loan.to->name)
            open = lend(&loan);
    }
    loan.effect->why = open ? old->why : SCOUT_NONE;
    return loan.effect;
}

static bool
is_cut_short(const struct scout_effect *effect)
{
    return (effect->verdict == SCOUT_TESTED || effect->verdict == SCOUT_TOLERANCE) && effect->why != SCOUT_NONE;
}

static bool
waits_for_integers(const struct scout_effect *effect)
{
    bool waits =
        ANY(segment, effect->segments, effect->segment_count, segment->tested == 0 && segment->type == SCOUT_INTEGER);
    return waits && (effect->verdict == SCOUT_TESTED || effect->verdict == SCOUT_TOLERANCE);
}

static bool
is_idle(const struct scout_effect *effect)
{
    return effect->verdict == SCOUT_TESTED && effect->written_count == 0 &&
           ALL(segment, effect->segments, effect->segment_count, segment->killed.count == 0);
}

/* What one launch does, as if it were done by another one. */
static struct scout_effect *
effect_as(const struct scout_op *from, const struct scout_op *to)
{
    const struct loan loan = {.to = to, .from = from};
    struct scout_effect *effect = copy_effect(from->effect);
    for (uint32_t i = 0; i < effect->segment_count; ++i)
        effect->segments[i].alloc = alloc_here(&loan, effect->segments[i].alloc);
    for (uint32_t i = 0; i < effect->written_count; ++i)
        effect->written[i].alloc = alloc_here(&loan, effect->written[i].alloc);
    for (uint32_t i = 0; i < effect->dependence_count; ++i)
        effect->dependences[i].to = alloc_here(&loan, effect->dependences[i].to);
    for (uint32_t i = 0; i < effect->elementwise_count; ++i) {
        effect->elementwise[i].from = alloc_here(&loan, effect->elementwise[i].from);
        effect->elementwise[i].to = alloc_here(&loan, effect->elementwise[i].to);
    }
    return effect;
}

/* A launch that wrote nothing, as in a step that is left out by a flag, does what it does in another period; NULL: it
 * writes in none. */
static struct scout_effect *
awake(const struct scout_log *log, uint32_t first, uint32_t end, uint32_t period, uint32_t number)
{
    for (uint32_t i = first + (number - first) % period; i < end; i += period)
        if (log->ops[i].name == log->ops[number].name && log->ops[i].effect->written_count > 0)
            return effect_as(&log->ops[i], &log->ops[number]);
    return NULL;
}

/* The launch in the place of `number` in the last period, if it gets the same, of the same size. */
static uint32_t
newest(const struct scout_log *log, uint32_t end, uint32_t period, uint32_t number)
{
    uint32_t last = number + (end - 1 - number) / period * period;
    const struct scout_op *op = &log->ops[number], *other = &log->ops[last];
    bool same =
        op->kind == other->kind && op->name == other->name && op->argument_count == other->argument_count &&
        ALL_NUMBERS(i, 0, op->argument_count,
                    op->arguments[i].offset == other->arguments[i].offset &&
                        log->allocs[op->arguments[i].alloc].bytes == log->allocs[other->arguments[i].alloc].bytes);
    return same ? last : number;
}

/* Operations [first, end) of a log. */
struct stretch {
    const struct scout_log *log;
    uint32_t first, end;
};

static bool
has_argument(const struct scout_op *op, uint32_t number, uint32_t alloc)
{
    return number < op->argument_count && op->arguments[number].alloc == alloc;
}

enum shown { SHOWN_NOT, SHOWN, SHOWN_OTHERWISE };

/* What other launches of a kernel show of two of its arguments: that they go element by element, and none that they do
 * not; otherwise: that they do not, by the same call. A recurrent net's first state is zero, and shows nothing. */
static enum shown
look_at_others(const struct stretch *in, const struct scout_op *op, const struct scout_elementwise *map)
{
    uint32_t from = 0, to = 0;
    bool shown = false, is_refuted = false, is_otherwise = false;
    while (from < op->argument_count && !has_argument(op, from, map->from))
        ++from;
    while (to < op->argument_count && !has_argument(op, to, map->to))
        ++to;
    for (uint32_t i = in->first; i < in->end; ++i) {
        const struct scout_op *other = &in->log->ops[i];
        bool maps = false, depends = false;
        if (other->name != op->name || other->kind != SCOUT_LAUNCH)
            continue;
        FOR_EACH(theirs, other->effect->elementwise, other->effect->elementwise_count) {
            bool same = has_argument(other, from, theirs->from) && has_argument(other, to, theirs->to);
            maps = maps || same;
            shown = shown || (same && theirs->samples > 0);
        }
        depends = depends || ANY(theirs, other->effect->dependences, other->effect->dependence_count,
                                 has_argument(other, from, other->effect->segments[theirs->from].alloc) &&
                                     has_argument(other, to, theirs->to));
        for (uint32_t k = 0; k < other->effect->segment_count && from == to; ++k)
            depends = depends || (has_argument(other, to, other->effect->segments[k].alloc) &&
                                  other->effect->segments[k].modified.count > 0);
        is_refuted = is_refuted || (depends && !maps);
        is_otherwise = is_otherwise || (depends && !maps && other->site == op->site && op->site != SCOUT_NONE);
    }
    return is_otherwise ? SHOWN_OTHERWISE : shown && !is_refuted ? SHOWN : SHOWN_NOT;
}

static bool
is_open(const struct stretch *in, const struct scout_op *op)
{
    return ANY_NUMBER(i, 0, op->effect->elementwise_count,
                      op->effect->elementwise[i].samples == 0 &&
                          look_at_others(in, op, &op->effect->elementwise[i]) == SHOWN_NOT);
}

uint32_t
borrow_find_open(const struct scout_log *log, uint32_t first, uint32_t end)
{
    const struct stretch in = {log, first, end};
    while (first < end && !is_open(&in, &log->ops[first]))
        ++first;
    return first < end ? first : UINT32_MAX;
}

/* With what other launches show; `all`: with all that stayed open. NULL: nothing changes. */
static struct scout_effect *
closed(const struct stretch *in, const struct scout_op *op, bool all)
{
    struct scout_effect *effect = NULL;
    for (uint32_t i = 0; i < op->effect->elementwise_count; ++i) {
        if (op->effect->elementwise[i].samples > 0)
            continue;
        enum shown shown = look_at_others(in, op, &op->effect->elementwise[i]);
        if (shown == SHOWN_OTHERWISE || (shown == SHOWN_NOT && !all))
            continue;
        effect = effect != NULL ? effect : effect_as(op, op);
        effect->elementwise[i].samples = 1;
    }
    return effect;
}

static void
free_effect(struct scout_effect *effect)
{
    free(effect->segments);
    free(effect->dependences);
    free(effect->elementwise);
    free(effect->written);
    free(effect);
}

void
borrow_make(const struct scout_log *log, uint32_t first, uint32_t end, uint32_t period, enum reading reading,
            struct scout_log *lent)
{
    const struct stretch in = {log, first, end};
    OWNED uint32_t *memory_of = NULL;
    (void)graph_name_memories(log, &memory_of);
    *lent = *log;
    lent->ops = xcalloc(log->op_count + 1, sizeof(*lent->ops));
    memcpy(lent->ops, log->ops, log->op_count * sizeof(*lent->ops));
    for (uint32_t i = first; i < end; ++i) {
        uint32_t as = reading == READING_NEW ? newest(log, end, period, i) : i;
        struct scout_effect *effect = NULL;
        if (is_cut_short(log->ops[i].effect) || (as == i && waits_for_integers(log->ops[i].effect)))
            effect = complete(log, memory_of, first, end, period, i);
        else if (log->ops[i].argument_count > 0 && is_idle(log->ops[as].effect))
            effect = awake(log, first, end, period, i);
        else if (as != i)
            effect = effect_as(&log->ops[as], &log->ops[i]);
        if (effect != NULL)
            lent->ops[i].effect = effect;
        struct scout_effect *whole = closed(&in, &lent->ops[i], reading == READING_OPEN);
        if (whole != NULL) {
            lent->ops[i].effect = whole;
            if (effect != NULL)
                free_effect(effect);
        }
    }
}

void
borrow_free(const struct scout_log *log, struct scout_log *lent)
{
    for (uint32_t i = 0; i < log->op_count; ++i) {
        if (lent->ops[i].effect != log->ops[i].effect)
            free_effect(lent->ops[i].effect);
    }
    free(lent->ops);
}
