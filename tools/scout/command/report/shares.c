/* shares.c - see lines.h. */
#include "tools/scout/command/report/lines.h"

#include "tools/common/grown.h"

static bool
is_from_host(const struct scout_op *op)
{
    return op->kind == SCOUT_COPY && op->from.alloc == SCOUT_NONE && op->to.alloc != SCOUT_NONE;
}

static bool
is_data(const struct scout_op *op)
{
    return scout_brings_data(op) && op->rows == 1;
}

/* Records of a step. */
struct batch {
    uint32_t alloc;
    uint64_t bytes;
    uint32_t copy;  /* that brings them; SCOUT_NONE: the host writes them */
    uint32_t begin; /* the first operation of the step that may read them */
    bool is_small;  /* too small to be data by itself */
    uint32_t times; /* time steps that lie in it, each with all records; 0: that cannot be told */
    bool is_part;   /* its copy brings other lists, too: this one lies from `at` on in the memory */
    uint64_t at;
    bool is_slice;                    /* a pointer of this launch leads to it, or */
    uint32_t launch, pointer, number; /* its argument; of the number that chooses it, or SCOUT_NONE, */
    uint64_t unit;                    /* times so many bytes */
    uint64_t each;                    /* bytes of an element */
};

struct batches {
    struct batch *items;
    uint32_t count, copies;     /* copies of the step come first */
    uint32_t chosen;            /* memory of which a number may choose the records; SCOUT_NONE */
    uint64_t records;           /* of each batch; 0: not known */
    const struct batch *labels; /* has one element of each of these records */
};

/* The bytes of all batches in the memory. */
static uint64_t
bytes_of_all(const struct search *search, const struct batch *batch)
{
    return batch->copy != SCOUT_NONE ? search->ops[batch->copy].bytes : search->log->allocs[batch->alloc].bytes;
}

/* The call that brings a batch, or that allocates what the host writes. */
static struct stack
stack_of(const struct search *search, const struct batch *batch)
{
    return batch->copy != SCOUT_NONE ? spot_stack_of(search, batch->copy)
                                     : spot_stack(search, search->log->allocs[batch->alloc].site);
}

/* Whether a place in a batch's memory is of the batch. */
static bool
is_in(const struct batch *batch, uint64_t offset)
{
    return !batch->is_part || (offset >= batch->at && offset - batch->at < batch->bytes);
}

/* Whether an operation gets a pointer to a batch. */
static bool
gets(const struct search *search, const struct scout_op *op, const struct batch *batch)
{
    return ANY(it, op->arguments, op->argument_count,
               it->alloc != SCOUT_NONE && search->memory_of[it->alloc] == search->memory_of[batch->alloc] &&
                   is_in(batch, it->offset));
}

/* Whether the calls that copy or allocate a batch say this of its bytes. */
static bool
is_said(struct search *search, const struct batch *batch, const char *text)
{
    struct stack stack = stack_of(search, batch);
    struct lifted said;
    return ANY_NUMBER(depth, 0, stack.count,
                      lift(&search->sources, stack.frames, depth, &said) && strstr(said.bytes, text) != NULL);
}

/* Whether DDP_SHARD gets the records of this list. */
static bool
is_counted(const struct search *search, const struct batches *list, const struct batch *batch)
{
    const struct batch *it = list->labels;
    return batch == it || (batch->copy != SCOUT_NONE && it->copy != SCOUT_NONE && batch->at == it->at &&
                           search->ops[batch->copy].site == search->ops[it->copy].site);
}

static void
add_share(struct search *search, const struct spot *spot, struct lifted *said, const struct batches *list,
          const struct batch *batch)
{
    const char *bytes = lift_bare(said->bytes);
    const char *size = strchr(bytes, '*') != NULL ? strstr(bytes, "sizeof(") : NULL; /* of an element, or of a word */
    int length = size != NULL ? (int)source_close(size, strlen("sizeof")) : 1;
    const char *stream = said->stream[0] != '\0' ? said->stream : "0", *memory = lift_bare(said->memory);
    const char *figure = list->records == 0                                                      ? "DDP_ELEMENTS | "
                         : list->labels >= list->items + list->copies && !list->labels->is_slice ? "DDP_UNCOUNTED | "
                         : is_counted(search, list, batch)                                       ? ""
                                                                                                 : "DDP_ALSO | ";
    uint64_t rest = bytes_of_all(search, batch) - batch->bytes;
    OWNED char *item = list->records > 0 ? xasprintf("%s%" PRIu64, figure, batch->bytes / batch->times / list->records)
                                         : xasprintf("%s%.*s", figure, length,
                                                     size != NULL       ? size
                                                     : batch->each == 1 ? "1"
                                                                        : "4");
    OWNED char *text =
        batch->is_slice ? xasprintf("ddp_share_slice(%zu, %s, %s, %" PRIu64 ", %s);", (size_t)(batch - list->items),
                                    memory, bytes, batch->bytes, item)
        : batch->is_part
            ? xasprintf("ddp_share_times((char *)(%s) + %" PRIu64 ", (%s) - %" PRIu64 ", %" PRIu64 ", 1, %s, %s);",
                        memory, batch->at - search->ops[batch->copy].to.offset, bytes, rest, batch->bytes, item, stream)
        : batch->times > 1 ? xasprintf("ddp_share_times(%s, %s, %" PRIu64 ", %" PRIu32 ", %s, %s);", memory, bytes,
                                       batch->bytes, batch->times, item, stream)
                           : xasprintf("ddp_share(%s, %s, %s, %s);", memory, bytes, item, stream);
    spot_add_text(search, spot, text);
}

/* Whether a copy from the host that is too small to be data differs from step to step, and an operation in front of the
 * place where gradients are averaged gets it: it belongs to the records, as labels of a small batch. */
