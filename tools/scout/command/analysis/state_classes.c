/* state_classes.c - see state_finder.h. */
#include "tools/scout/command/analysis/state_finder.h"

#include <stdio.h>

/* Bytes of an element of a place of which each comes from its own old value; 0: they do not, or it is not known.
 * *keeps: whether an operation computes them so at all. */
static uint32_t
width_of(const struct finder *finder, const struct memory_part *place, bool *keeps)
{
    uint32_t width = 0;
    bool all = true;
    FOR_EACH_LEFT(version, finder, place)
        FOR_EACH_IN(edge, version) {
            if (!version_overlaps(edge->from, version))
                continue;
            all = all && edge->elementwise;
            *keeps = *keeps || edge->elementwise;
            width = edge->elementwise && edge->map.to_bytes > width ? edge->map.to_bytes : width;
        }
    return all ? width : 0;
}

static bool
is_in_place(const struct finder *finder, const struct memory_part *place)
{
    return !ANY_LEFT(version, finder, place, !ANY_IN(edge, version, version_overlaps(edge->from, version)));
}

/* Whether --per-rank names its allocation. */
static bool
is_per_rank(const struct finder *finder, const struct memory_part *place)
{
    char name[16], all[256];
    snprintf(name, sizeof(name), ",a%u,", place->alloc);
    snprintf(all, sizeof(all), ",%s,", finder->per_rank != NULL ? finder->per_rank : "");
    return strstr(all, name) != NULL;
}

/* The class of memory that stays and is computed from data: a rank's own, a sum of whole numbers, or changes of floats.
 * False, with the reason: it has none. */
static bool
judge_state(const struct finder *finder, struct memory_part *place)
{
    char text[64];
    (void)state_place_name(place, text);
    bool is_one = place->hi - place->lo == sizeof(int32_t); /* element, which comes from itself or from none */
    bool keeps = false;
    uint32_t width = width_of(finder, place, &keeps);
    place->is_overwritten = !keeps;
    place->is_in_place = is_in_place(finder, place);
    if (is_per_rank(finder, place)) {
        place->role = PLAY_PER_RANK;
        return true;
    }
    if (!place->leaves && place->type == SCOUT_INTEGER)
        place->width = is_one ? sizeof(int32_t) : width;
    if (place->width == sizeof(int32_t) || place->width == sizeof(int64_t)) {
        place->role = PLAY_SUM;
        return true;
    }
    finder->to->scratch = (struct scout_bytes){place->alloc, place->lo, place->hi};
    if (place->type == SCOUT_INTEGER)
        return turns_refuse(
            finder->to,
            "%s holds whole numbers that are computed from data, which have no average; --per-rank a%u gives "
            "each rank its own",
            text, place->alloc);
    if (!state_place_is_float(place))
        return turns_refuse(finder->to, "the type of %s, which persists from step to step, is not known", text);
    finder->to->scratch = (struct scout_bytes){0};
    place->role = PLAY_CHANGES;
    place->may_be_sum = !place->leaves;
    return true;
}

/* Whether a place is the history itself, or, `whole`, another part of its memory. */
static bool
is_of_history(const struct memory_part *it, const struct memory_part *history, bool whole)
{
    return it == history || (whole && it->memory == history->memory && it->lo < it->hi);
}

static bool
has_unread_words(const struct memory_part *place)
{
    return !place->is_read && place->lo % sizeof(uint32_t) == 0 && place->hi % sizeof(uint32_t) == 0;
}

/* Whether a period has written the element after that of the period before it; the first one may follow the last. */
static bool
follows_element(const struct graph_version *version, const struct graph_version *before, bool whole)
{
    const bool begins_anew = whole && version->lo == 0 && before->lo > 0;
    if (version->lo != before->hi && !begins_anew)
        return false;
    return version->position == before->position && version->period == before->period + 1;
}

/* Whether nothing on the device reads a place, of which each period writes the next element, or, `whole`, all of its
 * memory: a history of losses. Where the program hands on the address of the element each is a place of its own, and
 * the first one may follow the last. */
static bool
is_history(const struct finder *finder, const struct memory_part *place, bool whole)
{
    const struct graph_version *before = NULL;
    uint32_t moves = 0;
    bool is_row =
        ALL(it, finder->places, finder->place_count, !is_of_history(it, place, whole) || has_unread_words(it));
    FOR_EACH_LEFT(version, finder, whole ? NULL : place) {
        if (version->memory != (int32_t)place->memory || !is_row)
            continue;
        is_row =
            version->hi - version->lo <= ELEMENT_BYTES && (before == NULL || follows_element(version, before, whole));
        moves += before != NULL && version->lo > 0;
        before = version;
    }
    return is_row && moves > 0;
}

/* Whether an argument leads to a number that no operation of the period writes: a single one, or one in a struct
 * beside whole numbers that other memory is computed from. */
