/*
 * states.c - what stays beside parameters: which state it is.
 */
#include "launcher/tools/scout/analysis/rules.h"

#include "base/mutant.h"

/* What stays and differs between ranks is shown as harmless only if it is known to be: with other contents no parameter
 * and no gradient is another one. Whole numbers are none. */
static enum scout_role
role_of_own(const struct roles *roles, uint32_t number)
{
    bool leads = refusals_leads_to_gradients(roles, number) || refusals_leads_on(roles, number);
    bool is_safe = !leads || version_of(roles, number)->type == SCOUT_INTEGER || MUTANT(SCOUT_SUSPECTS_TRUSTED);
    return !is_safe ? ROLE_SUSPECT : leads || roles->carried[number] ? ROLE_CARRIED : ROLE_STATISTICS;
}

static enum scout_role
role_of_state(const struct roles *roles, uint32_t number)
{
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
    for (uint32_t t = 0; t < finding->tensor_count; ++t) {
        const struct scout_tensor *tensor = &finding->tensors[t];
        if (tensor->role == ROLE_PARAMETER && tensor->writer == gradients_log_op(roles, number) &&
            (tensor->hi - tensor->lo) * scout_type_bytes(version_of(roles, number)->type) ==
                version_of(roles, number)->bytes * scout_type_bytes(tensor->type))
            return t;
    }
    return PAIR_NONE;
}

/* A parameter that the operation of a version updates, too; UINT32_MAX: there is none. */
static uint32_t
parameter_beside(const struct roles *roles, uint32_t number)
{
    for (uint32_t i = 0; i < roles->graph->version_count; ++i)
        if (roles->parameter[i] && version_of(roles, i)->op == version_of(roles, number)->op)
            return i;
    return UINT32_MAX;
}

enum roles_verdict
states_find(const struct roles *roles, struct scout_finding *finding)
{
    for (uint32_t i = 0; i < roles->graph->version_count; ++i) {
        if (!roles->persistent[i] || roles->parameter[i] || roles->source[i])
            continue;
        const struct graph_version *version = version_of(roles, i);
        enum scout_role role = role_of_state(roles, i);
        char place[64], other[64], name[SCOUT_NAME_BYTES];
        uint32_t parameter;
        bool carried = role == ROLE_CARRIED || role == ROLE_SUSPECT;
        if (carried && !roles->carried[i] && stays_from_itself(roles, i) && stays_feeds_back(roles, i, false))
            return note_refuse(
                finding, ROLES_REFUSED,
                "%s, written by %s, changes several times in a period, and whether it is a parameter cannot "
                "be told: it has no gradient of its own",
                version_place(roles, i, place), version_op_name(roles, i, name));
        if (carried && !roles->carried[i] && stays_from_itself(roles, i) &&
            elementwise_parameters_behind(roles, i, &parameter) == 1 &&
            version_of(roles, parameter)->bytes == version->bytes)
            return note_refuse(
                finding, ROLES_REFUSED,
                "parameter %s is updated by %s, not element by element, from state %s: it has no gradient of "
                "its own",
                version_place(roles, parameter, other), version_op_name(roles, parameter, name),
                version_place(roles, i, place));
        parameter = parameter_beside(roles, i);
        if (role == ROLE_SUSPECT && parameter != UINT32_MAX)
            return note_refuse(finding, ROLES_REFUSED,
                               "%s updates parameter %s, and %s, of which it cannot be told whether it is a parameter: "
                               "gradients are computed from it, and it has none of its own",
                               version_op_name(roles, i, name), version_place(roles, parameter, other),
                               version_place(roles, i, place));
        (void)gradients_add_tensor(finding, &(struct scout_tensor){.role = role,
                                                                   .alloc = version_alloc(roles, i),
                                                                   .lo = version->lo,
                                                                   .hi = version->hi,
                                                                   .type = version->type,
                                                                   .pair = partner_of(finding, roles, i),
                                                                   .group = GROUP_NONE,
                                                                   .writer = gradients_log_op(roles, i)});
    }
    return ROLES_FOUND;
}
