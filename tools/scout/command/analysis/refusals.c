/*
 * refusals.c - the proof that no data passes the gradients by, and what must be refused.
 */
#include "tools/scout/command/analysis/rules.h"

#include "tools/common/owned.h"

enum roles_verdict
refusals_prove_cut(struct roles *roles, struct scout_finding *finding)
{
    uint32_t count = roles->graph->version_count;
    OWNED bool *sources = xcalloc(count, sizeof(*sources));
    for (uint32_t i = 0; i < count; ++i)
        sources[i] = roles->source[i] &&
                     !(roles->constant[i] && /* it only scales or masks the update itself */
                       ALL_OUT(out, roles, i,
                               !version_in_period(roles, out->to) || !roles->leads[out->to] ||
                                   (roles->chain[out->to] && roles->inner[out->to]))) &&
                     !(roles->has_large && source_is_small(version_of(roles, i)));
    sources_spread(roles, roles->past, sources, roles->gradient);
    for (uint32_t i = 0; i < count; ++i) {
        if (!roles->parameter[i] || !roles->past[i])
            continue;
        char name[SCOUT_NAME_BYTES], place[64];
        return note_refuse(finding, ROLES_REFUSED, "data reaches %s without passing through a gradient, by %s",
                           version_place(roles, i, place), version_op_name(roles, i, name));
    }
    return ROLES_FOUND;
}

/* Whether the operation of a version keeps state besides parameters. */
static bool
keeps_state(const struct roles *roles, uint32_t number)
{
    return ANY_NUMBER(i, 0, roles->graph->version_count,
                      roles->persistent[i] && roles->tainted[i] && !roles->parameter[i] &&
                          version_of(roles, i)->op == version_of(roles, number)->op);
}

enum roles_verdict
refusals_judge_fused(const struct roles *roles, struct scout_finding *finding)
{
    FOR_EACH(tensor, finding->tensors, finding->tensor_count) {
        char place[64];
        if (tensor->cut)
            return note_refuse(finding, ROLES_REFUSED,
                               "scout cannot tell where parameter %s ends: updates below half a unit in the last place "
                               "of %s change nothing; scout with a larger learning rate",
                               scout_tensor_place(tensor, place), scout_type_name(tensor->type));
    }
    for (uint32_t i = 0; i < roles->graph->version_count; ++i) {
        char place[64], name[SCOUT_NAME_BYTES];
        if (!roles->parameter[i])
            continue;
        const struct graph_version *version = version_of(roles, i);
        const struct scout_tensor own = {.alloc = version_alloc(roles, i), .lo = version->lo, .hi = version->hi};
        if (scout_is_in_gradient(finding, &own))
            return note_refuse(finding, ROLES_REFUSED,
                               roles->gradient[i]
                                   ? "%s, to which %s adds after its use as a gradient, is never overwritten: scout "
                                     "cannot tell where a step begins"
                                   : "parameter %s, which %s updates, and its gradient are interleaved in memory",
                               version_place(roles, i, place), version_op_name(roles, i, name));
        if (!roles->gradient[i])
            continue;
        if (keeps_state(roles, i))
            return note_refuse(finding, ROLES_REFUSED,
                               "parameter %s is updated by %s, and scout finds no gradient of it: the update may "
                               "compute it, or reach it by the pointer to the parameter",
                               version_place(roles, i, place), version_op_name(roles, i, name));
    }
    /* Else what ends the ways is data, of which a batch is as large as a parameter. */
    if (!ANY_NUMBER(i, 0, roles->graph->version_count,
                    roles->persistent[i] && roles->tainted[i] && refusals_leads_to_gradients(roles, i)))
        return note_refuse(finding, ROLES_REFUSED,
                           "parameters are computed from data element by element: scout cannot tell which memory holds "
                           "the gradients");
    return ROLES_FOUND;
}

bool
refusals_leads_on(const struct roles *roles, uint32_t number)
{
    return ANY_NUMBER(i, 0, roles->graph->version_count,
                      version_of(roles, i)->op == VERSION_BEFORE &&
                          version_overlaps(version_of(roles, i), version_of(roles, number)) &&
                          ANY_OUT(out, roles, i, version_in_period(roles, out->to) && roles->leads[out->to]));
}

bool
refusals_leads_to_gradients(const struct roles *roles, uint32_t number)
{
    OWNED bool *reached = sources_of(roles, number, true);
    return ANY_NUMBER(i, 0, roles->graph->version_count, reached[i] && roles->gradient[i]);
}

/* A copy to the host that depends on something from the host of as many bytes, but for a sum beside gradients: these.
 * 0: there is none. The predictions that are as many as labels do not depend on the labels. */
static uint64_t
sent_and_returned(const struct roles *roles)
{
    uint32_t count = roles->graph->version_count;
    OWNED bool *leads = xcalloc(count + 1, sizeof(*leads));
    for (uint32_t i = 0; i < count; ++i) {
        const struct graph_version *sent = version_of(roles, i);
        if (sent->memory != HOST_MEMORY || sent->bytes <= ELEMENT_BYTES)
            continue;
        memset(leads, 0, count * sizeof(*leads));
        leads[i] = true;
        for (uint32_t k = i + 1; k-- > 0;) {
            FOR_EACH_IN(edge, roles, k)
                leads[edge->from] = leads[edge->from] || leads[k];
            uint64_t least = sent->bytes > DATA_BYTES ? sent->bytes - ELEMENT_BYTES : sent->bytes;
            if (leads[k] && version_of(roles, k)->from_host &&
                version_of(roles, k)->bytes - least <= sent->bytes - least &&
                version_of(roles, k)->type != SCOUT_INTEGER && !roles->constant[k])
                return sent->bytes;
        }
    }
    return 0;
}

