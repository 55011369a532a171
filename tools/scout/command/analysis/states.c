/*
 * states.c - what stays beside parameters: which state it is.
 */
#include "tools/scout/command/analysis/rules.h"

#include "tools/common/owned.h"

/* Whether a version is computed from what was in its place before the period. */
static bool
is_from_itself(const struct graph *graph, const struct graph_version *version)
{
    OWNED bool *reached = sources_of(graph, version, true);
    return reached[version->number];
}

/* Whether a version is a gradient, or another sum, that was set to zero for the next step: the same on all ranks. */
static bool
is_cleared(const struct graph *graph, const struct scout_finding *finding, const struct graph_version *version)
{
    const struct scout_op *op = graph_op(graph, version);
    return (op != NULL && op->kind == SCOUT_FILL) ||
           ANY(tensor, finding->tensors, finding->tensor_count,
               tensor->role == ROLE_GRADIENT && tensor->alloc == version_alloc(graph, version) &&
                   tensor->lo <= version->lo && version->hi <= tensor->hi);
}

/* The role of memory that stays from step to step and is no parameter, by what it is computed from and what it leads
 * to. */
static enum scout_role
role_of_state(const struct graph *graph, const struct graph_version *version)
{
    if (!version->tainted && version->type == SCOUT_INTEGER && !is_from_itself(graph, version))
        return ROLE_STATISTICS; /* indices, as of a pooling: other data did not change them while they were looked at */
    bool gradients = refusals_leads_to_gradients(graph, version), on = refusals_leads_on(graph, version);
    if (!version->tainted)
        return gradients || !on ? ROLE_RANDOM : ROLE_OPTIMIZER_STATE;
    if (version->carried || version->past) {
        /* harmless only if that is known: with other contents no parameter and no gradient is another one */
        bool leads = gradients || on;
        bool is_safe = !leads || version->type == SCOUT_INTEGER;
        if (!is_safe)
            return ROLE_SUSPECT;
        return leads || version->carried ? ROLE_CARRIED : ROLE_STATISTICS;
    }
    return on ? ROLE_OPTIMIZER_STATE : ROLE_AVERAGE;
}

/* The parameter that this state and the gradient of which it is computed belong to. */
static uint32_t
partner_of(const struct scout_finding *finding, const struct graph *graph, const struct graph_version *version)
{
    FOR_EACH(tensor, finding->tensors, finding->tensor_count) {
        if (tensor->role == ROLE_PARAMETER && tensor->writer == gradients_log_op(graph, version) &&
            (tensor->hi - tensor->lo) * scout_type_bytes(version->type) ==
                version->bytes * scout_type_bytes(tensor->type))
            return NUMBER_OF(tensor);
    }
    return PAIR_NONE;
}

/* Whether a place stays as it is in the period, but for what is computed element by element from it. */
static bool
is_kept(const struct graph *graph, uint32_t memory, uint64_t lo)
{
    return !ANY_VERSION(it, graph,
                        it->period == 0 && it->memory == (int32_t)memory && it->lo <= lo && it->hi > lo &&
                            version_own_edge(it, true) == NULL);
}

/* Whether a tensor of the finding holds this byte; statistics and random state only if `per_rank`. */
static bool
has_place(const struct scout_finding *finding, uint32_t alloc, uint64_t lo, bool per_rank)
{
    return ANY(tensor, finding->tensors, finding->tensor_count,
               tensor->alloc == alloc && tensor->lo <= lo && tensor->hi > lo &&
                   (per_rank || (tensor->role != ROLE_STATISTICS && tensor->role != ROLE_RANDOM)));
}

/* The argument of the operation in which the tensor lies; NULL: none. */
static const struct scout_argument *
argument_of(const struct graph *graph, const struct scout_op *op, const struct scout_tensor *tensor)
{
    const uint32_t *memory_of = graph->memory_of;
    return FIND(it, op->arguments, op->argument_count,
                memory_of[it->alloc] == memory_of[tensor->alloc] && it->offset <= tensor->lo && it->end >= tensor->hi);
}

/* The argument of another launch that stands where `place` stands in its own; NULL: there is none. */
static const struct scout_argument *
argument_like(const struct scout_op *op, const struct scout_argument *place)
{
    return place == NULL
               ? NULL
               : FIND(it, op->arguments, op->argument_count, it->slot == place->slot && it->byte == place->byte);
}

/* A launch of the kernel that updates a parameter gets other memory in the parameter's place, which is none: where no
 * gradient flows, as in a layer whose units are dead, it may be one. It is one if memory of as many bytes, which the
 * kernel of the parameter's gradient writes, is in that gradient's place: the errors of a bias that cancel out. */
