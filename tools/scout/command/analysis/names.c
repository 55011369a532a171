/*
 * names.c - how roles, types, operations and tensors are called; what a finding says: notes, and the reason of a
 * refusal.
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
        [ROLE_RANDOM] = "random state",    [ROLE_INPUT] = "random input",    [ROLE_SUSPECT] = "suspect"};
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

/* What an operation without a name is. */
static const char *
kind_name(const struct scout_op *op)
{
    if (op->kind == SCOUT_FILL)
        return "a fill";
    if (op->kind != SCOUT_COPY)
        return "a launch";
    if (op->from.alloc == SCOUT_NONE)
        return "a copy from the host";
    return op->to.alloc == SCOUT_NONE ? "a copy to the host" : "a copy";
}

const char *
scout_op_name(const struct scout_log *log, const struct scout_op *op, char text[SCOUT_NAME_BYTES])
{
    if (op->kind != SCOUT_LAUNCH || op->name == SCOUT_NONE)
        snprintf(text, SCOUT_NAME_BYTES, "%s", kind_name(op));
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
