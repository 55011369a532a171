/*
 * by_state.c - see turns.h.
 *
 * Memory is looked at in places: of the bytes between two offsets that operations name, those that are written, from
 * the first to the last, and what lies in front of them and behind. A place stays if an operation of a later period
 * reads what one has left there.
 */
#include "tools/scout/command/analysis/turns.h"

#include "tools/common/owned.h"

#include <stdio.h>

/* Bytes [lo, hi) of a memory. Of each segment, from one of the memory's cuts to the next, there are PARTS. */
enum { IN_FRONT, WRITTEN, BEHIND, PARTS };
struct place {
    uint32_t memory, alloc; /* the last allocation of it */
    uint64_t lo, hi;
    bool is_written;     /* by an operation of the period */
    bool is_read;        /* by one, on the device */
    bool stays;          /* what is there is read in a later period */
    bool host_later;     /* and by the host */
    bool is_shown;       /* the host reads it in the period */
    bool is_state;       /* it feeds back, by way of other memory, and data enters; or is computed from such */
    bool leaves;         /* other memory is computed from it */
    bool is_overwritten; /* of state: no element comes from its own old value alone; */
    bool is_in_place;    /* but each launch that writes it reads it, too */
    bool may_be_sum;     /* of state: nothing else is computed from it */
    bool may_decide;     /* of whole numbers: about a variable of the module, if they count steps */
    enum play_role role; /* 0: none: scratch */
    uint32_t type;       /* enum scout_type */
    uint32_t width;      /* bytes of an element of whole numbers; 0: not known */
};

struct finder {
    const struct graph *graph;
    const struct scout_finding *finding;
    struct turns *to;
    const char *per_rank; /* "a3,a7" */
    struct place *places;
    uint32_t place_count;
    uint32_t *first_place; /* [memory_count]: places of a memory, in the order of its cuts */
    uint32_t *noise;       /* noise_find() */
};

static const char *
name_place(const struct place *place, char text[64])
{
    return scout_tensor_place(&(struct scout_tensor){.alloc = place->alloc, .lo = place->lo, .hi = place->hi}, text);
}

/* The first place of the segment in which a version lies. */
static struct place *
segment_of(const struct finder *finder, const struct graph_version *version)
{
    const struct graph_memory *memory = &finder->graph->memories[version->memory];
    uint32_t cut = COUNT_SORTED(place, memory->cuts, memory->cut_count, *place <= version->lo) - 1;
    return &finder->places[finder->first_place[version->memory] + cut * PARTS];
}

/* What was there before lies in all parts of its segment, and counts where no operation writes. */
static struct place *
place_of(const struct finder *finder, const struct graph_version *version)
{
    struct place *segment = segment_of(finder, version);
    bool is_unwritten = version->op < 0 && !(segment[WRITTEN].lo <= version->lo && version->hi <= segment[WRITTEN].hi);
    return &segment[!is_unwritten ? WRITTEN : segment[BEHIND].lo < segment[BEHIND].hi ? BEHIND : IN_FRONT];
}

/* Whether an operation leaves a version in a place, NULL: in any. */
static bool
is_left_in(const struct finder *finder, const struct graph_version *version, const struct place *place)
{
    return version->memory != HOST_MEMORY && version->op >= 0 && (place == NULL || place_of(finder, version) == place);
}

#define FOR_EACH_LEFT(version, finder, place)  \
    FOR_EACH_VERSION(version, (finder)->graph) \
        if (is_left_in(finder, version, place))
#define ANY_LEFT(version, finder, place, holds) \
    ANY_VERSION(version, (finder)->graph, is_left_in(finder, version, place) && (holds))

/* ---- what stays ---- */

