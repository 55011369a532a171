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
version_own_edge(const struct graph_version *version, bool elementwise)
{
    const struct graph_edge *own = NULL;
    FOR_EACH_IN(edge, version)
        if (edge->elementwise == elementwise && version_overlaps(edge->from, version))
            own = edge;
    return own;
}

const struct scout_argument *
version_argument(const struct graph *graph, const struct graph_version *version, const struct scout_op *op)
{
    return FIND(it, op->arguments, op->argument_count,
                graph->memory_of[it->alloc] == (uint32_t)version->memory && it->offset <= version->lo &&
                    it->end >= version->hi);
}

const char *
version_op_name(const struct graph *graph, const struct graph_version *version, char text[SCOUT_NAME_BYTES])
{
    const struct scout_op *op = graph_op(graph, version);
    if (op == NULL)
        snprintf(text, SCOUT_NAME_BYTES, "what was there before");
    else
        (void)scout_op_name(graph->log, op, text);
    return text;
}

uint32_t
version_alloc(const struct graph *graph, const struct graph_version *version)
{
    return version->memory == HOST_MEMORY ? SCOUT_NONE : graph->memories[version->memory].alloc;
}

const char *
version_place(const struct graph *graph, const struct graph_version *version, char text[64])
{
    if (version->memory == HOST_MEMORY)
        return memcpy(text, "host memory", sizeof("host memory"));
    return scout_tensor_place(
        &(struct scout_tensor){.alloc = version_alloc(graph, version), .lo = version->lo, .hi = version->hi}, text);
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