static bool
is_small_part(const struct search *search, uint32_t number)
{
    const struct scout_op *op = &search->ops[number];
    bool differs = false;
    if (!is_from_host(op) || is_data(op))
        return false;
    for (uint32_t i = number; i + search->period < search->log->op_count && !differs; i += search->period)
        differs = search->ops[i].content != search->ops[i + search->period].content;
    return differs && ANY(it, &search->ops[search->first], search->finding->groups[0].before - search->first,
                          ANY(argument, it->arguments, it->argument_count,
                              argument->alloc == op->to.alloc && argument->offset <= op->to.offset));
}

bool
shares_next(const struct search *search, uint32_t *number)
{
    while (*number < search->first + search->period && !is_data(&search->ops[*number]) &&
           !is_small_part(search, *number))
        ++*number;
    return *number < search->first + search->period;
}

/* Whether launches of steps get memory, and nothing writes it, or copies from it. *first_p: the first of them. */
static bool
is_only_read(const struct search *search, uint32_t alloc, uint32_t *first_p)
{
    *first_p = SCOUT_NONE;
    for (uint32_t i = search->first; i < search->end; ++i) {
        const struct scout_op *op = &search->ops[i];
        if ((op->kind >= SCOUT_FILL && op->to.alloc == alloc) || (op->kind == SCOUT_COPY && op->from.alloc == alloc) ||
            (op->effect != NULL && ANY(it, op->effect->written, op->effect->written_count, it->alloc == alloc)))
            return false;
        if (*first_p == SCOUT_NONE && ANY(it, op->arguments, op->argument_count, it->alloc == alloc))
            *first_p = i;
    }
    return *first_p != SCOUT_NONE;
}

#define CHOSEN UINT64_MAX

/* Of memory that steps only read: the bytes of a batch, as pointers move on from step to step; all its bytes, where
 * pointers and numbers of their launches stay; CHOSEN: launches may choose a batch in another way. */
static uint64_t
batch_on_device(const struct search *search, uint32_t alloc)
{
    uint64_t moved = 0, last = 0;
    bool stays = false, is_chosen = false;
    for (uint32_t i = search->finding->begin; i + search->period < search->end; ++i) {
        const struct scout_op *op = &search->ops[i], *later = op + search->period;
        FOR_EACH(now, op->arguments, op->argument_count) {
            const struct scout_argument *then = &later->arguments[NUMBER_OF(now)];
            if (now->alloc != alloc)
                continue;
            bool is_like = NUMBER_OF(now) < later->argument_count && then->alloc == alloc;
            uint64_t by = is_like && then->offset > now->offset ? then->offset - now->offset : moved;
            bool is_same = is_like && then->offset == now->offset;
            is_chosen =
                is_chosen || !is_like || (moved > 0 && by != moved) || (is_same && op->scalars != later->scalars);
            stays = stays || is_same;
            moved = by;
            last = is_like ? then->offset : last;
        }
    }
    is_chosen = is_chosen || stays == (moved > 0) || last % (stays ? search->log->allocs[alloc].bytes : moved) > 0;
    return is_chosen ? CHOSEN : stays ? search->log->allocs[alloc].bytes : moved;
}

/* Whether an allocation gets its bytes from the host by one call, in front of the steps; `all` of them. *copy_p: its
 * last copy. */
static bool
is_brought_once(const struct search *search, uint32_t alloc, bool all, uint32_t *copy_p)
{
    const struct scout_op *ops = search->ops;
    uint32_t copy = search->start;
    while (copy > 0 && (ops[copy - 1].kind != SCOUT_COPY || ops[copy - 1].to.alloc != alloc))
        --copy;
    *copy_p = copy - 1;
    return copy > 0 && ops[*copy_p].from.alloc == SCOUT_NONE && ops[*copy_p].rows == 1 && ops[*copy_p].to.offset == 0 &&
           (!all || ops[*copy_p].bytes + sizeof(uint64_t) > search->log->allocs[alloc].bytes) &&
           ALL_NUMBERS(i, 0, copy,
                       ops[i].kind != SCOUT_COPY || ops[i].to.alloc != alloc || ops[i].site == ops[*copy_p].site);
}

/* Whether a copy of the log brings data to a step. One before the first step does, if steps make it by the same calls:
 * copies of a thread that has launched nothing enter the log later than they are made. */
static bool
is_of_steps(const struct search *search, uint32_t number)
{
    const struct scout_op *op = &search->ops[number];
    bool is = number >= search->start || ANY(it, &search->ops[search->first], search->period, it->site == op->site);
    return is && op->from.alloc == SCOUT_NONE && op->to.alloc != SCOUT_NONE;
}

/* By how much an argument of a launch moves on from step to step, but where it falls back; 0: it does not, or not
 * evenly. */
static int64_t
advance_of(const struct search *search, uint32_t launch, uint32_t slot)
{
    int64_t by = 0;
    for (uint32_t i = launch; i + search->period < search->end; i += search->period) {
        int64_t number = search->ops[i].numbers[slot], step = search->ops[i + search->period].numbers[slot] - number;
        if (step == 0 || number < 0 || (step > 0 && by > 0 && step != by))
            return 0;
        by = step > 0 ? step : by;
    }
    return by;
}

/* What a launch showed to use of memory that it gets; NULL: it was not looked for. */
static const struct scout_segment *
used_of(const struct scout_op *op, uint32_t alloc)
{
    const struct scout_effect *effect = op->effect;
    return effect == NULL ? NULL
                          : FIND(it, effect->segments, effect->segment_count, it->alloc == alloc && it->used_hi > 0);
}

/* By how many bytes, a multiple of a word's, one more in a number moves what its launch uses of memory, from `offset`
 * on: in all steps that is between the number's place and `by` further on, and only this many bytes make it so. 0: none
 * do, or several. */