static bool
is_lone_number(const struct finder *finder, const struct scout_argument *argument, bool is_beside)
{
    FOR_EACH(place, finder->places, finder->place_count) {
        if (place->alloc != argument->alloc || place->is_written || place->lo >= place->hi)
            continue;
        if (is_beside ? place->leaves && place->lo < argument->end && place->hi > argument->offset
                      : place->lo <= argument->offset && argument->offset < place->hi)
            return is_beside || place->hi - place->lo <= ELEMENT_BYTES;
    }
    return false;
}

/* Floats in the same memory that are written, and that an argument which leads to a place leads to, too: it is in a
 * struct. NULL: there are none. */
static const struct memory_part *
floats_beside(const struct finder *finder, const struct scout_argument *argument, const struct memory_part *place)
{
    return FIND(it, finder->places, finder->place_count,
                it->memory == place->memory && state_place_is_float(it) && it->is_written && it->lo < argument->end &&
                    it->hi > argument->offset);
}

/* What an operation does with whole numbers, as far as its arguments say it. */
struct use {
    bool gets, writes;
    bool gets_number;   /* that has not changed yet, too; */
    bool gets_variable; /* or one in a variable of its module, which all kernels of the module get */
};

/* How one operation uses the memory: whether it gets it, writes it, or gets a number beside it. */
static struct use
use_of(const struct finder *finder, const struct memory_part *place, const struct scout_op *op)
{
    const struct graph *graph = finder->graph;
    struct use use = {0};
    FOR_EACH(argument, op->arguments, op->argument_count) {
        bool is_it = argument->alloc == place->alloc && argument->offset < place->hi && argument->end > place->lo;
        bool is_struct = is_it && floats_beside(finder, argument, place) != NULL;
        bool is_number = (is_struct || !is_it) && is_lone_number(finder, argument, is_struct);
        bool is_variable = is_number && !is_it && scout_is_variable(graph->log, argument->alloc);
        use.gets = use.gets || is_it;
        use.writes = use.writes || is_struct;
        use.gets_variable = use.gets_variable || is_variable;
        use.gets_number = use.gets_number || (is_number && !is_variable);
    }
    use.writes = use.writes || (use.gets && ANY_LEFT(it, finder, place, graph_op(graph, it)->name == op->name));
    return use;
}

/* Whether whole numbers may decide about other memory, though no recorded step shows it: a kernel gets them that writes
 * them nowhere; or it counts, and gets a number that has not changed yet, as the scale that grows with the count. What
 * gets a struct gets the whole numbers in it: what it does with them a trial has to show. If the number is in a
 * variable, which may be a constant, a single count decides only if it counts steps: proof (complete) has to show that
 * it does not. */
static bool
decides(const struct finder *finder, struct memory_part *place)
{
    const struct graph *graph = finder->graph;
    const bool is_single = place->hi - place->lo == sizeof(int32_t);
    for (uint32_t at = 0; at < graph->period; ++at) {
        const struct use use = use_of(finder, place, &graph->log->ops[graph->first + at]);
        if (!use.gets)
            continue;
        if (!use.writes || use.gets_number || (use.gets_variable && !is_single))
            return true;
        place->may_decide = place->may_decide || use.gets_variable;
    }
    return false;
}

/* The class of a part of memory in a plan by state (place->role; 0: none is needed). False, with the reason: there is
 * none. */
static bool
judge_place(struct finder *finder, struct memory_part *place)
{
    const struct scout_alloc *alloc = &finder->graph->log->allocs[place->alloc];
    bool is_remade = scout_is_remade(finder->graph->log, finder->finding, place->alloc), keeps = false;
    place->leaves = place->leaves || (place->type == SCOUT_INTEGER && decides(finder, place));
    /* Whole numbers for the host alone may depend on data that did not show it, as hits. A count is a sum, too. */
    bool is_count = !place->leaves && place->type == SCOUT_INTEGER &&
                    (place->hi - place->lo == sizeof(int32_t) || width_of(finder, place, &keeps) > 0);
    char text[64];
    if (alloc->memory == SCOUT_GENERATORS)
        place->role = PLAY_STREAM;
    if (alloc->memory == SCOUT_GENERATORS || alloc->memory == SCOUT_PINNED || alloc->memory == SCOUT_SCRATCH)
        return true;
    if (!place->stays && !is_remade &&
        ((place->is_written && is_history(finder, place, false)) || is_history(finder, place, true)))
        place->role = PLAY_SUM; /* of words: each is changed by one rank, from what it held as the round began */
    else if (!place->is_written)
        place->role = (place->is_read || place->is_shown) && !is_remade ? PLAY_UNWRITTEN : 0;
    else if (!place->stays)
        place->role = place->host_later && !is_remade ? PLAY_LAST : 0;
    else if (is_remade)
        return turns_refuse(finder->to, "%s stays from step to step, and is freed and made again",
                            state_place_name(place, text));
    else if (place->is_state || is_count)
        return judge_state(finder, place);
    else
        place->role = PLAY_STREAM;
    return true;
}

