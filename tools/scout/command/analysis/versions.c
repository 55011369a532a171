/*
 * versions.c - the places and names of versions, for texts.
 */
#include "tools/scout/command/analysis/rules.h"

#include <inttypes.h>
#include <stdio.h>

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
        snprintf(text, 64, "host memory");
    else
        snprintf(text, 64, "a%" PRIu32 "[%" PRIu64 ":%" PRIu64 "]", version_alloc(roles, number), version->lo,
                 version->hi);
    return text;
}
