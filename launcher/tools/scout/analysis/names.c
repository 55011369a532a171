/*
 * names.c - how roles and types are called.
 */
#include "launcher/tools/scout/analysis/finding.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* The last of the names in a name of C++ as the linker knows it (Itanium C++ ABI, 5.1): _Z3sgdPf, _ZN3net3sgdEPf. */
static void
plain_name(const char *linked, char text[SCOUT_NAME_BYTES])
{
    snprintf(text, SCOUT_NAME_BYTES, "%s", linked);
    if (strncmp(linked, "_Z", 2) != 0)
        return;
    const char *at = linked + 2 + strcspn(linked + 2, "0123456789");
    while (*at >= '1' && *at <= '9') {
        char *name;
        unsigned long length = strtoul(at, &name, 10);
        if (length > strlen(name))
            return;
        snprintf(text, SCOUT_NAME_BYTES, "%.*s", (int)(length < SCOUT_NAME_BYTES ? length : SCOUT_NAME_BYTES), name);
        at = name + length;
    }
}

const char *
scout_op_name(const struct scout_log *log, const struct scout_op *op, char text[SCOUT_NAME_BYTES])
{
    const char *what = op->kind == SCOUT_FILL    ? "a fill"
                       : op->kind == SCOUT_GRAPH ? "a graph"
                       : op->kind == SCOUT_COPY  ? (op->from.alloc == SCOUT_NONE ? "a copy from the host"
                                                    : op->to.alloc == SCOUT_NONE ? "a copy to the host"
                                                                                 : "a copy")
                                                 : "a launch";
    if ((op->kind != SCOUT_LAUNCH && op->kind != SCOUT_GRAPH) || op->name == SCOUT_NONE)
        snprintf(text, SCOUT_NAME_BYTES, "%s", what);
    else
        plain_name(scout_log_name(log, op->name), text);
    return text;
}
