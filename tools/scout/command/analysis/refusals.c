/*
 * refusals.c - the proof that no data passes the gradients by, and what must be refused.
 */
#include "tools/scout/command/analysis/rules.h"

#include "tools/common/owned.h"

/* Whether a version is data that may come to parameters past the gradients: no constant that only scales or masks the
 * update itself. */
static bool
is_data(const struct graph *graph, const struct graph_version *version)
{
    return version->source &&
           !(version->constant && ALL_OUT(out, version, !edge_leads(out) || (out->to->chain && out->to->inner))) &&
           !(graph->has_large && source_is_small(version));
}

enum roles_verdict
refusals_prove_cut(struct graph *graph, struct scout_finding *finding)
{
    char name[SCOUT_NAME_BYTES], place[64];
    FOR_EACH_VERSION(version, graph) {
        bool here = version_in_period(version);
        version->past = (is_data(graph, version) || (here && ANY_IN(edge, version, edge->from->past))) &&
                        !(here && version->gradient);
    }
    const struct graph_version *reached =
        FIND(version, graph->versions, graph->version_count, version->parameter && version->past);
    return reached == NULL
               ? ROLES_FOUND
               : note_refuse(finding, ROLES_REFUSED, "data reaches %s without passing through a gradient, by %s",
                             version_place(graph, reached, place), version_op_name(graph, reached, name));
}

/* Whether the operation of a version keeps state besides parameters. */
static bool
keeps_state(const struct graph *graph, const struct graph_version *version)
{
    return ANY_VERSION(it, graph, it->persistent && it->tainted && !it->parameter && it->op == version->op);
}

enum roles_verdict
refusals_judge_fused(const struct graph *graph, struct scout_finding *finding)
{
    char place[64], name[SCOUT_NAME_BYTES];
    FOR_EACH(tensor, finding->tensors, finding->tensor_count) {
        if (tensor->cut)
            return note_refuse(finding, ROLES_REFUSED,
                               "scout cannot tell where parameter %s ends: updates below half a unit in the last place "
                               "of %s change nothing; scout with a larger learning rate",
                               scout_tensor_place(tensor, place), scout_type_name(tensor->type));
    }
    FOR_EACH_VERSION(version, graph) {
        if (!version->parameter)
            continue;
        const struct scout_tensor own = {.alloc = version_alloc(graph, version), .lo = version->lo, .hi = version->hi};
        if (scout_is_in_gradient(finding, &own))
            return note_refuse(finding, ROLES_REFUSED,
                               version->gradient
                                   ? "%s, to which %s adds after its use as a gradient, is never overwritten: scout "
                                     "cannot tell where a step begins"
                                   : "parameter %s, which %s updates, and its gradient are interleaved in memory",
                               version_place(graph, version, place), version_op_name(graph, version, name));
        if (version->gradient && keeps_state(graph, version))
            return note_refuse(finding, ROLES_REFUSED,
                               "parameter %s is updated by %s, and scout finds no gradient of it: the update may "
                               "compute it, or reach it by the pointer to the parameter",
                               version_place(graph, version, place), version_op_name(graph, version, name));
    }
    /* Else what ends the ways is data, of which a batch is as large as a parameter. */
    if (!ANY_VERSION(it, graph, it->persistent && it->tainted && refusals_leads_to_gradients(graph, it)))
        return note_refuse(finding, ROLES_REFUSED,
                           "parameters are computed from data element by element: scout cannot tell which memory holds "
                           "the gradients");
    return ROLES_FOUND;
}

bool
refusals_leads_on(const struct graph *graph, const struct graph_version *version)
{
    return ANY_VERSION(it, graph,
                       it->op == VERSION_BEFORE && version_overlaps(it, version) && ANY_OUT(out, it, edge_leads(out)));
}

bool
refusals_leads_to_gradients(const struct graph *graph, const struct graph_version *version)
{
    OWNED bool *reached = sources_of(graph, version, true);
    return ANY_VERSION(it, graph, reached[it->number] && it->gradient);
}

/* A copy to the host that depends on something from the host of as many bytes, but for a sum beside gradients: these.
 * 0: there is none. The predictions that are as many as labels do not depend on the labels. */