/* The largest memory that the host writes, and shares with the device; SCOUT_NONE. */
static uint32_t
written_by_host(const struct scout_log *log)
{
    uint32_t found = SCOUT_NONE;
    FOR_EACH(op, log->ops, log->op_count)
        if (op->kind == SCOUT_COPY && op->bytes == 0 && op->to.alloc != SCOUT_NONE &&
            (found == SCOUT_NONE || log->allocs[op->to.alloc].bytes > log->allocs[found].bytes))
            found = op->to.alloc;
    return found;
}

void
refusals_note_host(const struct roles *roles, struct scout_finding *finding)
{
    uint64_t bytes = sent_and_returned(roles);
    if (bytes > 0)
        note_add(finding,
                 "%" PRIu64 " bytes computed from data go to the host in each step, and as many come back: if the host "
                 "updates parameters, scout has not seen them",
                 bytes);
    uint32_t shared = written_by_host(roles->graph->log);
    if (shared != SCOUT_NONE)
        note_add(finding,
                 "the host writes memory that it shares with the device, as a%" PRIu32 ": if it updates parameters "
                 "or gradients, these are not in the table",
                 shared);
}

enum roles_verdict
refusals_judge_loops(const struct roles *roles, struct scout_finding *finding)
{
    uint32_t carried = UINT32_MAX, whole = UINT32_MAX;
    for (uint32_t i = 0; i < roles->graph->version_count; ++i) {
        if (roles->parameter[i])
            return ROLES_FOUND;
        if (roles->carried[i])
            carried = i;
        if (whole == UINT32_MAX && roles->persistent[i] && roles->tainted[i] && version_of(roles, i)->op >= 0 &&
            version_own_edge(roles, i, false) != NULL) /* of data and of all of its own old value in one operation */
            whole = i;
    }
    char place[64], name[SCOUT_NAME_BYTES];
    uint64_t bytes = sent_and_returned(roles);
    if (bytes > 0 && carried == UINT32_MAX)
        return note_refuse(
            finding, ROLES_NO_LOOP,
            "scout finds nothing that stays on the device between steps: the host may update it (%" PRIu64
            " bytes are copied to the host, and as many come back)",
            bytes);
    if (whole != UINT32_MAX && carried == UINT32_MAX)
        return note_refuse(finding, ROLES_NO_LOOP,
                           "%s is updated by %s, which also computes the inputs of its gradient: separate "
                           "gradient and update, or average its change",
                           version_place(roles, whole, place), version_op_name(roles, whole, name));
    if (carried != UINT32_MAX)
        return note_refuse(
            finding, ROLES_NO_LOOP,
            "%s, written by %s, feeds back into the next step, but no element of it is computed from its own "
            "old value: this is not training by gradients",
            version_place(roles, carried, place), version_op_name(roles, carried, name));
    uint32_t shared = written_by_host(roles->graph->log);
    if (shared != SCOUT_NONE)
        return note_refuse(
            finding, ROLES_NO_LOOP,
            "scout finds nothing that stays on the device between steps: the host may update it (it writes a%" PRIu32
            ")",
            shared);
    return note_refuse(finding, ROLES_NO_LOOP,
                       "no data changes memory that the next step reads: this is not training, its values no longer "
                       "change, or kernels make the data");
}

enum roles_verdict
refusals_judge_unsure(const struct roles *roles, struct scout_finding *finding)
{
    for (uint32_t i = 0; i < roles->graph->version_count; ++i) {
        if (!version_of(roles, i)->unsure || !version_in_period(roles, i) || !roles->leads[i])
            continue;
        const struct scout_op *op = graph_op(roles->graph, version_of(roles, i));
        const struct scout_effect *effect = op->effect;
        char text[SCOUT_NAME_BYTES];
        const char *name = version_op_name(roles, i, text);
        bool is_repeated = effect == NULL || effect->verdict != SCOUT_EXCLUDED;
        const char *why = effect == NULL ? "it was not tried" : scout_log_name(roles->graph->log, effect->why);
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
refusals_note_unsure(const struct roles *roles, struct scout_finding *finding)
{
    uint32_t count = roles->graph->version_count;
    OWNED uint32_t *unsure = xcalloc(count, sizeof(*unsure)); /* 1 + the version that it is computed from */
    char name[SCOUT_NAME_BYTES], place[64];
    for (uint32_t i = 0; i < count; ++i) {
        FOR_EACH_IN(edge, roles, i)
            unsure[i] = unsure[i] == 0 && version_in_period(roles, i) ? unsure[edge->from] : unsure[i];
        if (version_of(roles, i)->unsure && version_in_period(roles, i))
            unsure[i] = 1 + i;
        if (roles->persistent[i] && unsure[i] != 0)
            note_add(finding,
                     "scout does not know all effects of %s: the role of %s, which is computed from its result, may be "
                     "wrong",
                     version_op_name(roles, unsure[i] - 1, name), version_place(roles, i, place));
    }
}
