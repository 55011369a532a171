/*
 * names.c - how roles and types are called.
 */
#include "launcher/scout/analysis/finding.h"

const char *
scout_role_name(enum scout_role role)
{
    static const char *const names[] = {
        [ROLE_PARAMETER] = "parameter",    [ROLE_GRADIENT] = "gradient",     [ROLE_OPTIMIZER_STATE] = "optimizer state",
        [ROLE_AVERAGE] = "moving average", [ROLE_STATISTICS] = "statistics", [ROLE_CARRIED] = "carried state",
        [ROLE_RANDOM] = "random state"};
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
