/*
 * states.c - what stays beside parameters: which state it is.
 */
#include "tools/scout/command/analysis/rules.h"

#include "tools/common/owned.h"

/* What stays and differs between ranks is shown as harmless only if it is known to be: with other contents no parameter
 * and no gradient is another one. Whole numbers are none. */
static enum scout_role
role_of_own(const struct roles *roles, uint32_t number)
{
    bool leads = refusals_leads_to_gradients(roles, number) || refusals_leads_on(roles, number);
    bool is_safe = !leads || version_of(roles, number)->type == SCOUT_INTEGER;
    return !is_safe ? ROLE_SUSPECT : leads || roles->carried[number] ? ROLE_CARRIED : ROLE_STATISTICS;
}

/* Whether a version is computed from what was in its place before the period. */
static bool
is_from_itself(const struct roles *roles, uint32_t number)
{
    OWNED bool *reached = sources_of(roles, number, true);
    return reached[number];
}

/* Whether a version is a gradient, or another sum, that was set to zero for the next step: the same on all ranks. */
static bool
is_cleared(const struct roles *roles, const struct scout_finding *finding, uint32_t number)
{
    const struct graph_version *version = version_of(roles, number);
    const struct scout_op *op = graph_op(roles->graph, version);
    return (op != NULL && op->kind == SCOUT_FILL) ||
           ANY(tensor, finding->tensors, finding->tensor_count,
               tensor->role == ROLE_GRADIENT && tensor->alloc == version_alloc(roles, number) &&
                   tensor->lo <= version->lo && version->hi <= tensor->hi);
}

static enum scout_role
role_of_state(const struct roles *roles, uint32_t number)
{
    if (!roles->tainted[number] && version_of(roles, number)->type == SCOUT_INTEGER && !is_from_itself(roles, number))
        return ROLE_STATISTICS; /* indices, as of a pooling: other data did not change them while they were looked at */
    if (!roles->tainted[number])
        return refusals_leads_to_gradients(roles, number) || !refusals_leads_on(roles, number) ? ROLE_RANDOM
                                                                                               : ROLE_OPTIMIZER_STATE;
    if (roles->carried[number] || roles->past[number])
        return role_of_own(roles, number);
    return refusals_leads_on(roles, number) ? ROLE_OPTIMIZER_STATE : ROLE_AVERAGE;
}

/* The parameter that this state and the gradient of which it is computed belong to. */
static uint32_t
partner_of(const struct scout_finding *finding, const struct roles *roles, uint32_t number)
{
    FOR_EACH(tensor, finding->tensors, finding->tensor_count) {
        if (tensor->role == ROLE_PARAMETER && tensor->writer == gradients_log_op(roles, number) &&
            (tensor->hi - tensor->lo) * scout_type_bytes(version_of(roles, number)->type) ==
                version_of(roles, number)->bytes * scout_type_bytes(tensor->type))
            return NUMBER_OF(tensor);
    }
    return PAIR_NONE;
}

/* Whether a place stays as it is in the period, but for what is computed element by element from it. */
static bool
is_kept(const struct roles *roles, uint32_t memory, uint64_t lo)
{
    return ALL_NUMBERS(i, 0, roles->graph->version_count,
                       version_of(roles, i)->op < 0 || !version_in_period(roles, i) ||
                           version_of(roles, i)->memory != (int32_t)memory || version_of(roles, i)->lo > lo ||
                           version_of(roles, i)->hi <= lo || version_own_edge(roles, i, true) != NULL);
}

static bool
has_place(const struct scout_finding *finding, uint32_t alloc, uint64_t lo, bool per_rank)
{
    return ANY(tensor, finding->tensors, finding->tensor_count,
               tensor->alloc == alloc && tensor->lo <= lo && tensor->hi > lo &&
                   (per_rank || (tensor->role != ROLE_STATISTICS && tensor->role != ROLE_RANDOM)));
}

/* A launch of the kernel that updates a parameter gets other memory in the parameter's place, which is none: where no
 * gradient flows, as in a layer whose units are dead, it may be one. */