static uint64_t
unit_of(const struct search *search, uint32_t alloc, uint32_t launch, uint32_t slot, uint64_t offset, int64_t by)
{
    enum { WORD = sizeof(uint32_t) };
    uint64_t least = WORD, most = search->log->allocs[alloc].bytes;
    uint32_t count = 0;
    for (uint32_t i = launch; i < search->end; i += search->period) {
        const struct scout_op *op = &search->ops[i];
        const struct scout_segment *used = used_of(op, alloc);
        if (used == NULL)
            continue;
        uint64_t number = (uint64_t)op->numbers[slot], end = number + (uint64_t)by;
        uint64_t lo = (used->used_hi - offset + end - 1) / end,
                 hi = number > 0 ? (used->used_lo - offset) / number : most;
        least = lo > least ? lo : least;
        most = hi < most ? hi : most;
        ++count;
    }
    least = (least + WORD - 1) / WORD * WORD;
    return count > 1 && least == most / WORD * WORD ? least : 0;
}

/* Whether a number of each other launch of steps that gets the memory is that of `batch`. */
static bool
is_said_alike(const struct search *search, const struct batch *batch)
{
    const struct scout_op *launch = &search->ops[batch->launch];
    uint32_t period = search->period, count = (search->end - search->finding->begin) / period;
    return ALL(op, &search->ops[search->finding->begin], period,
               !ANY(it, op->arguments, op->argument_count, it->alloc == batch->alloc) ||
                   ANY_NUMBER(slot, 0, SCOUT_NUMBERS,
                              ALL_NUMBERS(k, 0, count,
                                          op[k * period].numbers[slot] == launch[k * period].numbers[batch->number])));
}

/* A batch to which an argument of a launch leads. */
static struct batch
slice_of(const struct search *search, uint32_t alloc, uint64_t bytes, uint32_t launch,
         const struct scout_argument *argument)
{
    return (struct batch){.alloc = alloc,
                          .bytes = bytes,
                          .copy = SCOUT_NONE,
                          .begin = search->first,
                          .is_small = bytes <= DATA_BYTES,
                          .times = 1,
                          .is_slice = true,
                          .launch = launch,
                          .pointer = argument->slot,
                          .number = SCOUT_NONE};
}

/* A batch in memory that steps only read, which a number of a launch chooses. Labels that cannot be changed have as
 * many records as other memory of which the same launch shows them. */
static void
add_chosen(const struct search *search, struct batches *list, uint32_t alloc)
{
    const struct scout_alloc *allocs = search->log->allocs;
    for (uint32_t k = search->first; k < search->first + search->period; ++k) {
        uint32_t begin = search->finding->begin, i = begin + (k - begin) % search->period; /* in the first known step */
        const struct scout_op *op = &search->ops[i];
        const struct scout_argument *got =
            FIND(it, op->arguments, op->argument_count, it->alloc == alloc && it->at == 0);
        for (uint32_t slot = 0; got != NULL && slot < SCOUT_NUMBERS; ++slot) {
            int64_t by = advance_of(search, i, slot);
            uint64_t unit = by > 0 ? unit_of(search, alloc, i, slot, got->offset, by) : 0;
            const struct batch *like = FIND(it, list->items, list->count,
                                            it->is_slice && it->number != SCOUT_NONE &&
                                                search->ops[it->launch].numbers[it->number] == op->numbers[slot] &&
                                                it->bytes == it->unit * (uint64_t)by);
            if (unit == 0 && by > 0 && like != NULL && used_of(op, alloc) == NULL && got->offset == 0 &&
                allocs[alloc].bytes * like->unit % allocs[like->alloc].bytes == 0)
                unit = allocs[alloc].bytes * like->unit / allocs[like->alloc].bytes;
            struct batch batch = slice_of(search, alloc, unit * (uint64_t)by, i, got);
            batch.number = slot;
            batch.unit = unit;
            if (unit == 0 || !is_said_alike(search, &batch))
                continue;
            *GROWN(list->items, list->count) = batch;
            return;
        }
    }
}

/* A batch that a pointer chooses by moving on. */
static void
add_moving(const struct search *search, struct batches *list, uint32_t alloc, uint64_t bytes)
{
    for (uint32_t i = search->first; i < search->first + search->period; ++i)
        FOR_EACH(it, search->ops[i].arguments, search->ops[i].argument_count) {
            if (it->alloc != alloc || it->at != 0)
                continue;
            *GROWN(list->items, list->count) = slice_of(search, alloc, bytes, i, it);
            return;
        }
}

/* Whether launches showed to use the same bytes of memory in each step: a table. */
static bool
is_table(const struct search *search, uint32_t alloc)
{
    for (uint32_t i = search->finding->begin; i + search->period < search->end; ++i) {
        const struct scout_segment *used = used_of(&search->ops[i], alloc),
                                   *later = used_of(&search->ops[i + search->period], alloc);
        if (used != NULL && later != NULL && used->used_lo == later->used_lo && used->used_hi == later->used_hi)
            return true;
    }
    return false;
}

enum records { RECORDS_OPEN, RECORDS_SHOWN, RECORDS_ONE, RECORDS_UNTESTED };

/* Whether a place is a gradient's or a parameter's. */
static bool
is_trained(const struct search *search, uint32_t alloc, uint64_t at)
{
    return ANY(tensor, search->finding->tensors, search->finding->tensor_count,
               tensor->role <= ROLE_GRADIENT && search->memory_of[tensor->alloc] == search->memory_of[alloc] &&
                   at >= tensor->lo && at < tensor->hi);
}

/* From the first to the last byte that a launch writes of a segment; of none it is empty. */
static struct scout_range
written_of(const struct scout_segment *segment)
{
    const struct scout_ranges *ranges = segment->killed.count > 0 ? &segment->killed : &segment->modified;
    return ranges->count > 0 ? (struct scout_range){ranges->items[0].lo, ranges->items[ranges->count - 1].hi}
                             : (struct scout_range){0};
}