static void
make_places(struct finder *finder)
{
    const struct graph *graph = finder->graph;
    uint32_t count = 0;
    finder->first_place = xcalloc(graph->memory_count + 1, sizeof(*finder->first_place));
    FOR_EACH(memory, graph->memories, graph->memory_count)
        count += memory->cut_count;
    finder->places = xcalloc((size_t)count * PARTS + 1, sizeof(*finder->places));
    FOR_EACH(memory, graph->memories, graph->memory_count) {
        finder->first_place[NUMBER_OF(memory)] = finder->place_count;
        for (uint32_t i = 0; i + 1 < memory->cut_count; ++i)
            for (uint32_t part = 0; part < PARTS; ++part, ++finder->place_count)
                finder->places[finder->place_count] =
                    (struct place){.memory = NUMBER_OF(memory),
                                   .alloc = memory->alloc,
                                   .lo = part == IN_FRONT ? memory->cuts[i] : memory->cuts[i + 1],
                                   .hi = memory->cuts[i + 1]};
    }
    FOR_EACH_LEFT(version, finder, NULL) {
        struct place *segment = segment_of(finder, version);
        struct place *written = &segment[WRITTEN];
        written->lo = !written->is_written || version->lo < written->lo ? version->lo : written->lo;
        written->hi = !written->is_written || version->hi > written->hi ? version->hi : written->hi;
        written->is_written = true;
        segment[IN_FRONT].hi = written->lo;
        segment[BEHIND].lo = written->hi;
    }
}

static void
look_at_places(struct finder *finder)
{
    const struct graph *graph = finder->graph;
    FOR_EACH_VERSION(version, graph) {
        if (version->memory == HOST_MEMORY)
            continue;
        struct place *place = place_of(finder, version);
        bool is_scratch = scout_is_scratch(finder->finding, place->alloc, version->lo, version->hi);
        FOR_EACH_OUT(out, version) {
            const struct graph_version *to = out->to;
            bool is_later =
                version->op >= 0 ? to->period > version->period : version->op == VERSION_BEFORE && place->is_written;
            bool is_host = to->memory == HOST_MEMORY;
            place->is_read = place->is_read || !is_host;
            place->stays = place->stays || (is_later && !is_host && !is_scratch);
            place->host_later = place->host_later || (is_later && is_host);
            place->is_shown = place->is_shown || is_host;
            place->leaves = place->leaves || (!is_host && place_of(finder, to) != place);
        }
    }
}

/* ---- types ---- */

/* The last operation of the first period that writes a place, by number in the log; SCOUT_NONE: none does. */
static uint32_t
writer_of(const struct finder *finder, const struct place *place, uint32_t *type)
{
    uint32_t writer = SCOUT_NONE;
    FOR_EACH_LEFT(version, finder, place) {
        *type = *type == SCOUT_UNKNOWN ? version->type : *type;
        if (version->period == 0)
            writer = finder->graph->first + version->position;
    }
    return writer;
}

/* As of parameters: by names and calls, by other launches, by the bits. */
static bool
find_types(struct finder *finder)
{
    struct scout_finding typed = {.first = finder->finding->first, .period = finder->graph->period};
    OWNED uint32_t *place_at = xcalloc(finder->place_count + 1, sizeof(*place_at));
    FOR_EACH(place, finder->places, finder->place_count) {
        uint32_t type = SCOUT_UNKNOWN, writer = SCOUT_NONE;
        if (place->is_written && place->stays)
            writer = writer_of(finder, place, &type);
        if (writer == SCOUT_NONE)
            continue;
        place_at[gradients_add_tensor(&typed, ROLE_AVERAGE, place->alloc, (struct scout_range){place->lo, place->hi},
                                      type, PAIR_NONE, writer)] = NUMBER_OF(place);
    }
    bool ok = types_find(finder->graph, &typed) == ROLES_FOUND || turns_refuse(finder->to, "%s", typed.reason);
    for (uint32_t t = 0; t < typed.tensor_count && ok; ++t)
        finder->places[place_at[t]].type = typed.tensors[t].type;
    scout_finding_free(&typed);
    return ok;
}

static bool
is_float(const struct place *place)
{
    return place->type > SCOUT_UNKNOWN && place->type < SCOUT_INTEGER;
}

/* ---- state ---- */

/* What comes from the host and differs from period to period, and larger memory that is only read. */
static bool
is_data(const struct finder *finder, const struct graph_version *version)
{
    const struct scout_log *log = finder->graph->log;
    if (version->memory == HOST_MEMORY)
        return false;
    if (version->op < 0)
        return !place_of(finder, version)->is_written && version->hi - version->lo > SCALAR_BYTES;
    uint32_t number = finder->graph->first + (uint32_t)version->op, other = number + finder->graph->period;
    if (other >= finder->graph->first + finder->graph->count)
        other = number - finder->graph->period;
    return version->from_host && (version->bytes > DATA_BYTES || log->ops[number].content != log->ops[other].content);
}

