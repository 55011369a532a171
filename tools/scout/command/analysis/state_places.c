/* state_places.c - see state_finder.h. */
#include "tools/scout/command/analysis/state_finder.h"

#include "tools/common/owned.h"

const char *
state_place_name(const struct memory_part *place, char text[64])
{
    return scout_tensor_place(&(struct scout_tensor){.alloc = place->alloc, .lo = place->lo, .hi = place->hi}, text);
}

/* The first place of the segment in which a version lies. */
static struct memory_part *
segment_of(const struct finder *finder, const struct graph_version *version)
{
    const struct graph_memory *memory = &finder->graph->memories[version->memory];
    uint32_t cut = COUNT_SORTED(place, memory->cuts, memory->cut_count, *place <= version->lo) - 1;
    return &finder->places[finder->first_place[version->memory] + cut * PARTS];
}

struct memory_part *
state_place_of(const struct finder *finder, const struct graph_version *version)
{
    struct memory_part *segment = segment_of(finder, version);
    bool is_unwritten = version->op < 0 && !(segment[WRITTEN].lo <= version->lo && version->hi <= segment[WRITTEN].hi);
    if (!is_unwritten)
        return &segment[WRITTEN];
    return &segment[segment[BEHIND].lo < segment[BEHIND].hi ? BEHIND : IN_FRONT];
}

bool
state_place_is_left(const struct finder *finder, const struct graph_version *version, const struct memory_part *place)
{
    return version->memory != HOST_MEMORY && version->op >= 0 &&
           (place == NULL || state_place_of(finder, version) == place);
}

/* ---- what stays ---- */

/* Makes three parts of each segment of each memory: what operations write, and what lies before and behind it. */
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
                    (struct memory_part){.memory = NUMBER_OF(memory),
                                         .alloc = memory->alloc,
                                         .lo = part == IN_FRONT ? memory->cuts[i] : memory->cuts[i + 1],
                                         .hi = memory->cuts[i + 1]};
    }
    FOR_EACH_LEFT(version, finder, NULL) {
        struct memory_part *segment = segment_of(finder, version);
        struct memory_part *written = &segment[WRITTEN];
        written->lo = !written->is_written || version->lo < written->lo ? version->lo : written->lo;
        written->hi = !written->is_written || version->hi > written->hi ? version->hi : written->hi;
        written->is_written = true;
        segment[IN_FRONT].hi = written->lo;
        segment[BEHIND].lo = written->hi;
    }
}

/* Marks each part by what becomes of its versions: read, staying to the next period, shown to the host. */
static void
look_at_places(struct finder *finder)
{
    const struct graph *graph = finder->graph;
    FOR_EACH_VERSION(version, graph) {
        if (version->memory == HOST_MEMORY)
            continue;
        struct memory_part *place = state_place_of(finder, version);
        bool is_scratch = scout_is_scratch(finder->finding, place->alloc, version->lo, version->hi);
        FOR_EACH(out, version->out, version->out_count) {
            const struct graph_version *to = (*out)->to;
            bool is_later =
                version->op >= 0 ? to->period > version->period : version->op == VERSION_BEFORE && place->is_written;
            bool is_host = to->memory == HOST_MEMORY;
            place->is_read = place->is_read || !is_host;
            place->stays = place->stays || (is_later && !is_host && !is_scratch);
            place->host_later = place->host_later || (is_later && is_host);
            place->is_shown = place->is_shown || is_host;
            place->leaves = place->leaves || (!is_host && state_place_of(finder, to) != place);
        }
    }
}

void
state_places_make(struct finder *finder)
{
    make_places(finder);
    look_at_places(finder);
}

/* ---- types ---- */

/* The last operation of the first period that writes a place, by number in the log; SCOUT_NONE: none does. */
static uint32_t
writer_of(const struct finder *finder, const struct memory_part *place, uint32_t *type)
{
    uint32_t writer = SCOUT_NONE;
    FOR_EACH_LEFT(version, finder, place) {
        *type = *type == SCOUT_UNKNOWN ? version->type : *type;
        if (version->period == 0)
            writer = finder->graph->first + version->position;
    }
    return writer;
}