/* Whether a launch writes more to a memory than gradients, parameters and a loss. */
static bool
is_result(const struct search *search, const struct scout_segment *segment)
{
    struct scout_range written = written_of(segment);
    return written.hi > written.lo + sizeof(double) && !is_trained(search, segment->alloc, written.lo);
}

/* What a launch makes of the batch in a memory: of its first part a part of the results, or one of all of it; gradients
 * are made of all of it. Results that are made element by element show neither, nor does what no launch was repeated
 * with other data in. */
static enum records
read_records(const struct search *search, const struct scout_op *op, const struct batch *batch)
{
    uint32_t memory = search->memory_of[batch->alloc];
    const struct scout_effect *effect = op->effect;
    enum records found = RECORDS_UNTESTED;
    if (effect == NULL)
        return RECORDS_UNTESTED;
    bool is_tested = ANY(it, effect->segments, effect->segment_count,
                         it->tested && is_in(batch, it->lo) && search->memory_of[it->alloc] == memory);
    FOR_EACH(dependence, effect->dependences, effect->dependence_count) {
        uint32_t from = effect->segments[dependence->from].alloc;
        if (dependence->read.count == 0 || search->memory_of[from] != memory ||
            !is_in(batch, effect->segments[dependence->from].lo) ||
            !ANY(it, effect->segments, effect->segment_count, it->alloc == dependence->to && is_result(search, it)) ||
            is_trained(search, dependence->to, dependence->changed.items[0].lo))
            continue;
        if (ANY(it, effect->segments, effect->segment_count,
                it->alloc == dependence->to && written_of(it).hi == dependence->changed.items[0].hi))
            return RECORDS_ONE;
        found = ANY(it, effect->elementwise, effect->elementwise_count, it->from == from && it->samples > 0)
                    ? RECORDS_OPEN
                    : RECORDS_SHOWN;
    }
    return found < RECORDS_UNTESTED || !is_tested ? found : RECORDS_ONE;
}

/* Whether a launch that gets a larger list has this number, or so many blocks: of floats, as targets and noise, a
 * record may have several in the smallest list. */
static bool
is_number_of_launch(const struct search *search, const struct batches *list, uint64_t count)
{
    return ANY(
        op, &search->ops[search->first], search->period,
        ANY(it, list->items, list->count, it->bytes / it->times > count * sizeof(double) && gets(search, op, it)) &&
            (op->grid[0] == count || ANY(number, op->numbers, SCOUT_NUMBERS, *number == (int64_t)count)));
}

/* How many records the batches have, if the smallest has one element of each, as labels have. */
static void
count_records(struct search *search, struct batches *list)
{
    list->labels = list->items;
    FOR_EACH(it, list->items, list->count)
        list->labels = it->bytes / it->times < list->labels->bytes / list->labels->times ? it : list->labels;
    uint64_t count = list->labels->bytes / list->labels->times / list->labels->each;
    bool is_word = list->labels->each == 1 || is_said(search, list->labels, "sizeof(int)") ||
                   is_said(search, list->labels, "int32_t)") ||
                   (is_said(search, list->labels, "sizeof(float)") && is_number_of_launch(search, list, count));
    bool is = count > 1 && is_word && ALL(it, list->items, list->count, it->bytes / it->times % count == 0) &&
              ANY(it, list->items, list->count, it->bytes / it->times > count * sizeof(double));
    list->records = is ? count : 0;
}

/* Whether the host writes memory that it shares with the device in each step. */
static bool
is_rewritten(const struct search *search, uint32_t alloc)
{
    return ANY(op, search->ops, search->log->op_count,
               op->kind == SCOUT_COPY && op->bytes == 0 && op->to.alloc == alloc);
}

/* Whether pointers into what a copy brings show lists that lie one after the other: no call goes through them, as
 * through parts of a batch, and no launch reads one to which it gets no pointer, as in records with a member there. */
static bool
are_lists(const struct search *search, const struct batch *parts, uint32_t count)
{
    enum { TIMES_AT_MOST = 64 };
    const struct scout_op *ops = search->ops, *copy = &ops[parts->copy];
    const struct batch all = {.alloc = parts->alloc, .bytes = copy->bytes, .is_part = true, .at = parts->at};
    bool are = ALL(part, parts, count, TIMES_AT_MOST * part->bytes >= copy->bytes);
    for (uint32_t i = search->first; i < search->end; ++i) {
        const struct scout_effect *effect = ops[i].effect;
        bool any = gets(search, &ops[i], &all);
        FOR_EACH_UNTIL(part, parts, count, !are) {
            bool is_got = gets(search, &ops[i], part);
            bool is_read =
                !is_got && effect != NULL &&
                ANY(it, effect->dependences, effect->dependence_count,
                    effect->segments[it->from].alloc == all.alloc && is_in(part, effect->segments[it->from].lo));
            are = !is_read && (!any || !ANY_NUMBER(k, search->first, i,
                                                   ops[k].site == ops[i].site && gets(search, &ops[k], &all) &&
                                                       gets(search, &ops[k], part) != is_got));
        }
    }
    return are;
}

/* What a copy brings to a step: one batch, or several lists. */
static void
list_copy(const struct search *search, uint32_t number, struct batches *list)
{
    const struct scout_op *op = &search->ops[number];
    uint32_t before = list->count;
    for (uint64_t at = op->to.offset, end = at + op->bytes, next; at < end; at = next) {
        next = end;
        FOR_EACH(reader, &search->ops[search->first], search->period)
            FOR_EACH(it, reader->arguments, reader->argument_count)
                next = it->alloc == op->to.alloc && it->offset > at && it->offset < next ? it->offset : next;
        *GROWN(list->items, list->count) =
            (struct batch){op->to.alloc, next - at, number, number + 1, next - at <= DATA_BYTES, 1, true, at};
    }
    if (list->count == before + 1 || !are_lists(search, &list->items[before], list->count - before)) {
        list->count = before + 1;
        list->items[before] =
            (struct batch){op->to.alloc, op->bytes, number, number + 1, !is_data(op), 1, false, op->to.offset};
    }
}

