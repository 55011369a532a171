/* by_state.c - see turns.h and state_finder.h. */
#include "tools/scout/command/analysis/state_finder.h"

#include "tools/common/owned.h"

#include <stdio.h>

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
        version->needed = version->needed || version->from_host || state_place_of(finder, version)->role == PLAY_STREAM;
        FOR_EACH_IN_UNTIL(edge, version, !version->needed)
            edge->from->needed = true;
    }
}

/* Decides for each operation of the period whether the rank in turn makes it, or all ranks. */
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
        const struct memory_part *place = state_place_of(finder, version);
        if (version->position == position && place->role == PLAY_STREAM)
            snprintf(text, 80, ": %s", state_place_name(place, name));
    }
    return text;
}

/* False, with the reason: an operation that all ranks make in each period writes what is averaged or added up, or
 * what would not have the same bits on all ranks. */
static bool
judge_parts(struct finder *finder)
{
    find_parts(finder);
    char name[SCOUT_NAME_BYTES], text[64], common[80];
    FOR_EACH_LEFT(version, finder, NULL) {
        const struct memory_part *place = state_place_of(finder, version);
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
                turns_op_name(finder->graph, version->position, name), state_place_name(place, text),
                name_common(finder, version->position, common));
    }
    return true;
}

/* ---- what cannot be followed ---- */

/* False, with the reason: not all is known of what the operation reads and writes. */
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

/* Whether what goes through the host may be right. What is computed from state may go there, and as many bytes come
 * back that are others in each period: a proof has to show what they are. False, with the reason. */
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
                                          (back->position < sent->position || state_place_of(finder, back)->stays);
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

/* What an operation that brings this memory to the host brings: enum reads_class. */
static enum reads_class
reads_class_of(const struct memory_part *place)
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

/* Finds what the host reads, by the class of each version; and the operations with noise. */
static void
find_reads(const struct finder *finder)
{
    const struct graph *graph = finder->graph;
    uint32_t state_before = 0;
    OWNED unsigned char *classes = xcalloc(graph->version_count + 1, sizeof(*classes));
    FOR_EACH_VERSION(version, graph) {
        if (version->memory == HOST_MEMORY)
            continue;
        enum reads_class class = reads_class_of(state_place_of(finder, version));
        bool is_state = class == READS_OF_STATE || class == READS_OF_STATE_OR_SUM;
        classes[version->number] = (unsigned char)class;
        if (is_state && version->op >= 0 && version->position >= state_before)
            state_before = version->position + 1;
    }
    reads_find(graph, finder->to->parts, classes, state_before, &finder->to->reads);
    noise_note(graph, finder->noise, finder->to);
}

/* ---- all of it ---- */

/* Adds the memory to the plan, with its class and type. */
static void
add_range(struct finder *finder, const struct memory_part *place)
{
    bool is_noisy = ANY_LEFT(version, finder, place, finder->noise[version->number] != 0);
    bool is_typed =
        place->role == PLAY_CHANGES || place->role == PLAY_PER_RANK || (is_noisy && state_place_is_float(place));
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
        enum play_role role = state_place_of(finder, version)->role;
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
        bool is_state = version->memory != HOST_MEMORY && state_place_of(finder, version)->role == PLAY_CHANGES;
        any[at] = any[at] || is_state;
        others[at] = others[at] || !is_state;
    }
    for (uint32_t at = 0; at < finder->graph->period; ++at) {
        if (finder->to->parts[at] == PLAY_BY_TURN && any[at] && !others[at])
            finder->to->parts[at] = PLAY_BY_CHOICE;
    }
}

/* All of a plan by state, in order: memory, its classes, who makes what, what is read. False: the reason is in
 * finder->to. */
static bool
find_all(struct finder *finder)
{
    bool ok = true;
    state_places_make(finder);
    for (uint32_t at = 0; at < finder->graph->period && ok; ++at)
        ok = judge_operation(finder, at);
    ok = ok && state_places_find_types(finder) && state_places_find_state(finder);
    ok = ok && state_classes_judge(finder);
    state_classes_widen(finder);
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

/* Fills *turns by state from the finding's period and all later ones. */
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
