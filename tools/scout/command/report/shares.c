/* shares.c - see lines.h. */
#include "tools/scout/command/report/lines.h"

#include "launcher/common/xcalloc.h"

#include <stdlib.h>
#include <string.h>

static bool
is_data(const struct scout_op *op)
{
    return scout_brings_data(op) && op->rows == 1;
}

static void
add_share(struct search *search, const struct spot *spot, struct lifted *said, bool on_host)
{
    const char *bytes = lift_bare(said->bytes);
    const char *size = strchr(bytes, '*') != NULL ? strstr(bytes, "sizeof(") : NULL; /* of an element, or of a word */
    int length = size != NULL ? (int)source_close(size, strlen("sizeof")) : 1;
    const char *each = size != NULL ? size : "4", *stream = said->stream[0] != '\0' ? said->stream : "0";
    char *text =
        on_host ? xasprintf("ddp_share_host((void *)(%s), %s, %.*s);", lift_bare(said->source), bytes, length, each)
                : xasprintf("ddp_share(%s, %s, %.*s, %s);", lift_bare(said->memory), bytes, length, each, stream);
    spot_add_text(search, spot, text);
    free(text);
}

/* Whether the same buffer of the host is copied in each period: then it is filled anew, and no part of the records. */
static bool
is_staged(const struct search *search, uint32_t number)
{
    const struct scout_log *log = search->log;
    for (uint32_t i = number; i + search->finding->period < log->op_count; i += search->finding->period)
        if (log->ops[i + search->finding->period].from.offset != log->ops[number].from.offset)
            return false;
    return true;
}

/* Whether a copy from the host that is too small to be data differs from step to step, and an operation in front of the
 * place where gradients are averaged gets it: it belongs to the records, as labels of a small batch. */
static bool
is_small_part(const struct search *search, uint32_t number)
{
    const struct scout_finding *finding = search->finding;
    const struct scout_op *ops = search->log->ops, *op = &ops[number];
    bool differs = false, is_read = false;
    if (op->kind != SCOUT_COPY || op->from.alloc != SCOUT_NONE || op->to.alloc == SCOUT_NONE || is_data(op))
        return false;
    for (uint32_t i = number; i + finding->period < search->log->op_count && !differs; i += finding->period)
        differs = ops[i].content != ops[i + finding->period].content;
    for (uint32_t i = finding->first; i < finding->groups[0].before && differs && !is_read; ++i)
        is_read = ANY(argument, ops[i].arguments, ops[i].argument_count,
                      argument->alloc == op->to.alloc && argument->offset <= op->to.offset);
    return is_read;
}

bool
shares_next(const struct search *search, uint32_t *number)
{
    uint32_t end = search->finding->first + search->finding->period;
    while (*number < end && !is_data(&search->log->ops[*number]) && !is_small_part(search, *number))
        ++*number;
    return *number < end;
}

/* Whether a copy of the log brings data to a step. One before the first step does, if steps make it by the same calls:
 * copies of a thread that has launched nothing enter the log later than they are made. */
static bool
is_of_steps(const struct search *search, uint32_t number)
{
    const struct scout_finding *finding = search->finding;
    const struct scout_op *ops = search->log->ops;
    bool is = number >= search->start ||
              ANY_NUMBER(i, finding->first, finding->first + finding->period, ops[i].site == ops[number].site);
    return is && ops[number].from.alloc == SCOUT_NONE && ops[number].to.alloc != SCOUT_NONE;
}

/* How many of the outermost frames all copies of data have in common, inside the function that steps; 0: none. */
static uint32_t
count_common(struct search *search)
{
    const struct scout_log *log = search->log;
    struct stack first = {0}, step = spot_stack(search, log->ops[search->finding->groups[0].before].site);
    uint32_t common = 0, inside, unused;
    for (uint32_t i = search->finding->first; shares_next(search, &i); ++i) {
        struct stack here = spot_stack(search, log->ops[i].site);
        uint32_t same = 0;
        if (!is_staged(search, i))
            return 0;
        if (first.count == 0) {
            first = here;
            same = here.count;
        }
        while (same < here.count && same < first.count &&
               spot_is_same(&here.frames[here.count - 1 - same], &first.frames[first.count - 1 - same]))
            ++same;
        common = common == 0 || same < common ? same : common;
    }
    bool is_inside = common > 0 && spot_find_parting(&first, &step, &inside, &unused) && common >= first.count - inside;
    return is_inside ? common : 0;
}

/* In the buffers of the host, in front of the call that copies them all. What that call is not given it makes of them.
 */