bool
state_places_find_types(struct finder *finder)
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

bool
state_place_is_float(const struct memory_part *place)
{
    return place->type > SCOUT_UNKNOWN && place->type < SCOUT_INTEGER;
}

/* ---- state ---- */

/* Whether the version is data: what comes from the host and differs from period to period, or larger memory that is
 * only read. */
static bool
is_data(const struct finder *finder, const struct graph_version *version)
{
    const struct scout_log *log = finder->graph->log;
    if (version->memory == HOST_MEMORY)
        return false;
    if (version->op < 0)
        return !state_place_of(finder, version)->is_written && version->hi - version->lo > SCALAR_BYTES;
    uint32_t number = finder->graph->first + (uint32_t)version->op, other = number + finder->graph->period;
    if (other >= finder->graph->first + finder->graph->count)
        other = number - finder->graph->period;
    return version->from_host && (version->bytes > DATA_BYTES || log->ops[number].content != log->ops[other].content);
}

/* Whether what one period leaves in a place leads to what the next one does, other than element by element within the
 * place. */
static bool
feeds_back(const struct finder *finder, const struct memory_part *place)
{
    enum { NOT_REACHED, WITHIN, BY_OTHERS };
    const struct graph *graph = finder->graph;
    OWNED uint8_t *reached = xcalloc(graph->version_count + 1, sizeof(*reached));
    FOR_EACH_VERSION(version, graph) {
        uint8_t *here = &reached[version->number];
        if (version->period < 0 || version->period > 1 || version->memory == HOST_MEMORY)
            continue;
        bool is_here = state_place_of(finder, version) == place;
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
        version->from_state = (version->memory != HOST_MEMORY && state_place_of(finder, version)->is_state) ||
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
may_be_state(const struct finder *finder, const struct memory_part *place)
{
    return place->is_written && place->stays && place->type != SCOUT_INTEGER &&
           ANY_LEFT(version, finder, place, version->from_data);
}

/* Whether a place is computed from its own old value, and other memory from it. The way by which that memory leads back
 * need not show: the host computes a number from it, or a kernel finds which elements change. */
static bool
may_feed_back(const struct finder *finder, const struct memory_part *place)
{
    return place->leaves &&
           ANY_LEFT(version, finder, place, ANY_IN(edge, version, version_overlaps(edge->from, version)));
}

/* Whether the host reads what is computed from a place. Overwrites the mark `from_state`. */
static bool
is_read_by_host(const struct finder *finder, const struct memory_part *of)
{
    bool is_read = false;
    FOR_EACH_VERSION(version, finder->graph) {
        version->from_state = (version->memory != HOST_MEMORY && state_place_of(finder, version) == of) ||
                              ANY_IN(edge, version, edge->from->from_state);
        is_read = is_read || (version->memory == HOST_MEMORY && version->from_state);
    }
    return is_read;
}

/* Refuses a period without state, with the reason why there is none. */
static bool
refuse_stateless(const struct finder *finder)
{
    if (ANY(place, finder->places, finder->place_count, may_be_state(finder, place) && is_read_by_host(finder, place)))
        return turns_refuse(finder->to, "the host decides the update from what it reads in each step");
    return turns_refuse(finder->to, "nothing stays on the device that is computed from itself and from data");
}

/* Marks the places that are state, for they feed back. Returns whether there are any. */
static bool
mark_state(struct finder *finder, bool (*feeds)(const struct finder *finder, const struct memory_part *place))
{
    bool any = false;
    FOR_EACH_MUTABLE(place, finder->places, finder->place_count) {
        place->is_state = may_be_state(finder, place) && feeds(finder, place);
        any = any || place->is_state;
    }
    return any;
}

bool
state_places_find_state(struct finder *finder)
{
    FOR_EACH_VERSION(version, finder->graph)
        version->from_data = is_data(finder, version) || ANY_IN(edge, version, edge->from->from_data);
    if (!mark_state(finder, feeds_back) && !mark_state(finder, may_feed_back))
        return refuse_stateless(finder);
    while (spread_state(finder))
        ;
    return true;
}