static bool
is_sliced(const struct batches *list, uint32_t alloc)
{
    return ANY(it, list->items, list->count, it->is_slice && it->alloc == alloc);
}

/* What pointers and numbers choose in memory that steps only read; labels by other batches. */
static void
list_slices(const struct search *search, struct batches *list)
{
    const struct scout_log *log = search->log;
    for (uint32_t i = 0, unused; i < 2 * log->alloc_count; ++i) {
        uint32_t a = i % log->alloc_count;
        uint64_t bytes = is_sliced(list, a) || !is_only_read(search, a, &unused) || is_rewritten(search, a)
                             ? 0
                             : batch_on_device(search, a);
        if (bytes == CHOSEN)
            add_chosen(search, list, a);
        else if (bytes > ELEMENT_BYTES && bytes < log->allocs[a].bytes)
            add_moving(search, list, a, bytes);
    }
}

/* What copies bring, and what is chosen on the device; all that lies there only where nothing else is a batch. */
static void
list_batches(const struct search *search, struct batches *list)
{
    enum { CHOOSING, WHOLE, MANAGED, KINDS };
    const struct scout_log *log = search->log;
    *list = (struct batches){.chosen = SCOUT_NONE};
    uint32_t first = search->first;
    for (uint32_t i = first; shares_next(search, &i); ++i)
        list_copy(search, i, list);
    list->copies = list->count;
    list_slices(search, list);
    for (int kind = CHOOSING; kind < KINDS && (kind == CHOOSING || (list->count == 0 && list->chosen == SCOUT_NONE));
         ++kind)
        for (uint32_t a = 0, copy = SCOUT_NONE, unused; a < log->alloc_count; ++a) {
            bool is_managed = log->allocs[a].memory == SCOUT_MANAGED;
            bool stays = !is_managed && is_brought_once(search, a, kind != CHOOSING, &copy);
            if (is_sliced(list, a) || !is_only_read(search, a, &unused) ||
                !(kind < MANAGED ? stays : is_rewritten(search, a)))
                continue;
            uint64_t bytes = kind < MANAGED ? batch_on_device(search, a) : log->allocs[a].bytes;
            if (bytes == CHOSEN)
                list->chosen = is_table(search, a) ? list->chosen : a;
            else if (kind > CHOOSING && bytes > ELEMENT_BYTES && bytes == log->allocs[a].bytes)
                *GROWN(list->items, list->count) =
                    (struct batch){a, bytes, is_managed ? SCOUT_NONE : copy, first, bytes <= DATA_BYTES, 1, false, 0};
        }
}

/* Whether the launch that reads memory first shows several records in it; sums over records are passed over. Labels
 * that are the same in each step cannot be changed, and show nothing: `is_label`, it may be such. *leads_p: no launch
 * computes from other data before. Of several time steps the last one alone may show it. */
static enum records
find_records(const struct search *search, const struct batch *batch, bool is_label, bool *leads_p)
{
    *leads_p = true;
    uint32_t end = batch->begin + search->period, begin = search->finding->begin;
    enum records records = RECORDS_UNTESTED;
    bool any = false;
    for (uint32_t i = batch->begin; i < end && i < search->end && (!any || batch->times > 1); ++i) {
        const struct scout_op *op = &search->ops[i];
        bool is_read = gets(search, op, batch);
        if (op->effect == NULL || !ANY(it, op->effect->segments, op->effect->segment_count, is_result(search, it)))
            continue;
        *leads_p = *leads_p && (any || is_read || op->kind != SCOUT_LAUNCH);
        if (!is_read)
            continue;
        any = true;
        for (uint32_t k = begin + (i - begin) % search->period; k < search->end && records >= RECORDS_ONE;
             k += search->period) {
            enum records here = read_records(search, &search->ops[k], batch);
            records = here < records ? here : records;
        }
    }
    return records < RECORDS_UNTESTED ? records : any && !is_label ? RECORDS_ONE : RECORDS_OPEN;
}

/* Whether a call copies to several places of one memory in a step: records come one by one. */
static bool
comes_in_parts(const struct search *search, const struct batches *list, const struct batch *batch)
{
    const struct scout_op *ops = search->ops, *op = &ops[batch->copy];
    return ANY(it, list->items, list->copies,
               ops[it->copy].site == op->site && it->alloc == batch->alloc && ops[it->copy].to.offset != op->to.offset);
}

/* Whether a call also brings another batch, whose line would have other numbers. */
static bool
brings_other(const struct search *search, const struct batches *list, const struct batch *batch,
             const struct batch *other, struct stack stack, uint32_t depth)
{
    bool has_numbers = list->records > 0 || batch->times > 1 || batch->is_part || other->is_part;
    bool is_like = batch->times == other->times && (!has_numbers || batch->bytes == other->bytes) &&
                   (list->records == 0 || is_counted(search, list, batch) == is_counted(search, list, other));
    return other->copy != batch->copy && !is_like && other->copy != SCOUT_NONE &&
           spot_is_same_chain(stack, spot_stack_of(search, other->copy), depth);
}