static uint64_t
sent_and_returned(const struct graph *graph)
{
    OWNED bool *leads = xcalloc(graph->version_count + 1, sizeof(*leads));
    FOR_EACH_VERSION(sent, graph) {
        if (sent->memory != HOST_MEMORY || sent->bytes <= ELEMENT_BYTES)
            continue;
        uint64_t least = sent->bytes > DATA_BYTES ? sent->bytes - ELEMENT_BYTES : sent->bytes;
        memset(leads, 0, graph->version_count * sizeof(*leads));
        leads[sent->number] = true;
        for (uint32_t k = sent->number + 1; k-- > 0;) {
            const struct graph_version *back = &graph->versions[k];
            FOR_EACH_IN_UNTIL(edge, back, !leads[k])
                leads[edge->from->number] = true;
            if (leads[k] && back->from_host && back->bytes - least <= sent->bytes - least &&
                back->type != SCOUT_INTEGER && !back->constant)
                return sent->bytes;
        }
    }
    return 0;
}

/* Whether launches read memory as numbers with a fraction, and none writes it: as parameters are that the host
 * updates. */
static bool
is_only_read(const struct scout_log *log, uint32_t alloc)
{
    bool is_read = false;
    FOR_EACH(op, log->ops, log->op_count) {
        const struct scout_effect *effect = op->kind == SCOUT_LAUNCH ? op->effect : NULL;
        if (effect == NULL)
            continue;
        if (ANY(written, effect->written, effect->written_count, written->alloc == alloc))
            return false;
        is_read = is_read || ANY(segment, effect->segments, effect->segment_count,
                                 segment->alloc == alloc && segment->type != SCOUT_INTEGER);
    }
    return is_read;
}

/* Of the memory that the host writes, and shares with the device, what launches only read; of that, or of all, the
 * largest; SCOUT_NONE. */
static uint32_t
written_by_host(const struct scout_log *log)
{
    uint32_t found = SCOUT_NONE;
    bool is_read = false;
    FOR_EACH(op, log->ops, log->op_count) {
        if (op->kind != SCOUT_COPY || op->bytes > 0 || op->to.alloc == SCOUT_NONE)
            continue;
        const bool reads = is_only_read(log, op->to.alloc);
        const bool is_larger = found == SCOUT_NONE || log->allocs[op->to.alloc].bytes > log->allocs[found].bytes;
        if (reads == is_read ? !is_larger : is_read)
            continue;
        found = op->to.alloc;
        is_read = reads;
    }
    return found;
}

void
refusals_note_host(const struct graph *graph, struct scout_finding *finding)
{
    uint64_t bytes = sent_and_returned(graph);
    if (bytes > 0)
        note_add(finding,
                 "%" PRIu64 " bytes computed from data go to the host in each step, and as many come back: if the host "
                 "updates parameters, scout has not seen them",
                 bytes);
    uint32_t shared = written_by_host(graph->log);
    if (shared != SCOUT_NONE)
        note_add(finding,
                 "the host writes memory that it shares with the device, as a%" PRIu32 ": if it updates parameters "
                 "or gradients, these are not in the table",
                 shared);
}

/* Where no memory is a parameter: what comes nearest to one. */
struct loops {
    bool any_parameter;
    const struct graph_version *carried; /* the last one with the mark `carried`; NULL: none */
    const struct graph_version *whole;   /* the first one that one operation makes of data and of all of its own old
                                            value; NULL: none */
};

/* Looks through all versions of the graph for parameters, and for what comes nearest to one. */
static struct loops
find_loops(const struct graph *graph)
{
    struct loops loops = {.any_parameter = false};
    FOR_EACH_VERSION(version, graph) {
        bool is_trained = version->persistent && version->tainted && version->op >= 0;
        loops.any_parameter = loops.any_parameter || version->parameter;
        if (version->carried)
            loops.carried = version;
        if (loops.whole == NULL && is_trained && version_own_edge(version, false) != NULL)
            loops.whole = version;
    }
    return loops;
}