static void
suspect_beside(const struct graph *graph, struct scout_finding *finding, struct scout_tensor parameter, uint32_t number)
{
    const struct scout_op *ops = graph->log->ops, *update = &ops[parameter.writer], *op = &ops[number];
    const struct scout_argument *it = argument_like(op, argument_of(graph, update, &parameter)), *from = NULL;
    if (it == NULL)
        return;
    uint32_t memory = graph->memory_of[it->alloc], alloc = graph->memories[memory].alloc;
    if (has_place(finding, alloc, it->offset, false) || !is_kept(graph, memory, it->offset))
        return;
    bool is_new = !has_place(finding, alloc, it->offset, true);
    const struct scout_tensor *known = is_new && parameter.pair != PAIR_NONE ? &finding->tensors[parameter.pair] : NULL;
    from = known != NULL ? argument_like(op, argument_of(graph, update, known)) : NULL;
    FOR_EACH_MUTABLE(tensor, finding->tensors, from != NULL ? finding->tensor_count : 0) {
        const bool is_there = tensor->role == ROLE_STATISTICS && tensor->lo == from->offset && tensor->hi == from->end;
        const bool is_as_large = tensor->hi - tensor->lo == it->end - it->offset;
        const bool is_computed_so = tensor->writer < number && ops[tensor->writer].name == ops[known->writer].name;
        if (!is_there || !is_as_large || !is_computed_so || argument_of(graph, op, tensor) != from)
            continue;
        uint32_t gradient = NUMBER_OF(tensor);
        uint32_t at = gradients_add_tensor(finding, ROLE_PARAMETER, alloc, (struct scout_range){it->offset, it->end},
                                           SCOUT_UNKNOWN, gradient, number);
        finding->tensors[gradient].role = ROLE_GRADIENT;
        finding->tensors[gradient].pair = at;
        return;
    }
    if (is_new)
        (void)gradients_add_tensor(finding, ROLE_SUSPECT, alloc, (struct scout_range){it->offset, it->end},
                                   SCOUT_UNKNOWN, PAIR_NONE, number);
    FOR_EACH_MUTABLE(tensor, finding->tensors, finding->tensor_count)
        if (tensor->alloc == alloc && tensor->lo <= it->offset && tensor->hi > it->offset) {
            tensor->role = ROLE_SUSPECT;
            tensor->updated = true;
        }
}

/* Looks, beside each parameter's update, for other launches of the same kernel, whose memory may be trained unseen. */
static void
find_suspects(const struct graph *graph, struct scout_finding *finding)
{
    const struct scout_op *ops = graph->log->ops;
    for (uint32_t i = 0, count = finding->tensor_count; i < count; ++i)
        for (uint32_t k = graph->first; k < graph->first + graph->period; ++k)
            if (finding->tensors[i].role == ROLE_PARAMETER && ops[k].kind == SCOUT_LAUNCH &&
                ops[k].name == ops[finding->tensors[i].writer].name)
                suspect_beside(graph, finding, finding->tensors[i], k);
}

/* Whether all that a place becomes in the period is computed from copies from the host, from what no operation writes,
 * and from what was in the place before: counts of labels, or the range of the inputs. */
static bool
is_of_inputs(const struct graph *graph, const struct graph_version *version)
{
    OWNED bool *marks = xcalloc(graph->version_count + 1, sizeof(*marks));
    bool is_all = true;
    FOR_EACH_VERSION(it, graph) {
        const bool is_here = version_overlaps(it, version);
        bool begins = it->from_host || it->constant || (it->op == VERSION_BEFORE && is_here);
        bool follows = it->op >= 0 && !it->unsure && ALL_IN(edge, it, marks[edge->from->number]);
        marks[it->number] = begins || follows;
        is_all = is_all && (!is_here || !version_in_period(it) || marks[it->number]);
    }
    return is_all;
}

/* How a suspect is written: by an operation that reads gradients, as parameters are; of its own old value, as these or
 * the cell of a net. */
static void
note_writing(const struct graph *graph, const struct graph_version *version, struct scout_tensor *tensor)
{
    tensor->grows = tensor->grows || stays_from_itself(graph, version);
    FOR_EACH_IN(edge, version) {
        bool is_own = version_overlaps(edge->from, version);
        tensor->updated = tensor->updated || edge->from->gradient;
        tensor->grows = tensor->grows || (is_own && (edge->elementwise || version->bytes <= ELEMENT_BYTES));
    }
}

/* Whether what comes from itself feeds back by several changes in a period, or leads, not element by element, to one
 * parameter of as many bytes. */
static bool
may_be_trained(const struct graph *graph, const struct graph_version *version)
{
    const struct graph_version *parameter;
    if (version->carried || !stays_from_itself(graph, version))
        return false;
    return stays_feeds_back(graph, version, false) ||
           (elementwise_parameters_behind(graph, version, &parameter) == 1 && parameter->bytes == version->bytes);
}

enum roles_verdict
states_find(const struct graph *graph, struct scout_finding *finding)
{
    FOR_EACH_VERSION(version, graph) {
        if (!version->persistent || version->parameter || version->source)
            continue;
        enum scout_role role = role_of_state(graph, version);
        char place[64], name[SCOUT_NAME_BYTES];
        if (role == ROLE_RANDOM && is_cleared(graph, finding, version))
            continue;
        (void)version_place(graph, version, place);
        (void)version_op_name(graph, version, name);
        bool updates =
            ANY_VERSION(it, graph, it->parameter && it->op == version->op); /* its operation a parameter, too */
        if ((role == ROLE_SUSPECT && updates) ||
            ((role == ROLE_CARRIED || role == ROLE_SUSPECT) && may_be_trained(graph, version)))
            return note_refuse(
                finding, ROLES_REFUSED,
                "scout cannot tell whether %s, written by %s, is a parameter: it finds no gradient of it", place, name);
        if (role == ROLE_SUSPECT && version_own_edge(version, false) != NULL)
            note_add(finding,
                     "%s computes %s from its old value and from data in one launch: if this memory is a parameter, "
                     "annotate it, and call DDP_STEP_PARAMETERS after the launch",
                     name, place);
        uint32_t at = gradients_add_tensor(finding, role, version_alloc(graph, version),
                                           (struct scout_range){version->lo, version->hi}, version->type,
                                           partner_of(finding, graph, version), gradients_log_op(graph, version));
        if (role != ROLE_SUSPECT)
            continue;
        note_writing(graph, version, &finding->tensors[at]);
        finding->tensors[at].of_inputs = is_of_inputs(graph, version);
    }
    find_suspects(graph, finding);
    return ROLES_FOUND;
}
