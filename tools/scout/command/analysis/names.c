/*
 * names.c - how roles, types and versions are called, and where they lie; what a finding says: notes, and the reason of
 * a refusal.
 */
#include "tools/scout/command/analysis/rules.h"

#include "base/printable.h"
#include "tools/common/grown.h"

const char *
scout_role_name(enum scout_role role)
{
    static const char *const names[] = {
        [ROLE_PARAMETER] = "parameter",    [ROLE_GRADIENT] = "gradient",     [ROLE_OPTIMIZER_STATE] = "optimizer state",
        [ROLE_AVERAGE] = "moving average", [ROLE_STATISTICS] = "statistics", [ROLE_CARRIED] = "carried state",
        [ROLE_RANDOM] = "random state",    [ROLE_SUSPECT] = "suspect"};
    return names[role];
}

const char *
scout_type_name(uint32_t type)
{
    static const char *const names[] = {"unknown", "float32", "float64", "float16", "bfloat16", "integer"};
    return type < sizeof(names) / sizeof(*names) ? names[type] : names[0];
}

uint32_t
scout_type_bytes(uint32_t type)
{
    static const uint32_t bytes[] = {0, 4, 8, 2, 2, 4};
    return type < sizeof(bytes) / sizeof(*bytes) ? bytes[type] : 0;
}

const char *
scout_op_name(const struct scout_log *log, const struct scout_op *op, char text[SCOUT_NAME_BYTES])
{
    const char *what = op->kind == SCOUT_FILL   ? "a fill"
                       : op->kind == SCOUT_COPY ? (op->from.alloc == SCOUT_NONE ? "a copy from the host"
                                                   : op->to.alloc == SCOUT_NONE ? "a copy to the host"
                                                                                : "a copy")
                                                : "a launch";
    if (op->kind != SCOUT_LAUNCH || op->name == SCOUT_NONE)
        snprintf(text, SCOUT_NAME_BYTES, "%s", what);
    else
        (void)plain_name(scout_log_name(log, op->name), text, SCOUT_NAME_BYTES);
    return text;
}

const char *
scout_tensor_place(const struct scout_tensor *tensor, char text[64])
{
    snprintf(text, 64, "a%u[%llu:%llu]", tensor->alloc, (unsigned long long)tensor->lo, (unsigned long long)tensor->hi);
    return text;
}

bool
scout_is_in_gradient(const struct scout_finding *finding, const struct scout_tensor *tensor)
{
    return ANY(other, finding->tensors, finding->tensor_count,
               other->role == ROLE_GRADIENT && other->alloc == tensor->alloc && other->lo < tensor->hi &&
                   tensor->lo < other->hi);
}

const struct graph_edge *
version_own_edge(const struct roles *roles, uint32_t number, bool elementwise)
{
    const struct graph_edge *own = NULL;
    FOR_EACH_IN(edge, roles, number) {
        if (edge->elementwise == elementwise &&
            version_overlaps(version_of(roles, edge->from), version_of(roles, number)))
            own = edge;
    }
    return own;
}

const struct scout_argument *
version_argument(const struct roles *roles, const struct graph_version *version, const struct scout_op *op)
{
    FOR_EACH(it, op->arguments, op->argument_count)
        if (roles->graph->memory_of[it->alloc] == (uint32_t)version->memory && it->offset <= version->lo &&
            it->end >= version->hi)
            return it;
    return NULL;
}

const char *
version_op_name(const struct roles *roles, uint32_t number, char text[SCOUT_NAME_BYTES])
{
    const struct scout_op *op = graph_op(roles->graph, version_of(roles, number));
    if (op == NULL)
        snprintf(text, SCOUT_NAME_BYTES, "what was there before");
    else
        (void)scout_op_name(roles->graph->log, op, text);
    return text;
}

uint32_t
version_alloc(const struct roles *roles, uint32_t number)
{
    int32_t memory = version_of(roles, number)->memory;
    return memory == HOST_MEMORY ? SCOUT_NONE : roles->graph->memories[memory].alloc;
}

const char *
version_place(const struct roles *roles, uint32_t number, char text[64])
{
    const struct graph_version *version = version_of(roles, number);
    if (version->memory == HOST_MEMORY)
        return memcpy(text, "host memory", sizeof("host memory"));
    return scout_tensor_place(
        &(struct scout_tensor){.alloc = version_alloc(roles, number), .lo = version->lo, .hi = version->hi}, text);
}

void
note_take(struct scout_finding *finding, char *text)
{
    if (ALL(note, finding->notes, finding->note_count, strcmp(*note, text) != 0))
        *GROWN(finding->notes, finding->note_count) = text;
    else
        free(text);
}

enum roles_verdict
note_take_reason(struct scout_finding *finding, enum roles_verdict verdict, char *reason)
{
    free(finding->reason);
    finding->reason = reason;
    return verdict;
}