/* Whether all copies of the log by these calls bring records, and nothing inside them reads what they bring. */
static bool
is_own(struct search *search, const struct batches *list, const struct batch *batch, struct stack stack, uint32_t depth)
{
    const struct scout_log *log = search->log;
    if (ANY(it, list->items, list->count, brings_other(search, list, batch, it, stack, depth)))
        return false;
    for (uint32_t i = 0, at, unused; i < log->op_count; ++i) {
        const struct scout_op *it = &log->ops[i];
        struct stack other = spot_stack(search, it->site);
        bool brings =
            is_of_steps(search, i) ||
            ANY(item, list->items, list->count, item->copy != SCOUT_NONE && log->ops[item->copy].site == it->site) ||
            ANY(item, list->items, list->copies, item->alloc == it->to.alloc);
        if (it->kind == SCOUT_COPY && !brings && spot_is_same_chain(stack, other, depth))
            return false;
        (void)spot_find_parting(stack, other, &at, &unused);
        if (at < depth && ANY(got, it->arguments, it->argument_count,
                              search->memory_of[got->alloc] == search->memory_of[batch->alloc]))
            return false;
    }
    return true;
}

/* Memory that the host shares with the device, in front of the first launch that reads it. */
static bool
find_managed_line(struct search *search, struct stack made, const struct batch *batch, struct spot *spot,
                  struct lifted *said)
{
    uint32_t at_made, at_step, launch;
    (void)is_only_read(search, batch->alloc, &launch);
    struct stack step = spot_stack_of(search, launch);
    *spot = (struct spot){0};
    if (!spot_find_parting(made, step, &at_made, &at_step) || !lift(&search->sources, made.frames, at_made, said))
        return false;
    spot->node = spot_node(search, step.frames, at_step);
    return spot->node != NULL && spot->node->parent != NULL && spot->node->parent->is_block;
}

/* What can be said of the memory at frame `depth` of the copy; without a name there, by the number of its allocation,
 * if all copies of the call go to one place in it. */
static bool
name_batch(struct search *search, const struct batch *batch, struct stack stack, uint32_t depth, bool by_number,
           struct lifted *said)
{
    uint32_t number = search->number[batch->alloc];
    bool found = lift(&search->sources, stack.frames, depth, said);
    if (found && said->is_fixed)
        snprintf(said->bytes, sizeof(said->bytes), "%" PRIu64, bytes_of_all(search, batch));
    if (!by_number || number == SCOUT_NONE)
        return found && said->memory[0] != '\0' && said->bytes[0] != '\0';
    uint64_t offset = search->ops[batch->copy].to.offset;
    snprintf(said->memory, sizeof(said->memory),
             offset > 0 ? "(char *)ddp_made[%" PRIu32 "].memory + %" PRIu64 : "ddp_made[%" PRIu32 "].memory", number,
             offset);
    snprintf(said->bytes, sizeof(said->bytes), "%" PRIu64, bytes_of_all(search, batch));
    return !ANY(op, search->ops, search->log->op_count,
                op->kind == SCOUT_COPY && op->site == search->ops[batch->copy].site && op->to.offset != offset);
}

/* On the device, after the copy; `adds`: and puts the line there. */
static bool
place_share(struct search *search, const struct batches *list, const struct batch *batch, bool by_number, bool adds)
{
    struct stack stack = stack_of(search, batch);
    struct lifted said;
    struct spot spot;
    bool found = ANY_NUMBER(depth, 0, stack.count,
                            batch->copy == SCOUT_NONE ? find_managed_line(search, stack, batch, &spot, &said) &&
                                                            said.memory[0] != '\0' && said.bytes[0] != '\0'
                                                      : is_own(search, list, batch, stack, depth) &&
                                                            name_batch(search, batch, stack, depth, by_number, &said) &&
                                                            spot_find_behind(search, &stack.frames[depth], &spot));
    if (found && adds)
        add_share(search, &spot, &said, list, batch);
    return found;
}

/* The outermost loop around a statement that does not lead to the boundary of the step; NULL. */
static const struct source_node *
loop_around(const struct source_node *node, const struct source_node *step)
{
    const struct source_node *loop = NULL;
    for (; node != NULL; node = node->parent)
        if (node->is_loop && (step == NULL || step->begin < node->begin || step->begin >= node->end))
            loop = node;
    return loop;
}

/* Moves a spot in front of the loop whose first pass launches with the batch. False: a pass before does, or what is
 * said has another value there. */
static bool
move_to_front(struct search *search, const struct batch *batch, struct stack stack, uint32_t depth,
              const struct source_node *loop, struct lifted *said, struct spot *spot)
{
    for (uint32_t i = search->first; i % search->period != batch->launch % search->period; ++i)
        if (spot_is_same_chain(stack, spot_stack_of(search, i), depth))
            return false;
    lift_to_front(loop, said->memory);
    lift_to_front(loop, said->bytes);
    bool changes = lift_changes(loop->source, (struct span){loop->begin, spot->node->begin}, said);
    spot->node = loop;
    return !changes;
}

/* Whether all launches of steps by these calls get the batch. */
static bool
is_for_batch(struct search *search, const struct batch *batch, struct stack stack, uint32_t depth)
{
    return ALL_NUMBERS(i, search->first, search->end,
                       search->ops[i].kind != SCOUT_LAUNCH || gets(search, &search->ops[i], batch) ||
                           !spot_is_same_chain(stack, spot_stack_of(search, i), depth));
}

/* What gives a launch its batch, as frame `at` says it: what the frame before said, or, not `is_said`, its launch. So
 * it says the argument `number`, too, or SCOUT_NONE. */
static bool
say_slice(struct search *search, const struct batch *batch, uint32_t number, const struct site_place *frames,
          uint32_t at, bool is_said, struct lifted *now, bool *is_choice)
{
    const struct source_node *node = spot_node(search, frames, at);
    bool has_number = number != SCOUT_NONE;
    if (is_said)
        return lift_up(&search->sources, frames, at, now->memory) &&
               (!has_number || lift_up(&search->sources, frames, at, now->bytes));
    return node != NULL && lift_argument(node, batch->pointer, now->memory, is_choice) &&
           (!has_number || lift_argument(node, number, now->bytes, is_choice));
}

/* In front of the launch that a pointer or a number gives its batch, or of the call that leads to it, in the outermost
 * function of the step that says both. */
