/*
 * insert.h - the lines that annotate a program, each with the place in its source.
 */
#ifndef DDPRUN_TOOLS_SCOUT_COMMAND_REPORT_INSERT_H
#define DDPRUN_TOOLS_SCOUT_COMMAND_REPORT_INSERT_H

#include "tools/scout/command/analysis/finding.h"
#include "tools/scout/command/report/site.h"

#include <stdbool.h>
#include <stdint.h>

struct insertion {
    char *file;
    int line;   /* the text goes in front of this line */
    char *text; /* without indentation and the last line's end */
};

struct insertions {
    struct insertion *items; /* by file and line; those of one line in their order */
    uint32_t count;
    bool *placed;       /* [tensor_count]: has a line */
    bool *placed_steps; /* [group_count] */
    uint32_t open_copy; /* an operation that brings data and has no line; SCOUT_NONE */
};

/* Looks the places up in debug information and in the sources, as far as there are any. */
void insertions_find(struct sites *sites, const struct scout_log *log, const struct scout_finding *finding,
                     struct insertions *insertions);
void insertions_free(struct insertions *insertions);

/* Whether a tensor has an annotation of its own. */
bool insertions_wants(const struct scout_finding *finding, const struct scout_tensor *tensor);

#endif