static bool
place_host_shares(struct search *search)
{
    const struct scout_log *log = search->log;
    uint32_t common = count_common(search), placed = 0;
    for (uint32_t i = search->finding->first; common > 0 && shares_next(search, &i); ++i) {
        struct stack here = spot_stack(search, log->ops[i].site);
        uint32_t depth = here.count - common;
        struct lifted said;
        struct spot spot = {0};
        if (depth == 0 && here.count > 1)
            ++depth; /* a single copy */
        if (!lift(&search->sources, here.frames, depth, &said) || !said.source_is_passed || said.source[0] == '\0' ||
            said.bytes[0] == '\0')
            continue;
        spot.node = spot_node(search, &here.frames[depth], &spot.source);
        if (spot.node == NODE_NONE || spot.source->nodes[spot.node].parent == NODE_NONE ||
            !spot.source->nodes[spot.source->nodes[spot.node].parent].is_block || !spot_is_usable(&spot))
            return false;
        add_share(search, &spot, &said, true);
        ++placed;
    }
    return placed > 0;
}

/* On the device, behind a copy; `adds`: and puts the lines there. */
static bool
place_share(struct search *search, const struct scout_op *op, bool adds)
{
    const struct scout_log *log = search->log;
    struct stack stack = spot_stack(search, op->site);
    for (uint32_t depth = 0; depth < stack.count; ++depth) {
        struct lifted said;
        struct spot spot;
        bool is_own = true;
        for (uint32_t i = 0, at, unused; i < log->op_count && is_own; ++i) {
            const struct scout_op *it = &log->ops[i];
            struct stack other = spot_stack(search, it->site);
            is_own = it->kind != SCOUT_COPY || is_of_steps(search, i) || !spot_is_same_chain(&stack, &other, depth);
            (void)spot_find_parting(&stack, &other, &at, &unused);
            for (uint32_t a = 0; a < it->argument_count && at < depth && is_own; ++a) /* the same call reads it */
                is_own = search->memory_of[it->arguments[a].alloc] != search->memory_of[op->to.alloc];
        }
        is_own = is_own && lift(&search->sources, stack.frames, depth, &said);
        if (is_own && said.is_fixed)
            snprintf(said.bytes, sizeof(said.bytes), "%llu", (unsigned long long)op->bytes);
        if (is_own && said.memory[0] != '\0' && said.bytes[0] != '\0' &&
            spot_find_behind(search, &stack.frames[depth], &spot)) {
            if (adds)
                add_share(search, &spot, &said, false);
            return true;
        }
    }
    return false;
}

enum records { RECORDS_OPEN, RECORDS_SHOWN, RECORDS_ONE };

/* What a launch makes of the batch in a memory: of its first part a part of the results, or one of all of it. Results
 * that are made element by element show neither. */
static enum records
read_records(const struct search *search, const struct scout_op *op, uint32_t memory)
{
    const struct scout_effect *effect = op->effect;
    for (uint32_t i = 0; effect != NULL && i < effect->dependence_count; ++i) {
        const struct scout_dependence *dependence = &effect->dependences[i];
        uint32_t from = effect->segments[dependence->from].alloc;
        if (dependence->read.count == 0 || search->memory_of[from] != memory)
            continue;
        for (uint32_t e = 0; e < effect->elementwise_count; ++e)
            if (effect->elementwise[e].from == from && effect->elementwise[e].samples > 0)
                return RECORDS_OPEN;
        return RECORDS_SHOWN;
    }
    return RECORDS_ONE;
}

/* Whether an operation writes more than gradients, parameters and a loss. */
static bool
goes_on(const struct search *search, const struct scout_op *op)
{
    bool goes = false;
    for (uint32_t i = 0; op->effect != NULL && i < op->effect->segment_count && !goes; ++i) {
        const struct scout_segment *segment = &op->effect->segments[i];
        const struct scout_ranges *ranges = segment->killed.count > 0 ? &segment->killed : &segment->modified;
        uint64_t lo = ranges->count > 0 ? ranges->items[0].lo : 0;
        goes = ranges->count > 0 && ranges->items[ranges->count - 1].hi > lo + sizeof(double);
        goes = goes && ALL(tensor, search->finding->tensors, search->finding->tensor_count,
                           tensor->role > ROLE_GRADIENT ||
                               search->memory_of[tensor->alloc] != search->memory_of[segment->alloc] ||
                               lo < tensor->lo || lo >= tensor->hi);
    }
    return goes;
}

/* Whether the launch that reads memory first shows several records in it; sums over records are passed over.
 * *leads_p: no launch computes from other data before. */
static enum records
find_records(const struct search *search, uint32_t alloc, uint32_t begin, bool *leads_p)
{
    *leads_p = true;
    const struct scout_finding *finding = search->finding;
    uint32_t memory = search->memory_of[alloc], end = begin + finding->period;
    for (uint32_t i = begin; i < end && i < finding->end; ++i) {
        const struct scout_op *op = &search->log->ops[i];
        enum records records = RECORDS_ONE;
        bool is_read = ANY_NUMBER(a, 0, op->argument_count, search->memory_of[op->arguments[a].alloc] == memory);
        if (!goes_on(search, op))
            continue;
        *leads_p = *leads_p && (is_read || op->kind != SCOUT_LAUNCH);
        if (!is_read)
            continue;
        for (uint32_t k = finding->begin + (i - finding->begin) % finding->period;
             k < finding->end && records == RECORDS_ONE; k += finding->period)
            records = read_records(search, &search->log->ops[k], memory);
        return records;
    }
    return RECORDS_OPEN;
}

