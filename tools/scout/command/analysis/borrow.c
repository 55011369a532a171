/* borrow.c - see finding.h. */

#include "tools/scout/command/analysis/rules.h"

#include <obstack.h>

/* A launch, and the one that lends to it. */
struct loan {
    const uint32_t *memory_of;
    const struct scout_op *to, *from;
    struct scout_effect *effect; /* of `to` */
    uint32_t dependence_room, elementwise_room;
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

/* Copies what the lender's part `theirs` has shown to part `number` here, with its dependences and maps. */
static void
lend_segment(struct loan *loan, uint32_t number, uint32_t theirs)
{
    const struct scout_effect *lender = loan->from->effect;
    struct scout_segment *segment = &loan->effect->segments[number];
    uint32_t alloc = segment->alloc;
    if (segment->lo == lender->segments[theirs].lo && segment->hi == lender->segments[theirs].hi)
        *segment = lender->segments[theirs];
    segment->alloc = alloc;
    segment->tested = lender->segments[theirs].tested;
    for (uint32_t i = 0; i < lender->dependence_count; ++i)
        if (lender->dependences[i].from == theirs && loan->effect->dependence_count < loan->dependence_room) {
            struct scout_dependence *here = &loan->effect->dependences[loan->effect->dependence_count++];
            *here = lender->dependences[i];
            here->from = number;
            here->to = alloc_here(loan, here->to);
        }
    for (uint32_t i = 0; i < lender->elementwise_count; ++i)
        if (lender->elementwise[i].from == lender->segments[theirs].alloc &&
            lender->elementwise[i].from_base == segment->lo &&
            loan->effect->elementwise_count < loan->elementwise_room) {
            struct scout_elementwise *here = &loan->effect->elementwise[loan->effect->elementwise_count++];
            *here = lender->elementwise[i];
            here->from = alloc;
            here->to = alloc_here(loan, here->to);
        }
}

/* Whether both parts are whole numbers to which the same argument leads, at another place in each period: the batch,
 * in all data. */
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
    for (uint32_t i = 0; i < loan->effect->segment_count; ++i) {
        struct scout_segment *segment = &loan->effect->segments[i];
        /* whole numbers are tried once they have changed, which the first period cannot show */
        bool is_wanted = loan->to->effect->why != SCOUT_NONE || segment->type == SCOUT_INTEGER;
        for (uint32_t k = 0; k < loan->from->effect->segment_count && segment->tested == 0 && is_wanted; ++k) {
            const struct scout_segment *theirs = &loan->from->effect->segments[k];
            bool same = theirs->lo == segment->lo && theirs->hi == segment->hi &&
                        loan->memory_of[theirs->alloc] == loan->memory_of[segment->alloc];
            if (theirs->tested != 0 && (same || is_same_argument(loan, segment, theirs)))
                lend_segment(loan, i, k);
        }
        open = open || segment->tested == 0;
    }
    return open;
}

#define obstack_chunk_alloc malloc
#define obstack_chunk_free  free

/* The C library's macro aligns from a null pointer on. */
static void *__attribute__((no_sanitize("pointer-overflow")))
copy_of(struct scout_log *lent, const void *items, uint32_t count, uint32_t room, size_t item)
{
    void *copy = obstack_alloc(lent->held, (room + 1) * item);
    return count > 0 ? memcpy(copy, items, count * item) : copy;
}

/* With room for more. */
static struct scout_effect *
copy_effect(struct scout_log *lent, const struct scout_effect *old, uint32_t dependences, uint32_t elementwise)
{
    uint32_t segments = old->segment_count, written = old->written_count;
    struct scout_effect *effect = copy_of(lent, old, 1, 1, sizeof(*old));
    effect->segments = copy_of(lent, old->segments, segments, segments, sizeof(*old->segments));
    effect->dependences =
        copy_of(lent, old->dependences, old->dependence_count, dependences, sizeof(*old->dependences));
    effect->elementwise =
        copy_of(lent, old->elementwise, old->elementwise_count, elementwise, sizeof(*old->elementwise));
    effect->written = copy_of(lent, old->written, written, written, sizeof(*old->written));
    return effect;
}

/* The effect of operation `number`, completed by what the same operation has shown in other periods of [first, end); in
 * the memory of `lent`. */