/* Whether what one period leaves in a place leads to what the next one does, other than element by element within the
 * place. */
static bool
feeds_back(const struct finder *finder, const struct place *place)
{
    enum { NOT_REACHED, WITHIN, BY_OTHERS };
    const struct graph *graph = finder->graph;
    OWNED uint8_t *reached = xcalloc(graph->version_count + 1, sizeof(*reached));
    FOR_EACH_VERSION(version, graph) {
        uint8_t *here = &reached[version->number];
        if (version->period < 0 || version->period > 1 || version->memory == HOST_MEMORY)
            continue;
        bool is_here = place_of(finder, version) == place;
        *here = is_here && version->period == 0 ? WITHIN : NOT_REACHED;
        FOR_EACH_IN_UNTIL(edge, version, version->period != 1) {
            uint8_t from = reached[edge->from->number];
            uint8_t by = from == WITHIN && !(is_here && edge->elementwise) ? BY_OTHERS : from;
            *here = by > *here ? by : *here;
        }
        if (is_here && *here == BY_OTHERS)
            return true;
    }
    return false;
}

/* Marks the versions of places that are state, and what is computed from them. Returns whether there is another such
 * place then. */
static bool
spread_state(struct finder *finder)
{
    bool more = false;
    FOR_EACH_VERSION(version, finder->graph)
        version->from_state = (version->memory != HOST_MEMORY && place_of(finder, version)->is_state) ||
                              ANY_IN(edge, version, edge->from->from_state);
    FOR_EACH_MUTABLE(place, finder->places, finder->place_count) {
        if (!place->is_written || !place->stays || place->is_state ||
            !ANY_LEFT(version, finder, place, version->from_state))
            continue;
        place->is_state = more = true;
    }
    return more;
}

/* Whether data reach floats that stay. */
static bool
may_be_state(const struct finder *finder, const struct place *place)
{
    return place->is_written && place->stays && place->type != SCOUT_INTEGER &&
           ANY_LEFT(version, finder, place, version->from_data);
}

/* Whether a place is computed from its own old value, and other memory from it. The way by which that memory leads back
 * need not show: the host computes a number from it, or a kernel finds which elements change. */
static bool
may_feed_back(const struct finder *finder, const struct place *place)
{
    return place->leaves &&
           ANY_LEFT(version, finder, place, ANY_IN(edge, version, version_overlaps(edge->from, version)));
}

/* Whether the host reads what is computed from a place. Overwrites the mark `from_state`. */
static bool
is_read_by_host(const struct finder *finder, const struct place *of)
{
    bool is_read = false;
    FOR_EACH_VERSION(version, finder->graph) {
        version->from_state = (version->memory != HOST_MEMORY && place_of(finder, version) == of) ||
                              ANY_IN(edge, version, edge->from->from_state);
        is_read = is_read || (version->memory == HOST_MEMORY && version->from_state);
    }
    return is_read;
}

/* Why there is no state. */
static bool
refuse_stateless(const struct finder *finder)
{
    if (ANY(place, finder->places, finder->place_count, may_be_state(finder, place) && is_read_by_host(finder, place)))
        return turns_refuse(finder->to, "the host decides the update from what it reads in each step");
    return turns_refuse(finder->to, "nothing stays on the device that is computed from itself and from data");
}

/* Marks the places that are state, for they feed back. Returns whether there are any. */
static bool
mark_state(struct finder *finder, bool (*feeds)(const struct finder *finder, const struct place *place))
{
    bool any = false;
    FOR_EACH_MUTABLE(place, finder->places, finder->place_count) {
        place->is_state = may_be_state(finder, place) && feeds(finder, place);
        any = any || place->is_state;
    }
    return any;
}

static bool
find_state(struct finder *finder)
{
    FOR_EACH_VERSION(version, finder->graph)
        version->from_data = is_data(finder, version) || ANY_IN(edge, version, edge->from->from_data);
    if (!mark_state(finder, feeds_back) && !mark_state(finder, may_feed_back))
        return refuse_stateless(finder);
    while (spread_state(finder))
        ;
    return true;
}

/* ---- classes ---- */

/* Bytes of an element of a place of which each comes from its own old value; 0: they do not, or it is not known.
 * *keeps: whether an operation computes them so at all. */