static bool
place_slice(struct search *search, const struct batches *list, const struct batch *batch, uint32_t number, bool adds)
{
    const struct scout_group *group = search->finding->groups;
    struct stack stack = spot_stack_of(search, batch->launch),
                 step = spot_stack_of(search, group->fused ? group->complete : group->before);
    struct lifted now = {0}, said;
    struct spot spot = {0}, found = {0};
    uint32_t last, at_step;
    bool is_said = false, is_choice = false;
    if (!spot_find_parting(stack, step, &last, &at_step))
        return false;
    const struct source_node *step_node = spot_node(search, step.frames, at_step);
    for (uint32_t depth = 0; depth <= last && depth < stack.count; ++depth) { /* the kernel's own line may be one */
        const struct site_place *frames = stack.frames;
        bool is_first = !is_said;
        spot.node = spot_node(search, frames, depth);
        if (spot.node == NULL)
            continue;
        struct site_place list[] = {frames[depth - (depth > 0)], {.line = 0}, frames[depth]};
        if (depth > 0 && lift_find_tail(&search->sources, list[0].function, &list[2], &list[1]))
            is_said = say_slice(search, batch, number, list, 1, is_said, &now, &is_choice);
        else
            list[1] = list[0];
        is_said = (is_said || depth < 2) && say_slice(search, batch, number, list, 2, is_said, &now, &is_choice);
        if (!is_said && !is_first)
            break;
        if (!is_said || now.memory[0] == '&' || spot.node->is_loop)
            continue;
        const struct source_node *loop = depth == last ? loop_around(spot.node, step_node) : NULL;
        bool is_here =
            (!is_first || !is_choice) && ((depth == last && loop == NULL) || is_for_batch(search, batch, stack, depth));
        bool is_found = is_here || (loop != NULL && move_to_front(search, batch, stack, depth, loop, &now, &spot));
        if (is_found && spot.node->parent != NULL && spot.node->parent->is_block) {
            found = spot;
            said = now;
        }
    }
    if (found.node == NULL)
        return false;
    const int64_t *numbers = search->ops[batch->launch].numbers;
    bool is_chosen = batch->number != SCOUT_NONE, is_counted = !is_chosen && number != SCOUT_NONE;
    uint64_t unit = is_counted ? batch->bytes / (uint64_t)numbers[number] : batch->unit;
    OWNED char *product = xasprintf("(size_t)(%s) * %" PRIu64, lift_bare(said.bytes), unit);
    if (is_chosen) /* where it begins, and where all of it ends */
        snprintf(said.bytes, sizeof(said.bytes), "%s, %" PRIu64, product, bytes_of_all(search, batch));
    else
        snprintf(said.bytes, sizeof(said.bytes), "0, %s", is_counted ? product : "0");
    if (adds)
        add_share(search, &found, &said, list, batch);
    return true;
}

/* The argument of a batch's launch that is the number of its records, or words, of which the last batch may have fewer;
 * SCOUT_NONE: none is. */
static uint32_t
count_argument(const struct search *search, const struct batches *list, const struct batch *batch)
{
    uint64_t records = list->records > 0 ? list->records : batch->bytes / sizeof(uint32_t);
    uint32_t slot = 0;
    while (slot < SCOUT_NUMBERS && (uint64_t)search->ops[batch->launch].numbers[slot] != records)
        ++slot;
    return slot < SCOUT_NUMBERS ? slot : SCOUT_NONE;
}

/* By its name, or else by the number of its allocation. */
static bool
can_share(struct search *search, const struct batches *list, const struct batch *batch, bool adds)
{
    if (batch->is_slice)
        return batch->number != SCOUT_NONE
                   ? place_slice(search, list, batch, batch->number, adds)
                   : place_slice(search, list, batch, count_argument(search, list, batch), adds) ||
                         place_slice(search, list, batch, SCOUT_NONE, adds);
    return place_share(search, list, batch, false, adds) ||
           (search->number[batch->alloc] != SCOUT_NONE && place_share(search, list, batch, true, adds));
}

/* What the name of a launch says of a batch that it gets. */
static struct mangled_parameter
said_by_name(const struct search *search, const struct scout_op *op, const struct batch *batch)
{
    struct mangled_parameter said[64];
    const struct scout_argument *got =
        FIND(it, op->arguments, op->argument_count, it->alloc == batch->alloc && it->at == 0);
    int count = got != NULL ? mangled_parameters(scout_log_name(search->log, op->name), said, 64) : 0;
    return count > 0 && (int)got->slot < count ? said[got->slot] : (struct mangled_parameter){0};
}

/* Whether a launch gets one pointer to a memory, as to a list and not to several, and reads it as whole numbers, by
 * which it chooses what else it reads, or as `single` ones. */
static bool
is_list(struct search *search, const struct scout_op *op, const struct batch *batch, bool single)
{
    struct mangled_parameter said = said_by_name(search, op, batch); /* a struct of several lists is one object */
    uint32_t pointers = 0;
    for (uint32_t i = 0; i < op->argument_count; ++i)
        pointers += op->arguments[i].alloc == batch->alloc && is_in(batch, op->arguments[i].offset);
    return pointers == 1 && (said.is_words || said.pointee != SCOUT_UNKNOWN || is_said(search, batch, "*")) &&
           (single ||
            ANY(segment, op->effect->segments, op->effect->segment_count,
                segment->alloc == batch->alloc && is_in(batch, segment->lo) && segment->type == SCOUT_INTEGER));
}

/* Of batches of which launches compute nothing but gradients and a loss, so that no result shows a record: whether each
 * has a number of each record, or threads of the launch a list of whole numbers for each record. */