static struct scout_effect *
complete(const struct scout_log *log, const uint32_t *memory_of, uint32_t first, uint32_t end, uint32_t period,
         uint32_t number, struct scout_log *lent)
{
    const struct scout_effect *old = log->ops[number].effect;
    uint32_t dependences = old->dependence_count, elementwise = old->elementwise_count;
    for (uint32_t i = first + (number - first) % period; i < end; i += period) {
        dependences += log->ops[i].effect->dependence_count;
        elementwise += log->ops[i].effect->elementwise_count;
    }
    struct scout_effect *effect = copy_effect(lent, old, dependences, elementwise);
    struct loan loan = {.memory_of = memory_of,
                        .to = &log->ops[number],
                        .effect = effect,
                        .dependence_room = dependences,
                        .elementwise_room = elementwise};
    bool open = true;
    for (uint32_t i = first + (number - first) % period; i < end && open; i += period) {
        loan.from = &log->ops[i];
        if (i != number && loan.from->name == loan.to->name)
            open = lend(&loan);
    }
    effect->why = open ? old->why : SCOUT_NONE;
    return effect;
}

/* Whether other periods may show what this one has not: what it was cut short of, or `integers`. */
static bool
is_to_complete(const struct scout_effect *effect, bool integers)
{
    return (effect->verdict == SCOUT_TESTED || effect->verdict == SCOUT_TOLERANCE) &&
           (effect->why != SCOUT_NONE || (integers && ANY(segment, effect->segments, effect->segment_count,
                                                          segment->tested == 0 && segment->type == SCOUT_INTEGER)));
}