/* The refusal of a period in which nothing stays on the device that data changes. */
static enum roles_verdict
refuse_without_loop(const struct graph *graph, struct scout_finding *finding)
{
    uint32_t shared = written_by_host(graph->log);
    if (shared != SCOUT_NONE)
        return note_refuse(
            finding, ROLES_NO_LOOP,
            "scout finds nothing that stays on the device between steps: the host may update it (it writes a%" PRIu32
            "): annotate what it updates it by, and call DDP_STEP before that",
            shared);
    return note_refuse(finding, ROLES_NO_LOOP,
                       "no data changes memory that the next step reads: this is not training, its values no longer "
                       "change, or kernels make the data");
}

enum roles_verdict
refusals_judge_loops(const struct graph *graph, struct scout_finding *finding)
{
    const struct loops loops = find_loops(graph);
    const struct graph_version *carried = loops.carried, *whole = loops.whole;
    char place[64], name[SCOUT_NAME_BYTES];
    if (loops.any_parameter)
        return ROLES_FOUND;
    if (carried != NULL)
        return note_refuse(
            finding, ROLES_NO_LOOP,
            "%s, written by %s, feeds back into the next step, but no element of it is seen to depend on its "
            "own old value alone: if it is trained, annotate it by hand",
            version_place(graph, carried, place), version_op_name(graph, carried, name));
    uint64_t bytes = sent_and_returned(graph);
    if (bytes > 0)
        return note_refuse(
            finding, ROLES_NO_LOOP,
            "scout finds nothing that stays on the device between steps: the host may update it (%" PRIu64
            " bytes are copied to the host, and as many come back)",
            bytes);
    if (whole == NULL)
        return refuse_without_loop(graph, finding);
    if (finding->in_place.period == 0)
        finding->in_place = (struct scout_window){graph->first, graph->period, finding->begin, finding->end};
    return note_refuse(finding, ROLES_NO_LOOP,
                       "%s is updated by %s, which also computes the inputs of its gradient: separate "
                       "gradient and update, or average its change",
                       version_place(graph, whole, place), version_op_name(graph, whole, name));
}

enum roles_verdict
refusals_judge_unsure(const struct graph *graph, struct scout_finding *finding)
{
    FOR_EACH_VERSION(version, graph) {
        if (!version->unsure || !version_in_period(version) || !version->leads)
            continue;
        const struct scout_effect *effect = graph_op(graph, version)->effect;
        char text[SCOUT_NAME_BYTES];
        const char *name = version_op_name(graph, version, text);
        bool is_repeated = effect == NULL || effect->verdict != SCOUT_EXCLUDED;
        const char *why = effect == NULL ? "it was not tried" : scout_log_name(graph->log, effect->why);
        if (effect != NULL && effect->verdict == SCOUT_DIFFERS)
            return note_refuse(finding, ROLES_REFUSED, "the same launch twice gives different results: %s", name);
        if (effect == NULL || !is_repeated || effect->why != SCOUT_NONE)
            return note_refuse(finding, ROLES_REFUSED, "%s cannot be %s: %s", name,
                               is_repeated ? "followed" : "repeated", why);
        return note_refuse(finding, ROLES_REFUSED, "%s %s memory that is not among its arguments", name,
                           effect->hidden_read != 0 ? "reads" : "writes");
    }
    return ROLES_FOUND;
}

void
refusals_note_unsure(const struct graph *graph, struct scout_finding *finding)
{
    OWNED const struct graph_version **from =
        xcalloc(graph->version_count, sizeof(*from)); /* which it is computed from */
    char name[SCOUT_NAME_BYTES], place[64];
    FOR_EACH_VERSION(version, graph) {
        const struct graph_version **unsure = &from[version->number];
        FOR_EACH_IN_UNTIL(edge, version, *unsure != NULL || !version_in_period(version))
            *unsure = from[edge->from->number];
        if (version->unsure && version_in_period(version))
            *unsure = version;
        if (version->persistent && *unsure != NULL)
            note_add(finding,
                     "scout does not know all effects of %s: the role of %s, which is computed from its result, may be "
                     "wrong",
                     version_op_name(graph, *unsure, name), version_place(graph, version, place));
    }
}