static bool
are_by_launch(struct search *search, const struct batches *list)
{
    enum { WORDS_AT_MOST = 64 }; /* of a record */
    const struct scout_op *op = &search->ops[search->first], *end = &search->ops[search->end];
    if (list->count >= 2 && ALL(it, list->items, list->count, it->bytes == list->items[0].bytes))
        return true;
    while (op < end && list->count > 0 && !gets(search, op, &list->items[0]))
        ++op;
    if (op == end || list->count == 0)
        return false;
    uint64_t blocks = (uint64_t)op->grid[0] * op->grid[1] * op->grid[2],
             threads = (uint64_t)op->block[0] * op->block[1] * op->block[2];
    bool found = false;
    for (uint64_t each = 1; each <= WORDS_AT_MOST && !found; ++each) {
        uint64_t count = list->items[0].bytes / sizeof(uint32_t) / each;
        bool is_by = count >= 2 && (blocks * threads % count == 0 ||
                                    (count <= blocks * threads && count + threads > blocks * threads));
        found = is_by && ALL(it, list->items, list->count,
                             it->bytes % (count * sizeof(uint32_t)) == 0 &&
                                 it->bytes / sizeof(uint32_t) / count <= WORDS_AT_MOST &&
                                 is_list(search, op, it, it->bytes == count * sizeof(uint32_t)));
    }
    return found;
}

/* Which batches a step reads, and whether they are several records, one after the other. */
static enum records
find_shares(struct search *search, struct batches *list)
{
    enum records all = RECORDS_OPEN;
    bool leads = false;
    list_batches(search, list);
    struct times times;
    times_find(search->log, search->finding, &times);
    const struct scout_op *ops = &search->ops[search->first];
    FOR_EACH_MUTABLE(it, list->items, list->count) {
        bool is_bytes = ANY(op, ops, search->period, said_by_name(search, op, it).is_bytes);
        it->each = is_bytes ? 1 : sizeof(uint32_t);
        it->times = it->is_part ? times.count == 0 : times_of(&times, it->alloc, it->bytes);
    }
    times_free(&times);
    bool alone = ALL(batch, list->items, list->count, batch->is_small);
    FOR_EACH(batch, list->items, list->count) {
        bool is_copied = NUMBER_OF(batch) < list->copies;
        uint64_t count = batch->bytes / batch->each; /* one label for each record of all others */
        bool divides = count >= 2 && ALL(it, list->items, list->count, it->bytes / it->each % count == 0);
        bool is_one =
            (is_copied && comes_in_parts(search, list, batch)) || (batch->is_small && !divides) || batch->times == 0;
        enum records records = is_one ? RECORDS_ONE : find_records(search, batch, divides, &leads);
        if (batch->is_slice && batch->number != SCOUT_NONE && batch->times == 1)
            records = RECORDS_SHOWN; /* by the bytes that launches use */
        if (batch->bytes == search->log->allocs[batch->alloc].bytes && !is_copied && !leads && !divides)
            records = RECORDS_ONE; /* a table, which is read beside what is made of records */
        if (!batch->is_small || records == RECORDS_ONE || (alone && leads)) /* labels alone show no records */
            all = records > all ? records : all;
    }
    return all == RECORDS_OPEN && are_by_launch(search, list) ? RECORDS_SHOWN : all;
}

void
shares_count(struct search *search)
{
    struct batches list;
    for (uint32_t a = 0; a < search->log->alloc_count; ++a)
        search->number[a] = SCOUT_NONE;
    if (find_shares(search, &list) == RECORDS_SHOWN && list.chosen == SCOUT_NONE)
        for (uint32_t i = 0; i < list.count; ++i)
            if (!list.items[i].is_slice)
                search->counted[list.items[i].alloc] =
                    search->counted[list.items[i].alloc] || !place_share(search, &list, &list.items[i], false, false);
    free(list.items);
}

/* Whether a batch has neither a part nor a multiple of the bytes of any of several others: where groups of records
 * begin, or a table. In memory that stays, such a list has one element more than another one of the same records. */
static bool
is_made_of_all(const struct search *search, const struct batches *list, const struct batch *batch)
{
    const struct scout_alloc *allocs = search->log->allocs;
    return (list->count > 2 && !ANY(it, list->items, list->count,
                                    it != batch && (it->bytes % batch->bytes == 0 || batch->bytes % it->bytes == 0))) ||
           ANY(it, list->items, list->count,
               it->is_slice && batch->is_slice &&
                   (allocs[batch->alloc].bytes - sizeof(uint32_t)) * it->bytes ==
                       allocs[it->alloc].bytes * batch->bytes);
}

const char *
shares_place(struct search *search)
{
    struct batches list;
    bool placed = true;
    enum records all = find_shares(search, &list);
    bool is_copied = list.count == list.copies, any = list.count > 0;
    bool is_chosen = list.chosen != SCOUT_NONE && (!is_copied || !any); /* their labels may be */
    bool is_made = ANY(batch, list.items, list.count, is_made_of_all(search, &list, batch));
    if (all == RECORDS_SHOWN && !is_chosen && !is_made) {
        count_records(search, &list);
        while (!(placed = ALL(batch, list.items, list.count, can_share(search, &list, batch, false))) &&
               list.records > 0)
            list.records = 0; /* lists of several sizes have one line */
        search->to->records = list.records;
        search->to->has_slices = placed && ANY(batch, list.items, list.count, batch->is_slice);
        for (uint32_t i = 0; i < list.count && placed; ++i)
            (void)can_share(search, &list, &list.items[i], true);
    }
    free(list.items);
    if (is_chosen)
        return "a launch may choose its records by a number, or by a pointer that does not advance evenly";
    if (all != RECORDS_SHOWN)
        return any ? all == RECORDS_OPEN ? "scout cannot tell where one record ends and the next begins"
                                         : "scout cannot tell records: a copy may bring one, or a column of all"
                   : "no copy from the host brings data to a step";
    if (is_made)
        return "the host makes a list from the whole batch, such as where groups of records begin";
    return placed ? NULL : "no line of the sources is known to copy these data alone";
}