static uint32_t
width_of(const struct finder *finder, const struct place *place, bool *keeps)
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
is_in_place(const struct finder *finder, const struct place *place)
{
    return !ANY_LEFT(version, finder, place, !ANY_IN(edge, version, version_overlaps(edge->from, version)));
}

/* Whether --per-rank names its allocation. */
static bool
is_per_rank(const struct finder *finder, const struct place *place)
{
    char name[16], all[256];
    snprintf(name, sizeof(name), ",a%u,", place->alloc);
    snprintf(all, sizeof(all), ",%s,", finder->per_rank != NULL ? finder->per_rank : "");
    return strstr(all, name) != NULL;
}

static bool
judge_state(const struct finder *finder, struct place *place)
{
    char text[64];
    (void)name_place(place, text);
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
    if (!is_float(place))
        return turns_refuse(finder->to, "the type of %s, which persists from step to step, is not known", text);
    finder->to->scratch = (struct scout_bytes){0};
    place->role = PLAY_CHANGES;
    place->may_be_sum = !place->leaves;
    return true;
}

/* Whether nothing on the device reads a place, of which each period writes the next element, or, `whole`, all of its
 * memory: a history of losses. Where the program hands on the address of the element each is a place of its own, and
 * the first one may follow the last. */
static bool
is_history(const struct finder *finder, const struct place *place, bool whole)
{
    const struct graph_version *before = NULL;
    uint32_t moves = 0;
    bool is_row = ALL(it, finder->places, finder->place_count,
                      (it != place && !(whole && it->memory == place->memory && it->lo < it->hi)) ||
                          (!it->is_read && it->lo % sizeof(uint32_t) == 0 && it->hi % sizeof(uint32_t) == 0));
    FOR_EACH_LEFT(version, finder, whole ? NULL : place) {
        if (version->memory != (int32_t)place->memory || !is_row)
            continue;
        is_row = version->hi - version->lo <= ELEMENT_BYTES &&
                 (before == NULL || ((version->lo == before->hi || (whole && version->lo == 0 && before->lo > 0)) &&
                                     version->position == before->position && version->period == before->period + 1));
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
static const struct place *
floats_beside(const struct finder *finder, const struct scout_argument *argument, const struct place *place)
{
    return FIND(it, finder->places, finder->place_count,
                it->memory == place->memory && is_float(it) && it->is_written && it->lo < argument->end &&
                    it->hi > argument->offset);
}

/* What an operation does with whole numbers, as far as its arguments say it. */
struct use {
    bool gets, writes;
    bool gets_number;   /* that has not changed yet, too; */
    bool gets_variable; /* or one in a variable of its module, which all kernels of the module get */
};

static struct use
use_of(const struct finder *finder, const struct place *place, const struct scout_op *op)
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
decides(const struct finder *finder, struct place *place)
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

static bool
judge_place(struct finder *finder, struct place *place)
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
                            name_place(place, text));
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
        const struct place *written = place - NUMBER_OF(place) % PARTS + WRITTEN;
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
widen_to_zeros(struct finder *finder, struct place *place)
{
    const struct graph *graph = finder->graph;
    for (uint32_t at = 0; at < finder->graph->period && !place->is_written && place->lo < place->hi; ++at) {
        const struct scout_op *op = &graph->log->ops[graph->first + at];
        FOR_EACH_UNTIL(argument, op->arguments, op->argument_count, place->role == PLAY_CHANGES) {
            bool is_it = argument->alloc == place->alloc && argument->offset < place->hi && argument->end > place->lo;
            const struct place *floats = is_it ? floats_beside(finder, argument, place) : NULL;
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

/* ---- operations ---- */

/* What is made by all: what writes a stream, what that is computed from in the same period, copies from the host. */
static void
mark_needed(struct finder *finder)
{
    const struct graph *graph = finder->graph;
    for (uint32_t i = graph->version_count; i-- > 0;) {
        struct graph_version *version = &graph->versions[i];
        if (version->op < 0 || version->memory == HOST_MEMORY)
            continue;
        version->needed = version->needed || version->from_host || place_of(finder, version)->role == PLAY_STREAM;
        FOR_EACH_IN_UNTIL(edge, version, !version->needed)
            edge->from->needed = true;
    }
}

static void
find_parts(struct finder *finder)
{
    const struct graph *graph = finder->graph;
    OWNED bool *writes = xcalloc(finder->graph->period + 1, sizeof(*writes));
    mark_needed(finder);
    for (uint32_t at = 0; at < finder->graph->period; ++at)
        finder->to->parts[at] = turns_moves_generators(graph->log, graph->first + at) ? PLAY_BY_ALL : PLAY_BY_TURN;
    FOR_EACH_VERSION(version, graph) {
        if (version->op >= 0 && version->memory != HOST_MEMORY)
            writes[version->position] = true;
        if (version->op >= 0 && version->needed)
            finder->to->parts[version->position] = PLAY_BY_ALL;
    }
    FOR_EACH_VERSION(version, graph) {
        if (version->op >= 0 && version->memory == HOST_MEMORY && !writes[version->position])
            finder->to->parts[version->position] = PLAY_BY_ALL;
    }
}

/* ": MEMORY" that the operation writes and all ranks have alike; "": it is not known. */
static const char *
name_common(const struct finder *finder, uint32_t position, char text[80])
{
    char name[64];
    text[0] = '\0';
    FOR_EACH_LEFT(version, finder, NULL) {
        const struct place *place = place_of(finder, version);
        if (version->position == position && place->role == PLAY_STREAM)
            snprintf(text, 80, ": %s", name_place(place, name));
    }
    return text;
}

/* An operation that all make in each period may not write what is averaged or added up, and what it writes must have
 * the same bits on all ranks. */
static bool
judge_parts(struct finder *finder)
{
    find_parts(finder);
    char name[SCOUT_NAME_BYTES], text[64], common[80];
    FOR_EACH_LEFT(version, finder, NULL) {
        const struct place *place = place_of(finder, version);
        uint32_t noise = finder->noise[version->number];
        if (finder->to->parts[version->position] != PLAY_BY_ALL)
            continue;
        if (noise != 0)
            return turns_refuse(finder->to, "the same launch of %s twice gives different bits, and all ranks make it",
                                turns_op_name(finder->graph, noise - 1, name));
        if (place->role != 0 && place->role != PLAY_STREAM)
            return turns_refuse(
                finder->to,
                "%s writes %s, which each rank changes in its own step, and memory that is the same on all ranks%s",
                turns_op_name(finder->graph, version->position, name), name_place(place, text),
                name_common(finder, version->position, common));
    }
    return true;
}

/* ---- what cannot be followed ---- */

static bool
judge_operation(const struct finder *finder, uint32_t at)
{
    const struct scout_op *op = &finder->graph->log->ops[finder->graph->first + at];
    const struct scout_effect *effect = op->effect;
    char name[SCOUT_NAME_BYTES];
    (void)turns_op_name(finder->graph, at, name);
    if (effect == NULL || op->kind != SCOUT_LAUNCH)
        return true;
    if (effect->hidden_write != SCOUT_NONE)
        return turns_refuse(finder->to, "%s writes memory that is not among its arguments", name);
    if (effect->hidden_read != 0)
        return turns_refuse(finder->to, "%s reads memory that is not among its arguments", name);
    if (effect->verdict == SCOUT_DIFFERS)
        return turns_refuse(finder->to, "the same launch of %s twice gives different results", name);
    if (effect->verdict == SCOUT_EXCLUDED)
        return turns_refuse(finder->to, "what %s reads and writes is not known: %s", name,
                            scout_log_name(finder->graph->log, effect->why));
    return true;
}

/* What is computed from state may go to the host, and as many bytes come back that are others in each period: a proof
 * has to show what they are. */
static bool
judge_host(const struct finder *finder)
{
    const struct graph *graph = finder->graph;
    FOR_EACH_VERSION(sent, graph) {
        if (sent->memory != HOST_MEMORY || sent->bytes <= ELEMENT_BYTES || !sent->from_state)
            continue;
        /* those that come back may be made of these in a later step: they come in front, or stay, and are no labels */
        FOR_EACH_UNTIL(back, graph->versions, graph->version_count, finder->to->host_may_update)
            finder->to->host_may_update = back->from_data && back->from_host && back->bytes == sent->bytes &&
                                          back->type != SCOUT_INTEGER &&
                                          (back->position < sent->position || place_of(finder, back)->stays);
    }
    FOR_EACH(op, graph->log->ops, graph->log->op_count) {
        if (op->kind == SCOUT_COPY && op->bytes == 0 && op->to.alloc != SCOUT_NONE)
            return turns_refuse(finder->to,
                                "the host writes a%u, which it shares with the device, and no call says when",
                                op->to.alloc);
    }
    return true;
}

/* ---- what the host reads ---- */

static enum reads_class
reads_class_of(const struct place *place)
{
    switch (place->role) {
    case PLAY_CHANGES:
        return place->may_be_sum ? READS_OF_STATE_OR_SUM : READS_OF_STATE;
    case PLAY_SUM:
        return READS_OF_SUM;
    case PLAY_LAST:
        return READS_OF_LAST;
    default:
        return READS_OF_STEP;
    }
}

static void
find_reads(const struct finder *finder)
{
    const struct graph *graph = finder->graph;
    uint32_t state_before = 0;
    OWNED unsigned char *classes = xcalloc(graph->version_count + 1, sizeof(*classes));
    FOR_EACH_VERSION(version, graph) {
        if (version->memory == HOST_MEMORY)
            continue;
        enum reads_class class = reads_class_of(place_of(finder, version));
        bool is_state = class == READS_OF_STATE || class == READS_OF_STATE_OR_SUM;
        classes[version->number] = (unsigned char)class;
        if (is_state && version->op >= 0 && version->position >= state_before)
            state_before = version->position + 1;
    }
    reads_find(graph, finder->to->parts, classes, state_before, &finder->to->reads);
    noise_note(graph, finder->noise, finder->to);
}

/* ---- all of it ---- */

static void
add_range(struct finder *finder, const struct place *place)
{
    bool is_noisy = ANY_LEFT(version, finder, place, finder->noise[version->number] != 0);
    bool is_typed = place->role == PLAY_CHANGES || place->role == PLAY_PER_RANK || (is_noisy && is_float(place));
    uint32_t written_before = 0;
    FOR_EACH_LEFT(version, finder, place)
        written_before = version->position + 1 > written_before ? version->position + 1 : written_before;
    turns_add_range(finder->to, &(struct turns_range){.role = place->role,
                                                      .type = is_typed ? place->type : SCOUT_UNKNOWN,
                                                      .is_overwritten = place->is_overwritten,
                                                      .is_in_place = place->is_in_place,
                                                      .may_be_sum = place->may_be_sum,
                                                      .may_decide = place->may_decide,
                                                      .width = place->width,
                                                      .written_before = written_before,
                                                      .alloc = place->alloc,
                                                      .lo = place->lo,
                                                      .hi = place->hi});
}

/* After the last write of what each rank changes a step is complete. What follows it, as a prediction by the new
 * weights, is of the same step. */
static void
find_border(struct finder *finder)
{
    FOR_EACH_LEFT(version, finder, NULL) {
        enum play_role role = place_of(finder, version)->role;
        bool is_changed = role == PLAY_CHANGES || role == PLAY_SUM || role == PLAY_LAST || role == PLAY_PER_RANK;
        if (is_changed && version->position >= finder->to->border)
            finder->to->border = version->position + 1;
    }
}

/* Operations that write what ranks average, and nothing else: a step without them leaves no memory of its own as
 * another step left it. */
static void
find_choices(struct finder *finder)
{
    const struct graph *graph = finder->graph;
    OWNED bool *others = xcalloc(graph->period + 1, sizeof(*others)), *any = xcalloc(graph->period + 1, sizeof(*any));
    FOR_EACH_VERSION(version, graph) {
        if (version->op < 0)
            continue;
        uint32_t at = version->position;
        bool is_state = version->memory != HOST_MEMORY && place_of(finder, version)->role == PLAY_CHANGES;
        any[at] = any[at] || is_state;
        others[at] = others[at] || !is_state;
    }
    for (uint32_t at = 0; at < finder->graph->period; ++at) {
        if (finder->to->parts[at] == PLAY_BY_TURN && any[at] && !others[at])
            finder->to->parts[at] = PLAY_BY_CHOICE;
    }
}

static bool
find_all(struct finder *finder)
{
    bool ok = true;
    make_places(finder);
    look_at_places(finder);
    for (uint32_t at = 0; at < finder->graph->period && ok; ++at)
        ok = judge_operation(finder, at);
    ok = ok && find_types(finder) && find_state(finder);
    FOR_EACH_MUTABLE(place, finder->places, finder->place_count)
        ok = ok && judge_place(finder, place);
    widen_state(finder);
    FOR_EACH_MUTABLE(place, finder->places, finder->place_count)
        widen_to_zeros(finder, place);
    ok = ok && judge_host(finder) && judge_parts(finder);
    FOR_EACH_UNTIL(place, finder->places, finder->place_count, !ok) {
        if (place->role != 0 && place->lo < place->hi)
            add_range(finder, place);
    }
    find_reads(finder);
    if (ok)
        find_choices(finder);
    find_border(finder);
    return ok;
}

/* Where a step begins that brings data in several places, as for a prediction after its update: where the program's
 * first one does. What follows the last update is of its step, then, and not the beginning of another one. */
static uint32_t
find_first(const struct scout_log *log, const struct scout_finding *finding)
{
    const struct scout_op *border = &log->ops[finding->first];
    for (uint32_t i = 0; i < finding->first; ++i)
        for (uint32_t k = 0; k < finding->period; ++k) {
            const struct scout_op *op = border + k;
            bool fits = finding->first + k + 2 * finding->period <= finding->end;
            if (op->name == log->ops[i].name && op->site == log->ops[i].site)
                return fits && scout_brings_data(op) && scout_brings_data(border) ? finding->first + k : finding->first;
        }
    return finding->first;
}

/* Where the program's loop begins, if its first batch is as the others: the first operation from which on each is as
 * the one a period later. Where no copy of data shows where a step begins, the program's own order does. What is
 * cleared behind an update is cleared for the next step. */
static uint32_t
find_loop(const struct scout_log *log, const struct scout_finding *finding)
{
    uint32_t alike = finding->first, period = finding->period;
    while (alike > 0 && log->ops[alike - 1].name == log->ops[alike - 1 + period].name &&
           log->ops[alike - 1].site == log->ops[alike - 1 + period].site)
        --alike;
    uint32_t behind = (finding->first - alike) % period, first = finding->first - behind;
    if (first < finding->begin)
        first += period;
    while (first > finding->begin && log->ops[first - 1].kind == SCOUT_FILL)
        --first;
    return first;
}

static void
find_from(const struct scout_log *log, const struct scout_finding *finding, const char *per_rank, struct turns *turns)
{
    struct scout_log lent;
    struct graph graph;
    *turns = (struct turns){
        .by = PLAY_BY_STATE, .parts = xcalloc(finding->period + 1, sizeof(*turns->parts)), .first = finding->first};
    borrow_make(log, finding->begin, finding->end, finding->period, READING_OLD, &lent);
    graph_build(&lent, finding->first, finding->period, (finding->end - finding->first) / finding->period, &graph);
    struct finder finder = {.graph = &graph,
                            .finding = finding,
                            .to = turns,
                            .per_rank = per_rank,
                            .noise = noise_find(&graph, NULL, NULL)};
    (void)find_all(&finder);
    graph_free(&graph);
    borrow_free(&lent);
    free(finder.places);
    free(finder.first_place);
    free(finder.noise);
}

void
by_state_find(const struct scout_log *log, const struct scout_finding *finding, const char *per_rank,
              struct turns *turns)
{
    struct scout_finding turned = *finding;
    if (finding->period == 0) {
        *turns = (struct turns){.by = PLAY_BY_STATE};
        (void)turns_refuse(turns, "%s", finding->reason);
        return;
    }
    uint32_t firsts[] = {find_first(log, finding), finding->first, find_loop(log, finding)};
    bool has_copies = ANY_NUMBER(i, finding->first, finding->first + finding->period, scout_brings_data(&log->ops[i]));
    if (!has_copies)
        firsts[0] = firsts[2];
    *turns = (struct turns){.by = PLAY_BY_STATE};
    for (uint32_t i = 0; i < 3; ++i) {
        bool is_tried = ANY_NUMBER(before, 0, i, firsts[before] == firsts[i]);
        if (is_tried || firsts[i] + 2 * finding->period > finding->end)
            continue;
        turns_free(turns);
        turned.first = firsts[i];
        find_from(log, &turned, per_rank, turns);
        if (turns->reason == NULL)
            return;
    }
}