/* What one launch does, as if it were done by another one. */
static struct scout_effect *
effect_as(struct scout_log *lent, const struct scout_op *from, const struct scout_op *to)
{
    const struct loan loan = {.to = to, .from = from};
    const struct scout_effect *old = from->effect;
    struct scout_effect *effect = copy_effect(lent, old, old->dependence_count, old->elementwise_count);
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

/* A launch that wrote nothing, as in a step that is left out by a flag, does what it does in another period, if it
 * writes in one. */
static struct scout_effect *
awake(const struct scout_log *log, uint32_t first, uint32_t end, uint32_t period, uint32_t number,
      struct scout_log *lent)
{
    for (uint32_t i = first + (number - first) % period; i < end; i += period)
        if (log->ops[i].name == log->ops[number].name && log->ops[i].effect->written_count > 0)
            return effect_as(lent, &log->ops[i], &log->ops[number]);
    return log->ops[number].effect;
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
    if (is_otherwise)
        return SHOWN_OTHERWISE;
    return shown && !is_refuted ? SHOWN : SHOWN_NOT;
}

/* Whether the operation has an elementwise map that was not tried (samples 0), and that other launches do not show
 * either. */
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

/* With what other launches show; `all`: with all that stayed open. */
static struct scout_effect *
closed(const struct stretch *in, const struct scout_op *op, bool all, struct scout_log *lent)
{
    struct scout_effect *effect = op->effect;
    for (uint32_t i = 0; i < op->effect->elementwise_count; ++i) {
        if (op->effect->elementwise[i].samples > 0)
            continue;
        enum shown shown = look_at_others(in, op, &op->effect->elementwise[i]);
        if (shown == SHOWN_OTHERWISE || (shown == SHOWN_NOT && !all))
            continue;
        effect = effect != op->effect ? effect : effect_as(lent, op, op);
        effect->elementwise[i].samples = 1;
    }
    return effect;
}

static uint64_t
bytes_of(const struct scout_ranges *ranges)
{
    uint64_t bytes = 0;
    FOR_EACH(range, ranges->items, ranges->count)
        bytes += range->hi - range->lo;
    return bytes;
}

/* What is known to go, in a segment's own place, from each element to the same one; NULL: nothing. */
static const struct scout_elementwise *
own_map(const struct scout_effect *effect, const struct scout_segment *segment)
{
    return FIND(it, effect->elementwise, effect->elementwise_count,
                it->from == segment->alloc && it->to == segment->alloc && it->from_base == segment->lo &&
                    it->to_base == segment->lo);
}

/* Whether a launch has shown of at most one number among several that its new value depends on the old one, as a kernel
 * that limits numbers does where most of them are at the limit: too little to tell whether it goes element by
 * element. */
static bool
is_hardly_shown(const struct scout_effect *effect, const struct scout_segment *segment)
{
    const uint32_t number = (uint32_t)(segment - effect->segments);
    const uint64_t modified = bytes_of(&segment->modified);
    if (segment->tested == 0 || segment->hi - segment->lo <= ELEMENT_BYTES)
        return false;
    if (modified == 0 || modified > ELEMENT_BYTES || own_map(effect, segment) != NULL)
        return false;
    return !ANY(it, effect->dependences, effect->dependence_count, it->from == number);
}

/* The segment of a launch's argument; NULL: none begins there. */
static const struct scout_segment *
segment_of(const struct scout_op *op, uint32_t argument)
{
    const struct scout_argument *it = &op->arguments[argument];
    return FIND(segment, op->effect->segments, op->effect->segment_count,
                segment->alloc == it->alloc && segment->lo == it->offset);
}

/* What other launches of the kernel show of that argument, if each that shows enough shows that it goes element by
 * element; NULL. */
static const struct scout_elementwise *
map_of_others(const struct stretch *in, const struct scout_op *op, uint32_t argument)
{
    const struct scout_elementwise *shown = NULL;
    for (uint32_t i = in->first; i < in->end; ++i) {
        const struct scout_op *other = &in->log->ops[i];
        if (other->name != op->name || other->kind != SCOUT_LAUNCH || argument >= other->argument_count)
            continue;
        const struct scout_segment *segment = segment_of(other, argument);
        if (segment == NULL || bytes_of(&segment->modified) <= ELEMENT_BYTES)
            continue;
        const struct scout_elementwise *map = own_map(other->effect, segment);
        if (map == NULL || map->samples == 0)
            return NULL;
        shown = map;
    }
    return shown;
}

/* With the maps of other launches of its kernel, where a launch itself shows too little in an argument's own place. */
static struct scout_effect *
with_own_maps(const struct stretch *in, const struct scout_op *op, struct scout_log *lent)
{
    struct scout_effect *effect = op->effect;
    for (uint32_t i = 0; i < op->argument_count && op->kind == SCOUT_LAUNCH; ++i) {
        const struct scout_segment *segment = segment_of(op, i);
        if (segment == NULL || !is_hardly_shown(effect, segment))
            continue;
        const struct scout_elementwise *map = map_of_others(in, op, i);
        if (map == NULL)
            continue;
        effect = copy_effect(lent, effect, effect->dependence_count, effect->elementwise_count + 1);
        effect->elementwise[effect->elementwise_count++] = (struct scout_elementwise){.from = segment->alloc,
                                                                                      .to = segment->alloc,
                                                                                      .from_base = segment->lo,
                                                                                      .to_base = segment->lo,
                                                                                      .from_bytes = map->from_bytes,
                                                                                      .to_bytes = map->to_bytes,
                                                                                      .samples = 1};
    }
    return effect;
}

void
borrow_make(const struct scout_log *log, uint32_t first, uint32_t end, uint32_t period, enum reading reading,
            struct scout_log *lent)
{
    const struct stretch in = {log, first, end};
    uint32_t *memory_of;
    (void)graph_name_memories(log, &memory_of);
    *lent = *log;
    lent->held = xcalloc(1, sizeof(*lent->held)); /* of its effects */
    obstack_init(lent->held);
    lent->ops = xcalloc(log->op_count + 1, sizeof(*lent->ops));
    memcpy(lent->ops, log->ops, log->op_count * sizeof(*lent->ops));
    for (uint32_t i = first; i < end; ++i) {
        uint32_t as = reading == READING_NEW ? newest(log, end, period, i) : i;
        struct scout_effect *effect = log->ops[i].effect;
        const struct scout_effect *here = log->ops[as].effect;
        bool is_idle = here->verdict == SCOUT_TESTED && here->written_count == 0 &&
                       ALL(segment, here->segments, here->segment_count, segment->killed.count == 0);
        if (is_to_complete(log->ops[i].effect, as == i))
            effect = complete(log, memory_of, first, end, period, i, lent);
        else if (log->ops[i].argument_count > 0 && is_idle)
            effect = awake(log, first, end, period, i, lent);
        else if (as != i)
            effect = effect_as(lent, &log->ops[as], &log->ops[i]);
        lent->ops[i].effect = effect;
        lent->ops[i].effect = closed(&in, &lent->ops[i], reading == READING_OPEN, lent);
        lent->ops[i].effect = with_own_maps(&in, &lent->ops[i], lent);
    }
    free(memory_of);
}

void
borrow_free(struct scout_log *lent)
{
    obstack_free(lent->held, NULL);
    free(lent->held);
    free(lent->ops);
}