static void
suspect_beside(const struct roles *roles, struct scout_finding *finding, const struct scout_argument *place,
               const struct scout_op *op, uint32_t number)
{
    FOR_EACH(it, op->arguments, op->argument_count) {
        uint32_t memory = roles->graph->memory_of[it->alloc], alloc = roles->graph->memories[memory].alloc;
        if (it->slot != place->slot || it->at != place->at || has_place(finding, alloc, it->offset, false) ||
            !is_kept(roles, memory, it->offset))
            continue;
        if (!has_place(finding, alloc, it->offset, true))
            (void)gradients_add_tensor(finding, ROLE_SUSPECT, alloc, (struct scout_range){it->offset, it->end},
                                       SCOUT_UNKNOWN, PAIR_NONE, roles->graph->first + number);
        FOR_EACH_MUTABLE(tensor, finding->tensors, finding->tensor_count)
            if (tensor->alloc == alloc && tensor->lo <= it->offset && tensor->hi > it->offset) {
                tensor->role = ROLE_SUSPECT;
                tensor->updated = true;
            }
    }
}

static void
find_suspects(const struct roles *roles, struct scout_finding *finding)
{
    const struct graph *graph = roles->graph;
    for (uint32_t i = 0; i < graph->version_count; ++i) {
        const struct graph_version *version = version_of(roles, i);
        const struct scout_op *op = graph_op(graph, version);
        if (!roles->parameter[i] || op == NULL || op->kind != SCOUT_LAUNCH)
            continue;
        const struct scout_argument *place = version_argument(roles, version, op);
        for (uint32_t k = 0; place != NULL && k < roles->graph->period; ++k)
            if (graph->log->ops[graph->first + k].kind == SCOUT_LAUNCH &&
                graph->log->ops[graph->first + k].name == op->name)
                suspect_beside(roles, finding, place, &graph->log->ops[graph->first + k], k);
    }
}

/* How a suspect is written: by an operation that reads gradients, as parameters are; of its own old value, as these or
 * the cell of a net. */
static void
note_writing(const struct roles *roles, uint32_t number, struct scout_tensor *tensor)
{
    const struct graph_version *version = version_of(roles, number);
    tensor->grows = tensor->grows || stays_from_itself(roles, number);
    FOR_EACH_IN(edge, roles, number) {
        bool is_own = version_overlaps(version_of(roles, edge->from), version);
        tensor->updated = tensor->updated || roles->gradient[edge->from];
        tensor->grows = tensor->grows || (is_own && (edge->elementwise || version->bytes <= ELEMENT_BYTES));
    }
}

/* Whether what comes from itself feeds back by several changes in a period, or leads, not element by element, to one
 * parameter of as many bytes. */
static bool
may_be_trained(const struct roles *roles, uint32_t number)
{
    uint32_t parameter;
    if (roles->carried[number] || !stays_from_itself(roles, number))
        return false;
    return stays_feeds_back(roles, number, false) ||
           (elementwise_parameters_behind(roles, number, &parameter) == 1 &&
            version_of(roles, parameter)->bytes == version_of(roles, number)->bytes);
}

enum roles_verdict
states_find(const struct roles *roles, struct scout_finding *finding)
{
    for (uint32_t i = 0; i < roles->graph->version_count; ++i) {
        if (!roles->persistent[i] || roles->parameter[i] || roles->source[i])
            continue;
        const struct graph_version *version = version_of(roles, i);
        enum scout_role role = role_of_state(roles, i);
        char place[64], name[SCOUT_NAME_BYTES];
        if (role == ROLE_RANDOM && is_cleared(roles, finding, i))
            continue;
        bool updates = ANY_NUMBER(k, 0, roles->graph->version_count, /* its operation a parameter, too */
                                  roles->parameter[k] && version_of(roles, k)->op == version->op);
        if ((role == ROLE_SUSPECT && updates) ||
            ((role == ROLE_CARRIED || role == ROLE_SUSPECT) && may_be_trained(roles, i)))
            return note_refuse(
                finding, ROLES_REFUSED,
                "scout cannot tell whether %s, written by %s, is a parameter: it finds no gradient of it",
                version_place(roles, i, place), version_op_name(roles, i, name));
        if (role == ROLE_SUSPECT && version_own_edge(roles, i, false) != NULL)
            note_add(finding,
                     "%s computes %s from its old value and from data in one launch: if this memory is a parameter, "
                     "annotate it, and call DDP_STEP_PARAMETERS after the launch",
                     version_op_name(roles, i, name), version_place(roles, i, place));
        uint32_t at =
            gradients_add_tensor(finding, role, version_alloc(roles, i), (struct scout_range){version->lo, version->hi},
                                 version->type, partner_of(finding, roles, i), gradients_log_op(roles, i));
        if (role == ROLE_SUSPECT)
            note_writing(roles, i, &finding->tensors[at]);
    }
    find_suspects(roles, finding);
    return ROLES_FOUND;
}