/* Whether a call copies to several places of one memory in a step: records come one by one. */
static bool
comes_in_parts(const struct search *search, uint32_t number)
{
    const struct scout_op *ops = search->log->ops, *op = &ops[number];
    bool comes = false;
    for (uint32_t i = search->finding->first; shares_next(search, &i) && !comes; ++i)
        comes = ops[i].site == op->site && ops[i].to.alloc == op->to.alloc && ops[i].to.offset != op->to.offset;
    return comes;
}

/* Whether records of a small part may be as many as those of all data: one label for each. */
static bool
divides_data(const struct search *search, uint32_t number)
{
    uint64_t count = search->log->ops[number].bytes / sizeof(uint32_t);
    for (uint32_t i = search->finding->first; shares_next(search, &i); ++i)
        if (count < 2 || search->log->ops[i].bytes / sizeof(uint32_t) % count != 0)
            return false;
    return true;
}

/* Whether the host writes memory that it shares with the device between steps, which only read it. *first_p: the first
 * operation that does. */
static bool
is_managed_data(const struct search *search, uint32_t alloc, uint32_t *first_p)
{
    const struct scout_log *log = search->log;
    bool is_shared = ANY_NUMBER(
        i, 0, log->op_count, log->ops[i].kind == SCOUT_COPY && log->ops[i].bytes == 0 && log->ops[i].to.alloc == alloc);
    *first_p = SCOUT_NONE;
    for (uint32_t i = search->finding->first; i < search->finding->first + search->finding->period && is_shared; ++i) {
        const struct scout_op *op = &log->ops[i];
        for (uint32_t a = 0; a < op->argument_count; ++a)
            *first_p = *first_p == SCOUT_NONE && op->arguments[a].alloc == alloc ? i : *first_p;
        for (uint32_t w = 0; op->effect != NULL && w < op->effect->written_count; ++w)
            is_shared =
                is_shared && (op->effect->written[w].alloc != alloc || op->effect->written[w].ranges.count == 0);
        is_shared = is_shared && !(op->kind >= SCOUT_FILL && op->to.alloc == alloc);
    }
    return is_shared && *first_p != SCOUT_NONE;
}

/* Where the host writes memory that it shares with the device: in front of the first launch that reads it. */
static bool
place_managed(struct search *search)
{
    const struct scout_log *log = search->log;
    uint32_t placed = 0, first, at_made, at_step;
    bool leads;
    bool shown =
        ANY_NUMBER(a, 0, log->alloc_count,
                   is_managed_data(search, a, &first) && find_records(search, a, first, &leads) == RECORDS_SHOWN);
    for (uint32_t a = 0; a < log->alloc_count && shown; ++a) {
        struct lifted said;
        struct spot spot = {0};
        if (!is_managed_data(search, a, &first))
            continue;
        struct stack made = spot_stack(search, log->allocs[a].site), step = spot_stack(search, log->ops[first].site);
        if (!spot_find_parting(&made, &step, &at_made, &at_step) ||
            !lift(&search->sources, made.frames, at_made, &said) || said.memory[0] == '\0' || said.bytes[0] == '\0' ||
            (spot.node = spot_node(search, &step.frames[at_step], &spot.source)) == NODE_NONE)
            return false;
        add_share(search, &spot, &said, false);
        ++placed;
    }
    return placed > 0;
}

const char *
shares_place(struct search *search)
{
    const struct scout_op *ops = search->log->ops;
    enum records all = RECORDS_OPEN;
    bool any = false, alone = true, leads;
    for (uint32_t i = search->finding->first; shares_next(search, &i); ++i)
        alone = alone && !is_data(&ops[i]);
    for (uint32_t i = search->finding->first; shares_next(search, &i); ++i) {
        bool is_one = comes_in_parts(search, i) || (!is_data(&ops[i]) && !divides_data(search, i));
        enum records records = is_one ? RECORDS_ONE : find_records(search, ops[i].to.alloc, i + 1, &leads);
        if (is_data(&ops[i]) || records == RECORDS_ONE || (alone && leads)) /* labels alone show no records */
            all = records > all ? records : all;
        any = true;
    }
    if (!any && place_managed(search))
        return NULL;
    if (!any || all != RECORDS_SHOWN)
        return any ? "scout cannot tell where one record ends and the next begins" : "no copy brings data to a step";
    if (place_host_shares(search))
        return NULL;
    for (uint32_t i = search->finding->first; shares_next(search, &i); ++i)
        if (!place_share(search, &ops[i], false))
            return "no place after the copies is known where their memory has a name";
    for (uint32_t i = search->finding->first; shares_next(search, &i); ++i)
        (void)place_share(search, &ops[i], true);
    return NULL;
}