/* What is not written of a segment of which a part is averaged, as rows that no batch has met, or of a history: its
 * change is 0. */
static void
widen_state(struct finder *finder)
{
    FOR_EACH_MUTABLE(place, finder->places, finder->place_count) {
        const struct memory_part *written = place - NUMBER_OF(place) % PARTS + WRITTEN;
        bool is_unread_sum = written->role == PLAY_SUM && !written->is_read && !place->is_read;
        if ((written->role == PLAY_CHANGES || is_unread_sum) && place->lo < place->hi) {
            place->role = written->role;
            place->type = written->type;
            place->width = written->width;
        }
    }
}

/* Words beside whole numbers in a struct that no recorded step has changed have the class of its floats, if they can:
 * zeros, of which state.c ends the job where one becomes a whole number. */
static void
widen_to_zeros(struct finder *finder, struct memory_part *place)
{
    const struct graph *graph = finder->graph;
    for (uint32_t at = 0; at < finder->graph->period && !place->is_written && place->lo < place->hi; ++at) {
        const struct scout_op *op = &graph->log->ops[graph->first + at];
        FOR_EACH_UNTIL(argument, op->arguments, op->argument_count, place->role == PLAY_CHANGES) {
            bool is_it = argument->alloc == place->alloc && argument->offset < place->hi && argument->end > place->lo;
            const struct memory_part *floats = is_it ? floats_beside(finder, argument, place) : NULL;
            /* whole numbers beside it are added up, or all ranks count them */
            if (floats == NULL || floats->role != PLAY_CHANGES ||
                !ANY(it, finder->places, finder->place_count,
                     it->alloc == argument->alloc && it->lo < argument->end && it->hi > argument->offset &&
                         it->is_written && it->type == SCOUT_INTEGER))
                continue;
            uint64_t each = scout_type_bytes(floats->type);
            place->role = PLAY_CHANGES;
            place->type = place->lo % each == 0 && place->hi % each == 0 ? floats->type : SCOUT_FLOAT32;
        }
    }
}

/* What is averaged and is written by the argument `slot` of a launch of the kernel `name`. NULL: there is none. */
static const struct memory_part *
averaged_by_kernel(const struct finder *finder, uint32_t name, uint32_t slot)
{
    const struct graph *graph = finder->graph;
    for (uint32_t at = 0; at < graph->period; ++at) {
        const struct scout_op *op = &graph->log->ops[graph->first + at];
        if (op->name != name)
            continue;
        FOR_EACH(argument, op->arguments, op->argument_count) {
            if (argument->slot != slot)
                continue;
            const struct memory_part *place =
                FIND(it, finder->places, finder->place_count,
                     it->role == PLAY_CHANGES && it->is_written && it->alloc == argument->alloc &&
                         it->lo < argument->end && it->hi > argument->offset);
            if (place != NULL)
                return place;
        }
    }
    return NULL;
}

/* Memory that no recorded step has changed, but that a kernel gets by the argument by which another launch of it writes
 * what is averaged. It is a parameter whose changes have been lost in rounding so far, such as a bias before a batch
 * norm. Ranks average what later steps change of it; while nothing changes, they add 0. */
static void
widen_to_unchanged(struct finder *finder, struct memory_part *place)
{
    const struct graph *graph = finder->graph;
    for (uint32_t at = 0; at < graph->period && place->role == PLAY_UNWRITTEN; ++at) {
        const struct scout_op *op = &graph->log->ops[graph->first + at];
        FOR_EACH(argument, op->arguments, op->argument_count) {
            bool is_it = argument->alloc == place->alloc && argument->offset < place->hi && argument->end > place->lo;
            const struct memory_part *other = is_it ? averaged_by_kernel(finder, op->name, argument->slot) : NULL;
            if (other == NULL || (place->hi - place->lo) % scout_type_bytes(other->type) != 0)
                continue;
            place->role = PLAY_CHANGES;
            place->type = other->type;
            break;
        }
    }
}

bool
state_classes_judge(struct finder *finder)
{
    FOR_EACH_MUTABLE(place, finder->places, finder->place_count)
        if (!judge_place(finder, place))
            return false;
    return true;
}

void
state_classes_widen(struct finder *finder)
{
    widen_state(finder);
    FOR_EACH_MUTABLE(place, finder->places, finder->place_count)
        widen_to_zeros(finder, place);
    FOR_EACH_MUTABLE(place, finder->places, finder->place_count)
        widen_to_unchanged(finder, place);
}
